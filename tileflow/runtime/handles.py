"""Names by which a graph that a compiler traced finds an object of this process again."""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakValueDictionary

_enrolled: WeakValueDictionary[str, Any] = WeakValueDictionary()
_numbers = count()


def enroll(owner: Any, name: str) -> str:
    """A handle of ``owner`` that starts with ``name``; it does not keep ``owner`` alive."""
    handle = f"{name}#{next(_numbers)}"
    _enrolled[handle] = owner
    return handle


def enrolled(handle: str) -> Any:
    """The object of a handle. KeyError where it is gone."""
    return _enrolled[handle]
