"""amp.initialize, and the state that a checkpoint of the loss scalers holds."""

import collections
import warnings

from anello.apex.amp import casts, model, optimizer, options as levels
from anello.apex.amp.loss_scaler import LossScaler
from anello.apex.amp.state import state


def initialize(models, optimizers=None, enabled=True, opt_level="O1", cast_model_type=None, patch_torch_functions=None,
               keep_batchnorm_fp32=None, master_weights=None, loss_scale=None, cast_model_outputs=None, num_losses=1,
               verbosity=1, min_loss_scale=None, max_loss_scale=2.**24):
    """Prepares models and optimizers, changed in place, and returns them in the form in which they came.

    opt_level: O0 float32; O1 a float32 model, with autocast; O2 a 16-bit model with float32 batch norm and master
    weights; O3 a 16-bit model. 16 bits are float16 on CUDA and bfloat16 on the CPU. The other options change a level's
    defaults. Wrap models in DistributedDataParallel afterwards."""
    model_list, optimizer_list = _listed(models), _listed(optimizers)
    state.verbosity = verbosity
    options, said = levels.choose(opt_level, cast_model_type=cast_model_type,
                                  patch_torch_functions=patch_torch_functions,
                                  keep_batchnorm_fp32=keep_batchnorm_fp32, master_weights=master_weights,
                                  loss_scale=loss_scale)
    options.enabled = enabled
    if enabled:
        for each in model_list:
            model.check(each)
        for each in optimizer_list:
            optimizer.check(each)
    state.opt_properties = options
    state.loss_scalers = [LossScaler(options.loss_scale, min_loss_scale, max_loss_scale) for _ in range(num_losses)]
    casts.activate(enabled and options.patch_torch_functions)
    if enabled:
        state.say(said)
        for each in model_list:
            model.prepare(each, options, cast_model_outputs)
        for each in optimizer_list:
            optimizer.Stash(each, options)
    return models if optimizers is None else (models, optimizers)


def state_dict(destination=None):
    """The loss scalers, for a checkpoint."""
    destination = collections.OrderedDict() if destination is None else destination
    for i, each in enumerate(state.loss_scalers):
        destination[f"loss_scaler{i}"] = each.state_dict()
    return destination


def load_state_dict(state_dict):
    """After amp.initialize with the same number of losses."""
    names = [f"loss_scaler{i}" for i in range(len(state.loss_scalers))]
    unknown = [name for name in state_dict if not name.startswith("loss_scaler")]
    if unknown:
        raise RuntimeError(f"the state of amp has entries that amp does not know: {', '.join(unknown)}")
    if set(names) != set(state_dict):
        warnings.warn(f"the state of amp has {len(state_dict)} loss scalers, but amp.initialize has made {len(names)}: "
                      "only those in both are loaded", stacklevel=2)
    for name, each in zip(names, state.loss_scalers):
        if name in state_dict:
            each.load_state_dict(state_dict[name])


def _listed(given):
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]
