"""DistributedOptimizer with all its options, against one process that sees the whole batch."""

import copy
import warnings

import torch
from torch import nn

import anello.horovod.torch as hvd
from case import main
from horovod_case import Ranks

ROWS, STEPS = 6, 4


class Net(nn.Module):
    """With a branch that not every rank takes, and parameters of two types."""

    def __init__(self, skip_on=()):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, 60), nn.Linear(60, 50), nn.Linear(50, 4)
        self.seldom = nn.Linear(50, 4)
        self.scale = nn.Parameter(torch.ones(4, dtype=torch.float64))
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)
        self.skip_on = skip_on

    def forward(self, x, rank=0):
        x = torch.relu(self.second(torch.relu(self.first(x))))
        y = self.last(x)
        if rank not in self.skip_on:
            y = y + self.seldom(x)
        return y * self.scale.float() * self.frozen


def batches(ranks):
    torch.manual_seed(3)
    return [torch.randn(ranks, ROWS, 8) for _ in range(STEPS)]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


class Options(Ranks):
    def train(self, model, optimizer, passes=1, act=None):
        for batch in batches(self.size):
            optimizer.zero_grad()
            for part in batch[self.rank].split(ROWS // passes):
                (model(part, self.rank).square().mean() / passes).backward()
            if act:
                act(model, optimizer)
            else:
                optimizer.step()

    def whole(self, model, passes=1, clip=None, factor=1.0):
        optimizer = sgd(model)
        for batch in batches(self.size):
            optimizer.zero_grad()
            (sum(model(part, rank).square().mean() for rank, part in enumerate(batch)) / self.size * factor).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        return model

    def both(self, tolerance=1e-5, make=Net, clip=None, factor=1.0, passes=1, act=None, **options):
        torch.manual_seed(11 + self.rank)
        model = make()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        reference = copy.deepcopy(model)
        given = options.pop("groups", None)
        if given:
            options["groups"] = given(model)
        options.setdefault("named_parameters", model.named_parameters())
        if options["named_parameters"] is None:
            del options["named_parameters"]
        optimizer = hvd.DistributedOptimizer(sgd(model), backward_passes_per_step=passes, **options)
        self.assertIsInstance(optimizer, torch.optim.SGD)
        self.assertEqual(type(optimizer).__name__, "SGD")
        self.train(model, optimizer, passes, act)
        for one, other in zip(model.parameters(), self.whole(reference, passes, clip, factor).parameters()):
            self.close(one.detach(), other.detach(), tolerance)
            self.equal_everywhere(one)
        return model, optimizer

    def test_as_it_is(self):
        self.both()

    def test_without_names(self):
        self.both(named_parameters=None)

    def test_sum(self):
        self.both(op=hvd.Sum, factor=self.size)

    def test_several_backward_passes(self):
        self.both(passes=2)
        self.both(passes=3)

    def test_numbers_of_groups(self):
        for count in (1, 2, 100):
            self.both(num_groups=count)

    def test_groups_of_parameters(self):
        self.both(groups=lambda model: [list(model.first.parameters()), [model.last.weight, model.scale]])

    def test_predivide(self):
        self.both(gradient_predivide_factor=2.0)
        self.both(gradient_predivide_factor=float(self.size), num_groups=2)

    def test_compression(self):
        self.both(compression=hvd.Compression.fp16, tolerance=5e-3)

    def test_a_branch_that_only_some_take(self):
        self.both(make=lambda: Net(skip_on=(0,)))
        self.both(make=lambda: Net(skip_on=(0,)), num_groups=2)
        self.both(make=lambda: Net(skip_on=tuple(range(self.size))))

    def test_clipping_between_synchronize_and_step(self):
        def act(model, optimizer):
            optimizer.synchronize()
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            with optimizer.skip_synchronize(), warnings.catch_warnings():
                warnings.simplefilter("error")  # of gradients that are sent a second time
                optimizer.step()

        self.both(clip=0.05, act=act)

    def test_a_closure(self):
        model = nn.Linear(3, 1)
        hvd.broadcast_parameters(model.state_dict(), 0)
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
        before = model.weight.detach().clone()
        model(torch.ones(2, 3)).sum().backward()
        self.assertEqual(optimizer.step(lambda: 7), 7)
        self.close(model.weight.detach(), before - 0.05 * 2)

    def test_changing_the_number_of_passes(self):
        model, optimizer = self.both()
        optimizer.set_backward_passes_per_step(2)
        optimizer.zero_grad()
        for _ in range(2):
            model(torch.ones(1, 8)).sum().backward()
        optimizer.step()
        for each in model.parameters():
            self.equal_everywhere(each)


class Sparse(Ranks):
    def test_gradients_of_embeddings(self):
        for as_dense in (False, True):
            torch.manual_seed(5)
            model = nn.EmbeddingBag(10, 3, mode="sum", sparse=True)
            reference = copy.deepcopy(model)
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), model.named_parameters(),
                                                 sparse_as_dense=as_dense)
            rows = [torch.tensor([[rank, 3, 9 - rank]]) for rank in range(self.size)]
            for _ in range(3):
                optimizer.zero_grad()
                model(rows[self.rank]).square().sum().backward()
                optimizer.step()
            plain = torch.optim.SGD(reference.parameters(), lr=0.5)
            for _ in range(3):
                plain.zero_grad()
                (sum(reference(row).square().sum() for row in rows) / self.size).backward()
                plain.step()
            self.close(model.weight.detach(), reference.weight.detach())


class AdasumOption(Ranks):
    def test_ranks_with_equal_batches_step_like_one(self):
        torch.manual_seed(2)
        model = Net()
        reference = copy.deepcopy(model)
        optimizer, plain = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), op=hvd.Adasum), sgd(reference)
        for each, which in ((model, optimizer), (reference, plain)):
            for batch in batches(1):
                which.zero_grad()
                each(batch[0]).square().mean().backward()
                which.step()
        for one, other in zip(model.parameters(), reference.parameters()):
            self.close(one.detach(), other.detach(), 1e-4)
            self.equal_everywhere(one)

    def test_different_batches_leave_ranks_equal(self):
        torch.manual_seed(2)
        model = Net()
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), op=hvd.Adasum)
        for batch in batches(self.size):
            optimizer.zero_grad()
            model(batch[self.rank]).square().mean().backward()
            optimizer.step()
        for each in model.parameters():
            self.equal_everywhere(each)
        with self.assertRaises(AssertionError), optimizer.skip_synchronize():
            pass


class Guards(Ranks):
    def made(self, **options):
        torch.manual_seed(2)
        model = nn.Linear(3, 2)
        return model, hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **options)

    def test_zero_grad_while_gradients_are_on_their_way(self):
        model, optimizer = self.made()
        model(torch.ones(1, 3)).sum().backward()
        with self.assertRaisesRegex(AssertionError, "zero_grad"):
            optimizer.zero_grad()
        optimizer.step()
        optimizer.zero_grad()

    def test_more_backward_passes_than_agreed(self):
        model, optimizer = self.made()
        model(torch.ones(1, 3)).sum().backward()
        with self.assertRaisesRegex(AssertionError, "backward_passes_per_step"):
            model(torch.ones(1, 3)).sum().backward()
        optimizer.step()

    def test_a_second_synchronize_warns(self):
        model, optimizer = self.made()
        model(torch.ones(1, 3)).sum().backward()
        optimizer.synchronize()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.step()
        self.assertIn("skip_synchronize", str(caught[0].message))

    def test_arguments_that_make_no_sense(self):
        model = nn.Linear(3, 2)
        for wrong in ({"named_parameters": [("a", model.weight), ("a", model.bias)]},
                      {"named_parameters": [("a", model.weight)]}, {"named_parameters": [model.weight]},
                      {"gradient_predivide_factor": 2.0, "op": hvd.Sum}, {"num_groups": -1},
                      {"num_groups": 2, "groups": [[model.weight]]}, {"groups": [model.weight]},
                      {"backward_passes_per_step": 0}):
            with self.assertRaises(ValueError, msg=wrong):
                hvd.DistributedOptimizer(sgd(model), **wrong)

    def test_the_state_before_wrapping_and_schedulers_made_before_or_after(self):
        model = nn.Linear(3, 2)
        hvd.broadcast_parameters(model.state_dict(), 0)
        plain = sgd(model)
        model(torch.ones(1, 3)).sum().backward()
        plain.step()
        before = torch.optim.lr_scheduler.StepLR(plain, 1, 0.5)
        optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
        self.assertIn("momentum_buffer", optimizer.state[model.weight])
        after = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        optimizer.step()
        before.step()
        after.step()
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.0125)


if __name__ == "__main__":
    main()
