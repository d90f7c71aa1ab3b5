"""A sweep over recorded calls: ``tileflow sweep run calls`` of files of ``tileflow.record``."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tileflow.api import load_kernel
from tileflow.errors import SpecError, TileflowError
from tileflow.runtime.miss_file import read_misses
from tileflow.runtime.miss_record import Miss
from tileflow.runtime.recorded import RECORDED, text_of

from .spec import SweepSpec, parse, parse_kernels

SECONDS = 60.0  # budget of a problem that is called as often as the mean

log = logging.getLogger(__name__)


def is_recorded(path: Path) -> bool:
    """Whether ``path`` is a recording of a program's calls, and not a spec."""
    return path.is_dir() or path.suffix == ".jsonl"


def spec_of_calls(path: Path, device_classes: Iterable[str] = (), seconds: float = SECONDS) -> SweepSpec:
    """Return a sweep over the calls in a file or a folder of files.

    Without ``device_classes`` it is for the devices that the calls were made on. ``seconds``: the budget of a problem
    that is called as often as the mean. Calls whose arguments cannot be made from metadata are logged with their count
    and left out. Raises SpecError where nothing is left, and TableError for a file of another kind.
    """
    found = read_misses(path)
    if not found:
        raise SpecError(
            "a sweep over recorded calls needs calls",
            got="none",
            where=str(path),
            hint="runtime.record_misses(PATH) or tileflow.record(PATH) in the program, and flush or end it",
        )
    devices = tuple(device_classes) or tuple(dict.fromkeys(call.device for call in found if call.device is not None))
    if not devices:
        raise SpecError(
            "a sweep over recorded calls needs a device class",
            got="calls on the CPU alone",
            where=str(path),
            hint="tileflow sweep run CALLS --device-class nvidia-h200",
        )
    kernels: dict[str, dict[str, tuple[dict[str, object], int, bool]]] = {}
    for call in found:
        try:
            problem = _problem(call)
        except TileflowError as error:
            log.warning("left out, %d calls of %s: %s", call.calls, call.problem, error)
            continue
        of_kernel = kernels.setdefault(call.kernel, {})
        # one study a problem: as it is called most often, but with values where a line has some
        known, before, has_values = of_kernel.get(call.problem.key, (problem, 0, bool(call.values)))
        better = bool(call.values) and not has_values
        of_kernel[call.problem.key] = (problem if better else known), before + call.calls, has_values or better
    if not kernels:
        raise SpecError(
            "a sweep over recorded calls needs one that can be made again",
            got=f"{len(found)} that cannot",
            where=str(path),
        )
    return parse(
        {
            "name": "recorded",
            "kernels": [
                {
                    "kernel": name,
                    "problems": [p for p, _, _ in calls.values()],
                    "calls": [n for _, n, _ in calls.values()],
                }
                for name, calls in kernels.items()
            ],
            "device_classes": list(devices),
            "strategy": {"name": "default", "seed": 0},
            "budget": {"seconds": seconds},
        }
    )


def _problem(call: Miss) -> dict[str, Any]:
    """Return keyword arguments of ``Kernel.inputs`` that make arguments like the call's. Raises SpecError."""
    kernel = load_kernel(call.kernel)
    text = text_of(call.problem, json.loads(call.values or "{}"), json.loads(call.memory or "[]"))
    problem: dict[str, Any] = {**call.problem.sizes, RECORDED: text}
    parse_kernels({"kernels": [{"kernel": call.kernel, "problems": [problem]}]})  # else one call would refuse all
    made = kernel.describe(*kernel.inputs(device="meta", **problem))
    if made.key != call.problem.key:
        raise SpecError(
            "a recorded call must be made again as it was",
            got=made.key,
            where=call.problem.key,
            hint="was torch's setting for float32 products another, or the kernel?",
        )
    return problem
