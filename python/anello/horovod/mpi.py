"""Communicators of mpi4py that the program has made: which ranks take part, and how they hear where to meet.

Nothing here imports mpi4py, and nothing is pickled: the communicator's own Bcast and Allgather move bytes and integers.
"""

import array

from anello import communicator
from anello.errors import AnelloError

_METHODS = ("Get_rank", "Get_size", "Bcast", "Allgather")


def is_communicator(given):
    return all(callable(getattr(given, name, None)) for name in _METHODS)


def has_this_process(given):
    """False for MPI.COMM_NULL, which a split gives to a process that is in no part."""
    return bool(given)


def check(given, doing):
    if callable(getattr(given, "Is_inter", None)) and given.Is_inter():
        raise ValueError(f"{doing} with an intercommunicator, which has two groups: pass the result of its Merge()")


def create(given):
    """Joins the ranks of `given`, under their numbers there. All of them call this."""
    if not has_this_process(given):
        raise ValueError("init(comm=MPI.COMM_NULL): this process is in no part of the communicator; do not call init")
    check(given, "init")
    rank, size = given.Get_rank(), given.Get_size()
    place, failure = bytearray(communicator.UNIQUE_ID_BYTES), None
    if size > 1:
        if rank == 0:
            try:
                place[:] = communicator.new_unique_id()
            except AnelloError as error:
                failure = error  # is raised after the others have heard that there is no place
        given.Bcast(place, root=0)
        if not any(place):
            raise failure or RuntimeError(f"init on rank {rank}: rank 0 could not open a place to meet; it says why")
    return communicator.Communicator.create(rank, size, unique_id=bytes(place))


def numbers_of_members(given, mine):
    """What the members of `given` passed as `mine`, in the order of their ranks there."""
    everybody = array.array("i", [0]) * given.Get_size()
    given.Allgather(array.array("i", [mine]), everybody)
    return everybody.tolist()
