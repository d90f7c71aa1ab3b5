"""Maxima and sums of exponentials in one loop: where that can be, and right for rows with infinities and NaN."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module

from tileflow.passes import specialise
from tileflow.passes.roll import rollable
from tileflow.passes.structural_choice import StructuralChoice
from tileflow.target import target

KERNELS = path_of("online_kernels")
CASES = load_module(KERNELS).CASES
LOOPS = {"softmax": 2, "softmax_of_halves": 2, "log_softmax": 2, "logsumexp": 1, "with_a_sum_beside": 1,
         "another_exponent": 2, "along_the_first_axis": 2}  # fmt: skip


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_loops(name: str) -> None:
    case = CASES[name]
    args = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in case.args)
    (ir,) = case.kernel.lower(args, target("nvidia-h200")).regions
    assert sum(op.kind == "for" for op in specialise(ir, StructuralChoice(tuple(rollable(ir)))).walk()) == LOOPS[name]
