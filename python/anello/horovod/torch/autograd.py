"""What operations do to gradients. Each is linear, so its backward is the transposed operation."""

import torch

from anello.horovod.torch import asynchronous
from anello.horovod.torch.handles import synchronize
from anello.horovod.torch.reductions import Average, Sum


def _differentiable(op):
    if op not in (Average, Sum):
        raise NotImplementedError(f"{op} has no gradient here; Average and Sum have")


class AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, prescale, postscale, process_set, *tensors):
        ctx.arguments = (None, None, op, prescale, postscale, process_set)
        if len(tensors) == 1:
            return (synchronize(asynchronous.allreduce_async(tensors[0], None, name, *ctx.arguments[2:])),)
        return tuple(synchronize(asynchronous.grouped_allreduce_async(tensors, None, name, *ctx.arguments[2:])))

    @staticmethod
    def backward(ctx, *gradients):
        _differentiable(ctx.arguments[2])
        return (None,) * 5 + tuple(synchronize(asynchronous.grouped_allreduce_async(gradients, *ctx.arguments)))


class AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.process_set, ctx.rows = process_set, [each.shape[0] if each.dim() else 0 for each in tensors]
        if len(tensors) == 1:
            return (synchronize(asynchronous.allgather_async(tensors[0], name, process_set)),)
        return tuple(synchronize(asynchronous.grouped_allgather_async(tensors, name, process_set)))

    @staticmethod
    def backward(ctx, *gradients):
        place, size = ctx.process_set.rank(), ctx.process_set.size()
        counts = torch.tensor([ctx.rows])
        everybodys = synchronize(asynchronous.allgather_async(counts, None, ctx.process_set))
        sums = synchronize(asynchronous.grouped_allreduce_async(gradients, op=Sum, process_set=ctx.process_set))
        assert everybodys.shape[0] == size
        begins = everybodys[:place].sum(0).tolist()
        return (None, None) + tuple(each[begin:begin + rows] for each, begin, rows in zip(sums, begins, ctx.rows))


class Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.root, ctx.process_set = root_rank, process_set
        return synchronize(asynchronous.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, gradient):
        total = synchronize(asynchronous.allreduce_async(gradient, op=Sum, process_set=ctx.process_set))
        here = ctx.process_set.ranks[ctx.process_set.rank()] == ctx.root
        return total if here else torch.zeros_like(total), None, None, None


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        given = splits if splits is not None else _even(tensor, process_set)
        received, arriving = synchronize(asynchronous.alltoall_async(tensor, given, name, process_set))
        ctx.arriving, ctx.process_set, ctx.shape = arriving, process_set, tensor.shape
        ctx.mark_non_differentiable(arriving)
        return received, arriving

    @staticmethod
    def backward(ctx, gradient, _):
        back, _ = synchronize(asynchronous.alltoall_async(gradient, ctx.arriving, None, ctx.process_set))
        if back.shape[0] < ctx.shape[0]:  # rows that no rank got
            back = torch.cat((back, back.new_zeros((ctx.shape[0] - back.shape[0], *ctx.shape[1:]))))
        return back, None, None, None


def _even(tensor, process_set):
    process_set.engine()
    size = process_set.size()
    if tensor.dim() == 0 or tensor.shape[0] % size:
        return None  # alltoall_async says what is wrong
    return [tensor.shape[0] // size] * size


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, process_set, prescale, postscale, *tensors):
        ctx.arguments = (op, process_set, prescale, postscale)
        if len(tensors) == 1:
            return (synchronize(asynchronous.reducescatter_async(tensors[0], name, *ctx.arguments)),)
        return tuple(synchronize(asynchronous.grouped_reducescatter_async(tensors, name, *ctx.arguments)))

    @staticmethod
    def backward(ctx, *gradients):
        op, process_set, prescale, postscale = ctx.arguments
        _differentiable(op)
        factor = prescale * postscale / (process_set.size() if op is Average else 1)
        whole = synchronize(asynchronous.grouped_allgather_async(gradients, None, process_set))
        return (None,) * 5 + tuple(each * factor for each in whole)
