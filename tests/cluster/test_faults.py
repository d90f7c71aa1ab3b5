"""Faults injected on a real local Ray: whatever happens, the same set of trials ends, none twice, none lost."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import exceptions
from ray._private.utils import get_system_memory, get_used_memory
from tile_testing.fakes.cluster_fakes import FILL_BYTES, GPU, MODELLED, NODE, FakeStages, fake_binary, request
from tile_testing.fakes.cluster_runs import run
from tileflow_cluster.binary_cache import BinaryCache
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.labels import DEVICE_CLASS
from tileflow_cluster.protocol import RaceRequest, TrialRequest, problem_items
from tileflow_cluster.ray_evaluator import RayEvaluator, Timeouts
from tileflow_cluster.trial import TrialResult
from tileflow_cluster.worker_pool import Recycling
from tileflow_cluster.workers import Answers, DeviceWorker

from tileflow.errors import ClusterError
from tileflow.measure.types import Outcome, Status

pytestmark = pytest.mark.cluster
SHORT_TIMEOUTS = Timeouts(answer_s=3.0, replan_s=0.5, drain_s=0.3)
Start = Callable[..., RayEvaluator]


def outcomes(results: dict[str, list[TrialResult]]) -> dict[str, tuple[str, Status, Any]]:
    """What a sweep comes to: one final result a request, by trial, whatever it took."""
    finals = {name: [result for result in each if result.final] for name, each in results.items()}
    assert all(len(final) == 1 for final in finals.values()), "each request ends exactly once"
    return {name: (f.trial_id, f.outcome.status, f.outcome.measurement) for name, (f,) in finals.items()}


def undisturbed(requests: list[TrialRequest], scratch: Path) -> dict[str, tuple[str, Status, Any]]:
    """The same requests in one process where nothing goes wrong twice."""
    (scratch / "calm").mkdir()
    stages = FakeStages(str(scratch / "calm"))
    for each in requests:
        stages.first_time(each)
    return outcomes(run(InlineEvaluator(stages, measured=(GPU,), modelled=(MODELLED,)), requests))


def statuses(results: list[TrialResult]) -> list[Status]:
    return [result.outcome.status for result in results]


def log_of(scratch: Path, phase: str) -> list[tuple[int, float, int]]:
    """(x, start, pid) of everything that ran in ``phase``."""
    lines = [line.split() for line in (scratch / "log").read_text().splitlines()]
    return [(int(x), float(start), int(pid)) for name, x, start, pid in lines if name == phase]


@pytest.mark.slow
def test_dying_workers_lose_nothing(start: Start, tmp_path: Path) -> None:
    """Faults 5 and 10: compile and device workers die by SIGKILL, or stop answering, in the midst of a sweep."""
    faults = {3: "compile_kill_once", 5: "device_kill_once", 8: "device_hang_once", 9: "device_raise_once"}
    requests = [request(f"r{x}", x, faults.get(x, "")) for x in range(12)]
    evaluator = start(stages={"device_limit": 2.0, "device_s": 0.02}, timeouts=SHORT_TIMEOUTS)
    results = run(evaluator, requests)
    assert outcomes(results) == undisturbed(requests, tmp_path)
    # of what a lost worker was busy with, the oldest is recorded as lost, and each is tried again alone
    again = {name: found for name, found in results.items() if len(found) > 1}
    assert "r9" in again, "what raised was the fault of one"
    for first, *_, last in again.values():
        assert (first.retried, first.outcome.status) == (True, Status.WORKER_LOST)
        assert last.attempt > 1 and last.epoch > first.epoch
    retried = sum(len(found) - 1 for found in again.values())
    assert evaluator.counters().retried == retried
    assert len(faults) <= retried <= len(faults) + 2, "a busy machine may be late with an answer too"


def test_a_death_beside_others_is_nobodys(start: Start, tmp_path: Path) -> None:
    """Issue 17: a worker with two calls dies of one that runs, or takes the answer of one that had ended with it. So
    only a death alone counts, and a trial whose worker was killed twice in all is not blocklisted."""
    evaluator = start(stages={"device_s": 0.02})
    requests = [request(f"r{x}", x, {2: "device_linger_kill_twice"}.get(x, "")) for x in range(8)]
    results = run(evaluator, requests)
    assert {name: found[-1].outcome.status for name, found in results.items()} == dict.fromkeys(results, Status.OK)
    assert sum(len(found) - 1 for found in results.values()) == 2, "one record a death"
    begun = Counter(x for x, _, _ in log_of(tmp_path, "device"))
    assert begun[2] == 3 and max(count for x, count in begun.items() if x != 2) <= 2


def test_a_worker_that_dies_with_several_trials_loses_none(start: Start, tmp_path: Path) -> None:
    """Issue 17: a call carries several trials. Those of a dead worker are tried again alone, one answer each, and only
    the one that kills twice is blocklisted."""
    evaluator = start((MODELLED,), compilers=1)
    run(evaluator, [request("first", 20, device_class=MODELLED)])  # from now on it is known that trials are quick
    faults = {3: "compile_kill_once", 6: "device_kill_once", 9: "device_kill"}
    requests = [request(f"r{x}", x, faults.get(x, ""), device_class=MODELLED) for x in range(14)]
    results = run(evaluator, requests)
    found = outcomes(results)
    poisoned = results["r9"][-1]
    assert poisoned.blocklisted and not any(each[-1].blocklisted for name, each in results.items() if name != "r9")
    del found["r9"]
    assert found == undisturbed([each for each in requests if each.request_id != "r9"], tmp_path)
    together = Counter(pid for _, _, pid in log_of(tmp_path, "compile"))
    assert max(together.values()) > 4 and len(together) >= 2, "several trials a process, and one process died"
    finished = Counter(x for x, _, _ in log_of(tmp_path, "compile"))
    assert all(count <= 3 for count in finished.values()), "with its worker, alone, and no third time"


@pytest.mark.slow
def test_device_workers_prepare_while_the_first_configs_compile(start: Start, tmp_path: Path) -> None:
    evaluator = start(stages={"compile_s": 0.5})
    evaluator.wait_ready(60.0)
    problems = [problem_items({"m": 64}), problem_items({"m": 128})]
    run(evaluator, [replace(request(f"r{x}", x), problem=problems[x // 2]) for x in range(4)])
    told, measured = log_of(tmp_path, "prepare"), log_of(tmp_path, "device")
    assert sorted(x // 2 for x, _, _ in told) == [0, 1], "each worker prepares a problem of its own"
    assert {pid for _, _, pid in measured} <= {pid for _, _, pid in told}
    assert max(begun for _, begun, _ in told) < min(begun for _, begun, _ in measured)


@pytest.mark.slow
def test_a_fault_after_many_runs_takes_its_process_alone(start: Start) -> None:
    """Fault 4: a config that dies at its third run, in the race at the end, costs a worker and no result."""
    evaluator = start(compilers=1, timeouts=SHORT_TIMEOUTS)
    late, other = request("late", 1, "device_late_kill_once"), request("other", 2)
    (one,), (two,) = run(evaluator, [late, other]).values()
    (again,) = run(evaluator, [replace(late, request_id="again", remeasure=True)])["again"]
    assert statuses([one, two, again]) == [Status.OK] * 3
    candidates = ((one.trial_id, late.config), (two.trial_id, other.config))
    race = RaceRequest("race", late.kernel, late.problem, late.device_class, candidates)
    first, last = run(evaluator, [race])["race"]
    assert (first.retried, first.outcome.status) == (True, Status.WORKER_LOST)
    assert last.outcome.status is Status.OK and len(last.outcome.ranked) == 2
    assert all(place.outcome.measurement is not None for place in last.outcome.ranked)


@pytest.mark.slow
def test_poison_is_blocklisted_with_its_reason(start: Start) -> None:
    """Fault 6: a config that kills two workers is not given to a third; asking again repeats the answer."""
    evaluator = start(compilers=1, timeouts=SHORT_TIMEOUTS)
    first, last = run(evaluator, [request("p", 1, "device_kill")])["p"]
    assert first.retried and not last.retried
    assert "the device worker died, twice" in last.blocklisted and last.blames_config
    assert statuses(run(evaluator, [request("good", 2)])["good"]) == [Status.OK]
    (again,) = run(evaluator, [request("p2", 1, "device_kill")])["p2"]
    assert again.duplicate_of == "p" and again.blocklisted == last.blocklisted


@pytest.mark.slow
def test_a_hanging_compile_ends_as_compile_timeout(start: Start, tmp_path: Path) -> None:
    """Faults 1 and 19: a worker that hangs is killed at its limit; waiting in the queue for longer is no reason."""
    evaluator = start(compilers=1, stages={"compile_limit_s": 0.5, "compile_s": 0.3}, timeouts=SHORT_TIMEOUTS)
    requests = [request("hangs", 0, "compile_hang"), *(request(f"q{x}", x) for x in range(1, 7))]
    results = run(evaluator, requests)
    assert statuses(results["hangs"]) == [Status.WORKER_LOST, Status.COMPILE_TIMEOUT]
    assert all(statuses(results[f"q{x}"]) == [Status.OK] for x in range(1, 7))
    assert results["q6"][0].phases.queue_s > 1.0
    (_, _, pid), *_ = log_of(tmp_path, "compile")
    assert not _running(pid)


@pytest.mark.slow
def test_a_late_answer_of_an_old_lease_is_dropped(start: Start, tmp_path: Path) -> None:
    """Fault 10: a worker that was cut off comes back after its trial went elsewhere."""
    evaluator = start(compilers=1, stages={"device_limit": 0.5, "device_s": 0.3}, timeouts=SHORT_TIMEOUTS)
    evaluator.submit(request("late", 1, "device_stop_once"))
    results: list[TrialResult] = []
    while not results:
        results += evaluator.poll(1.0)
    (retried,) = results
    _, _, stopped = log_of(tmp_path, "device")[0]
    with suppress(ProcessLookupError):
        os.kill(stopped, signal.SIGCONT)
    while evaluator.pending():
        results += evaluator.poll(1.0)
    evaluator.poll(0.5)
    assert retried.retried and [result.attempt for result in results] == [1, 2]
    assert statuses(results[1:]) == [Status.OK]
    assert evaluator.counters().considered == 1


def test_a_lost_gpu_is_quarantined_and_the_rest_go_on(start: Start, tmp_path: Path) -> None:
    """Fault 9: its work goes elsewhere, and nothing is given to it again."""
    evaluator = start(compilers=1, stages={"device_s": 0.02})
    results = run(evaluator, [request("lost", 0, "device_device_lost_once"), *(request(f"r{x}", x) for x in (1, 2, 3))])
    assert statuses(results["lost"]) == [Status.DEVICE_LOST, Status.OK]
    uuids = [result.gpu_uuid for each in results.values() for result in each]
    assert results["lost"][0].gpu_uuid != results["lost"][1].gpu_uuid
    assert [served.workers for served in evaluator.device_classes()] == [1]
    more = run(evaluator, [request(f"s{x}", x) for x in (4, 5, 6)])
    assert results["lost"][0].gpu_uuid not in {result.gpu_uuid for (result,) in more.values()}
    assert len(set(uuids)) == 2


def test_a_class_that_loses_its_last_gpu_ends_rather_than_waits(start: Start) -> None:
    evaluator = start(compilers=1)
    results = run(evaluator, [request("a", 1, "device_device_lost"), request("b", 2, "device_device_lost")])
    assert all(each[-1].final for each in results.values())
    with pytest.raises(ClusterError, match="quarantined"):
        evaluator.capacity(GPU)


@pytest.mark.slow
def test_a_lost_node_takes_no_trial_with_it(start: Start, ray_cluster: Any, tmp_path: Path) -> None:
    """Fault 10: a node of its own class goes while it works; one that comes later takes over."""
    labels = {DEVICE_CLASS: "nvidia-b200"}
    node = ray_cluster.add_node(**NODE, num_cpus=0, num_gpus=1, labels=labels)
    evaluator = start(("nvidia-b200",), compilers=1, stages={"device_s": 0.4}, timeouts=Timeouts(replan_s=30.0))
    requests = [request(f"n{x}", x, device_class="nvidia-b200") for x in range(3)]
    for each in requests:
        evaluator.submit(each)
    results = []
    while not results:
        results += evaluator.poll(1.0)
    ray_cluster.remove_node(node, allow_graceful=False)
    replacement = ray_cluster.add_node(**NODE, num_cpus=0, num_gpus=1, labels=labels)
    while evaluator.pending():
        results += evaluator.poll(1.0)
    evaluator.close()
    ray_cluster.remove_node(replacement)
    assert sorted(r.request_id for r in results if r.final) == ["n0", "n1", "n2"]
    assert {r.outcome.status for r in results if r.final} == {Status.OK}
    assert not any(r.blocklisted for r in results)


def test_a_selector_that_nothing_satisfies_is_an_error_at_once(start: Start) -> None:
    """Fault 24: it names the labels there are, and what to do."""
    with pytest.raises(ClusterError, match=rf"{DEVICE_CLASS}=nvidia-a100(.|\n)*{DEVICE_CLASS}={GPU}(.|\n)*ray start"):
        start(("nvidia-a100",), must_measure=True)


@pytest.mark.slow
def test_more_compilers_than_cpus_do_not_hang(start: Start) -> None:
    evaluator = start((GPU, MODELLED), compilers=64)
    assert statuses(run(evaluator, [request("a", 1)])["a"]) == [Status.OK]
    assert len(evaluator._pool.of("")) == 2


@pytest.mark.slow
def test_workers_are_recycled(start: Start, tmp_path: Path) -> None:
    """Fault 7: after so many trials a worker's process is another one, and the sweep does not notice."""
    evaluator = start(compilers=1, recycling=Recycling(trials=2))
    results = run(evaluator, [request(f"r{x}", x) for x in range(5)])
    assert all(statuses(each) == [Status.OK] for each in results.values())
    assert len({pid for _, _, pid in log_of(tmp_path, "compile")}) == 3


def test_compiling_and_measuring_overlap_and_a_straggler_delays_nobody(start: Start, tmp_path: Path) -> None:
    """Fault 22: no barrier between the two, and one slow trial leaves the other device working."""
    evaluator = start(compilers=1, stages={"device_s": 0.2, "compile_s": 0.15})
    evaluator.wait_ready(60.0)
    run(evaluator, [request(f"r{x}", x) for x in range(8)])
    last_compile = max(start for _, start, _ in log_of(tmp_path, "compile"))
    assert sum(start < last_compile for _, start, _ in log_of(tmp_path, "device")) >= 3
    assert len({pid for _, _, pid in log_of(tmp_path, "device")}) == 2


@pytest.mark.slow
def test_sigterm_drains(start: Start) -> None:
    """Fault 23: what runs ends or is given up within the grace, all the rest comes back cancelled."""
    evaluator = start(compilers=1, stages={"device_s": 0.5}, timeouts=SHORT_TIMEOUTS)
    for x in range(6):
        evaluator.submit(request(f"r{x}", x))
    results = evaluator.poll(30.0)
    os.kill(os.getpid(), signal.SIGTERM)
    started = time.monotonic()
    while evaluator.pending():
        results += evaluator.poll(1.0)
    assert evaluator.draining and time.monotonic() - started < 10.0
    assert sorted(result.request_id for result in results) == [f"r{x}" for x in range(6)]
    assert Status.CANCELLED in statuses(results)


def test_binaries_can_be_had_after_they_are_gone(start: Start) -> None:
    evaluator = start((MODELLED,), compilers=1)
    (result,) = run(evaluator, [request("g", 9, device_class=MODELLED)])["g"]
    evaluator._binaries = BinaryCache()
    assert evaluator.fetch_binaries(result.trial_id) == (fake_binary(request("g", 9, device_class=MODELLED)),)


def _running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_rays_memory_monitor_ends_a_worker_and_not_the_driver(start: Start, ray_cluster: Any) -> None:
    """Fault 7 and issue 15: OutOfMemoryError, which is no RayActorError, ended the driver. A node's monitor finds its
    memory short while a trial fills it."""
    labels = {DEVICE_CLASS: "nvidia-b200"}
    share = (get_used_memory() + FILL_BYTES / 2) / get_system_memory()
    monitor = {"RAY_memory_usage_threshold": f"{share:.4f}", "RAY_memory_monitor_refresh_ms": "100"}
    node = ray_cluster.add_node(**NODE, num_cpus=0, num_gpus=1, labels=labels, env_vars=monitor)
    evaluator = start(("nvidia-b200",), compilers=1, timeouts=SHORT_TIMEOUTS)
    results = run(evaluator, [request("m", 1, "device_fill_once", device_class="nvidia-b200")])["m"]
    evaluator.close()
    ray_cluster.remove_node(node)
    *lost, last = results
    assert last.outcome.status is Status.OK and not last.blocklisted
    assert lost and {r.outcome.status for r in lost} == {Status.WORKER_LOST}
    assert "OutOfMemoryError" in {r.outcome.error_class for r in lost}
    assert any("memory" in r.outcome.error_digest for r in lost)


def test_an_environment_that_cannot_be_made_ends_its_class(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 15: RuntimeEnvSetupError, which is no RayActorError either."""

    def nowhere(stages: Any, device_class: str) -> Any:
        environment = {"working_dir": "file:///nowhere/at/all.zip"}
        return ray.remote(DeviceWorker).options(num_cpus=0, runtime_env=environment).remote(stages, device_class, False)

    monkeypatch.setattr("tileflow_cluster.worker_pool.start_model", nowhere)
    evaluator = start((MODELLED,), compilers=1)
    (ended,) = run(evaluator, [request("e", 1, device_class=MODELLED)])["e"]
    assert ended.outcome.status is Status.DEVICE_LOST and "nowhere" in ended.outcome.error_digest
    with pytest.raises(ClusterError, match=r"nowhere"):
        evaluator.capacity(MODELLED)


def failing_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The first answer of a device worker that is fetched is ``error`` instead."""
    fetch, left = ray.get, [error]

    def get(answer: Any, **options: Any) -> Any:
        value = fetch(answer, **options)
        if left and isinstance(value, Answers) and isinstance(value.each[0].done, Outcome):
            raise left.pop()
        return value

    monkeypatch.setattr(ray, "get", get)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(exceptions.RaySystemError("lost"), marks=pytest.mark.slow),
        pytest.param(exceptions.OutOfDiskError("full"), marks=pytest.mark.slow),
        exceptions.NodeDiedError("gone"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_rays_own_errors_are_retried_and_blame_nobody(
    start: Start, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Issue 15: each of them ended the driver."""
    evaluator = start((MODELLED,), compilers=1)
    failing_once(monkeypatch, error)
    first, last = run(evaluator, [request("s", 1, device_class=MODELLED)])["s"]
    assert (first.retried, first.outcome.status) == (True, Status.WORKER_LOST)
    assert first.outcome.error_class == type(error).__name__ and str(error) in first.outcome.error_digest
    assert last.outcome.status is Status.OK


def test_a_cluster_that_is_gone_is_one_error(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = start((MODELLED,), compilers=1)
    failing_once(monkeypatch, exceptions.LocalRayletDiedError("gone"))
    with pytest.raises(ClusterError, match=r"LocalRayletDiedError(.|\n)*sweep resume"):
        run(evaluator, [request("c", 1, device_class=MODELLED)])
