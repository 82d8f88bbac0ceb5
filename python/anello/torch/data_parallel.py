"""DistributedDataParallel over Anello's own synchronizer, by autograd hooks."""

import contextlib
import ctypes

import torch
from torch import distributed as dist

from anello import datatypes
from anello.gradient_sync import GradientSync, Parameter
from anello.torch import elements

_MiB = 1 << 20


class DistributedDataParallel(torch.nn.Module):
    """The module with gradients that are averaged over all ranks in the course of backward().

    The constructor's arguments mean what they mean to torch.nn.parallel.DistributedDataParallel; those of devices are not
    there. Beside them: wire, torch.float16 or torch.bfloat16, is the type in which float32 gradients travel (added in float32
    and rounded once), with error_feedback if wanted; uneven allows join(). process_group must be one of the backend "anello".
    """

    def __init__(self, module, *, broadcast_buffers=True, init_sync=True, process_group=None, bucket_cap_mb=None,
                 find_unused_parameters=False, gradient_as_bucket_view=False, static_graph=False, wire=None,
                 error_feedback=False, uneven=False):
        super().__init__()
        from anello.torch.process_group import ProcessGroup

        group = process_group if process_group is not None else dist.distributed_c10d._get_default_group()
        if not isinstance(group, ProcessGroup):
            raise ValueError("process_group is none of the backend anello")
        if wire not in (None, torch.float32, torch.float16, torch.bfloat16):
            raise ValueError(f"wire is {wire}: gradients travel as float32, float16 or bfloat16")
        self.module, self.process_group = module, group
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = True
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(name, each) for name, each in module.named_parameters() if each.requires_grad and name not in ignored]
        if not named:
            raise RuntimeError("the module has no parameter that requires a gradient")
        self._parameters_by_number = [each for _, each in named]
        self._buffers = [(name, each) for name, each in module.named_buffers() if name not in ignored]
        described = [Parameter(name, None, each.numel(), elements.of_reduction(each)) for name, each in named]
        sizes = {} if bucket_cap_mb is None else {"bucket_bytes": round(bucket_cap_mb * _MiB),
                                                  "first_bucket_bytes": round(bucket_cap_mb * _MiB)}
        # Views stay where they are: who kept one of the first step's would else read what is no longer there.
        self._sync = GradientSync(group._communicator, described, views=gradient_as_bucket_view,
                                  rebuild=not gradient_as_bucket_view, find_unused=find_unused_parameters,
                                  static_graph=static_graph, error_feedback=error_feedback, uneven=uneven,
                                  wire=datatypes.FLOAT32 if wire is None else elements.DTYPES[wire], **sizes)
        self._views = [self._view(i, each) for i, each in enumerate(self._parameters_by_number)] if gradient_as_bucket_view else None
        self._in_backward = False
        # What came in this step and, of find_unused_parameters, in the passes under no_sync since the last one.
        self._came = bytearray(len(named)) if find_unused_parameters or static_graph else None
        self._accumulated = bytearray(len(named))
        if init_sync:
            weights = [(name, each) for name, each in module.named_parameters() if name not in ignored]
            self._broadcast(weights + self._buffers)
        self._hooks = [each.register_post_accumulate_grad_hook(self._hook(i))
                       for i, each in enumerate(self._parameters_by_number)]

    # ---- Steps

    def forward(self, *inputs, **named):
        if self.broadcast_buffers and self._buffers and self.require_backward_grad_sync and torch.is_grad_enabled() and self.training:
            self._broadcast(self._buffers)
        return self.module(*inputs, **named)

    @contextlib.contextmanager
    def no_sync(self):
        """Gradients of backward passes inside are accumulated and sent with those of the first one outside."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(self):
        """Ranks may have different numbers of batches: who leaves first adds zeros to the others' until all have left."""
        yield
        self.last_rank = self._sync.join()

    def summary(self):
        """Collective: one line on what the steps have cost."""
        return self._sync.summary()

    def _hook(self, i):
        def hook(parameter):
            if not self.require_backward_grad_sync:
                self._accumulated[i] = 1  # and stays in .grad, which the caller may still throw away
                return
            if not self._in_backward:
                self._begin()
            self._hand_over(i, parameter)

        return hook

    def _hand_over(self, i, parameter):
        if self._came is not None:
            self._came[i] = 1
        gradient, address = parameter.grad, None
        if self._views is not None:
            view = self._views[i]
            if gradient is not view:
                view.copy_(gradient)
                parameter.grad = view
        else:
            if not _is_dense(gradient) or gradient.is_conj() or gradient.is_neg():
                gradient = parameter.grad = gradient.contiguous().resolve_conj().resolve_neg()
            address = gradient.data_ptr()
        code = self._sync.ready(self._sync.handle, i, address)
        if code:
            self._sync.check(code, "handing over a gradient")

    def _begin(self):
        self._sync.begin()
        self._in_backward = True
        torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _finish(self):
        if self.find_unused_parameters:
            for i, parameter in enumerate(self._parameters_by_number):
                if self._accumulated[i] and not self._came[i] and parameter.grad is not None:
                    self._hand_over(i, parameter)
        self._in_backward = False
        self._sync.wait()
        self._accumulated[:] = bytes(len(self._accumulated))
        if self._came is not None:
            for i, came in enumerate(self._came):
                if not came:
                    self._take_others(i, self._parameters_by_number[i])
            self._came[:] = bytes(len(self._came))

    def _take_others(self, i, parameter):
        """The gradient of a parameter of which this rank has none in this step, but another may have."""
        result = self._sync.result(i)
        if result is None:
            return
        if self._views is not None:
            parameter.grad = self._views[i]
        elif parameter.grad is None:
            parameter.grad = self._tensor_at(result, parameter).clone()
        else:
            parameter.grad.copy_(self._tensor_at(result, parameter))

    def _broadcast(self, named):
        staged = [(name, tensor, elements.to_write(tensor, filled=True)) for name, tensor in named]
        sent = []
        for name, _, each in staged:
            dtype, times = elements.of_movement(each)
            sent.append(Parameter(name, each.data_ptr(), each.numel() * times, dtype))
        self._sync.broadcast(sent)
        for _, tensor, each in staged:
            elements.put_back(tensor, each)

    def _view(self, i, parameter):
        """The place of a gradient, which keeps the buckets alive as long as it lives."""
        return self._tensor_at(self._sync.view(i), parameter)

    def _tensor_at(self, address, parameter):
        size = parameter.numel() * parameter.element_size()
        if size == 0:
            return torch.zeros_like(parameter, requires_grad=False)
        memory = (ctypes.c_char * size).from_address(address)
        memory.owner = self._sync
        flat = torch.frombuffer(memory, dtype=parameter.dtype)
        return flat.as_strided(parameter.size(), parameter.stride()) if _is_dense(parameter) else flat.view(parameter.size())


def _is_dense(tensor):
    """Whether the tensor's elements fill its memory without gaps or overlaps, in whatever order."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.size()) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True
