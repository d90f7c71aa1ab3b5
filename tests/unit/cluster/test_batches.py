"""How many trials a call of a worker carries, and what the worker does with them: no Ray is started."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from tile_testing.fakes.cluster_fakes import GPU, FakeStages, request
from tileflow_cluster import workers
from tileflow_cluster.batches import LEAST_S, MOST_S, MOST_TRIALS, BatchSizes, fair_size
from tileflow_cluster.workers import Answers, CompileWorker, DeviceWorker, pack

from tileflow.measure.types import Status


def test_a_batch_fills_a_time_slice_and_no_more() -> None:
    sizes = BatchSizes()
    assert sizes.size(GPU, 4) == 1, "nothing is known of the class"
    sizes.took(GPU, LEAST_S / 5)
    assert sizes.size(GPU, 4) == 5
    sizes.took("", 10 * LEAST_S)
    assert sizes.size("", 4) == 1 and sizes.size(GPU, 4) == 5
    for _ in range(100):
        sizes.took(GPU, 0.0)
    assert sizes.size(GPU, 4) == MOST_TRIALS


def test_slices_grow_with_the_workers_of_one_driver_up_to_their_limits() -> None:
    """A thousand workers that each answer twice a second would take two seconds of the driver's time each second."""
    sizes = BatchSizes()
    assert sizes.slice_s("", 4) == LEAST_S
    assert sizes.slice_s("", 300) == pytest.approx(1.2)
    assert sizes.slice_s("", 10_000) == MOST_S["compile"] and sizes.slice_s(GPU, 10_000) == MOST_S["device"]


@pytest.mark.parametrize(
    ("size", "waiting", "workers", "fair"), [(8, 3, 2, 2), (8, 100, 2, 8), (1, 9, 1, 1), (8, 1, 4, 1)]
)
def test_no_worker_is_idle_for_anothers_batch(size: int, waiting: int, workers: int, fair: int) -> None:
    assert fair_size(size, waiting, workers) == fair


class Mistaken(FakeStages):
    """Raises what no other process can read."""

    def suffer(self, phase: str, request: object) -> str:
        class Local(Exception):
            pass

        if getattr(request, "request_id", "") == "odd":
            raise Local("said so")
        return super().suffer(phase, request)  # type: ignore[arg-type]


@pytest.fixture
def stages(tmp_path: object) -> Iterator[FakeStages]:
    yield FakeStages(str(tmp_path))


def test_one_stages_error_leaves_the_rest_of_a_call_alone(stages: FakeStages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.os, "nice", lambda by: 0)
    monkeypatch.setattr(workers, "hide_gpus", lambda: None)
    worker = CompileWorker(Mistaken(stages.scratch))
    asked = [request("a", 1), request("odd", 2), request("bad", 3, "compile_raise"), request("b", 4)]
    answers, *made = worker.compile(pack(asked), 60.0)
    assert isinstance(answers, Answers)
    assert [type(answer.raised).__name__ for answer in answers.each] == [
        "NoneType",
        "RuntimeError",
        "ValueError",
        "NoneType",
    ]
    assert str(answers.each[1].raised) == "Local: said so"
    pickle.loads(pickle.dumps(answers))
    assert [len(binaries) for _, binaries in made] == [1, 0, 0, 1]


def test_nothing_is_begun_after_the_slice_but_the_first_always_is(
    stages: FakeStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.os, "nice", lambda by: 0)
    monkeypatch.setattr(workers, "hide_gpus", lambda: None)
    clock = iter(range(100))
    monkeypatch.setattr(workers, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    worker = CompileWorker(stages)
    answers, *made = worker.compile(pack([request(f"r{x}", x) for x in range(4)]), 3.5)
    assert isinstance(answers, Answers)
    assert len(answers.each) == 2 and len(made) == 4, "each request has its place in what Ray returns"


def test_a_lost_device_hands_the_rest_back(stages: FakeStages) -> None:
    device = DeviceWorker(stages, GPU, True)
    asked = [request("a", 1), request("lost", 2, "device_device_lost"), request("b", 3)]
    compiler = stages.open_compiler()
    answers = device.run(pack(asked), 60.0, *(compiler.compile(each) for each in asked))
    assert [answer.done.status for answer in answers.each if answer.done] == [Status.OK, Status.DEVICE_LOST]
