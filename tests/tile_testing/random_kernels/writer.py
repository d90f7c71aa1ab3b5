"""What is in scope where the next statement of a generated kernel is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .draws import Draws
from .tensors import Argument, Tensor
from .values import Dim, Range, Value, held, typed

MOST_ELEMENTS = 1 << 13  # of a register tile
INDENTATION = "    "


@dataclass(slots=True)
class Loop:
    """A loop around: over tiles, whose dimension is ``dim``, or over ints, whose variable is ``variable``.
    ``is_partial``: whether it may leave numbers below ``size`` out."""

    variable: str
    size: int
    is_tile: bool
    is_partial: bool = False

    @property
    def dim(self) -> Dim:
        return Dim(self.size, self.variable)


@dataclass(slots=True)
class Writer:
    """The lines so far. ``values``: that may be read here. ``loops``: around, those of the launch first, of which there
    are ``launched``. ``partial``: how many loops and branches around may leave elements of what is stored here as they
    were. ``stored``: what may be read again here, by its index. ``turns``: how often a statement here runs, at most."""

    draws: Draws
    tensors: list[Tensor] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    values: list[Value] = field(default_factory=list)
    numbers: list[Value] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    launched: int = 0
    partial: int = 0
    stored: list[tuple[str, Value]] = field(default_factory=list)
    changed: list[Argument] = field(default_factory=list)  # arguments that the kernel stores into
    outputs: list[Tensor] = field(default_factory=list)
    host: list[str] = field(default_factory=list)  # lines before the launch that is being written
    read: set[str] = field(default_factory=set)  # names of values that others were made of
    counters: dict[str, int] = field(default_factory=dict)

    def name(self, prefix: str) -> str:
        number = self.counters.get(prefix, 0)
        self.counters[prefix] = number + 1
        return f"{prefix}{number}"

    def line(self, text: str) -> None:
        self.lines.append(INDENTATION * self.depth + text)

    def size(self, size: int) -> str:
        """How a size is written: as a tensor's, mostly, where one has it."""
        found = [f"{t.name}.size({n})" for t in self.tensors for n, s in enumerate(t.sizes) if s == size]
        return self.draws.of(found) if found and self.draws.chance(80) else str(size)

    @property
    def turns(self) -> int:
        total = 1
        for loop in self.loops[self.launched :]:
            total *= max(loop.size, 1)
        return total

    @contextmanager
    def block(self, heading: str) -> Iterator[None]:
        """Statements under ``heading``; their names end with them."""
        self.line(heading)
        self.depth += 1
        values, stored = list(self.values), list(self.stored)
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line(f"{self.name('v')} = 0")  # an empty loop is refused
        self.values, self.stored = values, stored
        self.depth -= 1

    def keep(
        self,
        text: str,
        operands: tuple[Value, ...],
        dims: tuple[Dim, ...],
        values: Range,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> Value | None:
        """A new name for an expression of ``operands``; None where its numbers may be too large, or its tile."""
        dtype = typed(text, operands, more).dtype
        found = held(values, dtype)
        made = Value(self.name("v"), dtype, dims, found, None) if found is not None else None
        if made is None or made.numel > MOST_ELEMENTS:
            return None
        self.line(f"{made.text} = {text}")
        self.values.append(made)
        return made

    def given(self, text: str, value: Value) -> Value:
        """A new name for what is not made of values: a load, say."""
        self.line(f"{value.text} = {text}")
        self.values.append(value)
        return value
