"""Implements TORCH_DISTRIBUTED_DEBUG=DETAIL: before each collective all ranks meet and exchange descriptions of their
calls.

PyTorch has a wrapper for this, but it accepts only backends written in C++. The library always compares calls, but not
the shapes of tensors with equally many elements; and a root that does not wait for the others learns of a difference in
its next call. """

import torch
from torch import distributed as dist

from anello.communicator import MAX_TAG
from anello.errors import MISMATCH, AnelloError
from anello.torch import elements, monitored_barrier
from anello.torch.posting import ALLGATHER

_HERE_I_AM, _GO_ON = MAX_TAG - 3, MAX_TAG - 2  # no program is likely to use these
_LONGEST = 500  # bytes of a description; the rest is not compared
# Ranks may have parts of different sizes, or only the root has them.
_OF_PARTS = {"all_gather", "all_gather_coalesced", "gather", "scatter", "reduce_scatter", "all_to_all", "all_to_all_single"}
_ROOTED = {"broadcast", "reduce", "gather", "scatter"}


def wanted():
    return dist.get_debug_level() == dist.DebugLevel.DETAIL


def compare(group, name, arguments, named):
    """Raises on all ranks, before anything has been called, if their calls differ."""
    opts = named.get("opts", arguments[-1] if arguments else None)
    timeout = getattr(opts, "timeout", None)
    monitored_barrier.run(group, None if timeout is None or timeout.days < 0 else timeout, False, _HERE_I_AM, _GO_ON)
    mine = _describe(name, arguments, opts).encode()[:_LONGEST]
    source = torch.frombuffer(bytearray(mine.ljust(_LONGEST)), dtype=torch.uint8)
    everybodys = torch.empty((group._size, _LONGEST), dtype=torch.uint8)
    dtype, _ = elements.of_movement(source)
    call = group._call(ALLGATHER, source.data_ptr(), everybodys.data_ptr(), _LONGEST, dtype)
    group._wait(group._start("fingerprints", [call], (source, everybodys)))
    said = [bytes(row.tolist()).decode(errors="replace").rstrip() for row in everybodys]
    other = next((rank for rank, text in enumerate(said) if text != said[0]), None)
    if other is not None:
        # Programs search for the words of PyTorch's wrapper.
        raise AnelloError(f"{group._doing(name)}: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
                          f"{said[0]}, but Rank {other} is running collective: {said[other]}. [ANELLO_ERR_MISMATCH]",
                          MISMATCH, "ANELLO_ERR_MISMATCH", other)


def _describe(name, arguments, opts):
    tensors = list(elements.within(arguments))
    if name in _OF_PARTS:
        words = sorted({str(each.dtype) for each in tensors})
    else:
        words = [f"{list(each.shape)} {each.dtype}" for each in tensors]
    reduction = getattr(opts, "reduceOp", None)
    if reduction is not None:
        words.append(reduction.op.name)
    if name in _ROOTED:
        words.append(f"root {opts.rootRank if opts is not None else 0}")
    return f"{name}({', '.join(words)})"
