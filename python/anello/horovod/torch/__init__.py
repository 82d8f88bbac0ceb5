"""The names of horovod.torch:

    import anello.horovod.torch as hvd
    hvd.init()

docs/horovod.md says what is there and what is not.
"""

from anello.horovod.errors import HorovodInternalError
from anello.horovod.process_set import ProcessSet, global_process_set
from anello.horovod.torch import elastic
from anello.horovod.torch.asynchronous import (allgather_async, allreduce_async, allreduce_async_, alltoall_async,
                                               broadcast_async, broadcast_async_, grouped_allgather_async,
                                               grouped_allreduce_async, grouped_allreduce_async_,
                                               grouped_reducescatter_async, reducescatter_async, sparse_allreduce_async)
from anello.horovod.torch.basics import (add_process_set, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                                         get_process_set_ids_and_ranks, gloo_built, gloo_enabled, init, is_homogeneous,
                                         is_initialized, local_rank, local_size, mpi_built, mpi_enabled,
                                         mpi_threads_supported, nccl_built, rank, remove_process_set, rocm_built,
                                         shutdown, size, start_timeline, stop_timeline)
from anello.horovod.torch.compression import Compression
from anello.horovod.torch.functions import (allgather_object, broadcast_object, broadcast_optimizer_state,
                                            broadcast_parameters)
from anello.horovod.torch.handles import poll, synchronize
from anello.horovod.torch.operations import (allgather, allreduce, allreduce_, alltoall, barrier, broadcast, broadcast_,
                                             grouped_allgather, grouped_allreduce, grouped_allreduce_,
                                             grouped_reducescatter, join, reducescatter)
from anello.horovod.torch.optimizer import DistributedOptimizer
from anello.horovod.torch.reductions import Adasum, Average, Max, Min, Product, Sum
from anello.horovod.torch.sync_batch_norm import SyncBatchNorm

__all__ = [name for name in dir() if not name.startswith("_")]
