"""The cost of waiting: rank 0 is 10 s late at a barrier; how much of a core does each waiting rank use meanwhile?"""

import argparse
import json
import os
import subprocess
import sys

import libraries

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOST = 0.01  # of a core


def measure(build, transport, ranks, seconds):
    """Rows of idle_wait, ordered by rank."""
    program = os.path.join(build, "bench", "compare", "idle_wait")
    environment = dict(os.environ, ANELLO_TRANSPORT=transport)
    command = [libraries.launcher("Anello", build), "-np", str(ranks), program, str(seconds)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=seconds + 60)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
    if sorted(row["rank"] for row in rows) != list(range(ranks)):
        raise RuntimeError(f"{ranks} ranks were to report, not {len(rows)}")
    return sorted(rows, key=lambda row: row["rank"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="2,4", help="list, default 2,4")
    parser.add_argument("--transports", default="shm,tcp")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    options = parser.parse_args()
    if libraries.launcher("Anello", options.build) is None:
        sys.exit(f"idle: no anellorun in {options.build}: build it first: tools/quickstart, then ninja -C build")
    worst = 0.0
    print("ranks  transport  rank  waited s     cpu s  share of a core")
    for ranks in map(int, options.ranks.split(",")):
        for transport in options.transports.split(","):
            for row in measure(options.build, transport, ranks, options.seconds):
                share = row["cpu_s"] / row["waited_s"]
                print(f"{ranks:5}  {transport:9}  {row['rank']:4}  {row['waited_s']:8.2f}  {row['cpu_s']:8.4f}  "
                      f"{share:8.3%}", flush=True)
                if row["rank"] != 0:
                    # A rank that did not wait proves nothing.
                    if row["waited_s"] < 0.9 * options.seconds:
                        raise RuntimeError(f"rank {row['rank']} left the barrier before rank 0 had come")
                    worst = max(worst, share)
    print(f"worst {worst:.3%} of a core, at most {MOST:.0%}: {'ok' if worst < MOST else 'MISSED'}")
    return 0 if worst < MOST else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"idle: {error}")
