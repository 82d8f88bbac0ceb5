"""The interface of NVIDIA Apex's data-parallel and mixed-precision parts, over torch.distributed:

    from anello.apex import amp
    from anello.apex.parallel import DistributedDataParallel

The distribution anello-apex provides the same modules under the name `apex`. docs/apex.md says what is there.
"""

from anello.apex import amp, parallel
from anello.apex.left_out import INSTEAD, LeftOut, Part

__all__ = ["LeftOut", "amp", "parallel"]


def __getattr__(name):
    if name in INSTEAD:
        return Part(f"anello.apex.{name}")
    raise AttributeError(f"module 'anello.apex' has no attribute {name!r}")
