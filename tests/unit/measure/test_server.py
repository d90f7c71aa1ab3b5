"""The measuring process without a device: limits, deaths, the spare; and outcomes of errors."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tileflow.config import Config
from tileflow.errors import (
    BuildError,
    BuildTimeout,
    CallError,
    ClusterError,
    ConfigError,
    InternalError,
    LaunchError,
    OutOfResources,
    SlowProblem,
    SpecError,
)
from tileflow.measure.failure import MESSAGE_CHARS, build_failure, launch_failure
from tileflow.measure.request import Candidate, Limits, MeasureRequest
from tileflow.measure.server import MeasureProcess
from tileflow.measure.types import Outcome, Status

LIMITS = Limits(prepare=0.5, floor=0.3, unknown=0.5)


@pytest.fixture(scope="module")
def process() -> Iterator[MeasureProcess]:
    with MeasureProcess(runs="tile_testing.kernels.measure_kernels:stand_in", recycle_after=50) as process:
        yield process


def ask(
    process: MeasureProcess, what: str, incumbent_us: float | None = None, *, n: int = 0, limits: Limits = LIMITS
) -> Outcome:
    candidate = Candidate(Config.of({"what": what}), ())
    problem = (("n", n),)
    return process.run(
        MeasureRequest(
            "tile_testing.kernels.measure_kernels:add", problem, (candidate,), limits=limits, incumbent_us=incumbent_us
        )
    )


def served_by(outcome: Outcome) -> str:
    return outcome.error_digest


def test_an_endless_kernel_is_killed_at_its_limit_and_the_spare_answers(process: MeasureProcess) -> None:
    first = served_by(ask(process, "ok"))
    started = time.monotonic()
    outcome = ask(process, "hang", incumbent_us=100.0)
    assert outcome.status is Status.BENCH_TIMEOUT and "'check' took longer than 0.5 s" in outcome.error_digest
    assert time.monotonic() - started < 15
    assert served_by(ask(process, "ok")) != first


@pytest.mark.slow
def test_a_process_that_has_grown_is_replaced() -> None:
    """Fault 7: memory that caches take on the host, here any at all, is given back with the process."""
    with MeasureProcess(runs="tile_testing.kernels.measure_kernels:stand_in", max_rss_bytes=1, warm=()) as small:
        first, second = ask(small, "ok"), ask(small, "ok")
    assert first.status is second.status is Status.OK
    assert served_by(first) != served_by(second)


def test_limits_scale_with_the_incumbent() -> None:
    limits = Limits()
    assert limits.phases(None)["check"] == limits.unknown
    assert limits.phases(100.0)["check"] == pytest.approx(limits.floor + 0.2)
    assert limits.phases(1e6)["time"] > 1000
    assert limits.phases(1.0)["prepare"] == limits.phases(None)["prepare"]


def test_a_problem_that_is_not_made_in_time_is_raised_once_for_all_its_configs(
    process: MeasureProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 15: each config of it was a lost worker, which cost the others 180 s each time."""
    with pytest.raises(SlowProblem, match=r"must be made in 0\.5 s(.|\n)*faster reference="):
        ask(process, "slow_inputs", n=7)
    with monkeypatch.context() as patch, pytest.raises(SlowProblem):
        patch.setattr(process, "_ask", lambda *_, **__: pytest.fail("its process is not asked again"))
        ask(process, "ok", n=7)
    assert ask(process, "ok", n=8).status is Status.OK
    patient = replace(LIMITS, prepare=5.0)
    assert ask(process, "ok", n=7, limits=patient).status is Status.OK
    assert patient.while_others_wait() == replace(patient, prepare=2.0, noise=20.0, others_wait=True)
    assert [Limits().within(budget_s).prepare for budget_s in (None, 5.0, 60.0, 3600.0)] == [180.0, 20.0, 60.0, 180.0]
    assert Limits().while_others_wait().prepare < Limits().prepare


def test_measuring_the_noise_has_more_time_than_making_the_data(process: MeasureProcess) -> None:
    """It calls the author's functions several times: a reference of half a second is no slow one for it."""
    limits = replace(LIMITS, prepare=0.2, noise=5.0)
    before = served_by(ask(process, "ok", n=30))
    assert served_by(ask(process, "noisy", n=31, limits=limits)) == before
    with pytest.raises(SlowProblem):
        ask(process, "noisy", n=32, limits=replace(limits, noise=0.2).while_others_wait())


def test_a_reference_without_room_is_made_on_the_cpu(process: MeasureProcess, caplog: pytest.LogCaptureFixture) -> None:
    """Issue 15: it ended its study, after each of 51 configs had tried it."""
    for _ in range(3):
        assert ask(process, "no_room_for_reference", n=9).status is Status.OK
    assert [r.getMessage() for r in caplog.records if "on the CPU" in r.getMessage()] == [
        "the reference of tile_testing.kernels.measure_kernels:add {'n': 9} is made on the CPU: planted: 300 GiB"
    ]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("no_room_on_this_host", "planted: no room on the cpu"),
        pytest.param(
            "reference_ends_the_process_on_the_cpu", "signal SIGKILL while in phase 'prepare'", marks=pytest.mark.slow
        ),
        pytest.param(
            "reference_never_returns_on_the_cpu", "phase 'prepare' took longer than 0.5 s", marks=pytest.mark.slow
        ),
    ],
)
def test_where_the_cpu_has_none_either_there_are_witnesses(
    process: MeasureProcess, caplog: pytest.LogCaptureFixture, what: str, why: str
) -> None:
    """Issue 15: such a problem ended with ``must fit the card``, or each of its configs was a lost worker."""
    for _ in range(2):
        assert ask(process, what, n=len(what)).status is Status.OK
    said = [r.getMessage() for r in caplog.records if "the reference of" in r.getMessage()]
    assert len(said) == 2 and "is made on the CPU: planted" in said[0]
    assert f"are its witnesses: {why}" in said[1]


@pytest.mark.slow
def test_where_a_reference_takes_too_long_there_are_witnesses(
    process: MeasureProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """A kernel that has no reference but its own text as Python could not be tuned: it took more than 180 s."""
    for _ in range(2):
        assert ask(process, "slow_reference", n=14).status is Status.OK
    (said,) = [r.getMessage() for r in caplog.records if "the reference of" in r.getMessage()]
    assert "are its witnesses: phase 'prepare' took longer than 0.5 s" in said
    with pytest.raises(SlowProblem):  # nothing waits for it while others do
        ask(process, "slow_reference", n=15, limits=LIMITS.while_others_wait())
    assert ask(process, "slow_reference", n=15).status is Status.OK


def test_a_slow_text_has_witnesses_at_once_in_the_same_process(
    process: MeasureProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever waits: nobody wrote that reference, so nobody is told to make it faster."""
    before = served_by(ask(process, "ok"))
    outcome = ask(process, "slow_text", n=16, limits=LIMITS.while_others_wait())
    assert outcome.status is Status.OK and served_by(outcome) == before
    assert [r.getMessage() for r in caplog.records if "are its witnesses: planted: the text" in r.getMessage()]


def test_one_long_call_of_a_text_is_ended_whoever_waits(
    process: MeasureProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """A product of integers, which no library has, took 200 s of a group's tuning."""
    limits = replace(LIMITS, prepare=20.0, text=0.2).while_others_wait()
    assert ask(process, "endless_text", n=17, limits=limits).status is Status.OK
    assert [r.getMessage() for r in caplog.records if "text as plain Python took longer than 0.4 s" in r.getMessage()]


def test_a_problem_without_room_goes_last_while_others_wait(process: MeasureProcess) -> None:
    """Issue 15: its further tries, a process each, held up the others."""
    before = served_by(ask(process, "ok"))
    with pytest.raises(SlowProblem, match="beside their data, or go last, but got planted: no room on the device"):
        ask(process, "no_room_on_this_host", n=1, limits=LIMITS.while_others_wait())
    with pytest.raises(SlowProblem, match="planted: no room on the device"):
        ask(process, "hang", n=1, limits=LIMITS.while_others_wait())  # not tried again
    assert served_by(ask(process, "ok")) == before
    assert ask(process, "no_room_on_this_host", n=1).status is Status.OK


def test_witnesses_that_disagree_end_the_problem(process: MeasureProcess) -> None:
    with pytest.raises(SpecError, match="witnesses must agree, but got planted"):
        ask(process, "witnesses_disagree", n=2)


def test_a_dead_child_is_a_lost_worker_with_its_signal(process: MeasureProcess) -> None:
    outcome = ask(process, "segfault")
    assert outcome.status is Status.WORKER_LOST and "SIGSEGV while in phase 'check'" in outcome.error_digest
    assert ask(process, "ok").status is Status.OK


def test_after_an_illegal_access_the_spare_takes_over(process: MeasureProcess) -> None:
    before = served_by(ask(process, "ok"))
    assert served_by(ask(process, "ok")) == before
    assert ask(process, "illegal_access").status is Status.ILLEGAL_ACCESS
    assert served_by(ask(process, "ok")) != before


def test_short_memory_is_tried_once_more_in_a_clean_process(process: MeasureProcess) -> None:
    before = served_by(ask(process, "ok"))
    outcome = ask(process, "oom")
    assert outcome.status is Status.OOM and served_by(outcome) != before


def test_a_problem_that_never_fits_is_raised_for_all_its_configs(process: MeasureProcess) -> None:
    """Issue 15: each of 51 configs was told ``oom`` for it, after two tries of 8 s."""
    with pytest.raises(SpecError, match=r"must fit the card, but got planted: 300 GiB(.|\n)*smaller sizes"):
        ask(process, "no_room")


def test_the_authors_mistakes_are_raised_once_and_cost_no_process(process: MeasureProcess) -> None:
    """Each of a problem's configs that were under way asked anew and lost the process, with the data of nine other
    studies: 15 s of a search of 24 s on an H200."""
    before = served_by(ask(process, "ok", n=20))
    with pytest.raises(ConfigError, match="planted"):
        ask(process, "author", n=21)
    with pytest.raises(ConfigError, match="planted"):
        ask(process, "hang", n=21)  # not asked any more
    assert served_by(ask(process, "ok", n=20)) == before
    process.rest()
    assert ask(process, "ok", n=21).status is Status.OK


def test_a_mistake_that_breaks_the_device_costs_the_process(
    process: MeasureProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileflow.measure.server._IS_HEALTHY", "tile_testing.kernels.measure_kernels:is_broken")
    before = served_by(ask(process, "ok", n=20))
    with pytest.raises(ConfigError, match="planted"):
        ask(process, "author", n=22)
    assert served_by(ask(process, "ok", n=20)) != before
    assert ask(process, "ok", n=22).status is Status.OK, "it may have been the device's fault"


def test_without_a_device_the_identity_says_what_is_missing(process: MeasureProcess) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a device")
    with pytest.raises(ClusterError, match="able to open device 0"):
        process.identity()


def test_closing_leaves_no_process() -> None:
    process = MeasureProcess(warm=())
    process._keep_spare()
    assert process._spare is not None
    pids = process._child.pid, process._spare.pid
    process.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BuildTimeout("too long"), Status.COMPILE_TIMEOUT),
        (BuildError("no"), Status.COMPILE_ERROR),
        (OutOfResources("shared"), Status.INVALID_STATIC),
        (ConfigError("no"), Status.INVALID_STATIC),
        (ClusterError("gone"), Status.WORKER_LOST),
        (InternalError("ours"), Status.COMPILE_ERROR),
    ],
)
def test_build_errors_as_outcomes(error: Exception, status: Status) -> None:
    outcome = build_failure(error)
    assert (outcome.status, outcome.error_class) == (status, type(error).__name__)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel ..."), Status.ILLEGAL_ACCESS),
        (LaunchError("the driver must accept", got="CUDA_ERROR_MISALIGNED_ADDRESS"), Status.ILLEGAL_ACCESS),
        (RuntimeError("CUDA error: unspecified launch failure"), Status.ILLEGAL_ACCESS),
        (RuntimeError("CUDA error: device-side assert triggered"), Status.ILLEGAL_ACCESS),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), Status.OOM),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), Status.DEVICE_LOST),
        (OutOfResources("shared memory"), Status.OUT_OF_RESOURCES),
        (LaunchError("a launch", got="CUDA_ERROR_INVALID_VALUE"), Status.OUT_OF_RESOURCES),
        (CallError("arguments"), Status.COMPILE_ERROR),
        (RuntimeError("CUDA error: something new"), Status.ILLEGAL_ACCESS),
        (ValueError("host code"), Status.COMPILE_ERROR),
    ],
)
def test_run_errors_as_outcomes(error: Exception, status: Status) -> None:
    assert launch_failure(error).status is status


def test_the_beginning_of_a_message_is_kept() -> None:
    text = "\n".join(f"line {i}" for i in range(500))
    outcome = build_failure(SpecError(text))
    assert len(outcome.error_digest) == MESSAGE_CHARS and outcome.error_digest == text[:MESSAGE_CHARS]
