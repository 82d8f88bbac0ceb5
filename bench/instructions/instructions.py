#!/usr/bin/env python3
"""Instructions of one all-reduce, by itself or posted, send, receive or sendrecv between two ranks over shared memory, as callgrind counts them on rank 0.

They do not depend on other load on the machine, so a change of the small path is visible here even if no clock shows
it. Rank 1 runs normally and arrives first. Each call is counted separately, and the minimum is shown: that call only
waits for the answer to its own message (4 KiB, mapped). counts.json keeps the figures of the last intended change;
--check fails if a figure is more than 10 % above, and --keep replaces the figures.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KEPT = os.path.join(HERE, "counts.json")
CASES = [("allreduce", 8, "malloc"), ("allreduce", 8, "mapped"), ("allreduce", 4096, "malloc"), ("allreduce", 4096, "mapped"),
         ("post", 8, "malloc"), ("send", 8, "malloc"), ("recv", 8, "malloc"), ("sendrecv", 8, "malloc")]
WARM, CALLS = 600, 200  # the number of calls until the lock favours the thread (rank_lock.h)
MOST = 1.1


def counted(program, call, size, memory):
    """The instructions inside the call's function, for each call after the first ones."""
    environment = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29671", ANELLO_TRANSPORT="shm",
                       ANELLO_JOB=f"instructions-{os.getpid()}", ANELLO_SPIN_US="5000000")
    with tempfile.TemporaryDirectory() as folder:
        shared = os.path.join(folder, "arrived")
        with open(shared, "wb") as file:
            file.write(bytes(8))
        words = [program, str(size), str(WARM + CALLS), memory, shared, call]
        peer = subprocess.Popen(words, env=dict(environment, RANK="1", LOCAL_RANK="1"))
        try:
            # callgrind writes the counts of the previous call before each call.
            done = subprocess.run(["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect=anello_{call}",
                                   f"--dump-before=anello_{call}", f"--callgrind-out-file={folder}/call", *words],
                                  env=dict(environment, RANK="0", LOCAL_RANK="0"), stderr=subprocess.PIPE, timeout=300, check=False)
            if peer.wait(timeout=60) != 0 or done.returncode != 0:
                raise RuntimeError(f"a rank failed: {done.stderr.decode()[-1000:]}")
        finally:
            if peer.poll() is None:
                peer.kill()
                peer.wait()
        calls = []
        for number in range(WARM + 2, WARM + CALLS + 1):
            with open(os.path.join(folder, f"call.{number}"), encoding="utf-8") as file:
                calls += [int(total) for total in re.findall(r"^(?:totals|summary): (\d+)", file.read(), re.MULTILINE)[-1:]]
    if len(calls) < CALLS // 2:
        raise RuntimeError(f"callgrind wrote of {len(calls)} calls only")
    return sorted(calls)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--check", action="store_true", help="exit code 1 where a figure is above the kept one")
    parser.add_argument("--keep", action="store_true", help="write counts.json")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("SKIPPED: valgrind is not installed (apt-get install valgrind)")
        return 77
    program = os.path.join(options.build, "bench", "instructions_loop")
    kept = json.load(open(KEPT, encoding="utf-8")) if os.path.exists(KEPT) else {}
    now, worse = {}, []
    print("call          bytes  memory  instructions    kept")
    for call, size, memory in CASES:
        name = f"{call} {size} {memory}"
        calls = counted(program, call, size, memory)
        now[name] = calls[0]
        before = kept.get(name)
        if before is None or now[name] > MOST * before:
            worse.append(name)
        print(f"{call:9}  {size:8}  {memory:6}  {now[name]:12}  {before if before is not None else '-':>6}", flush=True)
    if options.keep:
        with open(KEPT, "w", encoding="utf-8") as file:
            json.dump(now, file, indent=2)
            file.write("\n")
    elif options.check and worse:
        print("above what was kept: " + ", ".join(worse))
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"instructions: {error}")
