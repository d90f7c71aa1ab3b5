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

    def comment(self, text: str) -> None:
        """A comment on the lines to come; one on which no line followed gives way to it."""
        if self._lines and self._lines[-1].lstrip().startswith("# "):
            self._lines.pop()
            self._places.pop()
        self.line(f"# {text}")

    def then(self, other: Writer) -> Writer:
        """These lines, and another's behind them."""
        both = Writer()
        both._lines, both._places = self._lines + other._lines, self._places + other._places
        return both

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
