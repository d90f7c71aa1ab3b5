"""Whole dimensions as loops: which are rolled, what the loops carry, and what stays whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.regions import kinds, largest, lower, masked, meta, ops, region, total, total_and_largest

import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.expr import Expr
from tileflow.ir.attributes import AccessAttrs, ReduceAttrs
from tileflow.ir.graph import KernelIR, Op, ValueIndex
from tileflow.passes import specialise
from tileflow.passes.roll import apart, rollable
from tileflow.passes.structural_choice import StructuralChoice


def sum_of_groups(x):
    """A sum over two dimensions, of which the inner one is reduced for itself too."""
    out, most = torch.empty_like(x), torch.empty_like(x[:, :, 0])
    for tile in tfl.tile(x.size(0), block_size=1):
        row = x[tile, :, :]
        scaled = row * torch.rsqrt((row * row).sum(dim=(1, 2)))[:, None, None]
        most[tile, :] = scaled.amax(-1)
        out[tile, :, :] = scaled
    return out, most


def test_an_outer_dimension_is_rolled_before_one_that_is_reduced_within_its_blocks() -> None:
    """Issue 18: rolled the other way around, a norm by groups read a value before there was one (InternalError)."""
    ir = region(sum_of_groups, meta(100, 40, 128))
    inner, outer = rollable(ir)
    for sites in ((inner, outer), (outer, inner)):
        rolled = specialise(ir, StructuralChoice(sites))  # verified: TILEFLOW_VERIFY is set
        loops = [len(list(body.ops)) for op in ops(rolled, "for") for body in op.regions]
        assert len(loops) == 4, "two loops over groups, one over each group in both"


def test_reductions_that_need_each_other_whole_are_not_both_loops() -> None:
    def crossed(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0), block_size=1):
            row = x[tile, :, :]
            out[tile, :, :] = row - row.amax(1)[:, None, :] - row.amax(2)[:, :, None]
        return out

    lowered = lower(crossed, meta(100, 256, 512))
    (ir,) = lowered.regions
    ((one, other),) = apart(ir)
    names = [c.name for c in lowered.space.constraints]
    assert f"{one} or {other} in one piece" in names
    assert not (lowered.default[one] and lowered.default[other])


def softmax(x):
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.softmax(x[tile, :], 1)
    return out


def centred(x):
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, :] = row - row.mean(1, keepdim=True)
    return out


def loops(ir: KernelIR) -> list[Op]:
    return [op for op in ir.body.ops if op.kind == "for"]


@pytest.mark.parametrize(("function", "phases"), [(total, 1), (centred, 2), (softmax, 2), (total_and_largest, 1)])
def test_phases(function: Callable[..., Any], phases: int) -> None:
    """A loop for each round of reductions, and one for what is stored; each reads the row again."""
    ir = masked(function, looped=True)
    assert len(loops(ir)) == phases
    assert all("load" in {op.kind for op in loop.regions[0].ops} for loop in loops(ir))
    whole = masked(function)
    assert not loops(whole)
    assert {ReduceAttrs.of(op).fn for op in ops(ir, "reduce")} == {ReduceAttrs.of(op).fn for op in ops(whole, "reduce")}


def test_what_a_loop_carries() -> None:
    """Accumulators as wide as a block, in float32 for short types; reduced once after the loop."""
    ir = masked(largest, meta(100, 3000, dtype=torch.bfloat16), looped=True)
    (loop,) = loops(ir)
    (site,) = rollable(region(largest, meta(100, 3000, dtype=torch.bfloat16)))
    (carried,) = loop.outputs
    assert carried.type.dtype == "float32" and carried.dims[1].extent == Expr.sym(site)
    (reduce,) = ops(ir, "reduce")
    assert reduce.inputs == (carried,)


def test_what_is_not_rolled() -> None:
    def written_and_read(x):
        for tile in tfl.tile(x.size(0)):
            x[tile, 0] = x[tile, :].argmax(1).float()

    def summed_up(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = x[tile, :].cumsum(1)

    def stored_and_read(x):
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = x[tile, :] * 2
            x[tile, :] = x[tile, :] + x[tile, :].sum(1, keepdim=True)

    def one_column(x):
        for tile in tfl.tile(x.size(0)):
            x[tile, 0] = x[tile, 0:1].sum(1)

    def carried(x):
        for tile in tfl.tile(x.size(0)):
            total = tfl.zeros([x.size(1)])
            for inner in tfl.tile(tile.begin, tile.end):
                row = x[inner, :]
                total += (row - row.mean(1, keepdim=True)).sum(0)
            x[tile.id, :] = total

    def scattered(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, x.size(1) - 1 - tfl.arange(x.size(1))] = x[tile, :] * 2

    for function in (written_and_read, summed_up, stored_and_read, one_column, carried, scattered):
        assert rollable(region(function)) == {}


def test_a_dimension_is_a_loop_beside_one_that_has_it_too() -> None:
    """Beside a loop over a product's columns, in which what it sums over was a loop, another product took all of that:
    a config that was valid, and that Triton refused."""

    def two(x, wide, narrow, out):
        for tile in tfl.tile(x.size(0)):
            out[tile, :300] = x[tile, :] @ wide[:, :]
            out[tile, 300:] = x[tile, :] @ narrow[:, :]

    sizes = (100, 4096), (4096, 300), (4096, 200), (100, 500)
    ir = region(two, *(meta(*size, dtype=torch.bfloat16) for size in sizes))
    columns, inner = (next(site for site, dim in rollable(ir).items() if dim.extent == Expr.of(n)) for n in (300, 4096))
    rolled = specialise(ir, StructuralChoice(rolled_reductions=(columns, inner)))
    products = ops(rolled, "dot")
    assert len(products) == 2
    assert all(dim.extent.constant != 4096 for op in products for v in op.values for dim in v.dims)


def test_slices_that_start_later_are_loops_by_numbers() -> None:
    """A slice from an element on was in one piece, and beside it all that met it."""

    def shifted(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, 1:] = x[tile, 1:] * 2

    (site,) = rollable(region(shifted))
    (loop,) = loops(specialise(region(shifted), StructuralChoice(rolled_reductions=(site,))))
    counted = [AccessAttrs.of(op).index[1] for op in loop.regions[0].ops if op.kind in ("load", "store")]
    assert len(counted) == 2 and all(isinstance(item, ValueIndex) and item.inside is None for item in counted)


def test_a_long_row_is_a_loop_beside_numbers_that_it_changes() -> None:
    def followed(x, mean):
        token = torch.empty(x.size(0), dtype=torch.int64, device=x.device)
        for tile in tfl.tile(x.size(0)):
            row = x[tile, :].float()
            token[tile] = row.argmax(1)
            mean[tile] = 0.9 * mean[tile] + 0.1 * row.logsumexp(1)
        return token

    it = lower(followed, meta(64, 128256, dtype=torch.bfloat16), meta(64))
    assert it.emit(it.default)


def test_a_row_is_a_loop_beside_atomics_that_are_none_of_it() -> None:
    """Turns of a short range are written out, each with its update: the row of 768 sums was whole, with no config."""

    def mixed(x, keys, value):
        out, hits = torch.empty(x.size(0), value.size(1), device=x.device), torch.zeros_like(value[:, 0])
        for tile in tfl.tile(x.size(0)):
            total = tfl.zeros([tile, value.size(1)])
            for h in range(keys.size(0)):
                score, place = torch.topk(tfl.dot(x[tile, h, :], keys[h, :, :].T), 8, dim=1)
                tfl.atomic_add(hits, [place], 1.0)
                total += (torch.softmax(score, 1)[:, :, None] * value[place, :]).sum(1)
            out[tile, :] = total
        return out, hits

    args = (meta(8192, 4, 64, dtype=torch.bfloat16), meta(4, 256, 64, dtype=torch.bfloat16), meta(256, 768))
    it = lower(mixed, *args)
    assert it.default["row:out#0:1"] != 0 and it.emit(it.default)


def test_a_row_is_a_loop_that_is_written_again() -> None:
    """What a later line writes comes in a phase after the row's loop."""

    def first_is_none(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = torch.exp(x[tile, :])
            out[tile, 0] = 0.0
        return out

    def written_twice(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = x[tile, :] - x[tile, :].sum(1, keepdim=True)
            out[tile, :] = torch.exp(x[tile, :])
        return out

    for function, order in ((first_is_none, ["for", "store"]), (written_twice, ["for", "for"])):
        ops = [op.kind for op in masked(function, looped=True).body.ops]
        assert [kind for kind in ops if kind in ("for", "store")] == order


def test_a_row_that_is_only_stored_is_a_loop_too() -> None:
    """One loop that reads and stores blocks, its loads before its stores; a row of any length has a first config."""

    def doubled_and_halved(x):
        twice, half = torch.empty_like(x), torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            twice[tile, :] = x[tile, :] * 2
            half[tile, :] = x[tile, :] / 2
        return twice, half

    (site,) = rollable(region(doubled_and_halved))
    assert site == "row:twice#0:1"
    (loop,) = loops(masked(doubled_and_halved, looped=True))
    order = [op.kind for op in loop.regions[0].ops if op.kind in ("load", "store")]
    assert order == ["load", "load", "store", "store"] and not loop.outputs
    assert lower(doubled_and_halved, meta(100, 3000)).default[site] == 0
    for columns in (1 << 16, 1 << 20):  # registers hold no more than 65536 elements, of which two rows live at once
        it = lower(doubled_and_halved, meta(100, columns))
        assert it.default[site] == 4096 and it.space.is_valid(it.default)


def test_dimensions_of_one_length_are_loops_of_their_own() -> None:
    """A square box, a square matrix: as one dimension neither was a loop."""

    def averaged(x):
        out = torch.empty_like(x[:, 0, 0])
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile, :, :].mean((1, 2))
        return out

    def normed(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0), block_size=1):
            out[tile, :, :] = torch.softmax(torch.bmm(x[tile, :, :], x[tile, :, :]), -1)
        return out

    x = meta(8, 512, 512)
    for function in (averaged, normed):
        found = rollable(region(function, x))
        assert len(set(found.values())) == len(found) >= 2
        it = lower(function, x)
        assert it.space.is_valid(it.default)


def test_dimensions_that_meet_are_one_whatever_their_names() -> None:
    """Rows of two tensors that are added up lane by lane, and rows that never meet, are one loop each phase."""

    def both(x, y):
        out = torch.empty_like(x[:, 0])
        for tile in tfl.tile(x.size(0)):
            out[tile] = (x[tile, :] * y[tile, :]).sum(1) + x[tile, :].amax(1) + y[tile, :].amin(1)
        return out

    (dim,) = rollable(region(both, meta(100, 3000), meta(100, 3000))).values()
    assert dim.number == 0 and len(loops(masked(both, meta(100, 3000), meta(100, 3000), looped=True))) == 1


def test_a_box_that_is_only_stored_is_two_loops() -> None:
    def doubled(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0), block_size=1):
            out[tile, :, :] = x[tile, :, :] * 2
        return out

    ir = region(doubled, meta(100, 40, 3000))
    assert tuple(rollable(ir)) == ("row:out#0:1", "row:out#0:2")
    assert kinds(specialise(ir, StructuralChoice(tuple(rollable(ir)))))["for"] == 2


def test_a_dimension_that_meets_another_one_of_its_size_stays_whole() -> None:
    """Only a guard says that they are equal, of which neither has another name: a block of one met all of the other,
    which did not compile."""

    def products_multiplied(x, a, b):
        out = torch.empty_like(x[:, 0])
        for tile in tfl.tile(x.size(0)):
            one, other = a.size(0) * a.size(1), b.size(0) * b.size(1)
            out[tile] = (x[tile, :one] * x[tile, :other]).sum(1)
        return out

    def products_stored(x, a, b):
        out = torch.empty_like(x[:, : a.numel()])
        for tile in tfl.tile(x.size(0)):
            one, other = a.size(0) * a.size(1), b.size(0) * b.size(1)
            out[tile, :] = x[tile, :one] * x[tile, :other]
        return out

    sizes = meta(100, 3000), meta(20, 100), meta(40, 50)
    for function in (products_multiplied, products_stored):
        assert rollable(region(function, *sizes, mode="dynamic")) == {}


def test_halves_are_one_dimension_whatever_their_names() -> None:
    """Of one half a guard says that the other is as long, which leaves one name for both."""

    def halves_multiplied(x):
        out = torch.empty_like(x[:, 0])
        half = x.size(1) // 2
        for tile in tfl.tile(x.size(0)):
            out[tile] = (x[tile, half:] * x[tile, :half]).sum(1)
        return out

    def halves_stored(x):
        half = x.size(1) // 2
        out = torch.empty_like(x[:, :half])
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = x[tile, half:] * x[tile, :half]
        return out

    for function in (halves_multiplied, halves_stored):
        lowered = lower(function, mode="dynamic")
        (site,) = rollable(region(function, mode="dynamic"))
        looped = lowered.space.adapt(lowered.default.to_dict() | {site: 128})
        assert looped[site] == 128 and [build(source, lowered.target) for source in lowered.emit(looped)]


def test_rolling_leaves_the_rest_of_the_space() -> None:
    it = lower(softmax)
    assert it.space.knob("reduce:max#0").choices == (0, 2048, 1024, 512, 256, 128)
    assert [k.name for k in it.space.knobs if k.role == "reduction"] == ["reduce:max#0"]
