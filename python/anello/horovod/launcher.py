"""The launcher of a job whose ranks come and go: anellorun with --min-np, --max-np or --host-discovery-script.

Each rank has a socket to it, which says "ready" when it wants to meet the others, and hears its number and where they
meet. tools/anellorun/roster.h has all messages.
"""

import os
import select
import socket
import time

from anello import communicator
from anello.errors import AnelloError
from anello.horovod.errors import HorovodInternalError

_VARIABLE = "ANELLO_LAUNCHER_FD"
_LONGEST = 4096
_ATTEMPTS = 20
_MEETING = 30  # seconds: all ranks are ready when the launcher lets them meet


class Launcher:
    def __init__(self, descriptor):
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._process = os.getpid()
        self._has_met = False
        self.newcomers = 0  # of the last meeting: ranks that had not met before
        self._added = self._removed = False

    def meet(self, patience):
        """A communicator of all ranks that there are now. patience: seconds."""
        end = time.monotonic() + patience
        said = None
        for _ in range(_ATTEMPTS):
            self._send(f"ready {int(self._has_met)}")
            rank, size, newcomers, place = self._wait_for_the_others(end, said)
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))  # so far those of the beginning
            try:
                made = communicator.Communicator.create(rank, size, timeout=_MEETING, unique_id=place)
            except AnelloError as error:  # a rank has been lost in this moment; the launcher knows who is left
                said = error
                continue
            self._has_met, self.newcomers = True, newcomers
            self._added = self._removed = False
            return made
        raise HorovodInternalError(f"no meeting with the other ranks in {_ATTEMPTS} attempts: {said}") from said

    def changes(self):
        """Whether ranks want to join, and whether some should leave, since the last meeting."""
        while True:
            try:
                self._note(self._socket.recv(_LONGEST, socket.MSG_DONTWAIT).decode())
            except BlockingIOError:
                return self._added, self._removed

    def _note(self, message):
        if not message:
            raise HorovodInternalError("the launcher has ended")
        self._added |= message == "changed added"
        self._removed |= message == "changed removed"

    def _wait_for_the_others(self, end, said):
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise HorovodInternalError(f"the launcher has not said where to meet the other ranks; {said or ''}")
            message = self._socket.recv(_LONGEST).decode()
            words = message.split()
            if message == "leave":
                raise SystemExit(0)  # this rank's place is needed, or no longer listed; the others go on
            if message == "open":
                self._send(f"place {communicator.new_unique_id().hex()}")
            elif len(words) == 5 and words[0] == "meet":
                return (*map(int, words[1:4]), bytes.fromhex(words[4]))
            else:
                self._note(message)

    def _send(self, message):
        try:
            self._socket.send(message.encode())
        except OSError as error:
            raise HorovodInternalError(f"the launcher has ended: {error}") from error


_launcher = None


def of_this_process():
    """None if the launcher, if there is one, has a fixed number of ranks."""
    global _launcher
    text = os.environ.pop(_VARIABLE, "")  # child processes have no such socket
    if text:
        _launcher = Launcher(int(text))
    return _launcher if _launcher is not None and _launcher._process == os.getpid() else None
