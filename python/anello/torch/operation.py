"""One operation under way: its requests, what it reads and writes, and who is to complete it.

Whoever first wants the outcome completes the operation: a thread in wait(), or the completion thread where nobody waits but a
future was asked for (see completions.py). The library takes a request from one thread alone, so the two agree through
`owner`.
"""

import ctypes
import os
import threading
import time

from anello.errors import AnelloError
from anello.library import Status

# Of owner, done and what hangs on them. Never held while anything waits or runs a callback; but the garbage collector may come
# while it is held, and end a Work that then takes it as well.
_deciding = threading.RLock()


def _forget():  # in a forked child, whose parent may have held it just then
    global _deciding
    _deciding = threading.RLock()


os.register_at_fork(after_in_child=_forget)

THE_THREAD = object()  # the owner of what was handed to the completion thread


class Operation:
    """group: the ProcessGroup. requests: of the library, in the order in which they are waited for. held: whatever must stay in
    memory. finish: called once when all has arrived, puts results where they belong. results: the tensors of the outcome.
    what: the operation in words. lane: see completions.py; None: the group's. event: of profiling.py, where it is profiled."""

    __slots__ = ("group", "requests", "at", "held", "finish", "results", "what", "lane", "owner", "done", "error", "_event",
                 "bases", "source", "expected", "event")

    def __init__(self, group, requests, held, finish, results, what, lane=None):
        self.group, self.requests, self.at = group, requests, 0
        self.held, self.finish, self.results, self.what = held, finish, results, what
        self.lane = group._comm if lane is None else lane
        self.owner = self.error = self._event = self.source = self.expected = self.event = None
        self.done = False
        self.bases = []  # futures to be resolved when this is done

    @property
    def doing(self):
        return self.group._doing(self.what)

    def complete(self, timeout=None):
        """Returns when the operation is done, whoever does it. TimeoutError after `timeout` seconds (None: the library's own
        deadline counts)."""
        from anello.torch import completions

        while True:
            with _deciding:
                if self.done:
                    return
                mine = self.owner is None or (self.owner is THE_THREAD and completions.is_this_thread())
                if mine:
                    before, self.owner = self.owner, threading.get_ident()
                elif self._event is None:
                    self._event = threading.Event()
                event = self._event
            if mine:
                break
            # The owner's wait has the library's deadline, or gives up and lets another do it.
            if not event.wait(timeout):
                raise TimeoutError
        try:
            if timeout is None:
                self._wait()
            elif not self._poll(timeout):
                raise TimeoutError
        except BaseException:  # among them that of Ctrl-C
            self._give_up(before)
            raise
        self.settle()

    def _give_up(self, before):
        """Somebody else may complete this: who waits tries again, and if only futures wait, the completion thread does."""
        from anello.torch import completions

        with _deciding:
            handed_over = before is None and bool(self.bases)
            self.owner = THE_THREAD if handed_over else before
            event, self._event = self._event, None
        if event is not None:
            event.set()
        if handed_over:
            completions.submit(self)

    def _wait(self):
        wait = self.group._library.anello_wait
        while self.at < len(self.requests):
            status = Status(-1, -1, 0)
            code = wait(self.requests[self.at], status)
            self.advance(code, status)

    def _poll(self, timeout):
        end, pause = time.monotonic() + timeout, 0.00002
        while self.at < len(self.requests):
            done, status = ctypes.c_int(), Status(-1, -1, 0)
            code = self.group._library.anello_test(self.requests[self.at], done, status)
            if code != 0 or done.value:
                self.advance(code, status)
            elif time.monotonic() >= end:
                return False
            else:
                time.sleep(pause)
                pause = min(pause * 1.5, 0.002)
        return True

    def looks_done(self):
        """Without blocking; completes the operation where it has ended and nobody is at it."""
        with _deciding:
            if self.done or self.owner is not None:
                return self.done
            self.owner = threading.get_ident()
        if self._poll(0):
            self.settle()
            return True
        self._give_up(None)
        return False

    def has_ended(self):
        return self.done or self.at == len(self.requests)

    def advance(self, code, status):
        """The request at `at` has ended, as the library has just told this thread."""
        self.at += 1
        if code != 0:
            if self.error is None:
                self.error = self.group._error(code, self.what)
        elif self.expected is not None:
            self.source = status.source
            if status.count != self.expected and self.error is None:
                self.error = AnelloError(f"{self.doing}: the message from rank {status.source} has {status.count} elements, "
                                         f"the tensor {self.expected}", rank=status.source)

    def settle(self):
        """All requests have ended: results go where they belong, and all who wait hear of it."""
        if self.error is None and self.finish is not None:
            try:
                self.finish()
            except Exception as error:
                self.error = error
        self.held = self.finish = None
        if self.event is not None:
            self.event.end()
        with _deciding:
            self.done = True
            event, bases = self._event, self.bases
        if event is not None:
            event.set()
        for base in bases:
            base.set_result(None)

    def want_future(self, base, here):
        """base is resolved when this is done. What the caller has to do for that: "resolve" it (this is done already),
        "complete" this (asked for with `here`), "submit" it to the completion thread, or nothing."""
        with _deciding:
            if self.done:
                return "resolve"
            self.bases.append(base)
            if here:
                return "complete"
            if self.owner is None:
                self.owner = THE_THREAD
                return "submit"
            return "nothing"

    def adopt(self):
        """Whether the completion thread should take this over, whose Work nobody holds any more."""
        with _deciding:
            if self.done or self.owner is not None:
                return False
            self.owner = THE_THREAD
            return True
