"""Communicators: ranks that call the same collectives in the same order."""

import ctypes

from anello import datatypes
from anello.errors import describe
from anello.library import Config, Store, StoreGet, StoreSet, library
from anello.memory import Memory
from anello.request import Request

ANY_SOURCE = ANY_TAG = -1
MAX_TAG = 2**30 - 1
UNIQUE_ID_BYTES = 128


def new_unique_id():
    """Bytes that lead ranks to each other, once: this process listens for them until they have met. A secret."""
    opened, place = library(), ctypes.create_string_buffer(UNIQUE_ID_BYTES)
    code = opened.anello_unique_id_create(place)
    if code != 0:
        raise describe(opened, None, code, "opening a place to meet")
    return place.raw


class Communicator:
    """Any thread may call every method; calls into the library release the interpreter's lock.

    Buffers are objects with Python's buffer protocol, contiguous, of numbers: array.array, bytearray, numpy arrays.
    """

    def __init__(self, handle):
        """Takes a handle from the library and destroys it in close(). Use create, split or create_group."""
        self._library = library()
        self.handle = self._known_as = handle  # operations in flight when it is closed fail on the latter
        self.rank = self._number("anello_comm_rank")
        self.size = self._number("anello_comm_size")

    @classmethod
    def create(cls, rank=None, size=None, url=None, timeout=None, store=None, transports=None, unique_id=None):
        """Joins this rank to the others; see anello_comm_create. Arguments that are None come from the environment.
        timeout is in seconds. store is an object with set(key, value) and get(key, seconds), which returns bytes, or
        None if the key was not set in time; its exceptions become the cause of the AnelloError that follows. unique_id:
        what one process has from new_unique_id, in place of url and store."""
        opened = library()
        config = Config(ctypes.sizeof(Config), -1 if rank is None else rank, -1 if size is None else size,
                        None if url is None else url.encode(), None, None,
                        0 if timeout is None else max(1, round(timeout * 1000)),
                        None if transports is None else transports.encode())
        if unique_id is not None:
            place = ctypes.create_string_buffer(unique_id, UNIQUE_ID_BYTES)
            config.unique_id = ctypes.addressof(place)
        raised = []
        if store is not None:
            bridge = _bridge(store, raised)  # the library calls it only during comm_create
            config.store = ctypes.pointer(bridge)
        handle = ctypes.c_void_p()
        code = opened.anello_comm_create(ctypes.byref(config), ctypes.byref(handle))
        if code != 0:
            raise describe(opened, None, code, "joining the other ranks") from (raised[-1] if raised else None)
        return cls(handle.value)

    @classmethod
    def create_all(cls, size):
        """So many ranks in this process, for as many threads: the communicators in the order of ranks."""
        opened, handles = library(), (ctypes.c_void_p * size)()
        code = opened.anello_comm_create_all(size, handles)
        if code != 0:
            raise describe(opened, None, code, f"making {size} ranks of this process")
        return [cls(handle) for handle in handles]

    def _number(self, name):
        value = ctypes.c_int()
        self._check(getattr(self._library, name)(self.handle, ctypes.byref(value)), name[12:])
        return value.value

    @property
    def local_rank(self):
        return self._number("anello_comm_local_rank")

    @property
    def local_size(self):
        return self._number("anello_comm_local_size")

    def transport(self, peer):
        """The name of the transport to a rank: "inproc", "shm", "tcp", or "self" for this one."""
        name = ctypes.c_char_p()
        self._check(self._library.anello_comm_transport(self.handle, peer, ctypes.byref(name)), "transport")
        return name.value.decode()

    def error(self, code, doing):
        """The exception for a result that a call of this thread on this communicator has just returned."""
        return describe(self._library, self._known_as, code, doing)

    def _check(self, code, doing):
        if code != 0:
            raise self.error(code, doing)

    # ---- Collectives

    def allreduce(self, buffer, op="sum", out=None):
        """Stores the reduction of all ranks' buffers in out, or in buffer itself."""
        source, into = self._pair(buffer, out)
        self._check(self._library.anello_allreduce(source.address, into.address, into.count, into.dtype,
                                                   datatypes.operation(op), self.handle), "allreduce")

    def iallreduce(self, buffer, op="sum", out=None):
        source, into = self._pair(buffer, out)
        request = ctypes.c_void_p()
        self._check(self._library.anello_iallreduce(source.address, into.address, into.count, into.dtype,
                                                    datatypes.operation(op), self.handle, ctypes.byref(request)), "allreduce")
        return Request(self._library, self.handle, request, "allreduce", (source, into))

    def reduce(self, buffer, op="sum", out=None, root=0):
        """Stores the reduction of all ranks' buffers in root's out, or in its buffer. Other ranks need no out."""
        if self.rank == root:
            source, into = self._pair(buffer, out)
            address = into.address
        else:
            source, address = Memory(buffer, writable=False), None
        self._check(self._library.anello_reduce(source.address, address, source.count, source.dtype, datatypes.operation(op),
                                                root, self.handle), "reduce")

    def reduce_at(self, address, count, dtype, op, root):
        """In place at root, for memory that has no buffer in Python's sense, of a device for instance."""
        self._check(self._library.anello_reduce(address, address, count, dtype, op, root, self.handle), "reduce")

    def broadcast(self, buffer, root=0):
        memory = Memory(buffer, writable=self.rank != root)
        self._check(self._library.anello_broadcast(memory.address, memory.count, memory.dtype, root, self.handle),
                    "broadcast")

    def ibroadcast(self, buffer, root=0):
        memory = Memory(buffer, writable=self.rank != root)
        request = ctypes.c_void_p()
        self._check(self._library.anello_ibroadcast(memory.address, memory.count, memory.dtype, root, self.handle,
                                                    ctypes.byref(request)), "broadcast")
        return Request(self._library, self.handle, request, "broadcast", (memory,))

    def allgather(self, buffer, out):
        """Stores all ranks' buffers in out, in the order of ranks; out has size times as many elements."""
        source, into = Memory(buffer, writable=False), Memory(out, writable=True)
        self._whole(into.count, source.count)
        self._check(self._library.anello_allgather(source.address, into.address, source.count, source.dtype, self.handle),
                    "allgather")

    def reduce_scatter(self, buffer, out, op="sum"):
        """Stores this rank's share of the reduction in out; the buffers have size times as many elements."""
        source, into = Memory(buffer, writable=False), Memory(out, writable=True)
        self._whole(source.count, into.count)
        self._check(self._library.anello_reduce_scatter_block(source.address, into.address, into.count, into.dtype,
                                                              datatypes.operation(op), self.handle), "reduce_scatter")

    def barrier(self):
        self._check(self._library.anello_barrier(self.handle), "barrier")

    def _pair(self, buffer, out):
        into = Memory(buffer if out is None else out, writable=True)
        source = into if out is None else Memory(buffer, writable=False)
        if (source.count, source.dtype) != (into.count, into.dtype):
            raise ValueError(f"buffer has {source.count} elements and out {into.count}, or they differ in type")
        return source, into

    def _whole(self, whole, part):
        if whole != part * self.size:
            raise ValueError(f"{self.size} parts of {part} elements are not {whole}")

    # ---- Messages

    def send(self, buffer, dest, tag=0):
        self.isend(buffer, dest, tag).wait()

    def recv(self, buffer, source=ANY_SOURCE, tag=ANY_TAG):
        """Returns the completed request: its source, tag and count describe the message."""
        request = self.irecv(buffer, source, tag)
        request.wait()
        return request

    def isend(self, buffer, dest, tag=0):
        memory, request = Memory(buffer, writable=False), ctypes.c_void_p()
        self._check(self._library.anello_isend(memory.address, memory.count, memory.dtype, dest, tag, self.handle,
                                               ctypes.byref(request)), "send")
        return Request(self._library, self.handle, request, "send", (memory,))

    def irecv(self, buffer, source=ANY_SOURCE, tag=ANY_TAG):
        memory, request = Memory(buffer, writable=True), ctypes.c_void_p()
        self._check(self._library.anello_irecv(memory.address, memory.count, memory.dtype, source, tag, self.handle,
                                               ctypes.byref(request)), "recv")
        return Request(self._library, self.handle, request, "recv", (memory,))

    # ---- Other communicators, and the end of this one

    def split(self, color, key=0):
        """Collective; None for a rank whose color is None."""
        handle = ctypes.c_void_p()
        self._check(self._library.anello_comm_split(self.handle, -32766 if color is None else color, key,
                                                    ctypes.byref(handle)), "split")
        return Communicator(handle.value) if handle.value else None

    def create_group(self, ranks, tag=0):
        """A communicator of the listed ranks. Only they call this, all with the same list."""
        handle, ranks = ctypes.c_void_p(), list(ranks)
        self._check(self._library.anello_comm_create_group(self.handle, len(ranks), (ctypes.c_int * len(ranks))(*ranks), tag,
                                                           ctypes.byref(handle)), f"making a group of ranks {ranks}")
        return Communicator(handle.value)

    def abort(self, reason=""):
        """Ends all operations of this communicator on all its ranks."""
        if self.handle is not None:
            self._check(self._library.anello_comm_abort(self.handle, reason.encode()), "abort")

    def close(self):
        """Needs no other rank. Raises the communicator's first error if it had failed; it is closed anyway."""
        handle, self.handle = self.handle, None
        if handle is not None:
            code = self._library.anello_comm_destroy(handle)
            if code != 0:
                raise describe(self._library, None, code, "close")

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        if raised[0] is None:
            self.close()
        elif self.handle is not None:
            handle, self.handle = self.handle, None
            self._library.anello_comm_destroy(handle)  # the earlier exception says more than this would


def _bridge(store, raised):
    """Presents a Python store to the library."""

    def put(_, key, value, count):
        try:
            store.set(key.decode(), ctypes.string_at(value, count))
            return 0
        except Exception as error:  # it cannot pass through C; it becomes the cause of comm_create's exception
            raised.append(error)
            return 1

    def get(_, key, value, count, timeout_ms):
        try:
            found = store.get(key.decode(), timeout_ms / 1000)
        except Exception as error:
            raised.append(error)
            return 1
        if found is None:
            return 1
        taken = min(count[0], len(found))
        ctypes.memmove(value, found, taken)
        count[0] = taken
        return 0

    return Store(None, StoreSet(put), StoreGet(get))
