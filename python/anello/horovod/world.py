"""The ranks of the job: init, shutdown, and who is who."""

import atexit
import os
import threading

import torch

from anello import datatypes
from anello.communicator import Communicator
from anello.errors import AnelloError
from anello.horovod import launcher, mpi
from anello.horovod.engine import Engine
from anello.horovod.errors import NotInitialized
from anello.horovod.lifelines import Lifelines, duplicate
from anello.horovod.settings import Settings
from anello.horovod.timeline import Timeline


class World:
    """From init to shutdown. engine: of the set of all ranks."""

    def __init__(self, communicator, settings, part):
        self.settings, self.part = settings, part
        self.rank, self.size = communicator.rank, communicator.size
        self.local_rank, self.local_size = communicator.local_rank, communicator.local_size
        self._place(communicator)
        self.groups = duplicate(communicator)  # process sets are made of it
        self.lifelines = Lifelines(communicator)
        self.timeline = Timeline()
        if settings.timeline and self.rank == 0:
            self.timeline.start(settings.timeline, settings.mark_cycles)
        self.engine = Engine(communicator, range(self.size), settings, self.timeline)

    def _place(self, communicator):
        mine = torch.tensor([self.local_rank, self.local_size, int(self.settings.fusion_threshold),
                             self.settings.cache_capacity], dtype=torch.int64)
        everybody = torch.empty((self.size, mine.numel()), dtype=torch.int64)
        code = communicator._library.anello_allgather(mine.data_ptr(), everybody.data_ptr(), mine.numel(),
                                                      datatypes.INT64, communicator.handle)
        if code:
            raise communicator.error(code, f"init on rank {self.rank}")
        rows = everybody.tolist()
        alike = [rank for rank, row in enumerate(rows) if row[0] == self.local_rank]
        self.cross_rank, self.cross_size = alike.index(self.rank), len(alike)
        self.is_homogeneous = len({row[1] for row in rows}) == 1
        self.settings = self.settings.with_those_of_rank_0(rows[0][2], rows[0][3])

    def end(self, why):
        self.engine.shut_down(why)
        self.timeline.stop()
        try:
            self.groups.close()
        except AnelloError:
            pass  # the engine has reported the loss that it tells of


_lock = threading.RLock()
_world = None
_process = _last_part = None
_before = {}  # by the ranks that took part: the world before, over whose lifelines they meet again
before_shutdown, after_init = [], []


def current():
    if _world is None:
        raise NotInitialized()
    return _world


def is_initialized():
    return _world is not None


def init(part=None):
    """Joins the other ranks; nothing if this has been done. part: a tuple of the launcher's ranks or a communicator of
    mpi4py, if only these ranks take part.

    After a shutdown, the ranks that are left meet again, with those that the launcher has added. The first time, they
    meet as the launcher says, or over the communicator."""
    global _world, _process, _last_part
    with _lock:
        if _world is not None:
            return
        settings = Settings.of_environment()
        before = _before.get(_key(part))
        if part is None and launcher.of_this_process() is not None:
            communicator = launcher.of_this_process().meet(settings.elastic_timeout)
        elif before is not None and before.lifelines.fit():
            communicator = before.lifelines.meet(before.engine.lost)
        else:
            communicator = _first_meeting(part)
        _world, _process, _last_part = World(communicator, settings, part), os.getpid(), part
        if before is not None:
            _before.pop(_key(part)).lifelines.close()
        for act in after_init:
            act(_world)


def init_again():
    """After a shutdown: with the ranks that are left of the last init."""
    init(_last_part)


def _key(part):
    return part if part is None or isinstance(part, tuple) else id(part)  # the world before keeps the part alive


def _first_meeting(part):
    if mpi.is_communicator(part):
        return mpi.create(part)
    communicator = Communicator.create()
    if part is None:
        return communicator
    with communicator:
        if communicator.rank not in part:
            raise ValueError(f"rank {communicator.rank} called init(comm={list(part)}), which leaves it out")
        return communicator.create_group(part)


def shutdown():
    """Other ranks that still wait for this one get a HorovodInternalError."""
    global _world
    with _lock:
        if _world is None:
            return
        ending, _world = _world, None
        _before[_key(ending.part)] = ending
        if _process != os.getpid():  # a forked child has none of the threads
            return
        for act in before_shutdown:
            act(ending)
        ending.end(f"rank {ending.rank} has called shutdown, or its program has ended")


atexit.register(shutdown)
