"""Objects that a region captures: their attributes are captured one by one, as device code asks for them."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from ..errors import MissingAttribute, TraceError

Capture = Callable[[Any, str], Any]


class CapturedObject:
    """Stands for an object at ``path``. Its methods see it as ``self``; a private attribute is a constant only."""

    __slots__ = ("_capture", "_object", "_path")

    def __init__(self, value: Any, path: str, capture: Capture) -> None:
        self._object, self._path, self._capture = value, path, capture

    def __getattr__(self, name: str) -> Any:
        try:
            found = getattr(self._object, name)
        except AttributeError as error:
            raise MissingAttribute("a captured object has the attribute", got=f"{self._path}.{name}") from error
        if isinstance(found, MethodType) and found.__self__ is self._object:
            return MethodType(found.__func__, self)
        if name.startswith("_") and not isinstance(found, (bool, str, FunctionType, type(None))):
            raise TraceError("the values of a captured object are in its public attributes",
                             got=f"{self._path}.{name}")  # fmt: skip
        return self._capture(found, f"{self._path}.attr:{name}")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """For ``isinstance`` in device code."""
        return type(self._object)


def method_of(value: CapturedObject) -> Any:
    """What a call of the object calls."""
    return MethodType(type(value).__getattribute__(value, "__class__").__call__, value)
