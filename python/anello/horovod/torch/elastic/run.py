"""The loop around a training function that begins again with the ranks that are left."""

import functools

from anello.horovod import launcher, world
from anello.horovod.errors import HorovodInternalError, HostsUpdatedInterrupt


def run(func):
    """func(state, ..) is called with the state of rank 0. If a rank is lost, the others go back to their last commit,
    meet again and call it once more. So they do without going back when the launcher has more ranks, or fewer."""

    @functools.wraps(func)
    def wrapper(state, *arguments, **named):
        fresh = False  # whether all ranks have the same state
        while True:
            try:
                if not fresh:
                    state.sync()
                return func(state, *arguments, **named)
            except HorovodInternalError:
                state.restore()
                fresh = False
            except HostsUpdatedInterrupt as interrupt:
                fresh = interrupt.skip_sync
            world.shutdown()
            world.init_again()
            fresh = fresh and not _has_newcomers()
            state.on_reset()

    return wrapper


def _has_newcomers():
    """Whether a rank has joined, which needs the state. All ranks agree on it."""
    there = launcher.of_this_process()
    return there is not None and there.newcomers > 0
