"""First configs of float32 products that the matrix units take in parts, beside many sums."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL
from tileflow_benchmarks.ratios.module_cases import CHAINS

from examples.attention import attention
from tileflow.api import load_kernel
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


@pytest.mark.parametrize(("d", "spilled"), [(64, 160), (128, 700)])
@pytest.mark.parametrize("causal", [False, True])
def test_float32_attention_is_in_parts(d: int, spilled: int, causal: bool) -> None:
    """It had blocks of 128 x 128 and multiply-adds, of which each thread spilled 4 to 10 KB. ``spilled``: bytes; what
    spills less was slower on an H200."""
    q, k, v = (torch.empty(1, 4, 2048, d, device="meta") for _ in range(3))
    found: Any = attention.lower((q, k, v, causal), H200)
    config = found.default
    assert [config[f"product:dot#{n}.precision"] for n in range(2)] == ["bf16x6", "bf16x6"]
    (source,) = found.emit(config)
    assert build(source, H200).resources.spills < spilled


def test_short_sums_have_no_tf32() -> None:
    """Against float64, three tf32 products are off by more than multiply-adds over 64 elements, and by less over 128;
    six bfloat16 products by less over 16 already."""
    kernel = load_kernel("examples.matmul:matmul")

    def offered(k: int) -> list[tuple[Any, ...]]:
        args = kernel.inputs(device="meta", m=512, n=512, k=k, dtype=torch.float32)
        return [knob.choices for knob in kernel.lower(args, H200).space.knobs if knob.name.endswith(".precision")]

    assert [offered(k) for k in (8, 64, 128)] == [[], [("ieee", "bf16x6")], [("ieee", "tf32x3", "bf16x6")]]


def test_few_columns_after_another_product_are_in_parts_of_tf32() -> None:
    """Of 16, ptxas made wrong code of six bfloat16 products: infinities, and reads elsewhere (H100, 2026-11-26). Nor is
    the product before in such, beside one in others (``parts_agree``); its sums are too short for those."""
    apply = ALL["kernel_apply"].kernel

    def precisions(columns: int) -> list[Any]:
        x, y, v = (torch.empty(n, c, device="meta") for n, c in ((512, 32), (1024, 32), (1024, columns)))
        found = apply.lower((x, y, v, 8.0), H200).default
        return [found[f"product:dot#{n}.precision"] for n in range(2)]

    assert precisions(16) == ["ieee", "tf32x3"]
    assert precisions(64) == ["bf16x6", "bf16x6"]


def test_long_arithmetic_on_scores_is_pipelined() -> None:
    """A tanh of each score, under a causal mask: 2295 us of warps with roles of their own, 1076 pipelined (H200)."""
    schedules = {}
    for name in ("softcapped_attention", "sigmoid_attention", "alibi_attention"):
        one = ALL[name]
        q, k, v = (torch.empty(64, 4096, 128, dtype=torch.bfloat16, device="meta") for _ in range(3))
        rest = (torch.empty(64, device="meta"),) if name == "alibi_attention" else ()
        schedules[name] = one.kernel.lower((q, k, v, *rest), H200).default["schedule"]
    assert schedules == {
        "softcapped_attention": "pipelined",
        "sigmoid_attention": "warp_specialised",
        "alibi_attention": "warp_specialised",
    }
