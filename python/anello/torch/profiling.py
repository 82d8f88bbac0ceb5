"""Operations for torch.profiler: from the call to their completion, with the shapes of their inputs, and marked as
asynchronous like those of PyTorch's own backends, so that the time does not count as computation of the calling thread.

An event is asynchronous if another thread ends it.
"""

import concurrent.futures
import os
import threading

import torch

from anello.torch import elements

_elsewhere = None
SOON = 10  # seconds; the other thread has nothing else to do


class Event:
    """An event begins when it is made."""

    def __init__(self, name, inputs):
        self._thread = threading.get_ident()
        self._over = torch.futures.Future()
        begun = torch.autograd._record_function_with_args_enter(name, *elements.within(inputs))
        with torch._C.DisableTorchFunctionSubclass():
            torch.ops.profiler._call_end_callbacks_on_jit_fut._RecordFunction(begun, self._over)

    def end(self):
        """When this returns, the profiler has it: a program may stop profiling as soon as it has waited."""
        if threading.get_ident() != self._thread:
            self._over.set_result(None)
            return
        try:
            ended = _other_thread().submit(self._over.set_result, None)
        except RuntimeError:  # the interpreter ends and starts no thread: the event is not marked
            self._over.set_result(None)
            return
        concurrent.futures.wait([ended], SOON)


def _other_thread():
    global _elsewhere
    if _elsewhere is None:
        _elsewhere = concurrent.futures.ThreadPoolExecutor(1, "anello-profiling")
    return _elsewhere


def _forget():  # in a forked child the thread is the parent's
    global _elsewhere
    _elsewhere = None


os.register_at_fork(after_in_child=_forget)
