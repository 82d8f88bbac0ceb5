"""For the test: runs the program that is named first, with what watched.cpp does to the C++ one."""

import os
import pathlib
import runpy
import signal
import sys
import time

import torch.distributed as dist

sent = {"gradient": 0, "announcement": 0}
original = dist.send


def wait_for_all(folder, step):
    with (folder / os.environ["RANK"]).open("a") as own:
        own.write(".")
    end = time.monotonic() + 60
    for worker in range(1, int(os.environ["WORLD_SIZE"])):
        its = folder / str(worker)
        while not its.exists() or its.stat().st_size < step:
            if time.monotonic() > end:
                sys.exit(f"worker {worker} has no weights for gradient {step}")
            time.sleep(0.0002)


def send(tensor, dst, group=None, tag=0):
    if tag == 0:
        kind = "announcement" if group is None else "gradient"
        sent[kind] += 1
        if f"{kind} {sent[kind]}" == os.environ.get("KILLED_BEFORE"):
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "gradient" and "IN_STEP" in os.environ:
            wait_for_all(pathlib.Path(os.environ["IN_STEP"]), sent[kind])
    return original(tensor, dst, group, tag)


dist.send = send
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
