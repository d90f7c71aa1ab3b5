"""The simulated cluster: the driver is charged for what it thinks, and nothing else waits."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tileflow_benchmarks.scaling import figures
from tileflow_benchmarks.scaling.simulated_cluster import RayCost, SimulatedCluster, simulate
from tileflow_cluster.protocol import KernelRef, TrialRequest
from tileflow_experiments.spec import parse

from tileflow.config import Config

GPU = "nvidia-h200"


def wanted() -> Any:
    kernel = {"kernel": "examples.vector_add:vector_add", "problems": [{"n": 1 << 20}, {"n": 1 << 21}]}
    return parse({
        "name": "s", "kernels": [kernel], "device_classes": [GPU], "strategy": {"name": "random"},
        "budget": {"trials": 1}, "modes": ["static"],
    })  # fmt: skip


def test_one_gpu_reaches_its_rate_and_thousands_saturate_the_driver() -> None:
    few = simulate(wanted(), gpus=1, per_s=2.0, trials=60, compile_s=0.1, ray=RayCost())
    assert few["trials"] == 60 and few["reached"] > 0.8
    many = simulate(wanted(), gpus=5000, per_s=30.0, trials=60, compile_s=0.1, ray=RayCost())
    assert many["reached"] < 0.1 and many["driver_ms"] > 0


def test_the_drivers_own_time_passes_on_the_virtual_clock() -> None:
    cluster = SimulatedCluster(GPU, 1, 1000.0, 0.001, RayCost(0.0, 0.0))
    cluster.submit(TrialRequest("r", KernelRef("m:k", "h"), (), GPU, Config.of({"x": 1})))
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    while cluster.pending():
        cluster.poll(1.0)
    assert cluster.clock.now == pytest.approx(0.2, abs=0.1) and cluster.driver_s >= 0.2


def test_calls_carry_several_trials_where_these_are_quick() -> None:
    """Issue 17: each trial took two calls of Ray, a millisecond of the driver's time each."""
    one = RayCost(carried_us=0.0)
    slow = simulate(wanted(), gpus=2, per_s=2.0, trials=100, compile_s=0.5, ray=one)
    quick = simulate(wanted(), gpus=2, per_s=200.0, trials=100, compile_s=0.005, ray=one)
    assert slow["ray_ms"] == pytest.approx(2 * one.call_us / 1e3)
    assert quick["ray_ms"] < slow["ray_ms"] / 2


def test_rows_of_several_commands_are_one_plot(tmp_path: Path) -> None:
    row = {"gpus": 8.0, "per_s": 7.0, "schedulers": 1.0, "reached": 0.9}
    figures.keep([row, {**row, "gpus": 64.0, "reached": 0.5}], tmp_path, "random")
    figures.keep([{**row, "reached": 0.8}, {**row, "schedulers": 16.0}], tmp_path, "random")
    kept = json.loads((tmp_path / figures.ROWS).read_text())
    assert [(r["schedulers"], r["gpus"], r["reached"]) for r in kept] == [(1, 8, 0.8), (1, 64, 0.5), (16, 8, 0.9)]
    (legend,) = figures.figure(kept).legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[:2] == [f"random, 7 a second and GPU, {many}" for many in ("1 scheduler", "16 schedulers")]
    assert (tmp_path / figures.PLOT).read_bytes().startswith(b"\x89PNG")
