"""The sampler of anello.horovod.torch.elastic."""

from anello.horovod.torch.elastic import ElasticSampler

__all__ = ["ElasticSampler"]
