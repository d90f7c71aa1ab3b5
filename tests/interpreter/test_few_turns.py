"""Ranges of few turns whose text would compile for minutes are loops of the kernel where nobody can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.kernels.few_turns_kernels import LOOPS, WRITTEN_OUT
from tile_testing.runs.interpreted import Call

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.target import target

KERNELS = path_of("few_turns_kernels")
X = torch.randn(37, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def text_of(kernel: Any, *args: Any) -> str:
    lowered = kernel.lower(args or (X,), target("nvidia-h200"))
    (source,) = lowered.emit(lowered.default)
    return str(source.code)


@pytest.mark.parametrize("name", [*LOOPS, *WRITTEN_OUT])
def test_the_values_are_those_of_python(interpreter: Callable[..., Any], name: str) -> None:
    """In float64: what a loop computed in 32 bits would be off by 1e-7."""
    wanted = (LOOPS | WRITTEN_OUT)[name].run_eagerly(X)
    for mode in ("static", "dynamic"):
        (got,) = interpreter("runs.interpreted:run_all", [Call(KERNELS, name, (X,), mode=mode)])
        assert not isinstance(got, str), got
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LOOPS)
def test_a_long_text_is_a_loop(name: str) -> None:
    """96 sines took 67 s to compile, those of one turn take half a second."""
    text = text_of(LOOPS[name])
    assert text.count("tl.sin") == 12 and text.count("tl.range") == 1


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_needs_pythons_own_numbers_is_written_out(name: str) -> None:
    text = text_of(WRITTEN_OUT[name])
    assert text.count("tl.sin") == 12 * 8 and "tl.range" not in text


def test_nothing_is_left_of_a_trial() -> None:
    """No knob, no tile and no guard of the loop that was tried, and of no turn that was."""

    def parts(kernel: Any, x: torch.Tensor) -> tuple[Any, ...]:
        (ir,) = kernel.lower((x,), target("nvidia-h200")).regions
        return tuple(ir.tiles), ir.grid, [b.name for b in ir.blocks], len(ir.guards), set(ir.value_names.values())

    def kernel_of(many: bool) -> Any:
        @tileflow.kernel
        def subject(x: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            for tile in tfl.tile(x.size(0)):
                row, rows = x[tile], []
                for _ in range(3):
                    for part in tfl.tile(x.size(0)):
                        row = row + x[part].sum()
                    for _ in tfl.static_range(40 if many else 1):
                        row = torch.sin(row)
                    rows.append(row)
                out[tile] = rows[1]
            return out

        return subject

    few, many = (parts(kernel_of(many), X) for many in (False, True))
    assert few == many


def test_an_error_of_the_authors_has_its_place() -> None:
    @tileflow.kernel
    def wrong(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            row = x[tile]
            for i in range(8):
                for _ in tfl.static_range(12):
                    row = torch.sin(row)
                row = [row, row + 1, row + 2][i]
            out[tile] = row
        return out

    with pytest.raises(TraceError, match="IndexError"):
        text_of(wrong)
