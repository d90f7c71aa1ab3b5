"""Jobs on several lanes: processes that die, hang or raise cost one job each; time that is over leaves an answer."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import bench_fakes
from tileflow_benchmarks.suite.cells import SUITE
from tileflow_benchmarks.suite.device_pool import DevicePool, Retry, lanes
from tileflow_benchmarks.suite.lane_work import CellJob, HostCalls, lost
from tileflow_benchmarks.suite.results import DEFAULT, EAGER, OURS, CellResult


def pool(count: int, on_loss: Any, limit_s: float = 30.0, seconds: float = 60.0) -> DevicePool[Any, Any]:
    seats = lanes([str(n) for n in range(count)], "FAKE_DEVICE", [])
    return DevicePool(seats, bench_fakes.make, None, on_loss, limit_s, time.monotonic() + seconds)


def say(job: list[str], phase: str, why: str) -> Any:
    return job, phase, why


def test_every_job_is_done_once_on_a_lane_of_its_own_device() -> None:
    jobs = [[f"job {n}"] for n in range(6)]
    found = list(pool(2, say).run(jobs))
    assert sorted(job for job, *_ in found) == jobs
    assert {lane for _, lane, *_ in found} == {"0", "1"}
    assert all(lane == device for _, lane, device, _ in found)
    assert len({pid for *_, pid in found}) == 2  # a process serves its lane for the whole run
    assert "FAKE_DEVICE" not in os.environ
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("word", "why"),
    [("die", "its process ended with 7"), ("raise", "its process ended with 1"), ("hang", "it took longer than 2 s")],
)
def test_a_process_that_is_lost_costs_one_job(word: str, why: str) -> None:
    jobs = [["first"], ["ready", word], ["last"]]
    found = list(pool(1, say, limit_s=2.0 if word == "hang" else 30.0).run(jobs))
    assert [answer[0] for answer in found] == jobs
    assert found[1] == (jobs[1], word, why)
    assert found[0][3] != found[2][3]  # another process took the lane


def test_a_lost_job_may_be_tried_again_otherwise() -> None:
    found = list(pool(1, lambda job, phase, why: Retry([phase, "done"][1:])).run([["die"]]))
    assert [job for job, *_ in found] == [["done"]]


def test_what_is_not_done_in_time_is_left_over() -> None:
    running = pool(1, say, seconds=4.0)
    began = time.monotonic()
    found = list(running.run([["quick"], ["hang"], ["never begun"]]))
    assert time.monotonic() - began < 10
    assert [job for job, *_ in found] == [["quick"]]
    assert running.left == [["hang"], ["never begun"]]
    assert not multiprocessing.active_children()


def test_lanes_share_the_cores_evenly() -> None:
    seats = lanes(["2", "5"], "CUDA_VISIBLE_DEVICES", range(5))
    assert [seat.cores for seat in seats] == [(0, 1), (2, 3)]
    assert [dict(seat.env)["CUDA_VISIBLE_DEVICES"] for seat in seats] == ["2", "5"]
    assert [seat.cores for seat in lanes(["0", "1", "2"], "X", [7])] == [(7,), (7,), (7,)]


def test_a_peer_that_takes_its_process_along_is_left_out_the_next_time() -> None:
    job = CellJob(SUITE[0])
    again = lost(job, "helion", "its process ended with -11")
    assert isinstance(again, Retry) and again.job == CellJob(SUITE[0], {"helion": "its process ended with -11"})
    while_timing = lost(again.job, "timing", "it took longer than 9 s")
    assert isinstance(while_timing, Retry) and isinstance(while_timing.job, CellJob)
    assert {"helion", "liger", "quack", "triton", "torch.compile"} == set(while_timing.job.skip)
    assert while_timing.job.skip["helion"] == "its process ended with -11"
    given_up = lost(while_timing.job, "timing", "dead")
    assert isinstance(given_up, CellResult)
    assert given_up.timings[OURS].error == "timing: dead" and "helion" in given_up.timings


@pytest.mark.parametrize("phase", ["start", "inputs", OURS])
def test_a_process_that_ours_takes_along_is_a_failed_cell(phase: str) -> None:
    failed = lost(CellJob(SUITE[0]), phase, "dead")
    assert isinstance(failed, CellResult) and failed.timings[OURS].error == f"{phase}: dead"


@pytest.mark.parametrize("phase", [DEFAULT, EAGER])
def test_the_default_and_eager_are_left_out_too(phase: str) -> None:
    again = lost(CellJob(SUITE[0]), phase, "dead")
    assert isinstance(again, Retry) and lost(HostCalls(), "host calls", "dead") != again
