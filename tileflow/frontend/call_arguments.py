"""Arguments of torch's functions that are no operands: dimensions and counts, ints of Python, and ``inplace``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from inspect import signature
from typing import Any

from .sizes import SymInt

_COUNTING = frozenset({
    "dim", "dim0", "dim1", "dim2", "start_dim", "end_dim", "source", "destination", "chunks", "repeats", "k", "p",
    "offset", "decimals",
})  # fmt: skip

_SPREAD = frozenset({"dims", "size", "shape", "sizes", "repeats"})


def with_numbers(
    handler: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments of a call of ``handler``, the sizes that count among them as numbers, under a guard."""
    if not any(isinstance(a, SymInt) for a in (*args, *kwargs.values())):
        return args, kwargs
    names = _parameters(handler)
    names += ("",) * (len(args) - len(names))
    positional = tuple(_number(name, a) for name, a in zip(names, args, strict=False))
    return positional, {name: _number(name, a) for name, a in kwargs.items()}


def with_sizes(
    handler: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments of a call of ``handler``, sizes and dimensions by position where it takes any number of them:
    ``x.permute(dims=(1, 0))``."""
    named = _SPREAD & kwargs.keys() if kwargs and _takes_any(handler) else frozenset()
    if len(named) != 1:
        return args, kwargs
    (name,) = named
    return (*args, kwargs[name]), {n: value for n, value in kwargs.items() if n != name}


def is_in_place(handler: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of torch's, after its names are canonical, says ``inplace=True``."""
    if kwargs.get("inplace") is True:
        return bool(args)
    if not any(a is True for a in args):
        return False
    names = _parameters(handler)
    return "inplace" in names and args[names.index("inplace") :][:1] == (True,)


@lru_cache(maxsize=1024)
def _takes_any(handler: Callable[..., Any]) -> bool:
    return any(p.kind is p.VAR_POSITIONAL for p in signature(handler).parameters.values())


@lru_cache(maxsize=1024)
def _parameters(handler: Callable[..., Any]) -> tuple[str, ...]:
    """The names behind the tracer's."""
    return tuple(signature(handler).parameters)[1:]


def _number(name: str, argument: Any) -> Any:
    return int(argument) if isinstance(argument, SymInt) and name in _COUNTING else argument
