"""Which loops' turns several programs may share, and why others' may not."""

from __future__ import annotations

import pytest
from tile_testing.kernels import spread_kernels as kernels

from tileflow.api import Kernel
from tileflow.config import Config
from tileflow.errors import InternalError
from tileflow.ir.attributes import TileAttrs
from tileflow.ir.graph import KernelIR
from tileflow.ir.kinds import OpKind
from tileflow.ir.verify import verify
from tileflow.lowered import Lowered
from tileflow.passes.spread import spread, spread_refusal, spreadable
from tileflow.target import target

H200 = target("nvidia-h200")
ROUTED = {"experts": 64, "m": 4096, "n": 1024, "k": 256}


def lowered(kernel: Kernel, **problem: int) -> Lowered:
    return kernel.lower(kernel.inputs(device="meta", **problem), H200)


def region(kernel: Kernel) -> KernelIR:
    problem = ROUTED if kernel is kernels.routed else {"b": 3, "m": 50, "n": 40}
    (ir,) = lowered(kernel, **problem).regions
    return ir


def why(kernel: Kernel) -> str:
    ir = region(kernel)
    (loop,) = (op for op in ir.walk() if op.kind is OpKind.FOR and TileAttrs.of(op).tile == "tile_m")
    return spread_refusal(ir, loop)


def test_loops_with_known_and_with_loaded_bounds() -> None:
    assert spreadable(region(kernels.routed)) == ("tile_m", "tile_n")
    assert spreadable(region(kernels.sums_of_rows)) == ("tile_m",)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (kernels.running, "it carries 1 values from turn to turn"),
        (kernels.overwritten, "store of out names elements that another turn writes, or may"),
        (kernels.read_again, "load of out names elements that another turn writes, or may"),
        (kernels.after_a_sum, "for outside it would be repeated by every program"),
        (kernels.beside_a_store, "store outside it would be done by every program"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_is_not_independent_is_refused_by_name(kernel: Kernel, reason: str) -> None:
    assert not spreadable(region(kernel)) and why(kernel) == reason
    with pytest.raises(InternalError, match=f"tile_m: {reason}"):
        spread(region(kernel), "tile_m", 4)


def test_the_region_has_an_axis_more() -> None:
    ir = spread(spread(region(kernels.routed), "tile_n", 4), "tile_m", 2)
    verify(ir, "spread")
    assert len(ir.grid) == 3 and ir.tiles["tile_n"].dealt == "tile_n.part" and not spreadable(ir)
    assert ir.hash != region(kernels.routed).hash


def test_it_is_chosen_where_programs_are_fewer_than_multiprocessors() -> None:
    """Issue 15: a routed product with a grid over 64 experts had 64 programs for 132 multiprocessors."""
    few = lowered(kernels.routed, **ROUTED)
    assert few.default["loop:tile_n.spread"] == 4 and few.default["loop:tile_m.spread"] == 1
    (source,) = few.emit(few.default)
    programs = 1
    for extent in source.grid:
        programs *= extent.evaluate({})
    assert programs == 64 * 4
    many = lowered(kernels.routed, **ROUTED | {"experts": 256})
    assert many.default["loop:tile_n.spread"] == many.default["loop:tile_m.spread"] == 1


def test_where_columns_are_too_few_rows_are_shared() -> None:
    narrow = lowered(kernels.routed, experts=8, m=4096, n=128, k=256)
    assert narrow.default["loop:tile_n.spread"] == 1 and narrow.default["loop:tile_m.spread"] == 32


def test_an_unspread_config_has_the_same_text_as_before() -> None:
    few = lowered(kernels.routed, **ROUTED)
    plain = few.default.with_({"loop:tile_n.spread": 1})
    (source,) = few.emit(plain)
    assert "part" not in source.code and source.grid[0].evaluate({}) == 64


def test_persistent_programs_are_not_spread() -> None:
    few = lowered(kernels.routed, **ROUTED)
    config: Config = few.space.normalise(few.default.with_({"persistent": 2}))
    assert config["loop:tile_n.spread"] == 1


def test_a_reduction_in_front_is_a_loop_or_the_turns_are_shared() -> None:
    """The default was both, and ended with an InternalError."""
    large, it = (lowered(kernels.behind_a_whole, b=8, m=m, n=512) for m in (512, 16))
    assert large.emit(large.default)
    sites = {"reduce:max#0": 0, "reduce:max#1": 0}
    for site in sites:
        for size, programs in ((0, 4), (8, 1)):
            config = it.space.normalise(it.default.with_({**sites, site: size, "loop:tile_m.spread": 4}))
            assert config["loop:tile_m.spread"] == programs
            assert it.emit(config)
