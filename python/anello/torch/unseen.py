"""Keeps torch.compile out of the methods that C++ calls: it would try to compile the Python code there, and cannot.

torch.compiler.disable would also do this, but loads all of torch._dynamo, which takes seconds and which most programs
never need. So this module marks the code objects as torch.compiler.disable does.
"""

import types

import torch


def skip(owner):
    """Marks the functions that a class or a module defines."""
    frames = torch._C._dynamo.eval_frame
    if not hasattr(frames, "set_code_exec_strategy"):
        return  # another PyTorch version: torch.compile, if it is used, reports what it cannot compile
    never = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
    for code in _codes(owner):
        frames.set_code_exec_strategy(code, never)


def _codes(owner):
    for value in vars(owner).values():
        while value is not None:
            function = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(function, types.FunctionType) and function.__module__.startswith("anello."):
                yield from _with_inner(function.__code__)
            value = getattr(value, "__wrapped__", None)


def _with_inner(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_inner(constant)
