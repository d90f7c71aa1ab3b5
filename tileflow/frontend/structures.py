"""Tuples and lists of tiles that loops carry and branches give: taken apart into leaves, and put together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import TraceError

Structure = tuple[type, tuple["Structure", ...]] | None  # None: a leaf


def _kind(value: Any) -> type:
    """A list of host code is carried as a list of the loop."""
    return list if isinstance(value, list) else type(value)


def structure_of(value: Any) -> Structure:
    return common_structure(value, value)


def common_structure(a: Any, b: Any) -> Structure:
    """The tuples and lists that both are made of; where they differ, a leaf."""
    if _kind(a) is _kind(b) and isinstance(a, (tuple, list)) and len(a) == len(b):
        return _kind(a), tuple(common_structure(x, y) for x, y in zip(a, b, strict=True))
    return None


def take_apart(structure: Structure, value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The leaves of ``value``, named ``name[0][1]``. Raises TraceError where it is not of ``structure``."""
    if structure is None:
        yield name, value
        return
    kind, parts = structure
    if not isinstance(value, (tuple, list)) or _kind(value) is not kind or len(value) != len(parts):
        raise TraceError(
            "a variable of a loop keeps its structure",
            got=f"{name}: {value!r} in place of a {kind.__name__} of {len(parts)}"[:200],
            hint="a list grows in unrolled loops only: range of a few, tfl.static_range",
        )
    for number, (part, item) in enumerate(zip(parts, value, strict=True)):
        yield from take_apart(part, item, f"{name}[{number}]")


def put_together(structure: Structure, leaves: Iterator[Any]) -> Any:
    """The inverse of :func:`take_apart`."""
    if structure is None:
        return next(leaves)
    kind, parts = structure
    items = [put_together(part, leaves) for part in parts]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def all_apart(structures: Sequence[Structure], values: Sequence[Any], names: Sequence[str]) -> list[tuple[str, Any]]:
    """The leaves of several values in order."""
    triples = zip(structures, values, names, strict=True)
    return [leaf for structure, value, name in triples for leaf in take_apart(structure, value, name)]


def all_together(structures: Sequence[Structure], leaves: Sequence[Any]) -> tuple[Any, ...]:
    remaining = iter(leaves)
    return tuple(put_together(structure, remaining) for structure in structures)
