"""Copies of a module that compute with other tensors than its own parameters, and share all else with it."""

import contextlib

import torch


def leaves(module, device):
    """The module's parameters by id, as leaves of a graph of their own on the device. They share memory with those that
    are there already."""
    return {id(each): each.detach().to(device, non_blocking=True).requires_grad_(each.requires_grad)
            for each in module.parameters()}


def replica(module, parameters, device, first):
    """first: buffers are the module's own, so that what a forward pass leaves in them stays."""
    buffers = {id(each): each if first else each.detach().to(device, copy=True) for each in module.buffers()}
    made = {each: each._replicate_for_data_parallel() for each in module.modules()}
    for original, copy in made.items():
        for name, child in original._modules.items():
            if child is not None:
                copy._modules[name] = made[child]
        for kind, tensors in (("_parameters", parameters), ("_buffers", buffers)):
            for name, tensor in getattr(original, kind).items():
                if tensor is None:
                    getattr(copy, kind)[name] = None
                elif kind == "_buffers":
                    copy._buffers[name] = tensors[id(tensor)]
                else:
                    setattr(copy, name, tensors[id(tensor)])  # a tensor of the graph, which is no nn.Parameter
    return made[module]


class Surroundings:
    """What the calling thread has set for its computation, to be set in another thread."""

    def __init__(self, devices):
        self._grad = torch.is_grad_enabled()
        self._inference = torch.is_inference_mode_enabled()
        self._autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in {"cpu", devices[0].type}]
        self._cache = torch.is_autocast_cache_enabled()
        self._streams = {each: torch.cuda.current_stream(each) for each in devices if each.type == "cuda"}

    def run(self, device, call):
        with contextlib.ExitStack() as stack:
            if self._inference:
                stack.enter_context(torch.inference_mode())
            stack.enter_context(torch.set_grad_enabled(self._grad))
            for kind, enabled, dtype in self._autocast:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self._cache))
            if device.type == "cuda":
                stack.enter_context(torch.cuda.device(device))
                stack.enter_context(torch.cuda.stream(self._streams[device]))
            return call()
