"""The gradient synchronizer of anello/gradient_sync.h: gradients averaged in buckets while the backward pass computes."""

import ctypes

from anello import datatypes
from anello.errors import describe
from anello.library import BucketInfo, SyncConfig, SyncStatistics, Tensor, library

LOCAL = 1  # a step in which gradients are accumulated and nothing is sent

_MiB = 1 << 20


class Parameter:
    """A name, and a gradient's address (None: not known yet), number of elements and data type."""

    __slots__ = ("name", "address", "count", "dtype")

    def __init__(self, name, address, count, dtype):
        self.name, self.address, self.count, self.dtype = name, address, count, dtype


def _tensors(parameters):
    size = ctypes.sizeof(Tensor)
    return (Tensor * len(parameters))(*[Tensor(size, each.name.encode(), each.address, each.count, each.dtype)
                                        for each in parameters])


class GradientSync:
    """One rank's synchronizer; the header is the contract of each call. Gradients are named by their numbers in
    `parameters`."""

    def __init__(self, communicator, parameters, bucket_bytes=25 * _MiB, first_bucket_bytes=_MiB, rebuild=True, views=False,
                 find_unused=False, static_graph=False, delay=False, op=datatypes.AVG, prescale=1.0, postscale=1.0,
                 wire=datatypes.FLOAT32, error_feedback=False, uneven=False, average_over_active=False, check_overflow=False,
                 loss_scale=0.0, loss_scale_interval=2000, timeout=None,
                 device=-1):
        self._library = library()
        config = SyncConfig(ctypes.sizeof(SyncConfig), first_bucket_bytes, bucket_bytes, rebuild, views, find_unused,
                            static_graph, delay, op, prescale, postscale, wire, error_feedback, uneven, average_over_active,
                            check_overflow, loss_scale, loss_scale_interval,
                            0 if timeout is None else max(1, round(timeout * 1000)), device)
        handle = ctypes.c_void_p()
        self._handle = None
        self.check(self._library.anello_gradient_sync_create(communicator.handle, _tensors(parameters), len(parameters), config,
                                                              handle), "making buckets")
        self._handle = handle.value
        self.ready = self._library.anello_gradient_sync_ready  # called most: (handle, i, address) -> code
        self.ready_on = self._library.anello_gradient_sync_ready_on  # (handle, i, address, stream) -> code

    @property
    def handle(self):
        return self._handle

    def check(self, code, doing):
        """Raises the error of a result of the library."""
        if code:
            raise describe(self._library, None, code, doing)

    def broadcast(self, tensors, root=0):
        self.check(self._library.anello_gradient_sync_broadcast(self._handle, _tensors(tensors), len(tensors), root),
                    "broadcasting tensors")

    def begin(self, flags=0):
        self.check(self._library.anello_gradient_sync_begin(self._handle, flags), "beginning a step")

    def unused(self, i):
        self.check(self._library.anello_gradient_sync_unused(self._handle, i), "handing over a gradient")

    def wait(self):
        self.check(self._library.anello_gradient_sync_wait(self._handle), "averaging gradients")

    def wait_on(self, stream):
        """Makes the stream, a number, wait for the results."""
        self.check(self._library.anello_gradient_sync_wait_on(self._handle, stream), "averaging gradients")

    def result(self, i):
        """The address of the last step's result of parameter i; None if no rank had a gradient of it."""
        data, used = ctypes.c_void_p(), ctypes.c_int()
        self.check(self._library.anello_gradient_sync_result(self._handle, i, data, used), "result")
        return data.value if used.value else None

    def view(self, i):
        """The address at which parameter i's gradient lives. Requires views."""
        address = ctypes.c_void_p()
        self.check(self._library.anello_gradient_sync_view(self._handle, i, address), "view")
        return address.value

    def overflow(self):
        found = ctypes.c_int()
        self.check(self._library.anello_gradient_sync_overflow(self._handle, found), "overflow")
        return found.value != 0

    def loss_scale(self):
        scale = ctypes.c_double()
        self.check(self._library.anello_gradient_sync_loss_scale(self._handle, scale), "loss scale")
        return scale.value

    def join(self):
        """This rank has no more data; returns the rank that had data longest."""
        last = ctypes.c_int()
        self.check(self._library.anello_gradient_sync_join(self._handle, last), "joining")
        return last.value

    def buckets(self):
        """The parameters of each, in the order in which buckets are sent."""
        count = ctypes.c_size_t()
        self.check(self._library.anello_gradient_sync_bucket_count(self._handle, count), "buckets")
        plan = []
        for index in range(count.value):
            info = BucketInfo(ctypes.sizeof(BucketInfo))
            self.check(self._library.anello_gradient_sync_bucket(self._handle, index, info), "buckets")
            plan.append(info.parameters[:info.parameter_count])
        return plan

    def statistics(self):
        values = SyncStatistics(ctypes.sizeof(SyncStatistics))
        self.check(self._library.anello_gradient_sync_query(self._handle, values), "statistics")
        return {name: getattr(values, name) for name, _ in SyncStatistics._fields_ if name != "size"}

    def summary(self):
        """Collective: one line that says what was sent, how much of it was hidden, and which rank computes longest."""
        text = ctypes.create_string_buffer(512)
        self.check(self._library.anello_gradient_sync_summary(self._handle, text, len(text)), "summary")
        return text.value.decode()

    def close(self):
        handle, self._handle = self._handle, None
        if handle is not None:
            self.check(self._library.anello_gradient_sync_destroy(handle), "close")

    def __del__(self):
        # A forked child's copy is refused, as it should be.
        if getattr(self, "_handle", None) is not None:
            self._library.anello_gradient_sync_destroy(self._handle)
