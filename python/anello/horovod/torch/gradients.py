"""The gradients of an optimizer on their way between ranks."""

import torch

from anello.horovod.torch.asynchronous import allreduce_async_, grouped_allreduce_async_, sparse_allreduce_async
from anello.horovod.torch.compression import NoneCompressor
from anello.horovod.torch.handles import request_of, synchronize
from anello.horovod.torch.reductions import Average, Sum
from anello.horovod.torch.submission import submit_again
from anello.torch import elements

_NO_CONTEXT = (None,)


class _Gradient:
    """Of one parameter. left: backward passes until it is sent. sent: it is, or its group is about to be."""

    __slots__ = ("parameter", "name", "left", "sent", "group", "request", "dtype")

    def __init__(self, parameter, name):
        self.parameter, self.name = parameter, name
        self.left, self.sent, self.group = 0, False, None
        self.request = self.dtype = None  # as it was sent the last time, if in place


class _Group:
    """Gradients that are sent together; missing: how many of them are not computed yet."""

    def __init__(self, members, number):
        self.members, self.missing = members, len(members)
        self.name = f"group.{number}.{members[0].name}"


class Gradients:
    """Hooks on parameters send each gradient once the agreed number of backward passes has added to it. Without other
    ranks there are no hooks."""

    def __init__(self, names, compression, passes, op, predivide, num_groups, groups, sparse_as_dense, process_set):
        self._compression, self._op = compression, op
        self._sparse_as_dense, self._process_set = sparse_as_dense, process_set
        # Average divides by the ranks; the factors only move a part of that before the sum.
        self._scales = (1 / predivide, predivide) if predivide != 1 else (1.0, 1.0)
        self.active = bool(process_set.included()) and process_set.size() > 1
        self._all = [_Gradient(each, name) for each, name in names.items() if each.requires_grad]
        self._under_way = []  # (handle, gradients, what decompress needs for each)
        self._groups = _grouped(self._all, num_groups, groups)
        self.set_passes(passes)
        if self.active:
            for each in self._all:
                each.parameter.register_post_accumulate_grad_hook(self._hook(each))

    def set_passes(self, passes):
        if passes < 1:
            raise ValueError(f"backward_passes_per_step is {passes}, but should be at least 1")
        self._passes = passes
        for each in self._all:
            each.left = passes

    def has_pending(self):
        return any(each.sent for each in self._all)

    def reset(self):
        """Forgets what is under way, after a step or a failure."""
        self._under_way.clear()
        for each in self._all:
            each.left, each.sent = self._passes, False
        for group in self._groups:
            group.missing = len(group.members)

    def _hook(self, gradient):
        def computed(_):
            if gradient.sent:
                raise AssertionError(
                    f"the gradient of {gradient.name!r} was computed more than {self._passes} times before "
                    "optimizer.step(): set backward_passes_per_step to the number of backward passes of a step")
            gradient.left -= 1
            if gradient.left == 0:
                self._send(gradient)

        return computed

    def _send(self, gradient):
        gradient.sent = True
        group = gradient.group
        if group is None:
            if gradient.request is None or not self._submit_again(gradient):
                self._submit([gradient], gradient.name)
            return
        group.missing -= 1
        if group.missing == 0:
            self._submit(group.members, group.name)

    def _submit_again(self, gradient):
        tensor = gradient.parameter.grad
        if tensor is None or tensor.dtype is not gradient.dtype or not tensor.is_cpu or tensor.is_sparse:
            return False
        if tensor.requires_grad or not elements.is_plain(tensor):
            return False
        handle = submit_again(self._process_set, gradient.request, tensor)
        self._under_way.append((handle, (gradient,), _NO_CONTEXT))
        return True

    def _submit(self, gradients, name):
        sent, contexts = [], []
        for each in gradients:
            parameter = each.parameter
            tensor = parameter.grad
            if tensor is None:  # a branch that another rank may have taken
                tensor = parameter.grad = torch.zeros_like(parameter)
            if tensor.is_sparse:
                if not self._sparse_as_dense:
                    self._submit_sparse(gradients, each)
                    return
                tensor = parameter.grad = tensor.to_dense()
            tensor, context = self._compression.compress(tensor)
            sent.append(tensor)
            contexts.append(context)
        if len(sent) == 1:
            handle = allreduce_async_(sent[0], None, name, self._op, *self._scales, self._process_set)
            if self._compression is NoneCompressor:
                gradients[0].request, gradients[0].dtype = request_of(handle), sent[0].dtype
        else:
            handle = grouped_allreduce_async_(sent, None, name, self._op, *self._scales, self._process_set)
        self._under_way.append((handle, gradients, contexts))

    def _submit_sparse(self, gradients, gradient):
        if len(gradients) > 1:
            raise ValueError(f"the gradient of {gradient.name!r} is sparse and cannot be part of a group: use "
                             "sparse_as_dense=True, or leave it out of groups")
        if self._op not in (Average, Sum):
            raise ValueError(f"the gradient of {gradient.name!r} is sparse and cannot be reduced by {self._op}: use "
                             "sparse_as_dense=True")
        handle = sparse_allreduce_async(gradient.parameter.grad, gradient.name, self._op, self._process_set)
        self._under_way.append((handle, gradients, None))

    def complete(self):
        """Sends what no hook has sent, and waits until all gradients are there."""
        if not self.active:
            return
        for each in self._all:
            if not each.sent:
                self._send(each)
        try:
            for handle, gradients, contexts in self._under_way:
                self._bring(synchronize(handle), gradients, contexts)
        finally:
            self.reset()

    def _bring(self, result, gradients, contexts):
        if contexts is None:
            gradients[0].parameter.grad = result
            return
        for gradient, tensor, context in zip(gradients, result if len(gradients) > 1 else [result], contexts):
            back, place = self._compression.decompress(tensor, context), gradient.parameter.grad
            if back is not place:
                place.copy_(back)


def _grouped(gradients, num_groups, groups):
    """Groups; each gradient in one knows it."""
    if groups is not None:
        by_parameter = {each.parameter: each for each in gradients}
        try:
            listed = [[by_parameter.pop(each) for each in group if each.requires_grad] for group in groups]
        except KeyError:
            raise ValueError("groups has a parameter that the optimizer does not train, or has one twice") from None
    else:
        count, total = min(num_groups, len(gradients)), len(gradients)
        listed = [gradients[total * number // count:total * (number + 1) // count] for number in range(count)]
    made = [_Group(members, number) for number, members in enumerate(filter(None, listed))]
    for group in made:
        for each in group.members:
            each.group = group
    return made
