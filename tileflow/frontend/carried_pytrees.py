"""Tuples and lists of tiles that loops carry and branches give: taken apart into leaves, and put together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import TraceError
from .counted_turns import WRITTEN_OUT

TreeSpec = tuple[type, tuple["TreeSpec", ...]] | None  # None: a leaf


def _kind(value: Any) -> type:
    """A list of host code is carried as a list of the loop."""
    return list if isinstance(value, list) else type(value)


def tree_spec(value: Any) -> TreeSpec:
    """The structure of ``value``: its tuples and lists, with a leaf for everything else."""
    return common_spec(value, value)


def common_spec(a: Any, b: Any) -> TreeSpec:
    """The tuples and lists that both are made of; where they differ, a leaf."""
    if _kind(a) is _kind(b) and isinstance(a, (tuple, list)) and len(a) == len(b):
        return _kind(a), tuple(common_spec(x, y) for x, y in zip(a, b, strict=True))
    return None


def flatten(structure: TreeSpec, value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The leaves of ``value``, named ``name[0][1]``. Raises TraceError where it is not of ``structure``."""
    if structure is None:
        yield name, value
        return
    kind, parts = structure
    if not isinstance(value, (tuple, list)) or _kind(value) is not kind or len(value) != len(parts):
        raise TraceError(
            "a variable of a loop keeps its structure",
            got=f"{name}: {value!r} in place of a {kind.__name__} of {len(parts)}"[:200],
            hint=f"a list grows where turns are written out: {WRITTEN_OUT}",
        )
    for number, (part, item) in enumerate(zip(parts, value, strict=True)):
        yield from flatten(part, item, f"{name}[{number}]")


def unflatten(structure: TreeSpec, leaves: Iterator[Any]) -> Any:
    """The inverse of :func:`flatten`."""
    if structure is None:
        return next(leaves)
    kind, parts = structure
    items = [unflatten(part, leaves) for part in parts]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def flatten_all(structures: Sequence[TreeSpec], values: Sequence[Any], names: Sequence[str]) -> list[tuple[str, Any]]:
    """The leaves of several values in order."""
    triples = zip(structures, values, names, strict=True)
    return [leaf for structure, value, name in triples for leaf in flatten(structure, value, name)]


def unflatten_all(structures: Sequence[TreeSpec], leaves: Sequence[Any]) -> tuple[Any, ...]:
    """One value for each structure, built from ``leaves`` in order."""
    remaining = iter(leaves)
    return tuple(unflatten(structure, remaining) for structure in structures)
