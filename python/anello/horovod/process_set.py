"""Subsets of the ranks, with an engine each."""

from collections.abc import Iterable
from operator import index

from anello.horovod import mpi, world
from anello.horovod.engine import Engine


class ProcessSet:
    """ranks: a list of ranks of the job, or a communicator of mpi4py, whose ranks are known once it is registered. It
    takes part in operations once it is registered, by init(process_sets=[..]) or add_process_set."""

    def __init__(self, ranks):
        self.process_set_id = self._own = self.mpi_comm = None
        if mpi.is_communicator(ranks):
            if mpi.has_this_process(ranks):
                mpi.check(ranks, "a process set")
            self.mpi_comm, self.ranks = ranks, []
            return
        if not isinstance(ranks, Iterable):
            raise ValueError(f"a process set is made of a list of ranks or a communicator of mpi4py, not of {ranks!r}")
        self.ranks = sorted(map(index, ranks))
        if len(set(self.ranks)) != len(self.ranks):
            raise ValueError(f"process set {self.ranks} names a rank twice")
        if self.ranks and self.ranks[0] < 0:
            raise ValueError(f"process set {self.ranks} names rank {self.ranks[0]}")

    def find_members(self):
        """Of a communicator: its members' ranks in the job, in the communicator's order. All members call it."""
        held = mpi.has_this_process(self.mpi_comm)
        self.ranks = mpi.numbers_of_members(self.mpi_comm, world.current().rank) if held else []
        return self.ranks

    def size(self):
        """The number of its ranks; None if it is not registered."""
        return len(self.ranks) if self.process_set_id is not None else None

    def rank(self):
        """This rank's place in it; -1 if it is not in it, None if the set is not registered."""
        if self.process_set_id is None:
            return None
        mine = world.current().rank
        return self.ranks.index(mine) if mine in self.ranks else -1

    def included(self):
        return None if self.process_set_id is None else world.current().rank in self.ranks

    def __str__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__

    def __eq__(self, other):
        return (isinstance(other, ProcessSet) and self.ranks == other.ranks and
                self.process_set_id == other.process_set_id)

    def __hash__(self):
        return hash(tuple(self.ranks))

    def engine(self):
        """Raises ValueError if this rank can do nothing in it."""
        there = world.current()
        if self.process_set_id is None:
            raise ValueError(
                f"process set {self.ranks} is not registered: call hvd.add_process_set, or pass it to hvd.init")
        if self._own is None:
            raise ValueError(f"rank {there.rank} is not in process set {self.ranks}")
        return self._own


class _GlobalProcessSet(ProcessSet):
    """All ranks, from init to shutdown."""

    def __init__(self):
        super().__init__([])
        self.process_set_id = 0

    def size(self):
        return world.current().size

    def rank(self):
        return world.current().rank

    def included(self):
        world.current()
        return True

    def engine(self):
        return world.current().engine


global_process_set = _GlobalProcessSet()
_registered = {}  # by number
_dynamic = False


def sets():
    """Those that are registered, by number."""
    return {0: global_process_set, **_registered}


def allow_changes(allowed):
    global _dynamic
    _dynamic = allowed


def check_changes():
    if not _dynamic and not world.current().settings.dynamic_process_sets:
        raise ValueError("process sets can be added and removed after init only with HOROVOD_DYNAMIC_PROCESS_SETS=1 or "
                         "init(process_sets=\"dynamic\")")


def register(process_set):
    """All ranks of the job call it, with the same set, in the same order."""
    there = world.current()
    if process_set.ranks and max(process_set.ranks) >= there.size:
        raise ValueError(f"process set {process_set.ranks} names rank {max(process_set.ranks)}, but there are only "
                         f"{there.size} ranks")
    if not process_set.ranks:
        raise ValueError("a process set without ranks cannot be registered")
    if process_set.process_set_id is not None or process_set.ranks in [each.ranks for each in sets().values()]:
        raise ValueError(f"a process set of ranks {process_set.ranks} is already registered")
    number = max(sets()) + 1
    if there.rank in process_set.ranks:
        part = there.groups.create_group(process_set.ranks, number)
        process_set._own = Engine(part, process_set.ranks, there.settings, there.timeline)
    process_set.process_set_id = number
    _registered[number] = process_set
    return process_set


def unregister(process_set, why="the process set was removed"):
    """All ranks of the job call it. Its ranks may no longer have operations in it."""
    engine, process_set._own = process_set._own, None
    _registered.pop(process_set.process_set_id, None)
    process_set.process_set_id = None
    if engine is not None:
        engine.shut_down(why)


def _begin(there):
    global_process_set.ranks = list(range(there.size))


def _end(there):
    for process_set in list(_registered.values()):
        unregister(process_set, f"rank {there.rank} has called shutdown, or its program has ended")
    allow_changes(False)


world.after_init.append(_begin)
world.before_shutdown.append(_end)
