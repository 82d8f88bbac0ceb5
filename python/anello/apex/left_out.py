"""The parts of Apex that Anello does not have, and what a program can use instead."""

import types

INSTEAD = {
    "RNN": "torch.nn.LSTM, GRU or RNN",
    "contrib": "the functions of torch that do the same",
    "fp16_utils": "amp.initialize with opt_level O2, which has replaced it in Apex too",
    "fused_dense": "torch.nn.Linear",
    "mlp": "torch.nn.Sequential of torch.nn.Linear",
    "multi_tensor_apply": "torch._foreach_* functions",
    "normalization": "torch.nn.LayerNorm or torch.nn.RMSNorm",
    "optimizers": "torch.optim, for example torch.optim.AdamW(.., fused=True)",
    "pyprof": "torch.profiler",
    "reparameterization": "torch.nn.utils.parametrizations.weight_norm",
    "transformer": "torch.distributed.tensor.parallel",
}


class LeftOut(ImportError, NotImplementedError):
    """An ImportError too, so that a program which tries a part of Apex and does without it goes on."""


class Part(types.ModuleType):
    """A module that is left out. Scripts import such modules without need: only taking a name from one raises."""

    __all__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name == "multi_tensor_applier":
            return Applier()
        refuse(f"{self.__name__}.{name}")


class Applier:
    """apex.multi_tensor_apply.multi_tensor_applier, which many scripts import and few call. It is as in an Apex that
    was built without its kernels."""

    available = False

    def __call__(self, *arguments):
        refuse("apex.multi_tensor_apply.multi_tensor_applier")


def refuse(name):
    """Raises LeftOut for a name such as apex.optimizers.FusedAdam."""
    part = name.split("apex.", 1)[1].split(".")[0]
    raise LeftOut(f"{name} is not part of anello-apex: use {INSTEAD[part]}", name=name)
