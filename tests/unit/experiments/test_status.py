"""What a driver announces of itself, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import GPU, KERNEL, MODELLED, sweep_spec, tools
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.protocol import Ordered
from tileflow_experiments import mlflow_log, sweep
from tileflow_experiments.status import duration, lines


class Announcing(InlineEvaluator):
    """Keeps what was announced; ``told`` after so many trials."""

    def __init__(self, said: list[Mapping[str, Any]], told_after: int = 10**9) -> None:
        super().__init__(fakes.FakeStages(), measured=(GPU,), modelled=(MODELLED,))
        self._said, self._told_after = said, told_after

    def announce(self, status: Mapping[str, Any]) -> None:
        self._said.append(status)

    @property
    def ordered(self) -> Ordered:
        return "stop" if self.counters().considered >= self._told_after else ""


@pytest.fixture(autouse=True)
def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
    monkeypatch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)
    monkeypatch.setattr("tileflow_experiments.driver.LOOK_S", 0.0)


def test_a_driver_says_how_it_is_doing(tmp_path: Path) -> None:
    said: list[Mapping[str, Any]] = []
    sweep.run(sweep_spec(), tmp_path, replace(tools(), evaluator=lambda spec: Announcing(said)))
    middle = next(status for status in said if status["trials"] >= 20)
    assert middle["studies"] == 4 and middle["eta_s"] >= 0 and middle["failures"].keys() <= {"incorrect"}
    assert middle["classes"] == {GPU: {"measured": True, "workers": 1}, MODELLED: {"measured": False, "workers": 1}}
    last = said[-1]
    assert last["done"] == 4 and last["trials"] >= 40 and {best["measured"] for best in last["best"]} == {True, False}
    text = "\n".join(lines("a-1", last))
    assert (
        text.startswith("a-1: ") and "4 of 4 tuning tasks done" in text and f"{KERNEL} n=64 on {MODELLED}: best" in text
    )
    assert f"{GPU}: measured on 1 worker\n" in text and "(modelled)" in text


def test_a_sweep_that_is_told_to_stop_stops(tmp_path: Path) -> None:
    stopped = replace(tools(), evaluator=lambda spec: Announcing([], told_after=5))
    assert sweep.run(sweep_spec(), tmp_path, stopped) == "told to stop"
    assert list((tmp_path / "tables").glob("*.json"))


def test_words() -> None:
    assert [duration(s) for s in (5, 600, 10_000)] == ["5 s", "10 min", "2.8 h"]
    assert list(lines("a", {})) == ["a: has said nothing yet"]
