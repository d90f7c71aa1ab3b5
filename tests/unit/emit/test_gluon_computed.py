"""Gluon text of products whose operand is computed: its steps, its layouts, its machine code's order."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter

import pytest
import torch
from tile_testing.gluon_text import advice, assert_has_each_step, evaluated, machine_code, role, turns_of_products
from tile_testing.kernels.computed_kernels import (
    activated,
    converted,
    every_byte,
    fp8_weights,
    int4_scaled,
    looked_up,
    meta_of,
    shifted,
    shifted_in_parts,
)

import examples.int4_matmul
from examples.int4_matmul import int4_matmul
from examples.mixed_matmul import inputs as mixed_inputs
from examples.mixed_matmul import mixed_matmul
from tileflow.api import Kernel
from tileflow.build.compile import build, compile_source
from tileflow.config import Choice
from tileflow.emit.gluon.computed_kernel import ComputedKernel
from tileflow.emit.gluon.operand_layouts import Lanes, of_operand
from tileflow.emit.source import TritonSource
from tileflow.lowered import Lowered
from tileflow.schedule.memory import BARRIER_BYTES, buffer_bytes, shared_bytes
from tileflow.schedule.types import Schedule, Take, steps_of
from tileflow.target import target

H200 = target("nvidia-h200")
# weights' columns and x's rows, which a transposed product has as rows and columns
SHARED: dict[str, Choice] = {"block:tile_n": 128, "block:tile_m": 256, "ping_pong": False}
TALL: dict[str, Choice] = {"block:tile_n": 256, "block:tile_m": 128, "ping_pong": False}
DEALT: dict[str, Choice] = {"block:tile_n": 128, "block:tile_m": 128, "ping_pong": True}
ALONE: dict[str, Choice] = {"block:tile_n": 64, "block:tile_m": 64, "consumers": 1}


@functools.cache
def int4(m: int = 1024) -> Lowered:
    return int4_matmul.lower(examples.int4_matmul.inputs(m, 1024, 1024, device="meta"), H200)


def written(lowered: Lowered, **choices: Choice) -> tuple[TritonSource, Schedule]:
    """The text, and the schedule that it was written from."""
    given: dict[str, Choice] = {
        "schedule": "warp_specialised", "num_stages": 4, "consumers": 2, "block:tile_k": 64, "block:block_k": 32,
        **choices,
    }  # fmt: skip
    known = {k.name for k in lowered.space.knobs}
    config = lowered.space.complete({n: c for n, c in given.items() if n in known})
    assert not lowered.space.violations(config), [c.reason for c in lowered.space.violations(config)]
    region, *_ = lowered.specialised_regions(config)
    kernel = ComputedKernel(region, config, H200, "all")
    return kernel.run(), kernel.specialised


@pytest.mark.parametrize("name", ["consumer", "producer"])
@pytest.mark.parametrize("choices", [SHARED, DEALT], ids=["shared", "dealt"])
def test_the_text_has_each_step_of_the_schedule_that_was_executed(choices: dict[str, Choice], name: str) -> None:
    source, schedule = written(int4(), **choices)
    text, program = role(source.text, name), getattr(schedule, name).program
    assert_has_each_step(text, program)
    moves = sum(isinstance(s, Take) for s in steps_of(program))
    assert text.count("operand = computed") == text.count("warpgroup_mma(operand, ") == moves


def test_a_turn_computes_beside_the_product_before() -> None:
    text = role(written(int4(), **SHARED)[0].text, "consumer")
    turn = text[text.index("for turn in range(start + 1") :]
    order = ["mbarrier.wait(left_full", "computed = prepare(left.index(", "mbarrier.wait(right_full",
             "sums, computed = warpgroup_mma_wait(0, [sums, computed])", "mbarrier.arrive(empty.index((turn - 1)",
             "operand = computed", "sums = warpgroup_mma(operand, right.index("]  # fmt: skip
    places = [turn.index(words) for words in order]
    assert places == sorted(places)


def test_the_authors_unpacking_is_what_a_turn_computes() -> None:
    source, _ = written(int4(), **SHARED)
    text = role(source.text, "prepare")
    assert "# y = unpacked(packed[tile_k, tile_n]).to(x.dtype)" in text and "gl.join(" in text
    assert "box.load(LANES_32_64)" in text and "gl.convert_layout(" in text and "AS_OPERAND" in text
    # x at the place that the turn computes, the result turned round
    assert re.search(r"x_desc_256x64, \[tile_m_begin, v\d+\]", role(source.text, "producer"))
    assert ".permute((1, 0)).store(result)" in role(source.text, "consumer")


def test_scales_go_by_pointers_and_masks_stay() -> None:
    text = role(written(int4_scaled.lower(meta_of(int4_scaled, m=256, n=256), H200), **SHARED)[0].text, "prepare")
    assert "scales_ptr" in text and "SliceLayout" in text
    masked = role(written(shifted.lower(meta_of(shifted, m=256, n=256, k=200), H200), **TALL)[0].text, "prepare")
    assert "tile_k_mask" in masked


# ---- layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "inner"), [(64, 16), (64, 64), (128, 32), (128, 128)])
def test_an_operands_lanes_are_every_element_once(rows: int, inner: int) -> None:
    lanes = of_operand(rows, inner)
    offsets = [*lanes.registers, *lanes.threads, *lanes.warps]
    assert sorted(offsets) == [1 << n for n in range(int(math.log2(rows * inner)))]


def test_packed_numbers_lie_in_the_thread_that_their_byte_is_read_by() -> None:
    """(64, 64) of numbers from (32, 64) of bytes: turned, taken apart, as halves of one byte."""
    bytes_ = of_operand(64, 64).permuted((1, 0)).reshaped((32, 2, 64)).permuted((0, 2, 1)).halved()
    assert bytes_ is not None and bytes_.shape == (32, 64)
    assert bytes_.places(bytes_.threads) == [[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]]
    assert [0, 8] in bytes_.places(bytes_.registers) and len(bytes_.registers) == 4


def test_a_permutation_is_undone() -> None:
    lanes = Lanes((2, 4, 8), (1, 2, 4), (8, 16), (32,))
    turned = lanes.permuted((2, 0, 1))
    assert turned.shape == (4, 8, 2) and turned.places([turned.warps[0]]) == [[0, 0, 1]]
    assert lanes.permuted((2, 0, 1)).permuted((1, 2, 0)) == lanes


def test_halves_in_different_threads_are_none() -> None:
    assert Lanes((4, 2), (2, 4), (1,), ()).halved() is None


# ---- building -----------------------------------------------------------------------------------


def check_built(source: TritonSource, schedule: Schedule, registers: int = 168) -> None:
    """No spills, and as much shared memory as was computed before."""
    binary = build(source, H200)
    assert binary.resources.spills == 0 and binary.resources.registers == registers
    assert binary.abi.threads == schedule.warps * 32
    assert buffer_bytes(schedule) <= binary.resources.shared <= shared_bytes(schedule) <= H200.smem_per_block


def check_not_serialised(source: TritonSource) -> None:
    """ptxas has no advice that it waits after each instruction of a product (C7510 to C7514)."""
    assert "serialized" not in advice(compile_source(source, H200).assembly)


def test_packed_weights_compile_ahead_of_time() -> None:
    """The operand from registers, computed before the wait for the product in front of it, products without a stop."""
    source, schedule = written(int4(), **SHARED)
    check_built(source, schedule)
    compiled = compile_source(source, H200)
    assert re.search(r"wgmma\.mma_async\.sync\.aligned\.m64n256k16\.f32\.bf16\.bf16 \{[^}]*\}, \{", compiled.assembly)
    kinds = {"LDS.U8": "compute", "HADD2.BF16_V2": "compute", "HFMA2.BF16_V2": "compute", "HGMMA": "multiply",
             "WARPGROUP.DEPBAR": "wait", "SYNCS.PHASECHK": "barrier"}  # fmt: skip
    found = re.findall("|".join(map(re.escape, kinds)), machine_code(compiled.code))
    order = [kinds[word] for n, word in enumerate(found) if not n or kinds[found[n - 1]] != kinds[word]]
    # the first turn, then the loop: the same with the wait in front of the product, and one behind it at the end
    computed = ["barrier", "compute", "barrier", "compute"]
    first, later = [*computed, "multiply"], [*computed, "wait", "multiply", "wait"]
    loops = [order[n : n + len(first + later)] for n in range(len(order))]
    assert loops.count(first + later) == 2  # once for each group


def _of_turn(lowered: Lowered, **choices: Choice) -> Counter[str]:
    """The instructions of a turn of one group."""
    loops = turns_of_products(build(written(lowered, **choices)[0], H200).code)
    turn = min((loop for loop in loops if any(word.startswith("LDS") for word in loop)), key=len)
    return Counter(word.partition(".")[0] for word in turn)


def test_a_packed_byte_takes_a_load_and_three_instructions() -> None:
    """Both its halves come out in the register that the product reads: some moves were needed for each."""
    args = examples.int4_matmul.inputs(64, 1024, 8192, device="meta")
    turn = _of_turn(int4_matmul.lower(args, H200), **ALONE, **{"block:block_k": 64})
    assert turn["HADD2"] + turn["HFMA2"] == turn["LDS"] == 32  # of 4096 bytes, of 128 threads
    assert turn["LOP3"] <= 34 and turn["PRMT"] <= 4


@pytest.mark.parametrize("number", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_pair_of_bytes_takes_five_instructions(dtype: torch.dtype, number: torch.dtype) -> None:
    """Their places, the bits of both by two, the difference, one more where there is no sign, and a move where the
    product before still reads."""
    x, y = torch.empty(64, 8192, dtype=dtype, device="meta"), torch.empty(8192, 1024, dtype=number, device="meta")
    turn = _of_turn(converted.lower((x, y), H200), **ALONE, **{"block:tile_k": 128})
    assert turn["HADD2"] + turn["HFMA2"] == (32 if number is torch.int8 else 64) and turn["LDS"] == 64
    assert turn["LOP3"] <= 66 and turn["PRMT"] <= 4 and turn["I2F"] == 0


def test_unsigned_bytes_in_words_are_converted_one_by_one_for_wide_products() -> None:
    """The instruction takes them out of the word, beside a product that takes as long."""

    def has_pairs(layout: str, number: torch.dtype, columns: int) -> bool:
        x, y = torch.empty(256, 8192, dtype=torch.bfloat16, device="meta"), every_byte(8192, 1024, number).to("meta")
        args = x, y if layout == "N" else y.T.contiguous().T
        choices: dict[str, Choice] = {**ALONE, "block:tile_m": columns, "num_stages": 2}
        return "halves(" in role(written(converted.lower(args, H200), **choices)[0].text, "prepare")

    assert not has_pairs("T", torch.uint8, 128)
    assert has_pairs("T", torch.uint8, 64) and has_pairs("N", torch.uint8, 128) and has_pairs("T", torch.int8, 128)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_byte_by_the_assembly_text(dtype: str) -> None:
    """As the machine reads it, of all bytes and pairs of them with others."""
    bytes_ = torch.arange(256)
    others = bytes_.roll(77)
    source = written(int4(64), **ALONE) if dtype == "bfloat16" else written(_in_float16(), **ALONE)
    low, high = evaluated(source[0].text, "nibbles", dtype, bytes_)
    signed = bytes_.to(torch.uint8).view(torch.int8)
    assert torch.equal(low, ((signed << 4) >> 4).to(low.dtype)) and torch.equal(high, (signed >> 4).to(low.dtype))
    for number in (torch.int8, torch.uint8):
        x, y = torch.empty(64, 512, dtype=low.dtype, device="meta"), every_byte(512, 1024, number).to("meta")
        text = written(converted.lower((x, y), H200), **ALONE)[0].text
        for out, given in zip(evaluated(text, "halves", dtype, bytes_, others), (bytes_, others), strict=True):
            assert torch.equal(out, given.to(torch.uint8).view(number).to(low.dtype))


def _in_float16() -> Lowered:
    return int4_matmul.lower(examples.int4_matmul.inputs(64, 1024, 1024, torch.float16, "meta"), H200)


@pytest.mark.slow
@pytest.mark.parametrize("choices", [TALL, DEALT], ids=["tall", "dealt"])
def test_other_tiles_compile_too(choices: dict[str, Choice]) -> None:
    source, schedule = written(int4(), **choices)
    check_built(source, schedule)
    check_not_serialised(source)


@pytest.mark.slow
def test_few_rows_split_into_parts_compile() -> None:
    split = {**DEALT, "ping_pong": False, "block:tile_m": 64, "block:block_k": 64, "tunable:split_k": 4}
    check_built(*written(int4(64), **split))
    check_built(*written(int4(64), **ALONE, num_stages=5), registers=128)


@pytest.mark.slow
def test_operands_count_where_programs_share_a_multiprocessor() -> None:
    """64 sums and 128 registers of operands are too many for two programs: 8 were spilled."""
    choices = {**ALONE, "block:tile_n": 128, "block:block_k": 64, "num_stages": 3}
    check_built(*written(int4(64), **choices), registers=248)


OTHERS = [
    pytest.param(int4_scaled, meta_of(int4_scaled, m=256, n=256), "static", id="groups"),
    pytest.param(looked_up, meta_of(looked_up, m=256, n=256), "static", id="table"),
    *(
        pytest.param(kernel, args, mode, id=f"{kernel.name.partition(':')[2]}-{mode}")
        for kernel, args in (
            (fp8_weights, meta_of(fp8_weights, m=256, n=256)),
            (mixed_matmul, mixed_inputs(256, 256, 256, device="meta")),
        )
        for mode in ("static", "dynamic")
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "args", "mode"), OTHERS)
def test_other_weights_compile_too(kernel: Kernel, args: tuple[object, ...], mode: str) -> None:
    source, schedule = written(kernel.lower(args, H200, mode=mode), **SHARED)
    check_built(source, schedule)
    check_not_serialised(source)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_parts_compile_too(mode: str) -> None:
    lowered = shifted_in_parts.lower(meta_of(shifted_in_parts, m=256, n=256, k=1000), H200, mode=mode)
    source, schedule = written(lowered, **{**TALL, "tunable:parts": 4})
    assert "tile_k_mask" in role(source.text, "prepare")
    check_built(source, schedule)
    check_not_serialised(source)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [activated, shifted], ids=["relu", "masked"])
def test_left_operands_compile_too(kernel: Kernel) -> None:
    source, schedule = written(kernel.lower(meta_of(kernel, m=256, n=256, k=200), H200), **TALL)
    check_built(source, schedule)
    check_not_serialised(source)


# ---- what a config must satisfy -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({**SHARED, "block:tile_n": 512}, "64 or 128 rows each"),
        ({**SHARED, "block:tile_m": 512}, "at most 256 columns"),
        ({**TALL, "block:block_k": 64}, "an operand and the next one"),
        ({**SHARED, "num_stages": 6}, "shared memory"),
        ({**SHARED, "num_stages": 1}, "at least 2 stages"),
    ],
)
def test_what_a_config_must_satisfy(choices: dict[str, Choice], reason: str) -> None:
    """Each is refused before anything is compiled, and repaired."""
    space = int4().space
    given = {"schedule": "warp_specialised", "num_stages": 4, "consumers": 2, "block:block_k": 32, **choices}
    config = space.complete(given)
    assert any(reason in c.reason for c in space.violations(config))
    assert space.is_valid(space.repair(config))


@pytest.mark.parametrize("choices", [SHARED, TALL, DEALT, ALONE], ids=["shared", "tall", "dealt", "alone"])
def test_the_constraint_counts_the_memory_that_the_schedule_has(choices: dict[str, Choice]) -> None:
    config = int4().space.complete({"schedule": "warp_specialised", "num_stages": 4, "consumers": 2,
                                    "block:block_k": 32, **choices})  # fmt: skip
    needed = shared_bytes(written(int4(), **choices)[1])
    constraint, *_ = (c for c in int4().space.constraints if c.name == "warp_specialised: buffers fit shared memory")
    *_, bound = constraint.check.args
    knobs = {k.name: k.encode(config[k.name]) for k in int4().space.knobs}
    assert 0 <= bound.args[0].evaluate(knobs) - needed <= BARRIER_BYTES * int(config["consumers"])


def test_blocks_are_of_sizes_that_a_config_settles() -> None:
    """A block that is a number of the module's, which slices take as well, is a guarded constant in dynamic mode."""
    lowered = int4_scaled.lower(meta_of(int4_scaled), H200, mode="dynamic")
    specialised = lowered.space.adapt({**lowered.default.to_dict(), "schedule": "warp_specialised"})
    assert specialised["schedule"] == "warp_specialised"
    for source in lowered.emit(specialised):
        assert "(64 == GROUP)" in str(source.guards) and compile_source(source, H200).code[:4] == b"\x7fELF"


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_program_goes_over_parts_of_the_inner_dimension(mode: str) -> None:
    """Also of sizes that nobody knows: each part has as many turns, zeros past the end."""
    lowered = int4_matmul.lower(examples.int4_matmul.inputs(64, 256, 1280, device="meta"), H200, mode=mode)
    source, _ = written(lowered, **{**DEALT, "ping_pong": False, "block:tile_m": 64, "tunable:split_k": 2})
    turns = {"static": "12", "dynamic": "turns"}[mode]
    assert f"for turn in range(start, start + {turns}):" in role(source.text, "producer")
