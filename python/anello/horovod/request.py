"""What a rank says about a tensor, or a group of tensors, that it has submitted."""

import dataclasses
import math

# Kinds of operations, and those whose tensors may differ between ranks in the first dimension.
ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, BARRIER = (
    "allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "barrier")
RAGGED = (ALLGATHER, ALLTOALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    key: str                   # kind and name; ranks match requests by it
    kind: str
    dtypes: tuple = ()         # one for each tensor of the group
    shapes: tuple = ()
    op: str = ""
    root: int = -1
    prescale: float = 1.0
    postscale: float = 1.0
    splits: tuple = ()         # of alltoall: rows for each rank

    def packed(self):
        return [
            self.key, self.kind, self.dtypes, self.shapes, self.op, self.root, self.prescale, self.postscale,
            self.splits
        ]

    @classmethod
    def unpacked(cls, fields):
        key, kind, dtypes, shapes, op, root, prescale, postscale, splits = fields
        return cls(key, kind, tuple(dtypes), tuple(tuple(shape) for shape in shapes), op, root, prescale, postscale,
                   tuple(splits))

    @property
    def name(self):
        return self.key.split(".", 1)[1]

    def elements(self, part):
        return math.prod(self.shapes[part])

    def rows(self):
        """The first dimension of each tensor."""
        return [shape[0] for shape in self.shapes]

    def with_rows(self, rows):
        return dataclasses.replace(self, shapes=tuple((row, *shape[1:]) for row, shape in zip(rows, self.shapes)))

    def described(self):
        tensors = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in zip(self.dtypes, self.shapes))
        words = [f"{self.kind} of {tensors or 'nothing'}"]
        if self.op:
            words.append(f"op {self.op}")
        if self.root >= 0:
            words.append(f"root {self.root}")
        if (self.prescale, self.postscale) != (1, 1):
            words.append(f"scaled by {self.prescale:g} before and {self.postscale:g} after")
        return ", ".join(words)


def difference(requests):
    """Why requests for one key, by rank, do not fit together; None if they do."""
    ranks = sorted(requests)
    first = requests[ranks[0]]
    for rank in ranks[1:]:
        other = requests[rank]
        if _comparable(first) != _comparable(other):
            return (
                f"tensor {first.name!r} differs between ranks: rank {ranks[0]} submitted {first.described()}; "
                f"rank {rank} submitted {other.described()}")
    return None


def _comparable(request):
    if request.kind in RAGGED:
        return dataclasses.replace(request, shapes=tuple(shape[1:] for shape in request.shapes), splits=())
    return request
