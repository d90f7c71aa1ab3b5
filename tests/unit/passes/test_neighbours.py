"""Accesses of neighbours: which become one, and which stay as they are, each for a reason of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.kernels.neighbour_kernels import CASES
from tile_testing.regions import meta, region

import tileflow
import tileflow.language as tfl
from tileflow.default.small_tiles import woven_limits
from tileflow.ir.attributes import AccessAttrs
from tileflow.ir.graph import KernelIR, SliceIndex
from tileflow.ir.kinds import OpKind
from tileflow.ir.pressure import live_tiles, on_the_way
from tileflow.ir.verify import verify
from tileflow.passes.roll import roll, rollable
from tileflow.target import target

H200 = target("nvidia-h200")
COUNTED = (OpKind.LOAD, OpKind.STORE, OpKind.SPLIT, OpKind.JOIN)


def counts(ir: KernelIR) -> tuple[int, ...]:
    """Loads, stores, splits and joins."""
    found = Counter(op.kind for op in ir.walk())
    return tuple(found[kind] for kind in COUNTED)


def of_case(name: str) -> KernelIR:
    case = CASES[name]
    (ir,) = case.kernel.lower(case.args, H200).regions
    return ir


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("rotated", (3, 1, 1, 1)),
        ("centred", (1, 1, 3, 3)),
        ("in_odd_blocks", (1, 1, 3, 3)),
        ("exchanged_in_place", (2, 2, 2, 2)),
        ("stored_in_between", (3, 2, 0, 0)),
        ("bytes_of_words", (2, 2, 6, 6)),
        ("halves", (1, 1, 3, 3)),
        ("reduced", (1, 2, 1, 0)),
    ],
)
def test_how_many(name: str, wanted: tuple[int, ...]) -> None:
    ir = of_case(name)
    verify(ir, "prepared")
    assert counts(ir) == wanted


def test_a_mask_is_one_of_all_its_neighbours() -> None:
    ir = of_case("under_a_mask")
    stores = [op for op in ir.walk() if op.kind is OpKind.STORE]
    assert [AccessAttrs.of(op).has_mask for op in stores] == [True, True]
    assert counts(ir)[3] == 2


def test_what_it_is_called_and_where_it_starts() -> None:
    (load,) = [op for op in of_case("rotated").walk() if op.kind is OpKind.LOAD and len(op.output.dims) == 3]
    attrs = AccessAttrs.of(load)
    last = attrs.index[-1]
    assert attrs.site == "load:x#0" and isinstance(last, SliceIndex)
    assert (last.start.constant, last.dim.extent.constant, last.axis) == (0, 2, 2)


# ---- each of these differs in one thing from two loads and two stores that are one each ----------


def copy(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 0], out[t, 1] = x[t, 0], x[t, 1]


def from_an_odd_one(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 1], out[t, 2] = x[t, 1], x[t, 2]


def two_apart(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 0], out[t, 2] = x[t, 0], x[t, 2]


def of_scalars(x, out):
    for i in tfl.grid(x.size(0)):
        out[i, 0], out[i, 1] = x[i, 0], x[i, 1]


def by_other_masks(x, out):
    for t in tfl.tile(x.size(0)):
        for i in (0, 1):
            keep = t.index % (i + 2) == 0
            tfl.store(out, [t, i], tfl.load(x, [t, i], extra_mask=keep), extra_mask=keep)


def with_other_fills(x, out):
    for t in tfl.tile(x.size(0)):
        keep = t.index % 2 == 0
        a, b = tfl.load(x, [t, 0], extra_mask=keep, other=1.0), tfl.load(x, [t, 1], extra_mask=keep, other=2.0)
        out[t, 0] = a + b


def evicted_otherwise(x, out):
    for t in tfl.tile(x.size(0)):
        a = tfl.load(x, [t, 0], eviction_policy="evict_first")
        out[t, 0] = a + tfl.load(x, [t, 1], eviction_policy="evict_last")


def in_other_blocks(x, out):
    for t in tfl.tile(x.size(0)):
        a = x[t, 0]
        if x.size(0) > tfl.load(out, [0, 0]):
            a = a + x[t, 1]
        out[t, 0] = a


def behind_an_atomic(x, out):
    for t in tfl.tile(x.size(0)):
        a = x[t, 0]
        tfl.atomic_add(out, [t, 0], a)
        tfl.atomic_add(out, [t, 1], x[t, 1])


def loaded_between(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 0] = x[t, 0]
        out[t, 1] = x[t, 1] + out[t, 2]


def of_few_dimensions(x, out):
    for t in tfl.tile(x.size(0)):
        scale = x[t, 0] * x[t, 1]
        out[t, :] = x[t, :] * scale[:, None]


NONE = {
    "from an odd one": (from_an_odd_one, (2, 2, 0, 0)),
    "two apart": (two_apart, (2, 2, 0, 0)),
    "of scalars": (of_scalars, (2, 2, 0, 0)),
    "by other masks": (by_other_masks, (2, 2, 0, 0)),
    "with other fills": (with_other_fills, (2, 1, 0, 0)),
    "evicted otherwise": (evicted_otherwise, (2, 1, 0, 0)),
    "in other blocks": (in_other_blocks, (3, 1, 0, 0)),
    "behind an atomic": (behind_an_atomic, (2, 0, 0, 0)),
    "loaded between": (loaded_between, (2, 2, 1, 0)),
    "of few dimensions": (of_few_dimensions, (3, 1, 0, 0)),
}


def test_a_pair_of_each() -> None:
    assert counts(region(copy, meta(300, 4), meta(300, 4))) == (1, 1, 1, 1)


@pytest.mark.parametrize("name", NONE)
def test_they_stay_as_they_are(name: str) -> None:
    function, wanted = NONE[name]
    assert counts(region(function, meta(300, 4), meta(300, 4))) == wanted


def test_pairs_lie_in_rows_of_an_even_length() -> None:
    """Those of rows of three straddle what memory moves at once."""
    assert counts(region(copy, meta(300, 3), meta(300, 4))) == (2, 1, 0, 1)


def test_they_lie_next_to_each_other() -> None:
    strided = torch.empty_strided((300, 4), (8, 2), device="meta")
    assert counts(region(copy, strided, meta(300, 4))) == (2, 1, 0, 1)


def test_truths_stay_as_they_are() -> None:
    bools = meta(300, 4, dtype=torch.bool)
    assert counts(region(copy, bools, bools.clone())) == (2, 2, 0, 0)


def test_strides_that_only_a_launch_knows() -> None:
    assert counts(region(copy, meta(300, 4), meta(300, 4), mode="dynamic"))[2:] == (0, 0)


def test_tensors_that_share_memory() -> None:
    """A store by the one name stands between loads by the other."""

    def through(x, out):
        for t in tfl.tile(x.size(0)):
            a = x[t, 0]
            out[t, 1] = a
            out[t, 0] = x[t, 1]

    x = torch.zeros(300, 4)
    assert counts(region(through, x, torch.zeros(300, 4)))[2:] == (1, 1)
    assert counts(region(through, x, x.view(300, 4)))[2:] == (0, 0)


def test_stores_by_two_names_keep_their_order() -> None:
    def twice(x, out):
        for t in tfl.tile(x.size(0)):
            x[t, 0] = 1.0
            out[t, 0] = 2.0
            x[t, 1] = 3.0

    x = torch.zeros(300, 4)
    assert counts(region(twice, x, torch.zeros(300, 4))) == (0, 2, 0, 1)
    assert counts(region(twice, x, x.view(300, 4))) == (0, 3, 0, 0)


def test_lanes_of_memory_that_is_loaded_and_stored_stay_apart() -> None:
    """One is stored where two were loaded: a barrier would stand between what is one lane's."""

    def summed(x):
        for t in tfl.tile(x.size(0)):
            x[t, 0] = x[t, 0] + x[t, 1]

    ir = tileflow.kernel(summed).lower((meta(300, 4),), H200)
    assert counts(ir.regions[0]) == (2, 1, 0, 0)
    assert "debug_barrier" not in ir.emit(ir.default)[0].text


def test_places_of_runs_stay_as_they_are() -> None:
    def looked_up(x, table, out):
        for t in tfl.tile(x.size(0)):
            out[t] = table[x[t, 0]] + table[x[t, 1]]

    places = meta(300, 2, dtype=torch.int64)
    assert counts(region(looked_up, places, meta(50), meta(300))) == (4, 1, 0, 0)


def test_a_tile_of_many_elements_stays_as_it_is() -> None:
    def halved(x, out):
        for t in tfl.tile(x.size(0), block_size=1):
            out[t, :, 0], out[t, :, 1] = x[t, :, 0] / 2, x[t, :, 1] / 2

    assert counts(region(halved, meta(3, 1 << 13, 2), meta(3, 1 << 13, 2))) == (1, 1, 1, 1)
    assert counts(region(halved, meta(3, 1 << 15, 2), meta(3, 1 << 15, 2))) == (2, 2, 0, 0)


def test_products_stay_as_they_are() -> None:
    def product(x, y, out):
        for t in tfl.tile(x.size(0)):
            out[t, :] = (x[t, :, 0] + x[t, :, 1]) @ y[:, :]

    ir = region(product, meta(300, 64, 2), meta(64, 64), meta(300, 64))
    assert counts(ir)[2:] == (0, 0)


# ---- what follows -------------------------------------------------------------------------------


def test_a_loop_over_a_row_loads_pairs() -> None:
    ir = of_case("reduced")
    sites = list(rollable(ir))
    assert all(dim.extent.constant == 200 for dim in rollable(ir).values())
    rolled = roll(ir, sites[0])
    loads = [op for op in rolled.walk() if op.kind is OpKind.LOAD]
    assert loads and all(op.output.dims[-1].extent.constant == 2 for op in loads)
    assert all(op.output.dims[1].tile is not None for op in loads)


def test_four_beside_a_whole_dimension_are_two_pairs() -> None:
    """No loop over the dimension has blocks of the reshape that would take four apart."""

    def summed(x, out):
        for t in tfl.tile(x.size(0)):
            a, b, c, d = (x[t, :, i] for i in range(4))
            out[t] = (a * b - c * d).sum(1)

    ir = region(summed, meta(300, 200, 4), meta(300))
    assert counts(ir) == (2, 1, 2, 0) and list(rollable(ir)) == ["reduce:sum#0"]


def test_registers_hold_the_halves() -> None:
    """The whole takes no registers beside them, so that as many tiles are alive as without."""
    ir = of_case("centred")
    assert len(on_the_way(ir)) == 4 + 4
    assert live_tiles(ir) == 7


def test_stores_are_no_longer_woven() -> None:
    """Blocks had 2 KiB of what several stores wrote, since each wrote half of each sector."""
    ir = region(copy, meta(1 << 20, 2), meta(1 << 20, 2))
    (block,) = [b.name for b in ir.blocks]
    assert woven_limits(ir, {block: 4096}) == {}


def test_two_bytes_are_no_word() -> None:
    """As one access they took 1.09 of the time of two (a picture's blocks, H100)."""
    (ir,) = tileflow.kernel(copy).lower((meta(1 << 20, 2, dtype=torch.uint8),) * 2, H200).regions
    assert not [op for op in ir.walk() if op.kind in (OpKind.SPLIT, OpKind.JOIN)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_instructions_are_wide(dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread loads and stores a pair at once, without a detour through shared memory."""
    triton = pytest.importorskip("triton")
    from tileflow.build.compile import build

    for name in ("TILEFLOW_CACHE", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    texts = list[str]()
    compile_ = triton.compile

    def kept(*args: Any, **options: Any) -> Any:
        made = compile_(*args, **options)
        texts.append(made.asm["ptx"])
        return made

    monkeypatch.setattr(triton, "compile", kept)
    lowered = tileflow.kernel(copy).lower((meta(1 << 20, 2, dtype=dtype), meta(1 << 20, 2, dtype=dtype)), H200)
    build(lowered.emit(lowered.default)[0], H200)
    (text,) = texts
    wide = {2: ".b32", 4: ".v2.b32", 8: ".v2.b64"}[dtype.itemsize]
    accesses = [line for line in text.splitlines() if "ld.global" in line or "st.global" in line]
    assert accesses and all(wide in line for line in accesses), accesses
    assert "ld.shared" not in text and "st.shared" not in text
