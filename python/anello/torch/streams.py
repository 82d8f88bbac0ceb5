"""Calls on tensors of CUDA devices, which are enqueued in streams as over NCCL.

A blocking call runs in the caller's current stream, and the host does not wait for it. An asynchronous call runs in a
stream of the group's own, which waits for the current stream first; Work.wait() makes the current stream wait for its
end. The library enqueues calls legally while a graph is being captured, and this module does nothing else there.
"""

import torch
from torch import cuda

from anello.torch import elements
from anello.torch.stream_work import StreamWork
from anello.torch.work import COMPLETED

_COLLECTIVES = "collectives"


def device_of(held):
    """The CUDA device of a call's tensors, or None if they are on the host."""
    if not cuda.is_initialized():
        return None  # then no tensor is on one
    found, on_host = None, False
    for tensor in elements.within(held):
        if tensor.is_cpu:
            on_host = True
        elif found is None:
            found = tensor.device
        elif tensor.device != found:
            raise ValueError(f"tensors of {found} and of {tensor.device} in one call")
    if on_host and found is not None:
        raise ValueError(f"tensors of the CPU and of {found} in one call")
    return found


def current(device):
    """The calling thread's current stream."""
    return cuda.current_stream(device)


def number_of(device):
    return cuda.current_device() if device.index is None else device.index


class _Memory:
    def __init__(self, address, size, owner):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}
        self.owner = owner


def memory_at(address, size, device, owner):
    """A tensor of bytes on memory that the owner, which it keeps alive, has on the device."""
    return torch.as_tensor(_Memory(address, size, owner), device=device)


class Streams:
    """The group's own streams, each made at its first use. PyTorch has 32 streams per device and priority and hands
    them out in turns, so a group with more than 16 peers may send two messages in one stream."""

    def __init__(self):
        self._streams = {}
        self._devices = set()  # whose tensors the group has had

    def current(self, device):
        self._devices.add(device)
        return cuda.current_stream(device)

    def own(self, device, purpose):
        stream = self._streams.get((device, purpose))
        if stream is None:
            stream = self._streams.setdefault((device, purpose), cuda.Stream(device))
        return stream

    def synchronize(self, numbers=()):
        """Waits for what is in these streams, and in the current streams of all devices that the group or `numbers`
        names."""
        if not cuda.is_initialized():
            return  # nothing has been enqueued; a script for GPUs may name one all the same
        for stream in list(self._streams.values()):
            stream.synchronize()
        for device in {*self._devices, *[torch.device("cuda", number) for number in numbers]}:
            cuda.current_stream(device).synchronize()


class InStreams:
    """The part of ProcessGroup that enqueues calls."""

    def _enqueue(self, device, what, blocking, calls, held, finish, results, purpose=_COLLECTIVES):
        """Like _run. purpose: what the calls share a stream for, if they do not block."""
        with cuda.device(device):  # a stream whose handle is 0 is that of the current device
            current = self._streams.current(device)
            stream = current if blocking else self._streams.own(device, purpose)
            if not blocking:
                stream.wait_stream(current)
            try:
                with self._starting:
                    for call in calls:
                        code = self._library.anello_post_on(self._comm, call, stream.cuda_stream)
                        if code:
                            raise self._error(code, what)
                if finish is not None:
                    with cuda.stream(stream):
                        finish()
            finally:
                if not blocking:
                    ended = stream.record_event()
                    _keep(held, stream)
        if blocking:
            return COMPLETED
        return self._collected(StreamWork(self, device, ended, results, what))

    def _enqueue_message(self, kind, memory, count, dtype, peer, tag, tensor, finish, what):
        """Messages to different ranks, and to and from one, must not wait for each other."""
        call = self._call(kind, memory.data_ptr(), memory.data_ptr(), count, dtype, None, 0, peer)
        call.tag = tag
        return self._enqueue(memory.device, what, False, [call], (memory, tensor), finish, [tensor], (kind, peer))


def _keep(held, stream):
    """The allocator reuses a tensor's memory once its own stream has passed its last use; it must wait for this one."""
    for each in held:
        for tensor in elements.within(getattr(each, "memory", each)):
            tensor.record_stream(stream)
