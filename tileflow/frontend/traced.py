"""What stands for values in device code while it is traced: it knows its tracer, and torch calls that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..runtime.libraries import is_library

if TYPE_CHECKING:
    from .trace import Tracer


class Traced:
    """Whatever stands for something of the kernel."""

    __slots__ = ("tracer",)

    tracer: Tracer


class Operand(Traced):
    """What torch's functions take: each call of one that is given it is the tracer's."""

    __slots__ = ()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tracer = next(tracers_of(args, kwargs or {}))
        return tracer.torch_call(func, args, kwargs or {})


def tracers_of(args: Any, kwargs: Any) -> Iterator[Tracer]:
    """The tracers of the traced values among nested arguments."""
    for item in [*args, *kwargs.values()]:
        if isinstance(item, Traced):
            yield item.tracer
        elif isinstance(item, (tuple, list)):
            yield from tracers_of(item, {})


def takes_tiles(other: Any, operator: str) -> bool:
    """Whether the class of an author's object has this operator for a tile on its left, as ``__rmul__``."""
    kind = other.__class__  # of what stands for an object that is captured, the object's
    return not is_library(kind.__module__) and kind.__module__ != "builtins" and hasattr(kind, operator)
