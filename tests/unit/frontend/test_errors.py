"""Mistakes that kernel authors make: the class of the error, and that it points at the line and the column.

Each function below, and in the modules of ``tile_testing.mistakes``, has one, on the line that ends with ``# <-``.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.mistakes.table import H200, MISTAKES, V, X, meta, mistake
from tile_testing.traced import traced

import tileflow
import tileflow.language as tfl
from tileflow.errors import (
    CallError,
    ConfigError,
    HostDataError,
    InternalError,
    KernelError,
    Location,
    MissingAttribute,
    ShapeError,
    SplitError,
    TileflowError,
    TraceError,
    UnsupportedOp,
)
from tileflow.frontend.torch_registry import nearest
from tileflow.target import target

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


@mistake(MissingAttribute, ("a captured tensor is read in a tile loop", "take the view before the loop"), "x.view")
def view_of_a_tensor_inside_the_loop(x):
    flat = 0
    for tile in tfl.tile(x.size(0)):
        flat = x.view(-1)  # <-
        x[tile, 0] = flat[tile]


@mistake(MissingAttribute, "a captured tensor is read in a tile loop by indexing it", "x.sum")
def method_of_a_captured_tensor(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, 0] = x.sum(1)  # <-


@mistake(TraceError, "a captured tensor is read in a tile loop by indexing it", "x[tile, :] + v", X, V)
def captured_tensor_as_operand(x, v):
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :] + v  # <-


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


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str) -> None:
    case = MISTAKES[name]
    with pytest.raises(TileflowError) as caught:
        tileflow.kernel(case.function).lower(case.args, H200, mode=case.mode)
    error = caught.value
    assert type(error) is case.error, error
    assert all(part in str(error) for part in case.says), error
    where = error.where
    assert isinstance(where, Location), error
    assert where.file == case.function.__code__.co_filename
    with open(where.file) as source:
        line = source.read().splitlines()[where.line - 1]
    assert line.rstrip().endswith("# <-"), f"line {where.line}: {line}"
    assert line[where.column :].startswith(case.caret), f"caret at {line[where.column :]!r}"
    assert str(error).count("^") == 1 and line.strip() in str(error)
    assert error.hint or error.got is not None or isinstance(error, SplitError)


def test_there_are_enough() -> None:
    assert len(MISTAKES) >= 180
    assert {m.error for m in MISTAKES.values()} == {
        SplitError, TraceError, UnsupportedOp, ShapeError, MissingAttribute, HostDataError, KernelError, CallError,
    }  # fmt: skip


def test_a_missing_method_is_an_attribute_error() -> None:
    """So that ``hasattr`` and ``getattr`` with a default keep their meaning."""

    @tileflow.kernel
    def guarded(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            row = x[tile, :]
            x[tile, :] = row.nonsense() if hasattr(row, "nonsense") else getattr(row, "other", 1.0)
        return x

    assert guarded.lower((X,), H200).regions


def test_unsupported_functions_name_what_is_near() -> None:
    def near(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = F.gumbel_softmax(x[tile, :], dim=1)

    with pytest.raises(UnsupportedOp, match=r"near it: .*softmax"):
        tileflow.kernel(near).lower((X,), H200)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("kron", ".reshape("),
        ("diagflat", "torch.diag_embed"),
        ("qr", "in host code"),
        ("igamma", "docs/reference/language.md lists"),
        ("allclose", "torch.isclose(a, b).all()"),
        ("gumbel_softmax", "near it: log_softmax, softmax"),
        ("frobenius_norm", "docs/reference/language.md lists"),
        ("softmx", "near it: softmax"),
        ("exp_", "x = x.exp(...)"),
    ],
)
def test_what_is_near_another_function_means_the_like(name: str, says: str) -> None:
    """Functions of torch's were answered by whatever is spelled alike: qr by sqrt, kron by erf."""
    assert says in nearest(name)


A, B = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
SCALARS = {"n": 3, "m": 2, "p": 4, "q": 3}


@pytest.mark.parametrize(
    ("name", "operands", "wanted"),
    [
        ("kron", {"a": A[:2], "b": B, **SCALARS, "n": 3}, torch.kron(A[:2], B)),
        ("diagflat", {"x": A[0]}, torch.diagflat(A[0])),
        ("addr", {"x": A, "a": A[:, 0], "b": B[0]}, torch.addr(A, A[:, 0], B[0])),
        ("chain_matmul", {"a": A, "b": B.T, "c": A}, A @ B.T @ A),
    ],
)
def test_what_to_write_for_a_function_is_the_same(name: str, operands: dict[str, Any], wanted: Any) -> None:
    hint = nearest(name)
    torch.testing.assert_close(eval(hint, {"torch": torch, "F": F, **operands}), wanted)
    assert traced(hint, operands).ndim == wanted.ndim


def test_a_host_assertion_under_a_config_is_the_configs_fault() -> None:
    @tileflow.kernel
    def halves(x: torch.Tensor) -> torch.Tensor:
        block = tfl.register_block_size(64)
        assert block <= 32, "blocks of up to 32"
        for tile in tfl.tile(x.size(0), block_size=block):
            x[tile, :] = 0
        return x

    lowered = halves.lower((X,), H200)
    assert lowered.emit(lowered.space.repair(lowered.default.with_({"block:block": 16})))
    with pytest.raises(ConfigError, match="blocks of up to 32"):
        lowered.emit(lowered.default.with_({"block:block": 64}))


# ---- mistakes of a call -------------------------------------------------------------------------


@tileflow.kernel
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + y[tile]
    return out


@tileflow.kernel
def fixed(x: torch.Tensor, n: tfl.constexpr) -> torch.Tensor:
    for tile in tfl.tile(x.numel()):
        x[tile] = 1
    return x


@tileflow.kernel
def foreign(x: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.numel()):
        x[tile] = tfl.inline_triton("tl.exp({0})", (x[tile],), x[tile])
    return x


ROW = torch.ones(20)


@pytest.mark.parametrize(
    ("kernel", "args", "says"),
    [
        (add, (ROW,), "missing a required argument: 'y'"),
        (add, (ROW, ROW, ROW), "too many positional arguments"),
        (add, (1, 2), "no tensor\n  pass at least one tensor"),
        (add, (ROW, torch.empty(20, device="meta")), "are on one device, but got"),
        (add, (ROW.clone().requires_grad_(), ROW), "pair it with a backward by tileflow.differentiable"),
        (add, (ROW, object()), "but got y of type object"),
        (fixed, (ROW, [1]), "unhashable type: 'list'"),
        (fixed, (ROW, ROW), "annotate the parameter torch.Tensor"),
    ],
)
def test_a_call_that_cannot_be(kernel: Any, args: tuple[Any, ...], says: str) -> None:
    with pytest.raises(CallError) as caught:
        kernel(*args)
    assert says in str(caught.value) and caught.value.hint


def test_inline_triton_without_a_reference_has_no_meaning_as_python() -> None:
    with pytest.raises(CallError, match="give it one: reference="):
        foreign.run_eagerly(ROW)


@pytest.mark.parametrize("name", ["rand", "zeros", "tile", "register_block_size", "atomic_add"])
def test_the_language_outside_a_kernel(name: str) -> None:
    args = {"rand": ([3], 1), "atomic_add": (ROW, [0], 1)}.get(name, (3,))
    with pytest.raises(CallError, match=r"works inside a @tileflow\.kernel function only"):
        list(getattr(tfl, name)(*args))


def test_configs_that_cannot_be() -> None:
    lowered = add.lower((meta(20), meta(20)), H200)
    with pytest.raises(ConfigError, match=r"'blok'\n  the knobs are block:tile, "):
        lowered.emit(lowered.default.with_({"blok": 3}))
    with pytest.raises(ConfigError, match=r"block:tile must be one of \[.*\], but got 3"):
        lowered.emit(lowered.default.with_({"block:tile": 3}))


def test_a_dtype_that_the_target_lacks() -> None:
    @tileflow.kernel
    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(64, 64, device=x.device)
        for tile_m, tile_n in tfl.tile([64, 64]):
            out[tile_m, tile_n] = tfl.dot(x[tile_m, :], y[:, tile_n])
        return out

    args = meta(64, 96, dtype=torch.float8_e4m3fn), meta(96, 64, dtype=torch.float8_e4m3fn)
    lowered = product.lower(args, target("nvidia-a100"))
    with pytest.raises(ConfigError, match="float8_e4m3fn needs sm_89 or newer; nvidia-a100 is sm_80"):
        lowered.emit(lowered.default)


def test_a_kernel_without_source() -> None:
    names: dict[str, Any] = {"tfl": tfl}
    exec("def typed_in(x):\n    for tile in tfl.tile(4):\n        x[tile] = 0\n", names)
    with pytest.raises(KernelError, match=r"define it in a \.py file"):
        tileflow.kernel(names["typed_in"])


def test_a_recursive_function_that_ends() -> None:
    def power(value: Any, n: int) -> Any:
        return value * power(value, n - 1) if n > 0 else 1.0

    @tileflow.kernel
    def cubes(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            x[tile] = power(x[tile], 3) * count_down(2)
        return x

    assert cubes.lower((V,), H200).regions


def count_down(n: int) -> int:
    return 1 + count_down(n - 1) if n > 0 else 0


# ---- mistakes of ours ---------------------------------------------------------------------------


def test_an_internal_error_names_the_operation_and_asks_for_the_repro(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow.emit.table import TRITON

    def broken(emitter: Any, op: Any) -> None:
        raise KeyError("nothing")

    lowered = add.lower((meta(20), meta(20)), H200)
    monkeypatch.setitem(TRITON, "pointwise", broken)
    with pytest.raises(InternalError, match="the operation pointwise") as caught:
        lowered.emit(lowered.default)
    assert "kernel.repro" in caught.value.hint and "KeyError: 'nothing'" in str(caught.value)
    assert isinstance(caught.value.where, Location) and "x[tile] + y[tile]" in caught.value.where.text


def test_a_handler_that_breaks_is_an_internal_error_at_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow.frontend import torch_registry

    ours: dict[str, Any] = {"__name__": "tileflow.frontend.broken"}
    exec("def broken(tracer, x):\n    return {}[0]\n", ours)
    monkeypatch.setitem(torch_registry.METHODS, "exp", ours["broken"])

    @tileflow.kernel
    def exponentials(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            x[tile] = x[tile].exp()
        return x

    with pytest.raises(InternalError, match="KeyError: 0") as caught:
        exponentials.lower((V,), H200)
    assert isinstance(caught.value.where, Location) and ".exp()" in caught.value.where.text
