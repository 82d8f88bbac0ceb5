"""The operations that return their result. Those that make new tensors can be differentiated."""

from anello.horovod.process_set import global_process_set
from anello.horovod.torch import autograd, reductions
from anello.horovod.torch.asynchronous import (allreduce_async_, barrier_async, broadcast_async_,
                                               grouped_allreduce_async_)
from anello.horovod.torch.compression import Compression
from anello.horovod.torch.handles import synchronize
from anello.horovod.torch.reductions import Average


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0, process_set=global_process_set):
    """The reduction of all ranks' tensors of this name."""
    op = reductions.chosen(op, average)
    compressed, ctx = compression.compress(tensor)
    reduced = autograd.AllReduce.apply(name, op, prescale_factor, postscale_factor, process_set, compressed)
    return compression.decompress(reduced[0], ctx)


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set):
    """The same, in place."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=global_process_set):
    """The reductions of several tensors, which start together."""
    op = reductions.chosen(op, average)
    pairs = [compression.compress(tensor) for tensor in tensors]
    reduced = autograd.AllReduce.apply(name, op, prescale_factor, postscale_factor, process_set,
                                       *[each for each, _ in pairs])
    return [compression.decompress(each, ctx) for each, (_, ctx) in zip(reduced, pairs)]


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                       process_set=global_process_set):
    """The same, in place."""
    return synchronize(
        grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set))


def allgather(tensor, name=None, process_set=global_process_set):
    """All ranks' rows, in the order of ranks. Ranks may have different numbers of rows."""
    return autograd.AllGather.apply(name, process_set, tensor)[0]


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    return list(autograd.AllGather.apply(name, process_set, *tensors))


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """The tensor of root_rank, which is a rank of the job."""
    return autograd.Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """The same, in place."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Rank i gets splits[i] rows of this rank's tensor; without splits, all get equally many. Returns a tensor, and
    with splits also the numbers of rows that have come from each rank."""
    received, arriving = autograd.AllToAll.apply(tensor, splits, name, process_set)
    return received if splits is None else (received, arriving)


def reducescatter(tensor, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                  prescale_factor=1.0, postscale_factor=1.0):
    """This rank's rows of the reduction; the first ranks get one more where rows do not divide evenly."""
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                          prescale_factor=1.0, postscale_factor=1.0):
    pairs = [compression.compress(tensor) for tensor in tensors]
    reduced = autograd.ReduceScatter.apply(name, op, process_set, prescale_factor, postscale_factor,
                                           *[each for each, _ in pairs])
    return [compression.decompress(each, ctx) for each, (_, ctx) in zip(reduced, pairs)]


def join(device=-1):
    """For a rank that has no more batches: it contributes zeros to the others' reductions until all have joined.
    Returns the rank that was last. The average still divides by the number of all ranks."""
    engine = global_process_set.engine()
    entry = engine.join()
    engine.wait(entry)
    if entry.error is not None:
        raise entry.error.with_traceback(None)
    return entry.result


def barrier(process_set=global_process_set):
    """Returns when all ranks have called it."""
    synchronize(barrier_async(process_set))
