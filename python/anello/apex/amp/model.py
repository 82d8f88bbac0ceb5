"""What amp.initialize does to a model."""

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from anello.apex.amp import casts
from anello.apex.amp.state import state
from anello.apex.parallel import DistributedDataParallel

_WRAPPERS = (DistributedDataParallel, torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)


def check(model):
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"amp.initialize takes modules; this is a {type(model).__name__}")
    if isinstance(model, _WRAPPERS):
        raise RuntimeError("amp.initialize got a model inside a parallel wrapper: wrap what amp.initialize returns")
    if getattr(model, "_amp_initialized", False):
        raise RuntimeError("this model was already given to amp.initialize, which changes a model only once")
    for name, each in model.named_parameters():
        if each.is_floating_point() and each.dtype not in (torch.float32, torch.float64):
            raise RuntimeError(f"the parameter {name} is {each.dtype}: amp.initialize takes models in float32 and "
                               "casts them itself, so leave out .half() or .bfloat16()")


def prepare(model, options, cast_model_outputs):
    model._amp_initialized = True
    model.register_load_state_dict_post_hook(_loaded)
    if options.patch_torch_functions:
        casts.Autocast().attach(model)
    if options.cast_model_type is not None:
        cast(model, options.cast_model_type, options.keep_batchnorm_fp32)
        model.register_forward_pre_hook(_Inputs(options.cast_model_type), with_kwargs=True)
    if options.opt_level == "O2":
        model.register_state_dict_post_hook(_in_float32)
    outputs = cast_model_outputs
    if outputs is None and options.cast_model_type is not None:
        outputs = torch.float32
    if outputs is not None:
        model.register_forward_hook(_Outputs(outputs))


def cast(model, dtype, keeps_batchnorm):
    """Casts parameters and buffers; not those of batch norm if it keeps them."""
    with torch.no_grad():
        for module in model.modules():
            if keeps_batchnorm and isinstance(module, _BatchNorm):
                continue
            for each in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                if each.is_floating_point():
                    each.data = casts.to_type(dtype, each.data)
                    if each.grad is not None:
                        each.grad = None  # of another type than the parameter


class _Inputs:
    def __init__(self, dtype):
        self._dtype = dtype

    def __call__(self, module, arguments, named):
        return casts.to_type(self._dtype, (arguments, named))


class _Outputs:
    def __init__(self, dtype):
        self._dtype = dtype

    def __call__(self, module, arguments, output):
        return casts.to_type(self._dtype, output)


def _in_float32(module, state_dict, prefix, metadata):
    """A checkpoint of a 16-bit model is one of the float32 model."""
    for name, value in state_dict.items():
        if name.startswith(prefix) and getattr(value, "dtype", None) in (torch.float16, torch.bfloat16):
            state_dict[name] = value.float()


def _loaded(module, incompatible):
    """Master weights have to follow the weights that were loaded."""
    for each in state.stashes:
        each.stale = True
