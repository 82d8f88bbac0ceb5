"""From tensors to entries: checks, memory with elements in order, and the handle."""

import torch

from anello.horovod.entry import Entry
from anello.horovod.execution import DTYPES
from anello.horovod.request import Request
from anello.horovod.torch import handles
from anello.torch import elements

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def check(tensors, doing):
    """Raises for tensors that no operation takes."""
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{doing} takes tensors, not {type(tensor).__name__}")
        if not tensor.is_cpu:
            raise NotImplementedError(
                f"{doing} of a tensor on {tensor.device}: Anello moves tensors of the CPU. Move it with "
                ".cpu(), or keep the model there")
        if tensor.layout is not torch.strided:
            raise ValueError(
                f"{doing} of a tensor of layout {tensor.layout}: of sparse ones, only sparse_allreduce_async and "
                "DistributedOptimizer take those of torch.sparse_coo")
        if tensor.dtype not in _NAMES:
            raise TypeError(f"{doing} of a tensor of {tensor.dtype}, which Anello does not know")


def submit(process_set, kind, name, inputs, outputs, finish, op=None, root=-1, prescale=1.0, postscale=1.0, splits=()):
    """inputs: in order (see ordered). Returns a handle."""
    engine = process_set.engine()
    if op is not None:
        for tensor in inputs:
            elements.of_reduction(tensor)
    key = f"{kind}.{engine.automatic_name(kind) if name is None else name}"
    request = Request(key, kind, tuple(_NAMES[each.dtype] for each in inputs),
                      tuple(tuple(each.shape) for each in inputs), "" if op is None else op.word, root, float(prescale),
                      float(postscale), tuple(splits))
    entry = Entry(request, inputs, outputs, finish)
    engine.submit(entry)
    return handles.issue(engine, entry)


def ordered(tensors):
    """The tensors, without a graph, or copies with their elements in order."""
    return [elements.to_read(tensor.detach()) for tensor in tensors]


def in_place(tensors):
    """(memories that are read and written, a finish that brings them back to the tensors where they are copies)."""
    memories = [elements.to_write(tensor.detach(), filled=True) for tensor in tensors]

    def finish(_):
        with torch.no_grad():
            for tensor, memory in zip(tensors, memories):
                if memory.data_ptr() != tensor.data_ptr() or not elements.is_plain(tensor):
                    elements.move(tensor.data, memory)
        return list(tensors)

    return memories, finish


def only(finish):
    """For one tensor: its result instead of a list."""
    return lambda entry: finish(entry)[0]


def first_dimension(tensors, kind):
    for tensor in tensors:
        if tensor.dim() == 0:
            raise ValueError(f"{kind} of a tensor without dimensions: it goes by rows; use tensor.reshape(1)")
