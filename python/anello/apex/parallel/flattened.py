"""One call for many tensors: those of a type and a device travel as one."""

import torch


def apply(tensors, call):
    """Calls call(flat) for the tensors of each type and device, laid end to end, and copies the result back."""
    kinds = {}
    for each in tensors:
        kinds.setdefault((each.dtype, each.device), []).append(each)
    with torch.no_grad():
        for same in kinds.values():
            flat = torch.cat([each.reshape(-1) for each in same])
            call(flat)
            for each, part in zip(same, flat.split([each.numel() for each in same])):
                each.copy_(part.view(each.shape))
