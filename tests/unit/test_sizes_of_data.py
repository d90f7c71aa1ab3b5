"""Kernels in graphs whose sizes depend on data: rows that a mask takes, a number that a tensor holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import tileflow
import tileflow.language as tfl
from tileflow import kernels
from tileflow.library import Example

ROWS, WEIGHT = torch.randn(6, 8), torch.rand(8)
MASKS = (torch.arange(6) % 2 == 0, torch.ones(6, dtype=torch.bool), torch.zeros(6, dtype=torch.bool))


@tileflow.kernel
def sums(x: torch.Tensor) -> torch.Tensor:
    m, _ = x.shape
    out = torch.empty(m, device=x.device)
    for tile in tfl.tile(m):
        out[tile] = x[tile, :].sum(1)
    return out


@tileflow.kernel
def first(x: torch.Tensor, n: int) -> torch.Tensor:
    out = torch.empty(n, device=x.device)
    for tile in tfl.tile(n):
        out[tile] = x[tile] * 2
    return out


@tileflow.kernel
def times(x: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * factor
    return out


@pytest.fixture(autouse=True)
def _captured() -> Iterator[None]:
    torch.compiler.reset()
    options = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(options), tileflow.interpret():  # noqa: TID251  (documented, for all its name)
        yield


def normed(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return kernels.rms_norm(x[mask], WEIGHT)


def transposed(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Its strides depend on data too."""
    return sums(x.T[:, mask].T) + sums(x[mask].T.contiguous().T)


def loss(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    chosen = x[mask]
    labels = torch.zeros(chosen.shape[:1], dtype=torch.long)
    return kernels.linear_cross_entropy(chosen, WEIGHT.expand(5, 8), labels)


WANTED: dict[Callable[..., Any], Callable[..., Any]] = {
    normed: lambda x, mask: F.rms_norm(x[mask], (8,), WEIGHT, 1e-6),
    transposed: lambda x, mask: 2 * x[mask].sum(1),
    loss: lambda x, mask: F.cross_entropy(x[mask] @ WEIGHT.expand(5, 8).T, torch.zeros(int(mask.sum())).long()),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("fn", WANTED)
@pytest.mark.parametrize("has_grad", [False, True])
def test_rows_that_a_mask_takes(fn: Callable[..., Any], has_grad: bool, backend: str) -> None:
    """A CallError in words of u0, which said to call the kernel elsewhere. None of the rows, and all of them, too."""
    if has_grad and fn is transposed:
        pytest.skip("the kernel has no gradient")
    compiled = torch.compile(fn, fullgraph=True, backend=backend)
    for mask in MASKS:
        x, plain = (ROWS.clone().requires_grad_(has_grad) for _ in range(2))
        found, wanted = compiled(x, mask), WANTED[fn](plain, mask)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
        if has_grad:
            found.sum().backward()
            wanted.sum().backward()
            torch.testing.assert_close(x.grad, plain.grad, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_number_that_a_tensor_holds(backend: str) -> None:
    compiled = torch.compile(lambda x, n: first(x, n.item()) + 1, fullgraph=True, backend=backend)
    for n in (1, 4, 8):
        torch.testing.assert_close(compiled(WEIGHT, torch.tensor(n)), WEIGHT[:n] * 2 + 1)


def test_a_float_that_a_tensor_holds_is_refused_in_words() -> None:
    with pytest.raises(Exception, match=r"floats do not depend on data.*scale\[\(\)\]"):
        torch.compile(lambda x, s: times(x, s.item()), fullgraph=True, backend="eager")(WEIGHT, torch.tensor(2.0))


def test_a_kernel_that_asks_more_of_a_size_than_its_stand_in_has_says_so() -> None:
    def asks(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return first(x[mask], 4)  # rows that the compiler cannot know of

    with pytest.raises(Exception, match=r"takes 2 for each size that depends on data(.|\n)*from 0 up to 4 in a dimen"):
        torch.compile(asks, fullgraph=True, backend="eager")(WEIGHT, WEIGHT > -1)


def test_an_exported_program_is_loaded(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return normed(x, mask)

    program = torch.export.export(Model(), (ROWS, MASKS[0]))
    torch.export.save(program, tmp_path / "model.pt2", extra_files=tileflow.saved_operators(program))
    tileflow.load_operators(tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for mask in MASKS:
        torch.testing.assert_close(loaded(ROWS, mask), WANTED[normed](ROWS, mask), rtol=1e-4, atol=1e-5)


def test_what_is_computed_of_a_size_stands_beside_it() -> None:
    """The example of a call has strides of its sizes."""
    seen: list[Example] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(Example.of(x))
        return x

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return look(x[mask][:, None].expand(-1, 3, 8).transpose(0, 1).contiguous())

    torch.export.export(Model(), (ROWS, MASKS[0]), strict=False)
    (example,) = seen[-1:]
    three, rows, eight = example.shape
    assert (three, eight) == (3, 8) and rows == 2 and example.strides == (8 * rows, 8, 1)
