"""Gluon text of float32 products in parts: what it says, that it compiles without a GPU, that its schedule is right on
values, and what a config must satisfy."""

from __future__ import annotations

import functools
import re

import pytest
import torch
from tile_testing.gluon_text import advice, role, turns_of_products
from tile_testing.kernels.product_kernels import in_place
from tile_testing.runs.scheduled import Scheduled

from examples.matmul import matmul, matmul_epilogue
from tileflow.build.compile import build, compile_source
from tileflow.config import Choice, Config
from tileflow.emit.gluon.split_kernel import SplitKernel
from tileflow.emit.source import TritonSource
from tileflow.lowered import Lowered
from tileflow.schedule.memory import BARRIER_BYTES, buffer_bytes, shared_bytes
from tileflow.schedule.types import Multiply, Schedule, Split, Wait, steps_of
from tileflow.space.schedules import refusal
from tileflow.target import target

H200 = target("nvidia-h200")
LAYOUTS = ("NN", "NT", "TN", "TT")


def operands(layout: str, m: int, n: int, k: int, device: str = "meta") -> tuple[torch.Tensor, ...]:
    generator = None if device == "meta" else torch.Generator().manual_seed(0)

    def one(kind: str, rows: int, columns: int) -> torch.Tensor:
        sides = (rows, columns) if kind == "N" else (columns, rows)
        found = torch.randn(*sides, device=device, generator=generator)
        return found if kind == "N" else found.T

    return one(layout[0], m, k), one(layout[1], k, n)


@functools.cache
def product(layout: str = "NT", mode: str = "static", m: int = 1000, n: int = 1000, k: int = 1000) -> Lowered:
    return matmul.lower(operands(layout, m, n, k), H200, mode=mode)


def config_of(lowered: Lowered, **choices: Choice) -> Config:
    (parts,) = (k.name for k in lowered.space.knobs if k.name.endswith(".precision"))
    given: dict[str, Choice] = {
        "schedule": "warp_specialised", "block:tile_m": 128, "block:tile_n": 128, "block:tile_k": 32, "num_stages": 2,
        "consumers": 2, "ping_pong": False, parts: "tf32x3",
        **{parts if n == "parts" else n.replace("block_", "block:", 1): c for n, c in choices.items()},
    }  # fmt: skip
    return lowered.space.complete(given)


def written(lowered: Lowered, **choices: Choice) -> tuple[TritonSource, Schedule]:
    """The text, and the schedule that it was written from."""
    config = config_of(lowered, **choices)
    assert not lowered.space.violations(config)
    (ir,) = lowered.specialised_regions(config)
    kernel = SplitKernel(ir, config, H200, "all")
    return kernel.run(), kernel.specialised


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_text_has_each_step_of_the_schedule_that_was_executed(layout: str) -> None:
    source, schedule = written(product(layout))
    consumer, splitter = role(source.text, "consumer"), role(source.text, "splitter")
    assert schedule.splitter is not None
    steps = {name: list(steps_of(getattr(schedule, name).program)) for name in ("consumer", "splitter")}
    splits = [s for s in steps["splitter"] if isinstance(s, Split)]
    assert splitter.count("split_box(") + splitter.count("split_across(") == len(splits) == 3
    assert splitter.count("split_across(") == sum(s.turns for s in splits)
    assert consumer.count(" warpgroup_mma(") == sum(isinstance(s, Multiply) for s in steps["consumer"]) == 3
    for name, text in (("consumer", consumer), ("splitter", splitter)):
        assert text.count("mbarrier.wait(") == sum(isinstance(s, Wait) for s in steps[name]) == 1
    across = {"NN": (0, 1), "NT": (0, 0), "TN": (2, 1), "TT": (2, 0)}[layout]
    assert splitter.count("split_across(") == sum(across)


def test_the_splitter_says_so_once_the_matrix_units_may_read_it() -> None:
    text = role(written(product())[0].text, "splitter")
    assert text.index("split_box(left") < text.index("fence_async_shared()") < text.index("mbarrier.arrive(split")
    assert "pid" not in text  # where a tile is makes no difference to it


def test_small_sums_come_first_and_are_numbers() -> None:
    text = role(written(product())[0].text, "consumer")
    order = ["small = warpgroup_mma(left_low", "small = warpgroup_mma(left.", "large = warpgroup_mma(left.",
             "small = warpgroup_mma_wait(1, [small])", "sums = add_numbers(sums, small)",
             "large = warpgroup_mma_wait(0, [large])", "mbarrier.arrive(empty", "sums += large"]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def check_built(source: TritonSource, schedule: Schedule) -> None:
    """No spills, as much shared memory as was computed before, and products that do not wait for one another."""
    binary = build(source, H200)
    assert binary.resources.spills == 0 and binary.resources.registers == 128
    assert binary.abi.threads == schedule.warps * 32 == 512
    assert buffer_bytes(schedule) <= binary.resources.shared <= shared_bytes(schedule) <= H200.smem_per_block
    found = compile_source(source, H200)
    assert "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32" in found.assembly
    assert "serialized" not in advice(found.assembly)


@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_products_compile_ahead_of_time(layout: str) -> None:
    check_built(*written(product(layout)))


def test_a_box_is_turned_once_all_threads_have_read_it() -> None:
    """Its threads write over it what others may not have read yet, but for a barrier of the splitter's warps."""
    assembly = compile_source(written(product("NN"))[0], H200).assembly
    lines = [line.strip() for line in assembly.splitlines()]
    splitter = lines[max(n for n, line in enumerate(lines) if line.startswith("wgmma.")) :]
    loads = [n for n, line in enumerate(splitter) if re.match("ld(matrix|.shared.v).*", line)]
    stores = [n for n, line in enumerate(splitter) if line.startswith("st.shared.v4") and n > loads[-1]]
    barriers = [n for n, line in enumerate(splitter) if line.startswith("bar.sync")]
    assert any(loads[-1] < n < stores[0] for n in barriers), (loads, stores[:1], barriers)


def test_sums_that_are_no_number_are_left_out_without_a_choice() -> None:
    """An instruction less for each sum than choosing between it and zero: the matrix units wait meanwhile."""
    assembly = compile_source(written(product("NT"))[0], H200).assembly
    assert assembly.count("setp.num.f32") == 2 * 64 and "selp.f32" not in assembly  # of two groups' threads


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_default_has_as_many_stages_in_every_layout(layout: str) -> None:
    assert product(layout, "static", 4096, 4096, 4096).default["num_stages"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_products_compile_too(layout: str, mode: str) -> None:
    check_built(*written(product(layout, mode)))


@pytest.mark.slow
def test_epilogues_compile_without_spills() -> None:
    x, y = operands("NT", 1000, 1000, 1000)
    bias = torch.empty(1000, device="meta")
    lowered = matmul_epilogue.lower((x, y, lambda acc, tile_m, tile_n: torch.sigmoid(acc + bias[tile_n]) * acc), H200)
    check_built(*written(lowered))


def test_three_products_are_issued_before_one_is_waited_for() -> None:
    """In the machine code of a turn, which the assembler might order otherwise."""
    for turn in turns_of_products(build(written(product())[0], H200).code):
        kinds = ["wait" if "DEPBAR" in word else "mma" for word in turn if "GMMA" in word or "WARPGROUP.DEPBAR" in word]
        assert kinds == ["mma"] * 12 + ["wait"] * 2, turn  # of 32 numbers by 8 each, three times


@pytest.mark.parametrize("layout", LAYOUTS)
def test_variants_for_any_size_are_right(layout: str) -> None:
    """By the executor, at sizes that nothing was lowered from: one turn, a partial one, none of a second tile."""
    lowered = product(layout, "dynamic", 512, 512, 512)
    call = Scheduled(matmul, lowered, config_of(lowered), {})
    for m, n, k in ((132, 260, 36), (128, 128, 32), (260, 132, 100)):
        x, y = operands(layout, m, n, k, "cpu")
        wanted = x.double() @ y.double()
        error, plain = (float((out.double() - wanted).square().mean()) for out in (call(x, y), x @ y))
        assert error < 16 * plain + 1e-14
    assert {source.language for source in call.taken} == {"gluon"}


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"parts": "ieee"}, "three products of tf32 parts"),
        ({"parts": "bf16x6"}, "three products of tf32 parts"),
        ({"consumers": 3, "ping_pong": True, "block_tile_m": 64}, "2 share it"),
        ({"ping_pong": True, "block_tile_m": 64}, "2 share it"),
        ({"block_tile_k": 64, "block_tile_n": 32}, "32 numbers of a row"),
        ({"block_tile_m": 256, "block_tile_n": 128}, "registers for the epilogue"),
        ({"num_stages": 4}, "shared memory"),
    ],
    ids=str,
)
def test_what_a_config_must_satisfy(choices: dict[str, Choice], reason: str) -> None:
    """Each is refused before anything is compiled, and repaired."""
    space = product().space
    config = config_of(product(), **choices)
    assert any(reason in c.reason for c in space.violations(config))
    assert space.is_valid(space.repair(config))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("columns", [64, 128])
def test_the_constraint_counts_the_memory_that_the_schedule_has(layout: str, columns: int) -> None:
    it = product(layout)
    config = config_of(it, block_tile_n=columns)
    (ir,) = it.specialised_regions(config)
    kernel = SplitKernel(ir, config, H200, "all")
    kernel.run()
    (constraint,) = (c for c in it.space.constraints if c.name == "warp_specialised: buffers fit shared memory")
    *_, bound = constraint.check.args
    knobs = {k.name: k.encode(config[k.name]) for k in it.space.knobs}
    assert 0 <= bound.args[0].evaluate(knobs) - shared_bytes(kernel.specialised) <= 2 * BARRIER_BYTES


def no_schedule(lowered: Lowered) -> str:
    (ir,) = lowered.regions
    return refusal(ir, H200)


def test_what_has_no_such_schedule_is_refused_by_name() -> None:
    assert "sums over at least 256 numbers" in no_schedule(product("NN", k=128))
    written = in_place.lower((torch.empty(1000, 1001, device="meta"), torch.empty(1001, 64, device="meta")), H200)
    assert "or of copies" in no_schedule(written)  # which would be made before what is written
    torch.set_float32_matmul_precision("high")
    try:
        assert "no rounded one of tf32" in no_schedule(matmul.lower(operands("NT", 1000, 1000, 1000), H200))
    finally:
        torch.set_float32_matmul_precision("highest")
