"""Parameters annotated ``constexpr``: constants of the kernel, told apart by their value wherever calls are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.expr import TRUE
from tileflow.lowered import Lowered
from tileflow.runtime.problem import Problem
from tileflow.target import target


@tileflow.kernel
def scaled(
    x: torch.Tensor, times: tfl.constexpr, power: int, by: tfl.constexpr = 2.0, shifts: tfl.constexpr = (1, 0.5)
) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        v = x[tile]
        for _ in range(times):
            v = v * by + shifts[0] - shifts[1]
        out[tile] = v * power
    return out


def lowered(mode: str, *args: Any) -> Lowered:
    return scaled.lower((torch.empty(64, device="meta"), *args), target("nvidia-h200"), mode=mode)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_numbers_are_in_the_text_and_no_parameters(mode: str) -> None:
    one = lowered(mode, 3, 5, 1.75)
    (region,) = one.regions
    assert [s.path for s in region.scalars] == []
    assert {str(g) for g in region.guards} >= {"(3 == times)", "(1 == shifts.item:0)"}
    assert "power" in {arg.path for source in one.emit(one.default) for arg in source.args} | {
        s
        for source in one.emit(one.default)
        for arg in source.args
        if arg.value is not None
        for s in arg.value.symbols()
    }
    text = one.emit(one.default)[0].text
    assert text.count("1.75") == 3 and "times" not in text
    assert text != lowered(mode, 4, 5, 1.75).emit(one.default)[0].text
    assert lowered(mode, 3, 6, 1.75).emit(one.default)[0].text == text


def test_a_problem_s_key_has_the_value_and_json_keeps_it() -> None:
    x = torch.zeros(4)
    problem = scaled.describe(x, 3, 5, float("inf"))
    assert problem.key == "x=float32[4] times=3 power=int by=inf shifts.item:0=1 shifts.item:1=0.5"
    assert Problem.from_json(problem.to_json()) == problem
    assert scaled.describe(x, 3, 6).key == scaled.describe(x, 3, 5).key
    keys = {scaled.describe(x, *a).categories for a in ((3, 5), (4, 5), (3, 5, 2.5), (3.0, 5), (3, 5, 2.0, (2, 0.5)))}
    assert len(keys) == 5, "a row of one value never serves another"


def test_each_value_has_a_kernel_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    class Launched:
        guards = TRUE

        def __call__(self, *place: object) -> bool:
            return True

    def launchers(self: tileflow.Kernel, lowered: Lowered, *_: Any) -> dict[int, list[Any]]:
        compiled.append(lowered.problem.key.split()[1])
        return {0: [Launched()]}

    monkeypatch.setattr(tileflow.Kernel, "launchers", launchers)
    monkeypatch.setattr("tileflow.serve.triton_interprets", lambda: True)
    x = torch.zeros(4)
    for n in (3, 4, 3, 4):
        scaled(x, n, 5)
    assert compiled == ["times=3", "times=4"]
    scaled(x, power=7, times=3)
    scaled(x, power=7, times=4)
    scaled(x, 3, 9)
    assert compiled == ["times=3", "times=4", "times=3", "times=4"]


def test_the_eager_meaning() -> None:
    with tileflow.interpret():
        torch.testing.assert_close(scaled(torch.ones(40), 2, 3), torch.full((40,), ((1 * 2 + 0.5) * 2 + 0.5) * 3))


constant = tfl.constexpr


def test_the_annotation_counts_by_whatever_name() -> None:
    @tileflow.kernel
    def local(x: torch.Tensor, n: constant, m: "a number" = 1) -> None:  # noqa: F722
        for tile in tfl.tile(x.size(0)):
            x[tile] = x[tile] * n * m

    assert local.host.constants == {"n"}
