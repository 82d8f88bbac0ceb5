"""Which agreed tensors travel together. Every rank comes to the same answer, because all see the same requests."""

import math

from anello.horovod.request import ALLREDUCE, BROADCAST

_ALIGNMENT = 64  # elements; tensors of a batch begin at a multiple, so that they lie like tensors of their own


class Batch:
    """Tensors that one collective moves. items: (request, place of the tensor in it, offset in elements or bytes)."""

    def __init__(self, request, dtype):
        self.kind, self.dtype = request.kind, dtype
        self.op, self.root = request.op, request.root
        self.prescale, self.postscale = request.prescale, request.postscale
        self.items, self.count = [], 0

    def add(self, request, part, count):
        offset = math.ceil(self.count / _ALIGNMENT) * _ALIGNMENT
        self.items.append((request, part, offset))
        self.count = offset + count

    def names(self):
        return [request.name for request, *_ in self.items]


def batches(agreed, threshold, sizes):
    """agreed: requests in the order of the response. sizes: bytes of an element by dtype. A Batch for allreduce
    and broadcast, and the request itself for other kinds."""
    made, filling = [], {}
    for request in agreed:
        if request.kind not in (ALLREDUCE, BROADCAST) or request.op == "adasum":
            made.append(request)
            continue
        for part, dtype in enumerate(request.dtypes):
            # What is broadcast travels as bytes, whatever its type.
            unit, count = (1, sizes[dtype] * request.elements(part)) if request.kind == BROADCAST else \
                (sizes[dtype], request.elements(part))
            kind = (request.kind, "" if request.kind == BROADCAST else dtype, request.op, request.root,
                    request.prescale, request.postscale)
            batch = filling.get(kind)
            if batch is None or (batch.count + count) * unit > threshold:
                batch = filling[kind] = Batch(request, dtype)
                made.append(batch)
            batch.add(request, part, count)
    return made
