"""The group that torch.distributed.init_process_group("anello") makes.

torch.distributed finds its methods by name; C++ (DDP's Reducer, functional collectives) finds those that PyTorch's
trampolines know, and each of them must return a Work. A call that Python makes with asyncOp False is complete when it
returns.
"""

import atexit
import os
import threading
import warnings
import weakref

import torch
from torch import distributed as dist

from anello.errors import ABORTED, PEER_LOST, AnelloError
from anello.torch import (buckets, collectives, completions, fingerprints, meeting, messages, monitored_barrier, parts, posting,
                          profiling, stream_work, streams, unseen, work)
from anello.torch.collectives import Collectives
from anello.torch.messages import Messages
from anello.torch.parts import Parts
from anello.torch.posting import Posting
from anello.torch.streams import InStreams

_CPU, _CUDA = torch.device("cpu"), torch.device("cuda")
_open_groups = weakref.WeakSet()


class ProcessGroup(Collectives, Parts, Messages, InStreams, Posting, dist.ProcessGroup):
    def __init__(self, communicator, communicator_timeout, name):
        dist.ProcessGroup.__init__(self, communicator.rank, communicator.size)
        self._prepare(communicator, name)
        if fingerprints.wanted() and communicator.size > 1:
            self._compare = fingerprints.compare
        self._allreduce, self._iallreduce = self._library.anello_allreduce, self._library.anello_iallreduce
        self._subgroups = meeting.Subgroups(communicator)
        self._communicator_timeout = communicator_timeout
        self._description = "undefined"
        _open_groups.add(self)

    @classmethod
    def create(cls, options, backend_options=None):
        """The function for register_backend's extended form. Only the group's members call it."""
        if backend_options is not None:
            raise ValueError("the backend anello has no pg_options")
        timeout, name = options.timeout, options.group_id
        group = cls._of_parent(options.global_ranks_in_group, name) if options.global_ranks_in_group else None
        if group is None:
            group = cls(meeting.over_store(options.store, options.group_rank, options.group_size, timeout), timeout, name)
        group.set_timeout(timeout)
        monitored_barrier.replace()
        buckets.replace()
        return group

    @classmethod
    def _of_parent(cls, ranks, name):
        """The group of these ranks of the default group. None if the default group is not of this backend or has
        failed: then they meet over the store. A rank that learns of the failure only here also meets over the store,
        unless one of the members is lost."""
        parent = dist.distributed_c10d._get_default_group()
        if not isinstance(parent, ProcessGroup) or parent._comm is None or parent._told:
            return None
        try:
            return cls(parent._subgroups.make(ranks), parent._communicator_timeout, name)
        except AnelloError as error:
            if error.code not in (PEER_LOST, ABORTED) or not set(ranks).isdisjoint({*error.lost, error.rank}):
                raise
            return None

    # ---- What PyTorch asks for

    def getBackendName(self):
        return "anello"

    name = getBackendName

    def setGroupName(self, name):
        self._name = name

    def getGroupName(self):
        return self._name

    def setGroupDesc(self, description):
        self._description = description

    def getGroupDesc(self):
        return self._description

    def getRank(self):
        return self._rank

    def getSize(self):
        return self._size

    @property
    def _device_types(self):
        return [_CPU, _CUDA] if torch.cuda.is_available() else [_CPU]

    def _get_backend(self, device):
        if torch.device(device).type not in ("cpu", "cuda"):
            raise RuntimeError(f"the backend anello moves tensors of the CPU and of CUDA devices, not of {device}")
        return self

    supports_splitting = supports_coalescing = supports_time_estimate = False

    def _get_sequence_number_for_group(self):
        return self._sequence

    def set_timeout(self, timeout):
        same = timeout == self._communicator_timeout
        self._timeout_ms = 0 if same else max(1, round(timeout.total_seconds() * 1000))

    _set_default_timeout = set_timeout

    def _seconds(self):
        """The timeout; a subgroup's may differ from its communicator's."""
        return self._timeout_ms / 1000 or self._communicator_timeout.total_seconds()

    # ---- The end

    def shutdown(self):
        """destroy_process_group calls this. Operations in flight fail, and threads that wait for them get the error."""
        handle, self._communicator.handle = self._communicator.handle, None
        if handle is None:
            return
        _open_groups.discard(self)
        self._comm = None  # the library refuses calls on it
        code = self._library.anello_comm_destroy(handle)
        if code and not self._told:
            text = self._communicator.error(code, self._doing("the last calls")).text
            warnings.warn(f"a group was destroyed whose failure nobody had heard of: {text}", stacklevel=2)

    def abort(self):
        handle = self._communicator.handle
        if handle is not None:
            self._library.anello_comm_abort(handle, f"rank {self._rank} has aborted the group".encode())
        self.shutdown()


@atexit.register
def _close_all():
    completions.close()
    for group in list(_open_groups):
        group._told = True  # the program ends; a thread that has not waited by now does not need the error
        group.shutdown()


def _forget():
    """In a forked child the library refuses every call, and nothing is closed."""
    for group in list(_open_groups):
        group._communicator.handle = None
        group._starting = threading.Lock()  # another thread may have held it
    _open_groups.clear()


os.register_at_fork(after_in_child=_forget)

for _owner in (ProcessGroup, Collectives, Parts, Messages, InStreams, Posting, work.Work, work.Works, work.CompletedWork,
               stream_work.StreamWork, streams, streams.Streams, posting,
               collectives, parts, messages, monitored_barrier, fingerprints, profiling, profiling.Event, buckets, buckets.Reducer,
               buckets._BucketMemory, buckets._Block):
    unseen.skip(_owner)
