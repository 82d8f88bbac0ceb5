"""The casts of opt_level O1: functions of torch by autocast, and a program's own functions by name or decorator."""

import contextlib
import functools

import torch
from torch.utils import _pytree as pytree

from anello.apex.amp.state import state

_registered = []  # (module, name, wrapper), which initialize puts in place


def half_of(device):
    """The 16-bit type that suits a device."""
    return torch.float16 if device.type == "cuda" else torch.bfloat16


def devices():
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def to_type(dtype, values):
    """The values, with floating-point tensors in this type; "half": in the one of their device."""
    def cast(each):
        if not isinstance(each, torch.Tensor) or not each.is_floating_point():
            return each
        return each.to(half_of(each.device) if dtype == "half" else dtype)

    return pytree.tree_map(cast, values)


def activate(casts):
    """Casts from here on, in this thread, or casts no more."""
    state.casts = casts
    for device in devices():
        torch.set_autocast_dtype(device, half_of(torch.device(device)))
        torch.set_autocast_enabled(device, casts)
    # A cache that no context ends would keep weights of before the optimizer's step: only forward passes have one.
    torch.set_autocast_cache_enabled(not casts)
    if casts:
        for module, name, wrap in _registered:
            setattr(module, name, wrap(getattr(module, name)))
        _registered.clear()


@contextlib.contextmanager
def disable_casts():
    """No casts inside."""
    before, state.casts = state.casts, False
    try:
        with contextlib.ExitStack() as stack:
            for device in devices():
                stack.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        state.casts = before


class Autocast:
    """A forward pass of a model, whose casts of weights are kept until its end."""

    def __init__(self):
        self._open = []

    def begin(self, module, arguments, named):
        contexts = contextlib.ExitStack()
        if state.casts:
            for device in devices():
                contexts.enter_context(torch.autocast(device, dtype=half_of(torch.device(device)), cache_enabled=True))
        self._open.append(contexts)

    def end(self, module, arguments, named, output):
        self._open.pop().close()

    def attach(self, model):
        model.register_forward_pre_hook(self.begin, prepend=True, with_kwargs=True)
        model.register_forward_hook(self.end, with_kwargs=True, always_call=True)


def half_function(fn):
    """Decorator: the function gets its floating-point tensors in 16 bits while casts are on."""
    return _wrapped(fn, functools.partial(to_type, "half"))


def float_function(fn):
    """Decorator: the function gets its floating-point tensors in float32, and casts nothing itself."""
    return _wrapped(fn, functools.partial(to_type, torch.float32), inside=disable_casts)


def promote_function(fn):
    """Decorator: the function gets its floating-point tensors in the widest type among them."""
    def promote(values):
        kinds = [each.dtype for each in pytree.tree_leaves(values)
                 if isinstance(each, torch.Tensor) and each.is_floating_point()]
        return to_type(functools.reduce(torch.promote_types, kinds), values) if kinds else values

    return _wrapped(fn, promote)


def register_half_function(module, name):
    """The function module.name becomes a half_function at the next amp.initialize with O1."""
    _register(module, name, half_function)


def register_float_function(module, name):
    """The function module.name becomes a float_function at the next amp.initialize with O1."""
    _register(module, name, float_function)


def register_promote_function(module, name):
    """The function module.name becomes a promote_function at the next amp.initialize with O1."""
    _register(module, name, promote_function)


def _register(module, name, wrap):
    if not hasattr(module, name):
        raise ValueError(f"{module} has no function named {name}, so it cannot be registered")
    _registered.append((module, name, wrap))


def _wrapped(fn, cast, inside=contextlib.nullcontext):
    @functools.wraps(fn)
    def wrapper(*arguments, **named):
        if not state.casts:
            return fn(*arguments, **named)
        arguments, named = cast((arguments, named))
        with inside():
            return fn(*arguments, **named)

    return wrapper
