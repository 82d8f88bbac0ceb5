"""One nonblocking operation."""

import ctypes
import time

from anello.errors import describe
from anello.library import Status


class Request:
    """wait or test completes it, from one thread at a time. It holds the operation's memory until then. If it is
    dropped before that, it waits, because the operation still uses its memory."""

    def __init__(self, library, comm, handle, doing, held):
        self._library, self._comm, self._handle, self._doing, self._held = library, comm, handle, doing, held
        self.source = self.tag = self.count = None  # for a completed receive

    def wait(self, timeout=None):
        """Returns when the operation is complete; raises AnelloError if it failed. timeout is in seconds: raises
        TimeoutError after that, and the operation continues; None: only the communicator's deadline applies."""
        if timeout is not None:
            end = time.monotonic() + timeout
            pause = 0.00002
            while not self.test():
                if time.monotonic() >= end:
                    raise TimeoutError(f"{self._doing}: not complete after {timeout} s")
                time.sleep(pause)
                pause = min(pause * 1.5, 0.002)
            return
        if self._handle is None:
            return
        status = Status(-1, -1, 0)
        self._complete(self._library.anello_wait(ctypes.byref(self._handle), ctypes.byref(status)), status)

    def test(self):
        """Whether the operation is complete; raises AnelloError if it failed."""
        if self._handle is None:
            return True
        done, status = ctypes.c_int(), Status(-1, -1, 0)
        code = self._library.anello_test(ctypes.byref(self._handle), ctypes.byref(done), ctypes.byref(status))
        if code == 0 and not done.value:
            return False
        self._complete(code, status)
        return True

    def _complete(self, code, status):
        self._handle = self._held = None
        self.source, self.tag, self.count = status.source, status.tag, status.count
        if code != 0:
            raise describe(self._library, self._comm, code, self._doing)

    def __del__(self):
        if getattr(self, "_handle", None):
            self._library.anello_wait(ctypes.byref(self._handle), None)
