"""Products whose operands come an element at a time, and those that only look so: what is chosen, and what becomes of
it in machine code. Measured on an H200 before: 628 us for 777 x 1111 x 4096 in bfloat16, torch 85.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import pytest
import torch
from tile_testing.gluon_text import machine_code

from examples.matmul import matmul
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.default.operands import comes_by_element, needs_box
from tileflow.default.products import product_config
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")
ODD = (777, 1111, 4096)


def operand(layout: str, rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """``N``: row by row; ``T``: a transposed view; ``w``: row by row, in rows that begin at multiples of 8 elements."""
    if layout == "T":
        return torch.empty(columns, rows, dtype=dtype, device="meta").t()
    longer = -columns % 8 + 8 if layout == "w" else 0
    return torch.empty(rows, columns + longer, dtype=dtype, device="meta")[:, :columns]


def lowered(
    layouts: str, size: tuple[int, int, int], dtype: torch.dtype = torch.bfloat16, mode: str = "static"
) -> Lowered:
    m, n, k = size
    return matmul.lower((operand(layouts[0], m, k, dtype), operand(layouts[1], k, n, dtype)), H200, mode)


def pipelined(its: Lowered) -> Config:
    """What would be the default if no schedule were warp-specialised."""
    (ir,) = its.regions
    known = {knob.name for knob in its.space.knobs}
    wanted = product_config(ir, its.target, pipelined=True)
    return its.space.complete({name: choice for name, choice in wanted.items() if name in known})


def chosen(its: Lowered) -> tuple[Any, ...]:
    d = its.default_pipelined.to_dict()
    blocks = tuple(d[f"block:tile_{axis}"] for axis in "mnk")
    return (*blocks, d["num_warps"], d["num_stages"], d.get("load:x#0.access"), d.get("load:y#0.access"))


def operands(its: Lowered) -> list[tuple[bool, bool]]:
    (ir,) = its.regions
    (dot,) = (op for op in ir.walk() if op.kind.name == "DOT")
    return [(comes_by_element(ir, v, H200), needs_box(ir, v, H200)) for v in dot.values[:2]]


@pytest.mark.parametrize(
    ("layouts", "size", "dtype", "found"),
    [
        ("NN", ODD, torch.bfloat16, (False, True)),
        ("NT", ODD, torch.bfloat16, (False, False)),
        ("TN", ODD, torch.float16, (True, True)),
        ("TT", ODD, torch.float32, (True, False)),
        ("NN", (777, 1112, 4096), torch.bfloat16, (False, False)),
        ("NN", (777, 1110, 4096), torch.bfloat16, (False, False)),  # two at a time: four bytes
        ("NN", (777, 1110, 4096), torch.float8_e4m3fn, (False, True)),  # two at a time: two bytes
        ("NT", (768, 1024, 4095), torch.bfloat16, (True, True)),
    ],
)
def test_which_operands_come_by_element(
    layouts: str, size: tuple[int, int, int], dtype: torch.dtype, found: tuple[bool, bool]
) -> None:
    for mode in ("static", "dynamic"):
        assert tuple(by for by, _ in operands(lowered(layouts, size, dtype, mode))) == found


def test_rows_that_begin_aligned_and_end_anywhere_have_boxes() -> None:
    """Pointers would mask each element by itself."""
    its = lowered("Nw", ODD, torch.float32)
    assert operands(its) == [(False, False), (False, True)]
    (source,) = its.emit(its.default_pipelined)
    assert {a.path for a in source.args if a.kind == "descriptor"} >= {"x", "y"}


@pytest.mark.parametrize(
    ("mode", "rows", "columns", "inner"),
    [("static", 4096, 128, 64), ("static", 4097, 128, 32), ("dynamic", 4096, 64, 64)],
)
def test_blocks_where_both_come_by_element(mode: str, rows: int, columns: int, inner: int) -> None:
    """Addresses by strides of run time leave no registers for the larger block, which spilled so, nor masks of both
    operands' rows for a long one."""
    its = lowered("NT", (rows, 1111, 777), mode=mode)
    assert chosen(its) == (128, columns, inner, 16, 4, None, None)
    assert not build(its.emit(its.default_pipelined)[0], its.target).resources.spills


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(
    ("layouts", "size", "expected"),
    [
        ("NN", ODD, (64, 64, 128, 8, 4, "pointer", None)),  # few programs: long turns
        ("TT", ODD, (64, 64, 128, 8, 4, None, "pointer")),
        ("TN", ODD, (128, 64, 128, 16, 4, None, None)),  # both come so
        ("NN", (4096, 4095, 4096), (128, 64, 64, 8, 4, "pointer", None)),
        ("TT", (4095, 4096, 4096), (64, 128, 64, 8, 4, None, "pointer")),
        ("NT", ODD, (64, 128, 128, 4, 4, "descriptor", "descriptor")),
    ],
)
def test_blocks_of_operands_by_element(
    mode: str, layouts: str, size: tuple[int, int, int], expected: tuple[Any, ...]
) -> None:
    """Few elements a thread, no box beside them, and none of it where both operands have boxes."""
    its = lowered(layouts, size, mode=mode)
    assert chosen(its) == expected
    assert its.default_pipelined["maxnreg"] == (168 if "pointer" in expected else 0)


@pytest.mark.parametrize(
    ("layouts", "block"), [("NN", (128, 64)), ("NT", (128, 64)), ("TN", (128, 64)), ("TT", (64, 128))]
)
@pytest.mark.parametrize("size", [(4096, 1024, 768), (1001, 1001, 1001)])
def test_variants_that_assume_nothing_have_sixteen_warps(
    size: tuple[int, int, int], layouts: str, block: tuple[int, int]
) -> None:
    """64 x 64 by eight took 123 us at 4097 x 1111 x 777 where these take 90 (H100, by hand, 2026-11-26)."""
    its = lowered(layouts, size, mode="dynamic")
    found = its.default_unaligned
    assert (found["block:tile_m"], found["block:tile_n"], found["num_warps"]) == (*block, 16)
    (source,) = its.emit(found, ("none",))
    assert build(source, H200).resources.spills == 0


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("layouts", ["NN", "TN"])
def test_parts_of_operands_by_element_are_not_copied_first(layouts: str, mode: str) -> None:
    """Copies of single elements met in a bank of shared memory, by 32; at 777 x 1111 the default spilled."""
    its = lowered(layouts, ODD, torch.float32, mode)
    config = pipelined(its)
    assert [config[f"block:tile_{side}"] for side in "mnk"] == [64, 64, 64]
    assert (config["num_warps"], config["num_stages"]) == (4, 1)
    built = build(its.emit(config)[0], H200)
    assert built.resources.spills == 0 and dict(built.resources.instructions).get("async_copy", 0) == 0


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_loads_by_element_are_in_flight_together(mode: str) -> None:
    """A turn waited for memory 18 times in the static text, 30 times in the dynamic one: the assembler loaded a few
    elements, stored them to shared memory, and loaded the next."""
    its = lowered("NN", ODD, mode=mode)
    built = build(its.emit(its.default_pipelined)[0], H200)
    code = machine_code(built.code)
    kinds = re.findall(r"\b(LDG\.E\.U16|STS|HGMMA)\b", code)
    turn = kinds[: kinds.index("HGMMA")]
    waits = sum(name == "STS" for name, _ in groupby(turn))
    assert turn.count("LDG.E.U16") == 32 and waits == 1
    assert built.resources.spills == 0


def test_run_time_sizes_have_the_vectors_of_what_they_are_multiples_of() -> None:
    """1000 is no multiple of 16, and float32's vectors need 4: the dynamic text copied single elements, and spilled."""
    size = (1000, 1000, 1000)
    static, dynamic = (lowered("NN", size, torch.float32, mode) for mode in ("static", "dynamic"))
    config = pipelined(static)
    assert config == pipelined(dynamic)
    aligned, plain = dynamic.emit(config)
    for name in ("k", "x_stride_0", "y_stride_0", "end_1"):
        assert f"    {name} = {name} // 4 * 4\n" in aligned.text and f"{name} // 4 * 4" not in plain.text
    assert "end_0 // 4" not in aligned.text  # rows may be as many as there are
    assert "% 4" in str(aligned.guards) and "% 4" not in str(plain.guards)
    found = [build(s.emit(config)[0], H200).resources for s in (static, dynamic)]
    copies = [dict(r.instructions)["async_copy"] for r in found]
    assert copies[0] == copies[1] and [r.spills for r in found] == [0, 0]


def test_a_transposed_view_of_an_aligned_size_has_boxes_of_its_own() -> None:
    """Strides of 1000 elements were one layout with strides of 777: variants by pointers served both, at 0.3x."""
    odd, even = (lowered("TN", size, mode="dynamic") for size in (ODD, (1000, 1000, 1000)))
    assert odd.problem.layouts == "1sp,s1p" and even.problem.layouts == "1bpb,b1pb"
    boxed = even.emit(even.default_pipelined)[0]
    assert {a.path for a in boxed.args if a.kind == "descriptor"} >= {"x", "y"}
    assert all(a.kind != "descriptor" or a.path == "out" for a in odd.emit(odd.default_pipelined)[0].args)
