"""A process in which no compiler can be imported, as on a machine without one, with a record of who tried to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

COMPILER = (
    "triton",
    "tileflow.lowered",
    "tileflow.emit",
    "tileflow.build",
    "tileflow.passes",
    "tileflow.space",
    "tileflow.default",
    "tileflow.portable",
    "ray",
    "optuna",
    "mlflow",
    "pyarrow",
)


@dataclass(slots=True)
class Attempts:
    """Imports of hidden modules.

    ``imports``: (module, the module that asked for it), in order. ``present``: what was imported before hiding began.
    """

    imports: list[tuple[str, str]] = field(default_factory=list)
    present: tuple[str, ...] = ()

    @property
    def ours(self) -> list[str]:
        """The attempts that tileflow made, and the parts of a compiler that had been imported already."""
        return [*self.present, *(f"{name} by {by}" for name, by in self.imports if by.partition(".")[0] == "tileflow")]


class _Hiding:
    """A finder of ``sys.meta_path`` that does not find some modules."""

    def __init__(self, finder: Any, names: tuple[str, ...], attempts: Attempts) -> None:
        self._finder, self._names, self._attempts = finder, names, attempts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not _is_of(name, self._names):
            return self._finder.find_spec(name, path, target)
        attempt = (name, _asked_by(sys._getframe(1)))
        if attempt not in self._attempts.imports:
            self._attempts.imports.append(attempt)
        return None


@contextmanager
def hidden(names: tuple[str, ...] = COMPILER) -> Iterator[Attempts]:
    """Hide these modules, and all in them, from imports inside the block."""
    attempts = Attempts(present=tuple(n for n in sys.modules if _is_of(n, names)))
    before = list(sys.meta_path)
    sys.meta_path[:] = [_Hiding(finder, names, attempts) for finder in before]
    try:
        yield attempts
    finally:
        sys.meta_path[:] = before


def _is_of(name: str, names: tuple[str, ...]) -> bool:
    return any(name == hidden or name.startswith(f"{hidden}.") for hidden in names)


def _asked_by(frame: FrameType | None) -> str:
    """Return the module whose code imports, past the import machinery."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith("importlib") and name != __name__:
            return name
        frame = frame.f_back
    return ""
