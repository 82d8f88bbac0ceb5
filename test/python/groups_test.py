"""Groups: subgroups, their ends, timeouts, and what PyTorch asks of a group."""

import os
import threading
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

from anello.torch import meeting
from case import SCRATCH, TIMEOUT, Ranks, leave, main


class Subgroups(Ranks):
    def test_a_group_of_all_and_groups_of_one(self):
        everybody = dist.new_group()
        alone = [dist.new_group([rank]) for rank in range(self.size)]
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=everybody)
        dist.all_reduce(tensor, group=alone[self.rank])
        self.assertEqual(tensor.item(), self.size)
        self.assertEqual(dist.get_world_size(alone[self.rank]), 1)
        other = alone[(self.rank + 1) % self.size]
        self.assertEqual(dist.get_rank(other), -1)

    def test_ranks_of_a_subgroup_are_counted_in_it_and_roots_are_global(self):
        members = list(range(1, self.size))
        group = dist.new_group(members)
        if self.rank in members:
            self.assertEqual(dist.get_rank(group), self.rank - 1)
            tensor = torch.tensor([float(self.rank)])
            dist.broadcast(tensor, src=members[-1], group=group)
            self.assertEqual(tensor.item(), members[-1])
            dist.all_reduce(tensor, group=group)
            self.assertEqual(tensor.item(), members[-1] * len(members))
        dist.barrier()

    def test_subgroups_are_made_of_their_parents_communicator(self):
        meet, meeting.over_store = meeting.over_store, None
        try:
            groups = [dist.new_group(), dist.new_group([self.size - 1]), dist.new_group(use_local_synchronization=True)]
            mine, _ = dist.new_subgroups(1)
        finally:
            meeting.over_store = meet
        for group in (groups[0], groups[2], mine):
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            self.assertEqual(tensor.item(), dist.get_world_size(group))

    def test_subgroups_made_by_members_alone(self):
        half = [rank for rank in range(self.size) if rank % 2 == self.rank % 2]
        group = dist.new_group(half, use_local_synchronization=True)
        tensor = torch.tensor([float(self.rank)])
        dist.all_reduce(tensor, group=group)
        self.assertEqual(tensor.item(), sum(half))
        mine, _ = dist.new_subgroups(1)
        dist.barrier(group=mine)

    def test_a_subgroup_is_destroyed_alone(self):
        group = dist.new_group()
        dist.all_reduce(torch.ones(1), group=group)
        dist.destroy_process_group(group)
        dist.barrier()

    def test_work_still_open_when_its_group_is_destroyed_says_so(self):
        group = dist.new_group()
        peer = (self.rank + 1) % self.size
        work = dist.irecv(torch.zeros(1), src=peer, group=group)  # nobody sends it
        dist.destroy_process_group(group)
        with self.assertRaisesRegex(RuntimeError, r"recv.*communicator was destroyed.*ANELLO_ERR_STATE"):
            work.wait()

    def test_a_group_of_gloo_can_stand_beside(self):
        group = dist.new_group(backend="gloo")
        self.assertEqual(dist.get_backend(group), "gloo")
        self.assertNotIsInstance(group, type(dist.group.WORLD))
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=group)
        self.assertEqual(tensor.item(), self.size)
        dist.destroy_process_group(group)

    def test_threads_use_groups_of_their_own_at_once(self):
        groups = [dist.new_group() for _ in range(3)]
        failures = []

        def work(group):
            try:
                for i in range(50):
                    tensor = torch.full((10,), float(i))
                    dist.all_reduce(tensor, group=group)
                    assert tensor[0].item() == i * self.size
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(group,)) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual(failures, [])

    def test_a_second_thread_of_the_same_group_takes_its_turn(self):
        tensors = [torch.ones(3) for _ in range(20)]
        for i, tensor in enumerate(tensors):
            if i % 2:
                thread = threading.Thread(target=dist.all_reduce, args=(tensor,))
                thread.start()
                thread.join(20)
            else:
                dist.all_reduce(tensor)
        for tensor in tensors:
            self.same(tensor, torch.full((3,), float(self.size)))

    def test_threads_use_one_group_at_once(self):
        # Which of them is first differs from rank to rank, so both start the same: whichever meet make a sum.
        wrong = []

        def work(asynchronous):
            try:
                for _ in range(100):
                    tensor = torch.ones(50)
                    work = dist.all_reduce(tensor, async_op=asynchronous)
                    if asynchronous:
                        work.get_future().wait()
                    if not tensor.eq(self.size).all():
                        wrong.append(tensor)
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(asynchronous,)) for asynchronous in (False, True) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(wrong, [])
        dist.barrier()

    def test_what_pytorch_asks_of_a_group(self):
        group = dist.group.WORLD
        self.assertEqual(dist.get_backend(), "anello")
        self.assertEqual(group.name(), "anello")
        self.assertEqual(group.group_name, group.getGroupName())
        self.assertEqual(group._device_types, [torch.device("cpu")])
        self.assertEqual((group.rank(), group.size()), (self.rank, self.size))
        with self.assertRaises(RuntimeError):
            group._get_backend(torch.device("meta"))

    def test_many_asynchronous_operations_also_those_whose_work_is_dropped(self):
        tensors = [torch.full((1000,), float(i)) for i in range(100)]
        for tensor in tensors:
            dist.all_reduce(tensor, async_op=True)  # nobody holds the work
        strided = torch.ones(100)[::2]
        dist.all_reduce(strided, async_op=True)
        dist.barrier()
        end = time.monotonic() + 10
        while strided[0].item() != self.size and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(strided[0].item(), self.size)
        for i, tensor in enumerate(tensors):
            self.assertEqual(tensor[-1].item(), i * self.size)


class Futures(Ranks):
    def test_a_future_has_the_tensors_and_runs_callbacks(self):
        tensor = torch.ones(3)
        work = dist.all_reduce(tensor, async_op=True)
        future = work.get_future()
        self.assertIs(work.get_future(), future)
        self.same(future.then(lambda done: done.value()[0] + 1).wait(), torch.full((3,), self.size + 1.0))
        self.assertTrue(work.is_success())
        self.same(work.result()[0], tensor)

    def test_a_callback_may_wait_for_another_collective(self):
        tensor = torch.ones(3)

        def again(future):
            return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]

        future = dist.all_reduce(tensor, async_op=True).get_future().then(again)
        self.same(future.wait(), torch.full((3,), float(self.size**2)))

    def test_waiting_and_future_of_one_operation_together(self):
        for _ in range(200):
            tensor = torch.ones(3)
            work = dist.all_reduce(tensor, async_op=True)
            future = work.get_future()
            work.wait()
            self.assertEqual(tensor[0].item(), self.size)
            future.wait()

    def test_futures_of_several_groups_come_as_they_complete(self):
        first, second = dist.new_group(), dist.new_group()
        tensors = [torch.ones(2) for _ in range(2)]
        if self.rank == 0:
            late = dist.all_reduce(tensors[0], group=first, async_op=True).get_future()
            early = dist.all_reduce(tensors[1], group=second, async_op=True).get_future()
        else:  # the other order: whoever waited for one group alone would wait for ever
            early = dist.all_reduce(tensors[1], group=second, async_op=True).get_future()
            early.wait()
            late = dist.all_reduce(tensors[0], group=first, async_op=True).get_future()
        early.wait()
        late.wait()
        self.same(tensors[0], tensors[1])


    def test_old_style_coalescing_waits_for_what_was_started_inside(self):
        tensors = [torch.full((3,), float(self.rank)) for _ in range(2)]
        dist.barrier()
        if self.rank == self.size - 1:
            time.sleep(0.2)  # who does not wait for the root would not have its data
        with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
            for tensor in tensors:
                dist.broadcast(tensor, self.size - 1, async_op=True)
        manager.wait()
        self.assertEqual([tensor[0].item() for tensor in tensors], [self.size - 1.0] * 2)


class AgainAndAgain(unittest.TestCase):
    """Groups made, destroyed and made again, by each way to meet."""

    def three_times(self, **how):
        for i in range(3):
            dist.init_process_group("anello", timeout=TIMEOUT, **how)
            tensor = torch.full((2,), float(i))
            dist.all_reduce(tensor)
            self.assertEqual(tensor[0].item(), i * dist.get_world_size())
            group = dist.new_group()
            dist.barrier(group=group)
            leave()

    def test_env(self):
        self.three_times()

    def test_file(self):
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.three_times(init_method=f"file://{SCRATCH}/meeting", rank=rank, world_size=size)

    def test_tcp(self):
        port = int(os.environ["MASTER_PORT"])
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.three_times(init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)

    def test_one_store_for_all_of_them(self):
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.three_times(store=dist.FileStore(f"{SCRATCH}/store", size), rank=rank, world_size=size)

    def test_device_and_backend_in_one_string(self):
        dist.init_process_group("cpu:anello", timeout=TIMEOUT)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        self.assertEqual(tensor.item(), dist.get_world_size())
        leave()


class Timeouts(unittest.TestCase):
    def late(self, act, seconds):
        begin = time.monotonic()
        with self.assertRaisesRegex(RuntimeError, "TIMEOUT|rank"):
            act()
        self.assertLess(time.monotonic() - begin, seconds)

    def setUp(self):
        dist.init_process_group("anello", timeout=TIMEOUT)
        self.store = dist.distributed_c10d._get_default_store()

    def tearDown(self):
        self.store = None  # or rank 0 goes on to serve it, and the others would meet there again
        leave()

    def wait_for_others(self, name):
        """Without the backend, whose groups have failed by now."""
        self.store.set(f"{name}{dist.get_rank()}", "done")
        self.store.wait([f"{name}{rank}" for rank in range(dist.get_world_size())], TIMEOUT)

    def test_of_a_group(self):
        group = dist.new_group(timeout=timedelta(seconds=0.5))
        if dist.get_rank() == 0:
            self.late(lambda: dist.all_reduce(torch.ones(1), group=group), 10)
        self.wait_for_others("group")
        dist.barrier()  # other groups go on

    def test_of_one_call(self):
        if dist.get_rank() == 0:
            self.late(lambda: dist.barrier(timeout=timedelta(seconds=0.5)), 10)
            self.late(lambda: dist.all_reduce(torch.ones(1)), 10)  # and then the group has failed
        self.wait_for_others("call")

    def test_in_the_options_of_each_kind_of_collective(self):
        def with_timeout(options):
            options.timeout = timedelta(seconds=0.3)
            return options

        one, size = torch.ones(1), dist.get_world_size()
        many = torch.ones(size)
        calls = {
            "allreduce": lambda group: group.allreduce([one], with_timeout(dist.AllreduceOptions())),
            "broadcast": lambda group: group.broadcast([one], with_timeout(dist.BroadcastOptions())),
            "reduce": lambda group: group.reduce([one], with_timeout(dist.ReduceOptions())),
            "allgather": lambda group: group.all_gather_single(many, one, with_timeout(dist.distributed_c10d.AllgatherOptions())),
            "scatter": lambda group: group.reduce_scatter_single(one, many, with_timeout(dist.ReduceScatterOptions())),
            "alltoall": lambda group: group.all_to_all_single(many, many.clone(), [], [], with_timeout(dist.AllToAllOptions())),
        }
        for name, call in calls.items():
            with self.subTest(name):
                group = dist.new_group()
                # Not the root of the broadcast, which only gives and need not wait.
                if dist.get_rank() == (1 if name == "broadcast" else 0):
                    self.late(lambda: call(group).wait(), 10)
                self.wait_for_others(name)

    def test_of_waiting_for_the_others_to_come(self):
        if dist.get_rank() == 0:
            store = dist.PrefixStore("nobody", self.store)
            begin = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, "RENDEZVOUS"):
                meeting.over_store(store, 0, 2, timedelta(seconds=0.5))
            self.assertLess(time.monotonic() - begin, 10)
        self.wait_for_others("meeting")


if __name__ == "__main__":
    main()
