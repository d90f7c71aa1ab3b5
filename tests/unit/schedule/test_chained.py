"""Two chained products in a region: found whatever the author does between them, run as a schedule, refused by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from tile_testing.kernels.schedule_bodies import Walk
from tile_testing.kernels.schedule_kernels import (
    REFUSED,
    grouped_queries,
    inputs,
    kept_inputs,
    of_kept_keys,
    of_kept_keys_reference,
    softmax_reference,
    windowed,
    windowed_reference,
)

from examples.attention import LOG2_E, attention, attention_backward, attention_scored
from tileflow.api import Kernel
from tileflow.explain import explain
from tileflow.ir.graph import KernelIR
from tileflow.kernels.flash import by_key_head
from tileflow.schedule.attention import Shape
from tileflow.schedule.attention import attention as attention_schedule
from tileflow.schedule.chained import Chained, Refusal, find_chained, read_by
from tileflow.schedule.evaluate import Program
from tileflow.schedule.execute import NASTY, at_random, execute
from tileflow.schedule.structure import find_structure
from tileflow.target import target

H200 = target("nvidia-h200")
ONE_ROW = {"row": 0, "member": 0}  # of a batch, and of the heads that share keys


def region(kernel: Kernel, args: tuple[Any, ...], choices: Mapping[str, Any]) -> tuple[KernelIR, Any]:
    """The region of a call with its masks in place, and its config."""
    lowered = kernel.lower(tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args), H200)
    config = lowered.default.with_(choices)
    (ir,) = lowered.specialised_regions(config)
    return ir, config


def run(
    ir: KernelIR,
    config: Any,
    tensors: Mapping[str, torch.Tensor],
    scalars: Mapping[str, float],
    keys: int,
    groups: int = 2,
) -> None:
    """Every program of a region, each under another interleaving."""
    found = find_chained(ir)
    assert isinstance(found, Chained)
    *outer, m, d = tensors["q"].shape
    depth, ones = 1 << (d - 1).bit_length(), (1,) * len(outer)
    box, keys_box = (*ones, 64, depth), (*ones, keys, depth)
    shape = Shape(box, keys_box, keys_box, 2, box, 2, ahead=bool(found.loaded))
    schedule = attention_schedule(shape, groups, stages=2, ping_pong=True)
    nasty = list(NASTY.values())
    for number, (head, begin) in enumerate((h, b) for h in range(math.prod(outer)) for b in range(0, m, 64 * groups)):
        program = Program(ir, found, config, tensors, scalars, ONE_ROW | {"head": head, "tile_m": begin})
        choose = nasty[number % len(nasty)] if number % 2 else at_random(number)
        execute(schedule, program, program.turns, choose)


def test_programs_that_walk_over_tiles() -> None:
    """Two heads of three tiles each, by two persistent programs; the last turn of each tile is half masked."""
    torch.manual_seed(0)
    args = attention.inputs(batch=1, heads=2, m=300, d=64)
    ir, config = region(attention, args, {"block:tile_m": 128, "block:block_n": 64})
    found = find_chained(ir)
    assert isinstance(found, Chained)
    q, k, v = by_key_head(args[0], args[1].size(1)), *args[1:3]
    out = torch.zeros_like(q)
    tensors, scalars = {"q": q, "k": k, "v": v, "out": out}, {"scale": LOG2_E / math.sqrt(64)}
    box = (1, 1, 1, 64, 64)
    schedule = attention_schedule(Shape(box, box, box, 2, box, 2), groups=2, stages=2, ping_pong=True, walks=True)
    tiles = [ONE_ROW | {"head": head, "tile_m": begin} for head in range(2) for begin in (0, 128, 256)]
    for first in range(2):
        programs = [Program(ir, found, config, tensors, scalars, begins) for begins in tiles[first::2]]
        execute(schedule, Walk(programs), programs[0].turns, at_random(first), len(programs))
    wanted = attention.reference(*(a.float() if isinstance(a, torch.Tensor) else a for a in args))
    torch.testing.assert_close(out.float(), by_key_head(wanted, wanted.size(1)), atol=2e-2, rtol=2e-2)


def test_programs_that_walk_along_a_triangle() -> None:
    """Of a causal call: tiles of one to four turns, by two persistent programs."""
    torch.manual_seed(0)
    args = attention.inputs(batch=1, heads=2, m=230, d=64, causal=True)
    ir, config = region(attention, args, {"block:tile_m": 64, "block:block_n": 64})
    found = find_chained(ir)
    assert isinstance(found, Chained)
    q, k, v = by_key_head(args[0], args[1].size(1)), *args[1:3]
    out = torch.zeros_like(q)
    tensors, scalars = {"q": q, "k": k, "v": v, "out": out}, {"scale": LOG2_E / math.sqrt(64)}
    box = (1, 1, 1, 64, 64)
    schedule = attention_schedule(Shape(box, box, box, 2, box, 2), groups=1, stages=2, ping_pong=False, walks=True)
    tiles = [ONE_ROW | {"head": head, "tile_m": begin} for head in range(2) for begin in (192, 128, 64, 0)]
    for first in range(2):
        programs = [Program(ir, found, config, tensors, scalars, begins) for begins in tiles[first::2]]
        turns = tuple(program.turns for program in programs)
        assert len(set(turns)) > 1
        execute(schedule, Walk(programs), turns, at_random(first), len(programs))
    wanted = attention.reference(*(a.float() if isinstance(a, torch.Tensor) else a for a in args))
    torch.testing.assert_close(out.float(), by_key_head(wanted, wanted.size(1)), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_odd_sizes(causal: bool) -> None:
    """80 columns in boxes of 128, 200 rows in tiles of 128, the last turns of a causal loop half masked."""
    torch.manual_seed(0)
    args = attention.inputs(batch=1, heads=2, m=200, d=80, causal=causal, with_lse=True)
    ir, config = region(attention, args, {"block:tile_m": 128, "block:block_n": 64})
    q, k, v = by_key_head(args[0], args[1].size(1)), *args[1:3]
    out, lse = torch.zeros_like(q), torch.zeros(1, 2, 1, 200)
    run(ir, config, {"q": q, "k": k, "v": v, "out": out, "lse": lse}, {"scale": LOG2_E / math.sqrt(80)}, 64)
    wanted, wanted_lse = attention.reference(*(a.float() if isinstance(a, torch.Tensor) else a for a in args))
    torch.testing.assert_close(out.float(), by_key_head(wanted, wanted.size(1)), atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(lse, by_key_head(wanted_lse, 2), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(("causal", "groups", "keys"), [(False, 3, 128), (True, 4, 64)])
def test_heads_of_64_columns_by_more_groups(causal: bool, groups: int, keys: int) -> None:
    """384 rows in tiles of 192 and of 256, as the default has them."""
    torch.manual_seed(0)
    args = attention.inputs(batch=1, heads=1, m=384, d=64, causal=causal)
    ir, config = region(attention, args, {"block:tile_m": 64 * groups, "block:block_n": keys})
    q, k, v = by_key_head(args[0], args[1].size(1)), *args[1:3]
    out = torch.zeros_like(q)
    tensors, scalars = {"q": q, "k": k, "v": v, "out": out}, {"scale": LOG2_E / math.sqrt(64)}
    run(ir, config, tensors, scalars, keys, groups)
    wanted = attention.reference(*(a.float() if isinstance(a, torch.Tensor) else a for a in args))
    torch.testing.assert_close(out.float(), by_key_head(wanted, wanted.size(1)), atol=2e-2, rtol=2e-2)


def test_heads_that_share_keys() -> None:
    """The producer computes the head of the keys from the one of the queries."""
    torch.manual_seed(0)
    q, k, v = inputs(4, 130, 70, 64, groups=2)
    ir, config = region(grouped_queries, (q, k, v), {"block:tile_m": 128, "block:tile_n": 32})
    out = torch.zeros_like(q)
    run(ir, config, {"q": q, "k": k, "v": v, "out": out}, {"scale": LOG2_E / math.sqrt(64)}, 32)
    torch.testing.assert_close(out.float(), softmax_reference(q, k, v).float(), atol=2e-2, rtol=2e-2)


def test_a_sliding_window_of_capped_scores() -> None:
    """A loop that begins where the rows' window does, which is whole blocks of keys before them."""
    torch.manual_seed(0)
    q, k, v = inputs(1, 400, 400, 64)
    ir, config = region(windowed, (q, k, v), {"block:tile_m": 128, "block:tile_n": 64})
    out = torch.zeros_like(q)
    scalars = {s.path: 1 / math.sqrt(64) for s in ir.scalars}
    run(ir, config, {"q": q, "k": k, "v": v, "out": out}, scalars, 64)
    torch.testing.assert_close(out.float(), windowed_reference(q, k, v).float(), atol=2e-2, rtol=2e-2)


def test_what_turns_load_for_their_keys_is_loaded_ahead() -> None:
    """Two vectors, of which neither waits for scores; 200 keys in blocks of 64, the last of which is masked."""
    torch.manual_seed(0)
    args = q, k, v, decay, kept = kept_inputs(2, 140, 200, 64)
    ir, config = region(of_kept_keys, args, {"block:tile_m": 128, "block:tile_n": 64})
    found = find_chained(ir)
    assert isinstance(found, Chained) and len(found.loaded) == 2
    left = {v for op in found.behind_ahead for v in op.outputs}
    assert left.isdisjoint(found.loaded) and len(found.behind_ahead) < len(found.weigh)
    assert found.scores.output not in read_by(found.ahead)
    out = torch.zeros_like(q)
    tensors = {"q": q, "k": k, "v": v, "decay": decay, "kept": kept, "out": out}
    run(ir, config, tensors, {s.path: LOG2_E / 8 for s in ir.scalars}, 64)
    torch.testing.assert_close(out.float(), of_kept_keys_reference(*args).float(), atol=2e-2, rtol=2e-2)


def test_values_are_wrong_where_another_turns_vectors_are_loaded() -> None:
    """The comparison above can fail."""
    torch.manual_seed(0)
    args = q, k, v, decay, kept = kept_inputs(1, 128, 256, 64)
    ir, config = region(of_kept_keys, args, {"block:tile_m": 128, "block:tile_n": 64})
    found = find_chained(ir)
    assert isinstance(found, Chained)
    out = torch.zeros_like(q)
    tensors, begins = {"q": q, "k": k, "v": v, "decay": decay, "kept": kept, "out": out}, {"head": 0, "tile_m": 0}
    program = Program(ir, found, config, tensors, {s.path: LOG2_E / 8 for s in ir.scalars}, begins)
    ahead = program._ahead
    program._ahead = lambda registers, turn, group: ahead(registers, 0, group)  # type: ignore[method-assign]
    shape = Shape((1, 64, 64), (1, 64, 64), (1, 64, 64), 2, (1, 64, 64), 2, ahead=True)
    execute(attention_schedule(shape, groups=2, stages=2, ping_pong=True), program, program.turns, at_random(0))
    assert (out.float() - of_kept_keys_reference(*args).float()).abs().max() > 0.05


def test_a_matrix_is_not_loaded_ahead() -> None:
    """Nor is anything where scores load nothing: registers are for vectors."""
    plain, _ = region(grouped_queries, inputs(4, 130, 70, 64, groups=2), {"block:tile_m": 128, "block:tile_n": 32})
    args = attention_scored.inputs(batch=1, heads=2, m=256, n=256, d=64)
    biased, _ = region(attention_scored, args, {"block:tile_m": 128, "block:tile_n": 64})
    for ir in (plain, biased):
        found = find_chained(ir)
        assert isinstance(found, Chained) and (found.loaded, found.ahead) == ((), ())


def test_values_are_wrong_where_a_part_is_left_out() -> None:
    """The comparison can fail: sums that are not rescaled are far off."""
    torch.manual_seed(0)
    q, k, v = inputs(1, 128, 256, 64)
    ir, config = region(grouped_queries, (q, k, v), {"block:tile_m": 128, "block:tile_n": 64})
    found = find_chained(ir)
    assert isinstance(found, Chained)
    out = torch.zeros_like(q)
    program = Program(ir, found, config, {"q": q, "k": k, "v": v, "out": out}, {"scale": 0.2}, {"head": 0, "tile_m": 0})
    program._rescale = lambda registers, turn, group: {"sums": registers["sums"]}  # type: ignore[method-assign]
    box, keys_box = (1, 64, 64), (1, 64, 64)
    schedule = attention_schedule(Shape(box, keys_box, keys_box, 2, box, 2), groups=2, stages=2, ping_pong=True)
    execute(schedule, program, program.turns, at_random(0))
    assert (out.float() - softmax_reference(q, k, v).float()).abs().max() > 0.05


@pytest.mark.parametrize("reason", sorted(REFUSED))
def test_what_has_no_such_schedule_is_refused_by_name(reason: str) -> None:
    args = inputs(1, 128, 128, 64, device="meta")
    lowered = REFUSED[reason].lower(args, H200)
    found = find_chained(lowered.regions[0])
    assert isinstance(found, Refusal)
    assert any(words in str(found) for words in reason.split("|")), found
    assert "schedule" not in [k.name for k in lowered.space.knobs]
    assert str(find_structure(lowered.regions[0])) in explain(lowered)


def test_gradients_are_refused() -> None:
    args = attention_backward.inputs(batch=1, heads=1, m=128, d=64, device="meta")
    reasons = [str(find_chained(ir)) for ir in attention_backward.lower(args, H200).regions]
    assert all("product" in reason or "one loop" in reason for reason in reasons) and len(reasons) == 3


def test_a_float32_kernel_is_refused() -> None:
    args = tuple(replace_dtype(a) for a in inputs(1, 128, 128, 64, device="meta"))
    found = find_chained(grouped_queries.lower(args, H200).regions[0])
    assert isinstance(found, Refusal) and "bfloat16 or float16" in str(found)


def replace_dtype(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float()
