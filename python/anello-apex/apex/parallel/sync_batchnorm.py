"""apex.parallel.sync_batchnorm, from which some scripts import."""

from anello.apex.parallel import SyncBatchNorm  # noqa: F401
