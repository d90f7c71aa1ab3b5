"""Indices in three executions: as Python, through Triton's interpreter in both modes, against torch."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.kernels.indexing_mixes import HEAD, arguments, mix, wanted
from tile_testing.runs.interpreted import Call, close, load_module, run_eagerly

Interpreter = Callable[..., Any]
KERNELS = path_of("indexing_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_index(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.eager])
def test_index_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""


# ---- random mixes -------------------------------------------------------------------------------

MIXES = 40


def test_mixes(interpreter: Interpreter, tmp_path: Path) -> None:
    """Any mix of items, read and written, static and dynamic."""
    made, text, calls = [], [HEAD], []
    path = tmp_path / "mixes.py"
    for n in range(MIXES):
        writes = n % 2 == 1
        index = mix(random.Random(n), distinct=writes)
        args = arguments(index, n, writes)
        text.append(index.kernel(f"k{n}", writes))
        made.append((index, args, writes))
        block = (("block:b", (1, 4, 8)[n % 3] if len(index.loops) < 3 else 8),)
        calls.append(Call(str(path), f"k{n}", args, block, ("static", "dynamic")[n // 2 % 2]))
    path.write_text("\n".join(text))
    results = interpreter("runs.interpreted:run_all", calls)
    wrong = {
        text[n + 1]: found
        for n, (given, got) in enumerate(zip(made, results, strict=True))
        if (found := close(got, wanted(*given)))
    }
    assert wrong == {}


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_beyond_32_bits(interpreter: Interpreter, mode: str) -> None:
    """Ends of tensors of more than 2**31 elements."""
    for name, (got, expected) in interpreter("kernels.wide_kernels:far", mode).items():
        assert torch.equal(got, expected), f"{name}: {got} not {expected}"
