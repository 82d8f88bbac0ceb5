"""The exceptions that programs for Horovod catch."""


class HorovodInternalError(RuntimeError):
    """An operation could not be completed because a rank was lost or has left. `rank` is that rank, or None."""

    def __init__(self, text="", rank=None):
        super().__init__(text)
        self.rank = rank

    def __reduce__(self):
        return type(self), (str(self), self.rank)


class HostsUpdatedInterrupt(RuntimeError):
    """The set of hosts has changed, and training should begin again with those that are there now."""

    def __init__(self, skip_sync=False):
        super().__init__("the set of hosts has changed")
        self.skip_sync = skip_sync


class NotInitialized(ValueError):
    """hvd.init() has not been called, or hvd.shutdown() has."""

    def __init__(self):
        super().__init__("Horovod has not been initialized: call hvd.init() first")
