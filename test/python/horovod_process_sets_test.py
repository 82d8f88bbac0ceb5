"""Process sets: static ones, dynamic ones, and what ranks outside may not do."""

import os
import unittest

import torch

import anello.horovod.torch as hvd
from case import main
from horovod_case import Ranks, of

EVEN, LAST = hvd.ProcessSet(range(0, int(os.environ["WORLD_SIZE"]),
                                  2)), hvd.ProcessSet([int(os.environ["WORLD_SIZE"]) - 1])


class Static(Ranks):
    process_sets = [EVEN, LAST]

    def test_what_they_say_of_themselves(self):
        self.assertEqual((EVEN.process_set_id, LAST.process_set_id), (1, 2))
        self.assertEqual(EVEN.size(), (self.size + 1) // 2)
        self.assertEqual(EVEN.included(), self.rank % 2 == 0)
        self.assertEqual(EVEN.rank(), self.rank // 2 if self.rank % 2 == 0 else -1)
        self.assertEqual(hvd.global_process_set.ranks, list(range(self.size)))
        self.assertEqual(hvd.get_process_set_ids_and_ranks(), {0: list(range(self.size)), 1: EVEN.ranks, 2: LAST.ranks})

    def test_operations_inside(self):
        if not EVEN.included():
            with self.assertRaisesRegex(ValueError, f"rank {self.rank} is not in process set"):
                hvd.allreduce(torch.ones(1), process_set=EVEN)
            return
        parts = [of(rank, (4,)) for rank in EVEN.ranks]
        self.same(hvd.allreduce(of(self.rank, (4,)), op=hvd.Sum, name="x", process_set=EVEN), sum(parts))
        self.close(hvd.allreduce(of(self.rank, (4,)), name="x", process_set=EVEN), sum(parts) / len(parts))
        self.same(hvd.allgather(of(self.rank, (4,)), process_set=EVEN), torch.cat(parts))
        self.same(hvd.broadcast(of(self.rank, (4,)), EVEN.ranks[-1], process_set=EVEN), parts[-1])
        self.same(hvd.alltoall(torch.full((len(parts),), float(self.rank)), process_set=EVEN),
                  torch.tensor(EVEN.ranks).float())
        self.same(hvd.reducescatter(torch.ones(len(parts)), op=hvd.Sum, process_set=EVEN),
                  torch.tensor([float(len(parts))]))
        self.assertEqual(hvd.broadcast_object(self.rank, EVEN.ranks[-1], process_set=EVEN), EVEN.ranks[-1])
        self.assertEqual(hvd.allgather_object(self.rank, process_set=EVEN), EVEN.ranks)
        hvd.barrier(EVEN)
        with self.assertRaisesRegex(ValueError, "root_rank 1 is not one of the ranks"):
            hvd.broadcast(torch.ones(1), 1, process_set=EVEN)

    def test_errors_name_the_ranks_of_the_job(self):
        if len(EVEN.ranks) > 1 and EVEN.included():
            with self.assertRaisesRegex(RuntimeError, "rank 0 submitted .* rank 2 submitted"):
                hvd.allreduce(torch.ones(1 + self.rank), name="shape", process_set=EVEN)

    def test_sets_beside_each_other_and_the_same_name_in_each(self):
        handles = [hvd.allreduce_async(torch.ones(3), name="same", op=hvd.Sum)]
        if EVEN.included():
            handles.insert(0, hvd.allreduce_async(torch.ones(3), name="same", op=hvd.Sum, process_set=EVEN))
        if LAST.included():
            handles.insert(0, hvd.allreduce_async(torch.ones(3), name="same", op=hvd.Sum, process_set=LAST))
        sums = [hvd.synchronize(handle)[0].item() for handle in handles]
        expected = [1] * LAST.included() + [len(EVEN.ranks)] * EVEN.included() + [self.size]
        self.assertEqual(sums, expected)

    def test_an_optimizer_of_a_set_leaves_the_others_alone(self):
        torch.manual_seed(1)
        model = torch.nn.Linear(2, 1)
        before = model.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                             process_set=EVEN)
        model(torch.full((1, 2), float(self.rank))).sum().backward()
        optimizer.step()
        mean = sum(EVEN.ranks) / len(EVEN.ranks) if EVEN.included() else self.rank
        self.close(model.weight.detach(), before - 0.1 * mean)

    def test_sets_that_cannot_be(self):
        for wrong in ([0, 0], [-1]):
            with self.assertRaises(ValueError):
                hvd.ProcessSet(wrong)
        with self.assertRaisesRegex(ValueError, "HOROVOD_DYNAMIC_PROCESS_SETS"):
            hvd.add_process_set([0])
        with self.assertRaisesRegex(ValueError, "not registered"):
            hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0]))


class Dynamic(Ranks):
    process_sets = "dynamic"

    def test_adding_and_removing(self):
        for _ in range(3):
            made = hvd.add_process_set(range(1, self.size))
            self.assertIsInstance(made, hvd.ProcessSet)
            if made.included():
                self.same(hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=made), torch.full((2,), self.size - 1.0))
            self.assertTrue(hvd.remove_process_set(made))
            self.assertIsNone(made.process_set_id)
            self.assertFalse(hvd.remove_process_set(made))
        self.assertFalse(hvd.remove_process_set(hvd.global_process_set))

    def test_sets_that_differ_between_ranks(self):
        with self.assertRaisesRegex(RuntimeError, "named"):
            hvd.add_process_set([self.rank])
        with self.assertRaisesRegex(ValueError, f"names rank {self.size}"):
            hvd.add_process_set([0, self.size])
        with self.assertRaisesRegex(ValueError, "already registered"):
            hvd.add_process_set(range(self.size))


class ByVariable(Dynamic):
    process_sets, environment = None, {"HOROVOD_DYNAMIC_PROCESS_SETS": "1"}


class SomeRanks(unittest.TestCase):
    def test_init_with_some_of_the_ranks(self):
        ranks = [int(os.environ["WORLD_SIZE"]) - 1]
        if int(os.environ["RANK"]) in ranks:
            hvd.init(comm=ranks)
            self.assertEqual((hvd.rank(), hvd.size()), (0, 1))
            hvd.shutdown()
        else:
            with self.assertRaisesRegex(ValueError, "leaves it out"):
                hvd.init(comm=ranks)
        with self.assertRaisesRegex(ValueError, "a list of ranks or one communicator"):
            hvd.init(comm=object())
        with self.assertRaisesRegex(ValueError, "hvd.init"):
            hvd.rank()


if __name__ == "__main__":
    main()
