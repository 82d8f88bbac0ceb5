"""Ranks that are threads of this process."""

import concurrent.futures
import os
import weakref

from anello import datatypes
from anello.communicator import Communicator
from anello.torch import elements


class RankThreads:
    """size threads, each with its communicator, until this object is dropped."""

    def __init__(self, size):
        self.communicators = Communicator.create_all(size)
        self._process = os.getpid()
        self._threads = [concurrent.futures.ThreadPoolExecutor(1, f"anello-rank-{rank}") for rank in range(size)]
        weakref.finalize(self, _close, self.communicators)

    def run(self, jobs):
        """Runs jobs[i]() as rank i and returns their results. If jobs raise, all are waited for, and the exception of
        the lowest rank is raised."""
        if os.getpid() != self._process:
            raise RuntimeError("this process was forked from the one with the ranks of this DataParallel: make another one here")
        running = [thread.submit(job) for thread, job in zip(self._threads, jobs)]
        concurrent.futures.wait(running)
        return [each.result() for each in running]

    def reduce_to_first(self, rank, tensor):
        """Collective: rank 0's tensor becomes the sum of all; it may lie on a device."""
        if tensor.is_cuda:  # a call is ordered after the work of the default stream alone
            import torch

            torch.cuda.current_stream(tensor.device).synchronize()
        self.communicators[rank].reduce_at(tensor.data_ptr(), tensor.numel(), elements.of_reduction(tensor), datatypes.SUM, 0)


def _close(communicators):
    for each in communicators:
        each.close()
