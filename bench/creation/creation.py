#!/usr/bin/env python3
"""The cost of making communicators: time, memory, and the cost of a call in a communicator of one rank.

Time runs from the last rank's start of anello_comm_create to the last rank's end; all ranks are released at one moment,
when each has started and has loaded the library. The additional time from the first rank's start is shown next to it.
Memory is the growth of a process, according to /proc/self/smaps_rollup, by one more communicator (anello_comm_dup),
before any call and after messages of 4 B and 64 KiB with two neighbours: its own memory, the shared memory that it has
mapped, and its part of the latter, in which a page that n ranks have mapped counts as 1/n; for the worst rank, and the
sum of the parts of all ranks. One rank: an all-reduce that is not in place, relative to a memcpy of as many bytes, in
turns; medians, and the median of the ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "compare"))
import machine  # noqa: E402
from table import size_text  # noqa: E402

TARGETS = {"2 processes": 20, "64 processes": 1000, "64 threads": 1000}  # milliseconds, for the median
GATE_BYTES = 4096


def time_text(nanoseconds):
    unit, name = next((pair for pair in ((1e6, "ms"), (1e3, "us")) if nanoseconds >= pair[0]), (1, "ns"))
    return f"{nanoseconds / unit:.1f} {name}"


def rows(command, expected):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)
    found = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
    if len(found) != expected:
        raise RuntimeError(f"{' '.join(command)}: {len(found)} rows in place of {expected}")
    return found


class Programs:
    def __init__(self, build):
        self.launcher = os.path.join(build, "tools", "anellorun")
        self.loop = os.path.join(build, "bench", "creation_loop")
        for path in (self.launcher, self.loop):
            if not os.path.isfile(path):
                raise RuntimeError(f"no {path}: build it first: tools/quickstart, then ninja -C build")

    def processes(self, ranks):
        with tempfile.NamedTemporaryFile(prefix="anello-creation-") as gate:
            gate.write(bytes(GATE_BYTES))
            gate.flush()
            return rows([self.launcher, "-np", str(ranks), self.loop, "create", gate.name], ranks)

    def threads(self, ranks):
        return rows([self.loop, "threads", str(ranks)], ranks)

    def threads_in_one_call(self, ranks):
        return rows([self.loop, "create_all", str(ranks)], 1)

    def memory(self, ranks, communicators):
        return rows([self.launcher, "-np", str(ranks), self.loop, "memory", str(communicators)], 2 * ranks)

    def alone(self, rounds, size):
        return rows([self.loop, "alone", str(rounds), str(size)], 1)[0]


def took(spans):
    """Milliseconds from the last start, and from the first, to the last end."""
    end = max(span["end"] for span in spans)
    return tuple((end - which(span["begin"] for span in spans)) / 1e6 for which in (max, min))


def creation_line(name, runs):
    """(cells, whether the target is met, None without one); runs: the spans of the ranks in each run."""
    from_last, from_first = zip(*map(took, runs))
    median = statistics.median(from_last)
    target = TARGETS.get(name)
    met = None if target is None else median < target
    cells = [name, f"{median:.2f}", f"{max(from_last):.2f}", f"{statistics.median(from_first):.2f}"]
    return [*cells, "" if target is None else f"< {target} {'ok' if met else 'MISSED'}"], met


def memory_lines(ranks, found):
    for when in dict.fromkeys(row["when"] for row in found):
        of = [row for row in found if row["when"] == when]
        worst = [f"{max(row[what] for row in of):.1f}" for what in ("own", "mapped", "part")]
        yield [str(ranks), when, *worst, f"{sum(row['part'] for row in of):.1f}"]


def alone_line(row):
    return [size_text(row["bytes"]), *(time_text(row[what]) for what in ("copy_ns", "allreduce_ns")), f"{row['ratio']:.2f}",
            time_text(row["in_place_ns"])]


def show(title, header, lines, words=(0,)):
    """words: columns of text. Only requested columns are shown."""
    if not lines:
        return
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    print(title)
    for line in [header, *lines]:
        print("  ".join(cell.ljust(widths[i]) if i in words else cell.rjust(widths[i]) for i, cell in enumerate(line)).rstrip())
    print(flush=True)


def numbers(text):
    return [int(item) for item in text.split(",") if item]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=numbers, default="2,64", help="list, default 2,64")
    parser.add_argument("--threads", type=numbers, default="64", help="list, default 64")
    parser.add_argument("--memory", type=numbers, default="2,8,64", help="numbers of ranks, default 2,8,64")
    parser.add_argument("--sizes", type=numbers, default="8,4096,1048576,67108864", help="sizes for one rank, in bytes; default 8 B to 64 MiB")
    parser.add_argument("--runs", type=int, default=7, help="runs of each creation; default 7")
    parser.add_argument("--rounds", type=int, default=31, help="rounds of each size for one rank; default 31")
    parser.add_argument("--communicators", type=int, default=20, help="number of communicators over which memory is averaged; default 20")
    parser.add_argument("--targets", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), type=os.path.abspath)
    options = parser.parse_args()
    programs = Programs(options.build)
    cases = [(f"{ranks} processes", programs.processes, ranks) for ranks in options.processes]
    for ranks in options.threads:
        cases += [(f"{ranks} threads", programs.threads, ranks), (f"{ranks} threads, in one call", programs.threads_in_one_call, ranks)]
    print(f"{machine.text()}; before the first run others use {machine.others_now():.1f} processors\n")
    # Run by run, so that other load on the machine affects all cases.
    runs = {name: [] for name, _, _ in cases}
    for _ in range(options.runs):
        for name, measure, ranks in cases:
            runs[name].append(measure(ranks))
    lines, met = zip(*(creation_line(name, spans) for name, spans in runs.items())) if cases else ((), ())
    show(f"anello_comm_create, milliseconds; {options.runs} runs",
         ["ranks", "median", "worst", "from the first start", "target"], lines, (0, 4))
    show("one more communicator, KiB of a process, of the worst rank", ["ranks", "when", "own", "mapped", "its part", "parts of all"],
         [line for ranks in options.memory for line in memory_lines(ranks, programs.memory(ranks, options.communicators))], (1,))
    show("all-reduce of one rank, float32 sum", ["bytes", "memcpy", "all-reduce", "ratio", "in place"],
         [alone_line(programs.alone(options.rounds, size)) for size in options.sizes], ())
    missed = met.count(False)
    print("targets met" if not missed else f"targets missed: {missed}")
    return 1 if options.targets and missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"creation: {error}")
