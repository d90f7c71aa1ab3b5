"""What a kernel stores into an argument counts as a write, so that autograd refuses what it saved before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.runs import counted_writes

Interpreter = Callable[..., Any]


def test_a_backward_pass_refuses_what_a_kernel_overwrote(interpreter: Interpreter) -> None:
    """Only operators of graphs counted their stores: outside of graphs gradients were wrong without a word."""
    said = interpreter("runs.counted_writes:refusals")
    assert len(said) == 2 and all("modified by an inplace operation" in text for text in said)
    assert interpreter("runs.counted_writes:versions") == [0]


def test_python_over_tiles_counts_its_stores_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEFLOW_INTERPRET", "1")
    assert len(counted_writes.refusals()) == 2
    assert counted_writes.versions() == [0]
