"""Batch normalization over the batches of all ranks."""

import torch
from torch import distributed as dist
from torch.nn import functional

from anello.apex import ranks


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """Batch normalization whose mean and variance are those of the batches of all ranks of process_group (None: all
    ranks), which may have different sizes.

    The channels are dimension 1, or the last one with channel_last. forward(input, z) adds z to the result, and
    fuse_relu then sets what is negative to zero."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
                 channel_last=False, fuse_relu=False):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_group, self.channel_last, self.fuse_relu = process_group, channel_last, fuse_relu

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm takes inputs of at least 2 dimensions; this one has {input.dim()}")

    def _specify_process_group(self, process_group):
        self.process_group = process_group

    def forward(self, input, z=None):
        self._check_input_dim(input)
        x = input.movedim(-1, 1) if self.channel_last else input
        by_batch = self.training or self.running_mean is None
        together = by_batch and ranks.several() and dist.get_world_size(self.process_group) > 1
        y = self._over_ranks(x) if together else self._alone(x, by_batch)
        y = y.movedim(1, -1) if self.channel_last else y
        if z is not None:
            y = y + z
        return functional.relu(y) if self.fuse_relu else y

    def _factor(self):
        """The weight of this batch in the running statistics."""
        if not self.training or not self.track_running_stats:
            return 0.0
        self.num_batches_tracked.add_(1)
        return 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum

    def _alone(self, x, by_batch):
        tracked = self.running_mean, self.running_var
        if self.training and not self.track_running_stats:
            tracked = None, None
        return functional.batch_norm(x, *tracked, self.weight, self.bias, by_batch, self._factor(), self.eps)

    def _over_ranks(self, x):
        y, mean, variance, count = _Normalized.apply(x, self.weight, self.bias, self.eps, self.process_group)
        factor = self._factor()
        if factor:
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                unbiased = variance * (count / (count - 1).clamp(min=1))
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)
        return y


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps, group):
        # In at least float32. The ranks' means and variances are merged, because sums of squares lose small variances.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        over = [d for d in range(x.dim()) if d != 1]
        own = wide.numel() // max(x.shape[1], 1)
        variance, mean = torch.var_mean(wide, over, correction=0) if own else (wide.new_zeros(x.shape[1]),) * 2
        mine = torch.cat([mean, variance, wide.new_tensor([own])])
        theirs = mine.new_empty(dist.get_world_size(group), len(mine))
        dist.all_gather(list(theirs.unbind()), mine, group=group)
        means, variances, counts = theirs.split([len(mean), len(mean), 1], dim=1)
        count = counts.sum()
        if count == 0:
            raise ValueError("the batches of all ranks are empty: SyncBatchNorm has nothing to normalize")
        mean = (means * counts).sum(0) / count
        variance = ((variances + (means - mean).square()) * counts).sum(0) / count
        scale = torch.rsqrt(variance + eps)
        ctx.save_for_backward(x, weight, mean, scale, count)
        ctx.group, ctx.over, ctx.shape = group, over, [1, -1] + [1] * (x.dim() - 2)
        ctx.mark_non_differentiable(mean, variance, count)
        y = (wide - mean.view(ctx.shape)) * scale.view(ctx.shape)
        if weight is not None:
            y = y * weight.to(y.dtype).view(ctx.shape) + bias.to(y.dtype).view(ctx.shape)
        return y.to(x.dtype), mean, variance, count

    @staticmethod
    def backward(ctx, gradient, *_):
        x, weight, mean, scale, count = ctx.saved_tensors
        gradient = gradient.to(scale.dtype)
        normal = (x.to(scale.dtype) - mean.view(ctx.shape)) * scale.view(ctx.shape)
        for_bias, for_weight = gradient.sum(ctx.over), (gradient * normal).sum(ctx.over)
        for_x = None
        if ctx.needs_input_grad[0]:
            sums = torch.stack([for_bias, for_weight])
            dist.all_reduce(sums, group=ctx.group)
            of_gradient, of_product = (each.view(ctx.shape) for each in (sums / count).unbind())
            factor = scale if weight is None else scale * weight.to(scale.dtype)
            for_x = ((gradient - of_gradient - normal * of_product) * factor.view(ctx.shape)).to(x.dtype)
        if weight is None:
            return for_x, None, None, None, None
        return for_x, for_weight.to(weight.dtype), for_bias.to(weight.dtype), None, None


def convert_syncbn_model(module, process_group=None, channel_last=False):
    """The module, with each BatchNorm replaced by a SyncBatchNorm with the same parameters and buffers."""
    converted = module
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and not isinstance(module, SyncBatchNorm):
        converted = SyncBatchNorm(module.num_features, module.eps, module.momentum, module.affine,
                                  module.track_running_stats, process_group, channel_last)
        converted.weight, converted.bias = module.weight, module.bias
        converted.running_mean, converted.running_var = module.running_mean, module.running_var
        converted.num_batches_tracked = module.num_batches_tracked
        converted.train(module.training)
    for name, child in module.named_children():
        converted.add_module(name, convert_syncbn_model(child, process_group, channel_last))
    return converted


def create_syncbn_process_group(group_size):
    """The group of this rank, if ranks are put into groups of this size in the order of their numbers; 0: None, which
    stands for all ranks. All ranks call this."""
    if group_size == 0:
        return None
    ranks.default_group("create_syncbn_process_group")
    size = dist.get_world_size()
    if group_size < 0 or size % group_size:
        raise ValueError(f"{size} ranks cannot be put into groups of {group_size}: the size must divide their number")
    mine = None
    for first in range(0, size, group_size):
        group = dist.new_group(list(range(first, first + group_size)))
        if first <= dist.get_rank() < first + group_size:
            mine = group
    return mine
