"""Tensors as the library sees them: an address, a count, a data type."""

import ctypes

import torch
from torch.distributed import ReduceOp

from anello import datatypes

DTYPES = {
    torch.float32: datatypes.FLOAT32, torch.float64: datatypes.FLOAT64, torch.float16: datatypes.FLOAT16,
    torch.bfloat16: datatypes.BFLOAT16, torch.float8_e4m3fn: datatypes.FLOAT8_E4M3,
    torch.float8_e5m2: datatypes.FLOAT8_E5M2, torch.int8: datatypes.INT8, torch.int16: datatypes.INT16,
    torch.int32: datatypes.INT32, torch.int64: datatypes.INT64, torch.uint8: datatypes.UINT8,
    torch.uint16: datatypes.UINT16, torch.uint32: datatypes.UINT32, torch.uint64: datatypes.UINT64,
    torch.bool: datatypes.BOOL, torch.complex64: datatypes.COMPLEX64, torch.complex128: datatypes.COMPLEX128,
}
INTEGERS = {code: dtype for dtype, code in DTYPES.items() if not dtype.is_floating_point and not dtype.is_complex}
OPERATIONS = {
    ReduceOp.SUM: datatypes.SUM, ReduceOp.PRODUCT: datatypes.PROD, ReduceOp.MIN: datatypes.MIN,
    ReduceOp.MAX: datatypes.MAX, ReduceOp.AVG: datatypes.AVG, ReduceOp.BAND: datatypes.BAND,
    ReduceOp.BOR: datatypes.BOR, ReduceOp.BXOR: datatypes.BXOR,
}


def check(tensor):
    if not tensor.is_cpu and not tensor.is_cuda:
        raise ValueError(f"the backend anello moves tensors of the CPU and of CUDA devices; this one is on {tensor.device}")
    if tensor.layout is not torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout} can be given to all_reduce alone")


def reducible(tensor):
    """tensor, or its memory as numbers that the library can add."""
    return torch.view_as_real(tensor) if tensor.dtype is torch.complex32 else tensor


def of_reduction(tensor):
    """The number of the data type for an operation that computes."""
    try:
        return DTYPES[tensor.dtype]
    except KeyError:
        raise TypeError(f"tensors of {tensor.dtype} can be moved, but not reduced") from None


def of_movement(tensor):
    """(data type, its elements per element) for an operation that copies: any type works, if necessary as bytes."""
    known = DTYPES.get(tensor.dtype)
    return (known, 1) if known is not None else (datatypes.BYTE, tensor.itemsize)


def is_plain(tensor):
    """Whether the tensor's memory contains its elements in order. That of a lazily conjugated or negated tensor does
    not."""
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


# From this many elements on, PyTorch copies with all threads of a pool (at::internal::GRAIN_SIZE), and returns when the
# last of them has had a processor. If the ranks of a host have no more processors than such threads, this takes a time
# slice of the rank that waits for this one: tens of milliseconds instead of one. Also, each thread that copies in this
# way has its own pool.
_SHARED_FROM = 32768


def move(into, source):
    """Copies source to into, with this thread only; on a device, in the current stream."""
    if into.numel() < _SHARED_FROM or not into.is_cpu:
        into.copy_(source)
    elif into.dtype == source.dtype and into.shape == source.shape and is_plain(into) and is_plain(source):
        ctypes.memmove(into.data_ptr(), source.data_ptr(), into.nbytes)  # without the interpreter's lock
    else:
        longest = max(range(into.dim()), key=into.size)
        middle = into.size(longest) // 2
        for begin, length in ((0, middle), (middle, into.size(longest) - middle)):
            move(into.narrow(longest, begin, length), source.narrow(longest, begin, length))
    return into


def empty(like, shape=None):
    """Memory on the same device, for elements of the same type in order."""
    return torch.empty(like.shape if shape is None else shape, dtype=like.dtype, device=like.device)


# Through .data: autograd would see an in-place operation on the tensor itself, and raise an error for a loss that has a
# graph. It does not see the library either, which writes by address.

def to_read(tensor):
    """tensor, or a copy of its elements in order."""
    check(tensor)
    if is_plain(tensor):
        return tensor
    return move(empty(tensor), tensor.data)


def to_write(tensor, filled=False):
    """tensor, or memory in order to write instead, which put_back later copies. filled: it is also read."""
    check(tensor)
    if is_plain(tensor):
        return tensor
    staging = empty(tensor)
    return move(staging, tensor.data) if filled else staging


def put_back(tensor, staging):
    if staging is not tensor:
        move(tensor.data, staging)


def flat(tensors):
    """Memory for all tensors, one after another, and its parts in their shapes."""
    sizes = [tensor.numel() for tensor in tensors]
    whole = empty(tensors[0], sum(sizes))
    return whole, [part.view(tensor.shape) for part, tensor in zip(whole.split(sizes), tensors)]


def adjacent(tensors):
    """Whether the tensors lie one after another in memory, as the chunks of one do."""
    end = tensors[0].data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != end or not is_plain(tensor):
            return False
        end += tensor.numel() * tensor.itemsize
    return True


def within(argument):
    """The tensors in an argument that is a tensor or (nested) lists of tensors."""
    if isinstance(argument, torch.Tensor):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for each in argument:
            yield from within(each)
