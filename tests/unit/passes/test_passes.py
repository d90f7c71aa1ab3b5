"""What tracing and the passes make of kernels: masks, rolled reductions, carried values, guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.expr import Expr
from tileflow.ir.attributes import AccessAttrs, LoadAttrs, PointwiseAttrs, ReduceAttrs, WhereMaskAttrs
from tileflow.ir.graph import KernelIR, Op, ValueIndex
from tileflow.ir.printer import render
from tileflow.lowered import Lowered
from tileflow.passes import specialise
from tileflow.passes.masks import MaskedValues
from tileflow.passes.roll import apart, rollable
from tileflow.passes.structural_choice import StructuralChoice
from tileflow.target import target

H200 = target("nvidia-h200")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def lower(function: Callable[..., Any], *args: Any, mode: str = "static") -> Lowered:
    return tileflow.kernel(function).lower(args or (meta(100, 3000),), H200, mode=mode)


def region(function: Callable[..., Any], *args: Any, mode: str = "static") -> KernelIR:
    (ir,) = lower(function, *args, mode=mode).regions
    return ir


def masked(function: Callable[..., Any], *args: Any, looped: bool = False) -> KernelIR:
    """The region with its reductions in one piece, or all in loops."""
    ir = region(function, *args)
    return specialise(ir, StructuralChoice(tuple(rollable(ir)) if looped else ()))


def kinds(ir: KernelIR) -> Counter[str]:
    return Counter(op.kind for op in ir.walk())


def ops(ir: KernelIR, kind: str) -> list[Op]:
    return [op for op in ir.walk() if op.kind == kind]


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


# ---- masks --------------------------------------------------------------------------------------


def total(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile, :].sum(1)
    return out


def largest(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile, :].amax(1)
    return out


def product(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile, :].prod(1)
    return out


def total_of_exp(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.exp(x[tile, :]).sum(1)
    return out


def total_of_squares(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :].float()
        out[tile] = (row * row * 2 - row).sum(1)
    return out


def total_and_largest(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile] = row.sum(1) + row.amax(1)
    return out


@pytest.mark.parametrize(
    ("function", "other"), [(total, 0.0), (largest, float("-inf")), (product, 1.0), (total_of_squares, 0.0)]
)
def test_the_load_fills_the_lanes(function: Callable[..., Any], other: float) -> None:
    """With what the reduction needs, also through casts and arithmetic that keeps it."""
    ir = masked(function)
    assert kinds(ir)["where_mask"] == 0
    (load,) = ops(ir, "load")
    assert LoadAttrs.of(load).other == other


def test_a_mask_that_is_needed_stays() -> None:
    """exp(0) is 1."""
    ir = masked(total_of_exp)
    (where,) = ops(ir, "where_mask")
    assert where.inputs[1] == 0 and WhereMaskAttrs.of(where).axes == (1,)
    (reduce,) = ops(ir, "reduce")
    assert reduce.inputs[0] == where.output


def test_one_load_fills_for_one_reader() -> None:
    ir = masked(total_and_largest)
    (load,) = ops(ir, "load")
    (where,) = ops(ir, "where_mask")
    assert {LoadAttrs.of(load).other, where.inputs[1]} == {0.0, float("-inf")}


def test_a_power_of_two_has_no_lanes_to_mask() -> None:
    assert kinds(masked(total_of_exp, meta(100, 2048)))["where_mask"] == 0
    assert kinds(masked(total_of_exp, meta(100, 2049)))["where_mask"] == 1


def test_masks_vanish_where_the_block_divides_the_size() -> None:
    def add_one(x):
        for tile in tfl.tile(x.size(0)):
            x[tile] = x[tile] + 1
        return x

    it = lower(add_one, meta(4096))
    assert "mask" not in it.emit(it.default.with_({"block:tile": 1024}))[0].code
    it = lower(add_one, meta(4000))
    assert it.emit(it.default.with_({"block:tile": 1024}))[0].code.count("mask=") == 2


def test_masks_of_products() -> None:
    def plain(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            x[tile_m, tile_n] = acc

    def of_exp(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, torch.exp(x[tile_m, tile_k]), y[tile_k, tile_n])
            x[tile_m, tile_n] = acc

    args = meta(100, 300), meta(300, 200)
    assert kinds(masked(plain, *args))["where_mask"] == 0
    (where,) = ops(masked(of_exp, *args), "where_mask")
    assert WhereMaskAttrs.of(where).axes == (1,), "the inner dimension only"


def test_what_masked_lanes_hold() -> None:
    """A constant along the axis is known; what is broadcast along it is not."""

    def several(x, y):
        for tile in tfl.tile(x.size(0)):
            row = x[tile, :]
            a = (row * 3 - 1).relu()
            b = row + y[tile, 0][:, None]
            c = torch.where(row > 1, row, 5.0)
            x[tile, :] = a + b + c

    ir = region(several, meta(100, 300), meta(100, 4))
    known = MaskedValues(ir)
    by_fn = {PointwiseAttrs.of(op).fn: op.output for op in ops(ir, "pointwise")}
    assert known.at(by_fn["relu"], 1) == 0.0
    assert known.at(by_fn["where"], 1) == 5.0
    assert known.at(by_fn["gt"], 1) == 0.0
    sums = [op for op in ops(ir, "pointwise") if PointwiseAttrs.of(op).fn == "add"]
    assert known.at(sums[0].output, 1) is None


# ---- rolled reductions --------------------------------------------------------------------------


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
    """Only a guard says that the halves are equal: a block of one met all of the other, which did not compile."""

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
        assert rollable(region(function, mode="dynamic")) == {}


def test_rolling_leaves_the_rest_of_the_space() -> None:
    it = lower(softmax)
    assert it.space.knob("reduce:max#0").choices == (0, 2048, 1024, 512, 256, 128)
    assert [k.name for k in it.space.knobs if k.role == "reduction"] == ["reduce:max#0"]


# ---- small passes -------------------------------------------------------------------------------


def test_the_sum_of_a_product_becomes_its_accumulator() -> None:
    def fused(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc += tfl.dot(x[tile_m, tile_k], y[tile_k, tile_n])
            x[tile_m, tile_n] = acc

    def operator(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = acc + x[tile_m, tile_k] @ y[tile_k, tile_n]
            x[tile_m, tile_n] = acc

    args = meta(64, 64, dtype=torch.bfloat16), meta(64, 64, dtype=torch.bfloat16)

    def used_twice(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            product = tfl.dot(x[tile_m, :], y[:, tile_n])
            x[tile_m, tile_n] = (tfl.zeros([tile_m, tile_n]) + product) * product

    for function in (fused, operator):
        (dot,) = ops(region(function, *args), "dot")
        assert len(dot.inputs) == 3 and kinds(region(function, *args))["pointwise"] == 0
    (dot,) = ops(region(used_twice, *args), "dot")
    assert len(dot.inputs) == 2


def test_dead_code_goes() -> None:
    def wasteful(x):
        for tile in tfl.tile(x.size(0)):
            unused = torch.exp(x[tile, :]).sum(1)  # noqa: F841
            x[tile, 0] = 1.0

    assert kinds(region(wasteful)).keys() == {"full", "store"}


def test_sizes_that_a_guard_proves_equal_are_one() -> None:
    def scaled(x, w):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = (x[tile, :] * w[:]).sum(1, keepdim=True) + x[tile, :]
        return out

    ir = region(scaled, meta(100, 300), meta(300), mode="dynamic")
    extents = {d.extent for op in ir.walk() for v in op.outputs for d in v.dims if d.tile is None}
    assert len(extents - {Expr.of(1)}) == 1


def test_equal_graphs_print_equally_wherever_they_stand() -> None:
    def first(x):
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = x[tile, :] * 2

    one = region(first)

    def first(x):
        # elsewhere
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = x[tile, :] * 2

    assert render(one) == render(region(first)) and one.hash == region(first).hash


# ---- carried values -----------------------------------------------------------------------------


def carried(function: Callable[..., Any], *args: Any) -> tuple[str, int]:
    """dtype and rank of the only value that the only loop carries."""
    (loop,) = ops(region(function, *args), "for")
    (value,) = loop.outputs
    return value.type.dtype, len(value.dims)


def test_carried_types_reach_a_fixpoint() -> None:  # noqa: C901
    def number(x):
        for tile in tfl.tile(x.size(0)):
            acc = 0
            for tile_n in tfl.tile(x.size(1)):
                acc = acc * 2 + x[tile, tile_n].sum(1)
            x[tile, 0] = acc

    def promoted(x):
        for tile in tfl.tile(x.size(0)):
            acc = tfl.zeros([tile], dtype=torch.bfloat16)
            for tile_n in tfl.tile(x.size(1)):
                acc = acc * 2 + x[tile, tile_n].sum(1)
            x[tile, 0] = acc

    def kept(x):
        for tile in tfl.tile(x.size(0)):
            acc = tfl.zeros([tile], dtype=torch.bfloat16)
            for tile_n in tfl.tile(x.size(1)):
                acc *= x[tile, tile_n].sum(1)
            x[tile, 0] = acc

    def grown(x):
        for tile in tfl.tile(x.size(0)):
            acc = tfl.zeros([1, 1])
            for tile_n in tfl.tile(x.size(1)):
                acc = acc * 2 + x[tile, tile_n].sum(1, keepdim=True)
            x[tile, :] = acc

    def chained(x):
        """The second name's type follows the first one's, a round later."""
        for tile in tfl.tile(x.size(0)):
            a = b = c = 0
            for tile_n in tfl.tile(x.size(1)):
                c = b
                b = a
                a = a + x[tile, tile_n].sum(1)
            x[tile, 0] = c

    assert carried(number) == ("float32", 1)
    assert carried(promoted) == ("float32", 1)
    assert carried(kept) == ("bfloat16", 1)
    assert carried(grown) == ("float32", 2)
    (loop,) = ops(region(chained), "for")
    assert [(v.type.dtype, len(v.dims)) for v in loop.outputs] == [("float32", 1)] * 3


def test_unchanged_objects_are_invariant() -> None:
    def invariant(x):
        for tile in tfl.tile(x.size(0)):
            scale, name = 2.0, "plain"
            total = tfl.zeros([tile])
            for tile_n in tfl.tile(x.size(1)):
                total = total * scale + x[tile, tile_n].sum(1)
            x[tile, 0] = total if name == "plain" else 0.0

    assert carried(invariant) == ("float32", 1)


def test_a_retraced_body_leaves_no_names_behind() -> None:
    """Sites are counted once however often the types were tried."""

    def retried(x):
        for tile in tfl.tile(x.size(0)):
            acc = 0
            for tile_n in tfl.tile(x.size(1)):
                acc = acc + x[tile, tile_n].sum(1)
            x[tile, 0] = acc

    ir = region(retried)
    assert [LoadAttrs.of(op).site for op in ops(ir, "load")] == ["load:x#0"]
    assert ir.blocks and [b.name for b in ir.blocks] == ["block:tile", "block:tile_n"]
    assert set(ir.tiles) == {"tile", "tile_n"}


def test_a_branch_merges_by_promotion() -> None:
    def merged(x, flag):
        for tile in tfl.tile(x.size(0)):
            y = 0
            if flag[0] > 0:
                y = x[tile, 0]
            x[tile, 0] = y

    (branch,) = ops(region(merged, meta(100, 30), meta(1, dtype=torch.int32)), "if")
    assert [(v.type.dtype, len(v.dims)) for v in branch.outputs] == [("float32", 1)]


# ---- guards -------------------------------------------------------------------------------------


def holds(ir: KernelIR, **changes: int) -> bool:
    """Whether all guards hold for the example with some sizes changed (``x_shape_1`` for ``x.shape.1``)."""
    environment = ir.hints | {name.replace("_", "."): value for name, value in changes.items()}
    return all(g.evaluate(environment) for g in ir.guards)


def test_static_shapes_are_guarded() -> None:
    ir = region(total, meta(100, 300))
    assert holds(ir)
    assert not holds(ir, x_shape_1=301) and not holds(ir, x_stride_0=301) and not holds(ir, end_0=99)


def test_dynamic_shapes_are_not_but_what_was_assumed_is() -> None:
    def scaled(x, w):
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = x[tile, :] * w[:]

    ir = region(scaled, meta(100, 300), meta(300), mode="dynamic")
    assert holds(ir) and holds(ir, x_shape_1=301, w_shape_0=301, x_stride_0=301) and holds(ir, end_0=50)
    assert not holds(ir, x_shape_1=301), "x and w must stay equally long"
    assert not holds(ir, end_0=101), "the loop must stay inside x"
    assert not holds(ir, x_stride_1=2), "unit strides decide how memory is read"


def test_decisions_on_sizes_are_guarded() -> None:
    def chosen(x):
        for tile in tfl.tile(x.size(0)):
            if x.size(1) > 200:
                x[tile, :] = 0
            else:
                x[tile, :] = 1

    ir = region(chosen, meta(100, 300), mode="dynamic")
    assert kinds(ir)["if"] == 0
    assert holds(ir, x_shape_1=201) and not holds(ir, x_shape_1=200)


def test_specialised_sizes_are_guarded() -> None:
    def special(x):
        for tile in tfl.tile(x.size(0)):
            n = tfl.specialize(x.size(1))
            assert isinstance(n, int)
            x[tile, :] = x[tile, :] / n

    ir = region(special, meta(100, 300), mode="dynamic")
    assert holds(ir) and not holds(ir, x_shape_1=301, x_stride_0=301)


def test_a_size_of_one_is_a_constant() -> None:
    """It broadcasts."""
    ir = region(total, meta(1, 300), mode="dynamic")
    assert not holds(ir, x_shape_0=2)


def test_block_sizes_are_no_python_numbers() -> None:
    def asked(x):
        for tile in tfl.tile(x.size(0)):
            assert tile.block_size == 4

    with pytest.raises(TraceError, match="the config chooses it"):
        region(asked)
