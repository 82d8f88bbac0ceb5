"""The completion thread: it completes operations whose future a program has requested, or whose Work was dropped. There
is one per process, started with the first such operation; programs that only wait never have it.

Operations of one communicator form a lane and complete in their order, as they do on every rank; the thread waits for
the first of each lane. A message has its own lane, because it is unknown which of two messages comes first. The thread
also waits for a message to itself, so that it can learn of a new lane while it waits.
"""

import collections
import ctypes
import os
import threading

from anello.library import Status, library

_changing = threading.Condition()
_lanes = {}            # lane -> its operations, the oldest first
_thread = None
_waiting = False       # in the library, with the lanes at that time
_woken = False         # the message is in flight
_closing = False
_gone = False          # this is a forked child, or the interpreter ends: do not touch the library
_ident = None


class _Wake:
    """A communicator of this process only, on which the thread waits for a message that other threads send."""

    def __init__(self):
        self.library = library()
        handle = ctypes.c_void_p()
        if self.library.anello_comm_create_all(1, handle) != 0:
            raise RuntimeError((self.library.anello_last_error(None) or b"").decode())
        self.comm = handle.value
        self.byte = ctypes.create_string_buffer(2)
        self.request = None

    def arm(self):
        """The request that completes when another thread sends."""
        if self.request is None:
            request = ctypes.c_void_p()
            self._check(self.library.anello_irecv(ctypes.addressof(self.byte), 1, 4, 0, 0, self.comm, request))
            self.request = request.value
        return self.request

    def send(self):
        request = ctypes.c_void_p()
        self._check(self.library.anello_isend(ctypes.addressof(self.byte) + 1, 1, 4, 0, 0, self.comm, request))
        self._check(self.library.anello_wait(request, None))

    def _check(self, code):
        if code != 0:
            raise RuntimeError((self.library.anello_last_error(self.comm) or b"").decode())


_wake = None


def is_this_thread():
    return threading.get_ident() == _ident


def start():
    """Starts the thread before the first submit; raises here if that fails."""
    global _thread, _wake
    if _thread is not None or _gone:
        return
    with _changing:
        if _thread is None:
            _wake = _Wake()
            thread = threading.Thread(target=_run, name="anello-completions", daemon=True)
            thread.start()
            _thread = thread


def submit(operation, again=False):
    """Passes an operation, whose owner is THE_THREAD, to the completion thread. again: it may have been passed before
    without waking the thread; it is harmless if it is then in its lane twice."""
    global _woken
    if _gone:
        return
    with _changing:
        # The garbage collector may run at any line, end a Work and call this, even for the same lane.
        lane = _lanes.setdefault(operation.lane, collections.deque())
        lane.append(operation)
        if lane[0] is not operation:
            return  # the thread handles it when the lane reaches it
        wake = _waiting and (again or not _woken)
        if wake:
            _woken = True
        _changing.notify()
    if wake:
        _wake.send()


def _run():
    global _ident, _waiting
    _ident = threading.get_ident()
    opened = library()
    while True:
        with _changing:
            while not _lanes and not _closing:
                _changing.wait(60)
            if _closing:
                return
            heads = [lane[0] for lane in list(_lanes.values())]
            _waiting = True
        # A callback may have completed an operation that it waited for.
        ended = next((operation for operation in heads if operation.has_ended()), None) or _wait_for_one(opened, heads)
        with _changing:
            _waiting = False
            if ended is None or not ended.has_ended():
                continue
            # Before the callbacks run, because they may request operations in the same lane.
            lane = _lanes[ended.lane]
            lane.popleft()
            if not lane:
                del _lanes[ended.lane]
        if not ended.done:
            ended.settle()
        del ended, heads  # this thread must not keep their tensors


def _wait_for_one(opened, heads):
    """The first operation of a lane that has a request that has ended; None if the message arrived."""
    global _woken
    handles = [operation.requests[operation.at].value for operation in heads] + [_wake.arm()]
    array = (ctypes.c_void_p * len(handles))(*handles)
    index, status = ctypes.c_int(-1), Status(-1, -1, 0)
    code = opened.anello_wait_any(len(handles), array, index, status)
    if index.value == len(heads):
        _wake.request = None
        with _changing:
            _woken = False
        return None
    operation = heads[max(index.value, 0)]  # -1: the wait itself failed, which must be reported
    operation.requests[operation.at].value = None
    operation.advance(code, status)
    return operation


def close(seconds=5):
    """At the interpreter's end: ends the thread in bounded time and starts no new one. Operations that it has not
    completed stay incomplete. A daemon thread that requests the interpreter's lock at that time would be ended inside
    PyTorch, which aborts."""
    global _closing, _gone
    with _changing:
        _closing = _gone = True
        wake = _waiting and not _woken
        _changing.notify()
    if wake:
        _wake.send()
    if _thread is not None:
        _thread.join(seconds)


def _forget():
    """In a forked child: the thread belongs to the parent, and a lock may have been held at the fork."""
    global _changing, _thread, _ident, _gone, _waiting
    _changing, _thread, _ident, _gone, _waiting = threading.Condition(), None, None, True, False
    _lanes.clear()


os.register_at_fork(after_in_child=_forget)
