"""The memory of an object with a buffer (bytearray, array, memoryview, a numpy array): address, count, data type."""

import ctypes

from anello import datatypes


class _Buffer(ctypes.Structure):  # Python's Py_buffer
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_WRITABLE, _C_CONTIGUOUS_WITH_FORMAT = 0x1, 0x4 | 0x8 | 0x10 | 0x20
_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_Buffer)]


class Memory:
    """Holds an object's buffer, which keeps it from being resized or freed while this object lives. Raises the object's
    exception if it has no such memory: BufferError, TypeError."""

    __slots__ = ("_view", "address", "count", "dtype", "itemsize")

    def __init__(self, owner, writable):
        self._view = None
        view = _Buffer()
        _get(owner, ctypes.byref(view), _C_CONTIGUOUS_WITH_FORMAT | (_WRITABLE if writable else 0))
        self._view = view
        self.dtype = datatypes.of_format((view.format or b"B").decode(), view.itemsize)
        self.address, self.itemsize = view.buf or 0, view.itemsize
        self.count = view.len // view.itemsize

    def __del__(self):
        if self._view is not None:
            _release(ctypes.byref(self._view))
