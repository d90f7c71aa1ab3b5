"""Lists and dictionaries of host code as a tile loop sees them: to read. What iterations put there would be lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from ..errors import TraceError
from .trace import Tracer


def _refusal(t: Tracer, path: str) -> TraceError:
    return TraceError(
        "the iterations of a tile loop change no list or dictionary of host code",
        got=f"a change of {path}",
        where=t.location(),
        hint="store into a tensor; a list made inside the loop may grow",
    )


class HostList(list[Any]):
    """A list of host code. What is made of it by slicing or ``+`` is a plain list."""

    def __init__(self, items: Iterable[Any], path: str, tracer: Tracer) -> None:
        super().__init__(items)
        self._path, self._tracer = path, tracer

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise _refusal(self._tracer, self._path)


class HostDict(dict[Any, Any]):
    """A dictionary of host code."""

    def __init__(self, items: Mapping[Any, Any], path: str, tracer: Tracer) -> None:
        super().__init__(items)
        self._path, self._tracer = path, tracer

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise _refusal(self._tracer, self._path)


_OF_BOTH = ("__setitem__", "__delitem__", "__ior__", "__iadd__", "pop", "clear")
_OF_LISTS = (*_OF_BOTH, "append", "extend", "insert", "remove", "reverse", "sort")
_OF_DICTS = (*_OF_BOTH, "popitem", "setdefault", "update")
for _class, _names in ((HostList, _OF_LISTS), (HostDict, _OF_DICTS)):
    for _name in _names:
        setattr(_class, _name, _class._refuse)
