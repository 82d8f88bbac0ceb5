"""apex.parallel.distributed, from which some scripts import."""

from anello.apex.parallel import DistributedDataParallel, Reducer  # noqa: F401
