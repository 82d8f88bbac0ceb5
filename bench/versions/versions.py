#!/usr/bin/env python3
"""Compares two builds of Anello, started in turns on this machine, and shows which calls became slower.

Each row is a collective, a number of ranks, a transport, a kind of memory and a size. A build's figure is the median
over starts of anello-perf's time. The ratio is the median over starts of new over old in the same turn, so that other
load on the machine affects both equally. Rows above --most are marked, and make the exit code 1. One anello-perf, the
new build's, measures both; the library is chosen by LD_LIBRARY_PATH.

  versions.py OLD NEW                  OLD and NEW are build folders
  versions.py OLD NEW --only broadcast --only mapped
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "compare"))
from table import size_text  # noqa: E402

# Smallest and largest size of one start, and calls of each size.
SMALL, MIDDLE, LARGE = ("8", "32K", 2000), ("256K", "2M", 100), ("16M", "64M", 6)
FACTOR = {SMALL: 8, MIDDLE: 8, LARGE: 4}


def cases():
    """(collective, ranks, transport, memory, sizes) of each start."""
    for ranks in (2, 4, 8):
        for transport in ("shm", "tcp"):
            for memory in ("malloc", "mapped") if transport == "shm" else ("malloc",):
                for sizes in (SMALL, MIDDLE, LARGE):
                    yield "allreduce", ranks, transport, memory, sizes
        for collective in ("broadcast", "allgather", "alltoall", "reduce_scatter", "sendrecv"):
            for memory in ("malloc", "mapped"):
                for sizes in (SMALL, MIDDLE):
                    yield collective, ranks, "shm", memory, sizes


def name_of(case):
    return " ".join([case[0], str(case[1]), case[2], case[3]])


def measure(old_or_new, new, case, extra):
    """Microseconds by size, for one start."""
    collective, ranks, transport, memory, sizes = case
    smallest, largest, calls = sizes
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        words = [new / "tools/anellorun", "-np", str(ranks), new / "bench/anello-perf", "--collective", collective, "-b", smallest,
                 "-e", largest, "-f", str(FACTOR[sizes]), "-n", str(calls), "-w", "20" if sizes != LARGE else "2", "-c", "0",
                 "--no-ceilings", "--memory", memory, "-J", report.name, *extra]
        environment = dict(os.environ, LD_LIBRARY_PATH=str(old_or_new / "lib/api"), ANELLO_TRANSPORT=transport, ANELLO_TUNING="none")
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}:\n{done.stdout[-500:]}{done.stderr[-500:]}")
        found = json.loads(pathlib.Path(report.name).read_text())
    return {row["size"]: (row["out_of_place"] or row["in_place"])["time"] for row in found["results"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--starts", type=int, default=5, help="starts of each build and case (default 5)")
    parser.add_argument("--most", type=float, default=1.05, help="ratio above which a row is marked (default 1.05)")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="only cases whose name has this word")
    parser.add_argument("--dirty", action="store_true", help="each rank rewrites its input before each call")
    parser.add_argument("--marked", action="store_true", help="show only the rows that are marked")
    options = parser.parse_args()
    old, new = options.old.resolve(), options.new.resolve()
    chosen = [case for case in cases() if all(word in name_of(case).split() for word in options.only)]
    extra = ["--dirty"] if options.dirty else []
    marked = rows = 0
    print(f"{'collective':<15}{'ranks':>5}  {'over':<5}{'memory':<8}{'size':>9}{'old us':>12}{'new us':>12}{'new/old':>9}")
    for number, case in enumerate(chosen, 1):
        if sys.stderr.isatty():
            print(f"\r{number} of {len(chosen)}", end="\r", file=sys.stderr)
        turns = []
        for turn in range(options.starts):
            order = ("old", "new") if turn % 2 == 0 else ("new", "old")
            turns.append({which: measure(old if which == "old" else new, new, case, extra) for which in order})
        for size in turns[0]["old"]:
            each = {which: statistics.median(turn[which][size] for turn in turns) for which in ("old", "new")}
            ratio = statistics.median(turn["new"][size] / turn["old"][size] for turn in turns)
            rows += 1
            mark = ratio > options.most
            marked += mark
            if mark or not options.marked:
                print(f"{case[0]:<15}{case[1]:>5}  {case[2]:<5}{case[3]:<8}{size_text(size):>9}{each['old']:>12.2f}{each['new']:>12.2f}"
                      f"{ratio:>9.2f}{'  slower' if mark else ''}", flush=True)
    print(f"{rows} rows, {marked} slower by more than {100 * (options.most - 1):.0f} %")
    return 1 if marked else 0


if __name__ == "__main__":
    sys.exit(main())
