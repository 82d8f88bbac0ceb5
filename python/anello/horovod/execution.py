"""Carries out what was agreed, in the same order on every rank of a set."""

import ctypes

import torch

from anello import datatypes
from anello.errors import ARGUMENT, TYPE, AnelloError
from anello.horovod import adasum, request as requests
from anello.horovod.batches import Batch, batches
from anello.horovod.fusion import FusionMemory
from anello.horovod.scaling import divide, scale
from anello.library import Call
from anello.torch import elements
from anello.torch.parts import layout
from anello.torch.posting import ALLGATHERV, ALLREDUCE, ALLTOALLV, BROADCAST, REDUCE_SCATTER

DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (
    *elements.DTYPES, torch.complex32)}
_SIZES = {name: dtype.itemsize for name, dtype in DTYPES.items()}
_OPERATIONS = {
    "sum": datatypes.SUM,
    "avg": datatypes.SUM,
    "min": datatypes.MIN,
    "max": datatypes.MAX,
    "prod": datatypes.PROD
}
_CALL_BYTES = ctypes.sizeof(Call)
_PLANS = 64
_SMALL = 16 << 10  # bytes of a tensor
_NO_COUNTS = (None, None, None, None)


class Execution:
    """Of one set. Ranks that have joined contribute nothing (zeros, no rows) and drop the results."""

    def __init__(self, communicator, ranks, threshold, timeline):
        self._communicator, self._library = communicator, communicator._library
        self._rank, self._size, self._ranks = communicator.rank, communicator.size, ranks
        self._threshold, self._timeline = threshold, timeline
        self._fusion = FusionMemory()
        self._plans = {}
        self._allreduce_call = self._library.anello_allreduce

    def run(self, agreed, entries):
        """agreed: (request, rows) in order; entries: this rank's entries by key. Yields the entries that are complete
        after each collective. An operation that the library refuses fails alone; other errors are raised."""
        rows = {request.key: row for request, row in agreed}
        for step in self._steps([request for request, _ in agreed]):
            items = [request for request, *_ in step.items] if isinstance(step, Batch) else [step]
            found = [entries.get(request.key) for request in items]
            for entry in found:
                if entry is not None and entry.staged is not None:
                    entry.staged.arrive()
            try:
                with self._timeline.operation(step.kind, items):
                    if isinstance(step, Batch):
                        (self._reduce if step.kind == requests.ALLREDUCE else self._broadcast)(step, found)
                    else:
                        self._alone(step, rows[step.key], found[0])
            except AnelloError as error:
                if error.code not in (ARGUMENT, TYPE):
                    raise
                for entry in filter(None, found):
                    entry.error = RuntimeError(f"tensor {entry.request.name!r}: {error}")
            yield self._completed(step, found)

    def _steps(self, agreed):
        """Training agrees on the same tensors in each step."""
        key = tuple(map(id, agreed))  # a plan keeps its requests, so nothing else has their ids
        steps = self._plans.get(key)
        if steps is None:
            if len(self._plans) == _PLANS:
                self._plans.clear()
            steps = self._plans[key] = batches(agreed, self._threshold, _SIZES)
        return steps

    def _completed(self, step, found):
        done = []
        for entry in found:
            if entry is None:
                continue
            entry.left -= 1 if isinstance(step, Batch) else len(entry.inputs)
            if entry.left <= 0:
                if entry.error is None:
                    entry.result = entry.finish(entry) if entry.finish else entry.outputs
                done.append(entry)
        return done

    # ---- Tensors that travel together

    def _reduce(self, batch, found):
        dtype = DTYPES[batch.dtype]
        memory, alone = self._collected(batch, found, dtype)
        plain = batch.prescale == batch.postscale == 1
        if batch.prescale != 1:
            scale(memory, batch.prescale)
        average = batch.op == "avg"
        op = datatypes.AVG if average and plain and dtype.is_floating_point else _OPERATIONS[batch.op]
        code = elements.of_reduction(memory)
        address = memory.data_ptr()
        failed = self._allreduce_call(address, address, memory.numel(), code, op, self._communicator.handle)
        if failed:
            raise self._communicator.error(failed, self._doing("allreduce", batch.names()))
        if average and op != datatypes.AVG:
            divide(memory, self._size, batch.postscale)
        elif batch.postscale != 1:
            scale(memory, batch.postscale)
        if not alone:
            self._spread(batch, found, memory)

    def _broadcast(self, batch, found):
        root = self._ranks.index(batch.root)
        memory, alone = self._collected(batch, found, torch.uint8, fill=self._rank == root)
        address = memory.data_ptr()
        self._post(BROADCAST, batch.names(), address, address, memory.nbytes, datatypes.BYTE, peer=root)
        if not alone:
            self._spread(batch, found, memory)

    def _collected(self, batch, found, dtype, fill=True):
        """Memory with this rank's tensors, and whether it is that of the only tensor's output."""
        if len(found) == 1 and found[0] is not None:
            (_, part, _), = batch.items
            source, memory = found[0].inputs[part], found[0].outputs[part]
            if fill and source is not memory:
                ctypes.memmove(memory.data_ptr(), source.data_ptr(), source.nbytes)
            return memory, True
        memory = self._fusion.of(batch.count, dtype)
        if fill:
            with self._timeline.activity("MEMCPY_IN_FUSION_BUFFER", batch.items):
                places = memory.split_with_sizes(batch.counts)
                self._copy([(place, entry.inputs[part] if entry is not None else None)
                            for place, (_, part, _), entry in zip(places, batch.items, found)])
        return memory, False

    def _spread(self, batch, found, memory):
        with self._timeline.activity("MEMCPY_OUT_FUSION_BUFFER", batch.items):
            places = memory.split_with_sizes(batch.counts)
            self._copy([(entry.outputs[part], place)
                        for place, (_, part, _), entry in zip(places, batch.items, found) if entry is not None])

    @staticmethod
    def _copy(pairs):
        """From the second of each pair to the first; zeros for None. Small ones in one call: between calls, this thread
        would have to wait for the interpreter's lock each time."""
        into, sources = [], []
        for place, source in pairs:
            if source is None:
                place.zero_()
            elif place.nbytes < _SMALL and place.dtype == source.dtype:
                into.append(place.view(-1))
                sources.append(source.view(-1))
            else:
                ctypes.memmove(place.data_ptr(), source.data_ptr(), source.nbytes)
        if into:
            torch._foreach_copy_(into, sources)

    # ---- Tensors that travel alone

    def _alone(self, request, rows, entry):
        if request.kind == requests.BARRIER:
            return
        function = {requests.ALLGATHER: self._allgather, requests.ALLTOALL: self._alltoall,
                    requests.REDUCESCATTER: self._reducescatter, requests.ALLREDUCE: self._adasum}[request.kind]
        outputs = []
        for part, (dtype, shape) in enumerate(zip(request.dtypes, request.shapes)):
            source = entry.inputs[part] if entry is not None else None
            if request.kind == requests.ALLREDUCE:
                function(request, part, source, entry.outputs[part] if entry is not None else None)
            else:
                outputs.append(function(request, DTYPES[dtype], shape, source, [row[part] for row in rows]
                                        if request.kind == requests.ALLGATHER else rows))
        if entry is not None and outputs:
            entry.outputs = outputs

    def _allgather(self, request, dtype, shape, source, rows):
        if source is None:
            source = torch.empty((0, *shape[1:]), dtype=dtype)
        out = torch.empty((sum(rows), *shape[1:]), dtype=dtype)
        code, each = elements.of_movement(source)
        each *= _row(shape)
        arrays = layout([row * each for row in rows])
        self._post(ALLGATHERV, [request.name], source.data_ptr(), out.data_ptr(), rows[self._rank] * each, code,
                   counts=(None, None, *arrays))
        return out

    def _alltoall(self, request, dtype, shape, source, splits):
        leaving, arriving = splits[self._rank], [row[self._rank] for row in splits]
        out = torch.empty((sum(arriving), *shape[1:]), dtype=dtype)
        code, each = elements.of_movement(source)
        each *= _row(shape)
        counts = (*layout([row * each for row in leaving]), *layout([row * each for row in arriving]))
        self._post(ALLTOALLV, [request.name], source.data_ptr(), out.data_ptr(), 0, code, counts=counts)
        return out, torch.tensor(arriving, dtype=torch.int32)

    def _reducescatter(self, request, dtype, shape, source, _):
        shares = [shape[0] // self._size + (place < shape[0] % self._size) for place in range(self._size)]
        if source is None:
            source = torch.zeros(shape, dtype=dtype)
        elif request.prescale != 1:
            source = source.clone()
        if request.prescale != 1:
            scale(source, request.prescale)
        out = torch.empty((shares[self._rank], *shape[1:]), dtype=dtype)
        plain = request.prescale == request.postscale == 1
        average = request.op == "avg"
        op = datatypes.AVG if average and plain and dtype.is_floating_point else _OPERATIONS[request.op]
        counts = layout([share * _row(shape) for share in shares])[0]
        self._post(REDUCE_SCATTER, [request.name], source.data_ptr(), out.data_ptr(), 0, elements.of_reduction(source),
                   op, counts=(None, None, counts, None))
        if average and op != datatypes.AVG:
            divide(out, self._size, request.postscale)
        elif request.postscale != 1:
            scale(out, request.postscale)
        return out

    def _adasum(self, request, part, source, out):
        memory = torch.zeros(request.shapes[part],
                             dtype=DTYPES[request.dtypes[part]]) if source is None else source.clone()
        if request.prescale != 1:
            scale(memory, request.prescale)
        adasum.reduce(memory.view(-1), self._communicator, self._doing("allreduce", [request.name]))
        if request.postscale != 1:
            scale(memory, request.postscale)
        if out is not None:
            ctypes.memmove(out.data_ptr(), memory.data_ptr(), memory.nbytes)

    # ---- The library

    def _post(self, kind, names, send, receive, count, dtype, op=0, peer=0, counts=_NO_COUNTS):
        call = Call(_CALL_BYTES, kind, dtype, op, peer, 0, send, receive, count, 0, *counts, None,
                    names[0].encode()[:63])
        failed = self._library.anello_post(self._communicator.handle, call, None)
        if failed:
            raise self._communicator.error(failed, self._doing(_WORDS[kind], names))

    def _doing(self, what, names):
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"{what} of {names[0]!r}{more} on rank {self._ranks[self._rank]}"


_WORDS = {BROADCAST: "broadcast", ALLGATHERV: "allgather", ALLTOALLV: "alltoall", REDUCE_SCATTER: "reducescatter"}


def _row(shape):
    """The elements of a row."""
    return torch.Size(shape[1:]).numel()
