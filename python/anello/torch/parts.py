"""Collectives over lists of tensors, with a part for each rank; parts may differ in size."""

import ctypes

import torch

from anello.torch import elements
from anello.torch.posting import (ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, GATHERV, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK,
                                  SCATTERV, collective, one)


class Parts:
    @collective("all_gather")
    def allgather(self, outputs, inputs, opts=None):
        return self._gather_lists("all_gather", outputs, inputs, opts)

    @collective("all_gather_coalesced")
    def allgather_coalesced(self, outputs, inputs, opts=None):
        # Unlike in allgather, an inner list is the input of one rank.
        if len(outputs) != self._size:
            raise ValueError(f"{len(outputs)} lists of tensors for {self._size} ranks")
        return self._gather_lists("all_gather_coalesced", list(zip(*outputs, strict=True)), inputs, opts)

    def _gather_lists(self, what, outputs, inputs, opts):
        calls, held, wholes = [], [], []
        for parts, tensor in zip(outputs, inputs, strict=True):
            self._check_list(parts, tensor)
            source, whole = elements.to_read(tensor), _Whole(parts)
            if parts[self._rank].numel() != source.numel():
                raise ValueError(f"this rank's part has room for {parts[self._rank].numel()} elements, not {source.numel()}")
            dtype, each = elements.of_movement(source)
            kind, counts = (ALLGATHER, (None,) * 4) if whole.is_even() else (ALLGATHERV, (None, None, *whole.counts(each)))
            calls.append(self._call(kind, source.data_ptr(), whole.address, source.numel() * each, dtype, opts, counts=counts))
            held += [source, tensor, whole, counts]
            wholes.append(whole)
        return self._run(what, opts, calls, held, _spread(wholes), outputs[0] if len(outputs) == 1 else list(outputs))

    @collective("gather")
    def gather(self, outputs, inputs, opts):
        tensor, root = one(inputs), opts.rootRank
        source = elements.to_read(tensor)
        dtype, each = elements.of_movement(source)
        whole, address, counts = None, None, (None,) * 4
        if root == self._rank:
            self._check_list(one_list(outputs), tensor)
            whole = _Whole(outputs[0])
            address, counts = whole.address, (None, None, *whole.counts(each))
        call = self._call(GATHERV, source.data_ptr(), address, source.numel() * each, dtype, opts, 0, root, counts)
        return self._run("gather", opts, [call], (source, tensor, whole, counts), _spread([whole]) if whole else None,
                         list(outputs[0]) if whole else [])

    @collective("scatter")
    def scatter(self, outputs, inputs, opts):
        tensor, root = one(outputs), opts.rootRank
        memory = elements.to_write(tensor)
        dtype, each = elements.of_movement(memory)
        whole, address, counts = None, None, (None,) * 4
        if root == self._rank:
            self._check_list(one_list(inputs), tensor)
            whole = _Whole(inputs[0], filled=True)
            if inputs[0][root].numel() != memory.numel():
                raise ValueError(f"root's part of {inputs[0][root].numel()} elements does not fit into {memory.numel()}")
            address, counts = whole.address, (*whole.counts(each), None, None)
        call = self._call(SCATTERV, address, memory.data_ptr(), memory.numel() * each, dtype, opts, 0, root, counts)
        finish = None if memory is tensor else lambda: elements.put_back(tensor, memory)
        return self._run("scatter", opts, [call], (memory, tensor, whole, counts), finish, [tensor])

    @collective("reduce_scatter")
    def reduce_scatter(self, outputs, inputs, opts=None):
        tensor = one(outputs)
        self._check_list(one_list(inputs), tensor)
        plain = elements.reducible(tensor)
        memory = elements.to_write(plain)
        whole = _Whole([self._multiplied(opts, elements.reducible(part)) for part in inputs[0]], filled=True)
        if inputs[0][self._rank].numel() != tensor.numel():
            raise ValueError(f"this rank's part of {inputs[0][self._rank].numel()} elements is not {tensor.numel()}")
        dtype = elements.of_reduction(memory)
        kind, counts = ((REDUCE_SCATTER_BLOCK, (None,) * 4) if whole.is_even() else
                        (REDUCE_SCATTER, (None, None, whole.counts(1)[0], None)))
        op = self._operation(opts, memory)
        try:
            call = self._call(kind, whole.address, memory.data_ptr(), memory.numel(), dtype, opts, op, counts=counts)
            finish = None if memory is plain else lambda: elements.put_back(plain, memory)
            return self._run("reduce_scatter", opts, [call], (memory, tensor, whole, counts), finish, [tensor])
        finally:
            self._free(op)

    @collective("all_to_all")
    def alltoall(self, outputs, inputs, opts=None):
        self._check_list(outputs, inputs[0])
        self._check_list(inputs, outputs[0])
        arriving, leaving = _Whole(outputs), _Whole(inputs, filled=True)
        dtype, each = elements.of_movement(inputs[0])
        counts = (*leaving.counts(each), *arriving.counts(each))
        call = self._call(ALLTOALLV, leaving.address, arriving.address, 0, dtype, opts, counts=counts)
        return self._run("all_to_all", opts, [call], (leaving, arriving, counts), _spread([arriving]), list(outputs))

    @collective("all_to_all_single")
    def all_to_all_single(self, output, input, output_splits=None, input_splits=None, opts=None):
        if output.dtype != input.dtype:
            raise ValueError(f"all_to_all_single from {input.dtype} to {output.dtype}")
        source, memory = elements.to_read(input), elements.to_write(output)
        dtype, each = elements.of_movement(source)
        finish = None if memory is output else lambda: elements.put_back(output, memory)
        held = [source, memory, input, output]
        if not output_splits and not input_splits:
            if source.numel() != memory.numel() or source.dim() and source.shape[0] % self._size:
                raise ValueError(f"tensors of {source.shape[0] if source.dim() else 0} and "
                                 f"{memory.shape[0] if memory.dim() else 0} rows cannot be cut into {self._size} equal parts")
            call = self._call(ALLTOALL, source.data_ptr(), memory.data_ptr(), source.numel() * each // self._size, dtype, opts)
        else:
            counts = (*self._splits(source, input_splits, each), *self._splits(memory, output_splits, each))
            held.append(counts)
            call = self._call(ALLTOALLV, source.data_ptr(), memory.data_ptr(), 0, dtype, opts, counts=counts)
        return self._run("all_to_all_single", opts, [call], held, finish, [output])

    alltoall_base = all_to_all_single

    def _splits(self, tensor, splits, each):
        """Counts and displacements of elements from numbers of rows; equal parts if there are none."""
        rows = tensor.shape[0] if tensor.dim() else 0
        if not splits:
            if rows % self._size:
                raise ValueError(f"{rows} rows cannot be cut into {self._size} equal parts")
            splits = [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows or min(splits) < 0:
            raise ValueError(f"splits {list(splits)} are not {self._size} that make {rows} rows")
        row = tensor.numel() // rows * each if rows else 0
        return layout([split * row for split in splits])

    def _check_list(self, tensors, like):
        if len(tensors) != self._size:
            raise ValueError(f"{len(tensors)} tensors for {self._size} ranks")
        for tensor in tensors:
            if tensor.dtype != like.dtype:
                raise TypeError(f"tensors of {tensor.dtype} and {like.dtype} in one call")


def one_list(lists):
    if len(lists) != 1:
        raise ValueError(f"{len(lists)} lists of tensors where there should be one")
    return lists[0]


class _Whole:
    """The parts as one piece of memory: their own if they lie one after another, else a copy."""

    def __init__(self, parts, filled=False):
        for part in parts:
            elements.check(part)
        self.sizes = [part.numel() for part in parts]
        self.pairs = []  # (part, its place), for parts to copy
        if elements.adjacent(parts):
            self.memory, self.address = parts, parts[0].data_ptr()
            return
        self.memory, places = elements.flat(parts)
        self.address = self.memory.data_ptr()
        self.pairs = list(zip(parts, places))
        if filled:
            for part, place in self.pairs:
                elements.move(place, part.data)

    def is_even(self):
        return len(set(self.sizes)) == 1

    def counts(self, each):
        return layout([size * each for size in self.sizes])


def layout(counts):
    """Arrays of counts and of displacements, which the caller keeps until the library has read them."""
    displacements = [0]
    for count in counts[:-1]:
        displacements.append(displacements[-1] + count)
    kind = ctypes.c_size_t * len(counts)
    return _Array(kind(*counts)), _Array(kind(*displacements))


class _Array(ctypes.c_void_p):
    """The address of an array, which this object keeps."""

    def __init__(self, array):
        super().__init__(ctypes.addressof(array))
        self.array = array


def _spread(wholes):
    """A function that copies parts to their places; None if they are already there."""
    pairs = [pair for whole in wholes for pair in whole.pairs]
    if not pairs:
        return None

    def spread():
        for part, place in pairs:
            elements.move(part.data, place)

    return spread
