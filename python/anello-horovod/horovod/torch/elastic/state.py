"""The states of anello.horovod.torch.elastic."""

from anello.horovod.torch.elastic import ObjectState, State, TorchState

__all__ = ["ObjectState", "State", "TorchState"]
