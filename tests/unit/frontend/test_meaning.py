"""Hashes of classes that calls pass: the same on every Python, and whatever the process did with them before."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tileflow.frontend.meaning import code_hash, serialise, serialise_value

TEXT = """
import enum
import typing


class Color(enum.Enum):
    RED = 1
    GREEN = 5
    CRIMSON = 1

    def darker(self):
        return self.value - 1

    @classmethod
    def _missing_(cls, value):
        return cls.RED


class Mode(enum.IntFlag):
    FAST = 1
    EXACT = 2


class Act(typing.Protocol):
    def __call__(self, x: float) -> float:
        return x + 1


class Scaled:
    by: int = 3

    def __call__(self, x):
        return x * self.by


Number = typing.Union[int, float]


def asks(x):
    return isinstance(x, Number)
"""


def module(folder: Path, text: str = TEXT) -> dict[str, Any]:
    """The names of a module's text in a file of its own; the module has one name, wherever the file is."""
    file = folder / f"text_{len([*folder.iterdir()])}.py"
    file.write_text(textwrap.dedent(text))
    names: dict[str, Any] = {"__name__": "pinned"}
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), names)
    return names


PINNED = {
    "Color": "2a81f1e7f21c87b00edcccd530e9c883316832f0d013c0529d93b64732d9e0f6",
    "Mode": "6a5ad991fd55e2ca779a28b6bf6d3e390f590e92b128558913855deea869085b",
    "Act": "8249ab70f674333ea83c46ec2db101e8e7b6eaaa652711c0a45e435c456efd3b",
    "Scaled": "54c3de04e2492490776a615c85007579479b5045b938c60094a9bbba2f2c9582",
}


@pytest.mark.parametrize("name", PINNED)
def test_hashes_of_classes_are_the_same_on_every_python(tmp_path: Path, name: str) -> None:
    """Keys of calls hold such hashes. Python 3.12 notes the attributes of a protocol in it, 3.14 the hashable values of
    an enum and annotations that were read. These here are what CPython 3.11.7, 3.12.7 and 3.14.2 gave."""
    assert code_hash(module(tmp_path)[name]) == PINNED[name]


def test_unions_are_one_class_on_every_python(tmp_path: Path) -> None:
    assert "Number=(union (name builtins.int) (name builtins.float))" in serialise(module(tmp_path)["asks"])
    assert serialise_value(int | float) == ("(union (name builtins.int) (name builtins.float))", True)


def test_the_hash_of_a_flag_is_what_it_was_before_members_were_combined(tmp_path: Path) -> None:
    """Python notes each combination in the class: a call's key was another one from then on, and its row was lost."""
    mode = module(tmp_path)["Mode"]
    before = code_hash(mode)
    assert mode.FAST | mode.EXACT and mode(3) and ~mode.FAST
    assert code_hash(mode) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [("GREEN = 5", "GREEN = 6"), ("CRIMSON", "SCARLET"), ("- 1", "- 2"), ("return cls.RED", "return None")],
)
def test_the_hash_of_an_enum_changes_with_its_members_and_methods(tmp_path: Path, old: str, new: str) -> None:
    assert TEXT.count(old) == 1
    first, second = (module(tmp_path, text)["Color"] for text in (TEXT, TEXT.replace(old, new)))
    assert code_hash(first) != code_hash(second)
