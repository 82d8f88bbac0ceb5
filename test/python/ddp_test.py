"""DistributedDataParallel in its modes, against one process that sees the whole batch."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from case import Ranks, main, needs_numpy

ROWS = 6


class Net(nn.Module):
    """With a branch that not every rank takes, and parameters of two types."""

    def __init__(self, skip_on=()):
        super().__init__()
        self.first = nn.Linear(8, 300)
        self.second, self.last = nn.Linear(300, 200), nn.Linear(200, 4)
        self.seldom = nn.Linear(200, 4)
        self.scale = nn.Parameter(torch.ones(4, dtype=torch.float64))
        self.skip_on = skip_on

    def forward(self, x):
        x = torch.relu(self.second(torch.relu(self.first(x))))
        y = self.last(x)
        if not self.skip_on or dist.get_rank() not in self.skip_on:
            y = y + self.seldom(x)
        return y * self.scale.float()


def batches(steps, ranks):
    torch.manual_seed(3)
    return [torch.randn(ranks, ROWS, 8) for _ in range(steps)]


class Modes(Ranks):
    def train(self, model, steps=4, act=None):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step, batch in enumerate(batches(steps, self.size)):
            optimizer.zero_grad()
            model(batch[self.rank]).square().mean().backward()
            if act:
                act(step)
            optimizer.step()
        return model

    def whole(self, model, steps=4):
        """What training on all ranks' batches in one process gives: the mean of the ranks' losses."""
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for batch in batches(steps, self.size):
            optimizer.zero_grad()
            (sum(model(part).square().mean() for part in batch) / self.size).backward()
            optimizer.step()
        return model

    def compare(self, trained, expected, tolerance=1e-5):
        for (name, one), other in zip(trained.named_parameters(), expected.parameters()):
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance,
                                       msg=lambda text, name=name: f"{name}: {text}")
            everybodys = [torch.empty_like(one) for _ in range(self.size)]
            dist.all_gather(everybodys, one.detach())
            for each in everybodys:
                self.same(each, one.detach())

    def both(self, tolerance=1e-5, hook=None, steps=4, **options):
        torch.manual_seed(11 + self.rank)  # DDP has to bring rank 0's parameters to all
        model = DistributedDataParallel(Net(), bucket_cap_mb=0.1, **options)
        reference = copy.deepcopy(model.module)
        if hook:
            model.register_comm_hook(*hook)
        self.compare(self.train(model, steps).module, self.whole(reference, steps), tolerance)
        return model

    def test_plain(self):
        self.both()

    def test_gradient_as_bucket_view(self):
        self.both(gradient_as_bucket_view=True)

    def test_static_graph(self):
        self.both(static_graph=True)

    def test_broadcast_buffers_brings_those_of_rank_0(self):
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(1))
                self.register_buffer("value", torch.zeros(1))

            def forward(self, x):
                self.seen = self.value.item()
                self.value += 1 + dist.get_rank()
                return x * self.weight

        for broadcast in (True, False):
            model = DistributedDataParallel(Counter(), broadcast_buffers=broadcast)
            for step in range(3):
                model(torch.ones(1)).sum().backward()
                self.assertEqual(model.module.seen, step * (1 if broadcast else 1 + self.rank))

    def test_find_unused_parameters_with_a_branch_taken_by_some(self):
        torch.manual_seed(5)
        model = DistributedDataParallel(Net(skip_on=(0,)), find_unused_parameters=True, bucket_cap_mb=0.1)
        self.train(model)
        for parameter in model.parameters():
            everybodys = [torch.empty_like(parameter) for _ in range(self.size)]
            dist.all_gather(everybodys, parameter.detach())
            for each in everybodys:
                self.same(each, parameter.detach())
        self.assertIsNotNone(model.module.seldom.weight.grad)

    def test_no_sync_accumulates(self):
        torch.manual_seed(5)
        model = DistributedDataParallel(Net())
        reference = copy.deepcopy(model.module)
        data = batches(3, self.size)
        for step, batch in enumerate(data):
            if step < 2:
                with model.no_sync():
                    model(batch[self.rank]).square().mean().backward()
            else:
                model(batch[self.rank]).square().mean().backward()
        (sum(reference(part).square().mean() for batch in data for part in batch) / self.size).backward()
        for one, other in zip(model.module.parameters(), reference.parameters()):
            if one.grad is not None:
                self.close(one.grad, other.grad)

    def test_join_with_unequal_numbers_of_batches(self):
        torch.manual_seed(5)
        model = DistributedDataParallel(nn.Linear(4, 2))
        steps = 0
        with model.join():
            for _ in range(2 + 3 * self.rank):
                model(torch.ones(2, 4)).sum().backward()
                steps += 1
        self.assertEqual(steps, 2 + 3 * self.rank)
        dist.barrier()

    def test_sparse_gradients_of_an_embedding(self):
        torch.manual_seed(5)
        model = DistributedDataParallel(nn.Embedding(10, 3, sparse=True))
        reference = copy.deepcopy(model.module)
        model(torch.tensor([self.rank] * (self.rank + 1) + [7])).sum().mul(self.rank + 1).backward()
        sum(reference(torch.tensor([rank] * (rank + 1) + [7])).sum() * (rank + 1) for rank in range(self.size)).backward()
        self.close(model.module.weight.grad.to_dense() * self.size, reference.weight.grad.to_dense())

    def test_hooks_of_pytorch(self):
        self.both(hook=(None, default_hooks.allreduce_hook))
        self.both(hook=(None, default_hooks.fp16_compress_hook), tolerance=2e-2)

    def test_the_built_in_allreduce_hook(self):
        model = DistributedDataParallel(Net(), bucket_cap_mb=0.1)
        reference = copy.deepcopy(model.module)
        model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
        self.compare(self.train(model).module, self.whole(reference))

    def test_bf16_compression_of_ours(self):
        from anello.torch import bf16_compress_hook

        self.both(hook=(None, bf16_compress_hook), tolerance=5e-2)

    @needs_numpy
    def test_power_sgd_with_several_buckets(self):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5)
        torch.manual_seed(5)
        model = DistributedDataParallel(nn.Sequential(*[nn.Linear(64, 64) for _ in range(8)]), bucket_cap_mb=0.02)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(8):
            optimizer.zero_grad()
            torch.manual_seed(100 * step + self.rank)
            model(torch.randn(5, 64)).square().mean().backward()
            optimizer.step()
        for parameter in model.parameters():
            everybodys = [torch.empty_like(parameter) for _ in range(self.size)]
            dist.all_gather(everybodys, parameter.detach())
            for each in everybodys:
                self.same(each, parameter.detach())

    def test_a_hook_that_starts_more_from_its_callback(self):
        def twice(state, bucket):
            def again(future):
                return dist.all_reduce(future.value()[0].div_(self.size), async_op=True).get_future().wait()[0]

            return dist.all_reduce(bucket.buffer().div_(self.size), async_op=True).get_future().then(again)

        self.both(hook=(None, twice))

    def test_a_wrong_hook_is_an_error(self):
        model = DistributedDataParallel(nn.Linear(3, 3))

        def wrong(state, bucket):
            def fails(future):
                raise ValueError("this hook is wrong")

            return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(fails)

        model.register_comm_hook(None, wrong)
        with self.assertRaisesRegex(RuntimeError, "this hook is wrong"):
            model(torch.ones(1, 3)).sum().backward()

    def test_many_parameters_in_half_precision(self):
        torch.manual_seed(5)
        model = DistributedDataParallel(nn.Sequential(*[nn.Linear(20, 20) for _ in range(30)]).bfloat16(), bucket_cap_mb=0.001)
        for _ in range(3):
            model(torch.ones(2, 20, dtype=torch.bfloat16)).sum().backward()
        gradient = model.module[0].weight.grad.clone()
        dist.all_reduce(gradient, dist.ReduceOp.MAX)
        self.same(gradient, model.module[0].weight.grad)


if __name__ == "__main__":
    main()
