"""What goes wrong, as exceptions. All are RuntimeErrors, which is what torch.distributed's users catch."""


class AnelloError(RuntimeError):
    """A call of the library that failed.

    code: the result's number, and name its name ("ANELLO_ERR_TIMEOUT"). rank: whom it is about, None where that is nobody
    or not known. text: the library's words, which are also the exception's. lost: ranks known by then to be dead or out
    of reach.
    """

    def __init__(self, text, code=0, name="", rank=None, lost=()):
        super().__init__(text)
        self.text, self.code, self.name, self.rank, self.lost = text, code, name, rank, tuple(lost)

    def __reduce__(self):  # reaches a parent process, as of torch.multiprocessing.spawn, with all that it knows
        return type(self), (self.text, self.code, self.name, self.rank, self.lost)


class LibraryError(AnelloError):
    """libanello is not there, or not the one that this package was written for."""


# Numbers of anello_result_t that the package itself has to tell apart.
ARGUMENT, TYPE, PEER_LOST, MISMATCH, TIMEOUT, TRUNCATE, ABORTED = 1, 2, 4, 5, 6, 12, 13


def describe(library, comm, code, doing):
    """The exception for `code`, which a call of this thread on `comm` (None: on none) has just returned. `doing` says in the
    caller's terms what was tried."""
    import ctypes

    from anello.library import ErrorInfo

    name = library.anello_result_name(code).decode()
    info = ErrorInfo()
    info.size = ctypes.sizeof(info)
    rank, lost = None, ()
    if library.anello_error_info(comm, ctypes.byref(info)) == 0:
        text = (info.text or b"").decode(errors="replace")
        rank = info.rank if info.rank >= 0 else None
        lost = tuple(info.lost[:info.lost_count]) if info.lost_count else ()
    else:
        # A call on a communicator that was closed before was refused on none.
        text = (library.anello_last_error(comm) or library.anello_last_error(None) or b"").decode(errors="replace")
    return AnelloError(f"{doing}: {text or name} [{name}]", code, name, rank, lost)
