"""The backend "anello" of torch.distributed:

    import torch
    torch.distributed.init_process_group("anello")

PyTorch finds it through the entry point `torch.backends` of the installed package. If the package is on the path but
not installed, `import anello.torch` registers it.
"""

from anello.torch.register import autoload, register

__all__ = ["DataParallel", "DistributedDataParallel", "ProcessGroup", "Work", "bf16_compress_hook", "register"]


def __getattr__(name):  # PyTorch loads this module at every import of torch, so the rest is loaded when a group is made
    if name == "DistributedDataParallel":
        from anello.torch.data_parallel import DistributedDataParallel

        return DistributedDataParallel
    if name == "DataParallel":
        from anello.torch.multi_device import DataParallel

        return DataParallel
    if name == "ProcessGroup":
        from anello.torch.process_group import ProcessGroup

        return ProcessGroup
    if name == "Work":
        from anello.torch.work import Work

        return Work
    if name == "bf16_compress_hook":
        from anello.torch.hooks import bf16_compress_hook

        return bf16_compress_hook
    raise AttributeError(f"module 'anello.torch' has no attribute {name!r}")


autoload()
