"""The measuring child's side: prepare, check, then time. Runs in a process that the kernel under test may take down.

Phases are reported to the parent, which holds each to its own limit: what the kernel's author wrote (``prepare``) is
not held against a config.
"""

from __future__ import annotations

import functools
import gc
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..build.serve import report
from ..runtime.launch import Launcher, launcher_for
from . import device as device_facts
from . import input_cache
from .check import Verdict, check_call
from .failure import NO_ROOM, checked, failed, launch_failure
from .input_cache import CachedInputs
from .kernel import MeasurableKernel, unload_kernels
from .racing import Ranking, Rules, race
from .request import Candidate, MeasureRequest
from .timing import DeviceSampler, measure, sample_in_turn, summarise
from .types import Outcome, RankedResult, Status
from .warmup import warm_up_libraries

Call = Callable[..., Any]
_WRONG = (Status.INCORRECT, Status.NONFINITE)


def identify(device_index: int) -> device_facts.DeviceInfo:
    """The card of ``device_index`` among those that this process sees."""
    import torch

    report("device")
    torch.cuda.set_device(device_index)
    return device_facts.identity()


_identified = functools.cache(identify)


def warm_up(device_index: int) -> None:
    """Load what a first trial needs."""
    _identified(device_index)
    report("prepare")
    warm_up_libraries()


def rest() -> None:
    """Give the card's memory back, and forget the modules that kernels came with: a later problem's may be others."""
    report("prepare")
    input_cache.forget()
    unload_kernels()


def prepare(request: MeasureRequest, device_index: int) -> None:
    """Make the request's data; no config is needed. Raises what the kernel author's functions raise."""
    _identified(device_index)
    report("prepare")
    input_cache.prepare(request)


def run(request: MeasureRequest, device_index: int) -> Outcome:
    """Measure one candidate, or race several. Raises only what is the caller's or the kernel author's doing: a kernel
    that cannot be found, inputs or a reference that fail. After ``illegal_access`` this process must not be used again.

    What is kept of earlier requests must not cost a config its verdict: where it is in the way of memory, or where an
    earlier config may have written over it, it is made anew and the request tried once more.
    """
    info = _identified(device_index)
    before = input_cache.cached()
    outcome = _run(request, device_index)
    if outcome.status is Status.OOM and before:
        input_cache.forget()
        outcome = _run(request, device_index)
    elif outcome.status in _WRONG and input_cache.key(request) in before:
        input_cache.forget(request)
        outcome = _run(request, device_index)
    where = "cpu" if request.reference_on == "cpu" else ""
    return replace(outcome, device=device_facts.facts(info.uuid), reference=where)


def _run(request: MeasureRequest, device_index: int) -> Outcome:
    report("prepare")
    started = time.perf_counter()
    try:
        kernel, data = input_cache.prepare(request)
    except RuntimeError as error:
        if not _out_of_memory(error):
            raise
        return replace(failed(Status.OOM, error), error_class=NO_ROOM)
    prepare_s = time.perf_counter() - started
    trial = _Trial(request, kernel, data, device_index)
    outcome = trial.measure(*request.candidates) if request.rules is None else trial.race(request.rules)
    return replace(outcome, prepare_s=prepare_s)


class _Trial:
    """A request whose data is there."""

    def __init__(
        self, request: MeasureRequest, kernel: MeasurableKernel, data: list[CachedInputs], device_index: int
    ) -> None:
        self._request, self._kernel, self._data, self._device_index = request, kernel, data, device_index

    def measure(self, candidate: Candidate) -> Outcome:
        outcome, call = self._checked(candidate)
        if call is None:
            return outcome
        report("time")
        started = time.perf_counter()
        try:
            sampler = DeviceSampler(call, self._data[0].args)
            found = measure(sampler, self._request.effort, self._request.incumbent_us)
        except Exception as error:
            return self._failed(error, outcome)
        return replace(outcome, measurement=found, bench_s=time.perf_counter() - started)

    def race(self, rules: Rules) -> Outcome:
        """Each candidate's check, then rounds of all that passed. Fails as a whole where the device does."""
        outcomes: list[Outcome] = []
        samplers: dict[int, DeviceSampler] = {}
        for position, candidate in enumerate(self._request.candidates):
            outcome, call = self._checked(candidate)
            if call is not None:
                try:
                    samplers[position] = DeviceSampler(call, self._data[0].args)
                except Exception as error:
                    outcome = self._failed(error, outcome)
            if outcome.status in (Status.ILLEGAL_ACCESS, Status.DEVICE_LOST, Status.OOM):
                return outcome
            outcomes.append(outcome)
        spent = Outcome(Status.OK, load_s=sum(o.load_s for o in outcomes), verify_s=sum(o.verify_s for o in outcomes))
        if not samplers:
            return replace(spent, ranked=tuple(RankedResult(outcome) for outcome in outcomes))
        report("time")
        started = time.perf_counter()
        playing = list(samplers)
        try:
            ranking = race(
                lambda order: sample_in_turn([samplers[playing[i]] for i in order]),
                len(playing),
                rules,
                random.Random(self._request.seeds[0]),
            )
        except Exception as error:
            return self._failed(error, spent)
        ranked = _ranked(outcomes, playing, ranking)
        return replace(spent, ranked=ranked, bench_s=time.perf_counter() - started)

    def _checked(self, candidate: Candidate) -> tuple[Outcome, Call | None]:
        """How loading and checking ended, and what to time where all is right."""
        report("check")
        started = time.perf_counter()
        try:
            call = self._kernel.bind(candidate.config, self._launchers(candidate))
        except Exception as error:
            return replace(launch_failure(error), load_s=time.perf_counter() - started), None
        loaded = time.perf_counter()
        try:
            outcome = self._check(call)
        except Exception as error:
            outcome = launch_failure(error)
        outcome = replace(outcome, load_s=loaded - started, verify_s=time.perf_counter() - loaded)
        return outcome, call if outcome.status is Status.OK else None

    def _launchers(self, candidate: Candidate) -> dict[int, list[Launcher]]:
        launchers: dict[int, list[Launcher]] = {}
        for binary in candidate.binaries:
            launcher = launcher_for(binary, self._device_index, self._kernel.scope)
            launchers.setdefault(binary.region, []).append(launcher)
        return launchers

    def _check(self, call: Call) -> Outcome:
        verdicts: list[Verdict] = []
        for item in self._data:
            verdict = check_call(
                call, item.args, item.reference, repeats=self._request.repeats, scale=self._request.tolerance
            )
            if not verdict.ok:
                return checked(verdict)
            verdicts.append(verdict)
        return checked(max(verdicts, key=lambda verdict: verdict.max_err))

    def _failed(self, error: Exception, so_far: Outcome) -> Outcome:
        input_cache.forget(self._request)  # the call may have left its arguments changed
        gc.collect()
        return replace(launch_failure(error), load_s=so_far.load_s, verify_s=so_far.verify_s)


def _ranked(outcomes: Sequence[Outcome], playing: Sequence[int], ranking: Ranking) -> tuple[RankedResult, ...]:
    ranked = [RankedResult(outcome) for outcome in outcomes]
    for i, position in enumerate(playing):
        outcome = replace(outcomes[position], measurement=summarise(ranking.times_us[i]))
        ranked[position] = RankedResult(outcome, ranking.ratio[i], ranking.low[i], ranking.high[i], ranking.tied[i])
    return tuple(ranked)


# What cuDNN and cuBLAS say where they, who allocate beside torch, find no memory for their handles and workspaces.
_NO_WORKSPACE = ("_STATUS_INTERNAL_ERROR", "_STATUS_ALLOC_FAILED", "_STATUS_NOT_INITIALIZED")


def _out_of_memory(error: RuntimeError) -> bool:
    import torch

    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in _NO_WORKSPACE)
