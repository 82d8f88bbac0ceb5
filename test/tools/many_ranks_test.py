"""Many ranks on one host, more than it has processors: their first calls end, with right results, soon and without a warning."""
import os
import re
import subprocess
import sys
import time

ANELLORUN, PERF = sys.argv[1], sys.argv[2]
COUNTS = [int(each) for each in sys.argv[3:]]
LIMIT_S = 60  # of a run that takes one to five; it took minutes, or did not end, while P x P connections were made
# LeakSanitizer stops a process while it looks for leaks. Its peers rightly warn of that, where it takes so long.
ENVIRONMENT = os.environ | {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}

# So is a rank called that the machine keeps from running, and it is no fault of the first calls.
NOT_HEARD = re.compile(r"\b(is|are) (silent|stopped|heard from again)")


def run(ranks, *options):
    begin = time.monotonic()
    ended = subprocess.run([ANELLORUN, "-np", str(ranks), PERF, "--no-ceilings", "-n", "2", "-w", "0", *options],
                           capture_output=True, text=True, timeout=LIMIT_S, env=ENVIRONMENT)
    took = time.monotonic() - begin
    said = ended.stdout + ended.stderr
    what = f"{ranks} ranks, {' '.join(options)}: {took:.2f} s"
    assert ended.returncode == 0, f"{what}, exit code {ended.returncode}\n{said[-3000:]}"
    warnings = [line for line in said.splitlines() if "warning" in line and not NOT_HEARD.search(line)]
    assert not warnings, f"{what}\n{said[-3000:]}"
    assert re.search(r"# Out of bounds values : 0 OK", said), f"{what}\n{said[-3000:]}"
    print(what, flush=True)


for count in COUNTS:
    run(count, "--collective", "allreduce", "-b", "64K", "-e", "64K")
    run(count, "--collective", "reduce_scatter", "-b", "4K", "-e", "256K", "-f", "64")
    run(count, "--collective", "alltoall", "-b", "4K", "-e", "256K", "-f", "64")
