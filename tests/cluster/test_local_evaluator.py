"""The evaluator of one machine: what its children do wrong ends as under Ray, its pool stays, and it ends with its
process, however that ends."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.child_stages import CARD, ChildDevice, ChildStages
from tile_testing.fakes.cluster_fakes import GPU, MODELLED, FakeCompiler, FakeStages, request
from tile_testing.fakes.cluster_runs import run
from tileflow_cluster import local_evaluator, local_pool
from tileflow_cluster.devices import VisibleGpu, selectors
from tileflow_cluster.local_evaluator import LocalEvaluator
from tileflow_cluster.local_pool import LocalPool, LocalWorker
from tileflow_cluster.protocol import Evaluator
from tileflow_cluster.trial import TrialResult

from tileflow.errors import ClusterError, InternalError
from tileflow.measure.types import Status


@pytest.fixture(scope="module")
def pool() -> Iterator[LocalPool]:
    made = LocalPool()
    made.begin()
    yield made
    made.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., LocalEvaluator]]:
    """``start(kind, pool=..., gpus=..., **stages)``: over fake stages without processes, where nothing else is said."""
    started = []

    def make(
        kind: type[FakeStages] = FakeStages, gpus: Sequence[VisibleGpu] = (CARD,), pool: LocalPool | None = None,
        classes: Sequence[str] = (GPU,), compilers: int = 2,
        must_measure: bool = False, **stages: Any,
    ) -> LocalEvaluator:  # fmt: skip
        made = LocalEvaluator(
            kind(str(tmp_path), **stages), classes, compilers=compilers, must_measure=must_measure,
            pool=pool or LocalPool(forks=False), gpus=gpus,
        )  # fmt: skip
        started.append(made)
        return made

    yield make
    for evaluator in started:
        evaluator.close()


def statuses(results: list[TrialResult]) -> list[tuple[Status, bool]]:
    return [(result.outcome.status, result.final) for result in results]


@pytest.fixture(scope="module", params=["local", pytest.param("ray", marks=pytest.mark.slow)])
def evaluator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    """Over the same children, whose faults must end alike."""
    stages = ChildStages(str(tmp_path_factory.mktemp("faults")))
    made: Any
    if request.param == "local":
        made = LocalEvaluator(stages, (GPU,), compilers=2, pool=request.getfixturevalue("pool"), gpus=[CARD])
    else:
        request.getfixturevalue("ray_cluster")
        from tileflow_cluster.ray_evaluator import RayEvaluator

        made = RayEvaluator(stages, (GPU,))
    yield made
    made.close()


class TestFaultsOfChildren:
    """What a config did once is tried again, twice is blocklisted, a limit is its verdict."""

    def test_a_child_that_dies_twice_blocklists_its_config(self, evaluator: Evaluator) -> None:
        results = run(evaluator, [request("dies", 1, "child_segfault"), request("good", 2)])
        first, last = results["dies"]
        assert statuses([first, last]) == [(Status.WORKER_LOST, False), (Status.WORKER_LOST, True)]
        assert first.retried and not first.blames_config and (first.attempt, last.attempt) == (1, 2)
        assert "SIGSEGV" in last.blocklisted and last.blames_config
        assert statuses(results["good"]) == [(Status.OK, True)]

    @pytest.mark.parametrize(
        ("fault", "status"),
        [("hang", Status.BENCH_TIMEOUT), ("oom", Status.OOM), ("illegal_access", Status.ILLEGAL_ACCESS),
         ("incorrect", Status.INCORRECT)],
    )  # fmt: skip
    def test_what_a_child_tells_is_the_configs_verdict(self, evaluator: Evaluator, fault: str, status: Status) -> None:
        (result,) = run(evaluator, [request(fault, 3, f"child_{fault}")])[fault]
        assert (result.outcome.status, result.final, result.blocklisted) == (status, True, "")
        assert statuses(run(evaluator, [request("after", 4, remeasure=True)])["after"]) == [(Status.OK, True)]

    def test_what_the_author_must_mend_ends_its_requests(self, evaluator: Evaluator) -> None:
        results = run(evaluator, [request(f"author{x}", x, "child_author") for x in (5, 6)])
        assert all(result.kernel_error is not None for (result,) in results.values())
        assert {result.outcome.status for (result,) in results.values()} == {Status.CANCELLED}


def test_a_stage_that_raises_is_tried_again_once(start: Callable[..., LocalEvaluator]) -> None:
    evaluator = start()
    once, always = "compile_raise_once", "device_raise"
    results = run(evaluator, [request("once", 1, once), request("always", 2, always)])
    assert statuses(results["once"]) == [(Status.WORKER_LOST, False), (Status.OK, True)]
    assert statuses(results["always"]) == [(Status.WORKER_LOST, False), (Status.WORKER_LOST, True)]
    assert "a stage with a mistake" in results["always"][1].blocklisted
    (mend,) = run(evaluator, [request("mend", 3, "compile_mend")])["mend"]
    assert isinstance(mend.kernel_error, InternalError)


def test_a_stage_that_never_answers_is_given_up(
    start: Callable[..., LocalEvaluator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It should have ended that itself. What waited behind it goes to the next worker, and is not to blame."""
    monkeypatch.setattr(local_evaluator, "ANSWER_S", 0.1)
    evaluator = start(device_limit=0.3, compile_limit_s=5.0)
    results = run(evaluator, [request("hangs", 1, "device_hang_once"), *(request(f"g{x}", x) for x in (2, 3))], 20)
    assert statuses(results["hangs"]) == [(Status.WORKER_LOST, False), (Status.OK, True)]
    assert statuses(results["g2"]) == statuses(results["g3"]) == [(Status.OK, True)]


def test_a_lost_gpu_ends_its_class_where_it_was_the_only_one(start: Callable[..., LocalEvaluator]) -> None:
    evaluator = start()
    results = run(evaluator, [request(f"l{x}", x, "device_device_lost") for x in (1, 2)])
    assert {each[-1].outcome.status for each in results.values()} == {Status.DEVICE_LOST}
    with pytest.raises(ClusterError, match="lost its GPU"):
        evaluator.capacity(GPU)
    assert "lost its GPU" in evaluator.unused()[0]


def test_with_two_gpus_the_other_goes_on(start: Callable[..., LocalEvaluator], tmp_path: Path) -> None:
    evaluator = start(gpus=[CARD, VisibleGpu("1", "NVIDIA H200", GPU)], device_s=0.02)
    results = run(evaluator, [request("lost", 1, "device_device_lost_once"), *(request(f"g{x}", x) for x in range(6))])
    assert statuses(results["lost"]) == [(Status.DEVICE_LOST, False), (Status.OK, True)]
    assert {result.gpu_uuid for name in results for result in results[name]} == {"GPU-0", "GPU-1"}
    assert len({each[-1].gpu_uuid for each in results.values()}) == 1 or results["lost"][0].gpu_uuid
    assert evaluator.device_classes()[0].workers == 1


def test_what_does_not_open_is_tried_three_times(start: Callable[..., LocalEvaluator], monkeypatch: Any) -> None:
    def refuse(self: FakeStages) -> FakeCompiler:
        raise ClusterError("a compiler must open", got="planted")

    monkeypatch.setattr(FakeStages, "open_compiler", refuse)
    evaluator = start(compilers=1)
    with pytest.raises(ClusterError, match="planted"):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            evaluator.poll(0.05)
            evaluator.capacity(GPU)


def test_a_class_without_a_card_is_modelled_or_refused(start: Callable[..., LocalEvaluator], tmp_path: Path) -> None:
    (served,) = start(gpus=()).device_classes()
    assert (served.name, served.measured, served.workers) == (GPU, False, 1)
    with pytest.raises(ClusterError, match=MODELLED):
        start(classes=(MODELLED,), must_measure=True)


IN_WORKERS = ("sympy", "torch._inductor", "torch._dynamo", "optuna", "sklearn", "tileflow_experiments")


def test_workers_have_what_compiles_and_nothing_else(pool: LocalPool) -> None:
    """What a warm-up imports besides makes the first trial wait."""
    server = pool._server
    assert server is not None
    server.call("tileflow_cluster.pipeline:warm_up", (), 60.0)
    there = server.call("tile_testing.fakes.build_faults:modules", (), 60.0)
    assert {"torch", "triton.compiler", "tileflow.lowered"} <= set(there)
    assert [name for name in IN_WORKERS if name in there] == []


def test_counters_say_when_the_first_workers_were_ready(start: Callable[..., LocalEvaluator]) -> None:
    before = time.time()
    evaluator = start()
    run(evaluator, [request("r", 1)])
    found = evaluator.counters()
    assert found.compiler_ready_at is not None and found.device_ready_at is not None
    assert before - 0.1 <= found.compiler_ready_at <= time.time() and before - 0.1 <= found.device_ready_at
    assert found.data_ready_at is None or found.data_ready_at >= found.device_ready_at


def test_gpus_are_named_as_the_environment_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert selectors(2, "nvidia") == ("0", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-abc")
    assert selectors(2, "nvidia") == ("3", "GPU-abc")


def test_a_pool_that_is_closed_while_compilers_warm_up_says_nothing(
    pool: LocalPool, caplog: pytest.LogCaptureFixture
) -> None:
    """A program whose tuning was refused ended with the warning that its fork server had been killed."""
    pool.begin()
    pool.warm_compilers()
    pool.close()
    for thread in threading.enumerate():
        if thread.name == "tileflow-warm":
            thread.join(30)
    assert not caplog.records


def test_devices_rest_in_the_pool_for_the_next_evaluator(pool: LocalPool, tmp_path: Path) -> None:
    stages = ChildStages(str(tmp_path))

    def measured() -> int:
        evaluator = LocalEvaluator(stages, (GPU,), compilers=1, pool=pool, gpus=[CARD])
        (result,) = run(evaluator, [request("r", 1)])["r"]
        evaluator.close()
        return int(result.outcome.error_digest.removeprefix("process "))

    first = measured()
    assert measured() == first and (tmp_path / "rested").exists()


def test_a_worker_that_ends_in_the_midst_of_a_call_leaves_no_child(pool: LocalPool, tmp_path: Path) -> None:
    stages = ChildStages(str(tmp_path))
    worker: LocalWorker[Any] = pool.device(stages, GPU, "7")
    answers: local_pool.Answers = queue.SimpleQueue()
    worker.told_to(answers)
    assert answers.get(timeout=30) is None and worker.state == "ready"
    assert isinstance(worker.opened, ChildDevice)
    process = worker.opened.process
    worker.ask("job", lambda device: device.process._call("time:sleep", (60,), {}), answers)
    time.sleep(0.3)
    worker.end()
    answers.get(timeout=10)
    assert not process._child.alive and process._spare is None
    assert threading.active_count() < 100


SCRIPT = """
import os, signal, sys
from tile_testing.fakes.cluster_fakes import GPU, request
from tileflow_cluster.local_evaluator import LocalEvaluator
from tileflow_cluster.local_pool import pool_here
from tile_testing.fakes.child_stages import CARD, ChildStages
if __name__ == "__main__":
    evaluator = LocalEvaluator(ChildStages({scratch!r}), (GPU,), compilers=1, gpus=[CARD])
    evaluator.submit(request("r", 1))
    while not (found := evaluator.poll(5.0)):
        pass
    print(pool_here()._server.pid, found[0].outcome.error_digest.split()[1], flush=True)
    {ending}
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(0)", "raise SystemError"])
def test_all_ends_with_the_process(ending: str, tmp_path: Path) -> None:
    from tile_testing.fakes.build_faults import has_gone

    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(scratch=str(tmp_path), ending=ending))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert all(map(has_gone, pids))


def test_a_class_without_workers_says_in_its_first_line_why(start: Callable[..., LocalEvaluator]) -> None:
    """A program was told that no config works, and nothing of the folder that its compilers could not write."""

    class Refusing(FakeStages):
        def open_compiler(self) -> Any:
            raise ClusterError("a folder can be written", got="one that cannot", where="/here", hint="name another")

    evaluator = start(kind=Refusing, compilers=1)
    run(evaluator, [request("lost", 1)])
    with pytest.raises(ClusterError) as refused:
        evaluator.submit(request("late", 2))
    first, *further = str(refused.value).splitlines()
    assert f"none for {GPU}: a folder can be written, but got one that cannot" in first
    assert [line.strip() for line in further] == ["at /here", "name another"]
