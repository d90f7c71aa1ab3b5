"""Digests of functions: what a launch of a bundle tells the functions of host code apart by."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tileflow.runtime.paths import digest_of


def host_code(scale: int) -> list[Callable[..., Any]]:
    def plain(x: Any) -> Any:
        return x + 1

    def with_all(x: Any, *, k: int = 3, **more: Any) -> Any:
        """A docstring is no code."""
        y: int = x * 2
        return [v * scale for v in (y, k)] + [300, 5, -1, 1.5, True, more]

    def deep(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return y + x + scale

        try:
            return inner(x)
        except ValueError:
            return f"a{x!r:>{scale}}bc{scale:}"

    return [plain, with_all, deep, lambda x: x - scale, lambda x: sum(i for i in range(x)) if not x else x[1:2, ...]]


def test_digests_of_functions_are_the_same_on_every_python() -> None:
    """Pythons compile one text to other bytecode, names and constants: 3.12 put comprehensions into the functions that
    hold them, and 3.14 small numbers into the bytecode. A bundle's guards hold such numbers. These here are
    what CPython 3.11.7, 3.12.7 and 3.14.2 gave."""
    assert [digest_of(f) for f in host_code(4)] == PINNED


PINNED = [2987779231, 2474275332, 1547027682, 699627570, 1730548613]


def made(folder: Path, text: str, optimize: int = 0) -> FunctionType:
    """The function ``f`` of a module's text in a file of its own, with what ``python -O`` leaves out left out."""
    file = folder / f"text_{len([*folder.iterdir()])}.py"
    file.write_text(textwrap.dedent(text))
    names: dict[str, Any] = {"__name__": file.stem}
    exec(compile(file.read_text(), str(file), "exec", optimize=optimize, dont_inherit=True), names)
    found = names["f"]
    assert isinstance(found, FunctionType)
    return found


def test_a_digest_is_of_the_text_and_not_of_the_bytecode(tmp_path: Path) -> None:
    text = """
        def f(x):
            "A docstring, which -OO leaves out."
            return [x * i for i in (1, 2)]
        """
    plain, optimized = made(tmp_path, text), made(tmp_path, text, optimize=2)
    assert plain.__code__.co_consts != optimized.__code__.co_consts
    assert digest_of(plain) == digest_of(optimized)


@pytest.mark.parametrize(
    "other",
    [
        "def f(x): return x - 1",
        "def f(x): return x + 2",
        "def f(x): return x + 1.0",
        "def f(y): return y + 1",
        "def f(x, *, y=2): return x + 1",
        "def f(x): return abs(x) + 1",
        "f = lambda x: x + 1",
        "def g(x):\n    def f(): return x + 1\n    return f\nf = g(3)",
        "def f(*x): return x + 1",
    ],
)
def test_a_digest_changes_with_the_code(tmp_path: Path, other: str) -> None:
    assert digest_of(made(tmp_path, "def f(x): return x + 1")) != digest_of(made(tmp_path, other))


def test_names_that_are_closed_over_are_told_from_globals(tmp_path: Path) -> None:
    outer = "def g(c):\n    def f(x): return x + c\n    return f\nf = g(3)"
    inner = "def f(x): return x + c\nc = 3"
    assert digest_of(made(tmp_path, outer)) != digest_of(made(tmp_path, inner))


@pytest.mark.parametrize("text", ["", "{{ a template }}", "x = 1\n"])
def test_a_function_without_a_text_has_a_digest_of_its_bytecode(tmp_path: Path, text: str) -> None:
    file = tmp_path / "template.py"
    file.write_text(text)
    names: dict[str, Any] = {}
    exec(compile("def f(x): return x + 1\ndef g(x): return x - 1\nh = f", str(file), "exec"), names)
    assert digest_of(names["f"]) == digest_of(names["h"]) != digest_of(names["g"])
