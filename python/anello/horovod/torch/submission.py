"""From tensors to entries: checks, memory with elements in order, and the handle."""

import torch

from anello.horovod.entry import Entry
from anello.horovod.execution import DTYPES
from anello.horovod.request import Request
from anello.horovod.torch import handles, staging
from anello.torch import elements
from anello.torch.streams import device_of

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def check(tensors, doing):
    """Raises for tensors that no operation takes."""
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{doing} takes tensors, not {type(tensor).__name__}")
        if not tensor.is_cpu and not tensor.is_cuda:
            raise NotImplementedError(
                f"{doing} of a tensor on {tensor.device}: Anello moves tensors of the CPU and of CUDA devices. Move it "
                "with .cpu()")
        if tensor.layout is not torch.strided:
            raise ValueError(
                f"{doing} of a tensor of layout {tensor.layout}: of sparse ones, only sparse_allreduce_async and "
                "DistributedOptimizer take those of torch.sparse_coo")
        if tensor.dtype not in _NAMES:
            raise TypeError(f"{doing} of a tensor of {tensor.dtype}, which Anello does not know")


def submit(process_set, kind, name, inputs, outputs, finish, op="", root=-1, prescale=1.0, postscale=1.0, splits=()):
    """inputs: in order (see ordered). Returns a handle."""
    engine = process_set.engine()
    if name is None:
        name = engine.automatic_name(kind)
    request = _request(kind, name, inputs, op, root, prescale, postscale, splits)
    device = device_of(inputs)
    entry = Entry(request, inputs, outputs, finish) if device is None else _staged(request, inputs, outputs, finish, device)
    engine.submit(entry)
    return handles.issue(engine, entry)


def _staged(request, inputs, outputs, finish, device):
    """The entry of host memory that stands for tensors of a device."""
    staged = staging.Staged(inputs, device)
    if outputs is None:
        places = None
    elif outputs is inputs:
        places = staged.copies
    else:
        places = [staging.on_host(output) for output in outputs]

    def brought(entry):
        staging.bring(entry, outputs, device)
        return finish(entry)

    return Entry(request, staged.copies, places, brought, staged)


def submit_again(process_set, request, tensor):
    """The request of an earlier operation in place, for a tensor that lies in order."""
    entry, engine = Entry(request, [tensor], [tensor], _only_output), process_set.engine()
    engine.submit(entry)
    return handles.issue(engine, entry)


def _only_output(entry):
    return entry.outputs[0]


_known = {}  # training submits the same requests in each step
_KNOWN = 8192


def _request(kind, name, inputs, op, root, prescale, postscale, splits):
    shapes = tuple([each.shape for each in inputs])
    asked = (kind, name, shapes, inputs[0].dtype if inputs else None, op, root, prescale, postscale)
    request = _known.get(asked) if len(inputs) < 2 and not splits else None
    if request is None:
        if op:
            for tensor in inputs:
                elements.of_reduction(tensor)
        request = Request(f"{kind}.{name}", kind, tuple(_NAMES[each.dtype] for each in inputs),
                          tuple(tuple(shape) for shape in shapes), op, root, float(prescale), float(postscale),
                          tuple(splits))
        if len(inputs) < 2 and not splits:
            if len(_known) == _KNOWN:
                _known.clear()
            _known[asked] = request
    return request


def ordered(tensors):
    """The tensors, without a graph, or copies with their elements in order."""
    return [elements.to_read(_without_graph(tensor)) for tensor in tensors]


def in_place(tensors):
    """(memories that are read and written, a finish that brings them back to the tensors where they are copies)."""
    plain = [_without_graph(tensor) for tensor in tensors]
    memories = [elements.to_write(tensor, filled=True) for tensor in plain]

    def finish(_):
        for tensor, memory in zip(plain, memories):
            if memory is not tensor:
                elements.move(tensor, memory)
        return list(tensors)

    return memories, finish


def _without_graph(tensor):
    return tensor.detach() if tensor.requires_grad else tensor


def only(finish):
    """For one tensor: its result instead of a list."""
    return lambda entry: finish(entry)[0]


def first_dimension(tensors, kind):
    for tensor in tensors:
        if tensor.dim() == 0:
            raise ValueError(f"{kind} of a tensor without dimensions: it goes by rows; use tensor.reshape(1)")
