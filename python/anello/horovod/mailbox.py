"""Messages of any length between ranks, for the negotiation: small frames, which the library sends at once."""

import ctypes
import time

from anello.errors import AnelloError
from anello.library import Call, Status
from anello.memory import Memory

_SEND, _RECV = 5, 6
_TAG = 7
_FRAME = 4096             # the library promises to send as much without waiting for the receiver
_LONGEST = 64 << 20       # bytes of a message
_LAST, _MORE = b"\1", b"\0"
_NO_LIMIT = 1 << 60  # ms; the library takes its own longest time. An idle job may be silent for as long as it likes
_BYTES = ctypes.sizeof(Call)


def _post(communicator, kind, memory, peer):
    request = ctypes.c_void_p()
    call = Call(_BYTES, kind, memory.dtype, 0, peer, _TAG, memory.address, memory.address, memory.count, _NO_LIMIT,
                None, None, None, None, None, None)
    code = communicator._library.anello_post(communicator.handle, call, request)
    if code:
        raise communicator.error(code, "negotiating")
    return request


class Outbox:
    """Sends from one thread at a time, and never waits for a receiver."""

    def __init__(self, communicator):
        self._communicator, self._library = communicator, communicator._library
        self._under_way = []

    def send(self, rank, message):
        self._reap()
        for begin in range(0, max(1, len(message)), _FRAME - 1):
            part = message[begin:begin + _FRAME - 1]
            flag = _LAST if begin + len(part) == len(message) else _MORE
            memory = Memory(flag + part, writable=False)
            self._under_way.append((_post(self._communicator, _SEND, memory, rank), memory))

    def _reap(self):
        done = ctypes.c_int()
        while self._under_way:
            code = self._library.anello_test(self._under_way[0][0], done, None)
            if code:
                raise self._communicator.error(code, "negotiating")
            if not done.value:
                return
            self._under_way.pop(0)

    def finish(self, seconds):
        """Waits until what was sent has left, or has failed, or for this long."""
        end = time.monotonic() + seconds
        try:
            while self._under_way and time.monotonic() < end:
                self._reap()
                if self._under_way:
                    time.sleep(0.001)
        except AnelloError:
            pass  # nobody is there to receive it

    def drain(self):
        """After the communicator's end: nothing uses the memory any more."""
        for request, _ in self._under_way:
            self._library.anello_wait(request, None)
        self._under_way.clear()


class Inbox:
    """Receives from the given ranks, in one thread."""

    def __init__(self, communicator, sources):
        self._communicator, self._library = communicator, communicator._library
        self._sources = list(sources)
        self._memories = [Memory(bytearray(_FRAME), writable=True) for _ in self._sources]
        self._parts = [bytearray() for _ in self._sources]
        self._requests = (ctypes.c_void_p * len(self._sources))()
        for place in range(len(self._sources)):
            self._listen(place)

    def _listen(self, place):
        self._requests[place] = _post(self._communicator, _RECV, self._memories[place], self._sources[place]).value

    def receive(self):
        """The next message and its source. Waits for as long as it takes; raises AnelloError if a rank is lost, and
        when the communicator is aborted."""
        while True:
            place, status = ctypes.c_int(), Status(-1, -1, 0)
            code = self._library.anello_wait_any(len(self._sources), self._requests, place, status)
            if code:
                raise self._communicator.error(code, "negotiating")
            message = self._take(place.value, status.count)
            if message is not None:
                return self._sources[place.value], message

    def waiting(self):
        """The messages that are there, with their sources."""
        done, status = ctypes.c_int(), Status(-1, -1, 0)
        for place, source in enumerate(self._sources):
            while True:
                request = ctypes.c_void_p(self._requests[place])
                code = self._library.anello_test(request, done, status)
                if code:
                    self._requests[place] = request.value
                    raise self._communicator.error(code, "negotiating")
                if not done.value:
                    break
                message = self._take(place, status.count)
                if message is not None:
                    yield source, message

    def _take(self, place, count):
        frame = ctypes.string_at(self._memories[place].address, count)
        self._listen(place)
        parts = self._parts[place]
        parts += frame[1:]
        if len(parts) > _LONGEST:
            raise ValueError(f"rank {self._sources[place]} of the set sends a message of more than {_LONGEST} bytes")
        if frame[:1] != _LAST:
            return None
        message = bytes(parts)
        parts.clear()
        return message

    def drain(self):
        for place in range(len(self._sources)):
            if self._requests[place]:
                request = ctypes.c_void_p(self._requests[place])
                self._library.anello_wait(request, None)
                self._requests[place] = None
