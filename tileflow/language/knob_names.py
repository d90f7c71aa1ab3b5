"""Which knob each loop of a kernel that runs as Python takes its block size from: by the names that tracing would give.

A loop is named by its variable, and by how many of that name the launch had before; nothing is traced for it, so that
a kernel runs whose operations no compiler knows.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ..config import Choice
from ..errors import ConfigError
from ..lazy_dataclass import dataclass
from ..parsing import module_tree


@dataclass(frozen=True, slots=True)
class CallSite:
    """Where a call starts in the text; ``column`` in bytes, as the AST counts."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class KernelText:
    """The places in a kernel's text that ask for knobs. ``regions``: the number of the launch by the line of its
    ``for``; ``sites``: the variable that a ``register_block_size`` is assigned to, by (line, column). ``launches``: the
    lines of each."""

    file: str
    regions: Mapping[int, int]
    sites: Mapping[tuple[int, int], str]
    launches: tuple[range, ...] = ()


class KnobNames:
    """The names given so far in one call of a kernel under ``config``."""

    def __init__(self, config: Mapping[str, Choice], text: KernelText) -> None:
        self._config = config
        self._text = text
        self._files = {text.file}
        self._depth = 0
        self._region = 0
        self._names: dict[tuple[int, CallSite], tuple[str, ...]] = {}
        self._counts: dict[tuple[int, str], int] = {}

    def enter(self, place: CallSite, axes: int) -> tuple[Choice | None, ...]:
        """A loop begins: the config's block size for each of its axes, None where it names none."""
        loop = _loops(place.file).get((place.line, place.column))
        if self._depth == 0:
            self._region = self._text.regions.get(loop.lineno, 0) if loop and place.file == self._text.file else 0
        self._depth += 1
        self._files.add(place.file)
        key = self._region, place
        if key not in self._names:
            targets = [n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)] if loop else []
            found = targets if len(targets) == axes else [targets[0] if targets else "tile"] * axes
            self._names[key] = tuple(map(self._fresh, found))
        return tuple(self._config.get(f"block:{name}") for name in self._names[key])

    def leave(self) -> None:
        """End the innermost loop that was entered."""
        self._depth -= 1

    def host_block(self, place: CallSite) -> Choice | None:
        """The config's choice for a ``register_block_size``, None where it names none."""
        return self._config.get(f"block:{self._text.sites.get((place.line, place.column))}")

    def tunable(self, name: str, default: Choice) -> Choice:
        """The config's choice for a ``register_tunable``."""
        return self._config.get(f"tunable:{name}", default)

    def check(self) -> None:
        """Raises ConfigError where the config names a knob whose name stands nowhere in the text."""
        words = set[str]().union(*(_words(file) for file in self._files))
        for knob in self._config:
            kind, _, name = knob.partition(":")
            if kind == "block" and not _is_block(self._config[knob]):
                raise ConfigError("a block size is an int of 1 or more", got=f"{knob}={self._config[knob]!r}")
            if kind in ("block", "tunable") and name.split("@")[0].split("#")[0] not in words:
                raise ConfigError("a config may only name knobs of this kernel's space", got=repr(knob))

    def _fresh(self, name: str) -> str:
        count = self._counts.get((self._region, name), 0)
        self._counts[self._region, name] = count + 1
        return (name if count == 0 else f"{name}#{count}") + (f"@{self._region}" if self._region else "")


def _is_block(choice: Choice) -> bool:
    return type(choice) is int and choice > 0


@lru_cache(maxsize=64)
def _loops(file: str) -> Mapping[tuple[int, int], ast.For]:
    """Each ``for`` of a file by where Python says that it stands: at the word, or at what it iterates over."""
    loops = [node for node in _nodes(file) if isinstance(node, ast.For)]
    return {(at.lineno, at.col_offset): loop for loop in loops for at in (loop, loop.iter)}


@lru_cache(maxsize=64)
def _words(file: str) -> frozenset[str]:
    """Every name and every string of a file."""
    names = {node.id for node in _nodes(file) if isinstance(node, ast.Name)}
    return frozenset(
        names | {n.value for n in _nodes(file) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    )


def _nodes(file: str) -> Iterable[ast.AST]:
    return ast.walk(module_tree("".join(linecache.getlines(file))))
