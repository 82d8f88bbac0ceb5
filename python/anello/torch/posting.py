"""Turns a method of the group into calls of the library: starts them under one lock and, if the caller blocks, waits at
once."""

import ctypes
import functools
import threading

import torch
from torch.distributed import ReduceOp

from anello import datatypes
from anello.errors import ARGUMENT, TIMEOUT, TRUNCATE, TYPE, AnelloError
from anello.library import Call
from anello.torch import elements, profiling, streams
from anello.torch.operation import Operation
from anello.torch.work import COMPLETED, Work, Works

(ALLREDUCE, BROADCAST, ALLGATHER, REDUCE_SCATTER_BLOCK, BARRIER, SEND, RECV, REDUCE, GATHER, SCATTER, ALLTOALL, _SCAN, _EXSCAN,
 ALLGATHERV, GATHERV, SCATTERV, REDUCE_SCATTER, ALLTOALLV) = range(18)
_CALL_BYTES = ctypes.sizeof(Call)
_NO_COUNTS = (None, None, None, None)
_SUM = ReduceOp.SUM
_profiled = torch.autograd._profiler_enabled


def collective(name, inputs=1):
    """A method that is a collective: torch.profiler shows it with this name, with its argument at `inputs`. If it
    raises before it has called the library, the other ranks learn of this instead of waiting."""

    def decorate(function):
        @functools.wraps(function)
        def method(self, *arguments, **named):
            try:
                if self._compare is not None:
                    self._compare(self, name, arguments, named)
                if _profiled():
                    return _shown(name, arguments[inputs:inputs + 1], function, self, *arguments, **named)
                return function(self, *arguments, **named)
            except AnelloError:
                raise
            except Exception as error:
                if not getattr(error, "anello_was_posted", False):
                    self._withdraw(f"{name}: {error}")
                raise

        return method

    return decorate


def message(name):
    """As above for a message, which has no place in the order of collectives."""

    def decorate(function):
        @functools.wraps(function)
        def method(self, *arguments, **named):
            if _profiled():
                return _shown(name, arguments[:1], function, self, *arguments, **named)
            return function(self, *arguments, **named)

        return method

    return decorate


def _shown(name, inputs, function, *arguments, **named):
    event = profiling.Event(f"anello:{name}", inputs)
    try:
        work = function(*arguments, **named)
    except BaseException:
        event.end()
        raise
    if isinstance(work, Work) and not work._operation.done:
        work._operation.event = event  # no other thread has the operation yet
    else:
        event.end()
    return work


class Posting:
    """The part of ProcessGroup that every kind of call needs."""

    def _prepare(self, communicator, name):
        self._communicator, self._name = communicator, name
        self._library, self._comm = communicator._library, communicator.handle
        self._rank, self._size = communicator.rank, communicator.size
        self._timeout_ms = 0  # of each call; 0: the communicator's
        self._told = False    # a caller has received the communicator's failure
        # An operation that consists of several library calls is started without another thread's calls between them. A
        # waiting thread never holds the lock, because it may wait for the operation that another thread is about to
        # start.
        self._starting = threading.Lock()
        self._sequence = 0
        self._coalesced = None  # works started since _start_coalescing
        self._streams = streams.Streams()
        self._compare = None    # the object that compares the ranks' calls before they start, if any

    def _doing(self, what):
        return f"{what} of rank {self._rank} in group {self._name}"

    def _error(self, code, what):
        if code not in (ARGUMENT, TYPE, TRUNCATE):  # all others are final
            self._told = True
        # Programs search for these words, which are gloo's.
        return self._communicator.error(code, self._doing(what) + (": Timed out while waiting" if code == TIMEOUT else ""))

    def _call(self, kind, send, receive, count, dtype, opts=None, op=0, peer=0, counts=_NO_COUNTS):
        return Call(_CALL_BYTES, kind, dtype, op, peer, 0, send, receive, count, self._timeout(opts), *counts, None, None)

    def _timeout(self, opts):
        """The timeout of one call, in milliseconds; 0 for the communicator's."""
        if opts is None:
            return self._timeout_ms
        timeout = opts.timeout
        # -1 ms: the caller has set none.
        return self._timeout_ms if timeout.days < 0 else max(1, round(timeout.total_seconds() * 1000))

    def _run(self, what, opts, calls, held, finish=None, results=()):
        """Posts calls that form one operation, and waits at once if the caller blocks. finish puts results in place."""
        self._sequence += 1
        device = streams.device_of(held)
        if device is not None:
            return self._enqueue(device, what, opts is not None and not opts.asyncOp, calls, held, finish, results)
        if opts is None or opts.asyncOp:
            return self._work(self._start(what, calls, held, finish, results))
        if len(calls) == 1:
            code = self._library.anello_post(self._comm, calls[0], None)
            if code:
                raise self._error(code, what)
            if finish is not None:
                try:
                    finish()
                except Exception as error:
                    error.anello_was_posted = True  # the call has had its place in the order
                    raise
        else:
            self._wait(self._start(what, calls, held, finish, results))
        return COMPLETED

    def _work(self, operation):
        return self._collected(Work(operation))

    def _collected(self, work):
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _start_coalescing(self, device):
        self._coalesced = []

    def _end_coalescing(self, device):
        works, self._coalesced = self._coalesced, None
        return Works(works)

    def _wait(self, operation):
        operation.complete()
        if operation.error is not None:
            raise operation.error

    def _start(self, what, calls, held, finish=None, results=()):
        requests, error = [], None
        operation = Operation(self, requests, held, finish, results, what)
        with self._starting:
            for call in calls:
                requests.append(ctypes.c_void_p())
                code = self._library.anello_post(self._comm, call, requests[-1])
                if code:
                    error = self._error(code, what)
                    break
        if error is not None:
            operation.finish = None
            operation.complete()  # the started calls use the caller's memory
            raise error
        return operation

    def _withdraw(self, text):
        """Takes this rank's place in the order of collectives with a call that is refused, so that the others get an error."""
        call = self._call(ALLREDUCE, None, None, 0, -1)
        call.label = text.encode()[:63]
        self._library.anello_post(self._comm, call, None)

    def _operation(self, opts, memory):
        """The library's number for opts.reduceOp on this memory; _free frees an operation that was made for this call."""
        if opts is None:
            return datatypes.SUM
        reduction = opts.reduceOp
        if reduction == _SUM:
            return datatypes.SUM
        known = elements.OPERATIONS.get(reduction.op)
        if known is not None:
            return known
        if reduction.op != ReduceOp.PREMUL_SUM:
            raise ValueError(f"the backend anello has no reduction {reduction.op}")
        if not memory.is_cpu:
            return datatypes.SUM  # of what _multiplied has returned
        dtype, factor = elements.of_reduction(memory), _factor(reduction, memory)
        if dtype in elements.INTEGERS:
            scalar, scalar_type = torch.tensor(int(factor), dtype=elements.INTEGERS[dtype]), dtype
        else:
            scalar, scalar_type = torch.tensor(factor, dtype=torch.float64), datatypes.FLOAT64
        op = ctypes.c_int()
        code = self._library.anello_op_create_premul_sum(scalar.data_ptr(), scalar_type, op)
        if code:
            raise self._error(code, "premultiplied sum")
        return op.value

    def _multiplied(self, opts, memory):
        """memory; on a device, where the library does not multiply in streams, a multiplied copy for PREMUL_SUM."""
        if opts is None or memory.is_cpu or opts.reduceOp.op != ReduceOp.PREMUL_SUM:
            return memory
        return (memory * _factor(opts.reduceOp, memory)).to(memory.dtype)

    def _free(self, op):
        if op > datatypes.LXOR:
            self._library.anello_op_free(op)


def _factor(reduction, memory):
    """That of PREMUL_SUM; a tensor stays one on a device, so that the host does not wait for it."""
    factor = reduction.factor
    if memory.dtype.is_floating_point or memory.dtype.is_complex:
        return factor.item() if memory.is_cpu and isinstance(factor, torch.Tensor) else factor
    factor = factor.item() if isinstance(factor, torch.Tensor) else factor
    if factor != int(factor):
        raise ValueError(f"integers cannot be multiplied by {factor}")
    return int(factor)


def one(tensors):
    """The only tensor of the list that torch.distributed passes."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"{len(tensors)} tensors where there should be one")
    return tensors[0]


def put_back(tensor, staging):
    """A function that puts results in place; None if they are there."""
    return None if staging is tensor else functools.partial(elements.put_back, tensor, staging)
