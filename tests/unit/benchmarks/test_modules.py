"""The chains, windows and middle dimensions that are timed beside torch: what they compute, and what a run keeps."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tileflow_benchmarks.ratios import modules
from tileflow_benchmarks.ratios.module_cases import CASES, CHAINS, WINDOWS, ModuleCase

from tileflow.api import Kernel
from tileflow.target import target

H200 = target("nvidia-h200")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_computes_what_torch_does_and_has_a_default_at_its_sizes(case: ModuleCase) -> None:
    found = modules.checked_small(case)
    assert found == {"status": "built"}, found.get("reason")
    lowered = case.loaded.lower(case.args("meta"), H200)
    assert lowered.emit(lowered.default)


@pytest.mark.parametrize("case", [case for case in WINDOWS if "pool" in case.kernel], ids=lambda case: case.name)
def test_sizes_strides_paddings_and_fills_of_windows_are_constants(case: ModuleCase) -> None:
    """As they are to torch.compile. As run-time numbers they make every address a product and every mask its own."""
    lowered = case.loaded.lower(case.args("meta"), H200)
    (source,) = lowered.emit(lowered.default)
    assert {arg.kind for arg in source.args} == {"tensor"}


def test_there_are_forty_chains_half_of_them_in_float32_and_no_name_is_there_twice() -> None:
    assert len(CHAINS) == 40
    assert sum(case.dtype == "float32" for case in CHAINS) == 20
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_kernel_that_is_wrong_is_found_at_small_sizes() -> None:
    case = next(case for case in WINDOWS if case.kernel == "middle_sum")
    wrong = ModuleCase("windows", "middle_mean", case.torch, case.make, case.sizes, case.small, case.dtype)
    assert modules.checked_small(wrong)["status"] == "incorrect"


@pytest.mark.parametrize(
    ("module", "us", "best", "ratio"),
    [
        ("chains", {"ours": 2.0, "eager": 1.0, "compile": 4.0}, "compile", 2.0),
        ("windows", {"ours": 2.0, "eager": 1.0, "compile": 4.0}, "eager", 0.5),
        ("chains", {"ours": 2.0, "eager": 1.0}, "eager", 0.5),  # torch.compile failed
    ],
)
def test_what_a_case_is_compared_with(module: str, us: dict[str, float], best: str, ratio: float) -> None:
    case = next(case for case in CASES if case.module == module)
    found = modules.against(case, {"us": us})
    assert (found["best"], found["of_best"]) == (best, ratio)
    assert "of_best_tuned" not in found
    assert modules.against(case, {"us": us | {"tuned": 1.0}})["of_best_tuned"] == 2 * ratio


class OnThisMachine:
    """Stands in for the GPU: small arguments here, kernels as plain Python, a timer that says what it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tuned: list[float] = []
        made = ModuleCase.args

        def args(case: ModuleCase, device: str, is_small: bool = False) -> Any:
            return made(case, "cpu" if device == "cuda" else device, is_small or device == "cuda")

        def compared(calls: Any, args: Any) -> dict[str, Any]:
            for call in calls.values():
                call(*args)
            return {"us": {name: float(n + 1) for n, name in enumerate(calls)}}

        monkeypatch.setattr(ModuleCase, "args", args)
        monkeypatch.setattr(modules, "compared", compared)
        monkeypatch.setattr(modules, "device_of", lambda is_dry: H200)
        monkeypatch.setattr(modules, "built_ahead", lambda numbers, *_: {n: {"status": "built"} for n in numbers})
        monkeypatch.setattr(Kernel, "compile", lambda kernel, *_: partial(kernel.run_eagerly))
        monkeypatch.setattr(Kernel, "tune", lambda kernel, *_, budget_s, tables: self.tuned.append(budget_s))
        monkeypatch.setattr(torch, "compile", lambda call, **_: call)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    def run(self, monkeypatch: pytest.MonkeyPatch, out: Path, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
        monkeypatch.setattr(sys, "argv", ["modules", "--out", str(out), *words])
        code = modules.main()
        return code, {row["case"]: row for row in json.loads((out / "module_ratio.json").read_text())}


def test_a_run_checks_each_case_and_times_it_beside_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = OnThisMachine(monkeypatch)
    code, rows = here.run(monkeypatch, tmp_path, "--only", "bias_relu float32;middle_sum bfloat16")
    assert code == 0
    chain, window = rows.values()
    assert (chain["status"], chain["best"], chain["of_best"]) == ("ok", "compile", 3.0)
    assert (window["status"], window["best"], window["of_best"]) == ("ok", "eager", 2.0)
    assert not here.tuned


def test_a_run_that_tunes_times_what_was_found_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = OnThisMachine(monkeypatch)
    _, rows = here.run(monkeypatch, tmp_path, "--only", "bias_relu float32", "--tune", "5")
    (row,) = rows.values()
    assert here.tuned == [5.0]
    assert (row["of_best"], row["of_best_tuned"]) == (4.0, 2.0)


def test_what_no_time_is_left_for_is_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = OnThisMachine(monkeypatch)
    code, rows = here.run(monkeypatch, tmp_path, "--only", "middle_sum", "--seconds", "-1")
    assert code == 0
    assert [row["status"] for row in rows.values()] == ["no_time", "no_time"]


def test_a_wrong_result_ends_the_run_with_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = OnThisMachine(monkeypatch)
    monkeypatch.setattr(Kernel, "compile", lambda kernel, *_: lambda *args: kernel.run_eagerly(*args) + 1)
    code, rows = here.run(monkeypatch, tmp_path, "--only", "middle_sum")
    assert code == 1
    assert {row["status"] for row in rows.values()} == {"incorrect"}
