"""The steps of DistributedOptimizer with op=hvd.Adasum: each rank makes a step of its own, and the steps are
combined."""

import contextlib

import torch

from anello.horovod.torch.asynchronous import grouped_allreduce_async_
from anello.horovod.torch.handles import synchronize
from anello.horovod.torch.reductions import Adasum


class AdasumSteps:
    def _prepare(self, names, compression, passes, process_set):
        self._names, self._compression, self._process_set = names, compression, process_set
        self.set_backward_passes_per_step(passes)

    def set_backward_passes_per_step(self, passes):
        """Gradients are not sent, so any number of backward passes may add to them."""
        if passes < 1:
            raise ValueError(f"backward_passes_per_step is {passes}, but should be at least 1")

    def synchronize(self):
        """Does nothing: only steps are sent."""

    @contextlib.contextmanager
    def skip_synchronize(self):
        raise AssertionError("skip_synchronize makes no sense with op=hvd.Adasum: it is the step itself that is sent")
        yield

    def step(self, closure=None):
        trained = [each for each in self._names if each.requires_grad]
        before = [each.detach().clone() for each in trained]
        loss = self._ordinary.step(self, closure) if closure is not None else self._ordinary.step(self)
        if not self._process_set.included() or self._process_set.size() == 1:
            return loss
        with torch.no_grad():
            pairs = [self._compression.compress(each - start) for each, start in zip(trained, before)]
            handle = grouped_allreduce_async_([change for change, _ in pairs], name="adasum_step", op=Adasum,
                                              process_set=self._process_set)
            for each, start, change, (_, context) in zip(trained, before, synchronize(handle), pairs):
                each.copy_(start + self._compression.decompress(change, context))
        return loss
