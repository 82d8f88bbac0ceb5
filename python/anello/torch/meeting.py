"""How the ranks of a group meet: over PyTorch's store, or as a part of a group that has met."""

import collections
import contextlib
import os
import threading
import zlib
from datetime import timedelta

import torch.distributed as dist

from anello.communicator import MAX_TAG, Communicator

SOON = timedelta(milliseconds=1)


class _KeyValues:
    """A torch store with the interface for anello.Communicator.create."""

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
    _make_private(store)
    return Communicator.create(rank, size, timeout=timeout.total_seconds(), store=_KeyValues(store))


def _make_private(store):
    """PyTorch lets everybody read the file of a FileStore, through which the secret is about to travel."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if isinstance(store, dist.FileStore):
        with contextlib.suppress(OSError):  # another user's, or gone
            os.chmod(store.path, 0o600)


class Subgroups:
    """Makes the communicators of a group's subgroups. Only its members make each one, and several threads may make
    several at once. The tag that distinguishes them depends on the members and on the number of earlier groups with
    exactly these members, which is the same on all of them. PyTorch's name is not always the same, because it can count
    groups that not all of them are in."""

    def __init__(self, communicator):
        self._communicator = communicator
        self._counting = threading.Lock()
        self._made = collections.Counter()

    def make(self, ranks):
        members = tuple(ranks)
        with self._counting:
            number = self._made[members]
            self._made[members] += 1
        return self._communicator.create_group(members, zlib.crc32(repr((members, number)).encode()) % (MAX_TAG + 1))
