"""apex.parallel.SyncBatchNorm, against one process's batch norm of the whole batch."""

import copy

import torch
import torch.distributed as dist
from torch import nn

from apex.parallel import DistributedDataParallel, SyncBatchNorm, convert_syncbn_model, create_syncbn_process_group
from case import Ranks, main


class WholeBatch(Ranks):
    def parts(self, shape, size):
        """A rank's part of a batch, of another size on each rank."""
        torch.manual_seed(3)
        return [torch.randn(2 + 3 * rank, *shape) * 2 + 5 for rank in range(size)]

    def compare(self, ours, theirs, parts, at, steps=3, dtype=torch.float32):
        """Steps of `ours` on this rank's part and of `theirs` on all have equal outputs, gradients and statistics."""
        tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 3e-2, "atol": 3e-2}
        for _ in range(steps):
            whole = torch.cat(parts).requires_grad_()
            mine = parts[at].to(dtype, copy=True).requires_grad_()
            out, expected = ours(mine), theirs(whole)
            begin = sum(len(each) for each in parts[:at])
            chosen = slice(begin, begin + len(mine))
            self.assertEqual(out.dtype, dtype)
            torch.testing.assert_close(out.float(), expected[chosen], **tolerance)
            (out.float() ** 3).sum().backward()
            (expected ** 3).sum().backward()
            torch.testing.assert_close(mine.grad.float(), whole.grad[chosen], rtol=10 * tolerance["rtol"],
                                       atol=10 * tolerance["atol"])
        if dtype == torch.float32 and ours.affine:
            group = ours.process_group
            for one, other in zip(ours.parameters(), theirs.parameters()):
                dist.all_reduce(one.grad, group=group)
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-2)
        if ours.track_running_stats:
            torch.testing.assert_close(ours.running_mean, theirs.running_mean, **tolerance)
            torch.testing.assert_close(ours.running_var, theirs.running_var, **tolerance)
            self.assertEqual(ours.num_batches_tracked, theirs.num_batches_tracked)
            ours.eval()
            theirs.eval()
            torch.testing.assert_close(ours(parts[at].to(dtype)).float(), theirs(parts[at]), **tolerance)

    def test_forward_backward_and_running_statistics(self):
        for shape, whole in (((6,), nn.BatchNorm1d), ((6, 3), nn.BatchNorm1d), ((6, 3, 4), nn.BatchNorm2d),
                             ((6, 2, 3, 2), nn.BatchNorm3d)):
            for options in ({}, {"momentum": None}, {"momentum": 0.3, "eps": 1e-2}, {"affine": False},
                            {"track_running_stats": False}):
                with self.subTest(shape=shape, **options):
                    ours, theirs = SyncBatchNorm(6, **options), whole(6, **options)
                    if theirs.affine:
                        nn.init.uniform_(theirs.weight)
                        nn.init.uniform_(theirs.bias)
                    ours.load_state_dict(theirs.state_dict())
                    self.compare(ours, theirs, self.parts(shape, self.size), self.rank)

    def test_inputs_of_16_bits_with_parameters_of_32(self):
        parts = self.parts((6, 3, 4), self.size)
        self.compare(SyncBatchNorm(6), nn.BatchNorm2d(6), parts, self.rank, dtype=torch.bfloat16)

    def test_a_small_variance_far_from_zero(self):
        parts = [each + 1000 for each in self.parts((6,), self.size)]
        ours, theirs = SyncBatchNorm(6), nn.BatchNorm1d(6).double()
        torch.testing.assert_close(ours(parts[self.rank]).double(),
                                   theirs(torch.cat(parts).double()).split([len(each) for each in parts])[self.rank],
                                   rtol=1e-2, atol=1e-3)

    def test_channels_last_a_residual_and_relu(self):
        parts = self.parts((6, 3, 4), self.size)
        ours, theirs = SyncBatchNorm(6, channel_last=True, fuse_relu=True), nn.BatchNorm2d(6)
        residual = torch.randn(3, 4, 6)
        out = ours(parts[self.rank].movedim(1, -1), residual)
        expected = theirs(torch.cat(parts)).movedim(1, -1) + residual
        self.close(out, torch.relu(expected).split([len(each) for each in parts])[self.rank])

    def test_a_rank_without_rows(self):
        parts = self.parts((6,), self.size)
        parts[0] = parts[0][:0]
        self.compare(SyncBatchNorm(6), nn.BatchNorm1d(6), parts, self.rank)

    def test_groups(self):
        for size in (size for size in (1, 2, self.size) if self.size % size == 0):
            with self.subTest(size=size):
                group = create_syncbn_process_group(size)
                self.assertEqual(dist.get_world_size(group), size)
                first = self.rank // size * size
                self.assertEqual(dist.get_process_group_ranks(group), list(range(first, first + size)))
                parts = self.parts((6,), self.size)[first:first + size]
                self.compare(SyncBatchNorm(6, process_group=group), nn.BatchNorm1d(6), parts, self.rank - first)
        self.assertIsNone(create_syncbn_process_group(0))
        with self.assertRaisesRegex(ValueError, "groups of 3"):
            create_syncbn_process_group(3)

    def test_inputs_that_are_refused(self):
        with self.assertRaisesRegex(ValueError, "at least 2 dimensions"):
            SyncBatchNorm(6)(torch.ones(6))
        with self.assertRaisesRegex(ValueError, "are empty"):
            SyncBatchNorm(6)(torch.ones(0, 6))


class Conversion(Ranks):
    def test_a_model_keeps_its_parameters_and_statistics(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, eps=1e-3, momentum=0.2), nn.ReLU())
                self.other, self.last = nn.InstanceNorm2d(4), nn.BatchNorm1d(4, affine=False)

            def forward(self, x):
                return self.last(self.other(self.block(x)).mean((2, 3)))

        net = Net().eval()
        before, state = net(torch.ones(2, 3, 2, 2)), net.state_dict()
        weight, mean = net.block[1].weight, net.block[1].running_mean
        group = create_syncbn_process_group(self.size)
        converted = convert_syncbn_model(net, process_group=group, channel_last=False)
        norm = converted.block[1]
        self.assertEqual([type(each) for each in (norm, converted.other, converted.last)],
                         [SyncBatchNorm, nn.InstanceNorm2d, SyncBatchNorm])
        self.assertEqual((norm.eps, norm.momentum, norm.training, norm.process_group), (1e-3, 0.2, False, group))
        self.assertIs(norm.weight, weight)
        self.assertIs(norm.running_mean, mean)
        self.assertEqual(list(converted.state_dict()), list(state))
        self.close(converted(torch.ones(2, 3, 2, 2)), before)
        self.assertIsInstance(convert_syncbn_model(nn.BatchNorm1d(3)), SyncBatchNorm)

    def test_training_under_ddp_is_that_of_one_process(self):
        torch.manual_seed(3)
        whole = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
        model = DistributedDataParallel(convert_syncbn_model(copy.deepcopy(whole)))
        ours, theirs = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, whole))
        for _ in range(4):
            x = torch.randn(self.size, 8, 5)
            for net, optimizer, rows in ((model, ours, x[self.rank]), (whole, theirs, x.flatten(0, 1))):
                optimizer.zero_grad()
                (net(rows) - 1).square().mean().backward()
                optimizer.step()
        for one, other in zip(model.module.state_dict().values(), whole.state_dict().values()):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    main()
