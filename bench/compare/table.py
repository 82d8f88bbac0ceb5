"""From rows to figures: medians, ratios, targets, as aligned text or as Markdown."""

import statistics

# A row is disturbed if other processes used more than this many processors, or if the time that a cache line takes
# between the ranks' processors differed by more than this factor from the usual: virtual processors change places for
# seconds at a time (one core, two cores near each other, two cores far from each other).
QUIET = 0.15
PLACE = 1.5

PEERS = ("Open MPI", "MPICH", "Gloo")

# Of the first release: time of Anello over the best peer's, at most.
TARGETS_OF_TWO = {8: 2.0, 4096: 2.0, 262144: 2.0, 16777216: 2.0, 268435456: 1.0}
TARGET_OF_EIGHT = 1.0


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
    """The commonest nanoseconds that a cache line takes between the ranks; None where it was not measured."""
    lines = sorted(line for row in rows for line in row["line_ns"] if line > 0)
    if not lines:
        return None
    return max(lines, key=lambda line: sum(line / PLACE < other < line * PLACE for other in lines))


def loudness(row, usual):
    """0 for a row to trust; else the more the worse."""
    return max(0.0, row["others"] - QUIET) + (0.0 if placed(row, usual) else 2.0)


def placed(row, usual):
    """Whether the ranks' processors lay as usual, before and after."""
    return not usual or all(line == 0 or usual / PLACE < line < usual * PLACE for line in row["line_ns"])


class Figure:
    """What a library reached in one case, with its best setting. mark: "" for undisturbed rows, "~" for the
    fastest batches of rows that others disturbed, "?" where the placement of the processors differs as well."""

    def __init__(self, micros, setting, mark):
        self.micros, self.setting, self.mark = micros, setting, mark

    def text(self):
        return time_text(self.micros) + self.mark


def figures(rows):
    """{(ranks, transport, bytes, dirty): {library: Figure}}. rows: as the loop wrote them, and setting names.

    Medians over the undisturbed rows. Where a library has none, every library's figure of that case is the fastest
    batch it had in any row of the usual placement: a batch often fits between what others do, and medians of noise do
    not compare. Where a library has none of those either, any row counts, and ratios mean little.
    """
    usual = usual_line(rows)
    cases = {}
    for row in rows:
        case = (row["ranks"], row["transport"], row["bytes"], row["dirty"])
        settings = cases.setdefault(case, {}).setdefault(row["library"], {})
        settings.setdefault(row["setting"], []).append(row)
    result = {}
    for case, libraries in cases.items():
        quiet = {library: {setting: calm for setting, measured in settings.items()
                           if (calm := [row["median_us"] for row in measured if loudness(row, usual) == 0])}
                 for library, settings in libraries.items()}
        loud = not all(quiet.values())
        there = all(any(placed(row, usual) for measured in settings.values() for row in measured)
                    for settings in libraries.values())
        result[case] = {}
        for library, settings in libraries.items():
            if loud:
                floors = [(row["min_us"], setting) for setting, measured in settings.items() for row in measured
                          if placed(row, usual) or not there]
                micros, best = min(floors)
                result[case][library] = Figure(micros, best, "~" if there else "?")
            else:
                medians = [(statistics.median(calm), setting) for setting, calm in quiet[library].items()]
                micros, best = min(medians)
                result[case][library] = Figure(micros, best, "")
    return result


def target(ranks, size, processors):
    if ranks == 2:
        return TARGETS_OF_TWO.get(size)
    return TARGET_OF_EIGHT if ranks == 8 and processors == 2 else None


def tables(results, processors):
    """[(title, header, lines, missed)], one for each number of ranks and transport."""
    made = []
    for ranks, transport in sorted({case[:2] for case in results}, key=lambda pair: (pair[0], pair[1])):
        peers = [peer for peer in PEERS if any(peer in found for case, found in results.items()
                                               if case[:2] == (ranks, transport))]
        header = ["bytes", "buffer", "Anello", *peers, *(f"/{peer}" for peer in peers), "best peer", "/best", "target"]
        lines, missed = [], []
        for case in sorted(case for case in results if case[:2] == (ranks, transport)):
            found = results[case]
            own = found.get("Anello")
            best = min((peer for peer in peers if peer in found), key=lambda peer: found[peer].micros, default=None)
            goal = target(ranks, case[2], processors)
            line = [size_text(case[2]), "dirty" if case[3] else "untouched", own.text() if own else "-"]
            line += [found[peer].text() if peer in found else "-" for peer in peers]
            line += [f"{own.micros / found[peer].micros:.2f}" if own and peer in found else "-" for peer in peers]
            line.append(f"{best} ({found[best].setting})" if best else "-")
            ratio = own.micros / found[best].micros if own and best else None
            line.append(f"{ratio:.2f}" if ratio is not None else "-")
            verdict = "" if ratio is None or goal is None else " ok" if ratio <= goal else " MISSED"
            line.append("" if goal is None else f"<= {goal:.1f}{verdict}")
            if goal is not None and (ratio is None or ratio > goal):
                missed.append(f"{ranks} ranks, {transport}, {line[0]}, {line[1]}: "
                              + ("no figure" if ratio is None else f"{ratio:.2f}, at most {goal:.1f}"))
            lines.append(line)
        made.append((f"{ranks} ranks, {transport}: float32 sum in place, microseconds a call", header, lines, missed))
    return made


def as_text(title, header, lines):
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    left = {1, len(header) - 3, len(header) - 1}
    rows = ["  ".join(cell.ljust(widths[i]) if i in left else cell.rjust(widths[i]) for i, cell in enumerate(line))
            for line in [header, *lines]]
    return "\n".join([title, *(row.rstrip() for row in rows)])


def as_markdown(title, header, lines):
    rows = ["| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *lines]]
    return "\n".join([f"**{title}**", "", *rows])
