"""What the cases of apex.amp share: a small network that each rank trains on its own batch."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from apex import amp
from case import Ranks

INITIAL = 2.0 ** 16


def net():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))


def initialize(*arguments, **named):
    return amp.initialize(*arguments, **{"verbosity": 0, **named})


class Amp(Ranks):
    def setUp(self):
        super().setUp()
        self.x = torch.randn(self.size, 64, 8)
        self.y = (self.x.sum(-1) > 0).long()

    def tearDown(self):
        initialize(nn.Linear(1, 1), opt_level="O0")  # functions of torch cast no more

    def sgd(self, model, **named):
        return torch.optim.SGD(model.parameters(), **{"lr": 0.1, "momentum": 0.9, **named})

    def made(self, level, **named):
        model = net()
        return initialize(model, self.sgd(model), opt_level=level, **named)

    def loss(self, model):
        return functional.cross_entropy(model(self.x[self.rank]), self.y[self.rank])

    def step(self, model, optimizer, factor=1.0, **named):
        loss = self.loss(model) * factor
        with amp.scale_loss(loss, optimizer, **named) as scaled:
            scaled.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def equal_on_all(self, tensors):
        for each in tensors:
            theirs = [torch.empty_like(each) for _ in range(self.size)]
            dist.all_gather(theirs, each.detach())
            for other in theirs:
                self.same(other, each.detach())
