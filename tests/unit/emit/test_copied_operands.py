"""Products of operands whose rows begin at any element: boxes of copies that a launch makes, and results whose rows no
box writes."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
import torch
from tile_testing.gluon_text import role
from tile_testing.kernels import joint_kernels as joint
from tile_testing.runs.scheduled import COPIED, Scheduled

import tileflow
import tileflow.language as tfl
from examples.matmul import matmul, matmul_epilogue
from tileflow.api import Kernel
from tileflow.build.compile import build
from tileflow.config import Choice, Config
from tileflow.emit.gluon.specialised import specialised_kernel
from tileflow.emit.source import TritonSource
from tileflow.lowered import Lowered
from tileflow.runtime.aligned_copy import aligned_copy
from tileflow.schedule.memory import BARRIER_BYTES, buffer_bytes, shared_bytes
from tileflow.schedule.single import Single, find_single
from tileflow.schedule.types import Schedule
from tileflow.target import target

H200 = target("nvidia-h200")
LAYOUTS = ("NN", "NT", "TN", "TT")
BF16, F32 = torch.bfloat16, torch.float32


def operands(
    layout: str, m: int, n: int, k: int, dtype: torch.dtype = BF16, device: str = "meta"
) -> tuple[torch.Tensor, ...]:
    generator = None if device == "meta" else torch.Generator().manual_seed(0)

    def one(kind: str, rows: int, columns: int) -> torch.Tensor:
        sides = (rows, columns) if kind == "N" else (columns, rows)
        found = torch.randn(*sides, dtype=dtype, device=device, generator=generator)
        return found if kind == "N" else found.T

    return one(layout[0], m, k), one(layout[1], k, n)


@functools.cache
def product(
    layout: str = "NN", dtype: torch.dtype = BF16, mode: str = "static", sizes: tuple[int, int, int] = (1001, 1003, 777)
) -> Lowered:
    return matmul.lower(operands(layout, *sizes, dtype), H200, mode)


def config_of(lowered: Lowered, dtype: torch.dtype = BF16, **choices: Choice) -> Config:
    own: dict[str, Choice] = {"block:tile_m": 128, "block:tile_n": 128, "consumers": 2, "group": 4}
    if dtype is F32:
        parts = {k.name: "tf32x3" for k in lowered.space.knobs if k.name.endswith(".precision")}
        own |= {"block:tile_k": 32, "num_stages": 2, "ping_pong": False, **parts}
    else:
        own |= {"block:tile_k": 64, "num_stages": 4, "ping_pong": True}
    renamed = {name.replace("block_", "block:", 1): choice for name, choice in choices.items()}
    return lowered.space.complete({"schedule": "warp_specialised"} | own | renamed)


def written(lowered: Lowered, config: Config) -> tuple[TritonSource, Schedule]:
    assert not lowered.space.violations(config)
    (ir,) = lowered.specialised_regions(config)
    kernel = specialised_kernel(ir, config, H200, "all")
    return kernel.run(), kernel.specialised


def found_in(lowered: Lowered) -> Single:
    (ir,) = lowered.regions
    found = find_single(ir)
    assert isinstance(found, Single), found
    return found


def pointers_of(source: TritonSource) -> set[str]:
    return {a.path for a in source.args if a.kind == "tensor"}


def copies_of(source: TritonSource) -> dict[str, tuple[int, ...]]:
    return {a.path: a.tensor_map.copied for a in source.args if a.tensor_map is not None and a.path != "out"}


# ---- which are copied ------------------------------------------------------------------------------------------------


@tileflow.kernel
def batched(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), x.size(1), y.size(2), dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in tfl.tile(out.shape, block_size=[1, None, None]):
        batch = tile_b.begin
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(2)):
            acc = torch.addmm(acc, x[batch, tile_m, tile_k], y[batch, tile_k, tile_n])
        out[batch, tile_m, tile_n] = acc
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(("layout", "orders"), [("NN", ((0, 1), (0, 1))), ("TT", ((1, 0), (1, 0)))])
def test_rows_that_begin_at_any_element(layout: str, orders: tuple[tuple[int, ...], ...], mode: str) -> None:
    source, _ = written(it := product(layout, mode=mode), config_of(it))
    assert copies_of(source) == dict(zip("xy", orders, strict=True))
    assert "%" not in str(source.guards)  # of strides nothing is assumed


def test_one_of_two() -> None:
    x, y = torch.empty(1000, 1024, dtype=BF16, device="meta"), torch.empty(1024, 999, dtype=BF16, device="meta")
    source, _ = written(it := matmul.lower((x, y), H200), config_of(it))
    assert copies_of(source) == {"x": (), "y": (0, 1)}


def test_neighbours_that_lie_apart_and_an_address_that_is_not_aligned() -> None:
    apart = torch.empty(1000, 2048, dtype=BF16, device="meta")[:, ::2]
    aside = torch.empty(1024 * 1000 + 1, dtype=BF16, device="meta")[1:].view(1024, 1000)
    source, _ = written(it := matmul.lower((apart, aside), H200), config_of(it))
    assert copies_of(source) == {"x": (0, 1), "y": (0, 1)}


def test_batches_are_copied_whole() -> None:
    args = tuple(torch.empty(3, a, b, dtype=BF16, device="meta") for a, b in ((300, 257), (257, 301)))
    source, _ = written(it := batched.lower(args, H200), config_of(it))
    assert copies_of(source) == {"x": (0, 1, 2), "y": (0, 1, 2)}


def test_two_right_operands_beside_each_other() -> None:
    args = tuple(torch.empty(300, 257, dtype=BF16, device="meta") for _ in range(3))
    assert len(found_in(joint.once.lower(args, H200)).copied) == 3


def test_a_script_copies_as_a_launch_does() -> None:
    x, y = (torch.empty(*s, dtype=BF16, device="meta") for s in ((1001, 777), (777, 1024)))
    script = matmul.repro(x, y)
    assert "_aligned_copy(x, (0, 1))" in script and "_aligned_copy(y" not in script  # whose rows begin aligned
    text = script[script.index("def _aligned_copy") :].split("\n\n\n")[0]
    defined: dict[str, Any] = {}
    exec(compile(text, "<script>", "exec"), defined)
    given = torch.randn(5, 7)
    for order in ((0, 1), (1, 0)):
        copy = defined["_aligned_copy"](given, order)
        assert torch.equal(copy, given.permute(order)) and copy.stride() == aligned_copy(given, order).stride()
    assert "_aligned_copy" not in matmul.repro(*operands("NN", 4224, 4352, 4096))


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_variants_for_any_size_are_right(layout: str, dtype: torch.dtype) -> None:
    """By the executor, at sizes that nothing was lowered from."""
    lowered = product(layout, dtype, "dynamic", (515, 517, 519))
    call = Scheduled(matmul, lowered, config_of(lowered, dtype), {})
    for m, n, k in ((131, 259, 37), (129, 127, 33), (259, 133, 101)):
        x, y = operands(layout, m, n, k, dtype, "cpu")
        torch.testing.assert_close(call(x, y), x @ y, atol=2e-1 if dtype is BF16 else 1e-4, rtol=2e-2)
    assert {source.language for source in call.taken} == {"gluon"}
    assert all(all(copies_of(source).values()) for source in call.taken)


@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_example_with_boxes_has_a_variant_of_copies(layout: str, dtype: torch.dtype) -> None:
    """It takes any rows, and is right on them; which calls it takes, its guard says."""
    lowered = product(layout, dtype, "dynamic", (512, 512, 512))
    config = config_of(lowered, dtype)
    call = Scheduled(matmul, lowered, config, {})
    call.sources = lowered.emit(config, (COPIED,))
    for m, n, k in ((131, 259, 37), (128, 128, 64)):
        x, y = operands(layout, m, n, k, dtype, "cpu")
        torch.testing.assert_close(call(x, y), x @ y, atol=2e-1 if dtype is BF16 else 1e-4, rtol=2e-2)
    assert all(all(copies_of(source).values()) and "out" in pointers_of(source) for source in call.taken)


@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("example", [(4096, 4096, 4096), (4097, 1111, 777)])
def test_which_calls_it_takes(example: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Those of rows that begin at any element, if they are large enough; boxes of the tensors go before."""
    call = Scheduled(matmul, lowered := product("NN", dtype, "dynamic", example), lowered.default, {})

    def taken(*sizes: int) -> tuple[str, bool]:
        x, y = operands("NN", *sizes, dtype)
        out = torch.empty(sizes[0], sizes[1], dtype=dtype, device="meta")
        frame = {"x": x, "y": y, "out": out, "m": sizes[0], "n": sizes[1], "k": sizes[2], "k2": sizes[2]}
        source = call.first(0, frame, (0, 0), sizes[:2])
        return source.language, bool(copies_of(source)) and all(copies_of(source).values())

    assert taken(4097, 1111, 777) == taken(8191, 1023, 1023) == taken(2049, 2049, 2049) == ("gluon", True)
    assert taken(129, 65, 257)[0] == taken(33, 8191, 8191)[0] == taken(8191, 1, 8191)[0] == "triton"
    if example == (4096, 4096, 4096):
        assert not taken(1024, 2048, 512)[1]


@pytest.mark.parametrize(("dtype", "sizes"), [(F32, (1000, 1000, 1000)), (F32, (4096, 4096, 4096))], ids=str)
def test_each_call_has_the_tile_that_ends_sooner(dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    """One of the example's alone was at 0.6 times the other's speed: 71 us for 1001^3 of float32 in place of 50. Where
    tiles are few blocks of clusters share them."""
    call = Scheduled(matmul, lowered := product("NN", dtype, "dynamic", sizes), lowered.default, {})

    def way(*sizes: int) -> tuple[int, ...]:
        x, y = operands("NN", *sizes, dtype)
        out = torch.empty(sizes[0], sizes[1], dtype=dtype, device="meta")
        frame = {"x": x, "y": y, "out": out, "m": sizes[0], "n": sizes[1], "k": sizes[2], "k2": sizes[2]}
        source = call.first(0, frame, (0, 0), sizes[:2])
        found = re.findall(r"BLOCK_TILE_[MN] = gl.constexpr\((\d+)\)", source.text)
        assert len(found) == 2, (sizes, source.text)
        return int(found[0]), int(found[1]), source.cluster

    assert lowered.default["schedule"] == "warp_specialised"
    assert way(1001, 1001, 1001) == (64, 128, 1) and way(2047, 2047, 1025) == (128, 128, 1)
    assert way(1024, 1024, 2048)[:2] in ((64, 128), (128, 128)) and way(4096, 8192, 512) == (128, 128, 1)
    assert way(128, 512, 4096) == (64, 128, 8) and way(301, 513, 4097) == (64, 128, 4)
    assert way(512, 1000, 1024)[2] == 2 and way(128, 512, 260)[2] in (1, 2)  # which has few turns


# ---- what is stored --------------------------------------------------------------------------------------------------


def test_results_in_rows_that_begin_at_any_element_are_stored_row_by_row() -> None:
    """Of a product's layout each warp wrote a few numbers of eight rows: 51 us in place of 25 for 4097 x 1111 x 777."""
    text = written(product(), config_of(product()))[0].text
    store = role(text, "store_rows_0")
    assert "gl.convert_layout(v0, BY_ROWS)" in store and "store_rows_0(" in role(text, "finish")
    assert "BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])" in text
    even = written(it := product(sizes=(1001, 1000, 777)), config_of(it))[0].text
    assert "BY_ROWS" not in even and "tma.async_copy_shared_to_global" in even


@tileflow.kernel
def by_columns(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(y.size(1), x.size(0), dtype=x.dtype, device=x.device).T
    for tile_m, tile_n in tfl.tile(out.shape):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


def test_a_result_by_columns() -> None:
    it = by_columns.lower(operands("NN", 1001, 1003, 777), H200)
    text = written(it, config_of(it))[0].text
    assert "BY_COLUMNS = gl.constexpr(gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1]))" in text


@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("columns", [64, 128])
def test_the_constraint_counts_what_lanes_exchange(columns: int, dtype: torch.dtype) -> None:
    it = product(dtype=dtype)
    config = config_of(it, dtype, block_tile_n=columns)
    _, schedule = written(it, config)
    (constraint,) = (c for c in it.space.constraints if c.name == "warp_specialised: buffers fit shared memory")
    *_, bound = constraint.check.args
    knobs = {k.name: k.encode(config[k.name]) for k in it.space.knobs}
    assert schedule.scratch and 0 <= bound.args[0].evaluate(knobs) - shared_bytes(schedule) <= 2 * BARRIER_BYTES


# ---- machine code ----------------------------------------------------------------------------------------------------


def check_built(lowered: Lowered, config: Config) -> None:
    source, schedule = written(lowered, config)
    found = build(source, H200).resources
    assert found.spills == 0 and buffer_bytes(schedule) <= found.shared <= shared_bytes(schedule) <= H200.smem_per_block


def test_it_compiles_ahead_of_time() -> None:
    check_built(it := product(), config_of(it))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_products_compile_too(layout: str, dtype: torch.dtype, mode: str) -> None:
    check_built(it := product(layout, dtype, mode), config_of(it, dtype))


@pytest.mark.slow
def test_epilogues_compile_too() -> None:
    x, y = operands("NT", 1001, 1003, 777)
    bias = torch.empty(1003, device="meta")
    it = matmul_epilogue.lower((x, y, lambda acc, tile_m, tile_n: torch.sigmoid(acc + bias[tile_n]) * acc), H200)
    check_built(it, config_of(it, block_tile_n=256, ping_pong=False, num_stages=3))


# ---- defaults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(
    ("dtype", "sizes", "is_copied"),
    [
        (BF16, (4097, 1111, 777), True),
        (BF16, (1001, 1001, 1001), True),
        (BF16, (8191, 1023, 1023), True),
        (BF16, (513, 513, 4097), True),
        (BF16, (300, 301, 3001), True),  # few tiles: blocks of clusters share their turns
        (BF16, (300, 300, 30000), False),  # rows at multiples of 8 bytes go several elements at a time
        (BF16, (33, 333, 3333), False),  # few rows
        (BF16, (129, 65, 257), False),  # copies take as long as the product
        (BF16, (33, 8191, 8191), False),  # few rows: the right operand is read once
        (BF16, (8191, 1, 8191), False),
        (F32, (4097, 1111, 777), True),
        (F32, (2049, 2049, 2049), True),
        (F32, (513, 513, 4097), True),
        (F32, (129, 4097, 4097), True),
        (F32, (8191, 8191, 129), False),  # short sums have larger errors so
    ],
    ids=str,
)
def test_the_default_copies_what_is_worth_it(
    dtype: torch.dtype, sizes: tuple[int, int, int], is_copied: bool, mode: str
) -> None:
    it = product("NN", dtype, mode, sizes)
    assert (it.default.to_dict().get("schedule") == "warp_specialised") is is_copied
    if is_copied:
        (source, *_) = it.emit(it.default)
        assert all(copies_of(source).values())


def test_a_slice_of_much_is_not_copied_with_the_rest() -> None:
    """What is copied is the tensor, of which the product reads a part."""

    @tileflow.kernel
    def of_layer(x: torch.Tensor, weights: torch.Tensor, layer: int) -> torch.Tensor:
        out = torch.empty(x.size(0), weights.size(2), dtype=x.dtype, device=x.device)
        for tile_m, tile_n in tfl.tile(out.shape):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tile_m, tile_k], weights[layer, tile_k, tile_n])
            out[tile_m, tile_n] = acc
        return out

    def default(layers: int) -> Choice:
        args: tuple[Any, ...] = (
            torch.empty(1001, 1001, dtype=BF16, device="meta"),
            torch.empty(layers, 1001, 1001, dtype=BF16, device="meta"),
            0,
        )
        return of_layer.lower(args, H200).default["schedule"]

    assert default(1) == "warp_specialised" and default(32) == "pipelined"


def test_much_memory_is_not_copied_unasked() -> None:
    """Up to a 32nd of the device's: 4 GB of an H200's."""
    default = [product("NN", BF16, mode, (40_001, 8193, k)).default["schedule"]
               for mode in ("static", "dynamic") for k in (32_769, 98_305)]  # fmt: skip
    assert default == ["warp_specialised", "pipelined"] * 2


@pytest.mark.parametrize("subject", [matmul, by_columns], ids=["rows", "columns"])
def test_the_defaults_spill_nothing(subject: Kernel) -> None:
    it = subject.lower(operands("NN", 4097, 1111, 777), H200)
    assert it.default["schedule"] == "warp_specialised"
    (source,) = it.emit(it.default)
    assert build(source, H200).resources.spills == 0
