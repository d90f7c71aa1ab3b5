"""One product whose left operand is computed: found on either side, run as a schedule on values, refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels.computed_kernels import (
    REFUSED,
    activated,
    fp8_weights,
    inputs_of,
    int4_scaled,
    looked_up,
    meta_of,
    shifted,
    shifted_in_parts,
)

import examples.int4_matmul
from examples.int4_matmul import int4_matmul
from examples.matmul import matmul
from tileflow.api import Kernel
from tileflow.config import Choice
from tileflow.emit.gluon.computed_kernel import ComputedKernel
from tileflow.explain import explain
from tileflow.lowered import Lowered
from tileflow.schedule.chained import Refusal
from tileflow.schedule.computed import Computed, find_computed
from tileflow.schedule.evaluate_computed import ComputedProgram
from tileflow.schedule.evaluate_product import program_tiles
from tileflow.schedule.execute import NASTY, NASTY_BLOCKS, at_random, execute, execute_cluster
from tileflow.schedule.structure import find_structure
from tileflow.target import target

H200 = target("nvidia-h200")
# rows of the weights, which are the product's after it is transposed, by rows of x, and stages
SHARED: dict[str, Choice] = {"block:tile_n": 128, "block:tile_m": 64, "ping_pong": False}
DEALT: dict[str, Choice] = {"block:tile_n": 64, "block:tile_m": 64, "ping_pong": True}


def specialised(lowered: Lowered, **choices: Choice) -> ComputedKernel:
    """The kernel of a config, with its schedule."""
    given: dict[str, Choice] = {
        "schedule": "warp_specialised", "num_stages": 2, "consumers": 2, "block:tile_k": 64, "block:block_k": 32,
        **choices,
    }  # fmt: skip
    known = {k.name for k in lowered.space.knobs}
    config = lowered.space.complete({n: c for n, c in given.items() if n in known})
    assert not lowered.space.violations(config), [c.reason for c in lowered.space.violations(config)]
    region, *_ = lowered.specialised_regions(config)
    kernel = ComputedKernel(region, config, H200, "all")
    kernel.run()
    return kernel


def run(kernel: Kernel, args: tuple[Any, ...], names: str, out: torch.Tensor, programs: int = 2, mode: str = "static",
        **choices: Choice) -> None:  # fmt: skip
    """Every program of a call, each under another interleaving."""
    meta = tuple(a.to("meta") for a in args)
    made = specialised(kernel.lower(meta, H200, mode=mode), **choices)
    ir, found = made.plan.ir, made.computed
    tensors = {**dict(zip(names.split(), args, strict=True)), "sums" if out.dim() == 3 else "out": out}
    known = {**ir.hints, **made.plan.numbers}
    counts = [(t.name, t.end.evaluate(known), made.plan.block(t.block)) for t in (ir.tiles[name] for name in ir.grid)]
    if (blocks := made.plan.cluster) > 1:
        for number, tile in enumerate(program_tiles(counts, 0, 1)):
            given = (ir, found, made.plan.config, tensors, {}, [tile], made.scheduled, False, {})
            bodies = [ComputedProgram(*given, block) for block in range(blocks)]
            nasty = list(NASTY_BLOCKS.values())
            choose = nasty[number // 2 % len(nasty)] if number % 2 else at_random(number)
            execute_cluster(made.specialised, bodies, bodies[0].turns, choose)
        return
    nasty = list(NASTY.values())
    for number in range(programs):
        tiles = program_tiles(counts, number, programs)
        body = ComputedProgram(ir, found, made.plan.config, tensors, {}, tiles, made.scheduled, made.is_dealt)
        choose = nasty[(3 * number + made.is_dealt) % len(nasty)] if number else at_random(number)
        execute(made.specialised, body, body.turns, choose, len(tiles))


def close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(got.float(), wanted.float(), atol=1e-1, rtol=3e-2)


@pytest.mark.parametrize("choices", [SHARED, DEALT], ids=["shared", "dealt"])
def test_the_gallerys_packed_weights(choices: dict[str, Choice]) -> None:
    """Its weights are the right operand, its loop is one part of one, and x is read at a place that a turn computes."""
    torch.manual_seed(0)
    x, packed = examples.int4_matmul.inputs(72, 144, 320)
    out = torch.zeros(1, 72, 144, dtype=torch.bfloat16)
    run(int4_matmul, (x / 4, packed), "x packed", out, **choices)
    close(out[0], examples.int4_matmul.reference(x.float() / 4, packed))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(("k", "parts"), [(1024, 2), (1280, 2), (320, 4)])
def test_parts_of_the_inner_dimension_have_tiles_of_their_own(k: int, parts: int, mode: str) -> None:
    """Each part's sums are stored, which a second launch adds up. Of 640 bytes a column parts have 384 and 256; of 160
    three of four parts of 128 end early or lie past the end: all have as many turns, with zeros."""
    torch.manual_seed(0)
    x, packed = examples.int4_matmul.inputs(16, 144, k)
    out = torch.full((parts, 16, 144), torch.nan)
    choices = {**SHARED, "block:tile_m": 16, "block:block_k": 64, "tunable:split_k": parts}
    run(int4_matmul, (x / 4, packed), "x packed", out, mode=mode, **choices)
    close(out.sum(0), examples.int4_matmul.reference(x.float() / 4, packed))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_past_the_end_of_a_part_an_operand_is_masked(mode: str) -> None:
    """Its numbers there would be 1, and 0 is what the other operand's box has: of 200 columns in four parts of 64 the
    last one has 8."""
    torch.manual_seed(0)
    args = inputs_of(shifted_in_parts, k=200)
    out = torch.full((4, 72, 144), torch.nan)
    choices: dict[str, Choice] = {"block:tile_m": 128, "block:tile_n": 64, "ping_pong": False, "tunable:parts": 4}
    run(shifted_in_parts, args, "x y", out, mode=mode, **choices)
    close(out.sum(0), shifted_in_parts.reference(*args))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(("k", "parts", "blocks"), [(1024, 1, 2), (1280, 1, 4), (320, 1, 8), (1024, 2, 2)])
def test_blocks_of_a_cluster_share_the_turns_of_a_part(k: int, parts: int, blocks: int, mode: str) -> None:
    """Of one part the turns need not come out even, and some blocks may have none: past its end there are zeros."""
    torch.manual_seed(0)
    x, packed = examples.int4_matmul.inputs(64, 144, k)
    out = torch.full((parts, 64, 144), torch.nan, dtype=torch.bfloat16 if parts == 1 else torch.float32)
    choices: dict[str, Choice] = {
        **SHARED, "block:tile_m": 64, "block:block_k": 64, "tunable:split_k": parts, "loop:tile_k.ctas": blocks,
    }  # fmt: skip
    run(int4_matmul, (x / 4, packed), "x packed", out, mode=mode, **choices)
    close(out.float().sum(0), examples.int4_matmul.reference(x.float() / 4, packed))


@pytest.mark.parametrize("kernel", [activated, shifted], ids=["relu", "masked"])
def test_blocks_share_the_turns_of_a_left_operand_that_is_computed(kernel: Kernel) -> None:
    """Each masks the turns that it has: of 200 columns in turns of 32 the sixth block's second turn has none."""
    torch.manual_seed(0)
    args = inputs_of(kernel, k=200)
    out = torch.zeros(72, 144, dtype=torch.bfloat16)
    choices: dict[str, Choice] = {"block:tile_m": 128, "block:tile_n": 64, "block:tile_k": 32, "ping_pong": False}
    run(kernel, args, "x y", out, **choices, **{"loop:tile_k.ctas": 8})
    close(out, kernel.reference(*args))


def test_turns_of_a_clusters_blocks_divide_a_part() -> None:
    """Or a block would sum what the next part does: 3 turns of 128 bytes, of two blocks."""
    x, packed = examples.int4_matmul.inputs(64, 256, 1536, device="meta")
    lowered = int4_matmul.lower((x, packed), H200)
    chosen: dict[str, Choice] = {
        **SHARED, "schedule": "warp_specialised", "block:block_k": 128, "num_stages": 2, "tunable:split_k": 2,
    }  # fmt: skip
    alone, two = (lowered.space.complete({**chosen, "loop:tile_k.ctas": n}) for n in (1, 2))
    assert not lowered.space.violations(alone)
    assert ["turns divide a part" in c.reason for c in lowered.space.violations(two)] == [True]


@pytest.mark.parametrize("choices", [SHARED, DEALT], ids=["shared", "dealt"])
@pytest.mark.parametrize(
    ("kernel", "names"),
    [(int4_scaled, "x packed scales"), (looked_up, "x packed scales table"), (fp8_weights, "x y scale bias")],
    ids=["groups", "table", "columns"],
)
def test_scales_of_weights_and_epilogues_behind_a_transposed_product(
    kernel: Kernel, names: str, choices: dict[str, Choice]
) -> None:
    torch.manual_seed(0)
    args = inputs_of(kernel)
    out = torch.zeros(72, 144, dtype=torch.bfloat16)
    run(kernel, args, names, out, **choices)
    close(out, kernel.reference(*args))


@pytest.mark.parametrize("kernel", [activated, shifted], ids=["relu", "masked"])
def test_a_left_operand_is_computed_where_it_is(kernel: Kernel) -> None:
    """Of 200 columns in turns of 64: what is computed past the end is no part of the sums."""
    torch.manual_seed(0)
    args = inputs_of(kernel, k=200)
    out = torch.zeros(72, 144, dtype=torch.bfloat16)
    run(kernel, args, "x y", out, **{"block:tile_m": 128, "block:tile_n": 64, "ping_pong": False})
    close(out, kernel.reference(*args))


def test_what_is_found_of_either_side() -> None:
    lowered = int4_matmul.lower(examples.int4_matmul.inputs(128, 256, 512, device="meta"), H200)
    found = find_structure(lowered.regions[0])
    assert isinstance(found, Computed) and found.turned and found.rows == "tile_n"
    assert found.left.output.type.dtype == "int8" and found.right_start is not None
    left = find_structure(activated.lower(meta_of(activated), H200).regions[0])
    assert isinstance(left, Computed) and not left.turned and left.rows == "tile_m"
    plain = matmul.lower(meta_of(activated), H200).regions[0]
    assert not isinstance(find_structure(plain), Computed)


@pytest.mark.parametrize("reason", sorted(REFUSED))
def test_what_has_no_such_schedule_is_refused_by_name(reason: str) -> None:
    lowered = REFUSED[reason].lower(meta_of(REFUSED[reason]), H200)
    found = find_computed(lowered.regions[0])
    assert isinstance(found, Refusal) and reason in str(found)
    assert "schedule" not in [k.name for k in lowered.space.knobs]
    assert reason in explain(lowered)


def test_other_architectures_have_no_such_schedule() -> None:
    """Ampere has no warp groups that multiply, and says so."""
    lowered = activated.lower(meta_of(activated), target("nvidia-a100"))
    assert "schedule" not in [k.name for k in lowered.space.knobs]
