"""Batch normalization over the batches of all ranks."""

import torch
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from anello.horovod.process_set import global_process_set
from anello.horovod.torch.asynchronous import allgather_async, allreduce_async_
from anello.horovod.torch.handles import synchronize
from anello.horovod.torch.reductions import Sum


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm1d, 2d or 3d whose mean and variance in training are those of all ranks' inputs together. Ranks
    may have batches of different sizes."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm takes inputs of at least 2 dimensions, not {input.dim()}")

    def forward(self, input):
        self._check_input_dim(input)
        if not self.training and self.track_running_stats:
            return functional.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0,
                                         self.eps)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches so far
                factor = 1.0 / float(self.num_batches_tracked)
        if not self.training or global_process_set.size() == 1:
            return functional.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, True,
                                         factor, self.eps)
        return _Normalize.apply(input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, factor)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, bias, running_mean, running_var, eps, factor):
        others = [each for each in range(input.dim()) if each != 1]
        count, mean, squares = _statistics(input, others)
        variance = squares / count
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), factor)
            running_var.lerp_((squares / max(count - 1, 1)).to(running_var.dtype), factor)
        scale = torch.rsqrt(variance + eps).to(input.dtype)
        normal = (input - _wide(mean.to(input.dtype), input)) * _wide(scale, input)
        ctx.save_for_backward(normal, weight, scale)
        ctx.others, ctx.count = others, count
        out = normal
        if weight is not None:
            out = normal * _wide(weight, input) + _wide(bias, input)
        return out

    @staticmethod
    def backward(ctx, gradient):
        normal, weight, scale = ctx.saved_tensors
        of_bias = gradient.sum(ctx.others)
        of_weight = (gradient * normal).sum(ctx.others)
        into = None
        if ctx.needs_input_grad[0]:
            sums = torch.stack((of_bias, of_weight))
            sums = synchronize(allreduce_async_(sums, op=Sum)) / ctx.count
            into = (gradient - _wide(sums[0], gradient) - normal * _wide(sums[1], gradient)) * _wide(scale, gradient)
            if weight is not None:
                into = into * _wide(weight, gradient)
        if weight is None:
            return into, None, None, None, None, None, None
        # The parameters' gradients are this rank's: the optimizer brings the ranks' together.
        return into, of_weight, of_bias, None, None, None, None


def _statistics(input, others):
    """(the elements of a channel on all ranks, its mean, the sum of its squared distances from the mean)."""
    channels = input.shape[1]
    mine = torch.zeros((1, 2 * channels + 1), dtype=torch.float64)
    count = input.numel() // channels
    mine[0, 0] = count
    if count:
        mean = input.double().mean(others)
        mine[0, 1:channels + 1] = mean
        mine[0, channels + 1:] = (input.double() - _wide(mean, input)).square().sum(others)
    everybodys = synchronize(allgather_async(mine))
    counts, means, squares = everybodys[:, :1], everybodys[:, 1:channels + 1], everybodys[:, channels + 1:]
    total = counts.sum()
    mean = (counts * means).sum(0) / total
    return int(total), mean, (squares + counts * (means - mean).square()).sum(0)


def _wide(channels, like):
    return channels.view(1, -1, *[1] * (like.dim() - 2))
