"""The names of anello.horovod.torch.elastic."""

from anello.horovod.torch.elastic import *  # noqa: F401,F403
