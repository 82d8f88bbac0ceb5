"""The gradients of an optimizer on their way between ranks."""

import torch

from anello.horovod.torch.asynchronous import allreduce_async_, grouped_allreduce_async_, sparse_allreduce_async
from anello.horovod.torch.handles import synchronize
from anello.horovod.torch.reductions import Average, Sum


class Gradients:
    """Hooks on parameters send each gradient once the agreed number of backward passes has added to it. Without other
    ranks there are no hooks."""

    def __init__(self, names, compression, passes, op, predivide, num_groups, groups, sparse_as_dense, process_set):
        self._names, self._compression, self._op = names, compression, op
        self._sparse_as_dense, self._process_set = sparse_as_dense, process_set
        # Average divides by the ranks; the factors only move a part of that before the sum.
        self._scales = (1 / predivide, predivide) if predivide != 1 else (1.0, 1.0)
        self.active = bool(process_set.included()) and process_set.size() > 1
        self._passes = self._check(passes)
        self._trained = [each for each in names if each.requires_grad]
        self._left = dict.fromkeys(self._trained, passes)  # backward passes until it is sent
        self._handles = {}  # by parameter; None: its group is not complete
        self._groups, self._of_group = _grouped(self._trained, num_groups, groups)
        self._arrived = [set() for _ in self._groups]
        if self.active:
            for each in self._trained:
                each.register_post_accumulate_grad_hook(self._computed)

    @staticmethod
    def _check(passes):
        if passes < 1:
            raise ValueError(f"backward_passes_per_step is {passes}, but should be at least 1")
        return passes

    def set_passes(self, passes):
        self._passes = self._check(passes)
        for each in self._left:
            self._left[each] = passes

    def has_pending(self):
        return bool(self._handles)

    def reset(self):
        """Forgets what is under way, after a failure."""
        self._handles.clear()
        self._arrived = [set() for _ in self._groups]
        self.set_passes(self._passes)

    def _computed(self, parameter):
        if parameter in self._handles:
            raise AssertionError(
                f"the gradient of {self._names[parameter]!r} was computed more than {self._passes} times before "
                "optimizer.step(): set backward_passes_per_step to the number of backward passes of a step")
        self._left[parameter] -= 1
        if self._left[parameter] == 0:
            self._send(parameter)

    def _send(self, parameter):
        group = self._of_group.get(parameter)
        if group is None:
            self._handles[parameter] = self._submit([parameter], self._names[parameter])
            return
        self._handles[parameter] = None
        self._arrived[group].add(parameter)
        if len(self._arrived[group]) == len(self._groups[group]):
            handle = self._submit(self._groups[group], f"group.{group}.{self._names[self._groups[group][0]]}")
            for each in self._groups[group]:
                self._handles[each] = handle
            self._arrived[group] = set()

    def _submit(self, parameters, name):
        """(handle, what decompress needs for each tensor)."""
        sent, contexts = [], []
        for each in parameters:
            gradient = each.grad
            if gradient is None:  # a branch that another rank may have taken
                gradient = each.grad = torch.zeros_like(each)
            if gradient.is_sparse:
                if not self._sparse_as_dense:
                    return self._submit_sparse(parameters, each, name)
                gradient = each.grad = gradient.to_dense()
            tensor, context = self._compression.compress(gradient)
            sent.append(tensor)
            contexts.append(context)
        if len(sent) == 1:
            handle = allreduce_async_(sent[0], None, name, self._op, *self._scales, self._process_set)
        else:
            handle = grouped_allreduce_async_(sent, None, name, self._op, *self._scales, self._process_set)
        return handle, tuple(parameters), tuple(contexts)

    def _submit_sparse(self, parameters, parameter, name):
        if len(parameters) > 1:
            raise ValueError(f"the gradient of {self._names[parameter]!r} is sparse and cannot be part of a group: use "
                             "sparse_as_dense=True, or leave it out of groups")
        if self._op not in (Average, Sum):
            raise ValueError(
                f"the gradient of {self._names[parameter]!r} is sparse and cannot be reduced by {self._op}: use "
                "sparse_as_dense=True")
        return sparse_allreduce_async(parameter.grad, name, self._op, self._process_set), tuple(parameters), None

    def complete(self):
        """Sends what no hook has sent, and waits until all gradients are there."""
        if not self.active:
            return
        for each in self._trained:
            if each not in self._handles:
                self._left[each] = 0
                self._send(each)
        try:
            sent = {id(each): each for each in self._handles.values()}  # a group is there once for each parameter
            for handle, parameters, contexts in sent.values():
                self._bring(synchronize(handle), parameters, contexts)
        finally:
            self._handles.clear()
            self.set_passes(self._passes)

    def _bring(self, result, parameters, contexts):
        if contexts is None:
            parameters[0].grad = result
            return
        for parameter, tensor, context in zip(parameters, result if len(parameters) > 1 else [result], contexts):
            back = self._compression.decompress(tensor, context)
            if back is not parameter.grad:
                parameter.grad.copy_(back)


def _grouped(parameters, num_groups, groups):
    """(groups of parameters, group by parameter)."""
    if groups is not None:
        listed = [[each for each in group if each.requires_grad] for group in groups]
        known = set(parameters)
        for group in listed:
            for each in group:
                if each not in known:
                    raise ValueError("groups has a parameter that the optimizer does not train, or has one twice")
                known.discard(each)
    else:
        count = min(num_groups, len(parameters))
        listed = [parameters[len(parameters) * k // count:len(parameters) * (k + 1) // count] for k in range(count)]
    listed = [group for group in listed if group]
    return listed, {each: number for number, group in enumerate(listed) for each in group}
