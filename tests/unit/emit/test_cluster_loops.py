"""The text of loops that blocks of a cluster share: its PTX and whole kernels on a CPU, and what ptxas makes of it."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_testing.fakes import cluster_emulation, ptx_blocks
from tile_testing.kernels.summing_kernels import (
    column_extrema,
    column_facts,
    column_softmax,
    column_sums,
    column_variances,
    continued,
    looped_variances,
    number,
    peaks,
    row_products,
    row_sums,
    two_loops,
    whole_columns,
    whole_extrema,
    whole_rows,
)

from examples.matmul import matmul
from tileflow.api import Kernel
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.emit.cluster_loops import reduce_text
from tileflow.emit.clusters import REGISTERS
from tileflow.kernels import flash
from tileflow.lowered import Lowered
from tileflow.space.cluster_loops import BOXES
from tileflow.target import target

H200 = target("nvidia-h200")
TOGETHER: dict[str, Callable[[Iterable[int]], int]] = {"sum": sum, "prod": math.prod, "max": max, "min": min}
EXACT = ("sum", "prod")  # that float64 has an instruction for


def shared(lowered: Lowered, ctas: int, turn: int = 64) -> Config:
    """The default with turns of so many elements, or of the fewest that there are, dealt to ``ctas`` blocks."""
    (knob,) = (k.name for k in lowered.space.knobs if k.name.startswith("loop:") and k.name.endswith(".ctas"))
    cut = [k for k in lowered.space.knobs if k.name.startswith("block:tile_k") or k.role == "reduction"]
    turns = {k.name: turn if k.allows(turn) else min(c for c in k.choices if c) for k in cut}
    config = lowered.space.repair(lowered.default.with_({**turns, knob: ctas}))
    assert config[knob] == ctas
    return config


@settings(max_examples=60, deadline=None)
@given(
    parts=st.sampled_from([2, 4, 8]),
    count=st.integers(1, 64),
    warps=st.sampled_from([1, 4, 16]),
    reduction=st.sampled_from([(fn, t) for fn in TOGETHER for t in REGISTERS if t != "float64" or fn in EXACT]),
    to_all=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_first_block_has_each_register_put_together(
    parts: int, count: int, warps: int, reduction: tuple[str, str], to_all: bool, seed: int
) -> None:
    """Of some of a block's threads, in any order between barriers; no two meet in a word between two barriers."""
    fn, dtype = reduction
    text, size = reduce_text(parts, fn, dtype, count, warps * 32, to_all=to_all), REGISTERS[dtype][2]
    (room,) = map(int, re.findall(r"box\[(\d+)\]", text))
    assert room <= BOXES or count == 1
    order = random.Random(seed)
    own = {(p, t): [order.randrange(1000) for _ in range(count)] for p in range(parts) for t in (0, 1, warps * 32 - 1)}
    wanted = {t: [TOGETHER[fn](own[p, t][r] for p in range(parts)) for r in range(count)] for _, t in own}
    ptx_blocks.run(text, own, size, order)
    for block in range(parts if to_all else 1):
        assert {t: found for (p, t), found in own.items() if p == block} == wanted


def test_floats_are_added_in_pairs() -> None:
    own = {(p, 0): [v] for p, v in enumerate([1.0, 1e17, -1e17, 1.0])}
    ptx_blocks.run(reduce_text(4, "sum", "float64", 1, 32), own, 8, random.Random(0))
    assert own[0, 0] == [(1.0 + 1e17) + (-1e17 + 1.0)]


def test_all_blocks_have_the_same_bits() -> None:
    own = {(p, 0): [v] for p, v in enumerate([1.0, 1e17, -1e17, 1.0, 3.0, -1e17, 0.1, 7.0])}
    ptx_blocks.run(reduce_text(8, "sum", "float64", 1, 32, to_all=True), own, 8, random.Random(0))
    assert len({tuple(found) for found in own.values()}) == 1


@pytest.mark.parametrize("fn", ["max", "min"])
@pytest.mark.parametrize("place", range(4))
def test_extrema_keep_a_nan_of_any_block(fn: str, place: int) -> None:
    own = {(p, 0): [math.nan if p == place else float(p)] for p in range(4)}
    ptx_blocks.run(reduce_text(4, fn, "float32", 1, 32), own, 4, random.Random(0))
    assert math.isnan(own[0, 0][0])


def test_a_word_that_is_read_while_another_thread_writes_it_is_found() -> None:
    """The executor itself: without its last barrier a text has a race."""
    text = reduce_text(2, "sum", "float32", 1, 32)
    broken = text.replace("barrier.cluster.wait.acquire;", "", 1)
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(9):
            ptx_blocks.run(broken, {(p, 0): [1.0] for p in range(2)}, 4, random.Random(seed))


LONG = torch.randn(5, 1000)
NEAR_ONE = 1 + LONG / 100
LONGER = torch.randn(5, 4200)  # whole dimensions have turns of 128 at least
HOLES = LONGER.clone()
HOLES[2, 777] = torch.nan
TALL = LONGER.T.contiguous()
VARIANCES, HALVES = TALL.var(0, correction=0), TALL.bfloat16()
SUNKEN = TALL.clone()
SUNKEN[:, 1], SUNKEN[17:4100, 2], SUNKEN[5, 3] = -torch.inf, -torch.inf, torch.nan
FACTS = {"floats": TALL, "halves": (TALL * 4).round().half(), "ints": (TALL * 9).int(), "infinities": SUNKEN}
FACTS["bytes"] = (TALL * 20).to(torch.int8)


def facts(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """What ``column_facts`` gives."""
    some, every = (x > 3).any(0), (x < 3).all(0)
    total = (x.float() if x.is_floating_point() else x.long()).sum(0).to(x.dtype)
    return {"high": x.argmax(0), "low": x.argmin(0), "some": some, "every": every, "total": total}


CASES = [
    pytest.param(row_sums, {"x": LONG}, {"out": LONG.sum(1)}, id="rows"),
    pytest.param(row_sums, {"x": (LONG * 9).long()}, {"out": (LONG * 9).long().sum(1)}, id="ints"),
    pytest.param(row_sums, {"x": LONG.double()}, {"out": LONG.double().sum(1)}, id="float64"),
    pytest.param(column_sums, {"x": LONG.T.contiguous()}, {"out": LONG.sum(1)}, id="columns"),
    pytest.param(
        whole_rows, {"x": LONGER}, {"mean": LONGER.mean(1), "square": LONGER.square().sum(1)}, id="whole rows"
    ),
    pytest.param(whole_columns, {"x": LONGER.T.contiguous()}, {"out": LONGER.sum(1)}, id="whole columns"),
    pytest.param(
        continued,
        {"x": LONG, "start": LONG[:, 7]},
        {"up": LONG[:, 7] + LONG.sum(1), "down": 2 * LONG[:, 7] - LONG.sum(1)},
        id="continued",
    ),
    pytest.param(
        column_extrema,
        {"x": LONG.T.contiguous(), "start": LONG[:, 7] * 4},
        {"low": LONG.amin(1), "high": torch.maximum(LONG.amax(1), LONG[:, 7] * 4)},
        id="extrema",
    ),
    pytest.param(
        column_extrema,
        {"x": (LONG.T * 9).int().contiguous(), "start": (LONG[:, 7] * 40).int()},
        {"low": (LONG * 9).int().amin(1), "high": torch.maximum((LONG * 9).int().amax(1), (LONG[:, 7] * 40).int())},
        id="extrema of ints",
    ),
    pytest.param(whole_extrema, {"x": HOLES.T.contiguous()}, {"out": HOLES.amax(1)}, id="whole extrema"),
    pytest.param(row_products, {"x": NEAR_ONE}, {"out": NEAR_ONE.prod(1)}, id="products"),
    pytest.param(column_softmax, {"x": TALL}, {"out": torch.softmax(TALL, 0)}, id="softmax"),
    pytest.param(column_softmax, {"x": HALVES}, {"out": torch.softmax(HALVES.float(), 0)}, id="softmax of halves"),
    pytest.param(column_softmax, {"x": SUNKEN}, {"out": torch.softmax(SUNKEN, 0)}, id="softmax of infinities"),
    pytest.param(column_variances, {"x": TALL}, {"mean": TALL.mean(0), "out": VARIANCES}, id="variances"),
    pytest.param(looped_variances, {"x": TALL}, {"out": VARIANCES}, id="variances in loops"),
    pytest.param(
        number, {"x": TALL[:, 0]}, {"out": TALL[:, 0].sum()[None], "some": (TALL[:, 0] > 3).any()[None]}, id="number"
    ),
    pytest.param(two_loops, {"x": LONG}, {"out": LONG - LONG.sum(1, keepdim=True)}, id="a loop that writes"),
    *(pytest.param(column_facts, {"x": x}, facts(x), id=f"facts of {name}") for name, x in FACTS.items()),
]


@pytest.mark.parametrize("ctas", [2, 8])
@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(("kernel", "args", "wanted"), CASES)
def test_values(kernel: Kernel, args: dict[str, torch.Tensor], wanted: dict[str, Any], mode: str, ctas: int) -> None:
    """The emitted text as torch on a CPU, a thread for each block. In a variant for any size each has four turns."""
    lowered = kernel.lower(tuple(x.to("meta") for x in args.values()), H200, mode=mode)
    check(lowered, shared(lowered, ctas, 64 if mode == "static" else 16), args, wanted)


@pytest.mark.parametrize("ctas", [2, 8])
def test_values_of_fewer_turns_than_blocks(ctas: int) -> None:
    x = LONG[:, :3].contiguous()
    lowered = row_sums.lower((x.to("meta"),), H200)
    check(lowered, shared(lowered, ctas), {"x": x}, {"out": x.sum(1)})


def check(lowered: Lowered, config: Config, args: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    source, *_ = lowered.emit(config)
    tensor = lowered.regions[0].tensor
    outputs = {n: torch.full_like(want, -1, dtype=getattr(torch, tensor(n).torch_dtype)) for n, want in wanted.items()}
    hints = lowered.regions[0].hints
    given = cluster_emulation.bound(source, {**args, **outputs}, hints)
    cluster_emulation.run(source, given, source.grid[0].evaluate(hints))
    for name, want in wanted.items():
        torch.testing.assert_close(outputs[name], want.to(outputs[name].dtype), rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(200, 2049, 1001), (128, 4096, 512)])
def test_products_build(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    """All registers of a thread go in one text, without spills."""
    m, k, n = sizes
    args = torch.empty(m, k, dtype=dtype, device="meta"), torch.empty(k, n, dtype=dtype, device="meta")
    lowered = matmul.lower(args, H200)
    (source,) = lowered.emit(shared(lowered, 4))
    binary = build(source, H200)
    assert binary.abi.cluster == (4, 1, 1) and binary.resources.spills == 0
    assert source.text.count("gives0, peer") == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
@pytest.mark.parametrize("kernel", [column_extrema, row_products])
def test_extrema_and_products_build(kernel: Kernel, dtype: torch.dtype) -> None:
    """ptxas takes the instruction of each."""
    args = torch.empty(4001, 300, dtype=dtype, device="meta"), torch.empty(300, dtype=dtype, device="meta")
    lowered = kernel.lower(args[: 2 if kernel is column_extrema else 1], H200)
    (source,) = lowered.emit(shared(lowered, 4))
    assert build(source, H200).abi.cluster == (4, 1, 1)


@pytest.mark.parametrize(
    ("dtype", "rows", "length", "warps"),
    [(torch.float32, 64, 1024, 16), (torch.float32, 1024, 64, 16), (torch.float32, 16, 4096, 32),
     (torch.float64, 1024, 16, 4), (torch.float64, 256, 64, 4), (torch.float32, 32, 128, 4)],
)  # fmt: skip
def test_numbers_that_several_threads_hold_have_boxes_enough(
    dtype: torch.dtype, rows: int, length: int, warps: int
) -> None:
    """Triton repeats the text for each of a thread's registers that it does not name: ptxas refused 64 KiB and more."""
    lowered = peaks.lower((torch.empty(4096, 65536, dtype=dtype, device="meta"),), H200)
    sizes = {"block:tile_m": rows, "block:tile_k": length, "num_warps": warps, "num_stages": 1}
    config = lowered.space.normalise(lowered.default.with_({**sizes, "loop:tile_k.ctas": 4, "persistent": 0}))
    if lowered.space.is_valid(config):
        assert build(lowered.emit(config)[0], H200).abi.cluster == (4, 1, 1)
    else:
        assert rows > 32  # of which several threads hold all


def test_the_boxes_of_several_sums_are_no_more_than_those_of_one() -> None:
    """A binary may declare 48 KiB of shared memory: ptxas refused two sums of 64 x 128 with boxes of 32 KiB each."""
    args = flash.attention_backward.inputs(batch=1, heads=4, m=1024, d=128, device="meta")
    lowered = flash.attention_backward.lower(args, H200)
    knob = "loop:tile_m@1@1.ctas"
    config = lowered.space.repair(lowered.default_pipelined.with_({knob: 2}))
    assert config[knob] == 2
    (source,) = (s for s in lowered.emit(config) if s.cluster == 2)
    assert sum(int(size) for size in re.findall(r"box\[(\d+)\]", source.text)) <= BOXES
    assert build(source, H200).abi.cluster == (2, 1, 1)
