"""Remainders of floats by constants are torch's own, signs of zeros and the smallest numbers too."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module

from tileflow.target import target

KERNELS = path_of("remainder_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize(("name", "calls"), [("by_4096_float32", False), ("by_6_float32", True)])
def test_powers_of_two_call_no_vendor(name: str, calls: bool) -> None:
    lowered = CASES[name].kernel.lower((torch.empty(64, device="meta"),), target("nvidia-h200"))
    assert ("_fmod(" in lowered.emit(lowered.default)[0].text) == calls
