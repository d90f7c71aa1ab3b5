"""Products of ragged groups: ones with a warp-specialised schedule, and ones that are refused."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from examples.grouped_matmul import inputs
from tileflow.api import Kernel

T = torch.Tensor


@tileflow.kernel
def biased(x: T, y: T, offsets: T, bias: T, scale: T) -> T:
    """An epilogue with a row of the group's, loaded once a group, and a number a row."""
    out = torch.empty(x.size(0), y.size(2), dtype=x.dtype, device=x.device)
    for tile_g, tile_n in tfl.tile([y.size(0), y.size(2)], block_size=[1, None]):
        group = tile_g.begin
        of_group = bias[group, tile_n]
        for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
            out[tile_m, tile_n] = torch.relu(acc * scale[tile_m][:, None] + of_group)
    return out


@tileflow.kernel
def activated(x: T, y: T, offsets: T) -> T:
    out = torch.empty(x.size(0), y.size(2), dtype=torch.float32, device=x.device)
    for tile_g, tile_n in tfl.tile([y.size(0), y.size(2)], block_size=[1, None]):
        group = tile_g.begin
        for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
            out[tile_m, tile_n] = torch.nn.functional.gelu(acc)
    return out


@tileflow.kernel
def rows_then_bias(x: T, y: T, offsets: T, places: T) -> T:
    """Rows go back to where the router took them from."""
    out = torch.empty(x.size(0), y.size(2), dtype=x.dtype, device=x.device)
    for tile_g, tile_n in tfl.tile([y.size(0), y.size(2)], block_size=[1, None]):
        group = tile_g.begin
        for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
            out[places[tile_m], tile_n] = acc
    return out


@tileflow.kernel
def gathered(x: T, y: T, offsets: T, places: T) -> T:
    """Rows are read by number."""
    out = torch.empty(x.size(0), y.size(2), dtype=x.dtype, device=x.device)
    for tile_g, tile_n in tfl.tile([y.size(0), y.size(2)], block_size=[1, None]):
        group = tile_g.begin
        for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[places[tile_m], tile_k], y[group, tile_k, tile_n])
            out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def counted(x: T, y: T, offsets: T) -> T:
    """A group's blocks add to something together."""
    out = torch.empty(x.size(0), y.size(2), dtype=x.dtype, device=x.device)
    most = torch.empty(y.size(0), y.size(2), dtype=torch.float32, device=x.device)
    for tile_g, tile_n in tfl.tile([y.size(0), y.size(2)], block_size=[1, None]):
        group = tile_g.begin
        seen = tfl.zeros([tile_n])
        for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
            out[tile_m, tile_n] = acc
            seen = torch.maximum(seen, acc.amax(0))
        most[group, tile_n] = seen
    return most


@tileflow.kernel
def over_columns(x: T, y: T, offsets: T) -> T:
    """What is stored depends on other rows of the block, which may be another group's."""
    out = torch.empty(x.size(0), y.size(2), dtype=x.dtype, device=x.device)
    for tile_g, tile_n in tfl.tile([y.size(0), y.size(2)], block_size=[1, None]):
        group = tile_g.begin
        for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
            out[tile_m, tile_n] = acc - acc.amax(0)
    return out


@tileflow.kernel
def chosen(x: T, y: T, offsets: T) -> T:
    """A branch says where the group begins."""
    out = torch.empty(x.size(0), y.size(2), dtype=x.dtype, device=x.device)
    for tile_g, tile_n in tfl.tile([y.size(0), y.size(2)], block_size=[1, None]):
        group = tile_g.begin
        begin = offsets[group]
        if begin > 100:
            begin = offsets[group] + 8
        for tile_m in tfl.tile(begin, offsets[group + 1]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
            out[tile_m, tile_n] = acc
    return out


REFUSED = (
    (chosen, "follows from numbers alone"),
    (gathered, "boxes of their tensors, or of copies"),
    (counted, "nothing to do with one another"),
    (over_columns, "no reduction goes over"),
)


def args_of(kernel: Kernel) -> tuple[Any, ...]:
    """Arguments on no device."""
    more = {
        biased: (torch.empty(8, 256, device="meta"), torch.empty(512, device="meta")),
        rows_then_bias: (torch.empty(512, dtype=torch.int32, device="meta"),),
        gathered: (torch.empty(512, dtype=torch.int32, device="meta"),),
    }
    return (*inputs(8, 512, 256, 128, device="meta"), *more.get(kernel, ()))
