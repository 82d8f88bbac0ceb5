"""Each name of Apex that is there, with the parameters and defaults that Apex gives it; and what is left out."""

import importlib
import inspect
import unittest

import anello.apex
import apex
from case import main

REQUIRED = inspect.Parameter.empty
PARALLEL = {
    "DistributedDataParallel": dict(
        module=REQUIRED, message_size=10000000, delay_allreduce=False, shared_param=None, allreduce_trigger_params=None,
        retain_allreduce_buffers=False, allreduce_always_fp32=False, num_allreduce_streams=1,
        allreduce_communicators=None, gradient_average=True, gradient_predivide_factor=1.0,
        gradient_average_split_factor=None, prof=False),
    "Reducer": dict(module_or_grads_list=REQUIRED),
    "SyncBatchNorm": dict(num_features=REQUIRED, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
                          process_group=None, channel_last=False, fuse_relu=False),
    "convert_syncbn_model": dict(module=REQUIRED, process_group=None, channel_last=False),
    "create_syncbn_process_group": dict(group_size=REQUIRED),
    "LARC": dict(optimizer=REQUIRED, trust_coefficient=0.02, clip=True, eps=1e-8),
}
AMP = {
    "initialize": dict(
        models=REQUIRED, optimizers=None, enabled=True, opt_level="O1", cast_model_type=None,
        patch_torch_functions=None, keep_batchnorm_fp32=None, master_weights=None, loss_scale=None,
        cast_model_outputs=None, num_losses=1, verbosity=1, min_loss_scale=None, max_loss_scale=2.0 ** 24),
    "scale_loss": dict(loss=REQUIRED, optimizers=REQUIRED, loss_id=0, model=None, delay_unscale=False,
                       delay_overflow_check=False),
    "master_params": dict(optimizer=REQUIRED),
    "state_dict": dict(destination=None),
    "load_state_dict": dict(state_dict=REQUIRED),
    "disable_casts": dict(),
    "init": dict(enabled=True, loss_scale="dynamic", enable_caching=True, verbose=False, allow_banned=False),
    "half_function": dict(fn=REQUIRED),
    "float_function": dict(fn=REQUIRED),
    "promote_function": dict(fn=REQUIRED),
    "register_half_function": dict(module=REQUIRED, name=REQUIRED),
    "register_float_function": dict(module=REQUIRED, name=REQUIRED),
    "register_promote_function": dict(module=REQUIRED, name=REQUIRED),
}
OURS = {"DistributedDataParallel": ["device_ids", "output_device"]}  # by name only, and ignored


class Names(unittest.TestCase):
    def test_parameters_and_defaults(self):
        for part, names in (("parallel", PARALLEL), ("amp", AMP)):
            module, ours = importlib.import_module(f"apex.{part}"), importlib.import_module(f"anello.apex.{part}")
            self.assertEqual(sorted(ours.__all__), sorted(names))
            for name, expected in names.items():
                with self.subTest(name=f"{part}.{name}"):
                    self.assertIs(getattr(module, name), getattr(ours, name))
                    parameters = inspect.signature(getattr(module, name)).parameters
                    found = {each.name: each.default for each in parameters.values() if each.kind != each.KEYWORD_ONLY}
                    self.assertEqual(list(found.items()), list(expected.items()))
                    self.assertEqual([each.name for each in parameters.values() if each.kind == each.KEYWORD_ONLY],
                                     OURS.get(name, []))

    def test_modules_that_scripts_import_from(self):
        from apex.parallel import distributed, multiproc, sync_batchnorm
        from apex.parallel.LARC import LARC

        self.assertIs(LARC, apex.parallel.LARC)
        self.assertIs(distributed.DistributedDataParallel, apex.parallel.DistributedDataParallel)
        self.assertIs(sync_batchnorm.SyncBatchNorm, apex.parallel.SyncBatchNorm)
        self.assertTrue(callable(multiproc.main))
        self.assertEqual(apex.amp._amp_state.loss_scalers, [])

    def test_what_is_left_out_says_what_to_use(self):
        from apex import optimizers

        for kind in (NotImplementedError, ImportError):
            with self.assertRaisesRegex(kind, "apex.optimizers.FusedAdam is not part of anello-apex: use torch.optim"):
                from apex.optimizers import FusedAdam  # noqa: F401
        for act in (lambda: apex.normalization.FusedLayerNorm, lambda: anello.apex.normalization.FusedLayerNorm,
                    lambda: optimizers.FusedSGD, lambda: importlib.import_module("apex.contrib.sparsity")):
            with self.assertRaises(NotImplementedError):
                act()
        with self.assertRaises(AttributeError):
            apex.nothing
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("apex.nothing")

    def test_modules_that_scripts_import_without_need(self):
        space = {}
        exec("from apex.fp16_utils import *\n"
             "from apex import amp, optimizers\n"
             "from apex.multi_tensor_apply import multi_tensor_applier\n", space)
        self.assertIs(space["amp"], apex.amp)
        self.assertIs(inspect.getmodule(space["optimizers"]), space["optimizers"])
        self.assertIs(importlib.import_module("apex.optimizers"), space["optimizers"])
        self.assertFalse(space["multi_tensor_applier"].available)
        with self.assertRaisesRegex(NotImplementedError, "torch._foreach_"):
            space["multi_tensor_applier"](None, None, [])

    def test_without_a_process_group(self):
        import torch

        for act in (lambda: apex.parallel.DistributedDataParallel(torch.nn.Linear(1, 1)),
                    lambda: apex.parallel.Reducer([]), lambda: apex.parallel.create_syncbn_process_group(2)):
            with self.assertRaisesRegex(RuntimeError, "init_process_group"):
                act()
        with self.assertRaisesRegex(RuntimeError, "before amp.initialize"), apex.amp.scale_loss(torch.ones(1), []):
            pass


if __name__ == "__main__":
    main()
