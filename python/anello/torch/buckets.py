"""Memory that all ranks of a host reach, for the buckets of torch.nn.parallel.DistributedDataParallel.

PyTorch's Reducer asks a backend that is written in C++ for such memory, but cannot ask one in Python: its buckets are
malloc'ed, and each all-reduce copies out of them and into them. So this module replaces torch.distributed.Reducer,
which DDP looks up when a module is wrapped, in processes that make a group of this backend. The replacement gives other
memory to the allocation of a bucket, in the constructor and when buckets are rebuilt, and does nothing for the modules
of other groups.
"""

import contextlib
import ctypes
import math
import os

import torch
from torch import distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from anello.errors import AnelloError
from anello.library import library

SMALLEST = 16 << 10   # bytes of a bucket; smaller ones are equally fast in any memory
BLOCK = 256 << 20     # a block is a descriptor and a mapping of each rank, so buckets share them
_ALIGNMENT = 64
_EMPTY = torch.ops.aten.empty.memory_format
_ordinary = dist.Reducer


class Reducer(_ordinary):
    def __init__(self, parameters, *others, **named):
        self._parameters_bytes = None
        if any(_reaches_a_peer(each) for each in (*others, *named.values())):
            self._parameters_bytes = sum(_rounded(each.numel() * each.itemsize) for each in parameters)
            with _BucketMemory(self._parameters_bytes):
                super().__init__(parameters, *others, **named)
        else:
            super().__init__(parameters, *others, **named)

    def _rebuild_buckets(self):
        if self._parameters_bytes is None:
            return super()._rebuild_buckets()
        with _BucketMemory(self._parameters_bytes):
            return super()._rebuild_buckets()


def replace():
    # PyTorch's own setting for "no such memory", which is its default if the variable is not set.
    if dist.Reducer is _ordinary and os.environ.get("DDP_DISABLE_COMM_MEM") != "1":
        dist.Reducer = Reducer


def memory(group, size):
    """A context: one-dimensional tensors made inside lie in such memory, if this group has it and the program wants it.
    They have about `size` bytes together."""
    wanted = os.environ.get("DDP_DISABLE_COMM_MEM") != "1" and _reaches_a_peer(group)
    return _BucketMemory(size) if wanted else contextlib.nullcontext()


def _reaches_a_peer(argument):
    """Whether it is a group of this backend in which another rank is reached through memory."""
    from anello.torch.process_group import ProcessGroup

    if not isinstance(argument, ProcessGroup):
        return False
    try:
        return any(argument._communicator.transport(peer) == "shm" for peer in range(argument.size()))
    except AnelloError:  # the group was destroyed; its next call reports this
        return False


class _BucketMemory(TorchDispatchMode):
    """Allocations inside that can be buckets lie in shared blocks, if there is such memory."""

    def __init__(self, expected):
        super().__init__()
        self._expected = expected  # bytes that are still to be allocated
        self._block = None

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        named = named or {}
        made = function(*arguments, **named)
        # A tensor of another type belongs to another mode, such as that of torch.compile's fake tensors.
        if function is not _EMPTY or type(made) is not torch.Tensor or not made.is_cpu or made.dim() != 1 or named.get("pin_memory"):
            return made
        return self._moved(made)

    def _moved(self, tensor):
        size = tensor.numel() * tensor.itemsize
        if size < SMALLEST:
            return tensor
        if self._block is None or self._block.left < size:
            self._block = _Block(max(size, min(self._expected, BLOCK)))
        memory = self._block.take(size)
        if memory is None:
            return tensor
        self._expected -= _rounded(size)
        return torch.frombuffer(memory, dtype=torch.uint8).view(tensor.dtype)


class _Block:
    """Memory of anello_mem_alloc; freed when the last tensor in it is gone, in any thread."""

    def __init__(self, size):
        opened, address = library(), ctypes.c_void_p()
        self._free = opened.anello_mem_free  # the interpreter may be ending when it is needed
        self._address = address.value if opened.anello_mem_alloc(size, address) == 0 else None
        self._at, self.left = 0, size

    def take(self, size):
        if self._address is None:
            return None
        part = (ctypes.c_char * size).from_address(self._address + self._at)
        part.block = self  # torch.frombuffer's tensor keeps the part
        self._at += _rounded(size)
        self.left -= _rounded(size)
        return part

    def __del__(self):
        if self._address is not None:
            self._free(self._address)  # refused in a forked child, where it belongs to the parent


def _rounded(size):
    return math.ceil(size / _ALIGNMENT) * _ALIGNMENT
