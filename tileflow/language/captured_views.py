"""Views of captured tensors in device code, ``x.T[b, a]``, ``x.view(-1)[t] = 0``: what is read and stored by index, as
the tensor itself. One set of rules for what is traced and for plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..errors import ShapeError, TraceError
from ..runtime.views import METHODS, PROPERTIES, spelled, view_of

OF_INTS = "a view of a captured tensor is taken with ints and sizes, or with a dtype"
OF_MEMORY = "a view of a captured tensor is one of its memory, as strides say it"
IN_HOST_CODE = "take it before the loop, in host code, under a name of its own"
BY_ITEM = frozenset({"select", "narrow"})  # views that brackets say, and that scalars of the kernel may
# functions of torch's, besides, that give views of their first argument, and those that may give that itself
_OF_TILES = frozenset({
    "broadcast_to", "dsplit", "expand_as", "hsplit", "reshape_as", "split_with_sizes", "tensor_split", "view_as",
    "vsplit",
})  # fmt: skip
ITSELF = frozenset({
    "alpha_dropout", "bfloat16", "bool", "byte", "char", "contiguous", "detach", "double", "dropout", "dropout1d",
    "dropout2d", "dropout3d", "feature_alpha_dropout", "float", "half", "int", "long", "positive", "short", "to",
    "type", "type_as",
})  # fmt: skip
_GETTERS = {getattr(torch.Tensor, name).__get__: name for name in PROPERTIES}


def name_of_view(func: Any) -> str:
    """The name of the view that a function of torch's takes; empty of others."""
    name = name_of(func)
    return name if name in METHODS or name in PROPERTIES else ""


def name_of(func: Any) -> str:
    """The name of a function of torch's, or of a property that is a view."""
    name: str = getattr(func, "__name__", "")
    return _GETTERS.get(func, "") if name == "__get__" else name


def gives_views(name: str) -> bool:
    """Whether what torch's function of that name gives of a tile is a view of it."""
    return name in METHODS or name in PROPERTIES or name in _OF_TILES


def by_item(name: str, ndim: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The index of ``select`` or ``narrow``, of ``ndim`` dimensions."""
    given = dict(zip(METHODS[name], args, strict=False)) | dict(kwargs)
    items: list[Any] = [slice(None)] * ndim
    start = given["index" if name == "select" else "start"]
    items[given["dim"]] = start if name == "select" else slice(start, start + given["length"])
    return tuple(items)


def spelled_view(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], path: str) -> str:
    """The view as a path says it. Raises TraceError where it takes more than ints."""
    try:
        return spelled(name, args, kwargs)
    except TypeError as error:
        raise TraceError(OF_INTS, got=f"{path}.{name}: {error}"[:200], hint=f"{IN_HOST_CODE}, or index it") from error


def taken(tensor: torch.Tensor, view: str, path: str, take: Callable[[torch.Tensor, str], Any] = view_of) -> Any:
    """The view, or the several of a ``chunk``. Raises ShapeError where torch has none, and where it would copy."""
    name = view.partition("_")[0]
    try:
        return take(tensor, view)
    except (ValueError, RuntimeError, IndexError, TypeError) as error:
        is_copy = any(word in str(error) for word in ("contiguous", "compatible", "copy"))
        raise ShapeError(
            OF_MEMORY,
            got=f"{path}.{name} of shape {tuple(tensor.shape)}, strides {tensor.stride()}: {_first_line(error)}",
            hint=f"{IN_HOST_CODE}, of x.contiguous()" if is_copy else IN_HOST_CODE,
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
