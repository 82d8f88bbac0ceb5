"""The names of anello.horovod.torch."""

from anello.horovod import torch as _names
from anello.horovod.torch import *  # noqa: F401,F403

from horovod.torch import elastic  # noqa: F401

__all__ = _names.__all__
