"""Whole models, optimizers and Python objects from rank to rank."""

import ctypes
import io
import pickle

import torch

from anello.horovod.process_set import global_process_set
from anello.horovod.torch.asynchronous import allgather_async, broadcast_async_
from anello.horovod.torch.handles import synchronize


def broadcast_parameters(params, root_rank):
    """Gives all ranks the tensors of root_rank: params is a state_dict, or an iterable of (name, tensor)."""
    if isinstance(params, dict):
        pairs = sorted(params.items(), key=lambda pair: str(pair[0]))
    else:
        pairs = [pair if isinstance(pair, tuple) else (None, pair) for pair in params]
    handles = []
    for name, tensor in pairs:
        if tensor is None:
            continue
        if isinstance(tensor, torch.Tensor):
            handles.append(broadcast_async_(tensor.data, root_rank, None if name is None else f"parameter.{name}"))
        else:
            raise ValueError(
                f"params has {name!r}, which is no tensor but a {type(tensor).__name__}: pass a state_dict or "
                "named_parameters()")
    for handle in handles:
        synchronize(handle)


class _Place:
    """Stands for a tensor, whose contents travel for themselves."""

    def __init__(self, tensor):
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """Gives all ranks the state of root_rank's optimizer, whatever they have. model is not needed and not used."""
    tensors = []

    def take(value):
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return _Place(value)
        return _mapped(take, value)

    def give(value):
        if isinstance(value, _Place):
            tensors.append(torch.empty(value.shape, dtype=value.dtype))
            return tensors[-1]
        return _mapped(give, value)

    here = global_process_set.rank() == root_rank
    state = optimizer.state_dict() if here else None
    skeleton = broadcast_object(take(state), root_rank, "optimizer_state")
    if not here:
        state = give(skeleton)
    handles = [broadcast_async_(each.contiguous() if here else each, root_rank, f"optimizer_state.{number}")
               for number, each in enumerate(tensors)]
    for handle in handles:
        synchronize(handle)
    if not here:
        optimizer.load_state_dict(state)


def _mapped(function, value):
    if isinstance(value, dict):
        return {key: function(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(function, value))
    return value


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """Returns root_rank's object, which travels pickled."""
    name = name or "object"
    here = process_set.ranks[process_set.rank()] == root_rank
    size = torch.zeros(1, dtype=torch.int64)
    packed = None
    if here:
        packed = _pickled(obj)
        size[0] = packed.numel()
    synchronize(broadcast_async_(size, root_rank, f"{name}.size", process_set))
    if not here:
        packed = torch.empty(int(size), dtype=torch.uint8)
    synchronize(broadcast_async_(packed, root_rank, f"{name}.data", process_set))
    return obj if here else pickle.loads(bytes(_view(packed)))


def allgather_object(obj, name=None, process_set=global_process_set):
    """All ranks' objects, in the order of ranks."""
    name = name or "object"
    packed = _pickled(obj)
    sizes = synchronize(allgather_async(torch.tensor([packed.numel()]), f"{name}.sizes", process_set))
    data = synchronize(allgather_async(packed, f"{name}.data", process_set))
    return [pickle.loads(bytes(_view(part))) for part in data.split(sizes.tolist())]


def _pickled(obj):
    memory = io.BytesIO()
    pickle.dump(obj, memory, protocol=pickle.HIGHEST_PROTOCOL)
    return torch.frombuffer(bytearray(memory.getvalue()), dtype=torch.uint8)


def _view(tensor):
    """The bytes of a tensor of bytes, without numpy."""
    return (ctypes.c_char * tensor.numel()).from_address(tensor.data_ptr())
