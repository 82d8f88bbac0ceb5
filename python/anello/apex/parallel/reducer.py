"""Reducer: gradients averaged when the program says so."""

import torch
from torch import distributed as dist

from anello.apex import ranks
from anello.apex.parallel import flattened


class Reducer:
    """reduce() averages gradients over all ranks, whenever the program calls it.

    A module has rank 0's parameters on all ranks from here on, and reduce() averages the gradients of its parameters.
    Instead of a module, a list of gradients may be given."""

    def __init__(self, module_or_grads_list):
        ranks.default_group("Reducer")
        if isinstance(module_or_grads_list, torch.nn.Module):
            self.module, self.grads = module_or_grads_list, None
            flattened.apply([each.detach() for each in self.module.parameters()], lambda flat: dist.broadcast(flat, 0))
        else:
            self.module, self.grads = None, list(module_or_grads_list)

    def reduce(self):
        gradients = self.grads
        if self.module is not None:
            gradients = [each.grad for each in self.module.parameters() if each.grad is not None]

        def average(flat):
            dist.all_reduce(flat)
            flat.div_(dist.get_world_size())

        flattened.apply([each.detach() for each in gradients], average)
