"""The exceptions. All are RuntimeErrors, because users of torch.distributed catch those."""


class AnelloError(RuntimeError):
    """A failed call of the library.

    code: the result's number; name: its name ("ANELLO_ERR_TIMEOUT"). rank: the rank that it is about, or None. text:
    the library's text, which is also the exception's. lost: ranks known by then to be dead or unreachable.
    """

    def __init__(self, text, code=0, name="", rank=None, lost=()):
        super().__init__(text)
        self.text, self.code, self.name, self.rank, self.lost = text, code, name, rank, tuple(lost)

    def __reduce__(self):  # keeps all fields on its way to a parent process, as with torch.multiprocessing.spawn
        return type(self), (self.text, self.code, self.name, self.rank, self.lost)


class LibraryError(AnelloError):
    """libanello is missing, or is not the version for which this package was written."""


# Numbers of anello_result_t that the package itself distinguishes.
ARGUMENT, TYPE, PEER_LOST, MISMATCH, TIMEOUT, TRUNCATE, ABORTED = 1, 2, 4, 5, 6, 12, 13


def describe(library, comm, code, doing):
    """The exception for `code`, which a call of this thread on `comm` (None: on none) has just returned. `doing`
    describes the attempt in the caller's terms."""
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
        # A call on a closed communicator is refused without a communicator.
        text = (library.anello_last_error(comm) or library.anello_last_error(None) or b"").decode(errors="replace")
    return AnelloError(f"{doing}: {text or name} [{name}]", code, name, rank, lost)
