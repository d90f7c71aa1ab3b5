"""What both executions refuse, they refuse in the same words at the same place: compiled, and as plain Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import Location, MissingAttribute, ShapeError, TileflowError, TraceError
from tileflow.target import target

IN_ORDER = "tiles that meet, and a tile and the index that it is stored to, have their dimensions in one order"
X = torch.arange(48.0).view(8, 6) - 20


def list_in_an_index(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 0:3] = x[t, [3, 5, 4]]  # <-


def list_of_rows(x, out):
    for t in tfl.tile(x.size(1)):
        out[0:3, t] = x[[3, 5, 4], t]  # <-


def list_of_host_code(x, out):
    columns = [3, 5, 4]
    for t in tfl.tile(x.size(0)):
        out[t, 0:3] = x[t, columns]  # <-


def list_in_the_index_of_a_store(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, [3, 5, 4]] = x[t, 0:3]  # <-


def list_in_a_load(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 0:3] = tfl.load(x, [t, [3, 5, 4]])  # <-


def list_in_the_index_of_a_tile(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 0:3] = x[t, :][:, [3, 5, 4]]  # <-


def list_that_counts_from_the_end(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 0:2] = x[t, [0, -1]]  # <-


def turned_where_it_is_stored(x, out):
    for a, b in tfl.tile([6, 6]):
        out[b, a] = x[a, b]  # <-


def turned_in_blocks_of_one_size(x, out):
    block = tfl.register_block_size(4)
    for a, b in tfl.tile([6, 6], block_size=[block, block]):
        out[b, a] = x[a, b]  # <-


def turned_beside_a_whole_dimension(x, out):
    for t in tfl.tile(6):
        out[0:6, t] = x[t, 0:6]  # <-


def turned_in_a_sum(x, out):
    for a, b in tfl.tile([6, 6]):
        out[a, b] = x[a, b] + x[b, a]  # <-


def stored_beyond_its_size(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, :] = x[t, 0:4]  # <-


def mask_as_an_index(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 0] = x[t, x[0, :] > 0].sum(1)  # <-


def mask_as_the_index_of_a_tile(x, out):
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        out[t, 0] = row[row > 0].sum()  # <-


def assignment_by_a_mask(x, out):
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        row[row < 0] = 0  # <-
        out[t, :] = row


def assignment_to_a_column(x, out):
    for t in tfl.tile(x.size(0)):
        row = x[t, :] * 2
        row[:, 0] = 0  # <-
        out[t, :] = row


def column_that_grows(x, out):
    for t in tfl.tile(x.size(0)):
        sums = tfl.zeros([t, 2])
        for k in range(x.size(1)):
            sums[:, k % 2] += x[t, k]  # <-
        out[t, :2] = sums


def part_that_grows_in_a_loop(x, out):
    for t in tfl.tile(x.size(0)):
        sums = tfl.zeros([t, 6])
        for k in tfl.tile(x.size(1)):
            sums[:, 0:2] *= x[t, k].sum(1)[:, None]  # <-
        out[t, :] = sums


def method_of_a_column_in_a_loop(x, out):
    for t in tfl.tile(x.size(0)):
        sums = tfl.zeros([t, 6])
        for k in tfl.tile(x.size(1)):
            sums[:, 0].add_(x[t, k].sum(1))  # <-
        out[t, :] = sums


def assignment_to_what_is_made(x, out):
    for t in tfl.tile(x.size(0)):
        row = tfl.zeros([t, 4])
        row[:, 0] = 1  # <-
        out[t, 0:4] = row


def store_through_a_view(x, out):
    for t in tfl.tile(x.size(0)):
        for k in tfl.grid(x.size(1)):
            out[t][:, k] = x[t, k]  # <-


def store_to_what_places_name(x, out):
    for i in tfl.tile(x.size(0)):
        out[i.index][:, 2:4] = x[i, 0:2]  # <-


def operator_of_a_part(x, out):
    for i in tfl.grid(x.size(0)):
        row = out[i]
        row[0] = x[i, 0]
        row += x[i]  # <-


def operator_of_a_part_that_is_read(x, out):
    for i in tfl.grid(x.size(0)):
        row = x[i]
        row += 1  # <-
        out[i, :] = row


def method_of_a_copy(x, out):
    for t in tfl.tile(x.size(0)):
        out[t.index, :].add_(x[t, :])  # <-


def filled_copy(x, out):
    for i in tfl.grid(x.size(0)):
        out[i, torch.arange(4)].zero_()  # <-


def computed_of_a_part(x, out):
    for i in tfl.grid(x.size(0)):
        row = out[i] * 2
        row[0] = x[i, 0]  # <-


def converted_part(x, out):
    for i in tfl.grid(x.size(0)):
        row = out[i].half()
        row[1:] = x[i, 1:]  # <-


def explicit_store_to_a_tile(x, out):
    for t in tfl.tile(x.size(0)):
        row = x[t, :] * 2
        tfl.store(row, [t, 0], x[t, 0])  # <-


def atomic_of_a_tile(x, out):
    for t in tfl.tile(x.size(0)):
        row = x[t, :] * 2
        tfl.atomic_add(row, [t, 0], x[t, 0])  # <-


def indices_that_do_not_meet(x, out):
    for t in tfl.tile(x.size(0)):
        a = torch.arange(3)
        b = torch.arange(4)[:, None].expand(4, 2)
        out[t, 0] = (
            x[t, 0]
            + x[  # <-
                a,
                b,
            ].sum()
        )


BIAS = torch.zeros(6)
TABLES = {"bias": BIAS}


def biased(row, tile):
    return row + BIAS[tile]  # <-


def biased_by_an_entry(row, tile):
    return row + TABLES["bias"][tile]  # <-


def added(row, bias, tile):
    return row + bias[tile]  # <-


def passes_on(row, tile):
    return added(row, BIAS, tile)


def summed(row, _):
    return row + BIAS.sum()  # <-


def by_its_size(row, _):
    return row * BIAS.size(0)  # <-


def stores(row, tile):
    BIAS[tile] = row  # <-
    return row


def changed_in_place(x, out):
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        out[t, :] = row.add_(1)  # <-


def cut_in_place(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, :] = (x[t, :] * 2).clamp_(min=0)  # <-


def into_a_tensor(x, out):
    for t in tfl.tile(x.size(0)):
        torch.add(x[t, :], 1, out=out[t, :])  # <-


def into_a_tile(x, out):
    for t in tfl.tile(x.size(0)):
        row = tfl.zeros([t, 6])
        torch.mul(x[t, :], x[t, :], out=row)  # <-
        out[t, :] = row


def number_that_grows(x, out):
    for t in tfl.tile(x.size(0)):
        total = x[0, 0]
        total += x[t, 1]  # <-
        out[t, 0] = total


def row_that_grows(x, out):
    for t in tfl.tile(x.size(0)):
        row = x[t, :].int().sum(1)
        row |= x[t, :].int()  # <-
        out[t, :] = row


def element_that_grows(x, out):
    for t in tfl.tile(x.size(0)):
        out[0, 0] *= x[t, 0]  # <-


OF_ITEMS = "an index is a tile, a slice, an int, a size or a tile of ints"
OF_TILES = "a tile in registers is indexed by slices, None, ints, and one tile of ints or several loops' tiles"
NO_OUT = "a tile is a value: a torch function in a tile loop gives its result, and takes no out="
KEPT = "a tile keeps its shape under an operator that assigns, as in torch"
ASSIGNED = "a tile in registers cannot be assigned to by index"
REACHES = "a tensor that reaches the kernel from outside"
OF_PARTS = "an operator that assigns gives a name another tile, where torch changes the tensor that it is a part of"
OF_COPIES = "a method changes in place what brackets name in memory, where torch has a view: by ints, slices and tiles"
LISTED = "torch.tensor([3, 5, 4])"
CASES: dict[Callable[..., Any], tuple[str, str]] = {
    list_in_an_index: (OF_ITEMS, LISTED),
    list_of_rows: (OF_ITEMS, LISTED),
    list_of_host_code: (OF_ITEMS, "torch.tensor("),
    list_in_the_index_of_a_store: (OF_ITEMS, LISTED),
    list_in_a_load: (OF_ITEMS, LISTED),
    list_in_the_index_of_a_tile: (OF_TILES, LISTED),
    list_that_counts_from_the_end: (OF_ITEMS, "counted from the start: -1 as x.size(dim) - 1"),
    mask_as_an_index: ("a tile of indices holds ints", "torch.where"),
    mask_as_the_index_of_a_tile: (OF_TILES, "torch.where(mask, x, 0)"),
    assignment_by_a_mask: (ASSIGNED, "x = torch.where(mask, value, x)"),
    assignment_to_a_column: (ASSIGNED, "torch.where(tfl.arange(x.size(1)) == 0, value, x)"),
    column_that_grows: (ASSIGNED, "x = torch.where("),
    part_that_grows_in_a_loop: (ASSIGNED, "torch.cat((value, x[..., n:]), -1)"),
    method_of_a_column_in_a_loop: (ASSIGNED, "torch.where(tfl.arange(x.size(1)) == 0, value[:, None], x)"),
    assignment_to_what_is_made: (ASSIGNED, "torch.where(tfl.arange(x.size(1)) == 0, value, x)"),
    store_through_a_view: (ASSIGNED, "store by one index, out[t, k] = x[t, k]"),
    store_to_what_places_name: (ASSIGNED, "store by one index, out[i.index, 2:4] = x[i, 0:2]"),
    operator_of_a_part: (OF_PARTS, "part[...] += value stores there"),
    operator_of_a_part_that_is_read: (OF_PARTS, "row = part + value"),
    method_of_a_copy: (OF_COPIES, "out[index] += value stores"),
    filled_copy: (OF_COPIES, "out[index] += value stores"),
    computed_of_a_part: (ASSIGNED, "x = torch.where(mask, value, x)"),
    converted_part: (ASSIGNED, "x = torch.where(mask, value, x)"),
    explicit_store_to_a_tile: (f"tfl.store writes to {REACHES}", "tfl.store(out, [tile], value)"),
    atomic_of_a_tile: (f"atomic_add updates {REACHES}", "tfl.atomic_add(out, [tile], 1)"),
    changed_in_place: ("a tile has torch's methods that tileflow implements", "assign it, x = x.add(...)"),
    cut_in_place: ("a tile has torch's methods that tileflow implements", "assign it, x = x.clamp(...)"),
    turned_where_it_is_stored: (IN_ORDER, "turn one of them: .T, or .permute(1, 0)"),
    turned_in_blocks_of_one_size: (IN_ORDER, "turn one of them: .T, or .permute(1, 0)"),
    turned_beside_a_whole_dimension: (IN_ORDER, "turn one of them: .T, or .permute(1, 0)"),
    turned_in_a_sum: (IN_ORDER, "turn one of them: .T, or .permute(1, 0)"),
    stored_beyond_its_size: ("dimensions that meet must have the same size", "shapes align at the right"),
    into_a_tensor: (NO_OUT, "y[tile] = torch.add(a, b)"),
    into_a_tile: (NO_OUT, "y[tile] = torch.add(a, b)"),
    number_that_grows: (KEPT, "write a = a + b, which gives the name another tile"),
    row_that_grows: (KEPT, "write a = a | b"),
    element_that_grows: (KEPT, "what a tensor takes has its index's shape: reduce it"),
    indices_that_do_not_meet: ("dimensions that meet must have the same size", "shapes align at the right"),
}


KINDS: dict[Callable[..., Any], type[TileflowError]] = {
    turned_where_it_is_stored: ShapeError,
    turned_in_blocks_of_one_size: ShapeError,
    turned_beside_a_whole_dimension: ShapeError,
    turned_in_a_sum: ShapeError,
    stored_beyond_its_size: ShapeError,
    indices_that_do_not_meet: ShapeError,
    number_that_grows: ShapeError,
    row_that_grows: ShapeError,
    element_that_grows: ShapeError,
    changed_in_place: MissingAttribute,
    cut_in_place: MissingAttribute,
}


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_both_say_the_same(function: Callable[..., Any], mode: str) -> None:
    """As plain Python a list was flattened into the index, tiles were assigned to, and errors had no place."""
    constraint, hint = CASES[function]
    kernel, args = tileflow.kernel(function), (X, torch.zeros(8, 6))
    with pytest.raises(TileflowError) as caught:
        if mode == "eager":
            kernel.run_eagerly(*args)
        else:
            kernel.lower(args, target("nvidia-h200"), mode=mode)
    error = caught.value
    assert type(error) is KINDS.get(function, TraceError)
    assert error.constraint == constraint and hint in error.hint
    lines, first = inspect.getsourcelines(function)
    assert isinstance(error.where, Location) and error.where.file == __file__
    assert error.where.line == first + next(n for n, line in enumerate(lines) if line.rstrip().endswith("# <-"))


GLOBALS: dict[Callable[..., Any], torch.Tensor] = {
    biased: X[0] + BIAS,
    biased_by_an_entry: X[0] + BIAS,
    passes_on: X[0] + BIAS,
    by_its_size: X[0] * 6,
    stores: X[0],
}


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
@pytest.mark.parametrize("function", GLOBALS, ids=lambda f: f.__name__)
def test_a_called_function_reads_and_stores_into_globals_of_its_module(function: Callable[..., Any], mode: str) -> None:
    """They were refused, as compiled code read the arguments and the kernel's own variables alone; the launch names
    where it finds them."""

    @tileflow.kernel
    def calls(x: torch.Tensor, out: torch.Tensor, then: Callable[..., Any]) -> None:
        for t in tfl.tile(x.size(1)):
            out[0, t] = then(x[0, t], t)

    out = torch.zeros(8, 6)
    if mode == "eager":
        before = BIAS.clone()
        calls.run_eagerly(X, out, function)
        assert torch.equal(out[0], GLOBALS[function])
        BIAS.copy_(before)
        return
    (ir,) = calls.lower((X, out, function), target("nvidia-h200"), mode=mode).regions
    used = "TABLES.key:bias" if function is biased_by_an_entry else "BIAS"
    assert {p.path for p in ir.tensors} - {"x", "out"} == {used}


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_called_function_reads_a_global_by_its_index(mode: str) -> None:
    @tileflow.kernel
    def calls(x: torch.Tensor, out: torch.Tensor) -> None:
        for t in tfl.tile(x.size(1)):
            out[0, t] = summed(x[0, t], t)

    with pytest.raises(TraceError, match="a captured tensor is read in a tile loop by indexing it") as caught:
        calls.lower((X, torch.zeros(8, 6)), target("nvidia-h200"), mode=mode)
    lines, first = inspect.getsourcelines(summed)
    assert isinstance(caught.value.where, Location)
    assert caught.value.where.line == first + next(n for n, line in enumerate(lines) if line.rstrip().endswith("# <-"))


def of_host_code(x, out):
    def biased(row):
        return row + BIAS[:]

    for t in tfl.tile(x.size(0)):
        out[t, :] = biased(x[t, :])


def lambda_of_host_code(x, out):
    biased = lambda row: row + TABLES["bias"][:]  # noqa: E731
    for t in tfl.tile(x.size(0)):
        out[t, :] = biased(x[t, :])


class Constants:
    bias = BIAS
    tables = (BIAS,)
    _own = torch.zeros(6)

    @staticmethod
    def added(row):
        return row + Constants.bias[:]

    @classmethod
    def listed(cls, row):
        return row + cls.tables[0][:]


def attribute_of_a_class(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, :] = x[t, :] + Constants.bias[:] if isinstance(x, torch.Tensor) else 0


def attribute_of_a_class_in_a_function(x, out):
    biased = lambda row: row + Constants.bias[:]  # noqa: E731
    for t in tfl.tile(x.size(0)):
        out[t, :] = biased(x[t, :])


def methods_of_a_class(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, :] = (Constants.added(x[t, :]) + Constants.listed(x[t, :])) / 2


def private_attribute_of_a_class(x, out):
    biased = lambda row: row + Constants._own[:]  # noqa: E731  # <-
    for t in tfl.tile(x.size(0)):
        out[t, :] = biased(x[t, :])


OF_HOST_CODE = [
    of_host_code,
    lambda_of_host_code,
    attribute_of_a_class,
    attribute_of_a_class_in_a_function,
    methods_of_a_class,
]


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
@pytest.mark.parametrize("function", OF_HOST_CODE, ids=lambda f: f.__name__)
def test_so_does_a_function_of_host_code(function: Callable[..., Any], mode: str) -> None:
    kernel, args = tileflow.kernel(function), (X, torch.zeros(8, 6))
    if mode == "eager":
        kernel.run_eagerly(*args)
        assert torch.equal(args[1], X + BIAS)
    else:
        assert kernel.lower(args, target("nvidia-h200"), mode=mode).regions


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
def test_a_function_of_host_code_reads_no_tensor_of_a_class(mode: str) -> None:
    kernel, args = tileflow.kernel(private_attribute_of_a_class), (X, torch.zeros(8, 6))
    with pytest.raises(TraceError, match="reads tensors that reach it as arguments or variables") as caught:
        if mode == "eager":
            kernel.run_eagerly(*args)
        else:
            kernel.lower(args, target("nvidia-h200"), mode=mode)
    lines, first = inspect.getsourcelines(private_attribute_of_a_class)
    assert isinstance(caught.value.where, Location) and "bias = Constants._bias" in caught.value.hint
    assert caught.value.where.line == first + next(n for n, line in enumerate(lines) if line.rstrip().endswith("# <-"))


def test_functions_inside_a_launch_read_what_it_reads() -> None:
    @tileflow.kernel
    def biased(x: torch.Tensor, out: torch.Tensor) -> None:
        for t in tfl.tile(x.size(0)):
            more = lambda row: row + BIAS[:]  # noqa: E731
            out[t, :] = more(x[t, :]) + sum([x[t, :] * BIAS[n] for n in range(2)])

    args = (X, torch.zeros(8, 6))
    biased.run_eagerly(*args)
    assert torch.equal(args[1], X)
    biased.lower(args, target("nvidia-h200"))


def test_a_function_reads_the_tensors_that_it_is_passed() -> None:
    """Also where they are globals of the kernel, or a closure's own."""

    @tileflow.kernel
    def calls(x: torch.Tensor, out: torch.Tensor, then: Callable[..., Any]) -> None:
        for t in tfl.tile(x.size(1)):
            out[0, t] = then(added(x[0, t], BIAS, t), t)

    bias, out = torch.arange(6.0), torch.zeros(8, 6)
    calls.run_eagerly(X, out, lambda row, tile: row + bias[tile])
    assert torch.equal(out[0], X[0] + bias)


def in_every_operator(x, out):
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        row += 1
        row -= 2
        row *= 3
        row /= 2
        row **= 2
        row //= 2
        row %= 7
        bits = row.int()
        bits &= 6
        bits |= 1
        bits ^= 2
        bits <<= 2
        bits >>= 1
        out[t, :] = row
        out[t, :] += bits


def test_an_operator_that_assigns_is_no_method_in_place() -> None:
    out, row = torch.zeros(8, 6), ((X - 1) * 3 / 2) ** 2 // 2 % 7
    tileflow.kernel(in_every_operator).run_eagerly(X.clone(), out)
    assert torch.equal(out, row + (((row.int() & 6 | 1) ^ 2) << 2 >> 1))
    assert tileflow.kernel(in_every_operator).lower((X, out), target("nvidia-h200")).regions


def listed(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, 0:3] = x[t, torch.tensor([3, 5, 4])]
        out[t, torch.tensor([3, 5, 4])] = x[t, :][:, torch.tensor([3, x.size(1) - 1, 4])]


def test_what_the_hint_of_a_list_says_runs() -> None:
    out, wanted = torch.zeros(8, 6), torch.zeros(8, 6)
    wanted[:, :3], wanted[:, [3, 5, 4]] = X[:, [3, 5, 4]], X[:, [3, -1, 4]]
    tileflow.kernel(listed).run_eagerly(X, out)
    assert torch.equal(out, wanted)
    for mode in ("static", "dynamic"):
        assert tileflow.kernel(listed).lower((X, out), target("nvidia-h200"), mode=mode).regions


def by_size(x, out):
    for t in tfl.tile(x.size(0)):
        out[t, :] = x[t, :] * {6: 2.0, 7: 3.0}[x.size(1)] + (1 if x.size(0) in {8, 9} else 5)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_size_is_found_in_dictionaries_and_sets(mode: str) -> None:
    """In dynamic mode nothing was found, without a word in a set; the size becomes a constant."""
    kernel = tileflow.kernel(by_size)
    (ir,) = kernel.lower((X, torch.zeros(8, 6)), target("nvidia-h200"), mode=mode).regions
    numbers = {v for op in ir.walk() for v in op.inputs if isinstance(v, (int, float))}
    assert {2.0, 1} <= numbers and 5 not in numbers
