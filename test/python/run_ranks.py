#!/usr/bin/env python3
"""Runs files of unittest cases, one after another, as several ranks at once:
run_ranks.py REPOSITORY ANELLORUN LIBRARY RANKS FILE.. [CASE..]

Every rank runs every case. What rank 0 says is the output; what the others say follows where a case failed on one of them, so
that a case counts as passed only where it passed on all.
"""

import pathlib
import subprocess
import sys
import tempfile

import interpreter


def main():
    repository, anellorun, library, ranks = (pathlib.Path(argument) for argument in sys.argv[1:5])
    files = [argument for argument in sys.argv[5:] if argument.endswith(".py")]
    cases = sys.argv[5 + len(files):]
    program = files if len(files) == 1 else [str(pathlib.Path(__file__).with_name("together.py")), *files]
    deadline = 170 if len(files) == 1 else 580  # what Meson allows, and time to say what is missing
    python = interpreter.or_skip(repository)
    with tempfile.TemporaryDirectory() as scratch:
        around = interpreter.environment(repository, library, scratch)
        around["TEST_SCRATCH"] = scratch
        command = [str(anellorun), "-np", str(ranks), python, "-W", "ignore", *program, *cases]
        try:
            ended = subprocess.run(command, env=around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   timeout=deadline, check=False)
            code, launcher = ended.returncode, ended.stdout
        except subprocess.TimeoutExpired as expired:
            code, launcher = 1, f"not finished after {deadline} s\n{(expired.stdout or b'').decode(errors='replace')}"
        logs = [pathlib.Path(scratch) / f"rank{rank}.log" for rank in range(int(str(ranks)))]
        texts = [log.read_text(errors="replace") if log.exists() else "" for log in logs]
    print(texts[0])
    if code != 0:
        for rank, text in enumerate(texts[1:], 1):
            print(f"---- rank {rank}\n{text}")
        print(f"---- all of the ranks' output besides\n{launcher}")
    sys.exit(code)


if __name__ == "__main__":
    main()
