"""DataParallel of one process, over CPU workers and over CUDA devices, and the ranks that are its threads."""

import copy
import os
import pickle
import threading
import unittest

import case
import torch
from torch import nn

import anello.torch
from anello.torch.rank_threads import RankThreads


def network():
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3))


def data(rows=12):
    chance = torch.Generator().manual_seed(3)
    return torch.randn(rows, 6, generator=chance), torch.randint(0, 3, (rows,), generator=chance)


class OnDevices:
    """The cases, for self.devices, a list."""

    def setUp(self):
        torch.manual_seed(7)

    def train(self, model, parameters, steps=20):
        optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        losses = []
        inputs, labels = (each.to(self.devices[0]) for each in data())
        for _ in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def test_the_losses_are_those_of_one_process(self):
        alone = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(self.devices[0])
        shared = copy.deepcopy(alone)
        parallel = anello.torch.DataParallel(shared, self.devices)
        expected, losses = self.train(alone, alone.parameters()), self.train(parallel, parallel.parameters())
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-4, atol=1e-5)
        self.assertLess(losses[-1], 0.8 * losses[0])
        for mine, other in zip(shared.parameters(), alone.parameters()):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)

    def test_replicas_compute_at_once_as_threads(self):
        meeting, threads = threading.Barrier(len(self.devices)), set()

        class Meets(nn.Linear):
            def forward(self, x):
                meeting.wait(20)  # breaks unless all replicas are in it
                threads.add(threading.current_thread().name)
                return super().forward(x)

        inputs = data()[0].to(self.devices[0])
        out = anello.torch.DataParallel(Meets(6, 2).to(self.devices[0]), self.devices)(inputs)
        self.assertEqual(out.shape, (12, 2))
        self.assertEqual(threads, {f"anello-rank-{rank}_0" for rank in range(len(self.devices))})

    def test_structures_go_in_and_out(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 2)

            def forward(self, pair, *, scale, name):
                y = self.layer(pair["x"]) * scale
                return {"y": y, "rows": (pair["n"] + 1, name), "loss": y.sum(), "none": None}

        model = Model().to(self.devices[0])
        x, _ = data(8)
        x, n = x.to(self.devices[0]), torch.arange(8).to(self.devices[0])
        out = anello.torch.DataParallel(model, self.devices)({"x": x, "n": n}, scale=torch.tensor(2.0), name="it")
        expected = model({"x": x, "n": n}, scale=2.0, name="it")
        torch.testing.assert_close(out["y"], expected["y"])
        self.assertEqual(out["rows"][0].tolist(), list(range(1, 9)))
        self.assertEqual((out["rows"][1], out["none"]), ("it", None))
        self.assertEqual(out["loss"].shape, (len(self.devices),))  # one of each replica
        torch.testing.assert_close(out["loss"].sum(), expected["loss"])

    def test_gradients_of_inputs_shared_and_unused_parameters(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second, self.idle = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(2, 2)
                self.second.weight = self.first.weight
                self.first.bias.requires_grad_(False)

            def forward(self, x):
                return self.second(torch.tanh(self.first(x)))

        model = Tied().to(self.devices[0])
        other = copy.deepcopy(model)
        inputs = [data()[0].to(self.devices[0]).requires_grad_() for _ in range(2)]
        anello.torch.DataParallel(model, self.devices)(inputs[0]).pow(2).mean().backward()
        other(inputs[1]).pow(2).mean().backward()
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
        torch.testing.assert_close(model.first.weight.grad, other.first.weight.grad)
        self.assertIsNone(model.idle.weight.grad)
        self.assertIsNone(model.first.bias.grad)

    def test_fewer_rows_than_replicas(self):
        model = network().to(self.devices[0]).eval()
        parallel = anello.torch.DataParallel(model, self.devices)
        for rows in range(1, len(self.devices)):
            inputs = data(rows)[0].to(self.devices[0])
            model.zero_grad()
            parallel(inputs).sum().backward()
            gradient = model[0].weight.grad.clone()
            model.zero_grad()
            model(inputs).sum().backward()
            torch.testing.assert_close(gradient, model[0].weight.grad)

    def test_the_first_replicas_buffers_stay(self):
        model = network().to(self.devices[0])
        parallel = anello.torch.DataParallel(model, self.devices)
        inputs = data()[0].to(self.devices[0])
        parallel(inputs)
        self.assertEqual(model[1].num_batches_tracked.item(), 1)
        first = network().to(self.devices[0])
        first.load_state_dict({name: each for name, each in parallel.module.state_dict().items() if "running" not in name
                               and "tracked" not in name}, strict=False)
        first(inputs.chunk(len(self.devices))[0])
        torch.testing.assert_close(model[1].running_mean, first[1].running_mean)

    def test_no_grad_and_autocast_reach_the_threads(self):
        parallel = anello.torch.DataParallel(nn.Linear(6, 3).to(self.devices[0]), self.devices)
        inputs = data()[0].to(self.devices[0])
        with torch.no_grad():
            self.assertFalse(parallel(inputs).requires_grad)
        with torch.autocast(torch.device(self.devices[0]).type, torch.bfloat16):
            out = parallel(inputs)
        self.assertEqual(out.dtype, torch.bfloat16)
        out.float().sum().backward()
        self.assertEqual(parallel.module.weight.grad.dtype, torch.float32)

    def test_a_graph_can_be_kept_and_is_freed(self):
        parallel = anello.torch.DataParallel(nn.Linear(6, 3).to(self.devices[0]), self.devices)
        loss = parallel(data()[0].to(self.devices[0])).pow(2).sum()
        loss.backward(retain_graph=True)
        once = parallel.module.weight.grad.clone()
        loss.backward()
        torch.testing.assert_close(parallel.module.weight.grad, 2 * once)
        with self.assertRaisesRegex(RuntimeError, "second time"):
            loss.backward()

    def test_an_error_names_its_replica_and_the_model_stays_usable(self):
        class Refuses(nn.Linear):
            def forward(self, x):
                if (x > 100).any():
                    raise ArithmeticError("too large")
                return super().forward(x)

        parallel = anello.torch.DataParallel(Refuses(6, 3).to(self.devices[0]), self.devices)
        inputs = data()[0].to(self.devices[0])
        bad = inputs.clone()
        bad[-1] = 1000
        with self.assertRaisesRegex(ArithmeticError, f"replica {len(self.devices) - 1} on .*too large"):
            parallel(bad)
        parallel(inputs).sum().backward()

    def test_a_copy_and_a_pickle_have_threads_of_their_own(self):
        parallel = anello.torch.DataParallel(network().to(self.devices[0]).eval(), self.devices)
        inputs = data()[0].to(self.devices[0])
        expected = parallel(inputs)
        self.assertEqual(list(parallel.state_dict())[0], "module.0.weight")
        for other in (copy.deepcopy(parallel), pickle.loads(pickle.dumps(parallel))):
            self.assertIsNone(other._ranks)
            torch.testing.assert_close(other(inputs), expected)


class OnTheCpu(OnDevices, unittest.TestCase):
    devices = ["cpu"] * 3


@unittest.skipUnless(torch.cuda.is_available(), "no CUDA device")
class OnOneCudaDevice(OnDevices, unittest.TestCase):
    devices = ["cuda:0"] * 3


@unittest.skipUnless(torch.cuda.device_count() > 1, "no two CUDA devices")
class OnCudaDevices(OnDevices, unittest.TestCase):
    devices = [0, 1]


class Arguments(unittest.TestCase):
    def test_one_device_is_the_module_itself(self):
        module = nn.Linear(6, 3)
        parallel = anello.torch.DataParallel(module, ["cpu"])
        inputs = data()[0]
        torch.testing.assert_close(parallel(inputs), module(inputs), rtol=0, atol=0)
        self.assertIsNone(parallel._ranks)

    def test_what_is_refused(self):
        for devices, text in (([], "is empty"), (["cpu", "meta"], "cpu and meta"), (["meta"], "CPU workers or CUDA devices")):
            with self.assertRaisesRegex(ValueError, text):
                anello.torch.DataParallel(nn.Linear(6, 3), devices)
        with self.assertRaisesRegex(RuntimeError, r"device_ids\[0\]"):
            anello.torch.DataParallel(nn.Linear(6, 3, device="meta"), ["cpu"] * 2)(data()[0])
        bilinear = anello.torch.DataParallel(nn.Bilinear(6, 6, 1), ["cpu"] * 2)
        with self.assertRaisesRegex(ValueError, "do not give equally many parts"):
            bilinear(torch.zeros(4, 6), torch.zeros(1, 6))
        sparse = anello.torch.DataParallel(nn.Embedding(4, 2, sparse=True), ["cpu"] * 2)
        out = sparse(torch.arange(4)).sum()
        with self.assertRaisesRegex(RuntimeError, "sparse"):
            out.backward()

    def test_another_dimension(self):
        parallel = anello.torch.DataParallel(nn.Tanh(), ["cpu"] * 2, dim=1)
        x = torch.randn(3, 8)
        torch.testing.assert_close(parallel(x), torch.tanh(x))


class Ranks(unittest.TestCase):
    def test_the_first_has_the_sum(self):
        ranks = RankThreads(3)
        tensors = [torch.arange(5.0) * (rank + 1) for rank in range(3)]
        ranks.run([lambda rank=rank: ranks.reduce_to_first(rank, tensors[rank]) for rank in range(3)])
        self.assertEqual(tensors[0].tolist(), (torch.arange(5.0) * 6).tolist())
        self.assertEqual([each.transport(each.rank - 1 if each.rank else 1) for each in ranks.communicators], ["inproc"] * 3)

    def test_a_forked_child_is_refused(self):
        ranks = RankThreads(2)
        child = os.fork()
        if child == 0:
            try:
                ranks.run([int, int])
            except RuntimeError as error:
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


if __name__ == "__main__":
    case.main()
