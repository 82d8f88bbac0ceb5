"""Training that goes on when a rank is lost:

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, epochs):
            ...
            state.commit()

    train(hvd.elastic.TorchState(model, optimizer, epoch=0))
"""

from anello.horovod.errors import HorovodInternalError, HostsUpdatedInterrupt
from anello.horovod.torch.elastic.run import run
from anello.horovod.torch.elastic.sampler import ElasticSampler
from anello.horovod.torch.elastic.state import ObjectState, State, TorchState

__all__ = [
    "ElasticSampler", "HorovodInternalError", "HostsUpdatedInterrupt", "ObjectState", "State", "TorchState", "run"
]
