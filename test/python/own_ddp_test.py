"""anello.torch.DistributedDataParallel in its modes, against one process that sees the whole batch."""

import copy
import gc

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
        gathered = [None] * self.size
        means = torch.zeros(self.size, 5)
        dist.all_gather_into_tensor(means, net[1].running_mean)
        del gathered
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
        last = copy.deepcopy(self.net)
        (last(torch.ones(2, 8) * steps).sum() / self.size).backward()
        if self.rank == self.size - 1:
            for mine, theirs in zip(model.module.parameters(), last.parameters()):
                self.close(mine.grad, theirs.grad)

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

    def test_a_group_of_another_backend_is_refused(self):
        with self.assertRaisesRegex(ValueError, "none of the backend anello"):
            DistributedDataParallel(nn.Linear(1, 1), process_group=dist.new_group(backend="gloo"))

    def test_a_summary(self):
        model = self.trained(DistributedDataParallel(copy.deepcopy(self.net)))
        self.assertRegex(model.summary(), f"{self.size} ranks, .* hidden")


if __name__ == "__main__":
    main()
