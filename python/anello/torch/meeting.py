"""How the ranks of a group meet: over PyTorch's store, or as a part of a group that has met."""

import zlib
from datetime import timedelta

from anello.communicator import MAX_TAG, Communicator

SOON = timedelta(milliseconds=1)


class _KeyValues:
    """A torch store in the terms of anello.Communicator.create."""

    def __init__(self, store):
        self._store = store

    def set(self, key, value):
        self._store.set(key, value)

    def get(self, key, seconds):
        if seconds <= 0:
            return self._store.get(key) if self._store.check([key]) else None
        self._store.wait([key], max(timedelta(seconds=seconds), SOON))
        return self._store.get(key)


def over_store(store, rank, size, timeout):
    return Communicator.create(rank, size, timeout=timeout.total_seconds(), store=_KeyValues(store))


def within(parent, ranks, name):
    """The communicator of a subgroup; called by its members alone. Groups may be made from several threads at once, which the
    tag tells apart."""
    return parent.create_group(ranks, zlib.crc32(name.encode()) % (MAX_TAG + 1))
