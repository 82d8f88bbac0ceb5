"""Turns rows into figures: medians, ratios, targets, as aligned text or as Markdown."""

import dataclasses
import statistics

import targets
from libraries import CEILINGS, OWN, PEER_NAMES

# A row is disturbed if other processes used more than this many processors, or if the time that a cache line takes
# between the ranks' processors differed by more than this factor from the usual: the placement of virtual processors
# changes for seconds at a time (one core, two cores near each other, two cores far from each other).
QUIET = 0.15
PLACE = 1.5
# A share of the time of the best setting with undisturbed rows: a setting without such rows that was faster than this
# counts as better.
QUIET_SETTING = 0.8
# What the tables say of a figure whose rows were all disturbed; without a mark, they say nothing.
MARK_WORDS = {"": "", "~": " (disturbed)", "?": " (moved)"}
MARK_NOTES = {
    "~": "(disturbed): other programs ran during all rows of a library, so the fastest batches are compared",
    "?": "(moved): the virtual processors also lay at another distance than in other rows; this figure means little",
}
TRANSPORT_WORDS = {"shm": "shared memory", "tcp": "TCP"}
# The sizes of a summary; those of its first column are the same case, since some runs begin at 4 B.
SUMMARY_SIZES = ((4, 8), (4 << 10,), (64 << 10,), (1 << 20,), (16 << 20,))


def size_text(size):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(micros):
    if micros is None:
        return "-"
    return f"{micros:.3f}" if micros < 1 else f"{micros:.2f}" if micros < 100 else f"{micros:.0f}"


def usual_line(rows):
    """The most common time of a cache line between the ranks, in nanoseconds; None if it was not measured."""
    lines = sorted(line for row in rows for line in row["line_ns"] if line > 0)
    if not lines:
        return None
    return max(lines, key=lambda line: sum(line / PLACE < other < line * PLACE for other in lines))


def loudness(row, usual):
    """0 for a reliable row; the larger, the worse."""
    return max(0.0, row["others"] - QUIET) + (0.0 if placed(row, usual) else 2.0)


def placed(row, usual):
    """Whether the placement of the ranks' processors was usual, before and after."""
    return not usual or all(line == 0 or usual / PLACE < line < usual * PLACE for line in row["line_ns"])


@dataclasses.dataclass
class Figure:
    """The result of a library in one case, with its best setting."""
    micros: float  # median over the undisturbed rows; if there are none, the floor
    floor: float  # the fastest batch of any row of the usual placement
    mark: str  # "", "~" if others disturbed all rows, "?" if the placement of the processors also differs
    setting: str
    rounds: dict  # round: microseconds, of undisturbed rows

    def text(self):
        return time_text(self.micros) + MARK_WORDS[self.mark]


def _figure(settings, usual):
    """settings: {name: rows} of one library in one case."""
    quiet = {}
    for setting, rows in settings.items():
        by_round = {row["round"]: row["median_us"] for row in rows if loudness(row, usual) == 0}
        if by_round:
            quiet[setting] = by_round
    there = [(row["min_us"], setting) for setting, rows in settings.items() for row in rows if placed(row, usual)]
    floor, of_floor = min(there or [(row["min_us"], setting) for setting, rows in settings.items() for row in rows])
    micros, best = min(((statistics.median(by_round.values()), setting) for setting, by_round in quiet.items()),
                       default=(float("inf"), None))
    # An undisturbed row of a poor setting says nothing about the library if the good one was always disturbed.
    if floor < QUIET_SETTING * micros and of_floor not in quiet:
        return Figure(floor, floor, "~" if there else "?", of_floor, {})
    return Figure(micros, floor, "", best, quiet[best])


def figures(rows):
    """{(operation, ranks, transport, bytes, dirty): {library: Figure}}. rows: as measure.py gives them.

    If others disturbed all rows of a library, its figure is its fastest batch in any row of the usual placement: a
    batch often fits between disturbances, and medians of noise are not comparable.
    """
    usual = usual_line(rows)
    cases = {}
    for row in rows:
        case = (row["operation"], row["ranks"], row["transport"], row["bytes"], row["dirty"])
        settings = cases.setdefault(case, {}).setdefault(row["library"], {})
        settings.setdefault(row["setting"], []).append(row)
    made = {case: {library: _figure(settings, usual) for library, settings in found.items()}
            for case, found in cases.items()}
    for case, found in made.items():
        untouched = made.get((*case[:4], False), {})
        for name in CEILINGS:
            if name in untouched:
                found.setdefault(name, untouched[name])  # measured once, for both
    return made


def ratio(own, other, extra=0.0):
    """The median over rounds of the ratio of own's time to the other's, and its mark. Uses the fastest batches if
    either has no undisturbed rows."""
    if own.mark or other.mark:
        return own.floor / (other.floor + extra), max(own.mark, other.mark, key=("", "~", "?").index)
    both = own.rounds.keys() & other.rounds.keys()
    if not both:
        return own.micros / (other.micros + extra), ""
    return statistics.median(own.rounds[number] / (other.rounds[number] + extra) for number in both), ""


def best_peer(found):
    return min((name for name in PEER_NAMES if name in found), key=lambda name: found[name].micros, default=None)


def named_ceiling(found, goal):
    return next((name for name in goal.ceilings if name in found), None)


@dataclasses.dataclass
class Verdict:
    """One case of Anello, compared with the best peer and the ceiling."""
    case: tuple
    own: str
    goal: targets.Goal
    figure: Figure
    peer: str = None
    peer_ratio: tuple = None  # ratio, mark
    ceiling: str = None
    ceiling_ratio: tuple = None
    within: float = None  # the ratio to the ceiling, and the time that may be added

    def peer_met(self):
        return None if self.goal.peer is None or not self.peer_ratio else self.peer_ratio[0] <= self.goal.peer

    def ceiling_met(self):
        return None if self.goal.ceiling is None or not self.ceiling_ratio else self.within <= self.goal.ceiling

    def met(self):
        """None if there is no target or no result. If the two disagree, the ceiling decides."""
        by_ceiling = self.ceiling_met()
        return by_ceiling if by_ceiling is not None else self.peer_met()


def verdicts(results, processors):
    made = []
    for case in sorted(results):
        operation, ranks, transport, size, dirty = case
        found = results[case]
        for own in OWN:
            if own not in found:
                continue
            goal = targets.goal(operation, ranks, transport, own, size, dirty, processors)
            verdict = Verdict(case, own, goal, found[own], best_peer(found), None, named_ceiling(found, goal))
            if verdict.peer:
                verdict.peer_ratio = ratio(found[own], found[verdict.peer])
            if verdict.ceiling:
                verdict.ceiling_ratio = ratio(found[own], found[verdict.ceiling])
                extra = goal.extra_us / (goal.ceiling or 1)
                verdict.within = ratio(found[own], found[verdict.ceiling], extra)[0]
            made.append(verdict)
    return made


def _judged(value, limit, met, extra=0.0):
    if value is None:
        return ["-", ""]
    plus = f" + {1000 * extra:.0f} ns" if extra else ""
    target = "" if limit is None else f"<= {limit:g}{plus} {'ok' if met else 'MISSED'}"
    return [f"{value[0]:.2f}{MARK_WORDS[value[1]]}", target]


def _groups(results):
    return sorted({case[:3] for case in results})


def title(operation, ranks, transport):
    what = "all-reduce in place, float32 sum" if operation == "allreduce" else operation
    return f"{what}, {ranks} ranks, {TRANSPORT_WORDS[transport]}, microseconds a call"


def buffer_text(dirty):
    return "rewritten" if dirty else "untouched"


def memory_text(own):
    return "mapped" if own == "Anello mapped" else "ordinary"


def row_text(case, own):
    """A case in words, without its size."""
    operation, ranks, transport, _, dirty = case
    memory = f", {memory_text(own)} buffers" if transport == "shm" else ""
    what = "all-reduce" if operation == "allreduce" else operation
    return f"{what}, {ranks} ranks, {TRANSPORT_WORDS[transport]}{memory}, {buffer_text(dirty)}"


SUMMARY_TITLE = "Anello's time divided by the fastest other library's in the same run; below 1.00, Anello is faster"


def summary_tables(made):
    """[(title, header, lines)], at most one: the ratio to the best peer; a line is a case, a column a size."""
    rows = {}
    for verdict in made:
        if verdict.peer_ratio:
            cells = rows.setdefault((verdict.case[:3], verdict.own, verdict.case[4]), {})
            cells[verdict.case[3]] = verdict
    measured = {size for cells in rows.values() for size in cells}
    columns = [there for sizes in SUMMARY_SIZES if (there := [size for size in sizes if size in measured])]
    columns = columns or [[size] for size in sorted(measured)]
    lines = []
    for _, cells in sorted(rows.items()):
        found = [next((cells[size] for size in reversed(sizes) if size in cells), None) for sizes in columns]
        some = next(iter(cells.values()))
        if any(found):
            cells = [_judged(item and item.peer_ratio, None, None)[0] for item in found]
            lines.append([row_text(some.case, some.own), *cells])
    header = ["case", *(" or ".join(map(size_text, sizes)) for sizes in columns)]
    return [(SUMMARY_TITLE, header, lines)] if lines else []


HEADER = ["size", "buffer", "memory", "Anello", "best other library", "which, and its setting", "Anello / other",
          "target", "hand-written program", "which", "Anello / program", "target"]
WORDS = {1, 2, 5, 7, 9, 11}  # columns of text

NOTES = [
    "untouched: calls follow each other on an unchanged buffer; rewritten: each rank rewrites its buffer before each "
    "call, and that time is subtracted",
    "ordinary: malloc'ed memory; mapped: memory of anello_mem_alloc; other libraries have the same figures for both",
    "the hand-written programs show what the machine allows; bench/compare/README.md describes each (Ceilings)",
    "where the two targets of a line disagree, that of the hand-written program decides; -: not measured",
]


def notes(results, made):
    """What a reader of the tables has to know, as sentences."""
    marks = {figure.mark for found in results.values() for figure in found.values()}
    marks |= {ratio[1] for verdict in made for ratio in (verdict.peer_ratio, verdict.ceiling_ratio) if ratio}
    return NOTES + [text for mark, text in MARK_NOTES.items() if mark in marks]


def verdict_tables(results, made):
    """[(title, header, lines)]: Anello compared with the best peer and the ceiling."""
    tables = []
    for group in _groups(results):
        lines = []
        for verdict in (item for item in made if item.case[:3] == group):
            found, goal = results[verdict.case], verdict.goal
            peer, ceiling = verdict.peer, verdict.ceiling
            lines.append([
                size_text(verdict.case[3]), buffer_text(verdict.case[4]), memory_text(verdict.own),
                verdict.figure.text(),
                found[peer].text() if peer else "-", f"{peer} ({found[peer].setting})" if peer else "",
                *_judged(verdict.peer_ratio, goal.peer, verdict.peer_met()),
                found[ceiling].text() if ceiling else "-", f"{ceiling} ({found[ceiling].setting})" if ceiling else "",
                *_judged(verdict.ceiling_ratio, goal.ceiling, verdict.ceiling_met(), goal.extra_us)])
        if lines:
            tables.append((title(*group), HEADER, lines))
    return tables


def library_tables(results):
    """[(title, header, lines)]: the times of all measurements."""
    tables = []
    for group in _groups(results):
        cases = [case for case in sorted(results) if case[:3] == group]
        names = [name for name in (*OWN, *PEER_NAMES, *CEILINGS) if any(name in results[case] for case in cases)]
        lines = [[size_text(case[3]), buffer_text(case[4]),
                  *(results[case][name].text() if name in results[case] else "-" for name in names)] for case in cases]
        tables.append((title(*group) + ", everything measured", ["size", "buffer", *names], lines))
    return tables


def missed(made):
    """Lines about missed targets."""
    lines = []
    for verdict in made:
        if verdict.met() is not False:
            continue
        _, ranks, transport, size, dirty = verdict.case
        what = f"{verdict.peer_ratio[0]:.2f} of {verdict.peer}, at most {verdict.goal.peer:g}" if verdict.peer_ratio else ""
        if verdict.ceiling_met() is False:
            what = (f"{verdict.ceiling_ratio[0]:.2f} of the hand-written program {verdict.ceiling}, "
                    f"at most {verdict.goal.ceiling:g}")
        lines.append(f"{verdict.case[0]}, {ranks} ranks, {transport}, {size_text(size)}, "
                     f"{buffer_text(dirty)}, {verdict.own}: {what}")
    return lines


def _aligned(header, lines):
    """The cells, padded to the width of their column."""
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    left = WORDS if header is HEADER else {0} if header[0] == "case" else {1}
    return [[cell.ljust(widths[i]) if i in left else cell.rjust(widths[i]) for i, cell in enumerate(line)]
            for line in [header, *lines]]


def as_text(title, header, lines):
    return "\n".join([title, *("  ".join(row).rstrip() for row in _aligned(header, lines))])


def as_markdown(title, header, lines):
    rows = _aligned(header, lines)
    rows.insert(1, ["-" * max(3, len(cell)) for cell in rows[0]])
    return "\n".join([f"**{title}**", "", *("| " + " | ".join(row) + " |" for row in rows)])
