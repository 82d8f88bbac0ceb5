"""apex.parallel: data parallelism over torch.distributed's default group, whatever its backend."""

from anello.apex.parallel.data_parallel import DistributedDataParallel
from anello.apex.parallel.larc import LARC
from anello.apex.parallel.reducer import Reducer
from anello.apex.parallel.sync_batchnorm import SyncBatchNorm, convert_syncbn_model, create_syncbn_process_group

__all__ = ["DistributedDataParallel", "LARC", "Reducer", "SyncBatchNorm", "convert_syncbn_model",
           "create_syncbn_process_group"]
