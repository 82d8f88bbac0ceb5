"""all_reduce of sparse tensors, as in gloo: every rank gets all ranks' indices and values, and adds them.

Their numbers must be known before they can be gathered, so the call waits for the numbers even if the caller does not
wait.
"""

import torch
from torch.distributed import ReduceOp

from anello.torch import elements
from anello.torch.posting import ALLGATHER, ALLGATHERV
from anello.torch.parts import layout


def allreduce(group, tensor, opts):
    if tensor.layout is not torch.sparse_coo or not tensor.is_cpu:
        raise ValueError(f"all_reduce of a tensor of layout {tensor.layout} on {tensor.device}: of sparse ones the backend "
                         "anello takes those of torch.sparse_coo on the CPU")
    op = ReduceOp.SUM if opts is None else opts.reduceOp.op
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"sparse tensors can be summed or averaged, not reduced by {op}")
    mine = tensor.detach().coalesce()
    indices, values = mine._indices().contiguous(), mine._values().contiguous()
    counts = _counts(group, mine, opts)
    index_parts = [torch.empty((indices.shape[0], count), dtype=torch.int64) for count in counts]
    value_parts = [torch.empty((count, *values.shape[1:]), dtype=values.dtype) for count in counts]
    calls, pairs, held = [], [], [tensor, indices, values]
    for source, parts in ((indices, index_parts), (values, value_parts)):
        dtype, each = elements.of_movement(source)
        whole, places = elements.flat(parts)
        arrays = layout([part.numel() * each for part in parts])
        calls.append(group._call(ALLGATHERV, source.data_ptr(), whole.data_ptr(), source.numel() * each, dtype, opts,
                                 counts=(None, None, *arrays)))
        held += [whole, arrays]
        pairs.append(places)
    results = [tensor]

    def add_up():
        total = torch.sparse_coo_tensor(torch.cat(pairs[0], 1), torch.cat(pairs[1]), mine.shape, check_invariants=False)
        total = total.coalesce()
        if op == ReduceOp.AVG:
            total = total / group._size
        with torch.no_grad():  # .data would change a copy of a sparse tensor's parts
            tensor.copy_(total)

    return group._run("all_reduce", opts, calls, held, add_up, results)


def _counts(group, tensor, opts):
    """The number of values of each rank; raises if the tensors do not have equal shapes."""
    mine = torch.tensor([tensor._nnz(), tensor.sparse_dim(), tensor.dense_dim(), *tensor.shape], dtype=torch.int64)
    all_of_them = torch.empty((group._size, mine.numel()), dtype=torch.int64)
    dtype, _ = elements.of_movement(mine)
    call = group._call(ALLGATHER, mine.data_ptr(), all_of_them.data_ptr(), mine.numel(), dtype, opts)
    group._wait(group._start("all_reduce", [call], (mine, all_of_them)))
    for rank, row in enumerate(all_of_them.tolist()):
        if row[1:] != mine.tolist()[1:]:
            raise ValueError(f"all_reduce of sparse tensors of shape {tuple(tensor.shape)}, {tensor.sparse_dim()} dimensions "
                             f"of it sparse, here, and {tuple(row[3:])}, {row[1]} of it sparse, on rank {rank}")
    return all_of_them[:, 0].tolist()
