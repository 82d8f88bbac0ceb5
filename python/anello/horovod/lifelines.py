"""How the ranks that are left meet again after one was lost.

A communicator that has had an operation with a lost rank has failed. So the ranks keep a few that carry no operations,
and make a group of those that are left on the first of them. If yet another rank is lost in this, that one fails on all
ranks, and the next is there.
"""

import ctypes
import os
import time

from anello.communicator import Communicator
from anello.errors import MISMATCH, AnelloError
from anello.horovod.errors import HorovodInternalError

_COUNT, _TAG = 3, 1
_AGREEING = 10  # seconds in which all that are left have heard who is lost
_LAUNCHERS = ("RANK", "WORLD_SIZE", "MASTER_", "OMPI_COMM_WORLD_", "PMI_", "SLURM_PROCID", "SLURM_NTASKS")


class Lifelines:
    def __init__(self, communicator):
        self.rank, self._size = communicator.rank, communicator.size
        self._spare = [duplicate(communicator) for _ in range(_COUNT)]
        self._launched = _launch()

    def fit(self):
        """Whether the launcher's variables are still those with which the ranks met."""
        return self._launched == _launch()

    def meet(self, lost):
        """A communicator of the ranks that are not lost; all of them call this. lost: those that this rank knows of."""
        lost, end = set(lost), time.monotonic() + _AGREEING
        while self._spare:
            left = [rank for rank in range(self._size) if rank not in lost]
            try:
                return self._spare[0].create_group(left, _TAG)
            except AnelloError as error:
                said = error
                lost.update(error.lost)
                if error.code == MISMATCH and time.monotonic() < end:
                    time.sleep(0.02)
                    continue
            self._close_one()
        raise HorovodInternalError(f"rank {self.rank} could not meet the ranks that are left: {said}") from said

    def _close_one(self):
        try:
            self._spare.pop(0).close()
        except AnelloError:
            pass  # the failure for which it is closed

    def close(self):
        while self._spare:
            self._close_one()


def duplicate(communicator):
    handle = ctypes.c_void_p()
    code = communicator._library.anello_comm_dup(communicator.handle, ctypes.byref(handle))
    if code:
        raise communicator.error(code, f"init on rank {communicator.rank}")
    return Communicator(handle.value)


def _launch():
    return {name: value for name, value in os.environ.items() if name.startswith(_LAUNCHERS)}
