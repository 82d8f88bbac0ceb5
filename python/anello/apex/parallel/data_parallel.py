"""Apex's DistributedDataParallel."""

import contextlib
import warnings
import weakref

import torch
from torch import distributed as dist

from anello.apex import ranks
from anello.apex.parallel import buckets, flattened
from anello.torch import backward_pass


class DistributedDataParallel(torch.nn.Module):
    """The module, with gradients that are averaged over all ranks of the default group during backward().

    A bucket is sent when the gradients of at least `message_size` elements are there, or with `delay_allreduce` when
    the backward pass has ended, which also allows a parameter to get its gradient in several parts. A bucket in 16-bit
    floats is summed in float32 with `allreduce_always_fp32`. The sum is divided by the number of ranks if
    `gradient_average` is set; `gradient_predivide_factor` of this division comes before the sum. With
    `retain_allreduce_buffers`, gradients are views of the tensors in `.allreduce_buffers`. A gradient of a parameter in
    `allreduce_trigger_params` closes a bucket. Several `num_allreduce_streams` are as many groups, taken in turn. """

    def __init__(self, module, message_size=10000000, delay_allreduce=False, shared_param=None,
                 allreduce_trigger_params=None, retain_allreduce_buffers=False, allreduce_always_fp32=False,
                 num_allreduce_streams=1, allreduce_communicators=None, gradient_average=True,
                 gradient_predivide_factor=1.0, gradient_average_split_factor=None, prof=False, *, device_ids=None,
                 output_device=None):
        super().__init__()
        group = ranks.default_group("DistributedDataParallel")
        if device_ids is not None or output_device is not None:
            warnings.warn("device_ids and output_device are ignored: the module stays on the device where its "
                          "parameters are", stacklevel=2)
        if shared_param is not None:
            raise ValueError("shared_param has no effect any more: shared parameters need no option. To send gradients "
                             "after the backward pass, set delay_allreduce=True")
        if gradient_average_split_factor is not None:
            warnings.warn("gradient_average_split_factor is now called gradient_predivide_factor", stacklevel=2)
            gradient_predivide_factor = gradient_average_split_factor
        if allreduce_trigger_params is not None and delay_allreduce:
            raise ValueError("allreduce_trigger_params has no meaning with delay_allreduce=True: leave one of them out")
        self.module, self.message_size, self.delay_allreduce = module, message_size, delay_allreduce
        self.retain_allreduce_buffers, self.allreduce_always_fp32 = retain_allreduce_buffers, allreduce_always_fp32
        self.gradient_average, self.gradient_predivide_factor = gradient_average, gradient_predivide_factor
        self.prof, self.world_size, self.allreduce_buffers = prof, dist.get_world_size(), []
        self._triggers = None
        if allreduce_trigger_params is not None:
            self._triggers = {id(each) for each in allreduce_trigger_params}
        self._groups = _groups(group, num_allreduce_streams, allreduce_communicators)
        self._disable_allreduce = False
        self._synced, self._hooks = [], []
        self._finalizer = None
        self._refresh()
        flattened.apply([each.detach() for each in module.parameters()], lambda flat: dist.broadcast(flat, 0))

    def enable_allreduce(self):
        self._disable_allreduce = False

    def disable_allreduce(self):
        """Backward passes accumulate gradients on this rank, until enable_allreduce()."""
        self._disable_allreduce = True

    def forward(self, *inputs, **named):
        if self._in_step:
            raise RuntimeError("the last backward() did not end, so some gradients were not averaged: an exception "
                               "ended it, or not all gradients came under a checkpoint (give it use_reentrant=False)")
        self._refresh()
        return self.module(*inputs, **named)

    def _refresh(self):
        """Makes buckets anew if other parameters require gradients than before. This is so on all ranks alike."""
        active = [each for each in self.module.parameters() if each.requires_grad]
        if [id(each) for each in active] == [id(each) for each in self._synced] and self._hooks:
            return
        self._synced = active
        if self._finalizer is not None:
            self._finalizer()
        whole = sum(each.numel() for each in active) + 1
        lists = buckets.plan(active, whole if self.delay_allreduce else self.message_size, self._triggers)
        self._buckets = buckets.make(active, lists, self.allreduce_always_fp32, self._groups[0])
        self._bucket_of = {i: bucket for bucket in self._buckets for i in bucket.numbers}
        self._reached = bytearray(len(active))  # in a backward pass whose gradients have not been averaged yet
        self._leave_step()
        # A weak reference: a parameter's hooks live as long as the parameter, but the wrapper may end earlier.
        weak = weakref.ref(self)
        self._hooks = [each.register_post_accumulate_grad_hook(backward_pass.hook(weak, i))
                       for i, each in enumerate(active)]
        self._finalizer = weakref.finalize(self, backward_pass.remove, self._hooks)

    def _leave_step(self):
        self._in_step, self._queued, self._sent = False, False, 0
        self._came = bytearray(len(self._synced))
        self._missing = len(self._synced)
        for each in self._buckets:
            each.missing = len(each.numbers)

    def _take(self, i, parameter):
        """Called when the gradient of parameter i is in .grad."""
        if parameter.grad.layout is not torch.strided:
            raise RuntimeError("a gradient is sparse, which apex.parallel does not average: set sparse=False in the "
                               "embedding")
        self._reached[i] = 1
        if self._disable_allreduce:
            return
        self._in_step = True
        # Inside a reentrant checkpoint, the end of its backward pass is not the end of the whole pass.
        if not self._queued and backward_pass.depth() <= 1:
            self._queued = True
            backward_pass.queue(self._end_of_backward)
        if not self._came[i]:
            self._came[i] = 1
            self._missing -= 1
            self._bucket_of[i].missing -= 1
        elif not self.delay_allreduce:
            raise RuntimeError("a parameter got a second gradient in a backward pass, when the first may have been "
                               "sent: set delay_allreduce=True")
        if not self.delay_allreduce:
            while self._sent < len(self._buckets) and self._buckets[self._sent].missing == 0:
                self._send_next()
        if self._missing == 0 and not self._queued:
            self._queued = True
            backward_pass.queue(self._end_of_backward)

    def _send_next(self):
        with self._recorded(f"apex all-reduce of bucket {self._sent}"):
            group = self._groups[self._sent % len(self._groups)]
            self._buckets[self._sent].send(self._reached, 1 / self.gradient_predivide_factor, group)
            self._sent += 1

    def _end_of_backward(self):
        if not self._in_step:
            return
        while self._sent < len(self._buckets):
            self._send_next()
        factor = self.gradient_predivide_factor / self.world_size if self.gradient_average else 1
        with self._recorded("apex end of the all-reduces"):
            if self.retain_allreduce_buffers:
                self.allreduce_buffers = [each.retain(factor) for each in self._buckets]
            else:
                for each in self._buckets:
                    each.receive(factor)
        self._reached = bytearray(len(self._synced))
        self._leave_step()

    def _recorded(self, name):
        return torch.profiler.record_function(name) if self.prof else contextlib.nullcontext()

    def __getstate__(self):
        raise TypeError("DistributedDataParallel belongs to its process group: copy or save its .module")


def _groups(default, streams, communicators):
    if communicators is not None:
        groups, their_streams = communicators
        if len(groups) != streams or len(their_streams) != streams:
            raise ValueError(f"allreduce_communicators needs {streams} groups and {streams} streams, as "
                             f"num_allreduce_streams says; it has {len(groups)} and {len(their_streams)}")
        return list(groups)
    return [default] + [dist.new_group() for _ in range(streams - 1)]
