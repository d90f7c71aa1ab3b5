"""Definitions of functions whose files change while the process runs."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tileflow.definitions import definition
from tileflow.errors import KernelError
from tileflow.target import target

TEXT = """
import torch
import tileflow
import tileflow.language as tfl

def plus(v):
    return v + 1

many = [lambda v: v * 2, lambda v: v * 3]

@tileflow.kernel
def times(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.numel()):
        out[t] = plus(x[t]) * 10
    return out
"""
_seconds = itertools.count(1_600_000_000)


def written(file: Path, text: str) -> None:
    file.write_text(text)
    os.utime(file, (now := next(_seconds), now))  # a clock's step may be longer than a test


def imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), module.__dict__)
    return module


def body(fn: Callable[..., object]) -> str:
    found = definition(fn)[0].body  # type: ignore[arg-type]
    return ast.unparse(found[-1] if isinstance(found, list) else found)


def test_a_file_that_changes_leaves_what_was_imported(tmp_path: Path) -> None:
    """A mixture was compiled, of old host code and new helpers, under the hash of the new text."""
    file = tmp_path / "changing.py"
    written(file, TEXT)
    old = imported(file)
    same = imported(file).times.semantic_hash
    written(file, TEXT.replace("v + 1", "v + 33.5").replace("* 10", "* 77.5").replace("v * 2", "v * 4"))
    assert [body(fn) for fn in (old.plus, *old.many)] == ["return v + 1", "v * 2", "v * 3"]
    assert old.times.semantic_hash == same
    lowered = old.times.lower((torch.empty(4, device="meta"),), target("nvidia-h200"))
    code = [line for line in lowered.emit(lowered.default)[0].text.splitlines() if not line.strip().startswith("#")]
    assert not any(number in "\n".join(code) for number in ("33.5", "77.5"))
    new = imported(file)
    assert [body(fn) for fn in (new.plus, *new.many)] == ["return v + 33.5", "v * 4", "v * 3"]
    assert new.times.semantic_hash != same == old.times.semantic_hash


@pytest.mark.parametrize("text", ["{{ broken", "", "x = 1\n\n"])
def test_a_file_that_is_broken_or_emptied_leaves_what_was_imported(tmp_path: Path, text: str) -> None:
    file = tmp_path / "breaking.py"
    written(file, TEXT)
    old = imported(file)
    same = old.times.semantic_hash
    written(file, text)
    assert body(old.plus) == "return v + 1" and imported_hash(old) == same
    file.unlink()
    assert body(old.plus) == "return v + 1"


def imported_hash(module: ModuleType) -> str:
    return str(module.times.alias("another:name").semantic_hash)


def test_a_text_that_is_no_python_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "template.py"
    written(file, "{{ broken")
    names: dict[str, Callable[..., object]] = {}
    exec(compile("def f(): return 1", str(file), "exec"), names)
    with pytest.raises(KernelError, match=r"must be Python's text(.|\n)*template.py"):
        body(names["f"])
