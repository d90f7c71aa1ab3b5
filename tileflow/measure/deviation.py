"""How far two floating-point tensors are apart, element by element, chunk by chunk: what checks and noise count.

Distances are relative to ``base + |ref|``. The base is the RMS of the whole reference, or of the element's row (the
last dimension) where that is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_FILL = 1e37  # beyond it an element is a fill near the end of a type's range, as ``finfo(dtype).min`` is, and no scale
CHUNK = 1 << 24  # elements compared at a time: the temporaries of a large output would not fit beside it


def chunks(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Groups of rows; a tensor of one dimension, or with rows longer than a chunk, has rows of one element."""
    import torch

    width = tensor.shape[-1] if tensor.ndim > 1 and tensor.shape[-1] <= CHUNK else 1
    return torch.split(tensor.reshape(-1, width), max(CHUNK // width, 1))


def row_scales(ref: Sequence[torch.Tensor]) -> torch.Tensor:
    """The RMS of the whole tensor, or that of each row where it is larger; shape (rows, 1), or (1, 1) for rows of one
    element."""
    import torch

    squares = [_finite_squares(part) for part in ref]
    whole = torch.stack([part.sum(0) for part in squares]).sum(0)
    rms = (whole[:1] / whole[1:].clamp(min=1)).sqrt()[None]
    if ref[0].shape[1] == 1:
        return rms
    each = torch.cat(squares)
    return (each[:, :1] / each[:, 1:].clamp(min=1)).sqrt().maximum(rms)


def by_chunk(base: torch.Tensor, parts: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The bases of each chunk."""
    import torch

    return torch.split(base, len(parts[0])) if len(base) > 1 else [base] * len(parts)


def worst(got: torch.Tensor, expected: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """The largest ``|got - expected| / (base + |expected|)`` of a chunk, in few passes over memory.

    NaN where anything is not finite, or the reference all zero.
    """
    import torch

    wide = wide_dtype(expected)
    ref = expected.to(wide)
    allowed = ref.abs().add_(base.to(wide))
    out = got.to(wide) if got.element_size() == 1 else got  # types of one byte promote to nothing
    return torch.sub(out, ref).to(wide).abs_().div_(allowed).amax().double()


def judge(
    got: torch.Tensor, expected: torch.Tensor, base: torch.Tensor, tolerance: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(elements that are special where the reference is not, or otherwise; error over allowance) of one chunk."""
    import torch

    wide = wide_dtype(expected)
    out, ref = got.to(wide), expected.to(wide)
    # Past the output type's range the reference's own rounding to it is infinite, and so may the output be.
    special = out.isfinite() != ref.isfinite()
    rounded = ref.to(got.dtype).to(wide)
    same = (out == rounded) | (out.isnan() & rounded.isnan())
    both = out.isfinite() & ref.isfinite()
    unlike = (special | ~both) & ~same
    error = (out - ref).abs().where(both, 0)
    least = torch.finfo(got.dtype).smallest_normal * torch.finfo(got.dtype).eps  # the step between subnormal numbers
    allowed = tolerance * (base.to(wide) + ref.abs()) + least
    return unlike, torch.where(error == 0, 0.0, error / allowed).double()


def flipped(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The elements that are infinite in one and a finite number in the other."""
    one, other = (t.float() if t.element_size() == 1 else t for t in (one, other))  # types of one byte have no such ops
    return (one.isinf() & other.isfinite()) | (one.isfinite() & other.isinf())


def wide_dtype(expected: torch.Tensor) -> torch.dtype:
    """What differences from ``expected`` are computed in."""
    import torch

    return torch.float64 if expected.dtype == torch.float64 else torch.float32


def _finite_squares(ref: torch.Tensor) -> torch.Tensor:
    """(sum of squares, count) of the elements of each row that are finite and no fills; shape (rows, 2)."""
    import torch

    values = ref.double()
    finite = values.abs() < _FILL
    return torch.stack((values.where(finite, 0).square().sum(1), finite.sum(1).double()), 1)
