"""Parameters, optimizer states and normalization across ranks."""

import copy

import torch
from torch import nn

import anello.horovod.torch as hvd
from case import main
from horovod_case import Ranks


class Broadcasts(Ranks):
    def test_parameters_of_each_root(self):
        for root in range(self.size):
            torch.manual_seed(self.rank)
            model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2).double())
            torch.manual_seed(root)
            expected = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2).double())
            hvd.broadcast_parameters(model.state_dict() if root % 2 else model.named_parameters(), root)
            for one, other in zip(model.parameters(), expected.parameters()):
                self.same(one.detach(), other.detach())
        with self.assertRaisesRegex(ValueError, "no tensor but a str"):
            hvd.broadcast_parameters({"x": "text"}, 0)

    def optimizers(self, parameters):
        return [torch.optim.SGD(parameters, lr=0.1 + self.rank, momentum=0.9, nesterov=bool(self.rank == 0)),
                torch.optim.Adam(parameters, lr=0.1 + self.rank, betas=(0.8, 0.9)), torch.optim.RMSprop(parameters),
                torch.optim.Adagrad(parameters, lr=0.1 + self.rank), torch.optim.LBFGS(parameters, lr=0.1 + self.rank)]

    def test_states_of_optimizers(self):
        for kind in range(5):
            for stepped in ((True, True), (True, False), (False, True)):  # the root, and the others
                torch.manual_seed(self.rank)
                model = nn.Linear(3, 2)
                optimizer = self.optimizers(list(model.parameters()))[kind]
                if stepped[0 if self.rank == 0 else 1]:
                    def loss():
                        optimizer.zero_grad()
                        value = model(torch.randn(4, 3)).square().sum()
                        value.backward()
                        return value
                    optimizer.step(loss)
                hvd.broadcast_optimizer_state(optimizer, root_rank=0)
                states = hvd.allgather_object(optimizer.state_dict())
                self.assertEqual(repr(states[self.rank]), repr(states[0]))
                self.assertEqual(optimizer.param_groups[0]["lr"], 0.01 if kind == 2 else 0.1)
                self.assertEqual(bool(optimizer.state_dict()["state"]), stepped[0] or kind == 3)

    def test_a_distributed_optimizer_goes_on_with_it(self):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().sum().backward()
            optimizer.step()
            hvd.broadcast_optimizer_state(optimizer, 0)
        for each in model.parameters():
            self.equal_everywhere(each)


class Normalization(Ranks):
    def both(self, shape, rows=lambda rank: 4, tolerance=1e-5, **options):
        torch.manual_seed(3)
        inputs = [torch.randn(rows(rank), *shape) * (rank + 1) + rank for rank in range(self.size)]
        upstream = [torch.randn(each.shape) for each in inputs]
        kind = {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm2d, 4: nn.BatchNorm3d}[len(shape)]
        plain, ours = kind(shape[0], **options), hvd.SyncBatchNorm(shape[0], **options)
        if plain.affine:
            with torch.no_grad():
                plain.weight.uniform_(0.5, 2)
                plain.bias.uniform_(-1, 1)
        ours.load_state_dict(copy.deepcopy(plain.state_dict()))
        for _ in range(2):
            whole, mine = torch.cat(inputs).requires_grad_(), inputs[self.rank].clone().requires_grad_()
            expected, out = plain(whole), ours(mine)
            expected.backward(torch.cat(upstream))
            out.backward(upstream[self.rank])
            begin = sum(rows(rank) for rank in range(self.rank))
            place = slice(begin, begin + rows(self.rank))
            self.close(out.detach(), expected.detach()[place], tolerance)
            self.close(mine.grad, whole.grad[place], tolerance)
        if plain.affine:
            for one, other in ((ours.weight, plain.weight), (ours.bias, plain.bias)):
                self.close(hvd.allreduce(one.grad, op=hvd.Sum), other.grad, 1e-4)
        if plain.track_running_stats:
            self.close(ours.running_mean, plain.running_mean, tolerance)
            self.close(ours.running_var, plain.running_var, tolerance)
            self.same(ours.num_batches_tracked, plain.num_batches_tracked)
            self.close(ours.eval()(inputs[0]), plain.eval()(inputs[0]), tolerance)

    def test_against_one_process_that_sees_all_batches(self):
        self.both((3,))
        self.both((3, 5))
        self.both((3, 5, 6))
        self.both((2, 3, 4, 2))

    def test_batches_of_different_sizes(self):
        self.both((3, 4), rows=lambda rank: rank + 1)
        self.both((3,), rows=lambda rank: 5 * rank)

    def test_options(self):
        self.both((3, 2), affine=False)
        self.both((3, 2), momentum=None)
        self.both((3, 2), momentum=0.3, eps=1e-2)
        self.both((3, 2), track_running_stats=False)

    def test_inputs_of_one_dimension(self):
        with self.assertRaises(ValueError):
            hvd.SyncBatchNorm(3)(torch.ones(3))


if __name__ == "__main__":
    main()
