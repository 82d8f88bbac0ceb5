"""anello.torch.DistributedDataParallel in its modes, against one process that sees the whole batch."""

import copy
import gc
import weakref

import torch
import torch.distributed as dist
from torch import nn

import anello
import anello.torch
from anello.torch import DistributedDataParallel
from case import Ranks, main
from ddp_test import Net, batches

STEPS = 4


class OwnModes(Ranks):
    def setUp(self):
        super().setUp()
        self.net = Net()

    def trained(self, model, act=None, set_to_none=True):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step, batch in enumerate(batches(STEPS, self.size)):
            optimizer.zero_grad(set_to_none=set_to_none)
            model(batch[self.rank]).square().mean().backward()
            if act:
                act(step)
            optimizer.step()
        return model

    def whole(self, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for batch in batches(STEPS, self.size):
            optimizer.zero_grad()
            (sum(model(part).square().mean() for part in batch) / self.size).backward()
            optimizer.step()
        return model

    def equal_to_one_process(self, **options):
        expected = self.whole(copy.deepcopy(self.net))
        for set_to_none in (True, False):
            model = DistributedDataParallel(copy.deepcopy(self.net), bucket_cap_mb=0.1, **options)
            self.trained(model, set_to_none=set_to_none)
            for mine, theirs in zip(model.module.parameters(), expected.parameters()):
                self.close(mine, theirs)
            self.assertGreater(len(model._sync.buckets()), 2)

    def test_training_equals_that_of_one_process(self):
        self.equal_to_one_process()

    def test_gradients_in_views(self):
        self.equal_to_one_process(gradient_as_bucket_view=True)

    def test_a_static_graph(self):
        self.equal_to_one_process(static_graph=True)

    def test_weights_and_buffers_become_those_of_rank_0(self):
        torch.manual_seed(self.rank)
        net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5))
        model = DistributedDataParallel(net)
        torch.manual_seed(0)
        first = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5))
        for mine, theirs in zip(net.parameters(), first.parameters()):
            self.same(mine, theirs)
        net[1].running_mean.fill_(self.rank + 1.0)
        model(torch.ones(4, 3)).sum().backward()
        self.same(net[1].num_batches_tracked, torch.tensor(1))
        means = torch.zeros(self.size, 5)
        dist.all_gather_into_tensor(means, net[1].running_mean)
        for rank in range(1, self.size):
            self.same(means[rank], means[0])

    def test_parameters_that_some_ranks_do_not_use(self):
        for views in (False, True):
            model = DistributedDataParallel(Net(skip_on=(1,)), find_unused_parameters=True, gradient_as_bucket_view=views)
            seen = []
            self.trained(model, lambda step: seen.append(model.module.seldom.weight.grad is not None))
            self.assertEqual(seen, [True] * STEPS)
            model = DistributedDataParallel(Net(skip_on=tuple(range(self.size))), find_unused_parameters=True,
                                            gradient_as_bucket_view=views)
            self.trained(model)
            self.assertIsNone(model.module.seldom.weight.grad)
            self.assertIsNotNone(model.module.last.weight.grad)

    def test_a_parameter_without_a_gradient_is_named(self):
        model = DistributedDataParallel(Net(skip_on=(0, 1)))
        dist.barrier()  # else who fails first could end the other's constructor
        with self.assertRaisesRegex(anello.AnelloError, "no gradient of seldom.weight, seldom.bias"):
            model(torch.ones(2, 8)).sum().backward()
        with self.assertRaisesRegex(anello.AnelloError, "seldom.weight"):
            model(torch.ones(2, 8)).sum().backward()

    def test_accumulation(self):
        for views in (False, True):
            model = DistributedDataParallel(copy.deepcopy(self.net), gradient_as_bucket_view=views)
            parts = batches(3, self.size)
            for step in range(2):
                model.zero_grad(set_to_none=step == 0)
                with model.no_sync():
                    for part in parts[:2]:
                        model(part[self.rank]).sum().backward()
                model(parts[2][self.rank]).sum().backward()
                expected = copy.deepcopy(self.net)
                (sum(expected(part[rank]).sum() for part in parts for rank in range(self.size)) / self.size).backward()
                for mine, theirs in zip(model.module.parameters(), expected.parameters()):
                    self.close(mine.grad, theirs.grad)

    def test_what_was_accumulated_goes_and_what_was_thrown_away_does_not(self):
        for views in (False, True):
            for kept in (True, False):
                net = Net(skip_on=(0, 1))
                model = DistributedDataParallel(net, find_unused_parameters=True, gradient_as_bucket_view=views)
                net.skip_on = ()
                with model.no_sync():
                    model(torch.ones(2, 8)).sum().backward()
                gradient = net.seldom.bias.grad.clone()
                if not kept:
                    model.zero_grad()
                net.skip_on = (0, 1)
                model(torch.ones(2, 8)).sum().backward()
                if kept:
                    self.close(net.seldom.bias.grad, gradient)
                else:
                    self.assertIsNone(net.seldom.bias.grad)

    def test_two_heads_with_a_backward_pass_each(self):
        class Heads(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 2)

            def forward(self, x):
                x = torch.tanh(self.body(x))
                return self.one(x), self.other(x)

        torch.manual_seed(4)
        net = Heads()
        for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"static_graph": True}):
            with self.subTest(options):
                model, expected = DistributedDataParallel(copy.deepcopy(net), **options), copy.deepcopy(net)
                for inputs in batches(3, self.size):
                    model.zero_grad()
                    expected.zero_grad()
                    one, other = model(inputs[self.rank])
                    with model.no_sync():
                        one.sum().backward(retain_graph=True)
                    other.square().sum().backward()
                    for part in inputs:
                        one, other = expected(part)
                        ((one.sum() + other.square().sum()) / self.size).backward()
                    for mine, theirs in zip(model.module.parameters(), expected.parameters()):
                        self.close(mine.grad, theirs.grad)

    def test_forwards_without_a_backward(self):
        model = DistributedDataParallel(copy.deepcopy(self.net))
        model(torch.ones(2, 8))
        with torch.no_grad():
            model(torch.ones(2, 8))
        self.trained(model)

    def test_uneven_inputs(self):
        model = DistributedDataParallel(copy.deepcopy(self.net), uneven=True)
        steps = 2 + 2 * self.rank
        with model.join():
            for step in range(steps):
                model.zero_grad()
                model(torch.ones(2, 8) * (step + 1)).sum().backward()
        self.assertEqual(model.last_rank, self.size - 1)
        weights = torch.zeros(self.size, 4)
        dist.all_gather_into_tensor(weights, model.module.last.bias.detach())
        for each in weights:
            self.same(each, weights[0])
        last = copy.deepcopy(self.net)
        (last(torch.ones(2, 8) * steps).sum() / self.size).backward()
        if self.rank == self.size - 1:
            for mine, theirs in zip(model.module.parameters(), last.parameters()):
                self.close(mine.grad, theirs.grad)
        with model.join():  # once more
            model.zero_grad()
            model(torch.ones(2, 8)).sum().backward()

    def test_bfloat16_on_the_wire(self):
        expected = self.whole(copy.deepcopy(self.net))
        model = self.trained(DistributedDataParallel(copy.deepcopy(self.net), wire=torch.bfloat16, error_feedback=True))
        differs = False
        for mine, theirs in zip(model.module.parameters(), expected.parameters()):
            torch.testing.assert_close(mine, theirs, rtol=0.02, atol=0.01)
            differs = differs or not torch.equal(mine, theirs)
        self.assertTrue(differs)
        self.assertLess(model._sync.statistics()["bytes"], 2.1 * sum(each.numel() for each in self.net.parameters()))

    def test_other_models_on_other_ranks_are_told(self):
        with self.assertRaisesRegex(anello.AnelloError, "parameter 0 is weight .* on rank 0 and weight .* on rank 1"):
            DistributedDataParallel(nn.Linear(3, 4 + self.rank))

    def test_memory_formats(self):
        net = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        expected = copy.deepcopy(net)
        images = torch.randn(self.size, 2, 3, 9, 9)
        for views in (False, True):
            model = DistributedDataParallel(copy.deepcopy(net), gradient_as_bucket_view=views)
            for _ in range(2):
                model.zero_grad()
                model(images[self.rank]).square().sum().backward()
            expected.zero_grad()
            (sum(expected(part).square().sum() for part in images) / self.size).backward()
            self.close(model.module.weight.grad, expected.weight.grad)

    def test_views_outlive_the_model(self):
        model = DistributedDataParallel(nn.Linear(2000, 100), gradient_as_bucket_view=True)
        model(torch.ones(1, 2000)).sum().backward()
        kept = model.module.weight.grad
        del model
        gc.collect()
        self.same(kept, torch.ones(100, 2000))

    def test_state_and_types_as_of_any_module(self):
        model = DistributedDataParallel(copy.deepcopy(self.net))
        theirs = nn.parallel.DistributedDataParallel(copy.deepcopy(self.net))
        self.assertEqual(list(model.state_dict()), list(theirs.state_dict()))
        model.load_state_dict(theirs.state_dict())
        self.assertEqual([name for name, _ in model.named_buffers()], [])
        with self.assertRaisesRegex(TypeError, "copy or save its .module"):
            copy.deepcopy(model)
        model.to(torch.float64)
        with self.assertRaisesRegex(RuntimeError, "is torch.float64, of .* it was .*torch.float32"):
            model(torch.ones(2, 8, dtype=torch.float64)).sum().backward()

    def test_a_gradient_that_is_dropped_at_once(self):
        # As where an optimizer steps in the backward pass: the synchronizer has the address all the same.
        net = nn.Sequential(*[nn.Linear(300, 300) for _ in range(4)])
        model = DistributedDataParallel(net, bucket_cap_mb=0.1)
        for each in net.parameters():
            each.register_post_accumulate_grad_hook(lambda parameter: setattr(parameter, "grad", None))
        for _ in range(20):
            model(torch.ones(2, 300)).sum().backward()

    def test_a_wrapper_that_is_gone_synchronizes_nothing(self):
        inner = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model = DistributedDataParallel(inner)
        model(torch.ones(1, 3)).sum().backward()
        gone = weakref.ref(model)
        del model
        gc.collect()
        self.assertIsNone(gone())
        inner[0].requires_grad_(False)
        inner.zero_grad()
        model = DistributedDataParallel(inner)
        model(torch.full((1, 3), float(self.rank))).sum().backward()
        self.assertIsNone(inner[0].weight.grad)

    def test_a_backward_that_an_exception_ends(self):
        model = DistributedDataParallel(copy.deepcopy(self.net))

        class Broken(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                raise ArithmeticError("broken")

        x = torch.relu(model.module.first(torch.ones(2, 8)))
        y = model.module.last(model.module.second(Broken.apply(x)))
        with self.assertRaisesRegex(ArithmeticError, "broken"):
            y.sum().backward()
        dist.barrier()  # who goes on first tells the other
        with self.assertRaisesRegex(anello.AnelloError, "did not reach all parameters .* no gradient of .*first.weight"):
            model(torch.ones(2, 8))

    def test_reentrant_checkpoints(self):
        from torch.utils.checkpoint import checkpoint

        class Checked(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
                self.outer = nn.Linear(4, 4)

            def forward(self, x):
                return self.outer(x) + checkpoint(self.inner, x, use_reentrant=True)

        net = Checked()
        model = DistributedDataParallel(net)
        inputs = torch.randn(self.size, 2, 4)
        for _ in range(3):
            model.zero_grad()
            model(inputs[self.rank].clone().requires_grad_()).square().sum().backward()
        expected = copy.deepcopy(net)
        expected.zero_grad()
        (sum(expected(part.clone().requires_grad_()).square().sum() for part in inputs) / self.size).backward()
        for mine, theirs in zip(net.parameters(), expected.parameters()):
            self.close(mine.grad, theirs.grad)

    def test_a_rank_that_uses_none_of_the_parameters(self):
        class Perhaps(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)

            def forward(self, x, used):
                return self.layer(x) if used else x * 2

        model = DistributedDataParallel(Perhaps(), find_unused_parameters=True)
        for step in range(3):
            model.zero_grad()
            model(torch.ones(1, 3, requires_grad=True), self.rank == step % self.size).sum().backward()
            self.close(model.module.layer.bias.grad, torch.full((3,), 1 / self.size))

    def test_gradients_that_stay_without_zero_grad(self):
        for views in (False, True):
            both = nn.ParameterList([torch.ones(1), torch.ones(1)])

            class Choice(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.both = both

                def forward(self, second):
                    return self.both[0] * 2 + (self.both[1] if second else 0)

            results = []
            for wrapper in (DistributedDataParallel, nn.parallel.DistributedDataParallel):
                for each in both:
                    each.grad = None
                model = wrapper(Choice(), find_unused_parameters=True, gradient_as_bucket_view=views)
                model(True).sum().backward()
                model(self.rank == 1).sum().backward()
                results.append([each.grad.clone() for each in both])
                del model
                gc.collect()
            self.assertEqual(results[0], results[1])

    def test_buffers_of_evaluation_are_those_of_rank_0(self):
        net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        model = DistributedDataParallel(net)
        model(torch.randn(4, 3) + self.rank).sum().backward()
        model.eval()
        with torch.no_grad():
            model(torch.ones(2, 3))
        means = torch.zeros(self.size, 3)
        dist.all_gather_into_tensor(means, net[1].running_mean)
        for each in means:
            self.same(each, means[0])

    def test_a_group_of_another_backend_is_refused(self):
        with self.assertRaisesRegex(ValueError, "does not use the backend anello"):
            DistributedDataParallel(nn.Linear(1, 1), process_group=dist.new_group(backend="gloo"))

    def test_compiled_outside_and_inside(self):
        import torch._dynamo

        def trained(wrap):
            torch.manual_seed(3)
            module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
            model, optimizer = wrap(module), torch.optim.SGD(module.parameters(), lr=0.1)
            torch.manual_seed(50 + self.rank)
            for _ in range(4):
                optimizer.zero_grad()
                model(torch.randn(4, 8)).square().mean().backward()
                optimizer.step()
            return [each.detach() for each in module.parameters()]

        expected = trained(DistributedDataParallel)
        for wrap in (lambda module: torch.compile(DistributedDataParallel(module), backend="aot_eager"),
                     lambda module: DistributedDataParallel(torch.compile(module, backend="aot_eager"))):
            torch._dynamo.reset()
            for one, other in zip(trained(wrap), expected):
                self.close(one, other)

    def test_under_the_zero_redundancy_optimizer(self):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        def trained(optimizer_of):
            torch.manual_seed(3)
            model = DistributedDataParallel(nn.Linear(8, 3))
            optimizer = optimizer_of(model.parameters())
            torch.manual_seed(50 + self.rank)
            for _ in range(4):
                optimizer.zero_grad()
                model(torch.randn(4, 8)).square().mean().backward()
                optimizer.step()
            return [each.detach() for each in model.parameters()]

        expected = trained(lambda parameters: torch.optim.Adam(parameters, lr=0.1))
        got = trained(lambda parameters: ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.Adam, lr=0.1))
        for one, other in zip(got, expected):
            self.close(one, other)

    def test_copies_are_counted(self):
        # Views: autograd makes a new gradient, which is copied in once, or adds to the one that is there.
        for views, keeps, copies in ((False, False, 2), (False, True, 2), (True, False, 1), (True, True, 0)):
            with self.subTest(views=views, keeps=keeps):
                model = DistributedDataParallel(torch.nn.Linear(30, 20), gradient_as_bucket_view=views)
                size = sum(each.nbytes for each in model.parameters())
                for step in range(4):
                    before = model.statistics()["copied_bytes"]
                    model(torch.ones(2, 30)).sum().backward()
                    if step > 0:  # the first has no gradient to add to
                        self.assertEqual(model.statistics()["copied_bytes"] - before, copies * size)
                    model.zero_grad(set_to_none=not keeps)
                self.assertEqual(model.statistics()["steps"], 4)

    def test_a_summary(self):
        model = self.trained(DistributedDataParallel(copy.deepcopy(self.net)))
        self.assertRegex(model.summary(), f"{self.size} ranks, .* hidden")


if __name__ == "__main__":
    main()
