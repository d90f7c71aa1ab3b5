"""What a program hands to the functions of this package: refused by name where it is of another kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ..errors import SpecError

T = TypeVar("T")


def require(value: object, kind: type | tuple[type, ...], what: str, hint: str) -> None:
    """Raises SpecError where ``value`` is not of the kind ``what``, a few words. ``hint``: how one is had."""
    if not isinstance(value, kind):
        raise SpecError(f"{what} is asked for", got=_shown(value), hint=hint)


def all_of(values: Iterable[T], kind: type[T] | tuple[type[Any], ...], what: str, hint: str) -> tuple[T, ...]:
    """``values`` as a tuple. Raises SpecError where they are none, or one of them is of another kind."""
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        raise SpecError(f"{what} are asked for, in a list", got=_shown(values), hint=hint)
    found = tuple(values)
    for number, value in enumerate(found):
        if not isinstance(value, kind):
            raise SpecError(f"{what} are asked for, in a list", got=f"{_shown(value)} at {number}", hint=hint)
    return found


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text}" if len(text) < 80 else f"{type(value).__name__}"
