"""Every collective of torch.distributed against what torch computes locally."""

import pathlib
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from case import Ranks, input_of, main

REDUCED = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
           torch.int64, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
           torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32]
MOVED_ONLY = [torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
SHAPES = [(), (1,), (0,), (5,), (3, 4), (1000,)]


def combined(op, inputs, dtype):
    """The reduction in a wider type."""
    if dtype is torch.bool:
        stack = torch.stack(inputs)
        if op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.BOR):
            return stack.any(0)
        if op in (ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.BAND):
            return stack.all(0)
        return stack.sum(0) % 2 == 1
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    total = inputs[0].to(wide)
    for each in inputs[1:]:
        each = each.to(wide)
        total = {ReduceOp.SUM: torch.add, ReduceOp.AVG: torch.add, ReduceOp.PRODUCT: torch.mul, ReduceOp.MIN: torch.minimum,
                 ReduceOp.MAX: torch.maximum, ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or,
                 ReduceOp.BXOR: torch.bitwise_xor}[op](total, each)
    if op == ReduceOp.AVG:
        total = total / len(inputs) if wide is not torch.int64 else torch.div(total, len(inputs), rounding_mode="trunc")
    return total.to(dtype)


def bits(tensor):
    """Comparable also where the type has no comparison."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


class Reductions(Ranks):
    def test_all_reduce_of_every_type_and_shape_is_the_sum(self):
        for dtype in REDUCED:
            for shape in SHAPES:
                inputs = [input_of(rank, shape, dtype) for rank in range(self.size)]
                for asynchronous in (False, True):
                    with self.subTest(dtype=dtype, shape=shape, asynchronous=asynchronous):
                        tensor = inputs[self.rank].clone()
                        work = dist.all_reduce(tensor, async_op=asynchronous)
                        if asynchronous:
                            self.assertTrue(work.wait())
                            self.assertTrue(work.is_completed())
                        self.same(bits(tensor), bits(combined(ReduceOp.SUM, inputs, dtype)))

    def test_all_reduce_knows_every_operation(self):
        integers = [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]
        for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.bool):
            operations = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]
            operations += [] if dtype is torch.bool else [ReduceOp.AVG]
            operations += [] if dtype.is_floating_point else integers
            for op in operations:
                with self.subTest(dtype=dtype, op=op):
                    inputs = [input_of(rank, (17,), dtype) for rank in range(self.size)]
                    tensor = inputs[self.rank].clone()
                    dist.all_reduce(tensor, op)
                    self.same(tensor, combined(op, inputs, dtype))

    def test_premultiplied_sums_take_numbers_and_tensors(self):
        premultiplied = dist.distributed_c10d._make_nccl_premul_sum if hasattr(
            dist.distributed_c10d, "_make_nccl_premul_sum") else dist._make_nccl_premul_sum
        for factor in (0.5, torch.tensor(0.25)):
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                inputs = [input_of(rank, (9,), dtype) for rank in range(self.size)]
                tensor = inputs[self.rank].clone()
                dist.all_reduce(tensor, premultiplied(factor))
                self.close(tensor, sum(each.double() for each in inputs).mul(float(factor)).to(dtype))
        inputs = [input_of(rank, (9,), torch.int32) for rank in range(self.size)]
        tensor = inputs[self.rank].clone()
        dist.all_reduce(tensor, premultiplied(3.0))
        self.same(tensor, sum(inputs) * 3)

    def test_what_cannot_be_reduced_is_refused_on_all_ranks_and_the_group_goes_on(self):
        with self.assertRaises(RuntimeError):
            dist.all_reduce(torch.ones(3), ReduceOp.BAND)
        for dtype in MOVED_ONLY:
            with self.assertRaisesRegex(TypeError, "not reduced"):
                dist.all_reduce(torch.zeros(3, dtype=dtype))
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        self.same(tensor, torch.full((3,), float(self.size)))

    def test_tensors_that_are_not_in_order_in_memory(self):
        cases = {
            "transposed": lambda: input_of(self.rank, (4, 6), torch.float32).t(),
            "strided": lambda: input_of(self.rank, (24,), torch.float32)[::3],
            "channels last": lambda: input_of(self.rank, (2, 3, 4, 5), torch.float32).to(memory_format=torch.channels_last),
            "negated": lambda: torch.complex(torch.ones(4), input_of(self.rank, (4,), torch.float32)).conj().imag,
        }
        for name, make in cases.items():
            with self.subTest(name):
                tensor = make()
                mine = tensor.clone().contiguous()
                everybodys = [torch.empty_like(mine) for _ in range(self.size)]
                dist.all_gather(everybodys, mine)
                dist.all_reduce(tensor)
                self.same(tensor.contiguous(), sum(everybodys))

    def test_a_loss_with_a_graph_can_be_reduced_and_still_go_backward(self):
        weight = torch.ones(2, 3, requires_grad=True)
        powers = weight.exp()
        loss = (powers * (self.rank + 1)).sum()
        reported = loss.clone()
        dist.all_reduce(reported)
        self.close(reported.detach(), torch.tensor(6 * torch.e * sum(range(1, self.size + 1))))
        # exp's gradient is its result: a version counter that moved would be an error.
        dist.all_reduce(powers, ReduceOp.MAX)
        dist.all_reduce(powers.t(), ReduceOp.MAX)
        loss.backward()
        self.close(weight.grad, torch.full((2, 3), torch.e) * (self.rank + 1))

    def test_reduce_brings_the_result_to_its_root(self):
        for root in range(self.size):
            for op in (ReduceOp.SUM, ReduceOp.MAX):
                inputs = [input_of(rank, (3, 5), torch.float32) for rank in range(self.size)]
                tensor = inputs[self.rank].clone()
                dist.reduce(tensor, root, op)
                if self.rank == root:
                    self.same(tensor, combined(op, inputs, torch.float32))

    def test_coalesced_all_reduce(self):
        for asynchronous in (False, True):
            shapes = [(3,), (), (2, 5), (0,), (100,)]
            tensors = [input_of(self.rank, shape, torch.float32) for shape in shapes]
            with dist.distributed_c10d._coalescing_manager(async_ops=asynchronous) as manager:
                for tensor in tensors:
                    dist.all_reduce(tensor)
            if asynchronous:
                manager.wait()
            for tensor, shape in zip(tensors, shapes):
                self.same(tensor, sum(input_of(rank, shape, torch.float32) for rank in range(self.size)))

    def test_reduce_scatter_in_all_its_forms(self):
        for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.complex64):
            whole = [input_of(rank, (self.size * 3, 2), dtype) for rank in range(self.size)]
            total = sum(whole[1:], whole[0])
            expected = total.chunk(self.size)[self.rank]
            output = torch.empty(3, 2, dtype=dtype)
            dist.reduce_scatter_tensor(output, whole[self.rank])
            self.same(output, expected)
            output = torch.empty(2, 3, dtype=dtype).t()
            dist.reduce_scatter(output, [part.clone() for part in whole[self.rank].chunk(self.size)])
            self.same(output, expected)
            outputs = [torch.empty(3, 2, dtype=dtype) for _ in range(2)]
            with dist.distributed_c10d._coalescing_manager():
                for each in outputs:
                    dist.reduce_scatter_tensor(each, whole[self.rank])
            for each in outputs:
                self.same(each, expected)

    def test_reduce_scatter_of_unequal_parts(self):
        sizes = [rank + 1 for rank in range(self.size)]
        inputs = [[input_of(rank + peer, (sizes[peer],), torch.float32) for peer in range(self.size)]
                  for rank in range(self.size)]
        output = torch.empty(sizes[self.rank])
        dist.reduce_scatter(output, inputs[self.rank])
        self.same(output, sum(inputs[rank][self.rank] for rank in range(self.size)))


class Sparse(Ranks):
    def tensor(self, rank, shape=(6, 3)):
        rows = torch.tensor([[0, rank + 1, rank + 1]])
        values = torch.arange(9.0).reshape(3, 3) + rank
        return torch.sparse_coo_tensor(rows, values, shape)

    def test_the_sum_of_sparse_tensors_is_coalesced_and_right(self):
        for asynchronous in (False, True):
            tensor = self.tensor(self.rank)
            work = dist.all_reduce(tensor, async_op=asynchronous)
            if asynchronous:
                work.wait()
                self.assertTrue(work.result()[0].is_coalesced())
            self.assertTrue(tensor.is_coalesced())
            self.same(tensor.to_dense(), sum(self.tensor(rank).to_dense() for rank in range(self.size)))

    def test_ranks_may_have_different_numbers_of_values_also_none(self):
        tensor = torch.sparse_coo_tensor(torch.zeros(2, self.rank, dtype=torch.int64), torch.ones(self.rank), (4, 4))
        dist.all_reduce(tensor)
        expected = torch.zeros(4, 4)
        expected[0, 0] = sum(range(self.size))
        self.same(tensor.to_dense(), expected)

    def test_shapes_that_differ_are_an_error_on_every_rank(self):
        with self.assertRaisesRegex(ValueError, "sparse tensors of shape"):
            dist.all_reduce(self.tensor(self.rank, (6 + self.rank, 3)))


class Movement(Ranks):
    def test_broadcast_of_every_type(self):
        for dtype in REDUCED + MOVED_ONLY:
            for root in (0, self.size - 1):
                for shape in ((), (0,), (3, 5)):
                    with self.subTest(dtype=dtype, root=root, shape=shape):
                        tensor = input_of(self.rank, shape, dtype)
                        dist.broadcast(tensor, root)
                        self.same(bits(tensor), bits(input_of(root, shape, dtype)))

    def test_broadcast_between_different_layouts(self):
        tensor = input_of(self.rank, (4, 6), torch.float32)
        tensor = tensor if self.rank else tensor.t().contiguous().t()
        work = dist.broadcast(tensor, 0, async_op=True)
        work.wait()
        self.same(tensor, input_of(0, (4, 6), torch.float32))

    def test_all_gather_in_all_its_forms(self):
        for dtype in (torch.float32, torch.bool, torch.complex128, torch.float8_e5m2, torch.int16):
            for shape in ((2, 3), (), (0,)):
                with self.subTest(dtype=dtype, shape=shape):
                    mine = input_of(self.rank, shape, dtype)
                    expected = [input_of(rank, shape, dtype) for rank in range(self.size)]
                    outputs = [torch.empty_like(mine) for _ in range(self.size)]
                    dist.all_gather(outputs, mine)
                    for output, each in zip(outputs, expected):
                        self.same(bits(output), bits(each))
                    if shape == ():
                        continue
                    into = torch.empty((self.size * shape[0], *shape[1:]), dtype=dtype)
                    dist.all_gather_into_tensor(into, mine)
                    self.same(bits(into), bits(torch.cat(expected)))
                    dist.all_gather(list(into.zero_().chunk(self.size)) if shape[0] else outputs, mine)
                    self.same(bits(into), bits(torch.cat(expected)))

    def test_all_gather_of_unequal_parts(self):
        mine = input_of(self.rank, (self.rank + 1, 2), torch.float32)
        outputs = [torch.empty(rank + 1, 2) for rank in range(self.size)]
        dist.all_gather(outputs, mine, async_op=True).wait()
        for rank, output in enumerate(outputs):
            self.same(output, input_of(rank, (rank + 1, 2), torch.float32))

    def test_coalesced_all_gather(self):
        inputs = [input_of(self.rank, (length,), torch.float32) for length in (1, 4)]
        outputs = [torch.empty(self.size * length) for length in (1, 4)]
        with dist.distributed_c10d._coalescing_manager():
            for output, each in zip(outputs, inputs):
                dist.all_gather_into_tensor(output, each)
        for output, length in zip(outputs, (1, 4)):
            self.same(output, torch.cat([input_of(rank, (length,), torch.float32) for rank in range(self.size)]))
        for asynchronous in (False, True):
            lists = [[torch.empty(length) for length in (1, 4)] for _ in range(self.size)]
            work = dist.all_gather_coalesced(lists, inputs, async_op=asynchronous)
            if asynchronous:
                work.wait()
            for rank, parts in enumerate(lists):
                for part, length in zip(parts, (1, 4)):
                    self.same(part, input_of(rank, (length,), torch.float32))
        with self.assertRaisesRegex(ValueError, "lists of tensors for"):
            dist.all_gather_coalesced([lists[0]] * (self.size + 1), inputs)

    def test_gather_and_scatter(self):
        for root in range(self.size):
            for asynchronous in (False, True):
                mine = input_of(self.rank, (2, 3), torch.int32).t()
                outputs = [torch.empty(3, 2, dtype=torch.int32) for _ in range(self.size)] if self.rank == root else None
                work = dist.gather(mine, outputs, dst=root, async_op=asynchronous)
                if asynchronous:
                    work.wait()
                if self.rank == root:
                    for rank, output in enumerate(outputs):
                        self.same(output, input_of(rank, (2, 3), torch.int32).t())
                parts = [input_of(rank + root, (4,), torch.float64) for rank in range(self.size)]
                output = torch.empty(8, dtype=torch.float64)[::2]
                work = dist.scatter(output, parts if self.rank == root else None, src=root, async_op=asynchronous)
                if asynchronous:
                    work.wait()
                self.same(output.clone(), parts[self.rank])

    def test_all_to_all_in_all_its_forms(self):
        def piece(sender, receiver, rows=2):
            return input_of(sender * 10 + receiver, (rows, 3), torch.float32)

        expected = [piece(sender, self.rank) for sender in range(self.size)]
        outputs = [torch.empty(2, 3) for _ in range(self.size)]
        dist.all_to_all(outputs, [piece(self.rank, receiver) for receiver in range(self.size)])
        for output, each in zip(outputs, expected):
            self.same(output, each)
        output = torch.empty(2 * self.size, 3)
        dist.all_to_all_single(output, torch.cat([piece(self.rank, receiver) for receiver in range(self.size)]))
        self.same(output, torch.cat(expected))
        # Rank s sends s + r + 1 rows to rank r.
        sends = [self.rank + receiver + 1 for receiver in range(self.size)]
        output = torch.empty(sum(sends), 3)  # what it receives is as much
        source = torch.cat([piece(self.rank, receiver, rows) for receiver, rows in enumerate(sends)])
        dist.all_to_all_single(output, source, sends, sends, async_op=True).wait()
        self.same(output, torch.cat([piece(sender, self.rank, sends[sender]) for sender in range(self.size)]))

    def test_barrier_and_its_arguments(self):
        store = dist.distributed_c10d._get_default_store()
        barriers = [dist.barrier, lambda: self.assertTrue(dist.barrier(async_op=True).wait()),
                    lambda: dist.barrier(timeout=timedelta(seconds=5)), lambda: dist.barrier(device_ids=[0])]
        for number, barrier in enumerate(barriers):
            if self.rank == 0:
                time.sleep(0.1)  # the others are there first, unless the machine is busy
                store.set(f"came{number}", "")
            barrier()
            self.assertTrue(store.check([f"came{number}"]))

    def test_tensors_of_another_device_are_refused_everywhere(self):
        tensor = torch.empty(3, device="meta") if self.rank == 0 else torch.ones(3)
        begin = time.monotonic()
        with self.assertRaises((ValueError, RuntimeError)) as caught:
            dist.all_reduce(tensor)
        self.assertLess(time.monotonic() - begin, 10)
        # Not because rank 0 has left: it waits for the others to have been told.
        store = dist.distributed_c10d._get_default_store()
        if self.rank != 0:
            self.assertIn("rank 0", str(caught.exception))
            store.set(f"told{self.rank}", "")
        else:
            store.wait([f"told{rank}" for rank in range(1, self.size)], timedelta(seconds=8))


class InPlace(Ranks):
    """A result in this rank's part of the input, an input in this rank's part of the result: as NCCL has them."""

    def chunks(self, count):
        whole = input_of(self.rank, (self.size * count,), torch.float32)
        return whole, whole.narrow(0, self.rank * count, count)

    def test_reduce_scatter_into_ones_own_chunk_of_the_input(self):
        for count in (1, 7, 3000, 100_003):
            inputs = [input_of(rank, (self.size * count,), torch.float32) for rank in range(self.size)]
            expected = inputs[self.rank].clone()
            own = slice(self.rank * count, (self.rank + 1) * count)
            expected[own] = combined(ReduceOp.SUM, inputs, torch.float32)[own]
            for form in ("tensor", "asynchronous", "list", "coalesced", "average"):
                with self.subTest(count=count, form=form):
                    whole, mine = self.chunks(count)
                    if form == "tensor":
                        dist.reduce_scatter_tensor(mine, whole)
                    elif form == "asynchronous":
                        dist.reduce_scatter_tensor(mine, whole, async_op=True).wait()
                    elif form == "list":
                        dist.reduce_scatter(mine, list(whole.chunk(self.size)))
                    elif form == "coalesced":
                        with dist._coalescing_manager():
                            dist.reduce_scatter_tensor(mine, whole)
                    else:
                        dist.reduce_scatter_tensor(mine, whole, op=ReduceOp.AVG)
                        mine *= self.size
                        self.close(whole, expected)
                        continue
                    self.same(whole, expected)

    def test_reduce_scatter_of_unequal_parts_into_ones_own(self):
        counts = [rank * 500 + rank % 2 for rank in range(self.size)]
        whole = torch.full((sum(counts),), float(self.rank + 1))
        parts = list(whole.split(counts))
        dist.reduce_scatter(parts[self.rank], parts)
        for rank, part in enumerate(parts):
            self.same(part, torch.full_like(part, self.size * (self.size + 1) / 2 if rank == self.rank else self.rank + 1))

    def test_all_gather_from_ones_own_chunk_of_the_result(self):
        for count in (1, 7, 3000, 100_003):
            expected = torch.cat([torch.arange(count) + 1000 * rank for rank in range(self.size)])
            for form in ("tensor", "list"):
                with self.subTest(count=count, form=form):
                    whole = torch.full((self.size * count,), -1)
                    mine = whole.narrow(0, self.rank * count, count)
                    mine.copy_(torch.arange(count) + 1000 * self.rank)
                    if form == "tensor":
                        dist.all_gather_into_tensor(whole, mine)
                    else:
                        dist.all_gather(list(whole.chunk(self.size)), mine)
                    self.same(whole, expected)

    def test_gather_scatter_and_all_to_all_in_one_tensor(self):
        whole, mine = self.chunks(1000)
        dist.gather(mine, list(whole.chunk(self.size)) if self.rank == 0 else None, dst=0)
        if self.rank == 0:
            inputs = [input_of(rank, (self.size * 1000,), torch.float32) for rank in range(self.size)]
            self.same(whole, torch.cat([each.chunk(self.size)[rank] for rank, each in enumerate(inputs)]))
        whole, mine = self.chunks(1000)
        dist.scatter(mine, list(whole.chunk(self.size)) if self.rank == 0 else None, src=0)
        self.same(mine, input_of(0, (self.size * 1000,), torch.float32).chunk(self.size)[self.rank])
        whole, _ = self.chunks(1000)
        dist.all_to_all_single(whole, whole)
        inputs = [input_of(rank, (self.size * 1000,), torch.float32) for rank in range(self.size)]
        self.same(whole, torch.cat([each.chunk(self.size)[self.rank] for each in inputs]))

    def test_another_overlap_is_refused_with_what_to_do(self):
        whole, _ = self.chunks(8)
        beside = whole.narrow(0, 8 * ((self.rank + 1) % self.size), 8)
        if self.size > 1:
            with self.assertRaisesRegex(RuntimeError, "this rank's part of sendbuf"):
                dist.reduce_scatter_tensor(beside, whole)

    def test_training_with_partitioned_parameters_and_gradients(self):
        """As DeepSpeed's ZeRO-3 does it: of one flat buffer each rank keeps a part of the parameters, gathers them for a pass, and
        reduces the gradients into its part of their buffer; the steps are those of one process with all batches."""
        def network():
            torch.manual_seed(3)
            return torch.nn.Sequential(torch.nn.Linear(17, 40), torch.nn.Tanh(), torch.nn.Linear(40, 5))

        def loss(model, rank, step):
            torch.manual_seed(100 * step + rank)
            return model(torch.randn(6, 17)).square().mean()

        reference, model = network(), network()
        plain = torch.optim.Adam(reference.parameters(), lr=0.01)
        sizes = [each.numel() for each in model.parameters()]
        part = -(-sum(sizes) // self.size)
        flat, gradients = torch.zeros(part * self.size), torch.zeros(part * self.size)
        own = slice(self.rank * part, (self.rank + 1) * part)
        flat[:sum(sizes)] = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
        for buffer, field in ((flat, "data"), (gradients, "grad")):
            for each, view in zip(model.parameters(), buffer[:sum(sizes)].split(sizes)):
                setattr(each, field, view.view(each.shape))
        kept = torch.nn.Parameter(flat[own].clone())
        partitioned = torch.optim.Adam([kept], lr=0.01)
        for step in range(4):
            flat.fill_(float("nan"))
            flat[own] = kept.detach()
            dist.all_gather_into_tensor(flat, flat[own])
            gradients.zero_()
            loss(model, self.rank, step).backward()
            dist.reduce_scatter_tensor(gradients[own], gradients, op=ReduceOp.AVG)
            kept.grad = gradients[own].clone()
            partitioned.step()
            plain.zero_grad()
            (sum(loss(reference, rank, step) for rank in range(self.size)) / self.size).backward()
            plain.step()
        flat[own] = kept.detach()
        dist.all_gather_into_tensor(flat, flat[own])
        self.close(flat[:sum(sizes)], torch.cat([each.detach().reshape(-1) for each in reference.parameters()]))


class Threads(Ranks):
    def calls_that_copy(self, count):
        """Each with tensors of its own, for this thread to wait for and for the completion thread."""
        def parts():
            return [torch.ones(count) for _ in range(self.size)]

        for asynchronous in (False, True):
            for call, arguments in (
                    (dist.all_gather, (parts(), torch.ones(count))), (dist.all_to_all, (parts(), parts())),
                    (dist.reduce_scatter, (torch.ones(count), parts())),
                    (dist.gather, (torch.ones(count), parts() if self.rank == 0 else None)),
                    (dist.scatter, (torch.ones(count), parts() if self.rank == 0 else None)),
                    (dist.all_reduce, (torch.ones(2, count).t(),)), (dist.broadcast, (torch.ones(2, count).t(), 0))):
                yield call, arguments, asynchronous

    def test_no_copy_takes_the_threads_of_a_pool(self):
        def play(calls):
            for call, arguments, asynchronous in calls:
                work = call(*arguments, async_op=asynchronous)
                if asynchronous:
                    work.get_future().wait()

        def threads():
            """Their names: a failure shows whose has come, or gone."""
            names = []
            for task in pathlib.Path("/proc/self/task").iterdir():
                try:
                    names.append((task / "comm").read_text().strip())
                except OSError:
                    pass  # it has ended meanwhile
            return sorted(names)

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        small, large = list(self.calls_that_copy(10)), list(self.calls_that_copy(200_000))
        copied = torch.ones(200_000)
        torch.set_num_threads(4)
        try:
            play(small)
            # So that the completion thread is there: each rank but one has to wait.
            for late in range(self.size):
                if self.rank == late:
                    time.sleep(0.1)
                dist.all_reduce(torch.ones(10), async_op=True).get_future().wait()
            there = threads()
            play(large)
            self.assertEqual(threads(), there)
            torch.empty(200_000).copy_(copied)
            self.assertGreater(len(threads()), len(there), "such a copy would have been seen")
        finally:
            torch.set_num_threads(before)


if __name__ == "__main__":
    main()
