"""Which agreed tensors travel together. Every rank comes to the same answer, because all see the same requests."""

from anello.horovod.request import ALLREDUCE, BROADCAST

_ALONE = 1 << 20  # bytes of a tensor whose two copies take longer than a collective of its own


class Batch:
    """Tensors that one collective moves. items: (request, place of the tensor in it, offset in elements or bytes)."""

    def __init__(self, request, dtype):
        self.kind, self.dtype = request.kind, dtype
        self.op, self.root = request.op, request.root
        self.prescale, self.postscale = request.prescale, request.postscale
        self.items, self.counts, self.count = [], [], 0

    def add(self, request, part, count):
        self.items.append((request, part, self.count))
        self.counts.append(count)
        self.count += count

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
            alone = count * unit >= _ALONE
            batch = None if alone else filling.get(kind)
            if batch is None or (batch.count + count) * unit > threshold:
                batch = Batch(request, dtype)
                made.append(batch)
                if not alone:
                    filling[kind] = batch
            batch.add(request, part, count)
    return made
