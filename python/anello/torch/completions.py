"""The completion thread: it completes operations whose future somebody asked for, or whose Work was dropped. One a process,
started with the first of them; programs that only wait never have it.

Operations of one communicator form a lane and complete in their order, as they do on every rank; of each lane the thread waits
for the first. A message has a lane of its own: nobody can tell which of two messages comes first. To let the thread know of a
new lane while it waits, it waits for a message to itself as well.
"""

import collections
import ctypes
import os
import threading

from anello.library import Status, library

_changing = threading.Condition()
_lanes = {}            # lane -> its operations, the oldest first
_thread = None
_waiting = False       # in the library, with the lanes that there were
_woken = False         # the message is on its way
_closing = False
_gone = False          # this is a forked child, or the interpreter ends: nothing of the library is touched
_ident = None


class _Wake:
    """A communicator of this process alone, on which the thread waits for a message and others send it."""

    def __init__(self):
        self.library = library()
        handle = ctypes.c_void_p()
        if self.library.anello_comm_create_all(1, handle) != 0:
            raise RuntimeError((self.library.anello_last_error(None) or b"").decode())
        self.comm = handle.value
        self.byte = ctypes.create_string_buffer(2)
        self.request = None

    def arm(self):
        """The request that completes when somebody sends."""
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
    """Before the first submit: the thread, which raises here if there can be none."""
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
    """Hands an operation, whose owner is THE_THREAD, to the completion thread. again: it may have been before, and the thread
    not woken; that it then is in its lane twice does no harm."""
    global _woken
    if _gone:
        return
    with _changing:
        # The garbage collector may come at any line, end a Work and call this, for the same lane even.
        lane = _lanes.setdefault(operation.lane, collections.deque())
        lane.append(operation)
        if lane[0] is not operation:
            return  # the thread comes to it when the lane does
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
        # A callback may have completed one that it waited for.
        ended = next((operation for operation in heads if operation.has_ended()), None) or _wait_for_one(opened, heads)
        with _changing:
            _waiting = False
            if ended is None or not ended.has_ended():
                continue
            # Before the callbacks run: what they ask for may be in the same lane.
            lane = _lanes[ended.lane]
            lane.popleft()
            if not lane:
                del _lanes[ended.lane]
        if not ended.done:
            ended.settle()
        del ended, heads  # their tensors are not this thread's to keep


def _wait_for_one(opened, heads):
    """The head one of whose requests has ended; None where the message came."""
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
    operation = heads[max(index.value, 0)]  # -1: the wait itself failed, of which somebody must hear
    operation.requests[operation.at].value = None
    operation.advance(code, status)
    return operation


def close(seconds=5):
    """At the interpreter's end: ends the thread, in bounded time, and starts none any more. What it has not completed stays so.
    A daemon thread that wants the interpreter's lock while that ends would be ended inside PyTorch, which aborts."""
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
    """In a forked child: the thread is the parent's, and a lock may have been held when it forked."""
    global _changing, _thread, _ident, _gone, _waiting
    _changing, _thread, _ident, _gone, _waiting = threading.Condition(), None, None, True, False
    _lanes.clear()


os.register_at_fork(after_in_child=_forget)
