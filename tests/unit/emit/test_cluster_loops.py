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
from tile_testing.kernels.running_kernels import attention, class_sums, guarded, log_sums, sunk, two_softmaxes
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

from examples.layer_norm import layer_norm
from examples.matmul import matmul
from examples.softmax import softmax
from tileflow.api import Kernel
from tileflow.build.compile import build, compile_source
from tileflow.config import Config
from tileflow.emit.cluster_boxes import LEAST_BOX, REGISTERS, bytes_for, next_box
from tileflow.emit.cluster_loops import reduce_text
from tileflow.kernels import flash
from tileflow.lowered import Lowered
from tileflow.space.cluster_loops import BOXES
from tileflow.target import target

H200 = target("nvidia-h200")
KNOB = "loop:tile_k.ctas"
TOGETHER: dict[str, Callable[[Iterable[int]], int]] = {"sum": sum, "prod": math.prod, "max": max, "min": min}
EXACT = ("sum", "prod")  # that float64 has an instruction for


def shared(lowered: Lowered, ctas: int, turn: int = 64) -> Config:
    """The pipelined default with turns of so many elements, or of the fewest that there are, dealt to ``ctas``
    blocks."""
    (knob,) = (k.name for k in lowered.space.knobs if k.name.startswith("loop:") and k.name.endswith(".ctas"))
    cut = [k for k in lowered.space.knobs if k.name.startswith("block:tile_k") or k.role == "reduction"]
    turns = {k.name: turn if k.allows(turn) else min(c for c in k.choices if c) for k in cut}
    config = lowered.space.repair(lowered.default_pipelined.with_({**turns, knob: ctas}))
    assert config[knob] == ctas
    return config


def put_together(values: list[Any], fn: str, to_all: bool) -> list[Any]:
    """What the blocks of a cluster have behind a text, of what each had: neighbours first."""
    two, step = TOGETHER[fn], 1
    while step < len(values):
        if to_all:
            values = [two((v, values[p ^ step])) for p, v in enumerate(values)]
        else:
            takes = [p % (2 * step) == 0 for p in range(len(values))]
            values = [two((v, values[p + step])) if takes[p] else v for p, v in enumerate(values)]
        step *= 2
    return values


@settings(max_examples=100, deadline=None)
@given(
    parts=st.sampled_from([2, 4, 8]),
    count=st.integers(1, 64),
    warps=st.sampled_from([1, 4, 16, 32]),
    dtype=st.sampled_from([*REGISTERS]),
    texts=st.lists(st.tuples(st.sampled_from([*TOGETHER]), st.booleans()), min_size=1, max_size=3),
    spare=st.sampled_from([0, LEAST_BOX]),
    seed=st.integers(0, 99),
)
def test_each_register_is_put_together(
    parts: int, count: int, warps: int, dtype: str, texts: list[tuple[str, bool]], spare: int, seed: int
) -> None:
    """By texts that share their boxes, of some of a block's threads, in any order between barriers; no two meet in a
    word between two barriers."""
    texts = [(fn if dtype != "float64" or fn in EXACT else "sum", to_all) for fn, to_all in texts]
    box = bytes_for(count, dtype, warps * 32)
    assert 2 * box <= BOXES and box % LEAST_BOX == 0
    box += spare  # of a text that needs more
    order = random.Random(seed)
    own = {(p, t): [order.randrange(1000) for _ in range(count)] for p in range(parts) for t in (0, 1, warps * 32 - 1)}
    wanted = {at: list(registers) for at, registers in own.items()}
    for fn, to_all in texts:
        for t, r in {(t, r) for _, t in own for r in range(count)}:
            for p, value in enumerate(put_together([wanted[p, t][r] for p in range(parts)], fn, to_all)):
                wanted[p, t][r] = value
    written = [reduce_text(parts, fn, dtype, count, warps * 32, box, to_all=to_all) for fn, to_all in texts]
    ptx_blocks.run(written, box, own, REGISTERS[dtype][2], order)
    assert own == wanted


def sums(parts: int, dtype: str, values: list[float], *, to_all: bool = False) -> list[float]:
    """What each block has of a number of its first thread."""
    own = {(p, 0): [v] for p, v in enumerate(values)}
    text = reduce_text(parts, "sum", dtype, 1, 32, LEAST_BOX, to_all=to_all)
    ptx_blocks.run([text], LEAST_BOX, own, REGISTERS[dtype][2], random.Random(0))
    return [found for (found,) in own.values()]


def test_floats_are_added_in_pairs() -> None:
    assert sums(4, "float64", [1.0, 1e17, -1e17, 1.0])[0] == (1.0 + 1e17) + (-1e17 + 1.0)


def test_all_blocks_have_the_same_bits() -> None:
    assert len({*sums(8, "float64", [1.0, 1e17, -1e17, 1.0, 3.0, -1e17, 0.1, 7.0], to_all=True)}) == 1


@pytest.mark.parametrize("fn", ["max", "min"])
@pytest.mark.parametrize("place", range(4))
def test_extrema_keep_a_nan_of_any_block(fn: str, place: int) -> None:
    own = {(p, 0): [math.nan if p == place else float(p)] for p in range(4)}
    ptx_blocks.run([reduce_text(4, fn, "float32", 1, 32, LEAST_BOX)], LEAST_BOX, own, 4, random.Random(0))
    assert math.isnan(own[0, 0][0])


@pytest.mark.parametrize("without", ["barrier.cluster.wait.acquire;", next_box(LEAST_BOX)])
def test_a_word_that_is_read_while_another_thread_writes_it_is_found(without: str) -> None:
    """The executor itself: without its last barrier a text has a race, and a second one that takes the first one's
    box."""
    text = reduce_text(2, "sum", "float32", 1, 32, LEAST_BOX)
    broken = text.replace(without, "", 1)
    assert broken != text
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(9):
            own = {(p, 0): [1.0] for p in range(2)}
            ptx_blocks.run([broken, broken], LEAST_BOX, own, 4, random.Random(seed))


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


LATE = LONG.clone()  # rows of which the first blocks find nothing
LATE[1, :900], LATE[2, 65:], LATE[3, 100] = -torch.inf, -torch.inf, torch.nan
GAPPED = torch.where(torch.arange(1000) % 3 == 0, -torch.inf, LATE)
WEIGHTS = torch.softmax(GAPPED * math.log(2) * 0.7, 1)
QUERIES, KEYS = torch.randn(40, 32), torch.randn(2, 1000, 32)
SCORES = QUERIES @ KEYS[0].T / math.sqrt(32)
SCORES.masked_fill_(torch.arange(40)[:, None] * 3 < torch.arange(1000), -torch.inf)


LONG_ROWS, CLASSES = torch.randn(40, 640).half(), torch.randn(1000, 640).half() / 25
CLASS_SUMS = torch.logsumexp((LONG_ROWS.float() @ CLASSES.float().T).half().float(), 1)


def attended() -> dict[str, torch.Tensor]:
    """What ``attention`` gives."""
    return {"out": torch.softmax(SCORES, 1) @ KEYS[1], "lse": torch.logsumexp(SCORES, 1) / math.log(2)}


CASES = [
    pytest.param(log_sums, {"x": LATE}, {"out": torch.logsumexp(LATE, 1)}, id="running"),
    pytest.param(
        log_sums, {"x": LATE.half()}, {"out": torch.logsumexp(LATE.half().float(), 1)}, id="running of halves"
    ),
    pytest.param(
        guarded,
        {"x": LATE, "scale": 0.7},
        {
            "out": (WEIGHTS * torch.arange(1000) / 100).sum(1),
            "tops": GAPPED.amax(1),
            "sums": torch.where(GAPPED > 0, GAPPED, 0).sum(1),
        },
        id="guarded",
    ),
    pytest.param(
        sunk,
        {"x": LATE, "sink": LONG[:, 7]},
        {"out": torch.logsumexp(torch.cat([LATE, LONG[:, 7:8]], 1), 1)},
        id="sunk",
    ),
    pytest.param(attention, {"q": QUERIES, "k": KEYS[0], "v": KEYS[1]}, attended(), id="attention"),
    pytest.param(class_sums, {"x": LONG_ROWS, "w": CLASSES}, {"out": CLASS_SUMS}, id="loops in a loop"),
    pytest.param(
        two_softmaxes,
        {"x": LATE, "y": LONG},
        {"out": torch.logsumexp(LATE, 1) - torch.logsumexp(LONG, 1)},
        id="two softmaxes",
    ),
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
    given = tuple(x.to("meta") if isinstance(x, torch.Tensor) else x for x in args.values())
    lowered = kernel.lower(given, H200, mode=mode)
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


def declared(lowered: Lowered, config: Config) -> tuple[int, int]:
    """Bytes that a binary declares for boxes, as it is built, and how many texts it has."""
    (source,) = (s for s in lowered.emit(config) if s.cluster > 1)
    ptx = compile_source(source, lowered.target).assembly
    (boxes,) = re.findall(r"\.shared [^;]*cluster_boxes\[(\d+)\];", ptx)
    assert len(re.findall(r"\.shared \.align", ptx)) == 2  # and Triton's own
    assert ptx.index("cluster_boxes[") < ptx.index("own0, cluster_boxes")
    return int(boxes), ptx.count("own0, cluster_boxes")


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
    assert lowered.space.is_valid(config)
    boxes, texts = declared(lowered, config)
    assert boxes <= BOXES and texts >= 1 + (rows > 32)


HALF = torch.float16
OF_LAYER_NORM = torch.empty(7, 131, dtype=HALF, device="meta"), *[torch.empty(131, dtype=HALF, device="meta")] * 2, 1e-5


@pytest.mark.parametrize(
    ("kernel", "args", "choices", "texts"),
    [
        (layer_norm, OF_LAYER_NORM, {"block:tile_m": 2, "reduce:sum#0": 128, "loop:sum#0.ctas": 2}, 2),
        (softmax, OF_LAYER_NORM[:1], {"block:tile_m": 2, "reduce:max#0": 128, "loop:max#0.ctas": 8}, 2),
    ],
)
def test_texts_that_triton_writes_again_share_the_boxes(
    kernel: Kernel, args: tuple[Any, ...], choices: dict[str, int], texts: int
) -> None:
    """For each layout in which the sums are wanted: ptxas refused 64 KiB and 144 KiB."""
    lowered = kernel.lower(args, H200)
    config = lowered.space.normalise(lowered.default.with_({**choices, "num_warps": 32, "persistent": 0}))
    assert lowered.space.is_valid(config)
    boxes, written = declared(lowered, config)
    assert boxes <= BOXES and written > texts
    assert build(lowered.emit(config)[0], H200).abi.threads == 32 * 32


def test_texts_that_llvm_copies_share_the_boxes() -> None:
    """Where blocks have a turn at most, it writes the text for the first block and again for all others: of two boxes,
    they would write to one and it would read the other."""
    lowered = matmul.lower(tuple(torch.empty(*s, dtype=HALF, device="meta") for s in ((7, 131), (131, 19))), H200)
    sizes = {"block:tile_m": 16, "block:tile_n": 32, "block:tile_k": 32, "num_warps": 2, "num_stages": 2}
    config = lowered.space.normalise(lowered.default.with_({**sizes, KNOB: 8, "persistent": 0}))
    assert lowered.space.is_valid(config)
    boxes, texts = declared(lowered, config)
    assert boxes == 2 * 2 * 32 * 4 * 8 and texts == 2


def test_the_boxes_of_several_sums_are_no_more_than_those_of_one() -> None:
    """A binary may declare 48 KiB of shared memory: ptxas refused two sums of 64 x 128 with boxes of 32 KiB each."""
    args = flash.attention_backward.inputs(batch=1, heads=4, m=1024, d=128, device="meta")
    lowered = flash.attention_backward.lower(args, H200)
    knob = "loop:tile_m@1@1.ctas"
    config = lowered.space.repair(lowered.default_pipelined.with_({knob: 2}))
    assert config[knob] == 2
    assert declared(lowered, config) == (BOXES, 2)
    (source,) = (s for s in lowered.emit(config) if s.cluster == 2)
    assert build(source, H200).abi.cluster == (2, 1, 1)
