"""Gluon text of one product's schedules: what it says, that it compiles without a GPU, that it takes what was said."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.gluon_text import assert_has_each_step, role
from tile_testing.kernels import joint_kernels as joint

import examples.fp8_matmul
import examples.matmul
from examples.fp8_matmul import fp8_matmul
from examples.matmul import matmul, matmul_epilogue
from tileflow.api import Kernel
from tileflow.build.compile import build, compile_source
from tileflow.config import Choice, Config
from tileflow.emit.gluon.product_kernel import ProductKernel
from tileflow.emit.source import TritonSource
from tileflow.lowered import Lowered
from tileflow.schedule.memory import BARRIER_BYTES, buffer_bytes, shared_bytes
from tileflow.schedule.types import Schedule
from tileflow.space.product_schedules import programs
from tileflow.target import target

H200 = target("nvidia-h200")
SHARED: dict[str, Choice] = {"block:tile_m": 128, "block:tile_n": 256, "ping_pong": False}
DEALT: dict[str, Choice] = {"block:tile_m": 128, "block:tile_n": 128, "ping_pong": True}
# of two products: 256 and 128 columns of both
BESIDE: dict[str, Choice] = {"block:tile_m": 128, "block:tile_n": 128, "ping_pong": False}
BESIDE_DEALT: dict[str, Choice] = {"block:tile_m": 128, "block:tile_n": 64, "ping_pong": True}


def config_of(lowered: Lowered, **choices: Choice) -> Config:
    given: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_k": 64, "num_stages": 4, "consumers": 2, "group": 8,
        **{n.replace("block_", "block:", 1): c for n, c in choices.items()},
    }  # fmt: skip
    return lowered.space.complete(given)


@functools.cache
def product(mode: str = "static", size: int = 1000) -> Lowered:
    return matmul.lower(examples.matmul.inputs(size, size, size, device="meta"), H200, mode=mode)


@functools.cache
def two_products(kernel: Kernel = joint.once, mode: str = "static") -> Lowered:
    args = joint.args_of(kernel, 1000, 1000, 1000)
    return kernel.lower(tuple(t.to("meta") for t in args), H200, mode=mode)


def written(lowered: Lowered, **choices: Choice) -> tuple[TritonSource, Schedule]:
    """The text, and the schedule that it was written from."""
    config = config_of(lowered, **choices)
    assert not lowered.space.violations(config)
    (ir,) = lowered.specialised_regions(config)
    kernel = ProductKernel(ir, config, H200, "all")
    return kernel.run(), kernel.specialised


@pytest.mark.parametrize("name", ["consumer", "producer"])
@pytest.mark.parametrize("choices", [SHARED, DEALT], ids=["shared", "dealt"])
def test_the_text_has_each_step_of_the_schedule_that_was_executed(choices: dict[str, Choice], name: str) -> None:
    source, schedule = written(product(), **choices)
    assert_has_each_step(role(source.text, name), getattr(schedule, name).program)


def test_groups_have_rows_of_a_tile_or_tiles_of_their_own() -> None:
    shared, dealt = written(product(), **SHARED)[0].text, written(product(), **DEALT)[0].text
    assert "for tile in range(0, tiles):" in role(shared, "consumer")
    assert "[tile_m_begin + who * ROWS, tile_n_begin]" in shared and "order" not in shared
    assert "for tile in range(who, tiles, GROUPS):" in role(dealt, "consumer")
    assert "for tile in range(0, tiles):" in role(dealt, "producer")
    assert "[tile_m_begin, tile_n_begin]" in dealt and "order.index((who + 1) % GROUPS)" in dealt


def test_rings_go_on_from_tile_to_tile() -> None:
    """Slots and parities follow from the number of the turn among those of all tiles."""
    text = role(written(product(), **SHARED)[0].text, "producer")
    order = ["start = tile * 16", "for turn in range(start, start + 16):", "tile_k_begin = (turn - start) * BLOCK",
             "mbarrier.wait(empty.index(turn % STAGES), ((turn // STAGES) & 1) ^ 1)"]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_the_epilogue_is_one_function_for_all_pieces() -> None:
    args = examples.matmul.epilogue_inputs(1000, 1000, 1000, device="meta")
    text = written(matmul_epilogue.lower(args, H200), **SHARED)[0].text
    assert "# return lambda acc, tile_m, tile_n: F.gelu(acc + bias[tile_n].float())" in role(text, "finish")
    assert "tile_n_idx = tile_n_begin + gl.arange(0, COLUMNS)" in text and text.count("def finish(") == 1
    calls = re.findall(r"result = finish\((.*)\)", text)
    assert len(calls) == 2 and "tile_n_begin + 128" in calls[1] and "sums_1" in calls[1]


def test_operands_are_read_turned_round_where_they_lie_so() -> None:
    x, y = examples.matmul.inputs(256, 384, 512, device="meta")
    turned = [a.new_empty(a.shape[::-1]).T for a in (x, y)]
    text = {
        layout: role(written(matmul.lower(args, H200), **SHARED)[0].text, "consumer")
        for layout, args in {"NN": (x, y), "NT": (x, turned[1]), "TN": (turned[0], y), "TT": tuple(turned)}.items()
    }
    read = {
        layout: (t.count("GROUPS + who).permute((1, 0))"), t.count("right.index(turn % STAGES).permute((1, 0))"))
        for layout, t in text.items()
    }
    assert read == {"NN": (0, 0), "NT": (0, 1), "TN": (2, 0), "TT": (2, 1)}


def check_built(source: TritonSource, schedule: Schedule) -> None:
    """No spills, and as much shared memory as was computed before."""
    binary = build(source, H200)
    assert binary.resources.spills == 0 and binary.resources.registers == 168
    assert binary.abi.threads == schedule.warps * 32 == 384
    assert buffer_bytes(schedule) <= binary.resources.shared <= shared_bytes(schedule) <= H200.smem_per_block


def test_products_compile_ahead_of_time() -> None:
    """For Hopper, on a machine without a GPU: products as wide as a group's columns, registers dealt out anew."""
    source, schedule = written(product(), **DEALT)
    check_built(source, schedule)
    assembly = compile_source(source, H200).assembly
    assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16" in assembly
    dealt = set(re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32 \t(\d+)", assembly))
    assert {"240", "24"} <= dealt and "cp.async.bulk.tensor" in assembly


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("choices", [SHARED, DEALT], ids=["shared", "dealt"])
def test_other_products_compile_too(choices: dict[str, Choice], mode: str) -> None:
    check_built(*written(product(mode), **choices))


@pytest.mark.slow
def test_epilogues_compile_without_spills() -> None:
    """An error function of 128 sums a thread at a time had 168 of them; of 64 at a time none."""
    args = examples.matmul.epilogue_inputs(1000, 1000, 1000, device="meta")
    check_built(*written(matmul_epilogue.lower(args, H200), **SHARED))


def test_fp8_products_sum_as_the_pipelined_ones() -> None:
    """Neither asks for sums in full precision after some turns: both leave that to Triton's default."""
    args = examples.fp8_matmul.inputs(512, 512, 512, device="meta")
    lowered = fp8_matmul.lower(args, H200)
    text = written(lowered, block_tile_k=128, **SHARED)[0].text
    assert "[16, 256, 32]" in text
    for each in (text, lowered.emit(lowered.default)[0].text):
        assert "imprecise" not in each


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"block_tile_m": 128, "block_tile_n": 256, "ping_pong": True}, "registers for the epilogue"),
        ({"block_tile_m": 64, "block_tile_n": 128, "ping_pong": False}, "64 or 128 rows each"),
        ({"block_tile_m": 512, "block_tile_n": 64, "ping_pong": False}, "64 or 128 rows each"),
        ({"block_tile_m": 128, "block_tile_n": 128, "ping_pong": False, "consumers": 3}, "tiles of their own"),
        ({"block_tile_m": 64, "block_tile_n": 256, "ping_pong": True, "consumers": 3}, "registers for the epilogue"),
        ({"block_tile_m": 128, "block_tile_n": 512, "ping_pong": False}, "at most 256 columns"),
        ({"block_tile_m": 128, "block_tile_n": 256, "ping_pong": False, "num_stages": 5}, "shared memory"),
        ({"block_tile_m": 128, "block_tile_n": 128, "ping_pong": True, "num_stages": 1}, "at least 2 stages"),
    ],
)
def test_what_a_config_must_satisfy(choices: dict[str, Choice], reason: str) -> None:
    """Each is refused before anything is compiled, and repaired."""
    space = product().space
    config = config_of(product(), **choices)
    assert any(reason in c.reason for c in space.violations(config))
    assert space.is_valid(space.repair(config))


def test_one_group_leaves_room_for_a_second_program() -> None:
    source, schedule = written(product(), block_tile_m=64, block_tile_n=64, consumers=1)
    assert programs(1, 32, shared_bytes(schedule), H200) == 2
    assert dict(source.options)["maxnreg"] == 128
    large, schedule = written(product(), block_tile_m=64, block_tile_n=128, consumers=1, num_stages=6)
    assert programs(1, 64, shared_bytes(schedule), H200) == 1 and dict(large.options)["maxnreg"] == 248


def launch_of(kernel: Kernel, args: tuple[Any, ...]) -> int:
    """How many programs are started."""
    source, _ = written(kernel.lower(args, H200), **SHARED)
    return source.grid[0].evaluate({})


def test_a_program_for_each_multiprocessor_or_for_each_tile() -> None:
    few = (torch.empty(256, 512, dtype=torch.bfloat16, device="meta"),) * 1
    y = torch.empty(512, 512, dtype=torch.bfloat16, device="meta")
    assert launch_of(matmul, (*few, y)) == 4
    assert launch_of(matmul, examples.matmul.inputs(4096, 4096, 512, device="meta")) == H200.sm_count


@pytest.mark.parametrize("products", [product, two_products], ids=["one product", "two products"])
@pytest.mark.parametrize("choices", [SHARED, DEALT, {**SHARED, "block:tile_m": 64, "block:tile_n": 64, "consumers": 1}],
                         ids=["shared", "dealt", "one"])  # fmt: skip
@pytest.mark.parametrize("stages", [2, 4])
def test_the_constraint_counts_the_memory_that_the_schedule_has(
    choices: dict[str, Choice], stages: int, products: Callable[[], Lowered]
) -> None:
    """Before anything is compiled; the barriers of an order are counted where there is none, too."""
    it, given = products(), {**choices, "num_stages": stages}
    if products is two_products:
        given["block:tile_n"] = int(given["block:tile_n"]) // 2
    config = config_of(it, **given)
    needed = shared_bytes(written(it, **given)[1])
    (constraint,) = (c for c in it.space.constraints if c.name == "warp_specialised: buffers fit shared memory")
    *_, bound = constraint.check.args
    knobs = {k.name: k.encode(config[k.name]) for k in it.space.knobs}
    assert 0 <= bound.args[0].evaluate(knobs) - needed <= BARRIER_BYTES * config["consumers"]


# ---- two products of one left operand -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["consumer", "producer"])
@pytest.mark.parametrize("choices", [BESIDE, BESIDE_DEALT], ids=["shared", "dealt"])
@pytest.mark.parametrize("kernel", [joint.once, joint.for_each, joint.by_rows], ids=lambda k: k.name.split(":")[1])
def test_the_text_of_two_products_has_each_step(kernel: Kernel, choices: dict[str, Choice], name: str) -> None:
    source, schedule = written(two_products(kernel), **choices)
    assert_has_each_step(role(source.text, name), getattr(schedule, name).program)


def test_right_operands_are_copied_beside_each_other() -> None:
    """Each to its half of a slot: of the rows where they lie along the inner dimension, else of the columns."""
    for kernel, halves in ((joint.once, ("slice(0, 128, 0)", "slice(128, 128, 0)")),
                           (joint.by_rows, ("slice(0, 128, 1)", "slice(128, 128, 1)"))):  # fmt: skip
        text = written(two_products(kernel), **BESIDE)[0].text
        copies = [line for line in role(text, "producer").splitlines() if "right.index" in line]
        assert [
            (name in line, half in line) for line, name, half in zip(copies, ("gate_", "up_"), halves, strict=True)
        ] == [(True, True)] * 2
        assert role(text, "producer").count("expect(full.index(turn % STAGES), 16384)") == 2


def test_an_epilogue_has_the_sums_of_each_product() -> None:
    text = written(two_products(), **BESIDE)[0].text
    assert "def finish(sums, sums_beside):" in text and text.count(" warpgroup_mma(") == 2
    assert re.findall(r"finish\((sums_\d), (sums_\d)\)", text) == [("sums_0", "sums_2"), ("sums_1", "sums_3")]
    other = written(two_products(joint.other_order), **BESIDE)[0].text
    assert role(other, "finish") == role(text, "finish")


@pytest.mark.parametrize("choices", [BESIDE, BESIDE_DEALT], ids=["shared", "dealt"])
def test_two_products_compile_ahead_of_time(choices: dict[str, Choice]) -> None:
    source, schedule = written(two_products(), **choices)
    check_built(source, schedule)
    columns = 256 if choices is BESIDE else 128
    assert f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16" in compile_source(source, H200).assembly


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("choices", [BESIDE, BESIDE_DEALT], ids=["shared", "dealt"])
@pytest.mark.parametrize("kernel", [joint.by_rows, joint.with_residual], ids=lambda k: k.name.split(":")[1])
def test_other_two_products_compile_too(kernel: Kernel, choices: dict[str, Choice], mode: str) -> None:
    check_built(*written(two_products(kernel, mode), **choices))


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"block_tile_m": 128, "block_tile_n": 256, "ping_pong": False}, "those of several right operands together"),
        ({"block_tile_m": 128, "block_tile_n": 128, "ping_pong": True}, "registers for the epilogue"),
        ({"block_tile_m": 128, "block_tile_n": 128, "ping_pong": False, "num_stages": 5}, "shared memory"),
    ],
    ids=str,
)
def test_what_a_config_of_two_products_must_satisfy(choices: dict[str, Choice], reason: str) -> None:
    space = two_products().space
    config = config_of(two_products(), **choices)
    assert any(reason in c.reason for c in space.violations(config))
    assert space.is_valid(space.repair(config))
