"""Where a backward pass calls the wrapper of a module: at each gradient, and at its end."""

import sys

import torch

_BACKWARD = getattr(torch.autograd.graph, "_engine_run_backward", torch.autograd.backward).__code__


def hook(weak, i):
    """A parameter's hook, which gives its gradient to the wrapper as number i."""
    def take(parameter):
        wrapper = weak()
        if wrapper is not None:
            wrapper._take(i, parameter)

    return take


def remove(hooks):
    for each in hooks:
        each.remove()


def queue(callback):
    """The callback runs at the end of the backward pass under way."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


def depth():
    """The number of backward passes that this thread is inside."""
    depth, frame = 0, sys._getframe(1)
    while frame is not None:
        depth += frame.f_code is _BACKWARD
        frame = frame.f_back
    return depth
