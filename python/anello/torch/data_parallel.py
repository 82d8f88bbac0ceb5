"""DistributedDataParallel over Anello's own synchronizer, by autograd hooks."""

import contextlib
import ctypes
import weakref

import torch
from torch import distributed as dist
from torch.utils import _pytree as pytree

from anello import datatypes
from anello.errors import AnelloError
from anello.gradient_sync import GradientSync, Parameter
from anello.torch import backward_pass, elements, streams

_MiB = 1 << 20


class DistributedDataParallel(torch.nn.Module):
    """The module, with gradients that are averaged over all ranks during backward().

    The constructor's arguments have the same meaning as in torch.nn.parallel.DistributedDataParallel. There are none for
    devices: the parameters lie on one, the CPU or a CUDA device, before they are wrapped. On a CUDA device all is done in
    streams, and backward() does not wait for the results; the current stream does. In addition, wire, torch.float16 or torch.bfloat16, is the type in which float32 gradients travel
    (added in float32 and rounded once), optionally with error_feedback; uneven allows join(). process_group must use
    the backend "anello". """

    def __init__(self, module, *, broadcast_buffers=True, init_sync=True, process_group=None, bucket_cap_mb=None,
                 find_unused_parameters=False, gradient_as_bucket_view=False, static_graph=False, wire=None,
                 error_feedback=False, uneven=False):
        super().__init__()
        from anello.torch.process_group import ProcessGroup

        group = process_group if process_group is not None else dist.distributed_c10d._get_default_group()
        if not isinstance(group, ProcessGroup):
            raise ValueError("process_group does not use the backend anello")
        if wire not in (None, torch.float32, torch.float16, torch.bfloat16):
            raise ValueError(f"wire is {wire}: gradients travel as float32, float16 or bfloat16")
        self.module, self.process_group = module, group
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = True
        self._ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(name, each) for name, each in module.named_parameters() if each.requires_grad and name not in self._ignored]
        if not named:
            raise RuntimeError("the module has no parameter that requires a gradient")
        for name, each in named:
            elements.check(each)
            if each.device != named[0][1].device:
                raise ValueError(f"{named[0][0]} is on {named[0][1].device} and {name} on {each.device}: "
                                 "move the module to one device first")
        self._device = named[0][1].device
        self._names, self._synced = [name for name, _ in named], [each for _, each in named]
        self._declared = [(each.dtype, each.numel()) for each in self._synced]
        sizes = {} if bucket_cap_mb is None else {"bucket_bytes": round(bucket_cap_mb * _MiB),
                                                  "first_bucket_bytes": round(bucket_cap_mb * _MiB)}
        self._uneven = uneven
        # Views keep their addresses: otherwise a program that kept a view of the first step would read freed memory.
        self._options = dict(views=gradient_as_bucket_view, rebuild=not gradient_as_bucket_view,
                             find_unused=find_unused_parameters, static_graph=static_graph, error_feedback=error_feedback,
                             uneven=uneven, device=-1 if self._device.type == "cpu" else streams.number_of(self._device),
                             wire=datatypes.FLOAT32 if wire is None else elements.DTYPES[wire], **sizes)
        self._make_sync()
        self._buffers_due = True  # in the next forward
        if init_sync:
            self._broadcast([(name, each) for name, each in module.named_parameters() if name not in self._ignored])
            self._broadcast(self._own_buffers())
        # A weak reference: a parameter's hooks live as long as the parameter, but the wrapper may end earlier.
        weak = weakref.ref(self)
        hooks = [each.register_post_accumulate_grad_hook(backward_pass.hook(weak, i))
                 for i, each in enumerate(self._synced)]
        weakref.finalize(self, backward_pass.remove, hooks)

    def _make_sync(self):
        described = [Parameter(name, None, each.numel(), elements.of_reduction(each))
                     for name, each in zip(self._names, self._synced)]
        self._copied_bytes = 0  # gradients into views, by this file
        self._sync = GradientSync(self.process_group._communicator, described, **self._options)
        views = self._options["views"]
        self._views = [self._view(i, each) for i, each in enumerate(self._synced)] if views else None
        self._leave_step()

    # ---- Steps

    def forward(self, *inputs, **named):
        if self._in_step:
            self._end_of_a_broken_step()
        buffers = self._own_buffers()
        # With uneven inputs, the other ranks may be inside join, which sends their buffers at its end.
        if self.broadcast_buffers and buffers and self._buffers_due and not self._uneven:
            self._broadcast(buffers)
        self._buffers_due = torch.is_grad_enabled() and self.require_backward_grad_sync
        output = self.module(*inputs, **named)
        if self.find_unused_parameters and torch.is_grad_enabled() and self.require_backward_grad_sync:
            output = self._beginning_with(output)
        return output

    @contextlib.contextmanager
    def no_sync(self):
        """Gradients of backward passes inside are accumulated and sent with those of the first backward pass
        outside."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(self):
        """Ranks may have different numbers of batches: a rank that leaves first adds zeros to the others' gradients
        until all have left. Then all have the weights and buffers of the rank that was last."""
        yield
        self.last_rank = self._sync.join()
        kept = [each.grad.clone() if each.grad is not None and self._views is not None else None for each in self._synced]
        self._make_sync()
        for i, gradient in enumerate(kept):
            if gradient is not None:
                self._synced[i].grad = self._views[i].copy_(gradient)
        if self.last_rank >= 0:
            self._broadcast(list(self.module.named_parameters()) + self._own_buffers(), self.last_rank)

    def summary(self):
        """Collective: one line on the cost of the steps."""
        return self._sync.summary()

    def statistics(self):
        """The cost of the steps on this rank, as a dictionary; since the last join, if there was one. copied_bytes: the
        bytes of copied gradients, including those that autograd put outside their view."""
        found = self._sync.statistics()
        found["copied_bytes"] += self._copied_bytes
        return found

    def __getstate__(self):
        raise TypeError("anello.torch.DistributedDataParallel belongs to its process group: copy or save its .module")

    def _leave_step(self):
        self._in_step, self._task = False, None
        self._missing = len(self._synced)
        self._came = bytearray(len(self._synced))
        self._kept = bytearray(len(self._synced))  # under no_sync, since the last step
        self._held = [None] * len(self._synced)  # gradients whose addresses the synchronizer has
        self._used_streams = set()  # in which gradients became ready

    def _begin(self):
        """Called at the first gradient of a step. It queues the work for the end of the backward pass with the
        engine."""
        if not self._in_step:
            self._sync.begin()
            self._in_step = True
        task = torch._C._current_graph_task_id()
        if task == self._task:
            return
        nested = backward_pass.depth() > 1
        if nested and self._may_be_unused():
            raise RuntimeError("checkpoints with use_reentrant=True do not go with find_unused_parameters or static_graph")
        self._task = task
        # Inside a reentrant checkpoint, the end of its backward pass is not the end of the whole pass: the last
        # gradient is.
        if not nested:
            backward_pass.queue(self._end_of_backward)

    def _may_be_unused(self):
        return self.find_unused_parameters or self.static_graph

    def _take(self, i, parameter):
        if not self.require_backward_grad_sync:
            self._kept[i] = 1  # stays in .grad, which the caller may still discard
            return
        self._begin()
        if self._came[i] and not self.static_graph:
            raise RuntimeError(f"the gradient of {self._names[i]} came twice in a step: an exception ended the last backward(), or "
                               "there were two, of which the first belongs under no_sync()")
        self._hand_over(i, parameter)
        if self._missing == 0 and not self._may_be_unused():
            backward_pass.queue(self._end_of_backward)

    def _hand_over(self, i, parameter):
        if not self._came[i]:
            self._came[i] = 1
            self._missing -= 1
        gradient, address = parameter.grad, None
        if gradient.layout is not torch.strided:
            raise RuntimeError(f"the gradient of {self._names[i]} is sparse; torch's DistributedDataParallel takes those")
        if (gradient.dtype, gradient.numel()) != self._declared[i] or gradient.device != self._device:
            raise RuntimeError(f"the gradient of {self._names[i]} is {gradient.dtype}, of {gradient.numel()} elements, on "
                               f"{gradient.device}; it was {self._declared[i]} on {self._device} when the module was wrapped")
        if self._views is not None:
            view = self._views[i]
            if gradient is not view:
                elements.move(view, gradient.detach())
                self._copied_bytes += gradient.nbytes
                parameter.grad = view
        else:
            if not _is_dense(gradient) or gradient.is_conj() or gradient.is_neg():
                gradient = parameter.grad = gradient.detach().contiguous().resolve_conj().resolve_neg()
            address, self._held[i] = gradient.data_ptr(), gradient
        if gradient.is_cpu:
            code = self._sync.ready(self._sync.handle, i, address)
        else:
            stream = streams.current(self._device)
            self._used_streams.add(stream.cuda_stream)
            code = self._sync.ready_on(self._sync.handle, i, address, stream.cuda_stream)
        if code:
            self._sync.check(code, "handing over a gradient")

    def _end_of_backward(self):
        if not self._in_step:
            return  # the call of the last gradient was first
        if self._missing > 0:
            for i, parameter in enumerate(self._synced):
                # A gradient of earlier passes: with find_unused_parameters it is averaged as in torch, and stays if all
                # ranks have the same; otherwise passes under no_sync count.
                if not self._came[i] and parameter.grad is not None and (self.find_unused_parameters or self._kept[i]):
                    self._hand_over(i, parameter)
        came = self._came
        self._wait()
        self._leave_step()
        if self._may_be_unused():
            for i, parameter in enumerate(self._synced):
                if not came[i]:
                    self._take_others(i, parameter)

    def _wait(self):
        if self._device.type == "cpu":
            return self._sync.wait()
        stream = streams.current(self._device)
        self._sync.wait_on(stream.cuda_stream)
        if self._used_streams != {stream.cuda_stream}:
            for gradient in self._held:
                if gradient is not None:
                    gradient.record_stream(stream)  # the results are copied there, which the allocator does not know

    def _end_of_a_broken_step(self):
        """Between a first gradient and the next forward pass, some gradients never arrived. The synchronizer names
        them, on all ranks."""
        try:
            self._wait()
        except AnelloError as error:
            raise AnelloError(f"the last backward() did not reach all parameters (an exception ended it, or the loss does not depend "
                              f"on them): {error.text}", error.code, error.name, error.rank, error.lost) from error
        self._leave_step()

    def _take_others(self, i, parameter):
        """The gradient of a parameter for which this rank has none in this step, but another rank may have one."""
        result = self._sync.result(i)
        if result is None:
            return
        if self._views is not None:
            parameter.grad = self._views[i]
        elif parameter.grad is None:
            parameter.grad = self._tensor_at(result, parameter).clone()
        else:
            parameter.grad.copy_(self._tensor_at(result, parameter))

    def _beginning_with(self, output):
        """The output, whose backward pass begins a step even if it reaches no parameter."""
        leaves, form = pytree.tree_flatten(output)
        places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if places:
            for at, leaf in zip(places, _Beginning.apply(weakref.ref(self), *[leaves[at] for at in places])):
                leaves[at] = leaf
        return pytree.tree_unflatten(leaves, form)

    # ---- Tensors

    def _own_buffers(self):
        return [(name, each) for name, each in self.module.named_buffers() if name not in self._ignored]

    def _broadcast(self, named, root=0):
        if not named:
            return
        if self._device.type != "cpu":
            streams.current(self._device).synchronize()  # the library reads in the default stream
        staged = [(name, tensor, elements.to_write(tensor, filled=True)) for name, tensor in named]
        sent = []
        for name, _, each in staged:
            dtype, times = elements.of_movement(each)
            sent.append(Parameter(name, each.data_ptr(), each.numel() * times, dtype))
        self._sync.broadcast(sent, root)
        for _, tensor, each in staged:
            elements.put_back(tensor, each)

    def _view(self, i, parameter):
        """The memory of a gradient, which keeps the buckets alive as long as it lives."""
        return self._tensor_at(self._sync.view(i), parameter)

    def _tensor_at(self, address, parameter):
        size = parameter.numel() * parameter.element_size()
        if size == 0:
            return torch.zeros_like(parameter, requires_grad=False)
        if self._device.type == "cpu":
            memory = (ctypes.c_char * size).from_address(address)
            memory.owner = self._sync
            flat = torch.frombuffer(memory, dtype=parameter.dtype)
        else:
            flat = streams.memory_at(address, size, self._device, self._sync).view(parameter.dtype)
        return flat.as_strided(parameter.size(), parameter.stride()) if _is_dense(parameter) else flat.view(parameter.size())


class _Beginning(torch.autograd.Function):
    @staticmethod
    def forward(ctx, wrapper, *tensors):
        ctx.wrapper = wrapper
        ctx.set_materialize_grads(False)
        return tuple(each.clone() for each in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        wrapper = ctx.wrapper()
        if wrapper is not None and wrapper.require_backward_grad_sync:
            wrapper._begin()
        return (None, *gradients)


def _is_dense(tensor):
    """Whether the tensor's elements fill its memory without gaps or overlaps, in any order."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.size()) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True
