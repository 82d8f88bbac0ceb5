"""Every name of horovod.torch is there, with its arguments and their defaults."""

import inspect
import unittest

import anello.horovod.torch as hvd
from case import main

PS = {"process_set": hvd.global_process_set}
SCALES = {"prescale_factor": 1.0, "postscale_factor": 1.0}
NONE = hvd.Compression.none
SCATTER = {"name": None, "op": hvd.Average, **PS, **SCALES}
NEEDED = inspect.Parameter.empty

NOTHING = ("shutdown", "is_initialized", "stop_timeline", "size", "rank", "local_size", "local_rank", "cross_size",
           "cross_rank", "is_homogeneous", "mpi_threads_supported", "mpi_enabled", "mpi_built", "gloo_built",
           "nccl_built", "ddl_built", "ccl_built", "cuda_built", "rocm_built", "gloo_enabled",
           "get_process_set_ids_and_ranks")
REDUCES = {"average": None, "name": None, "op": None, **SCALES, **PS}
COMPRESSED = {"average": None, "name": None, "compression": NONE, "op": None, **SCALES, **PS}
BROADCAST = {"tensor": NEEDED, "root_rank": NEEDED, "name": None, **PS}
GATHER = {"name": None, **PS}
SCATTERS = {"name": None, "compression": NONE, "op": hvd.Average, **PS, **SCALES}
SIGNATURES = {
    **dict.fromkeys(NOTHING, {}),
    "init": {"comm": None, "process_sets": None},
    "start_timeline": {"file_path": NEEDED, "mark_cycles": False},
    "allreduce": {"tensor": NEEDED, **COMPRESSED},
    "grouped_allreduce": {"tensors": NEEDED, **COMPRESSED},
    **dict.fromkeys(("allreduce_", "allreduce_async", "allreduce_async_"), {"tensor": NEEDED, **REDUCES}),
    **dict.fromkeys(("grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_"),
                    {"tensors": NEEDED, **REDUCES}),
    "sparse_allreduce_async": {"tensor": NEEDED, "name": NEEDED, "op": NEEDED, **PS},
    **dict.fromkeys(("allgather", "allgather_async"), {"tensor": NEEDED, **GATHER}),
    **dict.fromkeys(("grouped_allgather", "grouped_allgather_async"), {"tensors": NEEDED, **GATHER}),
    **dict.fromkeys(("broadcast", "broadcast_", "broadcast_async", "broadcast_async_"), BROADCAST),
    **dict.fromkeys(("alltoall", "alltoall_async"), {"tensor": NEEDED, "splits": None, **GATHER}),
    "reducescatter": {"tensor": NEEDED, **SCATTERS},
    "grouped_reducescatter": {"tensors": NEEDED, **SCATTERS},
    "reducescatter_async": {"tensor": NEEDED, **SCATTER},
    "grouped_reducescatter_async": {"tensors": NEEDED, **SCATTER},
    "join": {"device": -1},
    "barrier": PS,
    "poll": {"handle": NEEDED},
    "synchronize": {"handle": NEEDED},
    "ProcessSet": {"ranks": NEEDED},
    "add_process_set": {"process_set": NEEDED},
    "remove_process_set": {"process_set": NEEDED},
    "broadcast_parameters": {"params": NEEDED, "root_rank": NEEDED},
    "broadcast_optimizer_state": {"optimizer": NEEDED, "root_rank": NEEDED, "model": None},
    "broadcast_object": {"obj": NEEDED, "root_rank": 0, "name": None, **PS},
    "allgather_object": {"obj": NEEDED, "name": None, **PS},
    "DistributedOptimizer": {"optimizer": NEEDED, "named_parameters": None, "compression": NONE,
                             "backward_passes_per_step": 1, "op": hvd.Average, "gradient_predivide_factor": 1.0,
                             "num_groups": 0, "groups": None, "sparse_as_dense": False, **PS},
    "SyncBatchNorm": {"num_features": NEEDED, "eps": 1e-5, "momentum": 0.1, "affine": True,
                      "track_running_stats": True},
    "elastic.run": {"func": NEEDED},
    "elastic.TorchState": {"model": None, "optimizer": None},
    "elastic.ElasticSampler": {"dataset": NEEDED, "shuffle": True, "seed": 0},
}
METHODS = {
    "elastic.TorchState": ("save", "restore", "sync", "commit", "check_host_updates", "register_reset_callbacks"),
    "elastic.ElasticSampler": ("set_epoch", "record_batch", "state_dict", "load_state_dict", "reset"),
    "ProcessSet": ("size", "rank", "included"),
    "Compression.none": ("compress", "decompress"), "Compression.fp16": ("compress", "decompress"),
}
OTHERS = ("global_process_set", "Average", "Sum", "Adasum", "Min", "Max", "Product", "Compression",
          "HorovodInternalError")


def named(path):
    found = hvd
    for part in path.split("."):
        found = getattr(found, part)
    return found


class Names(unittest.TestCase):
    def test_functions_have_their_arguments_and_defaults(self):
        for name, expected in SIGNATURES.items():
            with self.subTest(name=name):
                found = {each.name: each.default for each in inspect.signature(named(name)).parameters.values()
                         if each.kind is not each.VAR_KEYWORD}
                self.assertEqual(found, expected)
                self.assertEqual(list(found), list(expected))

    def test_methods_and_constants(self):
        for name, methods in METHODS.items():
            for method in methods:
                self.assertTrue(callable(getattr(named(name), method)), f"{name}.{method}")
        for name in OTHERS:
            self.assertIn(name, vars(hvd))
        self.assertTrue(issubclass(hvd.HorovodInternalError, RuntimeError))

    def test_before_init(self):
        self.assertFalse(hvd.is_initialized())
        for call in (hvd.rank, hvd.size, hvd.local_rank, hvd.is_homogeneous, hvd.join, hvd.barrier):
            with self.assertRaisesRegex(ValueError, "call hvd.init"):
                call()
        hvd.shutdown()

    def test_what_is_said_to_be_built(self):
        self.assertEqual((hvd.mpi_built(), hvd.mpi_enabled(), hvd.gloo_built(), hvd.gloo_enabled(), hvd.nccl_built(),
                          hvd.cuda_built(), hvd.rocm_built(), hvd.ccl_built(), hvd.ddl_built()),
                         (False, False, True, True, 0, False, False, False, False))


if __name__ == "__main__":
    main()
