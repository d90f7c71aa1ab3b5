"""What every evaluator must do, run over the inline, the replay, the local and the Ray one alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.cluster_fakes import GPU, MODELLED, FakeStages, fake_binary, median_us, request
from tile_testing.fakes.cluster_runs import run
from tileflow_cluster.devices import VisibleGpu
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.local_evaluator import LocalEvaluator
from tileflow_cluster.local_pool import LocalPool
from tileflow_cluster.protocol import Evaluator
from tileflow_cluster.ray_evaluator import RayEvaluator
from tileflow_cluster.replay import ReplayEvaluator
from tileflow_cluster.trial import TrialResult

from tileflow.errors import ClusterError
from tileflow.measure.types import Status

RECORDED = [
    *(request(f"r{x}", x) for x in range(12)),
    *(request(f"s{x}", x, inert=1) for x in range(12)),
    *(request(f"e{x}", x, "compile_error") for x in range(12)),
    *(request(f"i{x}", x, "device_incorrect") for x in range(12)),
    *(request(f"m{x}", x, device_class=MODELLED) for x in range(12)),
]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance")


def replay(scratch: Path) -> ReplayEvaluator:
    inline = InlineEvaluator(FakeStages(str(scratch)), measured=(GPU,), modelled=(MODELLED,))
    final = {name: results[-1] for name, results in run(inline, RECORDED).items()}
    return ReplayEvaluator({each.key: final[each.request_id] for each in RECORDED}, (GPU, MODELLED))


@pytest.fixture(scope="class", params=["inline", "replay", "local", "ray"])
def evaluator(request: pytest.FixtureRequest, scratch: Path) -> Iterator[Evaluator]:
    made: Any
    if request.param == "inline":
        made = InlineEvaluator(FakeStages(str(scratch)), measured=(GPU,), modelled=(MODELLED,))
    elif request.param == "replay":
        made = replay(scratch)
    elif request.param == "local":
        gpus = [VisibleGpu("0", "NVIDIA H200", GPU)]
        made = LocalEvaluator(FakeStages(str(scratch)), (GPU, MODELLED), pool=LocalPool(forks=False), gpus=gpus)
    else:
        request.getfixturevalue("ray_cluster")
        made = RayEvaluator(FakeStages(str(scratch)), (GPU, MODELLED))
    yield made
    made.close()
    made.close()


class TestEvaluator:
    """One evaluator serves all of these in turn; each uses an ``x`` of its own, the last one drains."""

    def test_names_what_it_serves(self, evaluator: Evaluator) -> None:
        assert [served.name for served in evaluator.device_classes()] == [GPU, MODELLED]
        assert all(served.workers >= 1 for served in evaluator.device_classes())

    def test_wants_requests_but_not_without_end(self, evaluator: Evaluator) -> None:
        assert 0 < evaluator.capacity(GPU) < 100

    def test_an_unserved_class_is_refused_with_those_there_are(self, evaluator: Evaluator) -> None:
        with pytest.raises(ClusterError, match=MODELLED):
            evaluator.submit(request("x", 0, device_class="nvidia-b200"))
        assert evaluator.pending() == 0

    def test_each_request_ends_once(self, evaluator: Evaluator) -> None:
        requests = [request(f"a{x}", x) for x in range(4)]
        results = run(evaluator, requests)
        for x, each in enumerate(requests):
            (result,) = results[each.request_id]
            assert result.outcome.status is Status.OK and result.outcome.measurement is not None
            assert result.outcome.measurement.median_us == median_us(x)
            assert result.roofline_frac == pytest.approx(50.0 / median_us(x))
            assert (result.final, result.blames_config, result.duplicate_of) == (True, True, "")
        assert len({result.trial_id for (result,) in results.values()}) == 4

    def test_a_rejected_config_never_reaches_a_device(self, evaluator: Evaluator) -> None:
        before = evaluator.counters().measured
        (result,) = run(evaluator, [request("b", 4, "compile_error")])["b"]
        assert result.outcome.status is Status.COMPILE_ERROR
        assert evaluator.counters().measured == before

    def test_an_incorrect_config_says_so(self, evaluator: Evaluator) -> None:
        (result,) = run(evaluator, [request("c", 5, "device_incorrect")])["c"]
        assert result.outcome.status is Status.INCORRECT and result.outcome.measurement is None

    def test_the_same_binary_is_measured_once(self, evaluator: Evaluator) -> None:
        before = evaluator.counters()
        results = run(evaluator, [request("d0", 6), request("d1", 6, inert=1)])
        again = run(evaluator, [request("d2", 6)])["d2"]
        ended = [results["d0"][0], results["d1"][0], again[0]]
        assert len({result.trial_id for result in ended}) == 1
        assert len({result.outcome for result in ended}) == 1
        assert sum(not result.duplicate_of for result in ended) == 1
        assert evaluator.counters().measured == before.measured + 1
        assert evaluator.counters().duplicates == before.duplicates + 2

    def test_a_remeasurement_is_no_duplicate(self, evaluator: Evaluator) -> None:
        before = evaluator.counters().measured
        run(evaluator, [request("e0", 7)])
        (result,) = run(evaluator, [request("e1", 7, remeasure=True)])["e1"]
        assert result.duplicate_of == "" and evaluator.counters().measured == before + 2

    def test_a_modelled_class_is_marked(self, evaluator: Evaluator) -> None:
        (result,) = run(evaluator, [request("f", 8, device_class=MODELLED)])["f"]
        assert not result.outcome.measured and result.gpu_uuid == ""

    def test_binaries_of_a_winner_can_be_had(self, evaluator: Evaluator) -> None:
        (result,) = run(evaluator, [request("g", 9)])["g"]
        if isinstance(evaluator, ReplayEvaluator):
            with pytest.raises(ClusterError, match="no binaries"):
                evaluator.fetch_binaries(result.trial_id)
            return
        assert result.binaries_kept
        assert evaluator.fetch_binaries(result.trial_id) == (fake_binary(request("g", 9)),)
        with pytest.raises(ClusterError):
            evaluator.fetch_binaries("unknown")

    def test_counters_add_up(self, evaluator: Evaluator) -> None:
        before = evaluator.counters()
        run(evaluator, [request("h0", 10), request("h1", 10, "compile_error"), request("h2", 11)])
        after = evaluator.counters()
        assert after.considered == before.considered + 3
        assert after.measured == before.measured + 2
        assert after.elapsed_s >= before.elapsed_s
        assert 0.0 <= after.device_idle <= 1.0

    def test_draining_ends_everything(self, evaluator: Evaluator) -> None:
        assert not evaluator.draining
        for x in range(6):
            evaluator.submit(request(f"z{x}", x, remeasure=True))
        evaluator.drain()
        assert evaluator.draining and evaluator.capacity(GPU) == 0
        ended: list[TrialResult] = []
        deadline = time.monotonic() + 10
        while evaluator.pending() and time.monotonic() < deadline:
            ended += evaluator.poll(0.5)
        assert sorted(result.request_id for result in ended) == [f"z{x}" for x in range(6)]
        assert {result.outcome.status for result in ended} <= {Status.CANCELLED, Status.OK}


def test_a_replay_refuses_what_was_not_recorded(scratch: Path) -> None:
    evaluator = replay(scratch)
    evaluator.submit(request("u", 999))
    with pytest.raises(ClusterError, match="x=999"):
        evaluator.poll(1.0)


def test_replay_time_is_virtual(scratch: Path) -> None:
    evaluator = replay(scratch)
    run(evaluator, [request(f"v{x}", x) for x in range(5)])
    assert evaluator.counters().elapsed_s == pytest.approx(5 * 0.01)
