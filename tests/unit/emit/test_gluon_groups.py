"""Gluon text of ragged groups and of parts of an inner dimension: what it says, and that it compiles without a GPU."""

from __future__ import annotations

import functools
import re

import pytest
from tile_testing.gluon_text import turns_of_products
from tile_testing.kernels.group_kernels import args_of, biased

import examples.grouped_matmul
import examples.split_k
from examples.grouped_matmul import grouped_matmul, grouped_matmul_flat
from examples.split_k import split_k_matmul
from tileflow.build.compile import build, compile_source
from tileflow.config import Choice, Config
from tileflow.emit.gluon.grouped_kernel import GroupedKernel
from tileflow.emit.gluon.parts_kernel import PartsKernel
from tileflow.emit.gluon.product_kernel import ProductKernel
from tileflow.emit.source import TritonSource
from tileflow.lowered import Lowered
from tileflow.schedule.memory import BARRIER_BYTES, buffer_bytes, shared_bytes
from tileflow.schedule.types import (
    Arrive,
    Await,
    AwaitPuts,
    Copy,
    IfWhole,
    Multiply,
    Put,
    Scatter,
    Schedule,
    Wait,
    steps_of,
)
from tileflow.target import target

H200 = target("nvidia-h200")
SHARED: dict[str, Choice] = {"rows": 128, "block:tile_n": 256, "ping_pong": False}
DEALT: dict[str, Choice] = {"rows": 128, "block:tile_n": 128, "ping_pong": True}


def config_of(lowered: Lowered, **choices: Choice) -> Config:
    known = {k.name for k in lowered.space.knobs}
    rows = "block:block_m" if "block:block_m" in known else "block:tile_m"
    given: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_k": 64, "num_stages": 4, "consumers": 2, "group": 8,
        **{rows if n == "rows" else n.replace("tunable_", "tunable:"): c for n, c in choices.items()},
    }  # fmt: skip
    return lowered.space.complete(given)


@functools.cache
def grouped(name: str = "grouped_matmul", mode: str = "static") -> Lowered:
    kernel = {k.name.split(":")[1]: k for k in (grouped_matmul, grouped_matmul_flat)}[name]
    return kernel.lower(examples.grouped_matmul.inputs(48, 4000, 2992, 1008, device="meta"), H200, mode=mode)


@pytest.mark.parametrize("name", ["grouped_matmul", "grouped_matmul_flat"])
def test_turns_are_counted_once_a_warp(name: str) -> None:
    """From bounds that are loaded, each lane counted turns by itself, and 16 moves of a turn told the warp's products
    and barriers of it."""
    lowered = grouped(name)
    (source,) = lowered.emit(config_of(lowered, **SHARED))
    turns = turns_of_products(compile_source(source, H200).code)
    assert len(turns) >= 2, "one a consumer group"
    for turn in turns[:2]:
        assert sum(word.startswith("HGMMA") for word in turn) == 4
        assert not [word for word in turn if word.startswith("R2UR")]


@functools.cache
def divided(mode: str = "static") -> Lowered:
    return split_k_matmul.lower(examples.split_k.inputs(256, 8192, 8192, device="meta"), H200, mode=mode)


def written(kind: type[ProductKernel], lowered: Lowered, **choices: Choice) -> tuple[TritonSource, Schedule]:
    """The text, and the schedule that it was written from."""
    config = config_of(lowered, **choices)
    assert not lowered.space.violations(config)
    kernel = kind(lowered.specialised_regions(config)[0], config, H200, "all")
    return kernel.run(), kernel.specialised


def role(text: str, name: str) -> str:
    start = text.index(f"def {name}(")
    return text[start : text.find("@gluon.jit", start)]


@pytest.mark.parametrize("name", ["consumer", "producer"])
@pytest.mark.parametrize("choices", [SHARED, DEALT], ids=["shared", "dealt"])
def test_the_text_has_each_step_of_the_schedule_that_was_executed(choices: dict[str, Choice], name: str) -> None:
    source, schedule = written(GroupedKernel, grouped(), **choices)
    text, steps = role(source.text, name), list(steps_of(getattr(schedule, name).program))

    def count(*kinds: type) -> int:
        return sum(isinstance(s, kinds) for s in steps)

    assert text.count("mbarrier.wait(") == count(Wait)
    assert text.count("mbarrier.arrive(") == count(Arrive)
    assert text.count("async_copy_global_to_shared(") == count(Copy)
    assert text.count(" warpgroup_mma(") == count(Multiply)
    assert text.count("warpgroup_mma_wait(") == count(Await)
    assert text.count("async_copy_shared_to_global(") == count(Put)
    assert text.count("tma.store_wait(0)") == count(AwaitPuts)
    assert len(re.findall(r"\bscatter\(", text)) == count(Scatter)
    assert text.count("<= rows_end0:") == count(IfWhole)


def test_all_roles_count_the_blocks_of_all_groups() -> None:
    """A consumer with tiles of its own counts the others' too, or its turns would be numbered otherwise."""
    text = written(GroupedKernel, grouped(), **DEALT)[0].text
    for name, own in (("consumer", ["if tile % GROUPS == who:"]), ("producer", [])):
        order = ["tile = 0", "for grid_tile in range(0, tiles):", "for tile_m_begin in range(", *own,
                 "start = uniform(tile * 16", "tile += 1"]  # fmt: skip
        places = [role(text, name).index(words) for words in order]
        assert places == sorted(places)
    lines = role(text, "consumer").splitlines()
    (counts,) = (line for line in lines if line.strip() == "tile += 1")
    (asks,) = (line for line in lines if "tile % GROUPS == who" in line)
    assert len(counts) - len(counts.lstrip()) == len(asks) - len(asks.lstrip())


def test_a_group_asks_for_its_own_rows() -> None:
    shared, dealt = (written(GroupedKernel, grouped(), **c)[0].text for c in (SHARED, DEALT))
    assert "if tile_m_begin + (who + 1) * ROWS <= rows_end0:" in shared
    assert "if tile_m_begin + ROWS <= rows_end0:" in dealt


def test_cut_blocks_are_stored_by_masked_pointers() -> None:
    text = role(written(GroupedKernel, grouped(), **SHARED)[0].text, "scatter")
    assert "tile_m_mask = tile_m_idx < rows_end0" in text
    assert "mask=tile_m_mask[:, None] & (tile_m_idx[:, None] >= 0) & (tile_m_idx[:, None] < 4000)" in text


def test_numbers_of_groups_are_each_warps_own() -> None:
    """The producer has one warp, a consumer four: no layout, and no reduction, is across warps."""
    text = written(GroupedKernel, grouped("grouped_matmul_flat"), **DEALT)[0].text
    for name in ("consumer", "producer"):
        layouts = set(re.findall(r"gl\.BlockedLayout\(.*?\[0\]\)", role(text, name)))
        assert layouts == {"gl.BlockedLayout([2], [32], [gl.num_warps()], [0])"}
        assert "gl.associative_scan(" in role(text, name) and role(text, name).count("gl.sum(") == 2


def test_parts_begin_along_the_inner_dimension_and_have_as_many_turns() -> None:
    text = role(written(PartsKernel, divided(), **{**SHARED, "tunable_split_k": 4})[0].text, "producer")
    order = ["= part_begin * ", "start = tile * 32", "for turn in range(start, start + 32):"]
    places = [text.index(words) for words in order]
    (number,) = re.findall(r"(v\d+) = part_begin \* ", text)
    assert places == sorted(places) and f"tile_k_begin = {number} + (turn - start) * BLOCK_TILE_K" in text


def test_sums_of_parts_are_added_to_memory() -> None:
    finish = role(written(PartsKernel, divided(), **SHARED)[0].text, "finish")
    assert finish.count("tl.atomic_add(gl.set_auto_layout(out_ptr") == 1 and "sem='relaxed'" in finish
    whole = written(PartsKernel, divided(), **{**SHARED, "tunable_split_k": 1})[0].text
    assert "atomic" not in whole and "async_copy_shared_to_global" in whole


def check_built(source: TritonSource, schedule: Schedule) -> None:
    """No spills, no products one after the other, and as much shared memory as was computed before."""
    binary = build(source, H200)
    assert binary.resources.spills == 0 and binary.resources.registers == dict(source.options)["maxnreg"]
    assert binary.abi.threads == schedule.warps * 32
    assert buffer_bytes(schedule) <= binary.resources.shared <= shared_bytes(schedule) <= H200.smem_per_block


@pytest.mark.parametrize(("name", "choices"), [("grouped_matmul", SHARED), ("grouped_matmul_flat", DEALT)])
def test_groups_compile_ahead_of_time(name: str, choices: dict[str, Choice]) -> None:
    source, schedule = written(GroupedKernel, grouped(name), **choices)
    check_built(source, schedule)
    assembly = compile_source(source, H200).assembly
    dealt = set(re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32 \t(\d+)", assembly))
    assert {str(schedule.consumer.registers), str(schedule.producer.registers)} <= dealt


def test_parts_compile_ahead_of_time() -> None:
    choices: dict[str, Choice] = {"rows": 64, "block:tile_n": 64, "block:tile_k": 128, "consumers": 1}
    source, schedule = written(PartsKernel, divided(), **choices)
    check_built(source, schedule)
    assert re.search(r"(red|atom)\.[\w.:]*global", compile_source(source, H200).assembly)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(
    "choices", [SHARED, DEALT, {**DEALT, "rows": 64, "consumers": 3}], ids=["shared", "dealt", "three"]
)
@pytest.mark.parametrize("name", ["grouped_matmul", "grouped_matmul_flat"])
def test_other_groups_compile_too(name: str, choices: dict[str, Choice], mode: str) -> None:
    check_built(*written(GroupedKernel, grouped(name, mode), **choices))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("choices", [SHARED, DEALT], ids=["shared", "dealt"])
def test_other_parts_compile_too(choices: dict[str, Choice], mode: str) -> None:
    check_built(*written(PartsKernel, divided(mode), **choices))


@pytest.mark.slow
def test_epilogues_of_groups_compile() -> None:
    check_built(*written(GroupedKernel, biased.lower(args_of(biased), H200), **DEALT))


@pytest.mark.parametrize("choices", [SHARED, DEALT], ids=["shared", "dealt"])
@pytest.mark.parametrize("name", ["grouped_matmul", "grouped_matmul_flat"])
def test_the_constraint_counts_the_memory_that_the_schedule_has(name: str, choices: dict[str, Choice]) -> None:
    it = grouped(name)
    config = config_of(it, **choices)
    needed = shared_bytes(written(GroupedKernel, it, **choices)[1])
    (constraint,) = (c for c in it.space.constraints if c.name == "warp_specialised: buffers fit shared memory")
    *_, bound = constraint.check.args
    knobs = {k.name: k.encode(config[k.name]) for k in it.space.knobs}
    found = bound.args[0].evaluate(knobs)
    assert 0 <= found - needed <= BARRIER_BYTES * config["consumers"]
