"""What came of PyTorch's suite, in lines for the terminal and as docs/pytorch-conformance.md."""

import collections
import re

KINDS = ("passed", "failed", "timed out", "skipped")
HEAD = """# PyTorch's DistributedTest over Anello

PyTorch tests its own backends with a suite that ships in its wheel, `torch.testing._internal.distributed.distributed_test`. This
page shows its results with torch {torch}, over `anello` and, for comparison, over PyTorch's `gloo`. This command wrote it,

    test/python/conformance.py --markdown docs/pytorch-conformance.md

in {minutes} minutes on a machine with two processors. Python needs torch, numpy and expecttest. The Meson test
`torch conformance of 2 ranks` runs a selection, `torch conformance` (suite `nightly`) all of it.

{counts}

The harness runs PyTorch's test methods, its processes for each rank, its barriers between them and its judgement of their
exit codes. It makes these changes for both backends:

- The suite selects cases by the backend's name. The harness treats `anello` like `gloo` everywhere.
- It also runs the cases of all_to_all with CPU tensors, which the suite reserves for MPI.
- It runs the cases of a group of ranks 1 and 2 on 4 ranks; the suite skips them on fewer than 8 ranks.
- It forks ranks from a process that has imported torch, because a new import takes longer than most cases.
- It checks the exit codes of all ranks, not only rank 0's, and gives each case {seconds} s.
"""
ALL_PASS = "No case that ran failed over `anello`. Every case that passes over `gloo` also passes over `anello` on as many ranks.\n"


class Report:
    """outcomes: (backend, ranks) -> case -> what conformance_ranks.py wrote of it."""

    def __init__(self, outcomes, torch, took, seconds):
        self.outcomes, self.torch, self.took, self.seconds = outcomes, torch, took, seconds
        self.cases = sorted({case for run in outcomes.values() for case in run})

    def failures(self):
        """(case, ranks, why) of each that anello does not pass and should."""
        found = []
        for (backend, ranks), run in self.outcomes.items():
            if backend != "anello":
                continue
            for case, outcome in run.items():
                beside = self.outcomes.get(("gloo", ranks), {}).get(case, {}).get("outcome")
                if outcome["outcome"] in ("failed", "timed out"):
                    found.append((case, ranks, f"{outcome['outcome']}: {reason(outcome['text'])}"))
                elif outcome["outcome"] == "skipped" and beside == "passed":
                    found.append((case, ranks, f"gloo passes it, anello skips it: {reason(outcome['text'])}"))
        return found

    def summary(self):
        lines = [f"{case} on {ranks} ranks {why}" for case, ranks, why in self.failures()]
        for (backend, ranks), run in self.outcomes.items():
            counts = collections.Counter(outcome["outcome"] for outcome in run.values())
            lines.append(f"{backend} on {ranks} ranks: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]))
        return "\n".join(lines)

    def page(self):
        minutes = max(1, round(self.took / 60))
        parts = [HEAD.format(torch=self.torch, minutes=minutes, seconds=self.seconds, counts=self._counts())]
        failures = self.failures()
        if failures:
            parts.append("## What fails over anello\n\n" + _table(["case", "ranks", "why"], failures))
        elif any(backend == "anello" for backend, _ in self.outcomes):
            parts.append(ALL_PASS)
        only = self._only_anello()
        if only:
            parts.append("## What anello passes and gloo does not\n\n" + _table(["case", "ranks", "gloo says"], only))
        parts += [self._that_ran(), self._that_did_not()]
        return "\n".join(parts)

    def _counts(self):
        rows = []
        for (backend, ranks), run in self.outcomes.items():
            counts = collections.Counter(outcome["outcome"] for outcome in run.values())
            rows.append([f"{backend}, {ranks} ranks", *(counts[kind] for kind in KINDS)])
        return _table(["", *KINDS], rows).rstrip()

    def _only_anello(self):
        found = []
        for (backend, ranks), run in self.outcomes.items():
            for case, outcome in run.items():
                ours = self.outcomes.get(("anello", ranks), {}).get(case, {}).get("outcome")
                if backend == "gloo" and ours == "passed" and outcome["outcome"] != "passed":
                    found.append((case, ranks, reason(outcome["text"])))
        return found

    def _ran(self, case):
        return any(run.get(case, {}).get("outcome", "skipped") != "skipped" for run in self.outcomes.values())

    def _that_ran(self):
        rows = []
        for case in filter(self._ran, self.cases):
            here = [run.get(case, {"outcome": "", "text": ""}) for run in self.outcomes.values()]
            why = list(dict.fromkeys(reason(outcome["text"]) for outcome in here if outcome["text"]))
            rows.append([case, *(outcome["outcome"] for outcome in here), "; ".join(why)])
        columns = [f"{backend}, {ranks}" for backend, ranks in self.outcomes]
        return "## Cases that ran\n\n" + _table(["case", *columns, "why not"], rows)

    def _that_did_not(self):
        """By the suite's reason. Where there are several for one case, they are those on different numbers of ranks."""
        reasons = collections.defaultdict(list)
        for case in self.cases:
            if not self._ran(case):
                here = [run[case]["text"] for run in self.outcomes.values() if case in run]
                reasons["; ".join(dict.fromkeys(map(reason, here)))].append(case)
        order = sorted(reasons, key=lambda why: (-len(reasons[why]), why))
        text = "## Cases that the suite skips\n\nThe suite skips these cases because this machine has no GPU, or for PyTorch's own reasons, some of which are links.\n"
        for why in order:
            text += f"\n**{_cell(why)}**\n\n" + "".join(f"- {case}\n" for case in reasons[why])
        return text


def reason(text):
    """The line that says it: the suite's reason to skip, or the exception of the first rank that raised one."""
    _, found, of_rank = text.partition("and exception:\n")
    text = (of_rank.partition("\nProcess ")[0] if found else text).strip()
    lines = text.rpartition("Traceback (most recent call last):\n")[2].split("\n")
    first = next((at for at, line in enumerate(lines) if line and not line.startswith(" ")), 0)
    said = lines[first]
    # A comparison says in its next paragraph what the two were.
    if said.endswith("!") and len(lines) > first + 2:
        said += " " + lines[first + 2]
    return said[:300]


def _cell(value):
    return re.sub(r"([|<>\[\]*])", r"\\\1", str(value))


def _table(heads, rows):
    lines = [heads, ["---"] * len(heads), *([_cell(value) for value in row] for row in rows)]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)
