"""Jobs in several slots: processes that die, hang or raise cost one job each; time that is over leaves an answer."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import bench_fakes
from tileflow_benchmarks import process_pool
from tileflow_benchmarks.process_pool import (
    Command,
    Commands,
    Ended,
    ProcessPool,
    Retry,
    Slot,
    Workers,
    even_slots,
    gpu_slots,
)
from tileflow_benchmarks.suite.cells import SUITE
from tileflow_benchmarks.suite.results import DEFAULT, EAGER, OURS, CellResult
from tileflow_benchmarks.suite.slot_work import CellJob, HostCalls, lost


def pool(count: int, on_loss: Any, limit_s: float = 30.0, seconds: float = 60.0) -> ProcessPool[Any, Any]:
    slots = even_slots([str(n) for n in range(count)], "FAKE_DEVICE", [])
    workers = Workers(bench_fakes.make, None, on_loss, limit_s)
    return ProcessPool(slots, workers, time.monotonic() + seconds)


def say(job: list[str], phase: str, why: str) -> Any:
    return job, phase, why


def test_every_job_is_done_once_in_a_slot_of_its_own_device() -> None:
    jobs = [[f"job {n}"] for n in range(6)]
    found = list(pool(2, say).run(jobs))
    assert sorted(job for job, *_ in found) == jobs
    assert {slot for _, slot, *_ in found} == {"0", "1"}
    assert all(slot == device for _, slot, device, _ in found)
    assert len({pid for *_, pid in found}) == 2  # a process serves its slot for the whole run
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
    assert found[0][3] != found[2][3]  # another process took the slot


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


def test_even_slots_share_the_cores() -> None:
    slots = even_slots(["2", "5"], "CUDA_VISIBLE_DEVICES", range(5))
    assert [slot.cores for slot in slots] == [(0, 1), (2, 3)]
    assert [dict(slot.environment)["CUDA_VISIBLE_DEVICES"] for slot in slots] == ["2", "5"]
    assert [slot.cores for slot in even_slots(["0", "1", "2"], "X", [7])] == [(7,), (7,), (7,)]


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


def script(item: str, code: str, tmp_path: Path, limit_s: float = 20.0) -> Command[str]:
    return Command(item, (sys.executable, "-c", code), {"DUEL": item}, tmp_path / f"{item}.log", limit_s, limit_s)


def commands(slots: list[Slot], prepare: Callable[[str, Slot], Command[str]]) -> ProcessPool[str, Ended[str]]:
    return ProcessPool(slots, Commands(prepare, time.monotonic() + 60))


def _runs(stat: Path) -> bool:
    """Whether the process of this file in /proc is there and no zombie."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class TestCommands:
    def test_a_crash_and_a_timeout_are_told_and_harm_no_other(self, tmp_path: Path) -> None:
        codes = {
            "hangs": "import time; time.sleep(60)",
            "crashes": "import os; os.abort()",
            "fails": "raise SystemExit(3)",
            "fine": "import os; print(os.environ['DUEL'], os.environ['CUDA_VISIBLE_DEVICES'], os.sched_getaffinity(0))",
            "also": "pass",
        }
        slots = [Slot(gpu, (("CUDA_VISIBLE_DEVICES", gpu),), (0,)) for gpu in ("7", "8")]
        limits = {"hangs": 1.0, "late": 1e6}
        pool = commands(slots, lambda item, _: script(item, codes.get(item, ""), tmp_path, limits.get(item, 20.0)))
        endings: dict[str, Ended[str]] = {ended.command.item: ended for ended in pool.run([*codes, "late"])}
        assert pool.left == ["late"]
        assert {item: ended.ending for item, ended in endings.items()} == {
            "hangs": "ended after 1 s", "crashes": "exit code -6", "fails": "exit code 3", "fine": "", "also": "",
        }  # fmt: skip
        assert endings["hangs"].wall_s < 5
        assert (tmp_path / "fine.log").read_text() == f"fine {endings['fine'].slot.name} {{0}}\n"

    def test_what_a_search_started_ends_with_it(self, tmp_path: Path) -> None:
        code = (
            "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']).pid)"
        )
        list(commands([Slot("", (), (0,))], lambda item, _: script(item, code, tmp_path)).run(["parent"]))
        child = Path(f"/proc/{int((tmp_path / 'parent.log').read_text())}/stat")
        deadline = time.monotonic() + 10.0  # the signal is sent by then, but the child may have had no turn yet
        while _runs(child) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not _runs(child)

    def test_one_that_ignores_the_request_to_end_is_killed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process_pool, "GRACE_S", 0.3)
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        pool = commands([Slot("", (), (0,))], lambda item, _: script(item, code, tmp_path, 0.5))
        (ended,) = pool.run(["stubborn"])
        assert ended.ending.startswith("ended after") and 0.5 < ended.wall_s < 5

    def test_no_process_outlives_a_run_that_is_given_up(self, tmp_path: Path) -> None:
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(99)"
        slots = [Slot("", (), (0,)), Slot("other", (), (0,))]
        run = commands(slots, lambda item, _: script(item, code if item == "long" else "pass", tmp_path)).run(
            ["long", "short"]
        )
        assert next(run).command.item == "short"
        run.close()
        text = (tmp_path / "long.log").read_text()
        assert not text or not Path(f"/proc/{int(text)}").exists()


def test_each_gpu_slot_has_cores_of_its_own() -> None:
    def seen(slots: list[Slot]) -> list[tuple[str, tuple[int, ...]]]:
        assert all(slot.environment == (("CUDA_VISIBLE_DEVICES", slot.name),) for slot in slots)
        return [(slot.name, slot.cores) for slot in slots]

    assert seen(gpu_slots(["0", "1"], range(40), 16)) == [("0", tuple(range(16))), ("1", tuple(range(16, 32)))]
    assert seen(gpu_slots(["0", "1", "2"], range(20), 16)) == [("0", tuple(range(16)))]
    assert seen(gpu_slots(["5"], [3, 4], 16)) == [("5", (3, 4))]
    assert seen(gpu_slots([], [3, 4], 16)) == [("", (3, 4))]
