"""Vectors along a dimension: cross and inner products, distances of pairs, powers, rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import torch

from ...errors import ShapeError, TraceError
from ..dimensions import show
from ..torch_registry import TABLE, register_torch
from ..trace import Tracer
from ..values import TensorRef, TileValue
from .along import named
from .einsum import einsum
from .factories import arange
from .matmul import vector_dot
from .packing import stack, unbind
from .reductions import norm, reduce
from .reshape import axis_of, value_of
from .slices import size_of
from .views import unsqueeze

# ---- products -------------------------------------------------------------------------------------------------------


@register_torch("cross")
def cross(t: Tracer, a: Any, b: Any, dim: int | None = None) -> Any:
    """The vector product along ``dim``, of 3 elements; without one the first dimension that has as many."""
    a, b = (t.wrap(value_of(t, x)) for x in (a, b))
    dims = t.broadcast([a.value.dims, b.value.dims])
    if dim is None:
        dim = next((n for n, d in enumerate(dims) if d.extent.constant == 3), -1)
    axis = axis_of(t, dim, len(dims))
    a, b = t.expand(a, dims), t.expand(b, dims)
    if size_of(t, a, axis, "cross") != 3:
        raise ShapeError("a cross product is of vectors of 3", got=show(dims), where=t.location(), hint="name the dim")
    (a0, a1, a2), (b0, b1, b2) = (unbind(t, x, axis) for x in (a, b))
    return stack(t, [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis)


def _cross_of_last(t: Tracer, a: Any, b: Any, *, dim: int = -1) -> Any:
    return cross(t, a, b, dim)


TABLE[torch.linalg.cross] = (_cross_of_last, "linalg.cross")


@register_torch("vecdot")
def vecdot(t: Tracer, x: Any, y: Any, *, dim: int = -1) -> Any:
    """The sum over ``dim`` of the products."""
    return reduce(t, "sum", x * y, dim, False)


register_torch("vdot")(vector_dot)


@register_torch("inner")
def inner(t: Tracer, a: Any, b: Any) -> Any:
    """The sums over both last dimensions of the products, for each pair of the others."""
    if not a.ndim or not b.ndim:
        return a * b
    return tensordot(t, a, b, ([-1], [-1]))


@register_torch("tensordot")
def tensordot(t: Tracer, a: Any, b: Any, dims: Any = 2) -> Any:
    """The sums of the products over the last ``dims`` dimensions of ``a`` and the first of ``b``, or over those that
    two lists name."""
    if isinstance(dims, int):
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(first) != len(second):
        raise ShapeError(
            "tensordot sums over pairs of dimensions",
            got=f"{len(first)} and {len(second)}",
            where=t.location(),
            hint="dims=([1, 0], [0, 1])",
        )
    left = ascii_letters[: a.ndim]
    right = list(ascii_letters[a.ndim : a.ndim + b.ndim])
    summed = [axis_of(t, d, a.ndim) for d in first]
    for n, d in zip(summed, second, strict=True):
        right[axis_of(t, d, b.ndim)] = left[n]
    result = "".join(c for n, c in enumerate(left) if n not in summed) + "".join(c for c in right if c not in left)
    return einsum(t, f"{left},{''.join(right)}->{result}", a, b)


# ---- distances ------------------------------------------------------------------------------------------------------


@register_torch("pairwise_distance")
def pairwise_distance(t: Tracer, x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of ``x1 - x2 + eps`` over the last dimension."""
    return norm(t, x1 - x2 + eps, p, -1, keepdim)


@register_torch("cdist")
def cdist(t: Tracer, x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    """The p-norm of the difference of each pair of rows: (..., m, k) and (..., n, k) give (..., m, n)."""
    return norm(t, unsqueeze(t, x1, -2) - unsqueeze(t, x2, -3), p, -1, False)


def _norm_of_matrices(
    t: Tracer, x: Any, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if ord != "fro":
        raise TraceError(
            "norms of matrices are Frobenius's",
            got=repr(ord),
            where=t.location(),
            hint="the largest sum of a column: x.abs().sum(-2).amax(-1)",
        )
    return norm(t, x, 2, tuple(dim), keepdim, dtype)


TABLE[torch.linalg.matrix_norm] = (_norm_of_matrices, "linalg.matrix_norm")


# ---- rows of a table ------------------------------------------------------------------------------------------------


@register_torch("one_hot")
def one_hot(t: Tracer, x: Any, num_classes: int = -1) -> Any:
    """1 where a class of the new last dimension is the one that ``x`` names, else 0, as int64."""
    if num_classes == -1:
        raise TraceError(
            "one_hot in a kernel takes the number of classes",
            got="none, which the largest of all elements would say",
            where=t.location(),
            hint="F.one_hot(x, n)",
        )
    return t.cast(t.pointwise("eq", unsqueeze(t, x, -1), arange(t, num_classes)), "int64")


@register_torch("embedding")
def embedding(
    t: Tracer,
    index: Any,
    weight: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: Any = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of ``weight``, a tensor that the kernel reads or a tile, at the places that ``index`` holds. Raises
    TraceError for ``max_norm``, which writes to the table."""
    if max_norm is not None:
        raise TraceError(
            "embedding in a kernel leaves its table as it is",
            got=f"max_norm={max_norm}",
            where=t.location(),
            hint="scale the rows that it gives",
        )
    if isinstance(weight, TensorRef):
        return weight[index, :]
    if isinstance(index, TileValue) and index.ndim and (index.ndim == 1 or weight.value.dims[0].tile is None):
        return named(t, weight, 0, index)
    raise TraceError(
        "a table in registers is read by a tile of ints, rows of a loop by a 1-D tile of ints",
        got=repr(index)[:100],
        where=t.location(),
        hint="F.embedding(index, tensor), table[index, :] of a tensor that the kernel reads",
    )


# ---- powers ---------------------------------------------------------------------------------------------------------


@register_torch("vander")
def vander(t: Tracer, x: Any, N: Any = None, increasing: bool = False) -> Any:
    """The powers of each element in a new last dimension: the highest first, unless ``increasing``; as many as there
    are elements where ``N`` is not given."""
    count = size_of(t, x, x.ndim - 1, "vander without N") if N is None else int(N)
    powers: list[Any] = [t.full(x.value.dims, 1, x.value.type.dtype)]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return stack(t, powers if increasing else powers[::-1], -1)


def _increasing(t: Tracer, x: Any, *, N: Any = None) -> Any:
    return vander(t, x, N, increasing=True)


TABLE[torch.linalg.vander] = (_increasing, "linalg.vander")
