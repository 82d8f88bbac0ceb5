"""scale_loss: a backward pass whose loss is multiplied, and whose gradients are divided again."""

import contextlib

import torch

from anello.apex import ranks
from anello.apex.amp import casts
from anello.apex.amp.optimizer import stash_of
from anello.apex.amp.state import state


@contextlib.contextmanager
def scale_loss(loss, optimizers, loss_id=0, model=None, delay_unscale=False, delay_overflow_check=False):
    """Gives the loss, scaled, for backward(); afterwards gradients are as those of the loss itself.

    If a gradient overflowed on any rank, all ranks skip the next step of these optimizers and halve the scale: so all
    ranks use the context equally often. With delay_unscale gradients keep the scale until a later call without it. With
    delay_overflow_check a later call decides about the step. model has no effect, as in Apex."""
    if state.opt_properties is None:
        raise RuntimeError("amp.scale_loss was called before amp.initialize: initialize the model and the optimizer")
    if not state.opt_properties.enabled:
        yield loss
        return
    if not 0 <= loss_id < len(state.loss_scalers):
        raise IndexError(f"loss_id is {loss_id}, but amp.initialize was told of {len(state.loss_scalers)} losses: give "
                         f"it num_losses={loss_id + 1}")
    scaler = state.loss_scalers[loss_id]
    stashes = [stash_of(each) for each in (optimizers if isinstance(optimizers, (list, tuple)) else [optimizers])]
    for each in stashes:
        each.prepare()
    try:
        with casts.disable_casts():  # the backward pass computes in the types of the forward pass
            yield loss.float() * scaler.loss_scale()
    except BaseException:
        for each in stashes:
            each.restore()
        raise
    if delay_unscale:
        for each in stashes:
            each.scaled = True
        return
    found = {}
    for each in stashes:
        each.unscale(scaler.loss_scale(), found)
    if scaler.dynamic and ranks.any_rank(_together(found, loss.device)):
        scaler.overflowed = True
    if not delay_overflow_check and scaler.update():
        for each in stashes:
            each.skip(f"Gradient overflow. Skipping step, loss scaler {loss_id} reducing loss scale to "
                      f"{scaler.loss_scale()}")


def _together(found, device):
    """One flag of all devices."""
    return sum((each.to(device) for each in found.values()), torch.zeros(1, device=device))
