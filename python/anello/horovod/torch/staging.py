"""Tensors of CUDA devices. Operations move copies of them in pinned memory of the host, as Horovod does without NCCL,
because tensors travel together, and in an order that is known only after they have been submitted."""

import torch
from torch import cuda


class Staged:
    """The host's copies of tensors that are in order. They arrive while the host and other kernels go on."""

    def __init__(self, tensors, device):
        self.copies = [on_host(tensor) for tensor in tensors]
        for copy, tensor in zip(self.copies, tensors):
            copy.copy_(tensor, non_blocking=True)
        self._copied = cuda.current_stream(device).record_event()

    def arrive(self):
        self._copied.synchronize()

    def has_arrived(self):
        return self._copied.query()


def on_host(like):
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)


def bring(entry, outputs, device):
    """Puts the host's results into the tensors of the device, or new ones if there are none."""
    if outputs is not None:
        for output, result in zip(outputs, entry.outputs):
            output.copy_(result)
        entry.outputs = outputs
    else:
        entry.outputs = [_moved(result, device) for result in entry.outputs]


def _moved(result, device):
    """alltoall has pairs: rows, and how many came from each rank, which stay on the host."""
    return (result[0].to(device), *result[1:]) if isinstance(result, tuple) else result.to(device)
