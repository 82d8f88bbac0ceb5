"""Memory in which small tensors travel together. The ranks of a host map it, so they add where it lies."""

import ctypes

import torch

from anello.library import library

_SMALLEST = 1 << 20


class FusionMemory:
    """Grows to the largest batch; of one engine, whose executor alone uses it."""

    def __init__(self):
        self._bytes, self._size = None, 0

    def of(self, count, dtype):
        """A tensor of this many elements, whose contents are unspecified."""
        size = count * dtype.itemsize
        if self._bytes is None or self._size < size:
            self._bytes = None
            self._size = max(_SMALLEST, 1 << (size - 1).bit_length())
            self._bytes = _mapped(self._size)
        return self._bytes[:size].view(dtype)


def _mapped(size):
    opened, address = library(), ctypes.c_void_p()
    if opened.anello_mem_alloc(size, address) != 0:
        return torch.empty(size, dtype=torch.uint8)
    part = (ctypes.c_char * size).from_address(address.value)
    part.block = _Block(opened.anello_mem_free, address.value)  # torch.frombuffer's tensor keeps the part
    return torch.frombuffer(part, dtype=torch.uint8)


class _Block:
    def __init__(self, free, address):
        self._free, self._address = free, address

    def __del__(self):
        self._free(self._address)
