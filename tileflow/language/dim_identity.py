"""Which loop's lanes the dimensions of an eager tensor are: the identity of dimensions, followed through torch.

Indexing asks it (1-D tiles of ints of one dimension go together, of several they are an outer product), and so do
reductions over a jagged tile, in which each lane of the parent tile has lanes of its own. A tensor that nobody tagged
has dimensions of no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch

from ..errors import TraceError
from ..lazy_dataclass import dataclass

Identity = tuple["Lanes | None", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """The lanes of one tile, of indices from ``begin``. ``lengths``: of a jagged tile, how many indices each lane of
    ``parent`` has. ``elastic``: as many as a block size says, of no loop; where they meet a shorter tile, as many as it
    has."""

    begin: int = 0
    parent: Lanes | None = None
    lengths: torch.Tensor | None = None
    elastic: bool = False


BLOCK = Lanes(elastic=True)  # the lanes of a slice by block size


def is_elastic(own: Lanes | None) -> bool:
    """Whether the lanes are those of a block size, of no loop: shorter ones that they meet decide their number."""
    return own is not None and own.elastic


def tag(tensor: torch.Tensor, lanes: Identity) -> torch.Tensor:
    """Say what the dimensions of ``tensor`` are; returns it."""
    if any(lanes):
        tensor.tileflow_lanes = lanes  # type: ignore[attr-defined]
    return tensor


def lanes_of(tensor: torch.Tensor) -> Identity:
    """What the dimensions of ``tensor`` are."""
    found: Identity = getattr(tensor, "tileflow_lanes", ())
    return found if len(found) == tensor.ndim else (None,) * tensor.ndim


def counted(lanes: Identity, shape: Sequence[int], device: torch.device) -> torch.Tensor | None:
    """Which elements of a tensor of such dimensions count: bool, broadcasts to ``shape``; None where all do."""
    mask = None
    for axis, own in enumerate(lanes):
        if own is None or own.lengths is None or own.parent not in lanes:
            continue
        index = _along(torch.arange(own.begin, own.begin + shape[axis], device=device), axis, len(shape))
        counts = index < _along(own.lengths, lanes.index(own.parent), len(shape))
        mask = counts if mask is None else mask & counts
    return mask


def _along(vector: torch.Tensor, axis: int, rank: int) -> torch.Tensor:
    return vector.reshape([-1 if a == axis else 1 for a in range(rank)])


# ---- through torch's functions ------------------------------------------------------------------

_NEUTRAL: dict[str, Callable[[torch.dtype], Any]] = {
    "sum": lambda d: 0, "prod": lambda d: 1, "any": lambda d: False, "all": lambda d: True,
    **dict.fromkeys(("max", "amax", "argmax"), lambda d: _least(d)),
    **dict.fromkeys(("min", "amin", "argmin"), lambda d: _most(d)),
}  # fmt: skip
_STATISTICS = frozenset({"mean", "var", "std", "var_mean", "logsumexp", "norm"})
_TRANSPOSED = (torch.Tensor.T.__get__, torch.Tensor.mT.__get__)  # type: ignore[attr-defined]
_PRODUCTS = frozenset({"matmul", "__matmul__", "mm", "bmm", "dot"})
_RESHAPES = frozenset({"reshape", "flatten", "ravel", "unflatten"})
_LOST = _RESHAPES | frozenset(
    {"view", "cat", "stack", "split", "chunk", "flip", "gather", "sort", "unbind", "cosine_similarity", "count_nonzero",
     "cdist", "inner", "tensordot", "pairwise_distance", "linalg_vecdot", "linalg_diagonal", "linalg_vander",
     "linalg_matrix_norm", "diag_embed", "one_hot", "embedding", "rot90", "quantile", "nanmedian", "median",
     "trapezoid", "trapz"}
)  # fmt: skip


def _least(dtype: torch.dtype) -> Any:
    return float("-inf") if dtype.is_floating_point else False if dtype == torch.bool else torch.iinfo(dtype).min


def _most(dtype: torch.dtype) -> Any:
    return float("inf") if dtype.is_floating_point else True if dtype == torch.bool else torch.iinfo(dtype).max


def filled(func: Any, args: Sequence[Any], kwargs: Any) -> Sequence[Any]:
    """The arguments of a reduction or a product, with lanes that do not count at what changes nothing."""
    name = func.__name__
    if name in _RESHAPES and counted(lanes_of(args[0]), args[0].shape, args[0].device) is not None:
        raise TraceError(
            "a reshape keeps a jagged tile's dimension and its parent's",
            got=name,
            hint="reduce over the jagged dimension first",
        )
    if name in _PRODUCTS:
        return [_fill(a, 0) if isinstance(a, torch.Tensor) else a for a in args]
    if not args or not isinstance(args[0], torch.Tensor) or not any(lanes_of(args[0])):
        return args
    if name in _STATISTICS and counted(lanes_of(args[0]), args[0].shape, args[0].device) is not None:
        raise TraceError(
            "statistics over a jagged tile are made of sums",
            got=name,
            hint="accumulate sums over the loop, and divide by the lengths after it",
        )
    if name in _NEUTRAL:
        return [_fill(args[0], _NEUTRAL[name](args[0].dtype)), *args[1:]]
    return args


def _fill(tensor: torch.Tensor, value: Any) -> torch.Tensor:
    lanes = lanes_of(tensor)
    mask = counted(lanes, tensor.shape, tensor.device)
    return tensor if mask is None else tag(tensor.masked_fill(~mask, value), lanes)


def follow(func: Any, args: Sequence[Any], kwargs: Any, result: Any) -> Any:
    """``result`` of a torch function, its dimensions tagged with what they are of the arguments'."""
    tensors = [a for a in _tensors(args) if any(lanes_of(a))]
    if not tensors:
        return result
    for out in _tensors(result if isinstance(result, tuple) else (result,)):
        with suppress(AttributeError):  # a result that is an argument of another type
            tag(out, _identity(func, tensors, args, kwargs, out))
    return result


def _tensors(items: Any) -> Iterator[torch.Tensor]:
    for item in items:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, (tuple, list)):
            yield from _tensors(item)


def _identity(func: Any, tensors: list[torch.Tensor], args: Any, kwargs: Any, out: torch.Tensor) -> Identity:
    name = getattr(func, "__name__", "")
    first = lanes_of(args[0]) if args and isinstance(args[0], torch.Tensor) else ()
    if func in _TRANSPOSED or name in ("t", "transpose", "permute", "swapaxes"):
        order = _order(name, len(first), args[1:])
        return tuple(first[a] for a in order)
    if name == "unsqueeze":
        axis = kwargs.get("dim", args[1] if len(args) > 1 else 0) % out.ndim
        return (*first[:axis], None, *first[axis:])
    if name in _NEUTRAL or name in _STATISTICS:
        return _reduced(first, args, kwargs, out)
    if name in _PRODUCTS and out.ndim == len(first):
        return _product_of(args[0], args[1])
    if name in ("addmm", "baddbmm"):
        return tuple(_first_loops(own) for own in zip(_aligned(first, out), _product_of(args[1], args[2]), strict=True))
    if name in _LOST:
        return ()
    return tuple(_meeting([*_tensors(args)], axis, out) for axis in range(out.ndim))


def _product_of(a: torch.Tensor, b: torch.Tensor) -> Identity:
    first, second = lanes_of(a), lanes_of(b)
    batch = first[:-2] if len(first) >= len(second) else second[:-2]
    return (*batch, *first[-2:-1], second[-1])


def _order(name: str, rank: int, rest: Any) -> list[int]:
    order = list(range(rank))
    if name == "permute":
        return [a % rank for a in (rest[0] if isinstance(rest[0], (tuple, list)) else rest)]
    a, b = (rest[0], rest[1]) if name in ("transpose", "swapaxes") else (-1, -2)
    if rank > 1:
        order[a], order[b] = order[b], order[a]
    return order


def _reduced(first: Identity, args: Any, kwargs: Any, out: torch.Tensor) -> Identity:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if dim is None or isinstance(dim, torch.Tensor):
        return (None,) * out.ndim if not isinstance(dim, torch.Tensor) else first
    dropped = {d % len(first) for d in ([dim] if isinstance(dim, int) else dim)}
    if out.ndim == len(first):
        return tuple(None if a in dropped else own for a, own in enumerate(first))
    return tuple(own for a, own in enumerate(first) if a not in dropped)


def _meeting(tensors: list[torch.Tensor], axis: int, out: torch.Tensor) -> Lanes | None:
    """The lanes of the first argument that has a loop's in this dimension, aligned at the right; else one of
    a block size; those of a slice where all have them."""
    found = []
    for tensor in tensors:
        position = axis - (out.ndim - tensor.ndim)
        if position >= 0 and tensor.shape[position] == out.shape[axis]:
            found.append(lanes_of(tensor)[position])
    return _first_loops(found)


def _aligned(lanes: Identity, out: torch.Tensor) -> Identity:
    return (None,) * (out.ndim - len(lanes)) + lanes


def _first_loops(found: Sequence[Lanes | None]) -> Lanes | None:
    named = [lanes for lanes in found if lanes is not None and lanes is not BLOCK]
    loops = [lanes for lanes in named if not lanes.elastic]
    if named:
        return (loops or named)[0]
    return BLOCK if found and all(lanes is BLOCK for lanes in found) else None
