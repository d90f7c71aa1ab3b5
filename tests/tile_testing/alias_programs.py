"""Random programs about names of one tile: aliases, views, changes in place by operators and methods, exchanges, lists,
functions, loops and branches. ``x``, ``y`` and ``out`` have 8 x 6 elements; ``n`` is 3.

Each means in torch what its text says of whole tensors: :func:`meaning` runs that very text with one block for all
rows. In the language it is that, as plain Python and compiled, or refused.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import torch

ROWS, COLUMNS, N = 8, 6, 3
_FUNCTIONS = """
def grown(q):
    q += 1
    return q


def halved(q):
    q.mul_(0.5)


def chosen(p, q, n):
    return p if n > 2 else q


def grown_often(q):
    for _ in range(20):
        q += 1
    return q
"""
# the shape of a name by a letter: F all of a block, T turned, H half its columns, C one column
_VIEWS = {
    "F": (
        ("T", ".T"), ("H", "[:, :3]"), ("H", "[:, 3:]"), ("H", "[:, ::2]"), ("H", ".narrow(1, 1, 3)"), ("C", "[:, 0]"),
        ("H", ".chunk(2, 1)[1]"), ("C", ".unbind(1)[3]"), ("C", ".select(1, 4)"), ("F", "[...]"), ("F", ".float()"),
        ("F", ".contiguous()"), ("F", ".detach()"), ("F", ".to(torch.float32)"), ("F", ".expand_as(x[t, :])"),
        ("F", ".view_as(x[t, :])"), ("F", "[:, None].squeeze(1)"), ("F", ".unflatten(1, (2, 3)).flatten(1)"),
        ("F", ".clone()"),
    ),
    "T": (("F", ".T"), ("F", ".mT"), ("F", ".transpose(0, 1)"), ("C", "[1]"), ("T", ".float()")),
    "H": (("H", "[...]"), ("C", "[:, 1]"), ("H", ".contiguous()")),
    "C": (("C", "[...]"), ("C", "[:, None].squeeze(1)"), ("C", "[:, None][:, 0]")),
}  # fmt: skip
_CONDITIONS = ("n > 2", "n > 5", "x[0, 0] < n", "y[0, 0] > n")
_METHODS = ("add_(1)", "mul_(0.5)", "fill_(2)", "zero_()", "clamp_(min=-2)", "neg_()", "add_(1).mul_(0.5)")


class _Writer:
    """Writes one program. ``names``: the shapes of the names that it has, ``lists`` those of lists' items."""

    def __init__(self, seed: int) -> None:
        self.rng, self.lines, self.depth = random.Random(seed), list[str](), 2
        self.names: dict[str, str] = {}
        self.lists: dict[str, tuple[str, str]] = {}
        self._numbers = count()

    def text(self, statements: int) -> str:
        self.bind("a", "F", "x[t, :] * 2")
        self.bind("b", "F", "y[t, :] - 3")
        self.write(statements)
        found = [name for name, shape in self.names.items() if shape == "F"]
        for name in self.rng.sample(found, min(len(found), 2)):
            self.line(f"out[t, :] += {name}")
        return f"{_FUNCTIONS}\n\ndef k(x, y, out, n):\n    for t in tfl.tile({ROWS}):\n" + "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def write(self, statements: int) -> None:
        for _ in range(statements):
            kinds = [self.new, self.alias, self.view, self.operator, self.operator, self.method, self.exchange]
            kinds += [self.container, self.item, self.function, self.choice, self.walrus, self.default]
            kinds += [self.loop, self.turns, self.branch] if self.depth < 4 else []
            self.rng.choice(kinds)()

    def block(self) -> None:
        """An indented block; names that it makes, or gives another shape, are not used behind it."""
        names, lists = dict(self.names), dict(self.lists)
        self.depth += 1
        self.write(self.rng.randrange(1, 4))
        self.line("pass")
        self.depth -= 1
        self.names = {name: shape for name, shape in names.items() if self.names.get(name) == shape}
        self.lists = lists

    def any(self) -> str:
        return self.rng.choice([*self.names])

    def other(self, name: str) -> str:
        return self.rng.choice([other for other, shape in self.names.items() if shape == self.names[name]])

    def target(self) -> str:
        return self.any() if self.rng.random() < 0.35 else f"v{next(self._numbers)}"

    def bind(self, name: str, shape: str, value: str) -> None:
        self.line(f"{name} = {value}")
        self.names[name] = shape

    def new(self) -> None:
        name = self.any()
        shape, other = self.names[name], self.other(name)
        made = (
            f"{name} + 1",
            f"{name} * 0.5",
            f"torch.maximum({name}, {other})",
            f"{name} - {other} * 0.5",
            f"{name}.clone()",
        )
        self.bind(self.target(), shape, self.rng.choice(made))

    def alias(self) -> None:
        name = self.any()
        self.bind(self.target(), self.names[name], name)

    def view(self) -> None:
        name = self.any()
        shape, view = self.rng.choice(_VIEWS[self.names[name]])
        self.bind(self.target(), shape, f"{name}{view}")

    def operator(self) -> None:
        name = self.any()
        value = self.rng.choice(["1", "0.5", f"{self.other(name)} * 0.5"])
        self.line(f"{name} {self.rng.choice(['+=', '-=', '*='])} {value}")

    def method(self) -> None:
        name = self.any()
        other = self.other(name)
        self.line(f"{name}.{self.rng.choice([*_METHODS, f'add_({other})', f'copy_({other})'])}")

    def exchange(self) -> None:
        name = self.any()
        if (other := self.other(name)) != name:
            self.line(f"{name}, {other} = {other}, {name}{self.rng.choice(['', ' + 1'])}")

    def container(self) -> None:
        items, name = (self.any(), self.any()), f"l{next(self._numbers)}"
        form = self.rng.choice(["[{}, {}]", "{{0: {}, 1: {}}}"])
        self.line(f"{name} = {form.format(*items)}")
        self.lists[name] = (self.names[items[0]], self.names[items[1]])

    def item(self) -> None:
        if self.lists:
            name, number = self.rng.choice([*self.lists]), self.rng.randrange(2)
            place = f"{name}[{number}]"
            match self.rng.randrange(3):
                case 0:
                    self.bind(self.target(), self.lists[name][number], place)
                case 1:
                    self.line(f"{place} += 1")
                case _:
                    self.line(f"{place}.add_(1)")

    def function(self) -> None:
        name = self.any()
        call = self.rng.choice(["grown({0})", "grown_often({0})", "chosen({0}, {1}, n)", "halved({0})"])
        call = call.format(name, self.other(name))
        self.line(call) if "halved" in call else self.bind(self.target(), self.names[name], call)

    def choice(self) -> None:
        name = self.any()
        self.bind(self.target(), self.names[name], f"{name} if {self.rng.choice(_CONDITIONS)} else {self.other(name)}")

    def walrus(self) -> None:
        name, first, second = self.any(), self.target(), f"v{next(self._numbers)}"
        self.line(f"{first} = ({second} := {name}) + 1")
        self.names[first] = self.names[second] = self.names[name]

    def default(self) -> None:
        name, function = self.any(), f"f{next(self._numbers)}"
        self.line(f"{function} = lambda q={name}: q * 0.5")
        self.bind(self.target(), self.names[name], f"{function}()")

    def loop(self) -> None:
        self.line(f"for i{next(self._numbers)} in range({self.rng.choice(['n * 7', 'n'])}):")
        self.block()

    def turns(self) -> None:
        turn = f"i{next(self._numbers)}"
        self.line(f"for {turn} in range(3):")
        if self.rng.random() < 0.4:
            self.line(f"    if {turn} == 1:")
            self.line(f"        {self.rng.choice(['break', 'continue'])}")
        self.block()

    def branch(self) -> None:
        self.line(f"if {self.rng.choice(_CONDITIONS)}:")
        self.block()
        if self.rng.random() < 0.5:
            self.line("else:")
            self.block()


class _Whole:
    """The language's functions on whole tensors: a tile is a slice of all rows."""

    @staticmethod
    def tile(size: int) -> Iterator[slice]:
        yield slice(0, size)


_FILES = count()


def program(seed: int) -> str:
    """The text of a kernel ``k(x, y, out, n)``."""
    return _Writer(seed).text(random.Random(seed).randrange(4, 13))


def load(text: str, language: Any) -> Callable[..., None]:
    """The function of a text, in which ``tfl`` is ``language``."""
    file = f"<program {next(_FILES)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"torch": torch, "tfl": language, "__name__": "alias_program"}
    exec(compile(text, file, "exec"), scope)
    return scope["k"]


def arguments() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """What the programs are called with."""
    x, y = (((torch.arange(48.0) * a) % b - c).view(ROWS, COLUMNS) for a, b, c in ((7, 13, 5), (5, 11, 4)))
    return x, y, torch.zeros(ROWS, COLUMNS), N


def meaning(text: str) -> torch.Tensor | None:
    """What torch makes of ``out``; None where torch refuses the text."""
    args = arguments()
    try:
        load(text, _Whole)(*args)
    except (RuntimeError, IndexError, ValueError):
        return None
    return args[2]
