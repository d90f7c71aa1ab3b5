"""Products whose turns the blocks of a cluster share, warp-specialised: values, text, constraints, machine code."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from tile_testing.gluon_text import role, turns_of_products
from tile_testing.runs.scheduled import Scheduled

import tileflow
import tileflow.language as tfl
from examples.matmul import matmul, matmul_epilogue
from examples.matmul_layer_norm import matmul_layer_norm
from tileflow.build.compile import build
from tileflow.config import Choice, Config
from tileflow.emit.gluon.specialised import specialised_kernel
from tileflow.emit.source import TritonSource
from tileflow.lowered import Lowered
from tileflow.schedule.memory import BARRIER_BYTES, buffer_bytes, shared_bytes
from tileflow.schedule.types import Schedule
from tileflow.target import target

H200 = target("nvidia-h200")
BF16, F32 = torch.bfloat16, torch.float32
KNOB = "loop:tile_k.ctas"
LAYOUTS = ["NN", "NT", "TN", "TT"]


def operands(layout: str, m: int, n: int, k: int, dtype: torch.dtype, device: str = "meta") -> tuple[torch.Tensor, ...]:
    generator = torch.Generator(device).manual_seed(0) if device == "cpu" else None
    args = []
    for kind, (rows, columns) in zip(layout, ((m, k), (k, n)), strict=True):
        sides = (rows, columns) if kind == "N" else (columns, rows)
        found = torch.empty(*sides, device=device)
        found = (found if generator is None else found.normal_(generator=generator)).to(dtype)
        args.append(found if kind == "N" else found.T)
    return tuple(args)


def product(
    layout: str = "NN", dtype: torch.dtype = F32, mode: str = "static", sizes: tuple[int, int, int] = (256, 256, 4096)
) -> Lowered:
    return matmul.lower(operands(layout, *sizes, dtype), H200, mode)


def config_of(lowered: Lowered, dtype: torch.dtype = F32, **choices: Choice) -> Config:
    """Four blocks of tiles of 64 x 128, unless ``choices`` say otherwise."""
    parts = {k.name: "tf32x3" for k in lowered.space.knobs if k.name.endswith(".precision")}
    own: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_m": 64, "block:tile_n": 128, "consumers": 1, "num_stages": 2,
        "ping_pong": False, "block:tile_k": 32 if dtype is F32 else 64, KNOB: 4, "group": 4, **parts,
    }  # fmt: skip
    return lowered.space.complete(own | {n.replace("block_", "block:", 1): c for n, c in choices.items() if n != "ctas"}
                                  | ({KNOB: choices["ctas"]} if "ctas" in choices else {}))  # fmt: skip


def written(lowered: Lowered, config: Config) -> tuple[TritonSource, Schedule]:
    assert not lowered.space.violations(config)
    (ir,) = lowered.specialised_regions(config)
    kernel = specialised_kernel(ir, config, H200)
    return kernel.run(), kernel.specialised


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [2, 8])
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(layout: str, dtype: torch.dtype, blocks: int) -> None:
    """By the executor of all blocks: of tiles that reach past the result, a partial last turn, blocks without one."""
    lowered = product(layout, dtype, "dynamic", (256, 256, 4096))
    call = Scheduled(matmul, lowered, config_of(lowered, dtype, ctas=blocks), {})
    for m, n, k in ((72, 136, 2056), (64, 264, 2080)):
        x, y = operands(layout, m, n, k, dtype, "cpu")
        wanted = x.double() @ y.double()
        error, plain = (float((out.double() - wanted).square().mean()) for out in (call(x, y), x @ y))
        assert error < 16 * plain + 1e-12
    assert {source.cluster for source in call.taken} == {blocks}


def test_blocks_that_have_no_turn_add_nothing() -> None:
    """Three turns for four blocks, where the sizes are known: boxes past the end are zeros."""
    x, y = operands("NT", 64, 128, 1024, F32, "cpu")
    lowered = matmul.lower((x.to("meta"), y.to("meta")), H200, "dynamic")
    call = Scheduled(matmul, lowered, config_of(lowered), {})
    call.sources = tuple(replace(s, guards=s.guards * 0 + 1) for s in call.sources if s.cluster > 1)
    kernels = list(call._kernels.values())
    call._kernels = {source.hash: kernels[0] for source in call.sources}
    x, y = operands("NT", 64, 128, 96, F32, "cpu")
    torch.testing.assert_close(call(x, y), x @ y, atol=1e-4, rtol=1e-4)


# ---- text ------------------------------------------------------------------------------------------------------------


def test_all_threads_arrive_and_givers_wait_first() -> None:
    source, schedule = written(it := product(), config_of(it))
    assert source.cluster == 4 and source.given == schedule.given == 3 * 64 * 32 * 4
    for name in ("producer", "splitter"):
        found = re.findall(r"(arrive_at|wait_for)_cluster\(\)", role(source.text, name))
        assert found == ["arrive_at", "wait_for", "arrive_at"]
    consumer = role(source.text, "consumer")
    found = re.findall(r"arrive_at_cluster|wait_for_cluster|give\(|join\(|warpgroup_mma\(", consumer)
    assert [f for f in found if f != "warpgroup_mma("] == [
        "arrive_at_cluster", "wait_for_cluster", "give(", "arrive_at_cluster", "wait_for_cluster", "join(",
    ]  # fmt: skip
    assert found.index("wait_for_cluster") > found.index("warpgroup_mma(")
    assert "], [4, 4], [" in source.text  # the producer is a whole warp group: the compiler's idle warps never arrive


def test_two_groups_count_turns_once_a_warp() -> None:
    """An exchange that asked for the thread's number by %tid made every lane of both groups count, and 16 moves a turn
    of each slot's number to where a warp has one."""
    lowered = product(dtype=BF16, sizes=(512, 512, 8192))
    choices: dict[str, Choice] = {"block_tile_m": 128, "block_tile_n": 128, "consumers": 2}
    source, _ = written(lowered, config_of(lowered, BF16, **choices))
    assert "%tid" not in source.text
    loops = sorted(turns_of_products(build(source, H200).code), key=len)[:2]  # of the two groups
    assert all(word.partition(".")[0] != "R2UR" for loop in loops for word in loop)
    assert all(sum(word.startswith("HGMMA") for word in loop) == 4 for loop in loops)


def test_threads_are_numbered_as_a_products_result_has_them() -> None:
    """As the layout has them that Triton makes of it, over 64 and over 128 rows."""
    for rows in (64, 128):
        row, column = torch.arange(rows)[:, None], torch.arange(32)[None, :]
        threads = row % 64 // 16 * 32 + row % 8 * 4 + column % 8 // 2
        counts = threads.flatten().bincount()
        assert counts.tolist() == [rows * 32 // 128] * 128
        # registers of a thread: pairs of neighbours, 8 rows apart, then 8 columns apart, then 64 rows
        mine = (threads == 37).nonzero().tolist()
        first = mine[0]
        assert mine[:2] == [first, [first[0], first[1] + 1]] and [first[0] + 8, first[1]] in mine


def test_each_block_has_turns_and_columns_of_its_own() -> None:
    text = written(it := product(sizes=(128, 512, 4096)), config_of(it))[0].text
    assert "tile_k_begin = (turn * 4 + cta) * BLOCK_TILE_K" in role(text, "producer")
    assert "for turn in range(0, 32):" in role(text, "producer")  # 128 of all four
    assert "tile_n_begin + cta * 32]" in role(text, "consumer") and "pid = tl.program_id(0) // 4" in text


def test_what_a_block_is_given_is_counted() -> None:
    """Three other blocks of four give 32 columns of 64 rows each; the binary has them behind Triton's memory."""
    source, schedule = written(it := product(), config_of(it))
    binary = build(source, H200)
    alone = build(replace(source, given=0), H200).abi.shared
    assert binary.abi.shared == -(-alone // 16) * 16 + source.given and binary.abi.cluster == (4, 1, 1)
    assert buffer_bytes(schedule) + schedule.given <= binary.abi.shared <= shared_bytes(schedule)
    assert source.hash != replace(source, given=0).hash


@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_the_constraint_counts_what_is_given(blocks: int, dtype: torch.dtype) -> None:
    it = product(dtype=dtype)
    config = config_of(it, dtype, ctas=blocks)
    _, schedule = written(it, config)
    (constraint,) = (c for c in it.space.constraints if c.name == "warp_specialised: buffers fit shared memory")
    *_, bound = constraint.check.args
    knobs = {k.name: k.encode(config[k.name]) for k in it.space.knobs}
    assert 0 <= bound.args[0].evaluate(knobs) - shared_bytes(schedule) <= 2 * BARRIER_BYTES


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"ping_pong": True, "consumers": 2, "block_tile_m": 128}, "a cluster has one tile"),
        ({"block_tile_n": 16}, "8 columns of the tile at least"),
        ({"block_tile_m": 128, "block_tile_n": 128}, "at most 8192 sums"),
        ({"block_tile_m": 128, "consumers": 2, "num_stages": 6, "ctas": 8}, "shared memory"),
    ],
    ids=str,
)
def test_what_a_config_must_satisfy(choices: dict[str, Choice], reason: str) -> None:
    it = product(dtype=BF16)
    config = config_of(it, BF16, **choices)
    assert any(reason in broken.reason for broken in it.space.violations(config))
    assert it.space.is_valid(it.space.repair(config))


def test_a_piece_of_bytes_has_rows_of_a_box() -> None:
    """Eight columns of fp8 are 8 bytes, of which the driver encodes no tensor map."""
    x, y = operands("NT", 256, 256, 4096, torch.float8_e4m3fn)
    it = matmul.lower((x, y), H200)
    chosen = {"block_tile_k": 128, "block_tile_n": 64}
    assert it.space.is_valid(config_of(it, BF16, **chosen))
    broken = it.space.violations(config_of(it, BF16, **chosen, ctas=8))
    assert any("16 columns of the tile at least" in constraint.reason for constraint in broken)


def test_whole_rows_are_of_one_block() -> None:
    """An epilogue that looks at a row has all its columns: the knob is the pipelined schedule's there."""
    args = [torch.empty(*s, dtype=BF16, device="meta") for s in ((256, 1024), (1024, 128), (128,), (128,))]
    it = matmul_layer_norm.lower(tuple(args), H200)
    knob = next(k.name for k in it.space.knobs if k.name.endswith(".ctas") and "tile_k" in k.name)
    config = it.space.normalise(it.space.complete({"schedule": "warp_specialised", knob: 4}))
    assert config["schedule"] == "warp_specialised" and config[knob] == 1


@tileflow.kernel
def counted(x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
        rows[tile_m] = rows[tile_m] + 1.0
    return out


@pytest.mark.parametrize("tile", [(128, 128, 2), (64, 128, 1)], ids=str)
@pytest.mark.parametrize("blocks", [1, 4])
def test_what_is_written_of_rows_is_written_once(tile: tuple[int, int, int], blocks: int) -> None:
    """Each of two pieces, and each of four blocks, added 1 to the rows of its tile."""
    rows, columns, groups = tile
    args = [torch.empty(*s, device="meta") for s in ((rows, 4096), (4096, columns), (rows,))]
    lowered = counted.lower(tuple(args), H200, "dynamic")
    chosen = config_of(lowered, block_tile_m=rows, block_tile_n=columns, consumers=groups, ctas=blocks)
    config = lowered.space.normalise(chosen)
    assert config["schedule"] == "warp_specialised" and config[KNOB] == 1
    call, count = Scheduled(counted, lowered, config, {}), torch.zeros(rows)
    x, y = operands("NN", rows, columns, 2048, F32, "cpu")
    torch.testing.assert_close(call(x, y, count), x @ y, atol=1e-3, rtol=1e-4)
    assert count.unique().tolist() == [1.0] and {source.language for source in call.taken} == {"gluon"}


# ---- machine code ----------------------------------------------------------------------------------------------------


def check_built(source: TritonSource) -> None:
    """Nothing is spilled, or, by the assembler of Triton 3.7.1, two registers outside of the turns."""
    binary = build(source, H200)
    assert binary.resources.spills <= 8
    turns = turns_of_products(binary.code)
    assert turns and not any(word.startswith(("LDL", "STL")) for turn in turns for word in turn)


@pytest.mark.parametrize(("dtype", "tile"), [(F32, (128, 128, 2)), (BF16, (128, 64, 2))], ids=str)
def test_they_compile_without_spills(dtype: torch.dtype, tile: tuple[int, int, int]) -> None:
    rows, columns, groups = tile
    it = product("NT", dtype, "dynamic")
    source, _ = written(it, config_of(it, dtype, block_tile_m=rows, block_tile_n=columns, consumers=groups, ctas=8))
    check_built(source)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [2, 4, 8])
@pytest.mark.parametrize("tile", [(128, 128, 2), (64, 128, 1), (64, 64, 1)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
def test_others_compile_too(dtype: torch.dtype, layout: str, tile: tuple[int, int, int], blocks: int) -> None:
    rows, columns, groups = tile
    it = product(layout, dtype)
    config = config_of(it, dtype, block_tile_m=rows, block_tile_n=columns, consumers=groups, ctas=blocks)
    if it.space.violations(config):
        pytest.skip("does not fit shared memory")
    check_built(written(it, config)[0])


@pytest.mark.slow
def test_an_epilogue_compiles_too() -> None:
    x, y = operands("NT", 256, 256, 4096, F32)
    bias = torch.empty(256, device="meta")
    it = matmul_epilogue.lower((x, y, lambda acc, tile_m, tile_n: torch.sigmoid(acc + bias[tile_n]) * acc), H200)
    check_built(written(it, config_of(it))[0])
