"""First configs of float32 products that the matrix units take in parts, beside many sums."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL
from tileflow_benchmarks.ratios.module_cases import CHAINS
from tileflow_benchmarks.tuning.default_neighbours import StrangerCase

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


# blocks, warps; by multiply-adds these had 64, 64, 16, 32, 64, 32 and 32 rows by eight warps
WHOLE: dict[str, tuple[dict[str, Choice], int]] = {
    "redundant_keys": ({"block:t": 128, "block:s": 64}, 8),
    "matrix_profile": ({"block:ti@1": 128, "block:tj@1": 64}, 8),
    "residual_quantise": ({"block:tn": 16}, 4),
    "epidemic_patches": ({"block:ts": 32}, 4),
    "belief_filter": ({"block:tb": 16}, 4),
    "echo_state": ({"block:tb": 16}, 4),
    "community_growth": ({"block:t": 16}, 8),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_inner_dimensions_are_in_parts(name: str) -> None:
    """With fewer rows beside whole columns, and more warps where four products' sums are held: 18.9 ms and 2.6, 351 us
    and 120, 21.3 ms and 0.75 (`redundant_keys`, `residual_quantise`, `community_growth`; H200, 2026-11-30)."""
    blocks, warps = WHOLE[name]
    found = StrangerCase(name).lowered(H200)
    config = found.default.to_dict()
    last = "@1" if any("@1" in block for block in blocks) else ""
    assert {block: config[block] for block in blocks} == blocks
    assert (config[f"num_warps{last}"], config[f"maxnreg{last}"]) == (warps, 0)
    assert {choice for knob, choice in config.items() if knob.endswith(".precision")} == {"bf16x6"}


def test_whole_dimensions_without_room_in_parts_are_by_multiply_adds() -> None:
    """Three products with 80 x 120 numbers, of which no block makes less."""
    config = StrangerCase("unfold_spectra").lowered(H200).default.to_dict()
    assert {choice for knob, choice in config.items() if knob.endswith(".precision")} == {"ieee"}


def test_results_of_the_authors_own_sizes_stay_by_multiply_adds() -> None:
    """A state of 64 x 64 took 430 us so, and 572 in parts."""
    config = StrangerCase("test_time_linear").lowered(H200).default.to_dict()
    assert {choice for knob, choice in config.items() if knob.endswith(".precision")} == {"ieee"}


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
