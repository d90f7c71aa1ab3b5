"""Mistakes that kernel authors make: the class of the error, and that it points at the line and the column.

The functions are in the modules of ``tile_testing.mistakes``: each has a mistake, on the line that ends with ``# <-``.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.mistakes.table import H200, MISTAKES, X
from tile_testing.traced import traced

import tileflow
import tileflow.language as tfl
from tileflow.errors import (
    CallError,
    ConfigError,
    HostDataError,
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
