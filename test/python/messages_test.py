"""Messages of torch.distributed, objects, and the monitored barrier."""

import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from case import Ranks, input_of, main, needs_numpy


class Messages(Ranks):
    def other(self):
        return (self.rank + 1) % self.size, (self.rank - 1) % self.size

    def test_send_and_recv_of_types_and_layouts(self):
        following, before = self.other()
        for dtype in (torch.float32, torch.bool, torch.bfloat16, torch.complex64, torch.float8_e4m3fnuz, torch.int64):
            for shape in ((), (0,), (4, 6)):
                mine = input_of(self.rank, shape, torch.float32).to(dtype) if not dtype.is_complex else input_of(
                    self.rank, shape, dtype)
                came = torch.zeros(shape, dtype=dtype)
                if len(shape) == 2:
                    mine, came = mine.t(), torch.zeros(shape, dtype=dtype).t()
                sent = dist.isend(mine, following, tag=3)
                self.assertEqual(dist.recv(came, before, tag=3), before)
                sent.wait()
                theirs = input_of(before, shape, torch.float32).to(dtype) if not dtype.is_complex else input_of(
                    before, shape, dtype)
                theirs = theirs.t() if len(shape) == 2 else theirs
                self.same(came.contiguous().reshape(-1).view(torch.uint8), theirs.contiguous().reshape(-1).view(torch.uint8))

    def test_tags_tell_messages_apart(self):
        following, before = self.other()
        sends = [dist.isend(torch.tensor([float(tag)]), following, tag=tag) for tag in (1, 2)]
        for tag in (2, 1):
            came = torch.zeros(1)
            dist.irecv(came, before, tag=tag).wait()
            self.assertEqual(came.item(), tag)
        for send in sends:
            send.wait()

    def test_recv_from_any_rank_tells_from_whom(self):
        if self.rank == 0:
            seen = {}
            for _ in range(self.size - 1):
                came = torch.zeros(2)
                source = dist.recv(came)
                seen[source] = came.tolist()
            self.assertEqual(seen, {rank: [rank, rank * 2.0] for rank in range(1, self.size)})
            late = torch.zeros(2)
            work = dist.irecv(late, tag=7)  # before it is sent
            dist.barrier()
            work.wait()
            self.assertEqual((work._source_rank(), late.tolist()), (self.size - 1, [3, 4]))
        else:
            dist.send(torch.tensor([self.rank, self.rank * 2.0]), 0)
            dist.barrier()
            if self.rank == self.size - 1:
                dist.send(torch.tensor([3.0, 4.0]), 0, tag=7)
        dist.barrier()

    def test_batches_of_messages(self):
        following, before = self.other()
        came = [torch.zeros(100000) for _ in range(2)]
        operations = [dist.P2POp(dist.isend, torch.full((100000,), self.rank + 0.5), following),
                      dist.P2POp(dist.irecv, came[0], before),
                      dist.P2POp(dist.isend, torch.full((100000,), self.rank + 0.25), following),
                      dist.P2POp(dist.irecv, came[1], before)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        self.same(came[0], torch.full((100000,), before + 0.5))
        self.same(came[1], torch.full((100000,), before + 0.25))

    def test_a_shorter_message_than_the_tensor_is_an_error_and_the_group_goes_on(self):
        following, before = self.other()
        sent = dist.isend(torch.ones(2), following)
        with self.assertRaisesRegex(RuntimeError, f"rank {before}.*2 elements.*tensor 3"):
            dist.recv(torch.ones(3), before)
        sent.wait()
        sent = dist.isend(torch.ones(4), following)
        with self.assertRaisesRegex(RuntimeError, "TRUNCATE"):
            dist.recv(torch.ones(3), before)
        sent.wait()
        dist.barrier()

    def test_a_wait_with_a_timeout_ends_and_the_message_can_still_come(self):
        following, before = self.other()
        came = torch.zeros(1)
        work = dist.irecv(came, before)
        begin = time.monotonic()
        with self.assertRaisesRegex(RuntimeError, "not complete after 0.1 s"):
            work.wait(timedelta(milliseconds=100))
        self.assertLess(time.monotonic() - begin, 5)
        self.assertFalse(work.is_completed())
        dist.barrier()
        dist.send(torch.ones(1), following)
        work.wait()
        self.assertEqual(came.item(), 1)

    def test_a_wait_that_gives_up_leaves_the_operation_to_others(self):
        following, before = self.other()
        came = torch.zeros(1)
        work = dist.irecv(came, before)
        outcomes = []

        def wait(*limit):
            try:
                outcomes.append(work.wait(*limit))
            except RuntimeError as error:
                outcomes.append(str(error))

        brief = threading.Thread(target=wait, args=(timedelta(seconds=0.5),))
        brief.start()
        while work._operation.owner is None:
            time.sleep(0.001)
        patient = threading.Thread(target=wait)
        patient.start()
        future = work.get_future()
        brief.join(10)
        self.assertIn("not complete after 0.5 s", outcomes[0])
        dist.barrier()
        dist.send(torch.ones(1), following)
        self.same(future.wait()[0], torch.ones(1))
        patient.join(10)
        self.assertEqual(outcomes[1:], [True])

    def test_the_future_of_a_receive_does_not_keep_others_from_completing(self):
        following, before = self.other()
        came = torch.zeros(1)
        late = dist.irecv(came, before, tag=5).get_future()
        total = torch.ones(1)
        doubled = dist.all_reduce(total, async_op=True).get_future().then(lambda future: future.value()[0] * 2)
        self.same(doubled.wait(), torch.full((1,), 2.0 * self.size))
        dist.send(torch.tensor([4.0]), following, tag=5)
        self.same(late.wait()[0], torch.tensor([4.0]))


@needs_numpy
class Objects(Ranks):
    def test_object_collectives(self):
        mine = {"rank": self.rank, "list": list(range(self.rank * 10))}
        everybodys = [None] * self.size
        dist.all_gather_object(everybodys, mine)
        self.assertEqual([each["rank"] for each in everybodys], list(range(self.size)))
        objects = [mine, "x" * 1000] if self.rank == 0 else [None, None]
        dist.broadcast_object_list(objects, 0)
        self.assertEqual(objects, [{"rank": 0, "list": []}, "x" * 1000])
        gathered = [None] * self.size if self.rank == 0 else None
        dist.gather_object(mine, gathered, 0)
        if self.rank == 0:
            self.assertEqual(gathered, everybodys)
        output = [None]
        dist.scatter_object_list(output, [f"for {rank}" for rank in range(self.size)] if self.rank == 0 else None, 0)
        self.assertEqual(output, [f"for {self.rank}"])
        if self.rank == 0:
            dist.send_object_list([mine], 1)
        elif self.rank == 1:
            came = [None]
            dist.recv_object_list(came, 0)
            self.assertEqual(came[0]["rank"], 0)


class MonitoredBarrier(Ranks):
    def test_lets_all_go_on_that_came(self):
        dist.monitored_barrier()
        dist.monitored_barrier(timeout=timedelta(seconds=5), wait_all_ranks=True)

    def test_names_those_that_did_not_come(self):
        group = dist.new_group()
        if self.rank == self.size - 1:
            dist.barrier()  # the last one does not come; it waits in the default group
            with self.assertRaisesRegex(RuntimeError, f"Rank {self.rank} failed to pass monitoredBarrier"):
                dist.all_reduce(torch.ones(1), group=group)
            return
        begin = time.monotonic()
        came = f"Rank {self.rank} successfully reached monitoredBarrier, but received errors.*from rank 0"
        told = came if self.rank else f"Rank {self.size - 1} failed to pass monitoredBarrier"
        with self.assertRaisesRegex(RuntimeError, told):
            dist.monitored_barrier(group, timedelta(seconds=0.5), wait_all_ranks=True)
        self.assertLess(time.monotonic() - begin, 10)
        with self.assertRaises(RuntimeError):
            dist.all_reduce(torch.ones(1), group=group)
        dist.barrier()

    def test_the_timeout_is_that_of_the_subgroup(self):
        group = dist.new_group(timeout=timedelta(seconds=0.5))
        if self.rank == 0:
            begin = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, "failed to pass monitoredBarrier in 0.5 s"):
                dist.monitored_barrier(group)
            self.assertLess(time.monotonic() - begin, 10)
        dist.barrier()


if __name__ == "__main__":
    main()
