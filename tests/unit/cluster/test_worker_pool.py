"""The workers' record of their own time, and what a node's GPUs are asked: no Ray is started."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tileflow_benchmarks.scaling.simulated_stages import SimulatedStages
from tileflow_cluster import devices, worker_pool
from tileflow_cluster.placement import PlacementPlan
from tileflow_cluster.protocol import DeviceClass
from tileflow_cluster.trial import DeviceIdentity
from tileflow_cluster.worker_pool import Recycling, WorkerPool
from tileflow_cluster.workers import WorkerFacts

from tileflow import __version__
from tileflow.build.process import Done
from tileflow.errors import ClusterError
from tileflow.runtime import describe


def test_idle_counts_from_the_clocks_start(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(worker_pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(worker_pool, "start_compiler", lambda stages: object())
    workers = WorkerPool(SimulatedStages(), Recycling())
    early, late = workers.follow(PlacementPlan(2, ()))
    workers.ready(early, WorkerFacts("host", 1, "node", ()))
    now[0] = 30.0
    workers.ready(late, WorkerFacts("host", 2, "node", ()))
    workers.start_clock()
    now[0] = 40.0
    workers.give_back(early, 10.0, 0.0)
    workers.give_back(late, 5.0, 0.0)
    assert workers.idle("compile") == pytest.approx(0.25)


def test_a_worker_with_a_call_of_its_own_takes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "start_model", lambda stages, device_class: object())
    workers = WorkerPool(SimulatedStages(), Recycling())
    (worker,) = workers.follow(PlacementPlan(0, (DeviceClass("nvidia-h200", False, 1),)))
    workers.ready(worker, WorkerFacts("host", 1, "node", ()))
    workers.give(worker)
    assert list(workers.open("nvidia-h200")) == [worker], "one runs, another is queued"
    workers.give_back(worker, 0.0, 0.0)
    workers.give(worker, alone=True)
    assert list(workers.open("nvidia-h200")) == []
    workers.give_back(worker, 0.0, 0.0)
    assert list(workers.open("nvidia-h200")) == [worker]


def test_gpus_are_asked_for_once_for_each_choice_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Asked:
        def __init__(self, warm: tuple[str, ...]) -> None:
            asked.append(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))

        def call(self, function: str, args: tuple[Any, ...], *, limit_s: float) -> Done:
            assert function == "tileflow_cluster.devices:listed"
            gpu = {"uuid": f"uuid-{asked[-1]}", "name": "NVIDIA H200", "device_class": "nvidia-h200"}
            return Done([gpu] if asked[-1] else [])

        def kill(self) -> None: ...

    monkeypatch.setattr(devices, "Child", Asked)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "as nowhere else")
    found = []
    for chosen in ("0", "0", "1", "", None):
        if chosen is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        found.append([gpu.uuid for gpu in devices.visible_gpus()])
    assert found == [["uuid-0"], ["uuid-0"], ["uuid-1"], [], ["uuid-all"]]
    assert asked == ["0", "1", "", "all"]


def test_gpus_in_use_are_asked_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    cards = [
        SimpleNamespace(
            uuid="a", name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=150 << 30
        ),
        SimpleNamespace(
            uuid="b", name="NVIDIA H200", major=9, minor=0, multi_processor_count=60, total_memory=70 << 30
        ),
    ]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: cards[index])
    monkeypatch.setattr(describe, "class_by_index", describe.class_by_index.__wrapped__)
    assert [gpu.target.name for gpu in devices.visible_gpus()] == ["nvidia-h200", "nvidia-sm_90a-60sm-72gb"]

    def lost(index: int) -> None:
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(torch.cuda, "get_device_properties", lost)
    with pytest.raises(ClusterError, match="list the GPUs"):
        devices.visible_gpus()


def test_device_workers_start_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("start_compiler", "start_model"):
        monkeypatch.setattr(worker_pool, name, lambda *_: object())
    workers = WorkerPool(SimulatedStages(), Recycling())
    started = list(workers.follow(PlacementPlan(2, (DeviceClass("nvidia-h200", measured=False, workers=1),))))
    assert [worker.phase for worker in started] == ["device", "compile", "compile"]


def test_a_worker_of_another_tileflow_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lowers to another space: each config was a compile error there, and its toolchain stood for the others."""
    monkeypatch.setattr(worker_pool, "start_compiler", lambda stages: object())
    workers = WorkerPool(SimulatedStages(), Recycling())
    other, same = workers.follow(PlacementPlan(2, ()))
    workers.ready(other, WorkerFacts("old-host", 1, "node", (("torch", "2.0"),), version="0.0.1"))
    workers.ready(same, WorkerFacts("host", 2, "node", (("torch", "2.13"),)))
    assert other.state == "parked" and "0.0.1 on old-host" in other.why_parked and __version__ in other.why_parked
    assert list(workers.open("")) == [same]


def test_who_sees_a_gpu_second_takes_over_when_the_first_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that came back before its loss was noticed had a worker that was never used: its class ended."""
    monkeypatch.setattr(worker_pool, "start_device", lambda stages, device_class: object())
    monkeypatch.setattr(worker_pool, "ray", SimpleNamespace(kill=lambda actor: None))
    workers = WorkerPool(SimulatedStages(), Recycling())
    first, second, third = workers.follow(PlacementPlan(0, (DeviceClass("nvidia-h200", True, 3),)))
    for number, worker in enumerate((first, second, third)):
        identity = DeviceIdentity("nvidia-h200", "host", "GPU-0", ())
        workers.ready(worker, WorkerFacts("host", number, f"node-{number}", (), identity))
    assert list(workers.open("nvidia-h200")) == [first]
    workers.stop(first)
    assert list(workers.open("nvidia-h200")) == [second] and not second.why_parked
    assert third.state == "parked" and str(second) in third.why_parked
    assert not workers.why_unusable("nvidia-h200")
    workers.quarantine(second, "it fell off the bus")
    workers.stop(second)
    assert "quarantined" in third.why_parked and list(workers.open("nvidia-h200")) == []


def test_workers_that_served_alike_are_not_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both GPUs of a host waited for ten seconds in a sweep of a hundred: their workers had come to the limit
    together."""
    killed = []
    monkeypatch.setattr(worker_pool, "start_model", lambda stages, device_class: object())
    monkeypatch.setattr(worker_pool, "ray", SimpleNamespace(kill=killed.append))
    workers = WorkerPool(SimulatedStages(), Recycling(trials=16))
    plan = PlacementPlan(0, (DeviceClass("nvidia-h200", False, 4),))
    began = list(workers.follow(plan))
    for number, worker in enumerate(began):
        workers.ready(worker, WorkerFacts("host", number, "node", ()))
    ended: list[int] = []
    for trial in range(1, 33):
        before = len(killed)
        for worker in [w for w in began if w in workers]:
            workers.give(worker)
            workers.give_back(worker, 0.0, 0.0)
        ended += [trial] * (len(killed) - before)
    assert len(ended) == 4 == len(set(ended)), ended
    assert min(ended) == 16 and max(ended) < 32
