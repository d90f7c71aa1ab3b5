"""A problem without room for a reference: mistakes planted in generated text, and which witness finds them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.runs.witness_runs import Planted, Shorter

SOFTMAX = Planted(
    "examples.softmax:softmax", {"m": 40, "n": 300, "dtype": "float32"}, {"m": 9, "n": 35, "dtype": "float32"}
)
MATMUL = Planted(
    "examples.matmul:matmul",
    {"m": 60, "n": 70, "k": 200, "dtype": "float16"},
    {"m": 33, "n": 35, "k": 49, "dtype": "float16"},
)
CASES = [(SOFTMAX, Shorter(r" < ")), (MATMUL, Shorter(r"tile_k_idx < "))]
NAMES = ["softmax", "matmul"]


@pytest.mark.parametrize(("planted", "mask"), CASES, ids=NAMES)
def test_right_configs_agree_and_so_does_the_reference(
    interpreter: Callable[..., Any], planted: Planted, mask: Shorter
) -> None:
    assert interpreter("runs.witness_runs:testimony", planted) == "agree"


@pytest.mark.parametrize(("planted", "mask"), CASES, ids=NAMES)
def test_a_wrong_mask_of_the_default_is_found(interpreter: Callable[..., Any], planted: Planted, mask: Shorter) -> None:
    said = interpreter("runs.witness_runs:testimony", dataclasses.replace(planted, fault=mask))
    assert "must agree" in said and "second config" in said
    assert "default config incorrect, " in said or "default config nonfinite, " in said


@pytest.mark.parametrize(("planted", "mask"), CASES, ids=NAMES)
def test_a_wrong_mask_of_every_config_is_found_at_the_small_size(
    interpreter: Callable[..., Any], planted: Planted, mask: Shorter
) -> None:
    """What both configs have wrong they agree on."""
    said = interpreter("runs.witness_runs:testimony", dataclasses.replace(planted, fault=mask, where="all"))
    assert "must agree" in said and "default config ok" not in said
