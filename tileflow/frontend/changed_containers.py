"""Lists, dictionaries and objects of device code that a loop or a branch changes in place: ``acc[0] += x[tile]``.

A loop carries, and a branch gives, what names are bound to. What a body changes without binding a name is found by
comparing: the containers that it can reach are what they were before each trace of it, and whatever part of one is
another object after it is carried as if it had a name of its own. A loop is recorded anew once such a part is found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from ..errors import TraceError
from .counted_turns import WRITTEN_OUT
from .host_containers import HostDict, HostList
from .trace import Tracer
from .values import TileValue

Values = tuple[Any, ...]
Names = tuple[str, ...]
Record = Callable[[Callable[..., Values], Names, Values], Values]
_Part = tuple[int, Hashable]  # the id of a container, and the key of its part

_LIBRARIES = ("tileflow", "torch", "builtins", "functools", "enum")


@dataclass(frozen=True, slots=True)
class _Container:
    """One that device code can reach as ``name``, and what it held when it was found."""

    name: str
    value: Any
    held: dict[Hashable, Any]

    def part(self, key: Hashable) -> str:
        """The author's words for the part under ``key``."""
        return f"{self.name}[{key!r}]" if isinstance(self.value, (list, dict, tuple)) else f"{self.name}.{key}"

    def put(self, parts: dict[Hashable, Any]) -> None:
        """Make these its parts."""
        if isinstance(self.value, list):
            self.value[:] = parts.values()
        elif isinstance(self.value, dict):
            self.value.clear()
            self.value.update(parts)
        else:
            now = _parts(self.value) or {}
            for key, item in parts.items():
                if now.get(key) is not item:
                    setattr(self.value, str(key), item)


class ChangedContainers:
    """The containers that a body can reach by the names that it reads, and the parts that it was found to change."""

    def __init__(self, t: Tracer, names: Names = (), values: Values = ()) -> None:
        self._tracer = t
        self._containers: dict[int, _Container] = {}
        self._changed: dict[_Part, None] = {}
        self._ends: list[dict[_Part, Any]] = []
        for name, value in zip(names, values, strict=True):
            self._reach(name, value)

    def _reach(self, name: str, value: Any) -> None:
        parts = _parts(value)
        if parts is None or id(value) in self._containers:
            return
        one = _Container(name, value, parts)
        if not isinstance(value, tuple):
            self._containers[id(value)] = one
        for key, item in parts.items():
            self._reach(one.part(key), item)

    # ---- loops ----------------------------------------------------------------------------------

    def carry(self, body: Callable[..., Values], names: Names, values: Values, record: Record) -> Values:
        """The values of ``names`` after a loop that ``record(body, names, values)`` records; the last parameters of a
        body are the values. Containers then hold what they hold after the loop."""
        if not self._containers:
            return record(body, names, values)
        while True:
            known, start, changes = tuple(self._changed), self._tracer.mark(), self._tracer.changes.snapshot()
            held = tuple(self._containers[i].held[key] for i, key in known)
            after = record(self._turn(body, known), (*names, *self._names(known)), (*values, *held))
            self._restore()
            if len(known) == len(self._changed):
                self._give(known, after[len(names) :])
                return after[: len(names)]
            self._tracer.rewind(start)
            self._tracer.changes.restore(changes)

    def _turn(self, body: Callable[..., Values], known: Sequence[_Part]) -> Callable[..., Values]:
        """``body`` with a parameter and a result more for each part that is known to change."""

        def turn(*arguments: Any) -> Values:
            own = len(arguments) - len(known)
            self._restore()
            self._give(known, arguments[own:])
            held = {id(item) for one in self._containers.values() for item in one.held.values()}
            self._tracer.changes.held.append(held)
            try:
                results = body(*arguments[:own])
            finally:
                self._tracer.changes.held.pop()
            now = self._note()
            self._check_unchanged(now)
            return (*results, *(now[part] for part in known))

        return turn

    def _check_unchanged(self, now: dict[_Part, Any]) -> None:
        """Raises TraceError for a tile that a turn changed in place where its container holds it still: the next turn
        has another."""
        for (i, key), item in now.items():
            if (
                item is self._containers[i].held[key]
                and isinstance(item, TileValue)
                and self._tracer.changes.is_changed(item)
            ):
                raise self._tracer.was_overwritten(item)

    # ---- branches -------------------------------------------------------------------------------

    def side(self, run: Callable[[], Sequence[Any]]) -> Callable[[], Sequence[Any]]:
        """One side of a branch, which finds the containers as they were before it."""

        def traced() -> Sequence[Any]:
            self._restore()
            results = run()
            self._ends.append(self._note())
            return results

        return traced

    def ends(self) -> tuple[Names, list[Values]]:
        """The parts that some side changed, and what they are at the end of each."""
        return self._names(self._changed), [tuple(end[part] for part in self._changed) for end in self._ends]

    def join(self, values: Sequence[Any]) -> None:
        """Let the parts that some side changed be ``values``."""
        self._restore()
        self._give(tuple(self._changed), values)

    # ---- trials ---------------------------------------------------------------------------------

    def parts(self) -> dict[_Part, Any]:
        """What the containers hold now."""
        return {
            (i, key): item for i, one in self._containers.items() for key, item in (_parts(one.value) or {}).items()
        }

    def restore(self) -> None:
        """Let the containers hold what they held when they were found."""
        self._restore()

    # ---- both -----------------------------------------------------------------------------------

    def _names(self, parts: Iterable[_Part]) -> Names:
        return tuple(self._containers[i].part(key) for i, key in parts)

    def _restore(self) -> None:
        for one in self._containers.values():
            one.put(one.held)

    def _give(self, parts: Sequence[_Part], values: Sequence[Any]) -> None:
        for (i, key), value in zip(parts, values, strict=True):
            one = self._containers[i]
            one.put({**(_parts(one.value) or {}), key: value})

    def _note(self) -> dict[_Part, Any]:
        """What all containers hold. Notes which parts are others than they were."""
        found: dict[_Part, Any] = {}
        for i, one in self._containers.items():
            now = _parts(one.value) or {}
            if isinstance(one.value, (list, dict)) and now.keys() != one.held.keys():
                raise TraceError(
                    "a list or a dictionary keeps its length in the loops and branches of the kernel behind it",
                    got=f"{one.name} with {len(now)} in place of {len(one.held)}",
                    where=self._tracer.location(),
                    hint=f"store into a tensor; one grows where turns are written out: {WRITTEN_OUT}",
                )
            found |= {(i, key): now.get(key) for key in one.held}
            self._changed |= {(i, key): None for key, item in one.held.items() if now.get(key) is not item}
        return found


def _parts(value: Any) -> dict[Hashable, Any] | None:
    """What a container holds, by key; None for any other value, and for what host code holds."""
    if isinstance(value, (HostDict, HostList)):
        return None
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if isinstance(value, dict):
        return dict(value)
    if type(value).__module__.partition(".")[0] in _LIBRARIES or isinstance(value, (type, FunctionType)):
        return None
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if hasattr(value, f.name)}
    attributes = getattr(value, "__dict__", None)
    return dict(attributes) if isinstance(attributes, dict) else None
