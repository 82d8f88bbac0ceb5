"""Tensors match by name, in whatever order ranks submit them; what does not match is an error that says so."""

import contextlib
import io
import json
import os
import random
import sys
import unittest

import torch

import anello.horovod.torch as hvd
from case import SCRATCH, main
from horovod_case import Ranks, of


class Orders(Ranks):
    environment = {"HOROVOD_FUSION_THRESHOLD": "3000"}

    def orders(self, names, rounds):
        for number in range(rounds):
            mine = list(names)
            random.Random(number * 100 + self.rank).shuffle(mine)
            yield mine

    def test_each_rank_submits_in_an_order_of_its_own(self):
        names = [f"tensor {number}" for number in range(40)]
        for mine in self.orders(names, 12):
            handles = {name: hvd.allreduce_async(torch.full((int(name[7:]) * 9 + 1,), self.rank + float(name[7:])),
                                                 name=name, op=hvd.Sum) for name in mine}
            for name in names:
                number = int(name[7:])
                total = sum(rank + number for rank in range(self.size))
                self.same(hvd.synchronize(handles[name]), torch.full((number * 9 + 1,), float(total)))

    def test_kinds_do_not_mix(self):
        for mine in self.orders(["sum", "gather", "root", "scatter"], 6):
            made = {}
            for kind in mine:
                made[kind] = {"sum": lambda: hvd.allreduce_async(of(self.rank, (3,)), name="x", op=hvd.Sum),
                              "gather": lambda: hvd.allgather_async(of(self.rank, (self.rank, 2)), name="x"),
                              "root": lambda: hvd.broadcast_async(of(self.rank, (4,)), 1, name="x"),
                              "scatter": lambda: hvd.reducescatter_async(of(self.rank, (self.size,)), name="x",
                                                                         op=hvd.Sum)}[kind]()
            self.same(hvd.synchronize(made["sum"]), sum(of(rank, (3,)) for rank in range(self.size)))
            self.same(hvd.synchronize(made["gather"]), torch.cat([of(rank, (rank, 2)) for rank in range(self.size)]))
            self.same(hvd.synchronize(made["root"]), of(1, (4,)))
            self.same(hvd.synchronize(made["scatter"]),
                      sum(of(rank, (self.size,)) for rank in range(self.size))[self.rank:self.rank + 1])

    def test_a_name_may_have_another_shape_each_time(self):
        for number in (3, 3, 3, 5, 5, 7, 3):
            self.same(hvd.allreduce(torch.full((number,), 1.0), name="changes", op=hvd.Sum),
                      torch.full((number,), float(self.size)))


class SmallCache(Orders):
    environment = {"HOROVOD_CACHE_CAPACITY": "7"}


class NoCache(Orders):
    environment = {"HOROVOD_CACHE_CAPACITY": "0"}


class Mismatches(Ranks):
    def refused(self, pattern, call):
        for _ in range(3):  # also where some of the ranks' requests are cached
            with self.assertRaisesRegex(RuntimeError, pattern) as caught:
                call()
            self.assertNotIsInstance(caught.exception, hvd.HorovodInternalError)
            self.same(hvd.allreduce(torch.ones(2), name="between", op=hvd.Sum), torch.full((2,), float(self.size)))

    def test_shapes(self):
        hvd.allreduce(torch.ones(3), name="shape")
        hvd.allreduce(torch.ones(3), name="shape")
        last = self.size - 1
        self.refused(rf"'shape'.* rank 0 .*float32\[3\].* rank {last} .*float32\[4\]",
                     lambda: hvd.allreduce(torch.ones(4 if self.rank == last else 3), name="shape"))

    def test_types(self):
        self.refused(r"'type'.* rank 0 .*float32\[2\].* rank 1 .*float64\[2\]",
                     lambda: hvd.allreduce(torch.ones(2, dtype=torch.float64 if self.rank == 1 else torch.float32),
                                           name="type"))

    def test_reductions_and_factors(self):
        self.refused("'op'.* op sum.* op max",
                     lambda: hvd.allreduce(torch.ones(2), name="op", op=hvd.Max if self.rank == 1 else hvd.Sum))
        self.refused("'factor'.*scaled", lambda: hvd.allreduce(torch.ones(2), name="factor",
                                                              prescale_factor=1.0 + self.rank))

    def test_roots(self):
        self.refused("'root'.* root 0.* root 1", lambda: hvd.broadcast(torch.ones(2), min(self.rank, 1), name="root"))

    def test_rows_of_allgather_may_differ_but_nothing_else(self):
        self.refused(r"'rows'.*float32\[2, 3\].*float32\[2, 4\]",
                     lambda: hvd.allgather(torch.ones(2, 4 if self.rank else 3), name="rows"))

    def test_groups_of_different_lengths(self):
        self.refused("'group'", lambda: hvd.grouped_allreduce([torch.ones(2)] * (2 + (self.rank == 1)), name="group"))

    def test_types_that_cannot_be_reduced_are_refused_before_anything_is_sent(self):
        with self.assertRaises((TypeError, RuntimeError)):
            hvd.allreduce(torch.ones(2, dtype=torch.complex64), op=hvd.Max)
        self.same(hvd.allreduce(torch.ones(2), op=hvd.Sum), torch.full((2,), float(self.size)))


class Duplicates(Ranks):
    def test_a_name_that_is_under_way_is_a_value_error(self):
        first = hvd.allreduce_async(torch.ones(2), name="twice", op=hvd.Sum) if self.rank == 0 else None
        if self.rank == 0:
            with self.assertRaisesRegex(ValueError, "rank 0.*still under way"):
                hvd.allreduce_async(torch.ones(2), name="twice", op=hvd.Sum)
        hvd.barrier()  # until then no other rank has submitted it
        if self.rank != 0:
            first = hvd.allreduce_async(torch.ones(2), name="twice", op=hvd.Sum)
        self.same(hvd.synchronize(first), torch.full((2,), float(self.size)))


class Stalls(Ranks):
    environment = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.2"}

    def test_ranks_that_do_not_submit_are_named(self):
        said, ordinary = io.StringIO(), sys.stderr
        with contextlib.redirect_stderr(said if self.rank == 0 else ordinary):
            handle = hvd.allreduce_async(torch.ones(1), name="late", op=hvd.Sum) if self.rank == 0 else None
            if self.rank == 0:
                while "'late' has waited" not in said.getvalue():  # the others' barrier may also wait for this rank
                    hvd.poll(handle)
        hvd.barrier()
        if self.rank != 0:
            handle = hvd.allreduce_async(torch.ones(1), name="late", op=hvd.Sum)
        self.same(hvd.synchronize(handle), torch.full((1,), float(self.size)))
        if self.rank == 0:
            others = ", ".join(str(rank) for rank in range(1, self.size))
            self.assertRegex(said.getvalue(), f"'late' has waited .* for ranks {others},")


class StallsWithAnEnd(Ranks):
    environment = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0.3"}

    @classmethod
    def tearDownClass(cls):
        hvd.shutdown()
        for name in cls.environment:
            del os.environ[name]

    def test_all_ranks_get_an_error_that_names_those_missing(self):
        with self.assertRaisesRegex(hvd.HorovodInternalError, "'never' for ranks 1"):
            if self.rank == 0:
                hvd.allreduce(torch.ones(1), name="never")
            else:
                hvd.allreduce(torch.ones(1), name="other")


class Joins(Ranks):
    def test_uneven_numbers_of_batches(self):
        for repeated in range(3):
            for number in range(self.rank * 2 + 1):
                there = [rank for rank in range(self.size) if rank * 2 + 1 > number]
                out = hvd.allreduce(torch.full((5,), float(self.rank + 1)), name="batch", op=hvd.Sum)
                self.same(out, torch.full((5,), float(sum(rank + 1 for rank in there))))
                mean = hvd.allreduce(torch.full((70000,), float(self.rank + 1)), name="mean")
                self.close(mean, torch.full((70000,), sum(rank + 1 for rank in there) / self.size))
                rows = hvd.allgather(torch.full((self.rank + 1, 2), float(self.rank)), name="rows")
                self.same(rows, torch.cat([torch.full((rank + 1, 2), float(rank)) for rank in there]))
                self.same(hvd.broadcast(torch.tensor([self.rank]), self.size - 1, name="root"),
                          torch.tensor([self.size - 1]))
                group = hvd.grouped_allreduce([torch.ones(2), torch.ones(3)], name="group", op=hvd.Sum)
                self.same(group[1], torch.full((3,), float(len(there))))
            last = hvd.join()
            self.assertEqual(last, self.size - 1)

    def test_what_has_no_meaning_beside_join(self):
        if self.rank:
            with self.assertRaisesRegex(RuntimeError, "beside join, which rank 0"):
                hvd.allreduce(torch.ones(2), name="max", op=hvd.Max)
            with self.assertRaisesRegex(RuntimeError, "root, rank 0"):
                hvd.broadcast(torch.ones(2), 0, name="from one that joined")
        hvd.join()

    def test_an_optimizer(self):
        model = torch.nn.Linear(3, 2)
        hvd.broadcast_parameters(model.state_dict(), 0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for _ in range(self.rank + 1):
            optimizer.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
        self.assertEqual(hvd.join(), self.size - 1)
        hvd.broadcast_parameters(model.state_dict(), self.size - 1)
        for each in model.parameters():
            self.equal_everywhere(each)


class Timelines(Ranks):
    def test_the_file_is_a_chrome_trace(self):
        path = SCRATCH / "timeline.json"
        hvd.start_timeline(str(path), mark_cycles=True)
        for _ in range(3):
            handles = [hvd.allreduce_async(torch.ones(10), name=f"t{number}") for number in range(3)]
            for handle in handles:
                hvd.synchronize(handle)
        hvd.broadcast(torch.ones(2), 0, name="b")
        hvd.stop_timeline()
        if self.rank == 0:
            events = json.loads(path.read_text())
            names = {each["name"] for each in events}
            self.assertLessEqual({"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "MEMCPY_IN_FUSION_BUFFER", "BROADCAST",
                                  "CYCLE_START", "thread_name"}, names)
            for each in events:
                self.assertGreaterEqual(each.get("dur", 0), 0)
            self.assertEqual({each["args"]["name"] for each in events if each["ph"] == "M"}, {"t0", "t1", "t2", "b"})


class TimelineOfTheEnvironment(unittest.TestCase):
    def test_it_is_complete_after_shutdown(self):
        path = SCRATCH / "from_the_environment.json"
        os.environ["HOROVOD_TIMELINE"] = str(path)
        hvd.init()
        hvd.allreduce(torch.ones(1), name="one")
        rank = hvd.rank()
        hvd.shutdown()
        del os.environ["HOROVOD_TIMELINE"]
        if rank == 0:
            self.assertIn("ALLREDUCE", {each["name"] for each in json.loads(path.read_text())})


if __name__ == "__main__":
    main()
