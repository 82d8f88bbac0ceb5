"""init to shutdown, who is who, process sets, and what was built in."""

from operator import index

from anello.horovod import mpi, process_set as process_sets_of, world
from anello.horovod.process_set import ProcessSet
from anello.horovod.torch.functions import allgather_object


def init(comm=None, process_sets=None):
    """Joins the other ranks of the launcher, or is alone without one. comm: a list of ranks or a communicator of
    mpi4py, if only these take part. process_sets: sets that all ranks list alike; "dynamic": they may also be added
    later."""
    part = _as_part(comm)
    if world.is_initialized():
        return
    world.init(part)
    try:
        if process_sets == "dynamic":
            process_sets_of.allow_changes(True)
        else:
            for each in process_sets or ():
                _register(_as_set(each))
    except BaseException:
        world.shutdown()
        raise


def _as_part(comm):
    if comm is None or mpi.is_communicator(comm):
        return comm
    try:
        return tuple(map(index, comm)) or None
    except TypeError:
        raise ValueError(f"init(comm={comm!r}): a list of ranks or one communicator of mpi4py is needed. More of them "
                         "can be process sets: init(process_sets=[hvd.ProcessSet(communicator)])") from None


def _as_set(given):
    return given if isinstance(given, ProcessSet) else ProcessSet(given)


def _register(process_set):
    """A communicator of mpi4py has other members on other ranks if a split has made it: each is a set of its own."""
    if process_set.mpi_comm is None:
        return process_sets_of.register(process_set)
    mine = process_set.find_members()
    parts = []
    for members in allgather_object(mine, "process_set"):
        if members and members not in parts:
            parts.append(members)
    if not mine and parts:
        mine = process_set.ranks = parts[0]  # this rank is in none
    for members in parts:
        process_sets_of.register(process_set if members == mine else _of_others(members))
    return process_set


def _of_others(members):
    there = ProcessSet([])
    there.ranks = members  # in the order of their communicator
    return there


def shutdown():
    """Leaves the other ranks. Those that still wait for this one get a HorovodInternalError."""
    world.shutdown()


def is_initialized():
    return world.is_initialized()


def rank():
    return world.current().rank


def size():
    return world.current().size


def local_rank():
    """This rank's place on its host."""
    return world.current().local_rank


def local_size():
    """The ranks of this host."""
    return world.current().local_size


def cross_rank():
    """This rank's place among those that have its local rank on other hosts."""
    return world.current().cross_rank


def cross_size():
    return world.current().cross_size


def is_homogeneous():
    """Whether all hosts have equally many ranks."""
    return world.current().is_homogeneous


def start_timeline(file_path, mark_cycles=False):
    """Rank 0 writes what happens to each tensor to a file for chrome://tracing."""
    there = world.current()
    if there.rank == 0:
        there.timeline.start(file_path, mark_cycles)


def stop_timeline():
    world.current().timeline.stop()


def add_process_set(process_set):
    """All ranks call it, also those outside the set, with equal lists. Returns the set."""
    process_sets_of.check_changes()
    process_set = _as_set(process_set)
    if process_set.mpi_comm is not None:
        return _register(process_set)
    _agree("add_process_set", process_set.ranks)
    return process_sets_of.register(process_set)


def remove_process_set(process_set):
    """All ranks call it. False if the set was not registered, or is that of all ranks."""
    process_sets_of.check_changes()
    number = process_set.process_set_id
    if not number:
        return False
    _agree("remove_process_set", number)
    process_sets_of.unregister(process_set)
    return True


def _agree(doing, what):
    for other, theirs in enumerate(allgather_object(what, doing)):
        if theirs != what:
            raise RuntimeError(f"{doing}: rank {rank()} named {what}, and rank {other} named {theirs}")


def get_process_set_ids_and_ranks():
    """Lists of ranks by the number of their set."""
    world.current()
    return {number: list(each.ranks) for number, each in process_sets_of.sets().items()}


# Anello takes the place of all these libraries. Programs ask in order to choose between devices or launchers.

def mpi_threads_supported():
    """True: any thread may call any function."""
    world.current()
    return True


def mpi_enabled():
    return False


def mpi_built():
    return False


def gloo_enabled():
    """True: operations on tensors of the CPU work."""
    return True


def gloo_built():
    return True


def nccl_built():
    return 0


def ddl_built():
    return False


def ccl_built():
    return False


def cuda_built():
    return False


def rocm_built():
    return False
