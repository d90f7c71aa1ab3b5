"""The measuring child's logic on a CPU: a simulated sampler stands for the card."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch

from tileflow.config import Config
from tileflow.errors import LaunchError, SpecError
from tileflow.measure import child, input_cache, warmup
from tileflow.measure.canary import Canary, NoiseGuard
from tileflow.measure.device import DeviceInfo
from tileflow.measure.failure import NO_ROOM, NO_TIME
from tileflow.measure.monitor import NullMonitor
from tileflow.measure.racing import Rules
from tileflow.measure.request import Candidate, Limits, MeasureRequest
from tileflow.measure.types import DeviceFacts, Status
from tileflow.tolerances import UNSAID

made: Counter[tuple[int, int]] = Counter()  # inputs by (n, seed)


class Twice:
    """``x * 2``; the config says what goes wrong, and how long it takes."""

    scope, baseline, tolerances, has_reference = None, None, UNSAID, True

    def inputs(self, *, device: str = "cpu", seed: int = 0, n: int = 64) -> tuple[torch.Tensor]:
        made[n, seed] += 1
        return (torch.randn(n, generator=torch.Generator().manual_seed(seed)),)

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def run_eagerly(self, *args: Any, config: Any = None) -> Any:
        return self.reference(*args)

    def kind(self, *args: Any) -> Any:
        return self

    def bind(self, config: Config, launchers: Mapping[int, Sequence[Any]]) -> Callable[..., Any]:
        fault, us = config["fault"], config["us"]
        if fault == "does_not_load":
            raise LaunchError("planted", got=fault)

        def call(x: torch.Tensor) -> Any:
            if fault == "illegal":
                raise LaunchError("an illegal memory access was planted")
            if fault == "wrong_on_the_second_seed" and not torch.equal(x, Twice().inputs(n=len(x))[0]):
                return x
            if fault == "nan":
                return x * float("nan")
            if fault == "shape":
                return x[1:]
            return x * 2 if fault != "wrong" else x

        call.us = us  # type: ignore[attr-defined]
        return call


twice = Twice()
warmed: list[str] = []
steady = NoiseGuard(Canary(lambda count: [10.0] * count), NullMonitor("GPU-0"))


def load(reference: str) -> Any:
    return twice


class Sampler:
    def __init__(self, call: Any, args: Sequence[Any], *, give_up_us: float = math.inf) -> None:
        self.us = self.first_us = float(call.us)

    def __call__(self, count: int) -> list[float]:
        return [self.us] * count


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(
        child, "identified_device", lambda index: DeviceInfo("card", "nvidia-h200", "GPU-0", 1, 1, "", "")
    )
    monkeypatch.setattr(child, "noise_guard", lambda index: steady)
    monkeypatch.setattr(warmup, "_warm_up", warmed.append)
    monkeypatch.setattr(child, "DeviceSampler", Sampler)
    monkeypatch.setattr(child, "sample_in_turn", lambda samplers: [s.us for s in samplers])
    monkeypatch.setattr(input_cache, "make_room", lambda: None)
    monkeypatch.setitem(sys.modules, "measure_child_kernels", sys.modules[__name__])
    made.clear()
    warmed.clear()
    yield
    input_cache.forget()


def race(*configs: tuple[str, float], **changes: Any) -> Any:
    return ask(*configs, rules=Rules(), **changes)


def ask(*configs: tuple[str, float], n: int = 64, **changes: Any) -> Any:
    candidates = tuple(Candidate(Config.of({"fault": fault, "us": us}), ()) for fault, us in configs)
    request = MeasureRequest("m:twice", (("n", n),), candidates, loader="measure_child_kernels:load", **changes)
    return child.run(request, 0)


def test_one_candidate_is_checked_and_timed() -> None:
    outcome = ask(("", 50.0))
    assert outcome.status is Status.OK and outcome.measurement.median_us == 50.0
    assert outcome.device.gpu_uuid == "GPU-0" and not outcome.ranked


def test_data_is_made_once_a_problem_and_seed() -> None:
    for n in (64, 32, 64):
        ask(("", 50.0), n=n, seeds=(0,))
    ask(("", 50.0), n=64, seeds=(0, 1))
    assert made == {(64, 0): 1, (32, 0): 1, (64, 1): 1}


def test_data_made_ahead_is_the_first_trials() -> None:
    child.prepare(MeasureRequest("m:twice", (("n", 64),), (), loader="measure_child_kernels:load", seeds=(0,)), 0)
    assert made == {(64, 0): 1}
    assert warmed == ["float32"], "what a trial loads is loaded ahead, for the problem's own dtype alone"
    assert ask(("", 50.0), seeds=(0,)).status is Status.OK
    assert made == {(64, 0): 1}


def test_a_first_problem_loads_no_compiler_of_torch() -> None:
    """Its import took 4 to 5 s of each fresh process on an H200's host, in which the first problem was not made."""
    script = """
import sys, torch
from tileflow.measure import check, child, inputs
def double(x): return x * 2
x = torch.randn(4, 5)
reference = check.make_reference(double, (x,))
right, wrong = (check.check_call(call, (x,), reference) for call in (double, lambda x: x + 1))
print(right.ok, wrong.ok, "at (" in wrong.reason, *(name in sys.modules for name in ("torch._inductor", "sympy")))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True", "False", "False"]


def test_what_an_authors_function_raises_is_told_as_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was an internal error of tileflow's."""

    def reference(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(3)

    monkeypatch.setattr(twice, "reference", reference, raising=False)
    request = MeasureRequest("m:twice", (("n", 64),), (), loader="measure_child_kernels:load")
    for tell in (lambda: ask(("", 50.0)), lambda: child.prepare(request, 0)):
        with pytest.raises(SpecError, match=r"but got RuntimeError: (.|\n)*m:twice \{'n': 64\}, .*test_child\.py:\d+"):
            tell()


@pytest.mark.parametrize("file", ["/home/me/kernels.py", "<ipython-input-3-0a1b2c>", "<string>"])
def test_the_place_that_is_told_is_the_authors_line(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """Whatever Python's own module raises there; a notebook's cells are in no file."""
    scope: dict[str, Any] = {}
    exec(compile("import json\ndef reference(x):\n    return json.loads('{')\n", file, "exec"), scope)
    monkeypatch.setattr(twice, "reference", scope["reference"], raising=False)
    with pytest.raises(SpecError) as told:
        ask(("", 50.0))
    assert str(told.value.where).endswith(f"{file}:3")


def test_a_device_that_computes_no_more_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: int) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    assert child.is_healthy(0) or torch.cuda.is_available()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", broken)
    assert not child.is_healthy(0)


def test_a_verdict_of_wrong_is_from_fresh_data() -> None:
    ask(("", 50.0), seeds=(0,))
    request = MeasureRequest("m:twice", (("n", 64),), (), loader="measure_child_kernels:load", seeds=(0,))
    _, (data,) = input_cache.prepare(request)
    assert made[64, 0] == 1, "the same data"
    data.reference.result.zero_()  # as a config that writes out of bounds would
    assert ask(("", 50.0), seeds=(0,)).status is Status.OK
    assert made[64, 0] == 2
    assert ask(("wrong", 50.0), seeds=(0,)).status is Status.INCORRECT


def test_wrong_configs_make_no_data_anew_that_nothing_wrote_over() -> None:
    """A kernel whose every config was wrong made its data 17 times, 1 s each; four others had 18 trials in 30 s."""
    ask(("", 50.0), seeds=(0,))
    for fault in ("wrong", "nan", "shape", "wrong"):
        assert ask((fault, 50.0), seeds=(0,)).status in (Status.INCORRECT, Status.NONFINITE)
    assert made == {(64, 0): 1}


def test_a_race_ranks_those_that_pass_their_check() -> None:
    outcome = race(("", 50.0), ("wrong", 10.0), ("", 80.0), ("does_not_load", 10.0), ("", 50.0))
    assert outcome.status is Status.OK
    best, wrong, slow, unloaded, equal = outcome.ranked
    assert (best.ratio, equal.ratio, slow.ratio) == (1.0, 1.0, pytest.approx(1.6))
    assert [place.tied for place in outcome.ranked] == [True, False, False, False, True]
    assert wrong.outcome.status is Status.INCORRECT and wrong.outcome.measurement is None
    assert unloaded.outcome.status is Status.OUT_OF_RESOURCES
    assert slow.outcome.measurement.median_us == pytest.approx(80.0)


def test_a_race_checks_every_seed() -> None:
    candidates = (("", 50.0), ("wrong_on_the_second_seed", 10.0))
    assert [place.tied for place in race(*candidates, seeds=(0,)).ranked] == [False, True]
    assert [place.tied for place in race(*candidates, seeds=(0, 1)).ranked] == [True, False]


def test_a_race_fails_with_its_device() -> None:
    outcome = race(("", 50.0), ("illegal", 10.0))
    assert outcome.status is Status.ILLEGAL_ACCESS and not outcome.ranked


def test_a_race_of_none_that_passes_has_no_leader() -> None:
    outcome = race(("wrong", 50.0), ("wrong", 10.0))
    assert outcome.status is Status.OK and not any(place.tied for place in outcome.ranked)


def test_a_reference_without_room_is_told_from_a_config_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("planted: 300 GiB")

    monkeypatch.setattr(twice, "reference", reference, raising=False)
    outcome = ask(("", 50.0))
    assert (outcome.status, outcome.error_class, outcome.error_digest) == (Status.OOM, NO_ROOM, "planted: 300 GiB")


def test_a_reference_on_the_cpu_is_said_with_the_outcome() -> None:
    outcome = ask(("", 50.0), reference_on="cpu")
    assert (outcome.status, outcome.reference) == (Status.OK, "cpu")
    assert ask(("wrong", 50.0), reference_on="cpu").status is Status.INCORRECT


@pytest.mark.parametrize("fault", ["nan", "shape"])
def test_an_infinite_error_is_no_number(fault: str) -> None:
    """Issue 15: the infinity of a NaN or a wrong shape was refused by the journal, and ended the sweep."""
    outcome = ask((fault, 50.0))
    assert outcome.status in (Status.INCORRECT, Status.NONFINITE) and outcome.max_err is None and outcome.error_digest


def test_what_is_kept_makes_room_for_a_librarys_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN, which allocates beside torch, has no other word for it."""
    ask(("", 50.0), n=64)

    def reference(x: torch.Tensor) -> torch.Tensor:
        if input_cache.cached():
            raise RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR")
        return x * 2

    monkeypatch.setattr(twice, "reference", reference, raising=False)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    assert ask(("", 50.0), n=32).status is Status.OK

    def broken(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("the author's own mistake")

    monkeypatch.setattr(twice, "reference", broken, raising=False)
    with pytest.raises(SpecError, match="own mistake"):
        ask(("", 50.0), n=16)


class Crowded(NullMonitor):
    """A card that two more processes compute on."""

    def foreign_processes(self) -> tuple[int, ...] | None:
        return 4711, 4712


def test_memory_that_is_short_names_who_else_is_on_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 8: a foreign process was blamed on nobody."""

    def full(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(child, "noise_guard", lambda index: NoiseGuard(steady.canary, Crowded("GPU-0")))
    monkeypatch.setattr(child, "DeviceSampler", full)
    outcome = ask(("", 50.0))
    assert outcome.status is Status.OOM and "beside this process: 4711, 4712" in outcome.error_digest


def test_a_condemned_measurement_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 18: the times beside a slow canary are not those that come back, of a config and of a race."""
    canaries = iter([10.0] * 3 + [20.0, 10.0] + [20.0, 10.0])
    watched = NoiseGuard(Canary(lambda count: [next(canaries)] * count), NullMonitor("GPU-0"), lambda seconds: None)
    monkeypatch.setattr(child, "noise_guard", lambda index: watched)
    for _ in range(3):
        assert ask(("", 50.0)).device == DeviceFacts("GPU-0", canary_ratio=1.0)
    assert ask(("", 50.0)).device == DeviceFacts("GPU-0", canary_ratio=1.0, noise_retries=1)
    held = race(("", 50.0), ("", 60.0))
    assert held.device.noise_retries == 1 and {p.outcome.device.noise_retries for p in held.ranked} == {1}


def test_a_config_out_of_reach_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 64 ms beside an incumbent of 1 ms held a card for 0.9 s: three samples, each window three times, since the
    canary after it was slow."""
    restless = NoiseGuard(Canary(lambda count: [next(slower)] * count), NullMonitor("GPU-0"), lambda seconds: None)
    slower = map(float, itertools.accumulate(itertools.repeat(2), initial=1))
    monkeypatch.setattr(child, "noise_guard", lambda index: restless)
    found = ask(("", 64_000.0), incumbent_us=1_000.0)
    assert found.measurement.samples_us == (64_000.0,) and found.device.noise_retries is None
    for us, incumbent_us in ((64_000.0, None), (64_000.0, 20_000.0), (4_000.0, 100.0)):
        assert len(ask(("", us), incumbent_us=incumbent_us).measurement.samples_us) > 1


def test_each_attempt_has_the_whole_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    phases: list[str] = []
    canaries = iter([10.0] * 3 + [20.0, 10.0])
    watched = NoiseGuard(Canary(lambda count: [next(canaries)] * count), NullMonitor("GPU-0"), lambda seconds: None)
    monkeypatch.setattr(child, "noise_guard", lambda index: watched)
    for _ in range(3):
        ask(("", 50.0))
    monkeypatch.setattr(child, "report", phases.append)
    ask(("", 50.0))
    assert phases.count("time") == 3, "before the graph is captured, and before each attempt"


def test_a_text_that_takes_long_is_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody wrote one, and the kernel's own text over thousands of tiles took more than a tuning's budget."""

    def endless(x: torch.Tensor) -> torch.Tensor:
        while True:
            x = x + 1

    monkeypatch.setattr(twice, "reference", endless)
    monkeypatch.setattr(Twice, "has_reference", False)
    limits = Limits(text=0.05)
    outcome = ask(("", 50.0), n=71, limits=limits)
    assert (
        outcome.error_class == NO_TIME and "own text as plain Python: took longer than 0.05 s" in outcome.error_digest
    )
    request = MeasureRequest("m:twice", (("n", 72),), (), loader="measure_child_kernels:load", limits=limits)
    ahead = child.prepare(request, 0)
    assert ahead is not None and ahead.error_class == NO_TIME


def test_a_text_that_this_device_has_no_operation_for_is_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of integers on a GPU, say: its study ended with an internal error."""

    def missing(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("\"addmm_cuda\" not implemented for 'Int'")

    monkeypatch.setattr(twice, "reference", missing)
    monkeypatch.setattr(Twice, "has_reference", False)
    outcome = ask(("", 50.0), n=73)
    assert outcome.error_class == NO_TIME and "addmm_cuda" in outcome.error_digest
