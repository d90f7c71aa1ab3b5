"""The measuring child's side: prepare, check, then time. Runs in a process that the kernel under test may take down.

Phases are reported to the parent, which holds each to its own limit: what the kernel's author wrote (``prepare``) is
not held against a config.
"""

from __future__ import annotations

import gc
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..build.serve import report
from ..runtime.launch import Launcher, launcher_for
from . import device as device_facts
from .check import Reference, check_call, make_reference
from .failure import failed, launch_failure
from .inputs import poisoned
from .kernel import MeasurableKernel, load
from .request import MeasureRequest
from .timing import DeviceSampler, measure
from .types import Outcome, Status


@dataclass(frozen=True, slots=True)
class Prepared:
    """Arguments of one seed on the device, and what a call on them must give."""

    args: tuple[Any, ...]
    reference: Reference


# The last problem's arguments and references: the configs of a sweep share them.
_prepared: OrderedDict[tuple[Any, ...], tuple[MeasurableKernel, list[Prepared]]] = OrderedDict()


def identify(device_index: int) -> device_facts.DeviceInfo:
    """The card of ``device_index`` among those that this process sees."""
    import torch

    report("device")
    torch.cuda.set_device(device_index)
    return device_facts.identity()


def run(request: MeasureRequest, device_index: int) -> Outcome:
    """Measure one config. Raises only what is the caller's or the kernel author's doing: a kernel that cannot be
    found, inputs or a reference that fail. After ``illegal_access`` this process must not be used again.
    """
    info = identify(device_index)
    report("prepare")
    try:
        kernel, prepared = _prepare(request)
    except RuntimeError as error:
        if not _out_of_memory(error):
            raise
        return failed(Status.OOM, error)
    report("check")
    started = time.perf_counter()
    try:
        call = kernel.bind(request.config, _launchers(request, kernel, device_index))
        outcome = _check(call, request, prepared)
    except Exception as error:
        return replace(launch_failure(error), verify_s=time.perf_counter() - started)
    checked = time.perf_counter()
    outcome = replace(outcome, verify_s=checked - started)
    if outcome.status is not Status.OK:
        return outcome
    report("time")
    try:
        sampler = DeviceSampler(call, prepared[0].args)
        result = measure(sampler, request.effort, request.incumbent_us)
    except Exception as error:
        _prepared.clear()  # the call may have left its arguments changed
        return replace(launch_failure(error), verify_s=outcome.verify_s, bench_s=time.perf_counter() - checked)
    state = device_facts.facts(info.uuid)
    return replace(outcome, measurement=result, bench_s=time.perf_counter() - checked, device=state)


def _prepare(request: MeasureRequest) -> tuple[MeasurableKernel, list[Prepared]]:
    key = (request.loader, request.kernel, request.problem, request.seeds)
    if key not in _prepared:
        _prepared.clear()
        gc.collect()
        _empty_cache()
        kernel = load(request.loader, request.kernel, request.sys_path)
        _prepared[key] = kernel, [_prepare_seed(kernel, dict(request.problem), seed) for seed in request.seeds]
    return _prepared[key]


def _prepare_seed(kernel: MeasurableKernel, problem: dict[str, Any], seed: int) -> Prepared:
    # Poisoned, so that an output that the inputs function allocates is not zero by chance.
    with poisoned():
        args = kernel.inputs(device="cuda", seed=seed, **problem)
    return Prepared(args, make_reference(kernel.reference, args))


def _launchers(request: MeasureRequest, kernel: MeasurableKernel, device_index: int) -> dict[int, list[Launcher]]:
    launchers: dict[int, list[Launcher]] = {}
    for binary in request.binaries:
        launchers.setdefault(binary.region, []).append(launcher_for(binary, device_index, kernel.scope))
    return launchers


def _check(call: Callable[..., Any], request: MeasureRequest, prepared: list[Prepared]) -> Outcome:
    worst = 0.0
    for item in prepared:
        verdict = check_call(
            call, item.args, item.reference, repeats=request.repeats, scale=request.tolerance
        )  # fmt: skip
        worst = max(worst, verdict.max_err)
        if not verdict.ok:
            return replace(failed(verdict.status, verdict.reason), max_err=verdict.max_err)
    return Outcome(Status.OK, max_err=worst)


def _empty_cache() -> None:
    import torch

    torch.cuda.empty_cache()


def _out_of_memory(error: RuntimeError) -> bool:
    import torch

    return isinstance(error, torch.OutOfMemoryError)
