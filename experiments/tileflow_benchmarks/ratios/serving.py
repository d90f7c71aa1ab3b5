"""The serving kernels and ``tileflow.kernels`` under their default configs beside torch, torch.compile and Liger.

    python -m tileflow_benchmarks.ratios.serving --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.ratios.serving --out DIR --dry-run                     builds only, without one

Values are checked first, then times taken in turns in one process. Liger is left out where it is not installed. A case
whose peer fails reports that and continues without it. No case begins after ``--seconds``; those left are listed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch

from tileflow.api import load_kernel
from tileflow.build.compile import build
from tileflow.errors import TileflowError
from tileflow.measure.check import check_call, make_reference, reference_of
from tileflow.measure.timing import DeviceSampler
from tileflow.target import Target

from .command import DRY_DEVICE, device_of
from .in_turns import medians
from .serving_cases import FUNCTIONS, SERVING, FunctionCase, ServingCase

_ROUNDS = 15

Call = Callable[..., Any]


def built(ref: str, problem: Mapping[str, Any], device: Target) -> dict[str, Any]:
    """Build the default config and return what its binaries take of the device, the most of all launches."""
    kernel = load_kernel(ref)
    lowered = kernel.lower(kernel.inputs(device="meta", **problem), device)
    taken = [build(source, device).resources for source in lowered.emit(lowered.default)]
    return {
        "registers": max(t.registers for t in taken),
        "spills": max(t.spills for t in taken),
        "shared": max(t.shared for t in taken),
    }


def serving(case: ServingCase, device: Target) -> dict[str, Any]:
    """Check one call of a serving kernel, then time it beside its reference, plain and compiled."""
    kernel = load_kernel(case.kernel)
    args = kernel.inputs(device="cuda", **case.problem)
    lowered = kernel.lower(args, device)
    ours = kernel.compile(lowered, lowered.default, "cuda")
    verdict = check_call(ours, args, reference_of(kernel, args), repeats=2)
    if not verdict.ok:
        return {"status": verdict.status.value, "reason": verdict.reason}
    eager = case.peer or kernel.reference
    bytes_ = lowered.traffic.bytes
    found = compared({"ours": ours, "eager": eager, "compile": torch.compile(eager, dynamic=False)}, args)
    return {"status": "ok", "max_err": verdict.max_err, "gbps": bytes_ / found["us"]["ours"] / 1e3, **found}


def function(case: FunctionCase, trains: bool) -> dict[str, Any]:
    """Check and time a function of ``tileflow.kernels``, alone or with its gradients."""
    args = case.inputs("cuda")

    def step(call: Call) -> Call:
        return with_gradients(call, case.leaves) if trains else without_gradients(call)

    reference = make_reference(step(case.torch), args)
    verdict = check_call(step(case.ours), args, reference)
    if not verdict.ok:
        return {"status": verdict.status.value, "reason": verdict.reason}
    calls = {"ours": step(case.ours), "eager": step(case.torch)}
    calls["compile"] = step(torch.compile(case.torch, dynamic=False))
    if (liger := _liger(case)) is not None:
        calls["liger"] = step(liger)
    found = compared(calls, args)
    memory = {name: peak_memory(call, args) for name, call in calls.items() if name in found["us"]}
    return {"status": "ok", "max_err": verdict.max_err, "peak_mib": memory, **found}


def without_gradients(call: Call) -> Call:
    """Wrap a call so that autograd records nothing."""

    def run(*args: Any) -> Any:
        with torch.no_grad():
            return call(*args)

    return run


def with_gradients(call: Call, leaves: int) -> Call:
    """Wrap a call so that it returns its results and the gradients of the first ``leaves`` arguments.

    The results serve as the gradients of the results.
    """

    def run(*args: Any) -> tuple[torch.Tensor, ...]:
        own = [a.detach().requires_grad_() for a in args[:leaves]]
        result = call(*own, *args[leaves:])
        results = result if isinstance(result, tuple) else (result,)
        grads = torch.autograd.grad(results, own, [torch.ones_like(r) if not r.ndim else r.detach() for r in results])
        return *(r.detach() for r in results), *grads

    return run


def _liger(case: FunctionCase) -> Call | None:
    """Return Liger's own function, None where there is none or Liger is not installed."""
    if case.liger is None:
        return None
    try:
        return case.liger(importlib.import_module("liger_kernel.ops"))
    except ImportError:
        return None


def peak_memory(call: Call, args: tuple[Any, ...]) -> int:
    """Return the MiB that a call takes at most besides its arguments."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call(*args)
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) >> 20


def compared(calls: Mapping[str, Call], args: tuple[Any, ...]) -> dict[str, Any]:
    """Return the median time of each in microseconds, a new order each round, and the ratio to the best peer."""
    samplers, failed = {}, {}
    for name, call in calls.items():
        try:
            samplers[name] = DeviceSampler(call, args)
        except Exception as error:  # a peer's own failure, whatever it is, is a line of the report
            if name == "ours":
                raise
            failed[name] = f"{type(error).__name__}: {error}"[:300]
    times = medians(samplers, _ROUNDS)
    best = min((us, name) for name, us in times.items() if name != "ours") if len(times) > 1 else None
    return {
        "us": times,
        "ratio": {n: round(us / times["ours"], 3) for n, us in times.items() if n != "ours"},
        "of_best": None if best is None else round(best[0] / times["ours"], 3),
        "best": best and best[1],
        "failed": failed,
        "captured": {name: sampler.captured for name, sampler in samplers.items()},
    }


Job = tuple[str, Callable[[], dict[str, Any]]]


def jobs(device: Target, is_dry: bool) -> list[Job]:
    """Return (name, function) of every job, the serving kernels first."""
    if is_dry:
        builds = [(case.name, case.kernel, case.problem) for case in SERVING]
        builds += [(case.name, ref, problem) for case in FUNCTIONS for ref, problem in case.kernels]
        return [
            (f"{name}: {ref.partition(':')[2]}", lambda r=ref, p=problem: {"status": "built", **built(r, p, device)})  # type: ignore[misc]
            for name, ref, problem in builds
        ]
    found: list[Job] = [(case.name, lambda c=case: serving(c, device)) for case in SERVING]  # type: ignore[misc]
    for trains, title in ((True, "forward and backward"), (False, "forward")):
        found += [(f"{case.name}, {title}", lambda c=case, t=trains: function(c, t)) for case in FUNCTIONS]  # type: ignore[misc]
    return found


def run(job: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a job; an exception becomes the row's status and reason."""
    try:
        return job()
    except TileflowError as error:
        return {"status": type(error).__name__, "reason": str(error)}
    except Exception as error:  # the following cases still run
        return {"status": type(error).__name__, "reason": str(error)[:300]}


def main() -> int:
    """Run all jobs. Exit code 1 where a case was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for serving_ratio.json")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
    parser.add_argument("--seconds", type=float, default=600.0, help="no case begins after so many")
    parser.add_argument("--dry-run", action="store_true", help=f"build for {DRY_DEVICE}; needs no GPU")
    options = parser.parse_args()
    device = device_of(options.dry_run)
    words = [w for w in options.only.split(";") if w]
    begin, found = time.monotonic(), []
    options.out.mkdir(parents=True, exist_ok=True)
    for name, job in jobs(device, options.dry_run):
        if words and not any(w in name for w in words):
            continue
        is_late = time.monotonic() - begin > options.seconds
        result = {"status": "no_time"} if is_late else run(job)
        found.append({"case": name, "device": device.name, **result})
        print(json.dumps(found[-1]), flush=True)
        (options.out / "serving_ratio.json").write_text(json.dumps(found, indent=1))
        torch.compiler.reset()
        if not options.dry_run:
            torch.cuda.empty_cache()
    ratios = [r["of_best"] for r in found if r.get("of_best")]
    if ratios:
        print(
            f"geometric mean of {len(ratios)}: {geometric_mean(ratios):.3f}x of the best peer, least {min(ratios):.3f}x"
        )
    return int(any(r["status"] not in ("ok", "built", "no_time") for r in found))


if __name__ == "__main__":
    sys.exit(main())
