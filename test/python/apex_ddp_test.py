"""apex.parallel.DistributedDataParallel and Reducer, against one process that sees the whole batch."""

import copy
import gc
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from apex.parallel import DistributedDataParallel, Reducer
from buckets_test import is_mapped, settled_memory
from case import SCRATCH, Ranks, main

STEPS, ROWS = 3, 4


class Net(nn.Module):
    """Parameters of two types, one of which is used twice, and one that is never used."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(8, 40), nn.Linear(40, 40), nn.Linear(40, 4)
        self.tied = nn.Linear(40, 40)
        self.tied.weight = self.again.weight
        self.scale = nn.Parameter(torch.ones(4, dtype=torch.float64))
        self.unused = nn.Parameter(torch.ones(7))

    def forward(self, x):
        x = torch.relu(self.again(torch.relu(self.first(x))))
        return self.last(torch.relu(self.tied(x))) * self.scale.float()


class Averaging(Ranks):
    def setUp(self):
        super().setUp()
        self.net = Net()
        self.batches = torch.randn(STEPS, self.size, ROWS, 8)

    def train(self, model, act=None):
        optimizer = torch.optim.SGD([each for each in model.parameters()], lr=0.05)
        for batch in self.batches:
            optimizer.zero_grad()
            model(batch[self.rank]).square().mean().backward()
            if act:
                act(model)
            optimizer.step()
        return model

    def whole(self, factor=1.0):
        model = copy.deepcopy(self.net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for batch in self.batches:
            optimizer.zero_grad()
            (sum(model(part).square().mean() for part in batch) * factor / self.size).backward()
            optimizer.step()
        return model

    def equal(self, model, expected):
        for (name, one), other in zip(model.named_parameters(), expected.parameters()):
            with self.subTest(name=name):
                self.close(one, other)
                everybodys = [torch.empty_like(one) for _ in range(self.size)]
                dist.all_gather(everybodys, one.detach())
                for each in everybodys:
                    self.same(each, one.detach())

    def test_options_that_only_change_how_gradients_travel(self):
        expected = self.whole()
        groups = [dist.new_group(), dist.new_group()]
        both = groups, [None, None]
        for options in ({}, {"message_size": 1}, {"message_size": 1000}, {"delay_allreduce": True},
                        {"retain_allreduce_buffers": True}, {"allreduce_always_fp32": True},
                        {"gradient_predivide_factor": 2.0}, {"num_allreduce_streams": 2, "message_size": 500},
                        {"num_allreduce_streams": 2, "allreduce_communicators": both, "message_size": 500},
                        {"prof": True},
                        {"allreduce_trigger_params": [self.net.again.weight]}):
            net = copy.deepcopy(self.net)
            if "allreduce_trigger_params" in options:
                options = {"allreduce_trigger_params": [net.again.weight]}
            with self.subTest(options=list(options)):
                model = DistributedDataParallel(net, **options)
                self.equal(self.train(model).module, expected)
                self.assertIsNone(net.unused.grad)

    def test_a_sum_instead_of_the_average(self):
        model = DistributedDataParallel(copy.deepcopy(self.net), gradient_average=False)
        self.equal(self.train(model).module, self.whole(factor=self.size))
        model = DistributedDataParallel(copy.deepcopy(self.net), gradient_average=False,
                                        gradient_predivide_factor=self.size)
        self.equal(self.train(model).module, self.whole())

    def test_buckets_are_as_large_as_message_size_says(self):
        def counts(**options):
            model = DistributedDataParallel(copy.deepcopy(self.net), retain_allreduce_buffers=True, **options)
            return [len(each) for each in self.train(model).allreduce_buffers]

        total = sum(each.numel() for each in self.net.parameters()) - 4
        self.assertEqual(sorted(counts()), [4, total])
        self.assertEqual(sorted(counts(delay_allreduce=True)), [4, total])
        self.assertEqual(len(counts(message_size=1)), len(list(self.net.parameters())))
        self.assertTrue(all(each >= 300 for each in counts(message_size=300)[:-2]))

    def test_buckets_leave_while_the_backward_pass_computes_unless_delayed(self):
        for delay in (False, True):
            net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
            model = DistributedDataParallel(net, message_size=1, delay_allreduce=delay)
            sent = []
            model.module[0].weight.register_hook(lambda _: sent.append(model._sent))
            model(torch.ones(1, 4)).sum().backward()
            self.assertEqual(sent[0] > 0, not delay)

    def test_a_parameter_that_ends_a_bucket(self):
        net = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])
        triggers = [net[2].weight, net[1].bias]
        model = DistributedDataParallel(net, retain_allreduce_buffers=True,
                                        allreduce_trigger_params=triggers)
        model(torch.ones(1, 3)).sum().backward()
        self.assertEqual([len(each) for each in model.allreduce_buffers], [24, 3, 21])

    def test_retained_buffers_hold_the_gradients(self):
        kept = []

        def check(model):
            for each in model.module.parameters():
                if each.grad is not None:
                    self.assertTrue(any(buffer.data_ptr() <= each.grad.data_ptr() < buffer.data_ptr() + buffer.nbytes
                                        for buffer in model.allreduce_buffers))
            kept.append([each.clone() for each in model.allreduce_buffers])
            kept.append(model.allreduce_buffers)

        self.train(DistributedDataParallel(copy.deepcopy(self.net), retain_allreduce_buffers=True), check)
        for clones, buffers in zip(kept[::2], kept[1::2]):
            for one, other in zip(clones, buffers):
                self.same(one, other)  # a later step has not written to it

    def test_16_bit_gradients_are_added_in_float32_if_asked(self):
        # A third of a bfloat16 is rounded where it has to be a bfloat16 before the sum.
        x = torch.randn(self.size, 100).bfloat16()
        exact = (x.double().mean(0)).bfloat16()

        def gradient(**options):
            net = nn.Linear(100, 1, bias=False).bfloat16()
            model = DistributedDataParallel(net, gradient_predivide_factor=3.0, retain_allreduce_buffers=True,
                                            **options)
            model(x[self.rank:self.rank + 1]).sum().backward()
            self.assertEqual(model.allreduce_buffers[0].dtype, torch.bfloat16)
            return net.weight.grad.flatten()

        def differ(**options):
            return (gradient(**options) != exact).sum().item()

        self.assertLess(differ(allreduce_always_fp32=True), 5)  # ties
        self.assertGreater(differ(allreduce_always_fp32=False), 20)

    def test_rank_0s_parameters_come_to_all(self):
        torch.manual_seed(100 + self.rank)
        net = Net()
        model = DistributedDataParallel(net)
        for each in model.parameters():
            brought = each.detach().clone()
            dist.broadcast(brought, 0)
            self.same(brought, each.detach())

    def test_parameters_that_only_some_ranks_use(self):
        model = DistributedDataParallel(nn.ModuleList([nn.Linear(3, 1), nn.Linear(3, 1)]))
        for step in (0, 1):
            model.zero_grad()
            model.module[(self.rank + step) % 2](torch.ones(1, 3)).sum().backward()
            for i, each in enumerate(model.module):
                users = sum((rank + step) % 2 == i for rank in range(self.size))
                self.close(each.weight.grad, torch.full((1, 3), users / self.size))

    def test_gradients_that_are_accumulated_before(self):
        model = DistributedDataParallel(copy.deepcopy(self.net))
        model.disable_allreduce()
        model(self.batches[0][self.rank]).square().mean().backward()
        model.enable_allreduce()
        model(self.batches[1][self.rank]).square().mean().backward()
        expected = copy.deepcopy(self.net)
        (sum(expected(part).square().mean() for batch in self.batches[:2] for part in batch) / self.size).backward()
        for one, other in zip(model.module.parameters(), expected.parameters()):
            self.close(one.grad, other.grad)

    def test_parameters_that_are_frozen_and_thawed(self):
        net = copy.deepcopy(self.net)
        net.again.requires_grad_(False)
        model = DistributedDataParallel(net)
        expected = copy.deepcopy(self.net)
        for frozen in (True, False, True):
            for net in (model.module, expected):
                net.again.requires_grad_(not frozen)
                net.zero_grad()
            model(self.batches[0][self.rank]).square().mean().backward()
            (sum(expected(part).square().mean() for part in self.batches[0]) / self.size).backward()
            for one, other in zip(model.module.parameters(), expected.parameters()):
                self.close(one.grad, other.grad)

    def test_buckets_lie_in_memory_that_ranks_map_and_free_it(self):
        for retain in (False, True):
            model = DistributedDataParallel(nn.Linear(100, 100), retain_allreduce_buffers=retain)
            self.assertTrue(is_mapped(model._buckets[0]._flat))
            before = settled_memory()
            for frozen in (True, False) * 3:
                model.module.bias.requires_grad_(not frozen)
                model(torch.ones(1, 100)).sum().backward()
            self.assertEqual(settled_memory(), before)

    def test_two_backward_passes_of_one_forward_pass(self):
        model = DistributedDataParallel(copy.deepcopy(self.net))
        expected = copy.deepcopy(self.net)
        out = model(self.batches[0][self.rank])
        out.square().mean().backward(retain_graph=True)
        out.sum().backward()
        (sum(expected(part).square().mean() + expected(part).sum() for part in self.batches[0]) / self.size).backward()
        for one, other in zip(model.module.parameters(), expected.parameters()):
            self.close(one.grad, other.grad)

    def test_reentrant_checkpoints(self):
        class Checkpointed(nn.Module):
            def __init__(self, which):
                super().__init__()
                self.layers, self.which = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]), which

            def forward(self, x):
                for i, each in enumerate(self.layers):
                    x = checkpoint(each, x, use_reentrant=True) if i in self.which else each(x)
                return x

        for which in ((0,), (1,), (0, 1)):
            for delay in (False, True):
                with self.subTest(which=which, delay=delay):
                    model = DistributedDataParallel(Checkpointed(which), message_size=1, delay_allreduce=delay)
                    expected = copy.deepcopy(model.module)
                    x = torch.randn(self.size, 2, 4, requires_grad=True)
                    model(x[self.rank]).square().sum().backward()
                    (sum(expected(part).square().sum() for part in x) / self.size).backward()
                    for one, other in zip(model.module.parameters(), expected.parameters()):
                        self.close(one.grad, other.grad)

    def test_a_layer_that_checkpoints_use_twice_has_to_wait(self):
        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.first = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                once = checkpoint(self.layer, self.first(x), use_reentrant=True)
                return checkpoint(self.layer, once, use_reentrant=True)

        x = torch.randn(self.size, 2, 4)
        model = DistributedDataParallel(Twice(), delay_allreduce=True)
        expected = copy.deepcopy(model.module)
        model(x[self.rank]).square().sum().backward()
        (sum(expected(part).square().sum() for part in x) / self.size).backward()
        for one, other in zip(model.module.parameters(), expected.parameters()):
            self.close(one.grad, other.grad)
        model = DistributedDataParallel(Twice())
        with self.assertRaisesRegex(RuntimeError, "set delay_allreduce=True"):
            model(x[self.rank]).square().sum().backward()

    def test_the_wrapper_ends_with_its_last_reference(self):
        model = DistributedDataParallel(copy.deepcopy(self.net))
        net, gone = model.module, weakref.ref(model)
        del model
        gc.collect()
        self.assertIsNone(gone())
        net(self.batches[0][self.rank]).sum().backward()

    def test_any_backend(self):
        expected = self.whole()
        dist.destroy_process_group()
        try:
            dist.init_process_group("gloo", init_method=f"file://{SCRATCH}/gloo", rank=self.rank, world_size=self.size)
            self.equal(self.train(DistributedDataParallel(copy.deepcopy(self.net))).module, expected)
        finally:
            dist.destroy_process_group()
            self.setUpClass()


class Refusals(Ranks):
    def test_device_ids_are_ignored_with_a_note(self):
        with self.assertWarnsRegex(UserWarning, "device_ids and output_device are ignored"):
            DistributedDataParallel(nn.Linear(2, 2), device_ids=[0], output_device=0)

    def test_options_that_are_refused(self):
        for options, words in (({"shared_param": True}, "delay_allreduce"),
                               ({"allreduce_trigger_params": [], "delay_allreduce": True}, "leave one of them out"),
                               ({"allreduce_communicators": ([], [])}, "1 groups and 1 streams")):
            with self.assertRaisesRegex(ValueError, words):
                DistributedDataParallel(nn.Linear(2, 2), **options)

    def test_the_old_name_of_the_predivide_factor(self):
        with self.assertWarnsRegex(UserWarning, "gradient_predivide_factor"):
            model = DistributedDataParallel(nn.Linear(2, 2), gradient_average_split_factor=4.0)
        self.assertEqual(model.gradient_predivide_factor, 4.0)

    def test_sparse_gradients(self):
        model = DistributedDataParallel(nn.Embedding(4, 2, sparse=True))
        with self.assertRaisesRegex(RuntimeError, "sparse=False"):
            model(torch.tensor([1])).sum().backward()

    def test_the_forward_pass_after_a_backward_pass_that_broke(self):
        class Breaks(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                raise ValueError("broken on purpose")

        model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
        with self.assertRaisesRegex(ValueError, "on purpose"):
            model.module[1](Breaks.apply(model.module[0](torch.ones(1, 2)))).sum().backward()
        with self.assertRaisesRegex(RuntimeError, "did not end"):
            model(torch.ones(1, 2))


class Reducing(Ranks):
    def test_a_module(self):
        torch.manual_seed(100 + self.rank)
        net = nn.Linear(3, 2)
        reducer = Reducer(net)
        brought = net.weight.detach().clone()
        dist.broadcast(brought, 0)
        self.same(brought, net.weight.detach())
        (net(torch.ones(1, 3)).sum() * (self.rank + 1)).backward()
        reducer.reduce()
        self.close(net.weight.grad, torch.full((2, 3), (self.size + 1) / 2))

    def test_a_list_of_gradients(self):
        gradients = [torch.full((2, 2), float(self.rank)), torch.full((3,), 2.0 * self.rank, dtype=torch.float64)]
        Reducer(gradients).reduce()
        self.close(gradients[0], torch.full((2, 2), (self.size - 1) / 2))
        self.close(gradients[1], torch.full((3,), float(self.size - 1), dtype=torch.float64))


if __name__ == "__main__":
    main()
