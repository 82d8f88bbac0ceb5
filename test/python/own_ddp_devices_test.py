"""anello.torch.DistributedDataParallel with parameters on a CUDA device, over the fake driver.

Its memory is the host's, where autograd itself puts gradients of the CPU. So these tests stand in for the backward pass:
they put gradients on the device and call the hooks in its place.
"""

import fake_cuda
import torch
import torch.distributed as dist
from torch import nn

from anello.torch import DistributedDataParallel, backward_pass
from case import Ranks, input_of, main

SHAPES = [(1000,), (3, 5), (), (70, 30)]


class Layers(nn.Module):
    def __init__(self, rank, dtype=torch.float32):
        super().__init__()
        for i, shape in enumerate(SHAPES):
            value = fake_cuda.on_device(input_of(rank, shape, torch.float32).to(dtype))
            self.register_parameter(f"p{i}", nn.Parameter(value))
        self.register_buffer("seen", fake_cuda.on_device(torch.full((4,), float(rank))))

    def forward(self, x):
        return x


class OwnOnDevices(Ranks):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fake_cuda.install()

    def setUp(self):
        super().setUp()
        self.ends = []
        queued, backward_pass.queue = backward_pass.queue, self.ends.append
        self.addCleanup(setattr, backward_pass, "queue", queued)

    def wrap(self, dtype=torch.float32, **options):
        return DistributedDataParallel(Layers(self.rank, dtype), bucket_cap_mb=0.002, **options)

    def gradient(self, rank, i, step):
        return input_of(rank + 10 * step, SHAPES[i], torch.float32) * (i + 1)

    def average(self, i, step):
        return sum(self.gradient(rank, i, step) for rank in range(self.size)) / self.size

    def backward(self, model, step, leave_out=()):
        """In place of autograd: gradients come from the last layer on, and the end of the pass is told once."""
        for i, parameter in reversed(list(enumerate(model.module.parameters()))):
            if i in leave_out:
                continue
            value = fake_cuda.on_device(self.gradient(self.rank, i, step).to(parameter.dtype))
            if parameter.grad is None:
                parameter.grad = fake_cuda.empty(*SHAPES[i], dtype=parameter.dtype)
            fake_cuda.current_stream().copy(parameter.grad, value)
            model._take(i, parameter)
        ends, self.ends[:] = list(self.ends), []
        for end in ends:
            end()

    def host(self, tensor):
        fake_cuda.current_stream().synchronize()
        return tensor.detach().as_subclass(torch.Tensor).clone()

    def check(self, model, step):
        for i, parameter in enumerate(model.module.parameters()):
            self.close(self.host(parameter.grad), self.average(i, step))

    def test_weights_and_buffers_are_those_of_rank_0(self):
        model = self.wrap()
        for i, parameter in enumerate(model.module.parameters()):
            self.same(self.host(parameter), input_of(0, SHAPES[i], torch.float32))
        self.same(self.host(model.module.seen), torch.zeros(4))

    def test_gradients_are_averaged(self):
        model = self.wrap()
        for step in range(4):
            self.backward(model, step)
            self.check(model, step)
        self.assertGreater(len(model._sync.buckets()), 1)

    def test_the_end_of_a_pass_does_not_wait_for_the_device(self):
        model = self.wrap()
        for step in range(2):  # after which buckets stay as they are
            self.backward(model, step)
        fake_cuda.current_stream().synchronize()
        sources = [fake_cuda.on_device(self.gradient(self.rank, i, 2)) for i in range(len(SHAPES))]
        fake_cuda.hold(True)
        try:
            for i, parameter in reversed(list(enumerate(model.module.parameters()))):
                fake_cuda.current_stream().copy(parameter.grad, sources[i])
                model._take(i, parameter)
            self.ends.pop()()
        finally:
            fake_cuda.hold(False)
        self.check(model, 2)

    def test_a_gradient_of_another_stream_is_kept_for_the_current_one(self):
        model = self.wrap()
        other, current = fake_cuda.Stream(), fake_cuda.current_stream()
        gradients = []
        for i, parameter in reversed(list(enumerate(model.module.parameters()))):
            parameter.grad = fake_cuda.on_device(self.gradient(self.rank, i, 0))
            gradients.append(parameter.grad.data_ptr())
            with fake_cuda.stream(other):
                model._take(i, parameter)
        fake_cuda.recorded.clear()
        self.ends.pop()()
        self.check(model, 0)
        self.assertEqual(sorted(fake_cuda.recorded), sorted((address, current) for address in gradients))

    def test_views(self):
        model = self.wrap(gradient_as_bucket_view=True)
        for step in range(3):
            self.backward(model, step)
            self.check(model, step)
            for view, parameter in zip(model._views, model.module.parameters()):
                self.assertEqual(view.data_ptr(), parameter.grad.data_ptr())

    def test_bfloat16_on_the_wire(self):
        model = self.wrap(wire=torch.bfloat16, error_feedback=True)
        self.backward(model, 1)
        for i, parameter in enumerate(model.module.parameters()):
            torch.testing.assert_close(self.host(parameter.grad), self.average(i, 1), rtol=0.02, atol=0.02)

    def test_half_precision_parameters(self):
        model = self.wrap(torch.bfloat16)
        self.backward(model, 1)
        for i, parameter in enumerate(model.module.parameters()):
            self.assertIs(parameter.grad.dtype, torch.bfloat16)
            torch.testing.assert_close(self.host(parameter.grad).float(), self.average(i, 1), rtol=0.02, atol=0.02)

    def test_a_parameter_that_one_rank_does_not_use(self):
        model = self.wrap(find_unused_parameters=True)
        self.backward(model, 1, leave_out=[1] if self.rank == 0 else [])
        expected = [self.average(i, 1) for i in range(len(SHAPES))]
        expected[1] = sum(self.gradient(rank, 1, 1) for rank in range(1, self.size)) / self.size
        for parameter, wanted in zip(model.module.parameters(), expected):
            self.close(self.host(parameter.grad), wanted)

    def test_parameters_on_two_devices_are_refused(self):
        module = Layers(self.rank)
        module.more = nn.Parameter(torch.ones(3))
        with self.assertRaisesRegex(ValueError, r"p0 is on cuda:0 and more on cpu: move the module to one device first"):
            DistributedDataParallel(module)

    def test_a_gradient_on_the_host_is_refused(self):
        model = self.wrap()
        first, *_, last = model.module.parameters()
        last.grad = fake_cuda.on_device(self.gradient(self.rank, 3, 0))
        model._take(3, last)
        dist.barrier()  # all have begun the step, which the error ends
        first.grad = torch.ones(SHAPES[0])
        with self.assertRaisesRegex(RuntimeError, "the gradient of p0 is .* on cpu; it was .* on cuda:0 when"):
            model._take(0, first)
        dist.barrier()


if __name__ == "__main__":
    main()
