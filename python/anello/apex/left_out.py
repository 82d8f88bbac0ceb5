"""The parts of Apex that Anello does not have, and what a program can use instead."""

INSTEAD = {
    "RNN": "torch.nn.LSTM, GRU or RNN",
    "contrib": "the functions of torch that do the same",
    "fp16_utils": "amp.initialize with opt_level O2, which has replaced it in Apex too",
    "fused_dense": "torch.nn.Linear",
    "mlp": "torch.nn.Sequential of torch.nn.Linear",
    "multi_tensor_apply": "torch._foreach_* functions",
    "normalization": "torch.nn.LayerNorm and torch.nn.RMSNorm",
    "optimizers": "torch.optim, for example torch.optim.AdamW(.., fused=True)",
    "pyprof": "torch.profiler",
    "reparameterization": "torch.nn.utils.parametrizations.weight_norm",
    "transformer": "torch.distributed.tensor.parallel",
}


class LeftOut(ImportError, NotImplementedError):
    """An ImportError too, so that a program which tries a part of Apex and does without it goes on."""


def refuse(name):
    """Raises LeftOut if this is the name of a part that is left out."""
    if name in INSTEAD:
        raise LeftOut(f"apex.{name} is not part of anello-apex: use {INSTEAD[name]}", name=f"apex.{name}")
