"""LARC: a rate for each parameter, from the ratio of its norm to its gradient's."""

import torch


class LARC:
    """The optimizer, in whose step each gradient is multiplied by

        trust_coefficient * |parameter| / (|gradient| + weight_decay * |parameter| + eps)

    which with `clip` is the largest rate, not a factor of the optimizer's own. Weight decay is added to the gradient
    before. Parameters without a norm, or with a gradient of zero, keep their gradient."""

    def __init__(self, optimizer, trust_coefficient=0.02, clip=True, eps=1e-8):
        self.optim, self.trust_coefficient, self.clip, self.eps = optimizer, trust_coefficient, clip, eps

    @property
    def state(self):
        return self.optim.state

    @property
    def defaults(self):
        return self.optim.defaults

    @property
    def param_groups(self):
        return self.optim.param_groups

    @param_groups.setter
    def param_groups(self, groups):
        self.optim.param_groups = groups

    def state_dict(self):
        return self.optim.state_dict()

    def load_state_dict(self, state_dict):
        self.optim.load_state_dict(state_dict)

    def zero_grad(self, *arguments, **named):
        self.optim.zero_grad(*arguments, **named)

    def add_param_group(self, param_group):
        self.optim.add_param_group(param_group)

    def __repr__(self):
        return f"LARC({self.optim!r})"

    def step(self):
        decays = [group.get("weight_decay", 0) for group in self.optim.param_groups]
        try:
            with torch.no_grad():
                for group, decay in zip(self.optim.param_groups, decays):
                    if "weight_decay" in group:
                        group["weight_decay"] = 0  # it is in the gradients already
                    for each in group["params"]:
                        if each.grad is not None:
                            self._scale(each, group["lr"], decay)
            self.optim.step()
        finally:
            for group, decay in zip(self.optim.param_groups, decays):
                if "weight_decay" in group:
                    group["weight_decay"] = decay

    def _scale(self, parameter, rate, decay):
        size, slope = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(parameter.grad)
        if size == 0 or slope == 0:
            return
        factor = self.trust_coefficient * size / (slope + size * decay + self.eps)
        if self.clip:
            factor = torch.clamp(factor / rate, max=1)
        parameter.grad.add_(parameter, alpha=decay).mul_(factor)
