"""What torch's functions do with the lanes that a jagged tile's rows do not have: they count for nothing.

A jagged tile is as wide as its longest row. Reductions and products are computed over rows that are filled up with what
changes nothing. Any other function is computed twice, over rows filled up with two different numbers: where what counts
of its result differs, it mixes what exists with what does not, and is refused, whatever function it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..errors import TraceError
from .dim_identity import counted, follow, lanes_of, tag, tensors_of

Filler = Callable[[torch.dtype], Any]
Compute = Callable[..., Any]


def _least(dtype: torch.dtype) -> Any:
    return float("-inf") if dtype.is_floating_point else False if dtype == torch.bool else torch.iinfo(dtype).min


def _most(dtype: torch.dtype) -> Any:
    return float("inf") if dtype.is_floating_point else True if dtype == torch.bool else torch.iinfo(dtype).max


def _zero(dtype: torch.dtype) -> Any:
    return False if dtype == torch.bool else 0


_NEUTRAL: dict[str, Filler] = {
    "prod": lambda dtype: 1,
    "all": lambda dtype: True,
    **dict.fromkeys(("sum", "nansum", "any", "count_nonzero", "cosine_similarity", "normalize"), _zero),
    **dict.fromkeys(("matmul", "__matmul__", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv"), _zero),
    **dict.fromkeys(("linear", "einsum", "linalg_vecdot", "inner"), _zero),
    **dict.fromkeys(("max", "amax", "argmax", "logsumexp", "softmax", "log_softmax"), _least),
    **dict.fromkeys(("min", "amin", "argmin"), _most),
}  # fmt: skip
_NORMS = frozenset({"norm", "linalg_vector_norm"})
_SORTS = frozenset({"sort", "argsort", "topk"})
_STATISTICS = frozenset({"mean", "var", "std", "var_mean", "std_mean"})
_RESHAPES = frozenset({"reshape", "flatten", "ravel", "unflatten"})


def followed(func: Any, args: Sequence[Any], kwargs: Any, compute: Compute) -> Any:
    """What ``compute`` makes of the arguments, as ``func`` does, tagged with what its dimensions are. Raises TraceError
    where lanes that do not exist would count."""
    name = getattr(func, "__name__", "")
    if any(_mask(tensor) is not None for tensor in tensors_of(kwargs.values())):
        raise TraceError(
            "a jagged tile is given by its place among the arguments, not by name",
            got=f"{name}({', '.join(f'{key}=...' for key in kwargs)})",
            hint="torch.sum(x, 1) for torch.sum(input=x, dim=1)",
        )
    if not any(_mask(tensor) is not None for tensor in tensors_of(args)):
        return follow(func, args, kwargs, compute(*args))
    _check_known(name)
    if name == "aminmax":
        low, high = (compute(*_filled(args, of)) for of in (_most, _least))
        found = type(low)((low[0], high[1]))
        return follow(func, args, kwargs, found)
    if filler := _neutral(name, args, kwargs):
        whole = _filled(args, filler)
        return follow(func, whole, kwargs, compute(*whole))
    if name.endswith("_") and not name.endswith("__"):  # in place, element by element
        return follow(func, args, kwargs, compute(*args))
    one, other = (
        follow(func, cut, kwargs, compute(*cut)) for cut in (_extreme(args, least) for least in (True, False))
    )
    if not all(map(_agree, _results(one), _results(other))):
        raise TraceError(
            "what lanes that a jagged tile's rows do not have hold must not count",
            got=f"{name}, which mixes them with those that the rows have",
            hint="reduce over the jagged dimension first, or fill it with what changes nothing: "
            "torch.where(j.index[None, :] < lengths[:, None], x, 0)",
        )
    return one


def _check_known(name: str) -> None:
    if name in _RESHAPES:
        raise TraceError(
            "a reshape keeps a jagged tile's dimension and its parent's",
            got=name,
            hint="reduce over the jagged dimension first",
        )
    if name in _STATISTICS:
        raise TraceError(
            "statistics over a jagged tile are made of sums",
            got=name,
            hint="accumulate sums over the loop, and divide by the lengths after it",
        )


def _neutral(name: str, args: Sequence[Any], kwargs: Any) -> Filler | None:
    """What changes nothing of a function's result; None where no number does."""
    if name in _NORMS:
        order = kwargs.get("p", kwargs.get("ord", args[1] if len(args) > 1 else 2))
        is_sum = order in (None, "fro") or (isinstance(order, (int, float)) and order > 0)
        return _zero if is_sum else None
    if name in _SORTS:
        is_down = kwargs.get("descending", kwargs.get("largest", name == "topk"))
        return _least if is_down else _most
    return _NEUTRAL.get(name)


def _mask(tensor: torch.Tensor) -> torch.Tensor | None:
    return counted(lanes_of(tensor), tensor.shape, tensor.device)


def _filled(args: Sequence[Any], filler: Filler) -> list[Any]:
    return [_over(arg, lambda tensor: filler(tensor.dtype)) for arg in args]


def _extreme(args: Sequence[Any], least: bool) -> list[Any]:
    """The arguments filled up with their own least or greatest numbers, which any function of theirs takes."""
    return [_over(arg, lambda tensor: _own_extreme(tensor, least)) for arg in args]


def _over(arg: Any, number: Callable[[torch.Tensor], Any]) -> Any:
    """An argument with the lanes that do not count at a number; a tuple's or a list's items too."""
    if isinstance(arg, (tuple, list)):
        return type(arg)(_over(item, number) for item in arg) if type(arg) in (tuple, list) else arg
    mask = _mask(arg) if isinstance(arg, torch.Tensor) else None
    return arg if mask is None else tag(torch.where(mask, arg, number(arg)).to(arg.dtype), lanes_of(arg))


def _own_extreme(tensor: torch.Tensor, least: bool) -> Any:
    mask = _mask(tensor)
    assert mask is not None
    if tensor.dtype == torch.bool:
        return not least
    own = tensor[mask.expand(tensor.shape)]
    wide = own.double() if tensor.dtype.is_floating_point else own.long()
    wide = wide[wide.isfinite()]
    low, high = (wide.min().item(), wide.max().item()) if wide.numel() else (0, 0)
    return low if least else high if high != low else high + 1


def _results(found: Any) -> Iterator[Any]:
    return tensors_of(found if isinstance(found, tuple) else (found,))


def _agree(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two results are the same where they count."""
    mask = _mask(one)
    alike = (one == other) | ((one != one) & (other != other))
    return bool((alike if mask is None else alike | ~mask).all())
