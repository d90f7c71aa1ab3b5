"""First configs of float32 products that the matrix units take in parts, beside many sums."""

from __future__ import annotations

from typing import Any

import pytest
from tileflow_benchmarks.ratios.module_cases import CHAINS

from tileflow.build.compile import build
from tileflow.config import Choice
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")


def lowered(kernel: str) -> Lowered:
    (case,) = (case for case in CHAINS if (case.kernel, case.dtype) == (kernel, "float32"))
    found: Lowered = case.loaded.lower(case.args("meta"), H200)
    return found


def test_every_product_of_a_program_is_in_parts() -> None:
    """The second had multiply-adds, which are several times as long as the parts of the first."""
    config: dict[str, Choice] = lowered("swiglu").default.to_dict()
    assert {name: choice for name, choice in config.items() if name.endswith(".precision")} == {
        "product:dot#0.precision": "tf32x3",
        "product:dot#1.precision": "tf32x3",
    }


@pytest.mark.parametrize("kernel", ["swiglu", "layer_norm_silu", "group_norm_hardtanh", "group_norm_min"])
def test_sums_leave_registers_for_operands_that_are_split(kernel: str) -> None:
    """Two products at once, rows of 512 and of 128 columns in one piece."""
    found: Any = lowered(kernel)
    first, *_ = found.emit(found.default)
    assert build(first, H200).resources.spills == 0
