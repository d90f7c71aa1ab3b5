"""The training step's comparison: rehearsed at tiny sizes on a CPU, and its arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tileflow_benchmarks.ratios import llama_step

pytest.importorskip("transformers")


def found(ms: float, mib: int, loss: float = 2.0, grads: int = 20) -> dict[str, Any]:
    return {"loss": loss, "grad_norm": 1.0, "grads": grads, "first_step_s": 1.0, "ms": ms, "peak_mib": mib}


@pytest.mark.parametrize("ways", ["eager;liger;tileflow", pytest.param("eager;compile", marks=pytest.mark.slow)])
def test_a_dry_run_checks_every_way_that_a_cpu_has(ways: str, tmp_path: Path) -> None:
    out = tmp_path / "step.json"
    assert llama_step.main(["--out", str(out), "--dry-run", "--only", ways, "--batch", "1"]) == 0
    result = json.loads(out.read_text())
    assert result["ways"].keys() == {*ways.split(";")} - {"liger"} and not result["ratios"]
    assert ("liger" in result["failed"]) == ("liger" in ways)
    for way in result["ways"].values():
        assert way["is_right"] and "ms" not in way and way["grads"] == 21
        assert way["deviation"]["loss"] < 1e-4 and way["deviation"]["grad_norm"] < 1e-3


def test_ratios_are_of_medians_and_above_one_is_better() -> None:
    rounds = {
        "eager": [found(30, 3000), found(32, 3000)],
        "liger": [found(20, 2000)],
        "tileflow": [found(16, 1000), found(15, 1000)],
    }
    ratios = llama_step.compared(rounds)["ratios"]
    assert ratios["tileflow"] == {"eager": {"time": 2.0, "memory": 3.0}, "liger": {"time": 1.29, "memory": 2.0}}
    assert ratios["liger"] == {"eager": {"time": 1.55, "memory": 1.5}}


@pytest.mark.parametrize("change", [{"loss": 2.1}, {"grads": 19}])
def test_a_way_that_is_not_right_is_not_compared(change: dict[str, Any]) -> None:
    result = llama_step.compared({"eager": [found(30, 3000)], "tileflow": [found(1, 1, **change)]})
    assert not result["ways"]["tileflow"]["is_right"] and "tileflow" not in result["ratios"]


def test_a_way_that_fails_is_tried_once_and_the_others_go_on() -> None:
    tried: list[str] = []

    def launch(way: str) -> dict[str, Any]:
        tried.append(way)
        if way == "liger":
            raise RuntimeError("no module named liger_kernel")
        return found(10, 100)

    result = llama_step.measured(["eager", "liger", "tileflow"], 3, launch)
    assert sorted(tried) == ["eager"] * 3 + ["liger"] + ["tileflow"] * 3
    assert result["failed"] == {"liger": "RuntimeError: no module named liger_kernel"}
