"""Lines of generated source with indentation, each remembering the user's line that it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import Location


class Writer:
    """``text`` grows line by line; ``at`` is the user's place of what is written next."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._places: list[int] = []
        self._indent = 0
        self._place = 0

    def at(self, loc: Location | None) -> None:
        self._place = loc.line if loc else 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)
        self._places.append(self._place)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._indent += 1
        try:
            yield
        finally:
            self._indent -= 1

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(self._places)
