"""Numbers for operations under way, as programs for Horovod keep them."""

import itertools

_next = itertools.count(1)
_under_way = {}  # (engine, entry) by handle; each access is one step of the interpreter


def issue(engine, entry):
    handle = next(_next)
    _under_way[handle] = (engine, entry)
    return handle


def request_of(handle):
    return _under_way[handle][1].request


def poll(handle):
    """Whether synchronize(handle) would return at once."""
    if callable(handle):
        return True
    engine, entry = _under_way.get(handle, (None, None))
    if entry is None or entry.done:
        return True
    if entry.staged is not None and not entry.staged.has_arrived():
        return False
    engine.hurry()
    return entry.done


def synchronize(handle):
    """Waits for the operation and returns its result. Raises HorovodInternalError if a rank was lost, and RuntimeError
    if ranks have submitted different tensors. None for a handle that was synchronized before."""
    if callable(handle):  # of sparse_allreduce_async
        return handle()
    engine, entry = _under_way.get(handle, (None, None))
    if entry is None:
        return None
    engine.wait(entry)
    _under_way.pop(handle, None)
    if entry.error is not None:
        raise entry.error.with_traceback(None)
    return entry.result
