"""Tensors and streams of a CUDA device for tests without one, over the fake driver (test/support/fake_libcuda.cpp).

install() puts this module in the place of torch.cuda in the backend. Device memory is host memory here, so PyTorch's own
kernels work on its tensors; they run at once, in the host's thread. The backend's own copies first wait for the stream
that is current.
"""

import contextlib
import ctypes
import sys
import threading
import time

import torch

_driver = ctypes.CDLL("libcuda.so.1")
_POINTER, _NON_BLOCKING, _AT_LEAST = ctypes.c_void_p, 1, 0
_DEVICE = torch.device("cuda", 0)
_here = threading.local()


def hold(on):
    """Whether streams stand still."""
    _driver.fake_cuda_hold(int(on))


def _call(name, *arguments):
    code = getattr(_driver, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name} returned {code}")


class Event:
    """A word that a stream sets to 1."""

    def __init__(self):
        self._word = _POINTER()
        _call("cuMemHostAlloc", ctypes.byref(self._word), ctypes.c_size_t(4), 0)
        ctypes.c_uint32.from_address(self._word.value).value = 0

    def synchronize(self):
        while not self.query():
            time.sleep(0.0001)

    def query(self):
        return ctypes.c_uint32.from_address(self._word.value).value == 1


class Stream:
    def __init__(self, device=None):
        self._stream = _POINTER()
        _call("cuStreamCreate", ctypes.byref(self._stream), _NON_BLOCKING)
        self.cuda_stream = self._stream.value

    def record_event(self):
        event = Event()
        _call("cuStreamWriteValue32_v2", self._stream, ctypes.c_uint64(event._word.value), 1, 0)
        return event

    def wait_event(self, event):
        _call("cuStreamWaitValue32_v2", self._stream, ctypes.c_uint64(event._word.value), 1, _AT_LEAST)

    def wait_stream(self, other):
        self.wait_event(other.record_event())

    def synchronize(self):
        _call("cuStreamSynchronize", self._stream)

    def fill(self, tensor, byte):
        _call("cuMemsetD8Async", ctypes.c_uint64(tensor.data_ptr()), ctypes.c_ubyte(byte), ctypes.c_size_t(tensor.nbytes),
              self._stream)

    def copy(self, into, source):
        _call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(into.data_ptr()), ctypes.c_uint64(source.data_ptr()),
              ctypes.c_size_t(source.nbytes), self._stream)


_default = []  # the stream of threads that have chosen none


def current_stream(device=None):
    return (getattr(_here, "streams", None) or _default)[-1]


@contextlib.contextmanager
def stream(chosen):
    if not hasattr(_here, "streams"):
        _here.streams = []
    _here.streams.append(chosen)
    try:
        yield
    finally:
        _here.streams.pop()


@contextlib.contextmanager
def device(_):
    yield


def current_device():
    return 0


def is_initialized():
    return True


def is_available():
    return True


class Tensor(torch.Tensor):
    """A tensor that says that it is on the device."""

    is_cpu = property(lambda self: False)
    is_cuda = property(lambda self: True)
    device = property(lambda self: _DEVICE)

    def record_stream(self, stream):
        recorded.append((self.data_ptr(), stream))

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        """A copy to the host that does not block is the stream's."""
        if function is torch.Tensor.copy_ and named and named.get("non_blocking") and not isinstance(arguments[0], cls):
            into, source = arguments
            _call("cuMemcpyDtoHAsync_v2", _POINTER(into.data_ptr()), ctypes.c_uint64(source.data_ptr()),
                  ctypes.c_size_t(source.nbytes), current_stream()._stream)
            return into
        return super().__torch_function__(function, types, arguments, named)


recorded = []  # (address, stream)
_kept = []     # what calls use: PyTorch's allocator would reuse it only when the streams have passed them


def empty(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    size, address = max(count * dtype.itemsize, 1), ctypes.c_uint64()
    _call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    memory = (ctypes.c_char * size).from_address(address.value)  # never freed, for the same reason
    plain = torch.frombuffer(memory, dtype=torch.uint8)[:count * dtype.itemsize].view(dtype).view(shape)
    return plain.as_subclass(Tensor)


def pinned(like):
    size, memory = max(like.numel() * like.dtype.itemsize, 1), _POINTER()
    _call("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(size), 0)
    memory = (ctypes.c_char * size).from_address(memory.value)
    return torch.frombuffer(memory, dtype=torch.uint8)[:like.numel() * like.dtype.itemsize].view(like.dtype).view(like.shape)


def at(address, size):
    current_stream().synchronize()  # PyTorch's own kernels, which may read it, do not wait here
    return torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8).as_subclass(Tensor)


def on_device(values):
    made_here = empty(*values.shape, dtype=values.dtype)
    made_here.copy_(values)
    return made_here


class Future(torch.futures.Future):
    """PyTorch's own for devices needs one. What it records is only noted."""

    def __init__(self, devices):
        super().__init__()
        self.devices, self.stream = devices, None

    def set_result(self, value):
        self.stream = current_stream()
        super().set_result(value)


def install(*also):
    """also: modules outside anello.torch that use torch.cuda."""
    from anello.torch import elements, stream_work, streams

    _call("cuInit", 0)
    context = _POINTER()
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    _call("cuCtxSetCurrent", context)
    _default[:] = [Stream()]
    for module in (streams, stream_work, *also):
        module.cuda = sys.modules[__name__]
    torch.cuda.get_device_capability = lambda device=None: (8, 0)  # torch.distributed asks for it
    # Its answer would take the kind of tensor away from what the backend computes inside.
    torch.distributed.distributed_c10d.has_torch_function = lambda arguments: False
    on_host, copied = elements.empty, elements.move

    def move(into, source):
        if into.is_cuda:
            current_stream().synchronize()
        return copied(into, source)

    def place(like, shape=None):
        shape = like.shape if shape is None else shape
        return empty(*([shape] if isinstance(shape, int) else shape), dtype=like.dtype) if like.is_cuda else on_host(like, shape)

    elements.empty, elements.move = place, move
    enqueued = streams.InStreams._enqueue

    def enqueue(group, device, what, blocking, calls, held, *others):
        _kept.append(held)
        return enqueued(group, device, what, blocking, calls, held, *others)

    streams.InStreams._enqueue = enqueue
    streams.memory_at = lambda address, size, device, owner: at(address, size)
