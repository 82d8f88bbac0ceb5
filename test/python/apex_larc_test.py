"""apex.parallel.LARC, against the formula written out."""

import torch
from torch import nn

from apex import amp
from apex.parallel import LARC, DistributedDataParallel
from apex_case import Amp, initialize, net
from case import main


def plain_step(weight, gradient, momentum, rate, decay, trust, clip, eps):
    """One step of SGD with momentum 0.9, in numbers of Python. Returns the new weight and momentum."""
    size, slope = (sum(each * each for each in values) ** 0.5 for values in (weight, gradient))
    factor = 1.0
    if size != 0 and slope != 0:
        gradient = [g + decay * w for g, w in zip(gradient, weight)]
        factor = trust * size / (slope + decay * size + eps)
        if clip:
            factor = min(factor / rate, 1.0)
    gradient = [factor * each for each in gradient]
    momentum = gradient if momentum is None else [0.9 * m + g for m, g in zip(momentum, gradient)]
    return [w - rate * m for w, m in zip(weight, momentum)], momentum


class Formula(Amp):
    def test_steps(self):
        for clip in (True, False):
            for decay in (0.0, 0.1):
                for trust in (0.02, 50.0):  # with clip, the first is less than the optimizer's rate
                    for start in ([3.0, -2.0, 1.0], [0.0, 0.0, 0.0]):
                        with self.subTest(clip=clip, decay=decay, trust=trust, start=start):
                            self.compare(start, clip, decay, trust)

    def compare(self, start, clip, decay, trust):
        weight = nn.Parameter(torch.tensor(start, dtype=torch.float64))
        idle = nn.Parameter(torch.ones(2))
        inner = torch.optim.SGD([weight, idle], lr=0.1, momentum=0.9, weight_decay=decay)
        optimizer = LARC(inner, trust, clip, eps=1e-3)
        expected, momentum = start, None
        for step in range(3):
            gradient = [1.0 + step, 2.0, -0.5]
            weight.grad = torch.tensor(gradient, dtype=torch.float64)
            optimizer.step()
            expected, momentum = plain_step(expected, gradient, momentum, 0.1, decay, trust, clip, 1e-3)
        self.close(weight.detach(), torch.tensor(expected, dtype=torch.float64))
        self.same(idle.detach(), torch.ones(2))
        self.assertEqual(optimizer.param_groups[0]["weight_decay"], decay)

    def test_it_stands_for_its_optimizer(self):
        weight = nn.Parameter(torch.ones(3))
        inner = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        optimizer = LARC(inner)
        self.assertEqual((optimizer.trust_coefficient, optimizer.clip, optimizer.eps), (0.02, True, 1e-8))
        weight.grad = torch.ones(3)
        optimizer.step()
        self.assertIs(optimizer.state, inner.state)
        self.assertEqual(str(optimizer.state_dict()), str(inner.state_dict()))
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
        self.assertEqual(len(inner.param_groups), 2)
        optimizer.zero_grad()
        self.assertIsNone(weight.grad)
        self.assertIn("SGD", repr(optimizer))

    def test_a_step_that_fails_gives_the_weight_decay_back(self):
        weight = nn.Parameter(torch.ones(3))
        inner = torch.optim.SGD([weight], lr=0.1, weight_decay=0.5)

        def fails():
            raise ValueError("on purpose")

        inner.step = fails
        with self.assertRaisesRegex(ValueError, "on purpose"):
            LARC(inner).step()
        self.assertEqual(inner.param_groups[0]["weight_decay"], 0.5)

    def test_under_amp_and_ddp(self):
        for level in ("O1", "O2"):
            model = net()
            optimizer = LARC(self.sgd(model, weight_decay=1e-4), trust_coefficient=0.1)
            model, optimizer = initialize(model, optimizer, opt_level=level)
            wrapped = DistributedDataParallel(model)
            losses = [self.step(wrapped, optimizer) for _ in range(40)]
            self.assertLess(losses[-1], losses[0] / 2)
            self.equal_on_all(amp.master_params(optimizer))


if __name__ == "__main__":
    main()
