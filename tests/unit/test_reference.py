"""The tables of what device code may say, and the page that is made from them."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest
from tile_testing import ROOT
from tile_testing.tiers import every_other

from tileflow import language
from tileflow.frontend import operations
from tileflow.frontend.language_registry import DEVICE
from tileflow.frontend.torch_registry import METHODS
from tileflow.reference import page

PAGE = ROOT / "docs" / "reference" / "language.md"
_COUNTS = """
import tileflow.frontend.lower  # which traces
from tileflow.frontend.language_registry import DEVICE
from tileflow.frontend.torch_registry import FACTORIES, METHODS, TABLE
print(len(DEVICE), len(METHODS), len(FACTORIES), len(TABLE))
"""


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page(), "python -m tileflow.reference > docs/reference/language.md"


def test_the_page_names_all_there_is() -> None:
    text = page()
    missing = [name for name in METHODS if f"`{name}`" not in text]
    missing += [name for name in language.__all__ if f"`tfl.{name}" not in text]
    assert not missing


@functools.cache
def counted(first: str) -> list[str]:
    """How many rows the tables have in a process that imports ``first`` before them."""
    program = f"import {first}\n{_COUNTS}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    "first",
    every_other(
        [
            "tileflow.frontend.language_registry",  # 14: a worker that had read this alone lacked tfl.dot
            "tileflow.frontend.torch_registry",
            "tileflow.frontend.trace",
            "tileflow.frontend.values",
            "tileflow.emit.escapes",
            "tileflow.language",
        ]
    ),
)
def test_the_tables_are_complete_whichever_module_is_imported_first(first: str) -> None:
    assert counted(first) == counted("tileflow.reference")


def test_every_module_that_registers_is_a_family() -> None:
    folder = Path(operations.__file__).parent
    own = {f"{operations.__name__}.{path.stem}" for path in folder.glob("*.py") if _registers(path)}
    assert own == {family.__name__ for family in operations.FAMILIES}


def _registers(path: Path) -> bool:
    text = path.read_text()
    fills = ("@register_", "DEVICE.update(", "PYTHON.update(", "TABLE[", "FACTORIES[", "ALWAYS[", "QUALIFIED[")
    return any(word in text for word in fills)


def test_every_function_of_device_code_has_a_meaning() -> None:
    marked = {getattr(getattr(language, name), "__tileflow_device__", None) for name in language.__all__} - {None}
    assert marked <= DEVICE.keys()
