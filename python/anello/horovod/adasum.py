"""Adasum: gradients are added where they are orthogonal and averaged where they are parallel.

Two vectors combine to (1 - ab/2aa) a + (1 - ab/2bb) b. Ranks combine in a binary tree by their numbers; a rank without
a partner goes up as it is. Each rank computes its slice of all vectors, and the ranks add up the slices' scalar
products, so all get the same bits and nobody holds all vectors.
"""

import ctypes

import torch

from anello import datatypes
from anello.library import Call
from anello.torch import elements
from anello.torch.parts import layout
from anello.torch.posting import ALLGATHERV, ALLTOALLV

_BYTES = ctypes.sizeof(Call)


def reduce(vector, communicator, doing):
    """Replaces vector, which lies in order, by the sum of all ranks' vectors in Adasum's sense."""
    size, rank = communicator.size, communicator.rank
    if not vector.is_floating_point():
        raise TypeError(f"{doing}: Adasum takes floats, not {vector.dtype}")
    shares = [vector.numel() // size + (place < vector.numel() % size) for place in range(size)]
    code, _ = elements.of_movement(vector)
    slices = torch.empty(size * shares[rank], dtype=vector.dtype)
    _post(communicator, doing, ALLTOALLV, vector, slices, code,
          (*layout(shares), *layout([shares[rank]] * size)))
    wide = torch.float64 if vector.dtype is torch.float64 else torch.float32
    level = [part.to(wide) for part in slices.view(size, -1)]
    while len(level) > 1:
        level = _combined(level, communicator, doing)
    mine = level[0].to(vector.dtype)
    _post(communicator, doing, ALLGATHERV, mine, vector, code, (None, None, *layout(shares)))


def _combined(level, communicator, doing):
    pairs = list(zip(level[::2], level[1::2]))
    products = torch.tensor([[_dot(a, b), _dot(a, a), _dot(b, b)] for a, b in pairs], dtype=torch.float64)
    code = communicator._library.anello_allreduce(products.data_ptr(), products.data_ptr(), products.numel(),
                                                  datatypes.FLOAT64, datatypes.SUM, communicator.handle)
    if code:
        raise communicator.error(code, doing)
    out = []
    for (a, b), (ab, aa, bb) in zip(pairs, products.tolist()):
        out.append(a * (1 - ab / (2 * aa) if aa else 1) + b * (1 - ab / (2 * bb) if bb else 1))
    return out + level[2 * len(pairs):]


def _dot(a, b):
    return torch.dot(a.double(), b.double()).item()


def _post(communicator, doing, kind, source, into, dtype, counts):
    call = Call(_BYTES, kind, dtype, 0, 0, 0, source.data_ptr(), into.data_ptr(), source.numel(), 0, *counts, None,
                None)
    code = communicator._library.anello_post(communicator.handle, call, None)
    if code:
        raise communicator.error(code, doing)
