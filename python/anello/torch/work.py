"""The objects that torch.distributed gets for an operation: a Work, and its future."""

import sys
from datetime import timedelta

import torch
from torch import distributed as dist

from anello.errors import AnelloError
from anello.torch import completions

_NO_LIMIT = timedelta(0)
_PATIENCE = 20e-6  # seconds that get_future itself waits; passing the operation to the completion thread takes longer
# The frame from which C++ calls us in a backward pass, and the hooks whose callbacks are known to start no collective.
_BACKWARD = getattr(torch.autograd.graph, "_engine_run_backward", torch.autograd.backward).__code__
_HOOKS_THAT_ONLY_COPY = {"torch.distributed.algorithms.ddp_comm_hooks.default_hooks", "anello.torch.hooks"}


class Work(dist.Work):
    """A Work is completed lazily: wait() blocks in the library, without the interpreter's lock."""

    def __init__(self, operation):
        super().__init__()
        self._operation = operation
        self._future = None

    def wait(self, timeout=_NO_LIMIT):
        operation = self._operation
        if not operation.done:
            limit = None if timeout is None or timeout <= _NO_LIMIT else timeout.total_seconds()
            try:
                operation.complete(limit)
            except TimeoutError:
                raise AnelloError(f"{operation.doing}: not complete after {limit} s, and still under way") from None
        if operation.error is not None:
            raise operation.error.with_traceback(None)
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self._operation.looks_done()

    def is_success(self):
        return self._operation.looks_done() and self._operation.error is None

    def exception(self):
        return self._operation.error if self._operation.looks_done() else None

    def result(self):
        self.wait()
        return self._operation.results

    def source_rank(self):
        self.wait()
        return self._operation.source

    _source_rank = source_rank

    def get_future(self):
        if self._future is None:
            operation = self._operation
            base = torch.futures.Future()

            def outcome(_):
                if operation.error is not None:
                    raise operation.error.with_traceback(None)
                return operation.results

            # C++ takes an exception that is stored in a future for its value; an exception that a callback raises is an
            # error.
            future = base.then(outcome)
            here = completions.is_this_thread() or _in_hook(sys._getframe(1))
            if not here and not operation.looks_done(_PATIENCE):
                completions.start()
            operation.want_future(base, here)
            self._future = future
        return self._future

    def __del__(self):
        operation = self.__dict__.get("_operation")
        if operation is not None and not operation.done:
            completions.start()
            operation.adopt()


def _in_hook(frame):
    """Whether the caller is a communication hook inside a backward pass, whose callbacks may start collectives.

    Those must start in the same order on every rank, relative to the collectives of the backward pass. If they ran when
    the operation happens to complete, the order would vary. So a hook finds its operation complete and its callbacks
    run at once, as with operations that are queued on a device.
    """
    if frame is None or frame.f_code is _BACKWARD or frame.f_globals.get("__name__") in _HOOKS_THAT_ONLY_COPY:
        return False
    while frame is not None:
        if frame.f_code is _BACKWARD:
            return True
        frame = frame.f_back
    return False


class Works(dist.Work):
    """The Work of several operations that were started together."""

    def __init__(self, works):
        super().__init__()
        self._works = works

    def wait(self, timeout=_NO_LIMIT):
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return all([work.is_completed() for work in self._works])

    def is_success(self):
        return all([work.is_success() for work in self._works])

    def exception(self):
        return next((work.exception() for work in self._works if work.exception() is not None), None)

    def result(self):
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self):
        return torch.futures.collect_all([work.get_future() for work in self._works]).then(
            lambda done: [tensor for future in done.value() for tensor in future.value()])


class CompletedWork(dist.Work):
    """The Work of a blocking call, which is already complete."""

    def wait(self, timeout=_NO_LIMIT):
        return True

    def synchronize(self):
        pass

    def is_completed(self):
        return True

    is_success = is_completed

    def exception(self):
        return None

    def result(self):
        return []

    def get_future(self):
        future = torch.futures.Future()
        future.set_result([])
        return future


COMPLETED = CompletedWork()
