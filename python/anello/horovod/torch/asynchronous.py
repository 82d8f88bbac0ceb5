"""The operations that return a handle; see handles.py for what to do with it."""

import torch

from anello.horovod import request as requests
from anello.horovod.process_set import global_process_set
from anello.horovod.torch import reductions
from anello.horovod.torch.handles import synchronize
from anello.horovod.torch.reductions import Adasum, Average, Sum
from anello.horovod.torch.submission import check, first_dimension, in_place, only, ordered, submit
from anello.torch import elements


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set):
    """The reduction of all ranks' tensors of this name."""
    return _reduce([tensor], average, name, op, prescale_factor, postscale_factor, process_set, False, only)


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set):
    """The same, in place."""
    return _reduce([tensor], average, name, op, prescale_factor, postscale_factor, process_set, True, only)


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set):
    """The reductions of several tensors, which start together."""
    return _reduce(list(tensors), average, name, op, prescale_factor, postscale_factor, process_set, False)


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                             process_set=global_process_set):
    """The same, in place."""
    return _reduce(list(tensors), average, name, op, prescale_factor, postscale_factor, process_set, True)


def _reduce(tensors, average, name, op, prescale, postscale, process_set, here, shape=lambda finish: finish):
    op = reductions.chosen(op, average)
    check(tensors, "allreduce")
    if op is Adasum and not all(tensor.is_floating_point() for tensor in tensors):
        raise TypeError("Adasum takes tensors of floats")
    if here:
        memories, finish = in_place(tensors)
        return submit(process_set, requests.ALLREDUCE, name, memories, memories, shape(finish), op.word, -1, prescale,
                      postscale)
    inputs = ordered(tensors)
    return submit(process_set, requests.ALLREDUCE, name, inputs, _like(inputs), shape(_outputs), op.word, -1, prescale,
                  postscale)


def _like(tensors):
    return [elements.empty(tensor) for tensor in tensors]


def _outputs(entry):
    return entry.outputs


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Returns a handle that, when it is called, gives the sum or average of all ranks' sparse tensors."""
    if op not in (Sum, Average):
        raise NotImplementedError(
            f"sparse tensors can be summed or averaged, not reduced by {op}; sparse_as_dense=True makes "
            "dense ones")
    mine = tensor.detach().coalesce()
    rows = allgather_async(mine._indices().t().contiguous(), f"{name}.indices", process_set)
    values = allgather_async(mine._values(), f"{name}.values", process_set)

    def handle():
        indices, everything = synchronize(rows).t(), synchronize(values)
        total = torch.sparse_coo_tensor(indices, everything, tensor.shape, check_invariants=False).coalesce()
        return total / process_set.size() if op is Average else total

    return handle


def allgather_async(tensor, name=None, process_set=global_process_set):
    """All ranks' rows, in the order of ranks. Ranks may have different numbers of rows."""
    return _gather([tensor], name, process_set, only)


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    return _gather(list(tensors), name, process_set)


def _gather(tensors, name, process_set, shape=lambda finish: finish):
    check(tensors, "allgather")
    first_dimension(tensors, "allgather")
    return submit(process_set, requests.ALLGATHER, name, ordered(tensors), None, shape(_outputs))


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """The tensor of root_rank, which is a rank of the job."""
    check([tensor], "broadcast")
    _check_root(root_rank, process_set)
    inputs = ordered([tensor])
    return submit(process_set, requests.BROADCAST, name, inputs, _like(inputs), only(_outputs), root=root_rank)


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """The same, in place."""
    check([tensor], "broadcast")
    _check_root(root_rank, process_set)
    memories, finish = in_place([tensor])
    return submit(process_set, requests.BROADCAST, name, memories, memories, only(finish), root=root_rank)


def _check_root(root_rank, process_set):
    process_set.engine()
    if root_rank not in process_set.ranks:
        raise ValueError(f"root_rank {root_rank} is not one of the ranks {process_set.ranks}")


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Rank i gets splits[i] rows of this rank's tensor; without splits, all get equally many. The result is a tensor,
    and with splits also the numbers of rows that have come from each rank."""
    check([tensor], "alltoall")
    first_dimension([tensor], "alltoall")
    process_set.engine()
    size, rows = process_set.size(), tensor.shape[0]
    given = splits is not None
    if not given:
        if rows % size:
            raise ValueError(f"alltoall without splits: {rows} rows cannot be divided evenly among {size} ranks")
        splits = [rows // size] * size
    else:
        splits = splits.tolist() if isinstance(splits, torch.Tensor) else list(splits)
        if len(splits) != size or any(not isinstance(each, int) or each < 0 for each in splits) or sum(splits) > rows:
            raise ValueError(f"alltoall: splits {splits} are not {size} numbers of rows that add up to at most {rows}")

    def finish(entry):
        received, arriving = entry.outputs[0]
        return (received, arriving) if given else received

    return submit(process_set, requests.ALLTOALL, name, ordered([tensor]), None, finish, splits=splits)


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0):
    """This rank's rows of the reduction; the first ranks get one more where rows do not divide evenly."""
    return _reduce_scatter([tensor], name, op, process_set, prescale_factor, postscale_factor, only)


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                                postscale_factor=1.0):
    return _reduce_scatter(list(tensors), name, op, process_set, prescale_factor, postscale_factor)


def _reduce_scatter(tensors, name, op, process_set, prescale, postscale, shape=lambda finish: finish):
    op = reductions.chosen(op, None)
    if op is Adasum:
        raise NotImplementedError("reducescatter does not compute Adasum: use allreduce")
    check(tensors, "reducescatter")
    first_dimension(tensors, "reducescatter")
    return submit(process_set, requests.REDUCESCATTER, name, ordered(tensors), None, shape(_outputs), op.word, -1,
                  prescale, postscale)


def barrier_async(process_set=global_process_set):
    return submit(process_set, requests.BARRIER, None, (), (), lambda _: None)
