"""Starts a script as several ranks on this machine, as Apex's launcher did:

    python -m apex.parallel.multiproc [--world-size N] script.py [arguments of the script]

Without --world-size there is a rank for each CUDA device. The script gets `--world-size N --rank I` behind its
arguments, and RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment. The output of rank I > 0
goes to the file GPU_I.log. torchrun and anellorun do more than this.
"""

import os
import signal
import socket
import subprocess
import sys
import time

_TO_END_S = 10  # for a rank that is told to end


def main(arguments=None):
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if words else 2
    size = _take_option(words, "--world-size")
    _take_option(words, "--rank")
    size = _devices() if size is None else _positive(size)
    if not words:
        raise SystemExit("multiproc: there is no script to start")
    told = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: told.append(number))
    return _run(words, size, told)


def _take_option(words, name):
    """Removes the option and returns its value; None if it is not there."""
    if name not in words:
        return None
    at = words.index(name)
    if at + 1 == len(words):
        raise SystemExit(f"multiproc: {name} needs a number")
    value = words[at + 1]
    del words[at:at + 2]
    return value


def _positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise SystemExit(f"multiproc: --world-size is {text!r}, which is no number of ranks")
    return int(text)


def _devices():
    import torch

    count = torch.cuda.device_count()
    if count == 0:
        raise SystemExit("multiproc: this machine has no CUDA device to count ranks by: give --world-size N")
    return count


def _run(words, size, told):
    around = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    if "MASTER_PORT" not in os.environ:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            around["MASTER_PORT"] = str(free.getsockname()[1])
    around["MASTER_ADDR"] = os.environ.get("MASTER_ADDR", "127.0.0.1")
    workers, logs = [], []
    try:
        for rank in range(size):
            output = None
            if rank > 0:
                output = open(f"GPU_{rank}.log", "w", encoding="utf-8")
                logs.append(output)
            command = [sys.executable, *words, "--world-size", str(size), "--rank", str(rank)]
            own = {**os.environ, **around, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            errors = subprocess.STDOUT if output else None
            workers.append(subprocess.Popen(command, env=own, stdout=output, stderr=errors))
        return _wait(workers, told)
    finally:
        for each in workers:
            if each.poll() is None:
                each.terminate()
        for each in workers:
            try:
                each.wait(_TO_END_S)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
        for each in logs:
            each.close()


def _wait(workers, told):
    """Waits for all, or until one fails or this process is told to end; returns the exit status.

    What a signal's handler raised here could leave a lock of subprocess held, and the wait for the ranks would never
    end: so it only notes the signal.
    """
    while not told:
        codes = [each.poll() for each in workers]
        for rank, code in enumerate(codes):
            if code:
                where = "" if rank == 0 else f"; its output is in GPU_{rank}.log"
                print(f"multiproc: rank {rank} ended with {code}, so the others are ended{where}", file=sys.stderr)
                return code if code > 0 else 128 - code
        if None not in codes:
            return 0
        time.sleep(0.05)
    return 128 + told[0]


if __name__ == "__main__":
    sys.exit(main())
