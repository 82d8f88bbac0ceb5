"""A rank of a job whose seeing is tested. Arguments: a role, the rank that plays it (the others wait for that one), and the number of
calls before. Says "ready PID" when these are done, and its error at last."""

import array
import os
import signal
import sys
import time

import anello

ROLE, WHO, BEFORE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PARENT = os.getppid()
comm = anello.Communicator.create()
values = array.array("f", [1.0] * 1000)


def say(words):
    os.write(1, f"rank {comm.rank}: {words}\n".encode())


def sum_of(count=1000):
    comm.allreduce(array.array("f", [1.0] * count))


def wait_for_the_end():
    """Not in any call, until its parent has gone or it is killed."""
    while os.getppid() == PARENT:
        time.sleep(0.02)


def play():
    mine = comm.rank == WHO
    if ROLE == "never" and mine:
        wait_for_the_end()
    elif ROLE == "broadcast" and mine:
        comm.broadcast(values, root=0)
    elif ROLE == "sizes" and mine:
        sum_of(500)
    elif ROLE == "stopped" and mine:
        os.kill(os.getpid(), signal.SIGSTOP)
        sum_of()
    elif ROLE == "killed" and mine:
        os.kill(os.getpid(), signal.SIGKILL)
    elif ROLE == "circle" and comm.rank < 2:
        comm.recv(values, 1 - comm.rank, tag=7)
    elif ROLE == "working":
        while os.getppid() == PARENT:
            sum_of()
    elif ROLE == "lonely_receive" and comm.rank != WHO:
        comm.recv(values, WHO, tag=5)
    elif ROLE == "lonely_receive":
        wait_for_the_end()
    elif ROLE != "circle":
        sum_of()


if ROLE == "killed":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what the survivors see comes first, before the launcher ends them
for _ in range(BEFORE):
    sum_of()
say(f"ready {os.getpid()}")
try:
    play()
except anello.AnelloError as error:
    say(f"error {error}")
wait_for_the_end()
