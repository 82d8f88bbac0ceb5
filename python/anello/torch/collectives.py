"""Collectives whose parts are equal on all ranks."""

import ctypes

import torch

from anello.torch import elements
from anello.torch.operation import Operation
from anello.torch.posting import (ALLGATHER, ALLREDUCE, BARRIER, BROADCAST, REDUCE, REDUCE_SCATTER_BLOCK, collective, one,
                                  put_back)
from anello.torch.work import COMPLETED

_STRIDED = torch.strided


class Collectives:
    @collective("all_reduce", inputs=0)
    def allreduce(self, tensors, opts=None):
        tensor = one(tensors)
        if tensor.layout is not _STRIDED:
            from anello.torch import sparse

            return sparse.allreduce(self, tensor, opts)
        plain = elements.reducible(tensor)
        memory = self._multiplied(opts, elements.to_write(plain, filled=True))
        dtype = elements.of_reduction(memory)
        address, count = memory.data_ptr(), memory.numel()
        op = self._operation(opts, memory)
        try:
            if self._timeout(opts) or not memory.is_cpu:
                return self._run("all_reduce", opts, [self._call(ALLREDUCE, address, address, count, dtype, opts, op)],
                                 (memory, tensor), put_back(plain, memory), [tensor])
            # Programs make this call most often, and small: it uses the library's own function instead of filling in a
            # struct.
            self._sequence += 1
            if opts is not None and not opts.asyncOp:
                code = self._allreduce(address, address, count, dtype, op, self._comm)
                if code:
                    raise self._error(code, "all_reduce")
                if memory is not plain:
                    elements.put_back(plain, memory)
                return COMPLETED
            request = ctypes.c_void_p()
            operation = Operation(self, [request], (memory, tensor), put_back(plain, memory), [tensor], "all_reduce")
            with self._starting:
                code = self._iallreduce(address, address, count, dtype, op, self._comm, request)
            if code:
                operation.refused()
                raise self._error(code, "all_reduce")
            return self._work(operation)
        finally:
            self._free(op)

    @collective("all_reduce_coalesced", inputs=0)
    def allreduce_coalesced(self, tensors, opts=None):
        plain = [elements.reducible(tensor) for tensor in tensors]
        memories = [self._multiplied(opts, elements.to_write(tensor, filled=True)) for tensor in plain]
        dtypes = [elements.of_reduction(memory) for memory in memories]
        operations = {dtype: self._operation(opts, memory) for dtype, memory in zip(dtypes, memories)}
        try:
            calls = [self._call(ALLREDUCE, memory.data_ptr(), memory.data_ptr(), memory.numel(), dtype, opts, operations[dtype])
                     for memory, dtype in zip(memories, dtypes)]
            return self._run("all_reduce_coalesced", opts, calls, (memories, tensors), _put_all_back(plain, memories),
                             list(tensors))
        finally:
            for op in operations.values():
                self._free(op)

    @collective("broadcast", inputs=0)
    def broadcast(self, tensors, opts=None):
        tensor, root = one(tensors), 0 if opts is None else opts.rootRank
        memory = elements.to_read(tensor) if root == self._rank else elements.to_write(tensor)
        dtype, each = elements.of_movement(memory)
        address = memory.data_ptr()
        finish = None if root == self._rank else put_back(tensor, memory)
        call = self._call(BROADCAST, address, address, memory.numel() * each, dtype, opts, 0, root)
        return self._run("broadcast", opts, [call], (memory, tensor), finish, [tensor])

    @collective("reduce", inputs=0)
    def reduce(self, tensors, opts):
        tensor, root = one(tensors), opts.rootRank
        plain = elements.reducible(tensor)
        memory = self._multiplied(opts, elements.to_write(plain, filled=True))
        dtype = elements.of_reduction(memory)
        address = memory.data_ptr()
        op = self._operation(opts, memory)
        try:
            call = self._call(REDUCE, address, address if root == self._rank else None, memory.numel(), dtype, opts, op, root)
            return self._run("reduce", opts, [call], (memory, tensor),
                             put_back(plain, memory) if root == self._rank else None, [tensor])
        finally:
            self._free(op)

    @collective("barrier")
    def barrier(self, opts=None):
        self._streams.synchronize(() if opts is None else opts.device_ids)
        return self._run("barrier", opts, [self._call(BARRIER, None, None, 0, 0, opts)], ())

    # ---- One tensor that holds all ranks' parts

    @collective("all_gather_single")
    def all_gather_single(self, output, input, opts=None):
        return self._gather_all("all_gather_single", [output], [input], opts)

    @collective("all_gather_single_coalesced")
    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return self._gather_all("all_gather_single_coalesced", outputs, inputs, opts)

    def _gather_all(self, what, outputs, inputs, opts):
        sources = [elements.to_read(tensor) for tensor in inputs]
        memories = [elements.to_write(tensor) for tensor in outputs]
        calls = []
        for source, memory in zip(sources, memories, strict=True):
            _whole(memory, source, self._size)
            dtype, each = elements.of_movement(source)
            calls.append(self._call(ALLGATHER, source.data_ptr(), memory.data_ptr(), source.numel() * each, dtype, opts))
        return self._run(what, opts, calls, (sources, memories, inputs, outputs), _put_all_back(outputs, memories),
                         list(outputs))

    @collective("reduce_scatter_single")
    def reduce_scatter_single(self, output, input, opts=None):
        return self._scatter_reduced("reduce_scatter_single", [output], [input], opts)

    @collective("reduce_scatter_single_coalesced")
    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        return self._scatter_reduced("reduce_scatter_single_coalesced", outputs, inputs, opts)

    def _scatter_reduced(self, what, outputs, inputs, opts):
        plain = [elements.reducible(tensor) for tensor in outputs]
        sources = [self._multiplied(opts, elements.to_read(elements.reducible(tensor))) for tensor in inputs]
        memories = [elements.to_write(tensor) for tensor in plain]
        dtypes = [elements.of_reduction(source) for source in sources]
        operations = {dtype: self._operation(opts, source) for dtype, source in zip(dtypes, sources)}
        calls = []
        try:
            for source, memory, dtype in zip(sources, memories, dtypes, strict=True):
                _whole(source, memory, self._size)
                calls.append(self._call(REDUCE_SCATTER_BLOCK, source.data_ptr(), memory.data_ptr(), memory.numel(), dtype, opts,
                                        operations[dtype]))
            return self._run(what, opts, calls, (sources, memories, inputs, outputs), _put_all_back(plain, memories),
                             list(outputs))
        finally:
            for op in operations.values():
                self._free(op)

    # The names of these before PyTorch 2.13; other libraries still use them.
    _allgather_base = all_gather_into_tensor = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_tensor = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _whole(whole, part, size):
    if whole.numel() != part.numel() * size or whole.dtype != part.dtype:
        raise ValueError(f"{size} parts of {part.numel()} elements of {part.dtype} are not {whole.numel()} of {whole.dtype}")


def _put_all_back(tensors, stagings):
    staged = [(tensor, staging) for tensor, staging in zip(tensors, stagings) if staging is not tensor]
    if not staged:
        return None

    def put_all_back():
        for tensor, staging in staged:
            elements.put_back(tensor, staging)

    return put_all_back
