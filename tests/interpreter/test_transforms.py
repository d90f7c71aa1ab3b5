"""Transforms that follow torch's operations, of which a launch is none, are refused in words by what launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.runs.transformed_calls import TRANSFORMS

Interpreter = Callable[..., Any]


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_is_refused_in_words(interpreter: Interpreter, name: str, is_warm: bool) -> None:
    """functionalize ended in "invalid python storage", make_fx in a NotImplementedError of torch's."""
    said = interpreter("runs.transformed_calls:said", name, is_warm)
    assert said.startswith("CallError: a kernel's tensors have memory, but got ")
    assert "call the kernel outside torch.func's transforms" in said


def test_make_fx_of_fake_tensors_records_the_operator(interpreter: Interpreter) -> None:
    (recorded,) = interpreter("runs.transformed_calls:graph_of_fake_tensors")
    assert recorded.startswith("tileflow.shifted_")
