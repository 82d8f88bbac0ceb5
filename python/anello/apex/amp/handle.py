"""amp.init, the interface that came before amp.initialize: a handle scales losses, and functions of torch cast."""

from anello.apex.amp import casts
from anello.apex.amp.initialize import initialize
from anello.apex.amp.optimizer import Stash
from anello.apex.amp.scaling import scale_loss
from anello.apex.amp.state import state


def init(enabled=True, loss_scale="dynamic", enable_caching=True, verbose=False, allow_banned=False):
    """Casts as with opt_level O1 and returns a Handle. enable_caching and allow_banned have no effect: autocast decides
    about both."""
    initialize([], enabled=enabled, loss_scale=loss_scale, verbosity=int(verbose))
    return Handle()


class Handle:
    def is_active(self):
        return state.casts

    def scale_loss(self, loss, optimizer):
        """As amp.scale_loss."""
        if state.opt_properties.enabled and not hasattr(optimizer, "_amp_stash"):
            Stash(optimizer, state.opt_properties)
        return scale_loss(loss, optimizer)

    def wrap_optimizer(self, optimizer, num_loss=1):
        """The optimizer, with a method scale_loss(loss). A step has num_loss losses, and one scale for all of them."""
        return Wrapped(self, optimizer, num_loss)

    def disable_casts(self):
        return casts.disable_casts()


class Wrapped:
    def __init__(self, handle, optimizer, num_loss):
        if state.opt_properties.enabled:
            Stash(optimizer, state.opt_properties)
        self._optimizer, self._num_loss, self._at = optimizer, num_loss, 0

    def scale_loss(self, loss):
        self._at = (self._at + 1) % self._num_loss
        return scale_loss(loss, self._optimizer, delay_overflow_check=self._at != 0)

    def __getattr__(self, name):
        return getattr(self._optimizer, name)
