"""The Work of calls that run in a stream. They have ended when an event behind them is complete."""

import torch
from torch import cuda
from torch import distributed as dist


class StreamWork(dist.Work):
    def __init__(self, group, device, ended, results, what):
        super().__init__()
        self._group, self._device, self._ended = group, device, ended
        self._results, self._what = list(results), what
        self._future = None

    def wait(self, timeout=None):
        """The device's current stream waits, the host does not. Raises an error that the group has had by now."""
        error = self.exception()
        if error is not None:
            raise error
        cuda.current_stream(self._device).wait_event(self._ended)
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self._ended.query()

    def is_success(self):
        return self._ended.query() and self.exception() is None

    def exception(self):
        """What ended the group: after it, streams pass the group's calls and their results are unspecified."""
        group = self._group
        code = group._library.anello_comm_async_error(group._comm) if group._comm is not None else 0
        return group._error(code, self._what) if code else None

    def result(self):
        return self._results

    def source_rank(self):
        raise RuntimeError(f"{self._what}: the source of a message in a stream is not known to the host")

    _source_rank = source_rank

    def get_future(self):
        """Already done for the host. A stream in which its value is used, also by a callback, waits for the calls."""
        if self._future is None:
            future = torch.futures.Future(devices=[self._device])
            stream = cuda.Stream(self._device)
            stream.wait_event(self._ended)
            with cuda.stream(stream):  # the future records an event here
                future.set_result(self._results)
            self._future = future
        return self._future
