"""Every operation of anello.horovod.torch gives what its name says, in every form."""

import torch

import anello.horovod.torch as hvd
from case import main
from horovod_case import Ranks, of

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8)
SHAPES = ((5,), (3, 4), (2, 3, 70), (), (0, 3))


class Reductions(Ranks):
    environment = {"HOROVOD_FUSION_THRESHOLD": "200000"}

    def contributions(self, shape, dtype=torch.float32):
        return [of(rank, shape, dtype) for rank in range(self.size)]

    def test_sum_and_average_of_all_types_and_shapes(self):
        for dtype in DTYPES:
            for shape in SHAPES:
                mine, total = of(self.rank, shape, dtype), sum(self.contributions(shape, torch.float64))
                self.same(hvd.allreduce(mine, op=hvd.Sum), total.to(dtype))
                average = total / self.size
                expected = average.to(dtype) if dtype.is_floating_point else average.trunc().to(dtype)
                self.same(hvd.allreduce(mine, name=f"mean.{dtype}.{shape}"), expected)
                self.same(mine, of(self.rank, shape, dtype))

    def test_the_older_argument_average(self):
        mine = of(self.rank, (4,))
        self.same(hvd.allreduce(mine, average=False), sum(self.contributions((4,))))
        self.same(hvd.allreduce(mine, average=True), hvd.allreduce(mine, op=hvd.Average))
        with self.assertRaises(ValueError):
            hvd.allreduce(mine, average=True, op=hvd.Sum)

    def test_min_max_product(self):
        stacked = torch.stack(self.contributions((6,)))
        mine = of(self.rank, (6,))
        self.same(hvd.allreduce(mine, op=hvd.Min), stacked.amin(0))
        self.same(hvd.allreduce(mine, op=hvd.Max), stacked.amax(0))
        self.same(hvd.allreduce(mine, op=hvd.Product), stacked.prod(0))

    def test_factors_before_and_after(self):
        mine, total = of(self.rank, (100000,)), sum(self.contributions((100000,)))
        self.close(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0), total * 1.5)
        self.close(hvd.allreduce(mine, op=hvd.Average, prescale_factor=0.5, postscale_factor=2.0), total / self.size)
        whole = of(self.rank, (6,), torch.int32)
        self.same(hvd.allreduce(whole, op=hvd.Sum, postscale_factor=2.0),
                  sum(self.contributions((6,), torch.int32)) * 2)

    def test_in_place_also_of_tensors_that_are_not_contiguous(self):
        for make in (lambda: of(self.rank, (4, 6)), lambda: of(self.rank, (6, 4)).t()):
            expected = hvd.allreduce(make(), op=hvd.Sum)
            mine = make()
            self.assertIs(hvd.allreduce_(mine, op=hvd.Sum), mine)
            self.same(mine, expected)
            mine = make()
            self.assertIs(hvd.synchronize(hvd.allreduce_async_(mine, op=hvd.Sum)), mine)
            self.same(mine, expected)

    def test_groups(self):
        def tensors():
            return [of(self.rank, (5,)), of(self.rank, (2, 3), torch.float64), of(self.rank, (7,))]

        expected = [sum(of(rank, each.shape, each.dtype) for rank in range(self.size)) for each in tensors()]
        for made in (hvd.grouped_allreduce(tensors(), op=hvd.Sum), hvd.grouped_allreduce_(tensors(), op=hvd.Sum),
                     hvd.synchronize(hvd.grouped_allreduce_async(tensors(), op=hvd.Sum, name="group")),
                     hvd.synchronize(hvd.grouped_allreduce_async_(tensors(), op=hvd.Sum, name="group"))):
            for each, other in zip(made, expected, strict=True):
                self.same(each, other)

    def test_many_small_ones_and_one_beyond_the_fusion_threshold(self):
        counts = [1, 63, 64, 65, 1000] * 10 + [300000]
        handles = [hvd.allreduce_async(of(self.rank, (count,)), op=hvd.Sum) for count in counts]
        for count, handle in zip(counts, handles):
            self.same(hvd.synchronize(handle), sum(self.contributions((count,))))

    def test_compression(self):
        mine = of(self.rank, (5,), torch.float64)
        out = hvd.allreduce(mine, op=hvd.Sum, compression=hvd.Compression.fp16)
        self.assertIs(out.dtype, torch.float64)
        self.same(out, sum(self.contributions((5,), torch.float64)))
        self.same(hvd.allreduce(of(self.rank, (5,), torch.int32), op=hvd.Sum, compression=hvd.Compression.fp16),
                  sum(self.contributions((5,), torch.int32)))

    def test_adasum(self):
        same = torch.tensor([1.0, -2.0, 3.0])
        self.close(hvd.allreduce(same, op=hvd.Adasum), same)  # parallel: the average
        alone = torch.zeros(self.size)
        alone[self.rank] = 2.0
        self.close(hvd.allreduce(alone, op=hvd.Adasum), torch.full((self.size,), 2.0))  # orthogonal: the sum
        torch.manual_seed(1)
        level = list(torch.randn(self.size, 1000).double())
        out = hvd.allreduce(level[self.rank].float(), op=hvd.Adasum)
        while len(level) > 1:
            pairs = [
                a * (1 - a @ b / (2 * a @ a)) + b * (1 - a @ b / (2 * b @ b)) for a, b in zip(level[::2], level[1::2])
            ]
            level = pairs + level[2 * len(pairs):]
        self.close(out, level[0].float(), 1e-4)
        self.equal_everywhere(out)

    def test_sparse(self):
        mine = torch.sparse_coo_tensor([[self.rank, 0]], torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (self.size + 1, 2))
        total = torch.zeros(self.size + 1, 2)
        for rank in range(self.size):
            total[rank] += torch.tensor([1.0, 2.0])
            total[0] += torch.tensor([3.0, 4.0])
        handle = hvd.sparse_allreduce_async(mine, "sparse", hvd.Sum)
        self.same(hvd.synchronize(handle).to_dense(), total)
        self.close(hvd.sparse_allreduce_async(mine, "sparse", hvd.Average)().to_dense(), total / self.size)

    def test_reducescatter(self):
        for rows in (self.size * 2, self.size * 2 + 1, 1):
            total = sum(self.contributions((rows, 3)))
            shares = [rows // self.size + (rank < rows % self.size) for rank in range(self.size)]
            expected = total.split(shares)[self.rank]
            self.same(hvd.reducescatter(of(self.rank, (rows, 3)), op=hvd.Sum), expected)
            self.same(hvd.reducescatter(of(self.rank, (rows, 3))), expected / self.size)
            self.close(
                hvd.reducescatter(of(self.rank, (rows, 3)), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0),
                expected * 2)
        one, two = hvd.grouped_reducescatter([of(self.rank, (self.size, 2)), of(self.rank, (self.size,))], op=hvd.Max)
        self.same(one, torch.stack(self.contributions((self.size, 2))).amax(0)[self.rank:self.rank + 1])
        self.same(two, torch.stack(self.contributions((self.size,))).amax(0)[self.rank:self.rank + 1])


class Movements(Ranks):
    def test_allgather_of_different_numbers_of_rows(self):
        for dtype in (*DTYPES, torch.bool, torch.complex64):
            out = hvd.allgather(of(self.rank, (self.rank, 3), dtype))
            self.same(out, torch.cat([of(rank, (rank, 3), dtype) for rank in range(self.size)]))
        one, two = hvd.grouped_allgather([of(self.rank, (self.rank + 1, 2)), of(self.rank, (2,))])
        self.same(one, torch.cat([of(rank, (rank + 1, 2)) for rank in range(self.size)]))
        self.same(two, torch.cat([of(rank, (2,)) for rank in range(self.size)]))

    def test_broadcast_from_each_rank(self):
        for root in range(self.size):
            for dtype in (*DTYPES, torch.bool):
                mine = of(self.rank, (3, 2), dtype)
                self.same(hvd.broadcast(mine, root), of(root, (3, 2), dtype))
                self.same(mine, of(self.rank, (3, 2), dtype))
                self.assertIs(hvd.broadcast_(mine, root), mine)
                self.same(mine, of(root, (3, 2), dtype))
        handles = [
            hvd.broadcast_async(of(self.rank, (9,)), 0),
            hvd.broadcast_async_(of(self.rank, (200,)), self.size - 1)
        ]
        self.same(hvd.synchronize(handles[0]), of(0, (9,)))
        self.same(hvd.synchronize(handles[1]), of(self.size - 1, (200,)))
        with self.assertRaisesRegex(ValueError, "root_rank 99"):
            hvd.broadcast(torch.ones(1), 99)

    def test_alltoall(self):
        out = hvd.alltoall(of(self.rank, (2 * self.size, 3)))
        self.same(out, torch.cat([of(rank, (2 * self.size, 3)).split(2)[self.rank] for rank in range(self.size)]))
        splits = [(self.rank + other) % 3 for other in range(self.size)]
        mine = of(self.rank, (sum(splits), 2))
        out, received = hvd.alltoall(mine, torch.tensor(splits, dtype=torch.int32))
        parts = [of(rank, (sum((rank + other) % 3 for other in range(self.size)), 2)).split(
            [(rank + other) % 3 for other in range(self.size)])[self.rank] for rank in range(self.size)]
        self.same(out, torch.cat(parts))
        self.assertEqual(received.tolist(), [(rank + self.rank) % 3 for rank in range(self.size)])

    def test_bad_splits_are_value_errors(self):
        for splits in ([1] * (self.size + 1), [-1] + [1] * (self.size - 1), [100] * self.size):
            with self.assertRaises(ValueError):
                hvd.alltoall(torch.ones(self.size), splits)
        with self.assertRaises(ValueError):
            hvd.alltoall(torch.ones(self.size + 1))

    def test_objects(self):
        self.assertEqual(hvd.broadcast_object({"rank": self.rank, "x": [1, 2]}, root_rank=self.size - 1),
                         {"rank": self.size - 1, "x": [1, 2]})
        self.assertEqual(hvd.allgather_object("x" * self.rank), ["x" * rank for rank in range(self.size)])

    def test_barrier_poll_and_synchronize(self):
        hvd.barrier()
        handle = hvd.allreduce_async(torch.ones(3), op=hvd.Sum, name="polled")
        while not hvd.poll(handle):
            pass
        self.same(hvd.synchronize(handle), torch.full((3,), float(self.size)))
        self.assertIsNone(hvd.synchronize(handle))


class Gradients(Ranks):
    def gradient(self, operation, shape, upstream=None):
        x = of(self.rank, shape).requires_grad_()
        out = operation(x)
        out.backward(torch.ones_like(out) * (self.rank + 1) if upstream is None else upstream(out))
        return x.grad

    def test_of_reductions(self):
        total = sum(range(1, self.size + 1))
        self.same(self.gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), (3,)), torch.full((3,), float(total)))
        self.same(self.gradient(lambda x: hvd.allreduce(x), (3,)), torch.full((3,), total / self.size))
        self.same(self.gradient(lambda x: hvd.grouped_allreduce([x, x * 2], op=hvd.Sum)[1], (3,)),
                  torch.full((3,), 2.0 * total))
        expected = torch.arange(1.0, self.size + 1)
        self.same(self.gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum), (self.size,)), expected)
        self.same(self.gradient(lambda x: hvd.reducescatter(x), (self.size,)), expected / self.size)

    def test_of_movements(self):
        total = float(sum(range(1, self.size + 1)))
        self.same(self.gradient(hvd.allgather, (self.rank + 1, 2)), torch.full((self.rank + 1, 2), total))
        self.same(self.gradient(lambda x: hvd.broadcast(x, 1), (2,)),
                  torch.full((2,), total if self.rank == 1 else 0.0))
        self.same(self.gradient(hvd.alltoall, (self.size,)), torch.arange(1.0, self.size + 1))


class Refusals(Ranks):
    def test_tensors_elsewhere_and_of_other_layouts(self):
        with self.assertRaisesRegex(NotImplementedError, "tensors of the CPU and of CUDA devices"):
            hvd.allreduce(torch.ones(2, device="meta"))
        with self.assertRaisesRegex(ValueError, "sparse_allreduce_async"):
            hvd.allreduce(torch.ones(2, 2).to_sparse())
        with self.assertRaises(TypeError):
            hvd.allreduce([1.0, 2.0])
        self.same(hvd.allreduce(torch.ones(1), op=hvd.Sum), torch.full((1,), float(self.size)))

    def test_who_is_who(self):
        self.assertTrue(hvd.is_initialized())
        self.assertEqual((hvd.local_size(), hvd.cross_rank(), hvd.cross_size()), (self.size, 0, 1))
        self.assertEqual(hvd.local_rank(), self.rank)
        self.assertTrue(hvd.is_homogeneous())


if __name__ == "__main__":
    main()
