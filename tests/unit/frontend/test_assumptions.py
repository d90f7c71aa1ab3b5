"""What a trace takes for granted of sizes is guarded, and nothing else."""

from __future__ import annotations

import pytest
from tile_testing.regions import kinds, meta, region, total

import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.ir.graph import KernelIR


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


def test_products_of_what_loops_count_are_held_in_32_bits_as_far_as_each_launch_has_it() -> None:
    """Of run-time sizes the example's alone were looked at: 50000 turns kept the lower 32 bits of the products."""

    def counted(x):
        for tile in tfl.tile(x.size(0)):
            total = x[tile, 0]
            for i in range(x.size(1)):
                total = total + i * (x.size(1) - i)
            x[tile, 0] = total

    ir = region(counted, meta(100, 300), mode="dynamic")
    assert holds(ir, x_shape_1=40000, x_stride_0=40000)
    assert not holds(ir, x_shape_1=50000, x_stride_0=50000)
