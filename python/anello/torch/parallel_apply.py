"""Forward and backward of a module's replicas at once, each as a rank that is a thread."""

import torch
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree

from anello.torch import replicas


class Step:
    """One forward pass of `module` over parts, a list of (arguments, named arguments), on the devices in turn."""

    def __init__(self, ranks, module, devices, parts):
        self.ranks, self.module, self.devices = ranks, module, devices[:len(parts)]
        self.surroundings = replicas.Surroundings(self.devices)
        flat = [pytree.tree_flatten(part) for part in parts]
        self.inputs, self.specs = [values for values, _ in flat], [spec for _, spec in flat]
        self.parameters = [each for each in module.parameters() if each.requires_grad]

    def run(self):
        """The replicas' outputs."""
        tensors = [each for values in self.inputs for each in values if isinstance(each, torch.Tensor)]
        if torch.is_grad_enabled() and any(each.requires_grad for each in [*self.parameters, *tensors]):
            outputs = list(_Parallel.apply(self, *self.parameters, *tensors))
        else:
            outputs = self.forward(self.inputs)
        results = []
        for values, spec in self.outputs:
            filled = [outputs.pop(0) if isinstance(each, torch.Tensor) else each for each in values]
            results.append(pytree.tree_unflatten(filled, spec))
        return results

    def forward(self, inputs):
        """All replicas' output tensors, one after another."""
        self.leaves = [replicas.leaves(self.module, device) for device in self.devices]

        def job(i):
            device = self.devices[i]

            def call():
                made = replicas.replica(self.module, self.leaves[i], device, i == 0)
                arguments, named = pytree.tree_unflatten(inputs[i], self.specs[i])
                return pytree.tree_flatten(made(*arguments, **named))

            try:
                return self.surroundings.run(device, call)
            except Exception as error:
                error.args = (f"replica {i} on {device}: {error}", *error.args[1:])
                raise

        self.outputs = self.ranks.run([lambda i=i: job(i) for i in range(len(self.devices))])
        return [each for values, _ in self.outputs for each in values if isinstance(each, torch.Tensor)]

    def backward(self, gradients, keep):
        """The sums of the replicas' gradients by the parameters, and each one's by its inputs."""

        def job(i):
            mine = [self.leaves[i][id(each)] for each in self.parameters]
            wanted = mine + [each for each in self.own_inputs[i] if each.requires_grad]
            of = [(output, gradient) for output, gradient in zip(self.own_outputs[i], gradients[i])
                  if output.requires_grad and gradient is not None]
            if not of or not wanted:
                return [None] * len(mine), [None] * (len(wanted) - len(mine))
            found = torch.autograd.grad([output for output, _ in of], wanted, [gradient for _, gradient in of],
                                        allow_unused=True, retain_graph=keep)
            return found[:len(mine)], found[len(mine):]

        found = self.ranks.run([lambda i=i: job(i) for i in range(len(self.devices))])
        return self._sums([mine for mine, _ in found]), [inputs for _, inputs in found]

    def _sums(self, found):
        if any(each is not None and each.layout is not torch.strided for mine in found for each in mine):
            raise RuntimeError("a gradient is sparse, which DataParallel does not add: give the embedding sparse=False")
        sums = [None] * len(self.parameters)
        used = [n for n in range(len(sums)) if any(mine[n] is not None for mine in found)]
        for dtype in sorted({self.parameters[n].dtype for n in used}, key=str):
            numbers = [n for n in used if self.parameters[n].dtype is dtype]
            sizes = [self.parameters[n].numel() for n in numbers]

            def job(rank):
                has_replica = rank < len(found)  # a rank without one adds zeros
                flat = torch.zeros(sum(sizes), dtype=dtype, device=self.devices[rank if has_replica else 0])
                if has_replica:
                    for part, n in zip(flat.split(sizes), numbers):
                        gradient = found[rank][n]
                        if gradient is not None:
                            part.copy_(gradient.reshape(-1))
                self.ranks.reduce_to_first(rank, flat)
                return flat

            total = self.ranks.run([lambda rank=rank: job(rank) for rank in range(len(self.ranks.communicators))])[0]
            for part, n in zip(total.split(sizes), numbers):
                sums[n] = part.view(self.parameters[n].shape)
        return sums


class _Parallel(torch.autograd.Function):
    """The replicas' graphs are hidden from the caller's, so that each rank walks its own one in its thread."""

    @staticmethod
    def forward(context, step, *tensors):
        rest = list(tensors[len(step.parameters):])
        inputs, step.own_inputs = [], []
        for values in step.inputs:
            own = [rest.pop(0).detach().requires_grad_(each.requires_grad) if isinstance(each, torch.Tensor) else each for each in values]
            inputs.append(own)
            step.own_inputs.append([each for each in own if isinstance(each, torch.Tensor)])
        outputs = step.forward(inputs)
        step.own_outputs = [[each for each in values if isinstance(each, torch.Tensor)] for values, _ in step.outputs]
        context.step = step
        context.set_materialize_grads(False)
        shown = [each.detach() for each in outputs]
        context.mark_non_differentiable(*[own for own, of in zip(shown, outputs) if not of.requires_grad])
        return tuple(shown)

    @staticmethod
    @once_differentiable
    def backward(context, *gradients):
        step, gradients = context.step, list(gradients)
        by_replica = [[gradients.pop(0) for _ in outputs] for outputs in step.own_outputs]
        keep = torch._C._autograd._get_current_graph_task_keep_graph()
        sums, by_inputs = step.backward(by_replica, keep)
        shown = []
        for own, found in zip(step.own_inputs, by_inputs):
            found = list(found)
            shown += [found.pop(0) if each.requires_grad else None for each in own]
        return (None, *sums, *shown)
