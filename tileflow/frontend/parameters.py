"""A kernel's parameters in one order: those that callers name are given by position too, as a sweep does."""

from __future__ import annotations

import inspect
from types import FunctionType

from ..errors import SplitError
from .source import function_source, location


def positional(fn: FunctionType) -> FunctionType:
    """``fn`` with its keyword-only parameters behind the others: the same code, defaults and cells.

    Raises SplitError for ``**`` and for keywords behind a ``*args``, which no position reaches, and where a parameter
    without a default follows one that has one.
    """
    code = fn.__code__
    if code.co_flags & inspect.CO_VARKEYWORDS:
        raise _refused(fn, "write out what ** holds")
    if not code.co_kwonlyargcount:
        return fn
    if code.co_flags & inspect.CO_VARARGS:
        raise _refused(fn, "take a tuple of tensors in the place of *args")
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    given = dict(zip(names[count - len(fn.__defaults__ or ()) : count], fn.__defaults__ or (), strict=True))
    given |= {name: (fn.__kwdefaults__ or {})[name] for name in names[count:] if name in (fn.__kwdefaults__ or {})}
    if {*names[len(names) - len(given) :]} != {*given}:
        raise _refused(fn, "give every parameter behind one with a default a default too")
    moved = code.replace(co_argcount=len(names), co_kwonlyargcount=0)
    made = FunctionType(moved, fn.__globals__, fn.__name__, tuple(given.values()) or None, fn.__closure__)
    made.__annotations__, made.__doc__, made.__dict__ = fn.__annotations__, fn.__doc__, dict(fn.__dict__)
    made.__module__, made.__qualname__ = fn.__module__, fn.__qualname__
    return made


def _refused(fn: FunctionType, hint: str) -> SplitError:
    source = function_source(fn)
    return SplitError(
        "a kernel's parameters may be given by position, as a sweep does",
        got=str(inspect.signature(fn)),
        where=location(source, source.tree),
        hint=hint,
    )
