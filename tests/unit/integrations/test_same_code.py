"""When two functions compute the same: equal bytecode, under equal decorators, over equal functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from tileflow.integrations.same_code import same_function, same_method

PLAIN = """
def inner(x):
    return x / 2

def f(x, scale=1.0):
    \"\"\"What it says counts for nothing.\"\"\"
    total = inner(x) + math.sqrt(x)
    return total * scale
"""
ANOTHER_NAME = (
    "def inner(y):\n    return y / 2\ndef f(y, scale=1.0):\n    s = inner(y) + math.sqrt(y)\n    return s * scale\n"
)


def made(text: str, **scope: Any) -> FunctionType:
    names: dict[str, Any] = {"math": math, "functools": functools, **scope}
    exec(text, names)
    return names["f"]  # type: ignore[no-any-return]


def test_names_of_variables_and_documentation_count_for_nothing() -> None:
    assert same_function(made(PLAIN), made(ANOTHER_NAME))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("x / 2", "x / 3"),  # in what it calls
        lambda text: text.replace("+ math", "- math"),
        lambda text: text.replace("sqrt", "cbrt"),
        lambda text: text.replace("scale=1.0", "scale=2.0"),
        lambda text: text.replace("scale=1.0", "*, scale=1.0"),
        lambda text: text.replace("total * scale", "scale * total"),
        lambda text: text.replace("total = inner(x)", "total = (lambda z: z / 2)(x)"),
        lambda text: text.replace("def f", "@functools.lru_cache\ndef f"),
        lambda text: text.replace("x / 2", "x / 2.0"),  # equal, and another type
    ],
)
def test_anything_else_counts(change: Callable[[str], str]) -> None:
    text = change(PLAIN)
    assert text != PLAIN
    assert not same_function(made(PLAIN), made(text))


@pytest.mark.parametrize(("one", "other"), [("0.0", "-0.0"), ("(1, 2)", "(1.0, 2)"), ("True", "1")])
def test_equal_constants_may_be_two(one: str, other: str) -> None:
    text = "def f(x):\n    return x + {}\n"
    assert same_function(made(text.format(one)), made(text.format(one)))
    assert not same_function(made(text.format(one)), made(text.format(other)))


def test_decorators_are_the_same_ones() -> None:
    def doubled(function: Any) -> Any:
        return functools.wraps(function)(lambda *args: 2 * function(*args))

    def halved(function: Any) -> Any:
        return functools.wraps(function)(lambda *args: function(*args) / 2)

    assert same_function(doubled(made(PLAIN)), doubled(made(PLAIN)))
    assert not same_function(doubled(made(PLAIN)), halved(made(PLAIN)))


def test_a_method_is_compared_with_what_it_asks_of_its_class() -> None:
    class Base:
        scale = 1.0

        def forward(self, x: float) -> float:
            return self.grown(x) * self.scale

        def grown(self, x: float) -> float:
            return x + 1

    class Same(Base):
        def forward(self, y: float) -> float:
            return self.grown(y) * self.scale

    class Other(Same):
        def grown(self, x: float) -> float:
            return x + 2

    class Scaled(Same):
        scale = 2.0

    class Inside(Base):
        def forward(self, x: float) -> float:
            return sum(self.grown(y) for y in (x,)) * self.scale

    class InsideOther(Inside):
        def grown(self, x: float) -> float:
            return x + 2

    assert not same_method(Inside, InsideOther, "forward"), "asked for by a function inside"
    assert same_method(Base, Same, "forward")
    assert not same_method(Base, Other, "forward") and not same_method(Base, Scaled, "forward")
