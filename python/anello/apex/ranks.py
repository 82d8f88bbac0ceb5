"""What the faces of Apex ask of torch.distributed, which a program may or may not have set up."""

import torch
from torch import distributed as dist


def several():
    """Whether this process is one of several ranks."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def say(text):
    """Prints on rank 0 alone."""
    if not several() or dist.get_rank() == 0:
        print(text, flush=True)


def default_group(who):
    """The default group, which a class of this name needs."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(f"{who} needs a process group: call torch.distributed.init_process_group before")
    return dist.group.WORLD


def any_rank(flag):
    """Whether a tensor of one element is not zero on any rank. All ranks of the default group call this."""
    if several():
        flag = flag.detach().to(torch.float32).reshape(1)
        dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag.item())
