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
from typing import Any, TypeVar

from ..build.serve import report
from ..errors import TileflowError
from ..runtime.launch import Launcher, launcher_for
from . import device as device_facts
from . import input_cache
from .canary import Canary, NoiseGuard
from .check import Verdict, check_call
from .deadline import NoText, is_spoilt
from .failure import NO_ROOM, authors_mistake, checked, launch_failure, no_room, no_time
from .input_cache import CachedInputs
from .kernel import MeasurableKernel, unload_kernels
from .monitor import open_monitor
from .racing import Ranking, Rules, race
from .request import Candidate, MeasureRequest
from .timing import DeviceSampler, measure, read_memory, sample_in_turn, summarise
from .types import DeviceFacts, Measurement, Outcome, RankedResult, Status

Call = Callable[..., Any]
T = TypeVar("T")
_WRONG = (Status.INCORRECT, Status.NONFINITE)


def identify(device_index: int) -> device_facts.DeviceInfo:
    """The card of ``device_index`` among those that this process sees."""
    import torch

    report("device")
    torch.cuda.set_device(device_index)
    return device_facts.identity()


identified_device = functools.cache(identify)


@functools.cache
def noise_guard(device_index: int) -> NoiseGuard:
    """The card's canary and monitor, as long as this process lives."""
    return NoiseGuard(Canary(read_memory), open_monitor(identified_device(device_index)))


def rest() -> None:
    """Give the card's memory back, and forget the modules that kernels came with: a later problem's may be others."""
    report("prepare")
    input_cache.forget()
    unload_kernels()


def is_healthy(device_index: int) -> bool:
    """Whether this process may measure on: an author's function may have broken the device's context, or have been
    interrupted where it leaves torch changed. What that one left of memory is given back."""
    import torch

    report("device")
    if is_spoilt():
        return False
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return True
    gc.collect()
    try:
        torch.cuda.synchronize(device_index)
        torch.cuda.empty_cache()
        return torch.ones(2, device=f"cuda:{device_index}").sum().item() == 2.0
    except RuntimeError:
        return False


def prepare(request: MeasureRequest, device_index: int) -> Outcome | None:
    """Make the request's data, and load what its first trial needs; no config is needed. Returns why the kernel's own
    text is no reference for it, if it is none. Raises SpecError for what the kernel author's functions raise, and
    SlowProblem where they take too long."""
    identified_device(device_index)
    report("prepare")
    try:
        input_cache.prepare(request)
    except NoText as error:
        return no_time(str(error))
    except TileflowError:
        raise
    except Exception as error:
        if _out_of_memory(error):
            return None  # a run meets it again, and knows what is to be done
        raise authors_mistake(error, request) from error
    report("device")  # what follows is not the problem's time
    noise_guard(device_index)
    return None


def run(request: MeasureRequest, device_index: int) -> Outcome:
    """Measure one candidate, or race several. Raises only what is the caller's or the kernel author's doing: a kernel
    that cannot be found, inputs or a reference that fail (SpecError). After ``illegal_access`` this process must not be
    used again. After an error it may be used where it :func:`is_healthy`.

    What is kept of earlier requests must not cost a config its verdict: where it is in the way of memory, or where an
    earlier config has written over it, it is made anew and the request tried once more.
    """
    identified_device(device_index)
    before = input_cache.cached()
    outcome = _run(request, device_index)
    goes_last = outcome.error_class == NO_ROOM and request.limits.others_wait  # what is kept is the others' who wait
    if outcome.status is Status.OOM and before and not goes_last:
        input_cache.forget()
        outcome = _run(request, device_index)
    elif outcome.status in _WRONG and input_cache.key(request) in before:
        input_cache.renew(request)
        outcome = _run(request, device_index)
    if outcome.device == DeviceFacts():  # nothing was timed
        outcome = replace(outcome, device=noise_guard(device_index).monitor.facts())
    if outcome.status is Status.OOM:
        outcome = replace(outcome, error_digest=outcome.error_digest + _neighbours(device_index))
    return replace(outcome, reference="" if request.reference_on == "device" else request.reference_on)


def _neighbours(device_index: int) -> str:
    """What the driver says of other processes on the card, for the message of memory that is short."""
    others = noise_guard(device_index).monitor.foreign_processes()
    return f"\non the card beside this process: {', '.join(map(str, others))}" if others else ""


def _run(request: MeasureRequest, device_index: int) -> Outcome:
    report("prepare")
    started = time.perf_counter()
    try:
        kernel, data = input_cache.prepare(request)
    except NoText as error:
        return no_time(str(error))
    except TileflowError:
        raise
    except Exception as error:
        if _out_of_memory(error):
            return no_room(error)
        raise authors_mistake(error, request) from error
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
            found, card = self._timed(call)
        except Exception as error:
            return self._failed(error, outcome)
        return replace(outcome, measurement=found, bench_s=time.perf_counter() - started, device=card)

    def _timed(self, call: Call) -> tuple[Measurement, DeviceFacts]:
        """The call's times, as many as they are worth: a config that is out of the incumbent's reach costs one call."""
        effort, incumbent_us = self._request.effort, self._request.incumbent_us
        give_up_us = effort.give_up_us(incumbent_us)
        sampler = DeviceSampler(call, self._data[0].args, give_up_us=give_up_us)
        if sampler.first_us >= give_up_us:
            return summarise([sampler.first_us]), noise_guard(self._device_index).monitor.facts()
        return self._measure_stable(lambda: measure(sampler, effort, incumbent_us))

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
        started = time.perf_counter()
        playing = list(samplers)
        rng = random.Random(self._request.seeds[0])
        try:
            ranking, card = self._measure_stable(
                lambda: race(
                    lambda order: sample_in_turn([samplers[playing[i]] for i in order]), len(playing), rules, rng
                )
            )
        except Exception as error:
            return self._failed(error, spent)
        ranked = _ranked(outcomes, playing, ranking, card)
        return replace(spent, ranked=ranked, bench_s=time.perf_counter() - started, device=card)

    def _measure_stable(self, time_it: Callable[[], T]) -> tuple[T, DeviceFacts]:
        """Each attempt has the whole limit of the phase: it is not the config's doing that there are several."""

        def attempt() -> T:
            report("time")
            return time_it()

        return noise_guard(self._device_index).measure_stable(attempt)

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


def _ranked(
    outcomes: Sequence[Outcome], playing: Sequence[int], ranking: Ranking, card: DeviceFacts
) -> tuple[RankedResult, ...]:
    ranked = [RankedResult(outcome) for outcome in outcomes]
    for i, position in enumerate(playing):
        outcome = replace(outcomes[position], measurement=summarise(ranking.times_us[i]), device=card)
        ranked[position] = RankedResult(outcome, ranking.ratio[i], ranking.low[i], ranking.high[i], ranking.tied[i])
    return tuple(ranked)


# What cuDNN and cuBLAS say where they, who allocate beside torch, find no memory for their handles and workspaces; and
# what torch says of the host's.
_NO_MEMORY = ("_STATUS_INTERNAL_ERROR", "_STATUS_ALLOC_FAILED", "_STATUS_NOT_INITIALIZED", "DefaultCPUAllocator")


def _out_of_memory(error: Exception) -> bool:
    import torch

    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or any(words in str(error) for words in _NO_MEMORY)
