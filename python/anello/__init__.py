"""Anello: collective communication for ranks that each hold a buffer.

    with anello.Communicator.create() as comm:      rank, size and meeting place from the environment
        comm.allreduce(array.array("f", [1, 2]))

`anello.torch` is the backend "anello" of torch.distributed, which PyTorch finds by itself. Importing this package
imports neither that backend nor torch, and does not open the library.
"""

__version__ = "0.1.0"

from anello.errors import AnelloError, LibraryError

__all__ = ["AnelloError", "Communicator", "LibraryError", "Request", "commit", "version"]


def version():
    """major * 10000 + minor * 100 + patch of the library in use."""
    from anello.library import library

    return library().anello_version()


def commit():
    """The commit of the library's source."""
    from anello.library import library

    return library().anello_commit().decode()


def __getattr__(name):  # PyTorch loads this module at every import of torch, so the rest is loaded at its first use
    if name == "Communicator":
        from anello.communicator import Communicator

        return Communicator
    if name == "Request":
        from anello.request import Request

        return Request
    raise AttributeError(f"module 'anello' has no attribute {name!r}")
