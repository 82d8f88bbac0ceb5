"""A bucket: gradients of one type that are summed over the ranks in one call."""

import torch
from torch import distributed as dist

from anello.torch import buckets as shared


def plan(parameters, fewest, ends_with):
    """Lists of numbers of parameters, one list for each bucket, in the order in which buckets are sent. The backward
    pass reaches parameters about in reverse, so the last ones come first. A bucket is closed when it has `fewest`
    elements; or, if `ends_with` is not None, at these parameters."""
    lists, open_of = [], {}
    for i in reversed(range(len(parameters))):
        kind = (parameters[i].dtype, parameters[i].device)
        if kind not in open_of:
            open_of[kind] = [], 0
        members, count = open_of[kind]
        members.append(i)
        open_of[kind] = members, count + parameters[i].numel()
        closing = []
        if ends_with is None:
            closing = [kind] if open_of[kind][1] >= fewest else []
        elif id(parameters[i]) in ends_with:  # a trigger sends what has come, of every type
            closing = list(open_of)
        for each in closing:
            lists.append(open_of.pop(each)[0])
    return lists + [members for members, _ in open_of.values()]


class Bucket:
    """The flat memory of some parameters' gradients. Behind them it has an element for each parameter that is not zero
    where a rank has a gradient of it."""

    def __init__(self, numbers, parameters, float32):
        self.numbers, self.parameters = numbers, parameters
        self.dtype = parameters[0].dtype
        self._wire = torch.float32 if float32 else self.dtype
        self._counts = [each.numel() for each in parameters]
        self._elements = sum(self._counts)
        self.missing = len(numbers)
        self._flat = self._work = None

    @property
    def nbytes(self):
        return (self._elements + len(self.numbers)) * self._wire.itemsize

    def allocate(self):
        self._flat = torch.empty(self._elements + len(self.numbers), dtype=self._wire, device=self.parameters[0].device)

    def send(self, has_gradient, factor, group):
        """Starts the sum of all ranks' gradients, each multiplied by the factor."""
        with torch.no_grad():
            for parameter, part in zip(self.parameters, self._parts(self._flat)):
                if parameter.grad is None:
                    part.zero_()
                else:
                    part.copy_(parameter.grad)
            if factor != 1:
                self._flat[:self._elements].mul_(factor)
            self._flat[self._elements:].copy_(torch.tensor([float(has_gradient[i]) for i in self.numbers]))
        self._work = dist.all_reduce(self._flat, group=group, async_op=True)

    def receive(self, factor):
        """Waits for the sum and puts it, multiplied by the factor, into the gradients that a rank had."""
        self._end(factor)
        used = self._used()
        with torch.no_grad():
            for parameter, part, count in zip(self.parameters, self._parts(self._flat), used):
                if count == 0:
                    continue
                if parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
                parameter.grad.copy_(part)

    def retain(self, factor):
        """The same, but gradients become views of memory that is returned and not used again."""
        self._end(factor)
        used = self._used()
        kept = self._flat[:self._elements].to(self.dtype, copy=True)
        for parameter, part, count in zip(self.parameters, self._parts(kept), used):
            if count != 0:
                parameter.grad = part
        return kept

    def _end(self, factor):
        work, self._work = self._work, None
        work.wait()
        if factor != 1:
            self._flat[:self._elements].mul_(factor)

    def _used(self):
        """Which parameters have a gradient on some rank. Where all have one here, no device needs to be asked."""
        return [1] * len(self.numbers) if self.missing == 0 else self._flat[self._elements:].tolist()

    def _parts(self, flat):
        parts = flat[:self._elements].split(self._counts)
        return [part.view(each.shape) for part, each in zip(parts, self.parameters)]


def make(parameters, lists, float32, group):
    """The buckets of a plan; in memory that ranks of a host map, where the group has it."""
    made = [Bucket(numbers, [parameters[i] for i in numbers], float32 and parameters[numbers[0]].dtype.itemsize < 4)
            for numbers in lists]
    with shared.memory(group, sum(each.nbytes for each in made)):
        for each in made:
            each.allocate()
    return made
