"""Where blocks of a cluster may share a loop's turns, what a config of it must satisfy, and how many by default."""

from __future__ import annotations

import random

import pytest
import torch
from tile_testing.kernels import summing_kernels as kernels

from examples.int4_matmul import int4_matmul
from examples.jagged import jagged_mean
from examples.matmul import matmul
from examples.split_k import split_k_matmul
from tileflow.api import Kernel
from tileflow.lowered import Lowered
from tileflow.portable import portable_sources
from tileflow.space.cluster_loops import BOXES, MOST_REGISTERS
from tileflow.space.clusters import without_clusters
from tileflow.target import target

H200 = target("nvidia-h200")
KNOB = "loop:tile_k.ctas"


def product(m: int, n: int, k: int, dtype: torch.dtype = torch.float32, device: str = "nvidia-h200") -> Lowered:
    args = torch.empty(m, k, dtype=dtype, device="meta"), torch.empty(k, n, dtype=dtype, device="meta")
    return matmul.lower(args, target(device))


def test_only_hopper_has_the_knob() -> None:
    assert KNOB in {k.name for k in product(64, 64, 4096).space.knobs}
    for device in ("nvidia-a100", "amd-mi300x", "nvidia-b200"):
        assert KNOB not in {k.name for k in product(64, 64, 4096, device=device).space.knobs}


@pytest.mark.parametrize(
    "changes",
    [{"persistent": 1}, {"loop:tile_k.unroll": 2, "num_stages": 2}, {"schedule": "warp_specialised"}],
    ids=str,
)
def test_other_ways_to_run_the_turns_exclude_it(changes: dict[str, int]) -> None:
    lowered = product(256, 256, 4096, torch.bfloat16)
    config = lowered.space.normalise(lowered.space.repair(lowered.default.with_({KNOB: 4})))
    assert config[KNOB] == 4
    other = lowered.space.normalise(lowered.space.repair(config.with_(changes)))
    assert other[KNOB] == 1 and all(other[name] == choice for name, choice in changes.items())


def test_a_threads_sums_are_few_enough_for_one_text() -> None:
    """128 of each thread are one too many, twice over; more warps have fewer each."""
    lowered = product(256, 256, 4096, torch.bfloat16)
    block = {"block:tile_m": 128, "block:tile_n": 128, "block:tile_k": 32, "num_stages": 2, "num_warps": 4}
    config = lowered.default.with_({"schedule": "pipelined", **block, KNOB: 2})
    (broken,) = lowered.space.violations(config)
    assert f"at most {MOST_REGISTERS} registers" in broken.reason
    assert lowered.space.is_valid(config.with_({KNOB: 1})) and lowered.space.is_valid(config.with_({"num_warps": 8}))
    assert lowered.space.repair(config)[KNOB] == 1


def test_boxes_count_as_shared_memory() -> None:
    """Of two configs that differ in the knob alone, one fits."""
    lowered = product(256, 256, 4096, torch.bfloat16)
    deep = {"schedule": "pipelined", "block:tile_m": 128, "block:tile_n": 128, "block:tile_k": 64, "num_warps": 8}
    config = lowered.space.normalise(lowered.default.with_({**deep, "num_stages": 6, KNOB: 1}))
    assert 6 * 2 * 128 * 64 * 2 + BOXES <= H200.smem_per_block < 7 * 2 * 128 * 64 * 2 + BOXES
    assert lowered.space.is_valid(config) and lowered.space.is_valid(config.with_({KNOB: 2}))


def test_what_launches_through_triton_has_none() -> None:
    lowered = product(128, 512, 4096)
    config = lowered.space.repair(lowered.default_pipelined.with_({KNOB: 8}))
    assert config[KNOB] == lowered.default[KNOB] == 8
    plain = without_clusters(lowered.space, config)
    assert plain[KNOB] == 1 and lowered.interpretable(config) == plain
    interpreted = lowered.interpretable(lowered.default)
    assert interpreted[KNOB] == 1 and interpreted["schedule"] == "pipelined"
    assert all(source.cluster == 1 for source in lowered.emit(lowered.default_pipelined))


@pytest.mark.parametrize("group", [8, 4])
def test_variants_with_clusters_are_for_few_programs(group: int) -> None:
    """The first variant whose guards a call meets serves it: that of clusters where their blocks all run at once. Under
    the default, and under a config that a tuning found."""
    args = (torch.empty(*s, device="meta", dtype=torch.bfloat16) for s in ((128, 4096), (4096, 512)))
    lowered = matmul.lower(tuple(args), H200, mode="dynamic")
    assert lowered.default[KNOB] == 4 and lowered.default["schedule"] == "pipelined"
    sources = portable_sources(lowered, lowered.default.with_({"group": group}))
    pipelined = [source for source in sources if source.language == "triton"]
    shared = [source for source in pipelined if source.cluster > 1]
    assert shared and pipelined[0] is shared[0] and not any(source.cluster > 1 for source in pipelined[len(shared) :])
    (ir,) = lowered.regions

    def serves(**of: int) -> bool:
        now = {128: of.get("rows", 128), 4096: of.get("inner", 4096)}
        sizes = {name: now.get(size, size) for name, size in ir.hints.items()}
        return bool(shared[0].guards.evaluate(sizes))

    assert serves() and serves(rows=256) and not serves(rows=1 << 14)
    assert serves(inner=2048) and not serves(inner=512)  # with two turns for each block


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype", "blocks"),
    [
        (128, 512, 4096, torch.float32, 8),
        (512, 512, 4096, torch.float32, 2),
        (300, 300, 30000, torch.float32, 8),
        (33, 333, 3333, torch.float32, 8),
        (777, 1111, 4097, torch.float32, 2),
        (4096, 4096, 4096, torch.float32, 1),
        (256, 256, 8192, torch.bfloat16, 8),
        (128, 1024, 8192, torch.bfloat16, 4),
        (512, 512, 4096, torch.bfloat16, 2),
        (200, 1000, 2048, torch.bfloat16, 1),
        (1024, 1024, 4096, torch.bfloat16, 1),
        (64, 64, 256, torch.bfloat16, 1),
    ],
)
def test_few_programs_share_long_sums(m: int, n: int, k: int, dtype: torch.dtype, blocks: int) -> None:
    """As many as ended first on an H100, or nearly."""
    assert product(m, n, k, dtype).default[KNOB] == blocks


@pytest.mark.parametrize(
    ("rows", "columns", "blocks"), [(8, 1 << 22, 8), (64, 1 << 16, 2), (100, 20000, 1), (1 << 16, 1 << 16, 1)]
)
def test_loops_without_products_do_so_too(rows: int, columns: int, blocks: int) -> None:
    assert kernels.row_sums.lower((torch.empty(rows, columns, device="meta"),), H200).default[KNOB] == blocks


@pytest.mark.parametrize(
    ("rows", "columns", "block", "blocks"),
    [(1 << 20, 32, 4, 8), (100_000, 256, 16, 8), (8192, 1024, 32, 4), (4096, 3000, 32, 2), (2048, 4096, 32, 1)],
)
def test_programs_sum_neighbouring_columns(rows: int, columns: int, block: int, blocks: int) -> None:
    """As many as leave programs for clusters to fill the multiprocessors with; a column alone reads whole sectors."""
    x = torch.empty(rows, columns, device="meta")
    whole, looped = (kernel.lower((x,), H200).default for kernel in (kernels.whole_columns, kernels.column_sums))
    assert (whole["block:tile_n"], whole["loop:sum#0.ctas"]) == (block, blocks)
    assert (looped["block:tile_n"], looped[KNOB]) == (block, blocks)


def test_parts_of_the_authors_own_are_enough() -> None:
    """Of a pipelined launch: blocks of warp groups put together their sums sooner than another launch does."""
    lowered = int4_matmul.lower(int4_matmul.inputs(m=16, n=8192, k=7168, device="meta"), H200)
    assert lowered.default["schedule"] == "pipelined" and lowered.default["tunable:split_k"] > 1
    assert all(choice == 1 for name, choice in lowered.default.items if name.endswith(".ctas"))


@pytest.mark.parametrize(("k", "ctas"), [(256, 8), (256, 2), (4096, 8)])
def test_a_variant_for_any_size_takes_the_call_it_was_lowered_for(k: int, ctas: int) -> None:
    """Two turns for eight blocks were chosen by a search, and its launch refused the call."""
    args = torch.empty(64, k, device="meta"), torch.empty(k, 64, device="meta")
    lowered = matmul.lower(args, H200, mode="dynamic")
    config = lowered.space.normalise(lowered.default.with_({"block:tile_k": 32, KNOB: ctas, "persistent": 0}))
    (source, *_) = lowered.emit(lowered.space.repair(config))
    assert lowered.space.is_valid(config) == (k >= 4 * 32 * ctas)
    assert source.guards.evaluate(lowered.regions[0].hints)


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        (jagged_mean, {"m": 900, "n": 512, "batch": 64}),
        (int4_matmul, {"m": 1024, "n": 4096, "k": 512}),
        (split_k_matmul, {"m": 64, "n": 512, "k": 1 << 14}),
    ],
)
def test_so_does_one_of_programs_that_a_tunable_counts_or_loops_that_only_the_device_knows(
    kernel: Kernel, sizes: dict[str, int]
) -> None:
    """Random configs with clusters: launches of 32768 blocks refused their own call. 1024 rows have too many programs
    for any."""
    lowered = kernel.lower(kernel.inputs(**sizes), H200, mode="dynamic")
    knob = next(k for k in lowered.space.knobs if k.name.startswith("loop:tile_") and k.name.endswith(".ctas"))
    rng, drawn = random.Random(7), set()
    while len(drawn) < 40:
        config = lowered.space.sample(rng).with_({knob.name: rng.choice(knob.choices)})
        drawn.add(lowered.space.normalise(lowered.space.repair(config)))
    shared = [config for config in drawn if config[knob.name] != 1]
    for config in shared:
        hints = {ir.region: ir.hints for ir in lowered.specialised_regions(config)}
        first = {source.region: source for source in reversed(lowered.emit(config))}
        for region, source in first.items():
            assert source.guards.evaluate(hints[region]), config
    assert bool(shared) == (sizes["m"] != 1024)
