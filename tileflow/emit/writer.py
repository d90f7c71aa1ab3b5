"""Lines of generated source with indentation, each remembering the user's line that it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import Location


class Writer:
    """``text`` grows line by line; ``at`` is the user's place of what is written next.

    With ``comments`` the user's own line stands above what comes from it, unless it was the last one that did.
    """

    def __init__(self, comments: bool = True) -> None:
        self._lines: list[str] = []
        self._places: list[int] = []
        self._said: list[int] = []
        self._indent = 0
        self._loc: Location | None = None
        self._last: tuple[str, int] | None = None
        self._comments = comments

    def at(self, loc: Location | None) -> None:
        """Set the user's place of the lines that follow."""
        self._loc = loc

    def line(self, text: str) -> None:
        """Write one line, below a comment with the user's line where comments are on and that one is new."""
        loc = self._loc
        if self._comments and loc is not None and loc.text.strip() and (loc.file, loc.line) != self._last:
            self._last = loc.file, loc.line
            self._said.append(len(self._lines))
            self._add(f"# {loc.text.strip()}")
        self._add(text)

    def _add(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)
        self._places.append(self._loc.line if self._loc else 0)

    def then(self, other: Writer) -> Writer:
        """These lines, and another's behind them."""
        both = Writer()
        both._lines, both._places = self._lines + other._lines, self._places + other._places
        both._said = self._said + [n + len(self._lines) for n in other._said]
        return both

    @property
    def mark(self) -> int:
        """The place behind the last line, for :meth:`text_from` and :meth:`insert`."""
        return len(self._lines)

    def text_from(self, mark: int) -> str:
        """The lines since a mark."""
        return "\n".join(self._lines[mark:]) + "\n"

    def insert(self, mark: int, other: Writer) -> None:
        """Another's lines at a mark, indented as what is written now."""
        indent = "    " * self._indent
        self._lines[mark:mark] = [indent + line for line in other._lines]
        self._places[mark:mark] = other._places
        self._said = [n + len(other._lines) if n >= mark else n for n in self._said]

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent what is written inside the ``with``."""
        self._indent += 1
        try:
            yield
        finally:
            self._indent -= 1

    @property
    def text(self) -> str:
        """All lines so far, with a newline at the end."""
        return "\n".join(self._lines) + "\n"

    @property
    def places(self) -> tuple[int, ...]:
        """The user's line of each line so far."""
        return tuple(self._places)

    @property
    def comments(self) -> tuple[int, ...]:
        """The numbers of the lines that are comments, from 0."""
        return tuple(self._said)
