"""Multiplication of tensors in place, with the calling thread only."""

import torch

_PIECE = 32767  # from one more on, PyTorch would use all threads of a pool of the calling thread's own


def scale(tensor, factor):
    """Integers are rounded towards zero."""
    for piece in tensor.view(-1).split(_PIECE):
        if piece.dtype.is_floating_point or piece.dtype.is_complex:
            piece.mul_(factor)
        else:
            piece.copy_(piece.double().mul_(factor).trunc_())


def divide(tensor, size, factor):
    """By the number of ranks, and times a factor."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        scale(tensor, factor / size)
        return
    for piece in tensor.view(-1).split(_PIECE):
        piece.copy_(torch.div(piece, size, rounding_mode="trunc"))
    if factor != 1:
        scale(tensor, factor)
