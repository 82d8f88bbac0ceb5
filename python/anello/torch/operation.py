"""One operation in flight: its requests, its memory, and the thread that will complete it.

The first thread that needs the outcome completes the operation: a thread in wait(), or the completion thread if no
thread waits but a future was requested (see completions.py). The library accepts a request from only one thread, so the
two agree through `owner`.
"""

import ctypes
import os
import threading
import time

from anello.errors import AnelloError
from anello.library import Status
from anello.torch import completions

# Guards owner, done and the fields that depend on them. Never held while anything waits or runs a callback; but the
# garbage collector may run while it is held, and end a Work that then also takes it.
_deciding = threading.RLock()


def _forget():  # in a forked child, whose parent may have held it at the fork
    global _deciding
    _deciding = threading.RLock()


os.register_at_fork(after_in_child=_forget)

THE_THREAD = object()  # the owner of operations that were passed to the completion thread


class Operation:
    """It is made before its requests are posted, so that it has them whenever Ctrl-C comes.

    group: the ProcessGroup. requests: the library's, in the order of waiting. held: objects that must stay in memory.
    finish: called once when everything has arrived; puts results in their places. results: the tensors of the outcome.
    what: the operation in words. lane: see completions.py; None: the group's. event: from profiling.py, if it is
    profiled."""

    __slots__ = ("group", "requests", "at", "held", "finish", "results", "what", "lane", "owner", "done", "error", "_event",
                 "bases", "source", "expected", "event", "heard")

    def __init__(self, group, requests, held, finish, results, what, lane=None):
        self.group, self.requests, self.at = group, requests, 0
        self.held, self.finish, self.results, self.what = held, finish, results, what
        self.lane = group._comm if lane is None else lane
        self.owner = self.error = self._event = self.source = self.expected = self.event = self.heard = None
        self.done = False
        self.bases = []  # futures to resolve when this is done

    @property
    def doing(self):
        return self.group._doing(self.what)

    def complete(self, timeout=None):
        """Returns when any thread has completed the operation. Raises TimeoutError after `timeout` seconds (None: the
        library's own deadline applies)."""
        mine, before = object(), None
        try:
            while True:
                with _deciding:
                    if self.done:
                        return
                    if self.owner is None or (self.owner is THE_THREAD and completions.is_this_thread()):
                        before = self.owner
                        self.owner = mine
                        break
                    if self._event is None:
                        self._event = threading.Event()
                    event = self._event
                # The owner's wait has the library's deadline, or gives up and lets another thread do it.
                if not event.wait(timeout):
                    raise TimeoutError
            if timeout is None:
                self._wait()
            elif not self._poll(timeout):
                self._give_up(before)
                raise TimeoutError
            self.settle()
        except BaseException:  # including that of Ctrl-C, which may come after any call above
            self._let_go(mine, before)
            raise

    def _let_go(self, mine, before):
        """Another thread may complete this: waiting threads try again, and if only futures wait, the completion thread
        does. Does nothing if `mine` is not the owner. Another Ctrl-C inside this takes effect at its end."""
        again = None
        for _ in range(10):
            try:
                if self.owner is mine:
                    self._give_up(before)
                break
            except KeyboardInterrupt as error:
                again = error
        if again is not None:
            raise again

    def _give_up(self, before):
        """May be interrupted, and is then called again, so the owner changes last."""
        if self.done:
            self._announce()
            return
        self._take_heard()
        self.heard = None  # from now on the requests may belong to another thread
        while True:
            handed_over = before is None and bool(self.bases)
            if handed_over:
                completions.start()
                completions.submit(self, again=True)
            with _deciding:
                if before is None and self.bases and not handed_over:
                    continue  # another thread has just requested a future
                event = self._event
                if event is not None:
                    event.set()
                self._event = None
                self.owner = THE_THREAD if handed_over else before
                return

    # The exception of Ctrl-C comes between bytecodes, most often after the call that it interrupted: a wait. map and
    # extend call the library and keep its answer within one bytecode, because a call that has consumed its request does
    # not repeat its answer.

    def _ask(self, function, *arguments):
        codes = []
        self.heard = (self.at, codes, arguments[-1])
        codes.extend(map(function, (self.requests[self.at],), *[(each,) for each in arguments]))
        if codes[0] != 0 and self.requests[self.at].value is not None:
            self.advance(codes[0], arguments[-1])  # refused, as in a forked child
        else:
            self._take_heard()

    def _take_heard(self):
        if self.heard is not None:
            at, codes, status = self.heard
            if at == self.at and codes and self.requests[at].value is None:
                self.advance(codes[0], status)

    def _wait(self):
        wait = self.group._library.anello_wait
        while self.at < len(self.requests):
            self._ask(wait, Status(-1, -1, 0))

    def _poll(self, timeout, rests=True):
        end, pause = time.monotonic() + timeout, 0.00002
        while self.at < len(self.requests):
            asked = self.at
            self._ask(self.group._library.anello_test, ctypes.c_int(), Status(-1, -1, 0))
            if self.at == asked:
                if time.monotonic() >= end:
                    return False
                if rests:
                    time.sleep(pause)
                    pause = min(pause * 1.5, 0.002)
        return True

    def looks_done(self, patience=0):
        """Completes the operation if it has ended or ends within this many seconds, and no other thread is completing
        it."""
        mine = object()
        try:
            with _deciding:
                if self.done or self.owner is not None:
                    return self.done
                self.owner = mine
            if self._poll(patience, rests=False):
                self.settle()
                return True
            self._give_up(None)
            return False
        except BaseException:
            self._let_go(mine, None)
            raise

    def has_ended(self):
        return self.done or self.at == len(self.requests)

    def advance(self, code, status):
        """The request at `at` has ended, as the library has just reported to this thread."""
        if code != 0:
            if self.error is None:
                self.error = self.group._error(code, self.what)
        elif self.expected is not None:
            self.source = status.source
            if status.count != self.expected and self.error is None:
                self.error = AnelloError(f"{self.doing}: the message from rank {status.source} has {status.count} elements, "
                                         f"the tensor {self.expected}", rank=status.source)
        self.at += 1

    def settle(self):
        """All requests have ended: puts results in their places and notifies all waiters. If it is interrupted, it is
        called again: finish may run twice, which puts the same results in place."""
        if self.error is None and self.finish is not None:
            try:
                self.finish()
            except Exception as error:
                self.error = error
        self.finish = self.held = None
        event, self.event = self.event, None
        if event is not None:
            event.end()
        with _deciding:
            self.done = True
        self._announce()

    def _announce(self):
        if self._event is not None:
            self._event.set()
        for base in self.bases:
            if not base.done():
                base.set_result(None)

    def want_future(self, base, here):
        """base is resolved when this is done: now if it already is, by the caller if `here` is set, else by a waiting
        thread or the completion thread."""
        try:
            with _deciding:
                done, free = self.done, self.owner is None
                if not done:
                    self.bases.append(base)
                    if free and not here:
                        self.owner = THE_THREAD
            if done:
                base.set_result(None)
            elif here:
                self.complete()
            elif free:
                completions.submit(self)
        except BaseException:
            self._submit_again()
            raise

    def adopt(self):
        """The completion thread takes over this operation, whose Work no code holds any more."""
        try:
            with _deciding:
                if self.done or self.owner is not None:
                    return
                self.owner = THE_THREAD
            completions.submit(self)
        except BaseException:
            self._submit_again()
            raise

    def _submit_again(self):
        """Interrupted between the decision and the act, so it is unknown whether the act happened."""
        if self.owner is THE_THREAD and not self.done:
            completions.submit(self, again=True)

    def refused(self):
        """The library has not accepted the last request, and there was no other."""
        self.done = True

    def __del__(self):
        """The Work's own destructor has done this, unless Ctrl-C came in it or before there was one."""
        if getattr(self, "done", True) or self.owner is not None:
            return
        posted = [request for request in self.requests[self.at:] if request.value is not None]
        if len(posted) < len(self.requests) - self.at:
            self.requests[self.at:] = posted
            self.finish = None  # not all of the results will arrive
        if self.requests:
            completions.start()
            self.adopt()
