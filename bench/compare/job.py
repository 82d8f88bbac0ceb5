"""One run of one setting: starts the ranks, bounds their time, ends remaining processes by process id, reads the
rows."""

import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import libraries

MEETING_BYTES = 32768  # at least sizeof(Page) in peers/meeting.h
# Names of MPICH, Open MPI, Intel MPI, and libfabric (oneCCL).
_SEGMENT = re.compile(r"mpich_shm_|sm_segment\.|vader_segment\.|Intel_MPI_|\d+:\d+:\d+$")
RANK_STRIDE = 128
PID_OFFSET = 8


class JobFailed(Exception):
    """rows: those that were measured and verified before."""

    def __init__(self, reason, rows):
        super().__init__(reason)
        self.rows = rows


def leave_on_terminate():
    """Ends ranks and removes temporary files even if a run is terminated, not only if it is interrupted."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def _rows(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def _temporary_directory():
    # In memory if possible: the kernel sometimes removes pages of a file on disk and writes them back.
    return tempfile.mkdtemp(prefix="anello-compare-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def _rank_pids(meeting, ranks):
    with open(meeting, "rb") as file:
        page = file.read(ranks * RANK_STRIDE)
    return [struct.unpack_from("<i", page, rank * RANK_STRIDE + PID_OFFSET)[0] for rank in range(ranks)]


def _belongs(pid, meeting):
    """Whether pid is still a rank of this job, not a later process with the same number."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return meeting.encode() in file.read()
    except OSError:
        return False


def _end(processes, meeting, ranks):
    for process in processes:
        if process.poll() is None:
            process.terminate()  # A launcher ends its ranks on this signal.
    deadline = time.monotonic() + 2
    for process in processes:
        try:
            process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pid in _rank_pids(meeting, ranks):
        if pid > 0 and _belongs(pid, meeting):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def _sweep(begin):
    """Removes shared memory that killed libraries have left since begin: files with their names that no process
    uses."""
    left = [os.path.join("/dev/shm", name) for name in os.listdir("/dev/shm") if _SEGMENT.match(name)]
    left = [path for path in left if os.path.exists(path) and os.stat(path).st_ctime >= begin]
    if not left:
        return
    used = ""
    for maps in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(maps, encoding="utf-8", errors="replace") as file:
                used += file.read()
        except OSError:
            pass  # ended meanwhile
    for path in left:
        if f"{path}\n" not in used:
            os.unlink(path)


def run(setting, ranks, sizes, build, limit, loop_arguments=(), commands=libraries.commands):
    """The rows that the loop reported, one per size and variant. Raises JobFailed with the end of its output."""
    begin = time.time()
    directory = _temporary_directory()
    try:
        meeting = os.path.join(directory, "meeting")
        out = os.path.join(directory, "rows")
        store = os.path.join(directory, "store")
        os.mkdir(store)
        with open(meeting, "wb") as file:
            file.write(bytes(MEETING_BYTES))
        arguments = ["--meeting", meeting, "--out", out, "--directory", store, "--limit", str(limit),
                     "--sizes", ",".join(map(str, sizes)), *loop_arguments]
        processes = []
        timed_out = False
        with open(os.path.join(directory, "output"), "w+b") as output:
            try:
                for command, environment in commands(setting, ranks, build, arguments):
                    processes.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                                      stdout=output, stderr=subprocess.STDOUT))
                deadline = time.monotonic() + limit
                # If a rank fails and no launcher ends the others, they wait.
                while any(process.poll() is None for process in processes):
                    timed_out = time.monotonic() > deadline
                    if timed_out or any(process.poll() not in (None, 0) for process in processes):
                        break
                    time.sleep(0.02)
            finally:
                _end(processes, meeting, ranks)
            output.seek(0)
            text = output.read().decode(errors="replace").strip()
        failed = [process.returncode for process in processes if process.returncode != 0]
        if failed or timed_out:
            _sweep(begin)
            reason = f"no end after {limit} s" if timed_out else f"exit code {failed[0]}"
            words = " ".join(re.sub(r"[=-]{4,}", " ", text).split())  # without the horizontal rules of launchers
            raise JobFailed(f"{reason}: {words[-400:]}", _rows(out))
        return _rows(out)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
