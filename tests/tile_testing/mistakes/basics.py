"""Mistakes of every kind, a few each: what device code may hold, operations, shapes, indices, scopes, captures."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.mistakes.table import V, X, meta, mistake
from tileflow.errors import (
    HostDataError,
    MissingAttribute,
    ShapeError,
    SplitError,
    TraceError,
    UnsupportedOp,
)

# ---- what device code may hold ------------------------------------------------------------------


@mistake(SplitError, "break out of a tile loop", "break")
def break_of_a_tile_loop(x):
    for tile in tfl.tile(x.size(0)):
        for tile_n in tfl.tile(x.size(1)):
            x[tile, tile_n] = 0
            break  # <-


@mistake(SplitError, "return", "return")
def return_from_a_tile_loop(x):
    for _ in tfl.tile(x.size(0)):
        return  # <-


@mistake(SplitError, "with", "with")
def with_in_a_tile_loop(x):
    for tile in tfl.tile(x.size(0)):
        with torch.no_grad():  # <-
            x[tile, :] = 0


@mistake(SplitError, "total is read and assigned by the iterations", "total")
def carried_by_the_grid(x):
    total = 0.0
    for tile in tfl.tile(x.size(0)):
        total = total + x[tile, :].sum()  # <-


@mistake(SplitError, "host code cannot read row", "row")
def result_of_the_grid(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
    return row  # <-


@mistake(SplitError, "a tile loop of host code must be a for statement", "tfl.tile")
def loop_in_a_comprehension(x):
    return [tile.id for tile in tfl.tile(x.size(0))]  # <-


@mistake(TraceError, "launches at least one tile loop", "def")
def no_loop_at_all(x):  # <-
    return x + 1


@tileflow.kernel
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    return out


@mistake(TraceError, ("launches at least one tile loop", "that calls kernels alone has no @tileflow.kernel"), "def")
def kernels_alone(x):  # <-
    return doubled(doubled(x))


# ---- operations ---------------------------------------------------------------------------------


@mistake(UnsupportedOp, "torch.fft.rfft", "torch.fft")
def unsupported_function(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.fft.rfft(x[tile, :])  # <-


@mistake(UnsupportedOp, ("torch.linalg.qr", "call it in host code"), "torch.linalg.qr(x")
def function_of_a_family(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.linalg.qr(x[tile, :])[0]  # <-


@mistake(MissingAttribute, ".igamma", "x[tile, :].igamma")
def missing_method(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :].igamma()  # <-


@mistake(
    MissingAttribute, ("a captured tensor is read in a tile loop", "take the view before the loop"), "x.contiguous"
)
def copy_of_a_tensor_inside_the_loop(x):
    flat = 0
    for tile in tfl.tile(x.size(0)):
        flat = x.contiguous()  # <-
        x[tile, 0] = flat[tile, 0]


@mistake(MissingAttribute, "a captured tensor is read in a tile loop by indexing it", "x.sum")
def method_of_a_captured_tensor(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x.sum(1)  # <-


@mistake(TraceError, "a captured tensor is read in a tile loop by indexing it", "x[tile, :] + v", X, V)
def captured_tensor_as_operand(x, v):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :] + v  # <-


@mistake(
    TraceError,
    "index the tensor once, w[i, rows, columns] for w[i][rows, columns]",
    "w[1][tile",
    meta(3, 40, 64),
)
def index_behind_an_index(w: torch.Tensor) -> None:
    for tile in tfl.tile(w.size(1)):
        w[0, tile, 0] = w[1][tile.index, tile.index + 1]  # <-


@mistake(TraceError, ("got (bool, tile, float)", "starts as a tile: tfl.full([], 0.0)"), "torch.where")
def choice_by_a_number_that_a_loop_carries(x: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        peak = 0.0
        for inner in tfl.tile(x.size(1)):
            peak = torch.where(peak > 0, x[tile, inner].amax(1), 0.0)  # <-
        x[tile, 0] = peak


@mistake(TraceError, "of a tile and a number: torch.clamp(x, min=0); of a scalar of the kernel: max", "torch.maximum")
def number_for_a_tensor(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = torch.maximum(x[tile, :], 0.0)  # <-


@mistake(TraceError, "torch.logspace, which makes a tensor", "torch.logspace(0, 1, 5)")
def tensor_made_in_device_code(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :5] = x[tile, :5] + torch.logspace(0, 1, 5)  # <-


@mistake(TraceError, "a kernel's tensors do not require grad, but got norm.attr:weight", "norm(x[tile, :])")
def weights_of_a_module(x):
    norm = torch.nn.LayerNorm(x.size(1), device="meta")
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = norm(x[tile, :])  # <-


@mistake(TraceError, "torch.where(mask, x, 0) keeps the shape", "row[row > 0]")
def boolean_mask(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        x[tile, :] = row[row > 0]  # <-


@mistake(TraceError, "torch.bitwise_and takes ints and bools", "x[tile, :] & 1")
def dtype_that_torch_refuses(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :] & 1  # <-


@mistake(TraceError, "mean takes a floating tile", "torch.mean", meta(64, 96, dtype=torch.int32))
def mean_of_ints(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = torch.mean(x[tile, :], 1)  # <-


@mistake(TraceError, "a power of ints", "x[tile, :] ** x[tile, :]", meta(64, 96, dtype=torch.int32))
def power_of_int_tiles(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :] ** x[tile, :]  # <-


@mistake(TraceError, "one dtype", "torch.addmm", X, meta(96, 64, dtype=torch.bfloat16))
def product_of_two_dtypes(x, y):
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])  # <-
        x[tile_m, tile_n] = acc


@mistake(ShapeError, "the inner dimensions of a matrix product agree", "x[tile_m, :] @ x[tile_m, :]")
def product_that_does_not_fit(x):
    for tile_m in tfl.tile(x.size(0)):
        x[tile_m, tile_m] = x[tile_m, :] @ x[tile_m, :]  # <-


# ---- shapes -------------------------------------------------------------------------------------


@mistake(ShapeError, "dimensions that meet must have the same size", "x[tile_m, :] + x[:, tile_n]")
def shapes_that_do_not_meet(x):
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        x[tile_m, tile_n] = x[tile_m, :] + x[:, tile_n]  # <-


@mistake(ShapeError, "tiles of two different loops never meet", "x[tile_m, 0] + x[tile_k, 0]")
def tiles_of_two_loops(x):
    block = tfl.register_block_size(16)
    for tile_m in tfl.tile(x.size(0), block_size=block):
        for tile_k in tfl.tile(x.size(0), block_size=block):
            x[tile_m, 0] = x[tile_m, 0] + x[tile_k, 0]  # <-


@mistake(ShapeError, "must not run past the end", "x[tile, :]")
def tile_past_the_end(x):
    for tile in tfl.tile(x.size(1)):
        x[tile, :] = 0  # <-


@mistake(ShapeError, "one element for each lane of tile: x[tile.index, y[tile]]", "out[tile]", X, V)
def all_pairs_for_one_each(x, out):
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile, tile.index * 0 + 1]  # <-


@mistake(ShapeError, "one element for each lane of tile: x[tile.index[:, None], y[tile, :]]", "out[tile, :]", X, X)
def all_pairs_for_one_each_of_rows(x, out):
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, torch.argsort(x[tile, :], 1)]  # <-


@mistake(ShapeError, "one element for each lane of tile: out[tile.index[:, None], y[tile, :]]", "out[tile, ", X, X)
def pairs_of_rows_stored_for_one_each(x, out):
    for tile in tfl.tile(x.size(0)):
        out[tile, torch.argsort(x[tile, :], 1)] = x[tile, :]  # <-


@mistake(ShapeError, "a stored tile must broadcast to the index", "x[tile, 0]")
def stored_rank(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x[tile, :]  # <-


@mistake(ShapeError, "has at most 2 items", "x[tile, 0, 0]")
def too_many_indices(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x[tile, 0, 0]  # <-


@mistake(TraceError, "a reshape in registers changes dimensions of constant sizes", "x[tile, :].reshape")
def reshape_that_splits_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x[tile, :].reshape(-1).sum()  # <-


@mistake(ShapeError, "the -1 of a reshape must come out even", "x[tile, :].reshape", meta(64, 16))
def reshape_of_other_sizes(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x[tile, :].reshape(tile, 3, -1).sum(2).sum(1)  # <-


@mistake(ShapeError, "a reduction's dim must lie in", "x[tile, :].sum")
def dim_out_of_range(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x[tile, :].sum(2)  # <-


# ---- indices ------------------------------------------------------------------------------------


@mistake(TraceError, "a tile of indices holds ints", "x[tile, :][mask]")
def bool_mask_on_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        mask = x[tile, 0] > 0
        x[tile, :] = x[tile, :][mask]  # <-


@mistake(TraceError, "a tile of indices holds ints", "x[x[tile, 0] > 0, 0]")
def bool_mask_on_a_tensor(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x[x[tile, 0] > 0, 0]  # <-


@mistake(TraceError, "a slice in device code has a step of 1 or more", "x[tile, ::-1]")
def slice_with_a_step(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x[tile, ::-1].sum(1)  # <-


@mistake(TraceError, "cannot be assigned to by index", "row[:, None]")
def assignment_into_registers(x):
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        row[:, None] = 0  # <-


# ---- scopes, branches and carried values --------------------------------------------------------


@mistake(TraceError, ("keeps its length", "but got parts with 1 in place of 0"), "for tile_n in tfl.tile")
def tiles_in_a_list(x):
    for tile in tfl.tile(x.size(0)):
        parts = []
        for tile_n in tfl.tile(x.size(1)):  # <-
            parts.append(x[tile, tile_n].sum(1))
        x[tile, 0] = parts[0] + 1


@mistake(TraceError, "an if in device code takes a scalar", "if x[tile, 0] > 0")
def if_on_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        if x[tile, 0] > 0:  # <-
            x[tile, 0] = 0


@mistake(TraceError, ("no Python length", "x.size(0) is how many"), "len")
def length_of_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = len(x[tile, 0])  # <-


@mistake(TraceError, "list indices must be integers", "[0.0, 1.0]")
def tile_as_a_python_index(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = [0.0, 1.0][x[tile, :].sum()]  # <-


@mistake(TraceError, ("ends for all lanes of a program at once", "(condition).any()"), "n > 0")
def while_on_a_tile(x):
    for tile in tfl.tile(x.size(0)):
        n = x[tile, :].sum(1)
        while n > 0:  # <-
            n = n - 1


@mistake(TraceError, "assigned on every way", "y")
def assigned_in_one_branch(x):
    for tile in tfl.tile(x.size(0)):
        if tile.begin == 0:
            y = x[tile, 0]
        x[tile, 0] = y  # <-


@mistake(TraceError, "keeps its number of dimensions", "for tile_n")
def carried_rank(x):
    for tile in tfl.tile(x.size(0)):
        acc = tfl.zeros([tile])
        for tile_n in tfl.tile(x.size(1)):  # <-
            acc = acc[:, None] + x[tile, tile_n]
        x[tile, 0] = acc


@mistake(TraceError, "a block size has no Python number", "tile.block_size > 4")
def block_size_in_python(x):
    for tile in tfl.tile(x.size(0)):
        assert tile.block_size > 4  # <-


# ---- captures -----------------------------------------------------------------------------------


@mistake(TraceError, "do not require grad", "for tile", torch.empty(64, 96, requires_grad=True))
def tensor_that_requires_grad(x):
    for tile in tfl.tile(x.size(0)):  # <-
        x[tile, :] = 0


@mistake(HostDataError, "may not read values", "x.max().item", meta(64, dtype=torch.int32))
def host_code_that_reads(x):
    n = x.max().item()  # <-
    for tile in tfl.tile(n):
        x[tile] = 0
