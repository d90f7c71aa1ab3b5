"""Masks by position on the GPU: some of the interpreter's cases, under their own config and the default."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels.masked_kernels import CASES, CAUSAL, MASKS
from tile_testing.runs.interpreted import close

from tileflow.runtime.describe import device_class
from tileflow.target import target

pytestmark = pytest.mark.gpu

NAMES = [
    *(f"{name}_16x32" for name in MASKS),
    *(f"{name}_softmax_64x16" for name in CAUSAL),
    *(f"{name}_softmax_of_65_16x32" for name in CAUSAL),
    # what the passes leave alone, but sums of 3e38 and a score: matrix units round them toward zero, each by itself
    *(name for name in CASES if not name[-1].isdigit() and name != "with_a_mask_in_memory"),
]


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, mode: str) -> None:
    case = CASES[name]
    args: tuple[Any, ...] = tuple(a.to("cuda") if isinstance(a, torch.Tensor) else a for a in case.args)
    lowered = case.kernel.lower(args, target(device_class("cuda")), mode=mode)
    for changes in ({}, dict(case.config)):
        config = lowered.space.repair(lowered.default.with_(changes))
        got = case.kernel.compile(lowered, config, "cuda")(*args)
        assert close(got.cpu(), case.wanted(*case.args)) == "", config
