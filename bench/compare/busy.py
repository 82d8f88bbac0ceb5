"""How much other programs slow a job down: times an allreduce of few bytes alone and beside computing threads, in
turns."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import libraries

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def measure(build, ranks, size, calls):
    """Microseconds per call."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [libraries.launcher("Anello", build), "-np", str(ranks), os.path.join(build, "bench", "anello-perf"), "-b", str(size),
                   "-n", str(calls), "--no-ceilings", "-J", report.name]
        environment = dict(os.environ, ANELLO_TRANSPORT="shm")
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=120)
        with open(report.name, encoding="utf-8") as file:
            return json.load(file)["results"][0]["in_place"]["time"]


def beside(count, action):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        return action()
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="2,4,8", help="list, default 2,4,8")
    parser.add_argument("--busy", type=int, default=os.cpu_count(), help="computing threads; default: processors")
    parser.add_argument("--size", type=int, default=8, help="bytes; default 8")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    options = parser.parse_args()
    if libraries.launcher("Anello", options.build) is None:
        sys.exit(f"busy: no anellorun in {options.build}: build it first: tools/quickstart, then ninja -C build")
    print(f"allreduce of {options.size} B, shared memory, {os.cpu_count()} processors, {options.busy} computing threads; medians")
    print("ranks    alone us   beside us    ratio")
    for ranks in map(int, options.ranks.split(",")):
        alone, crowded = [], []
        for _ in range(options.rounds):
            alone.append(measure(options.build, ranks, options.size, 5000))
            crowded.append(beside(options.busy, lambda count=ranks: measure(options.build, count, options.size, 500)))
        before, after = statistics.median(alone), statistics.median(crowded)
        print(f"{ranks:5}  {before:10.2f}  {after:10.2f}  {after / before:7.1f}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"busy: {error}")
