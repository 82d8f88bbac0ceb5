"""libanello.so.0: its place, its functions with their types, and its structs. It is opened at its first use and never
closed, because its own threads may still run in it."""

import ctypes
import os
import pathlib
import sys

from anello.errors import LibraryError

SONAME = "libanello.so.0"
VERSION = 100  # 0.1.0, the first whose functions are these; before 1.0.0 a minor version may change them

_pointer, _size, _int, _int64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64
_text = ctypes.c_char_p
_buffer = [_pointer, _size, _int]            # address, count, data type
_two_buffers = [_pointer, _pointer, _size, _int]

StoreSet = ctypes.CFUNCTYPE(_int, _pointer, _text, _pointer, _size)
StoreGet = ctypes.CFUNCTYPE(_int, _pointer, _text, _pointer, ctypes.POINTER(_size), _int64)


class Store(ctypes.Structure):
    _fields_ = [("context", _pointer), ("set", StoreSet), ("get", StoreGet)]


class Config(ctypes.Structure):
    _fields_ = [("size", _size), ("rank", _int), ("world_size", _int), ("url", _text), ("unique_id", _pointer),
                ("store", ctypes.POINTER(Store)), ("timeout_ms", _int64), ("transports", _text), ("silence_ms", _int64)]


class Status(ctypes.Structure):
    _fields_ = [("source", _int), ("tag", _int), ("count", _size)]


class Call(ctypes.Structure):
    _fields_ = [("size", _size), ("kind", _int), ("dtype", _int), ("op", _int), ("peer", _int), ("tag", _int),
                ("sendbuf", _pointer), ("recvbuf", _pointer), ("count", _size), ("timeout_ms", _int64),
                ("sendcounts", _pointer), ("sdispls", _pointer), ("recvcounts", _pointer), ("rdispls", _pointer),
                ("algorithm", _text), ("label", _text)]


class ErrorInfo(ctypes.Structure):
    _fields_ = [("size", _size), ("code", _int), ("text", _text), ("rank", _int), ("host", _text), ("pid", _int64),
                ("lost", ctypes.POINTER(_int)), ("lost_count", _size), ("call", _text), ("kind", _int),
                ("sequence", _int64), ("label", _text), ("suspected", ctypes.POINTER(_int)), ("suspected_count", _size)]


# ---- anello/gradient_sync.h

class Tensor(ctypes.Structure):
    _fields_ = [("size", _size), ("name", _text), ("data", _pointer), ("count", _size), ("dtype", _int)]


class SyncConfig(ctypes.Structure):
    _fields_ = [("size", _size), ("first_bucket_bytes", _size), ("bucket_bytes", _size), ("rebuild", _int), ("views", _int),
                ("find_unused", _int), ("static_graph", _int), ("delay", _int), ("op", _int), ("prescale", ctypes.c_double),
                ("postscale", ctypes.c_double), ("wire", _int), ("error_feedback", _int), ("uneven", _int),
                ("average_over_active", _int), ("check_overflow", _int), ("loss_scale", ctypes.c_double),
                ("loss_scale_interval", _int), ("timeout_ms", _int64), ("device", _int)]


class BucketInfo(ctypes.Structure):
    _fields_ = [("size", _size), ("index", _size), ("data", _pointer), ("count", _size), ("dtype", _int),
                ("parameters", ctypes.POINTER(_size)), ("parameter_count", _size), ("ready_ns", _int64),
                ("start_ns", _int64), ("end_ns", _int64)]


class SyncStatistics(ctypes.Structure):
    _fields_ = [("size", _size), ("steps", ctypes.c_uint64), ("local_steps", ctypes.c_uint64),
                ("overflows", ctypes.c_uint64), ("buckets", _size), ("bytes", _size), ("computing_ns", _int64),
                ("communicating_ns", _int64), ("waiting_ns", _int64), ("copying_ns", _int64),
                ("copied_bytes", ctypes.c_uint64)]


# Handles are passed as numbers; a request is passed by address, as the caller's c_void_p.
_request = ctypes.POINTER(_pointer)
_status = ctypes.POINTER(Status)
_FUNCTIONS = {
    "anello_result_name": ([_int], _text),
    "anello_dtype_size": ([_int], _size),
    "anello_version": ([], _int),
    "anello_commit": ([], _text),
    "anello_last_error": ([_pointer], _text),
    "anello_error_info": ([_pointer, ctypes.POINTER(ErrorInfo)], _int),
    "anello_op_create_premul_sum": ([_pointer, _int, ctypes.POINTER(_int)], _int),
    "anello_op_free": ([_int], _int),
    "anello_unique_id_create": ([_pointer], _int),
    "anello_comm_create": ([ctypes.POINTER(Config), ctypes.POINTER(_pointer)], _int),
    "anello_comm_create_all": ([_int, ctypes.POINTER(_pointer)], _int),
    "anello_comm_dup": ([_pointer, ctypes.POINTER(_pointer)], _int),
    "anello_comm_split": ([_pointer, _int, _int, ctypes.POINTER(_pointer)], _int),
    "anello_comm_create_group": ([_pointer, _int, ctypes.POINTER(_int), _int, ctypes.POINTER(_pointer)], _int),
    "anello_comm_destroy": ([_pointer], _int),
    "anello_comm_abort": ([_pointer, _text], _int),
    "anello_comm_rank": ([_pointer, ctypes.POINTER(_int)], _int),
    "anello_comm_size": ([_pointer, ctypes.POINTER(_int)], _int),
    "anello_comm_local_rank": ([_pointer, ctypes.POINTER(_int)], _int),
    "anello_comm_local_size": ([_pointer, ctypes.POINTER(_int)], _int),
    "anello_comm_transport": ([_pointer, _int, ctypes.POINTER(_text)], _int),
    "anello_allreduce": (_two_buffers + [_int, _pointer], _int),
    "anello_iallreduce": (_two_buffers + [_int, _pointer, _request], _int),
    "anello_reduce": (_two_buffers + [_int, _int, _pointer], _int),
    "anello_broadcast": (_buffer + [_int, _pointer], _int),
    "anello_ibroadcast": (_buffer + [_int, _pointer, _request], _int),
    "anello_allgather": (_two_buffers + [_pointer], _int),
    "anello_reduce_scatter_block": (_two_buffers + [_int, _pointer], _int),
    "anello_barrier": ([_pointer], _int),
    "anello_isend": (_buffer + [_int, _int, _pointer, _request], _int),
    "anello_irecv": (_buffer + [_int, _int, _pointer, _request], _int),
    "anello_iprobe": ([_int, _int, _pointer, ctypes.POINTER(_int), _status], _int),
    "anello_post": ([_pointer, ctypes.POINTER(Call), _request], _int),
    "anello_post_on": ([_pointer, ctypes.POINTER(Call), _pointer], _int),
    "anello_comm_async_error": ([_pointer], _int),
    "anello_wait": ([_request, _status], _int),
    "anello_test": ([_request, ctypes.POINTER(_int), _status], _int),
    "anello_wait_any": ([_size, ctypes.POINTER(_pointer), ctypes.POINTER(_int), _status], _int),
    "anello_progress": ([_pointer], _int),
    "anello_mem_alloc": ([_size, ctypes.POINTER(_pointer)], _int),
    "anello_mem_free": ([_pointer], _int),
    "anello_gradient_sync_create": ([_pointer, ctypes.POINTER(Tensor), _size, ctypes.POINTER(SyncConfig),
                                     ctypes.POINTER(_pointer)], _int),
    "anello_gradient_sync_destroy": ([_pointer], _int),
    "anello_gradient_sync_broadcast": ([_pointer, ctypes.POINTER(Tensor), _size, _int], _int),
    "anello_gradient_sync_begin": ([_pointer, ctypes.c_uint], _int),
    "anello_gradient_sync_ready": ([_pointer, _size, _pointer], _int),
    "anello_gradient_sync_ready_on": ([_pointer, _size, _pointer, _pointer], _int),
    "anello_gradient_sync_unused": ([_pointer, _size], _int),
    "anello_gradient_sync_wait": ([_pointer], _int),
    "anello_gradient_sync_wait_on": ([_pointer, _pointer], _int),
    "anello_gradient_sync_result": ([_pointer, _size, ctypes.POINTER(_pointer), ctypes.POINTER(_int)], _int),
    "anello_gradient_sync_view": ([_pointer, _size, ctypes.POINTER(_pointer)], _int),
    "anello_gradient_sync_overflow": ([_pointer, ctypes.POINTER(_int)], _int),
    "anello_gradient_sync_loss_scale": ([_pointer, ctypes.POINTER(ctypes.c_double)], _int),
    "anello_gradient_sync_join": ([_pointer, ctypes.POINTER(_int)], _int),
    "anello_gradient_sync_bucket_count": ([_pointer, ctypes.POINTER(_size)], _int),
    "anello_gradient_sync_bucket": ([_pointer, _size, ctypes.POINTER(BucketInfo)], _int),
    "anello_gradient_sync_query": ([_pointer, ctypes.POINTER(SyncStatistics)], _int),
    "anello_gradient_sync_summary": ([_pointer, _text, _size], _int),
}


def candidates():
    """The possible places of the library, in the order of the search."""
    named = os.environ.get("ANELLO_LIBRARY")
    if named:
        return [named]  # a library that the user names is the only candidate
    here = pathlib.Path(__file__).resolve().parent
    places = [here / SONAME]
    if (here.parent.parent / "meson.build").exists():  # this package is read from a clone
        places.append(here.parent.parent / "build" / "lib" / "api" / SONAME)
    return [str(place) for place in places if place.exists()] + [SONAME]


def _open():
    failures = []
    for place in candidates():
        try:
            library = ctypes.CDLL(place)
        except OSError as error:
            failures.append(str(error))
            continue
        for name, (arguments, result) in _FUNCTIONS.items():
            try:
                function = getattr(library, name)
            except AttributeError as error:
                raise LibraryError(f"{place} lacks {name}: it is no libanello of version {VERSION}") from error
            function.argtypes, function.restype = arguments, result
        version = library.anello_version()
        if version // 100 != VERSION // 100:
            raise LibraryError(f"{place} has version {version}; this package needs {VERSION // 100 * 100} to "
                               f"{VERSION // 100 * 100 + 99}")
        return library
    raise LibraryError("libanello was not found (" + "; ".join(failures) + "). ANELLO_LIBRARY may name it")


_library = None


def library():
    """The opened library; raises LibraryError. Opening it twice at once is harmless, because both get the same
    library."""
    global _library
    if _library is None:
        if sys.platform != "linux":
            raise LibraryError(f"Anello runs on Linux, not on {sys.platform}")
        _library = _open()
    return _library
