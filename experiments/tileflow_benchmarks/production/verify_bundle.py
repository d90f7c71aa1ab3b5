"""Every gallery kernel called from a bundle, in a process without a compiler, at its example and at unseen problems.

The time begins with loading the bundle and ends when the first calls of :data:`.gallery.TIMED` are done. Arguments and
references are made before.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .hiding import Attempts, hidden
from .summary import Verdict, device_name, write

if TYPE_CHECKING:
    from tileflow.measure.check import Reference

    from .gallery import GalleryProblem, Shown

MOST_S = 1.0  # of loading and 28 first calls
MOST_BYTES = 40_000_000
UNTUNED = ("reference", "compiled")  # steps that serve no row


@dataclass(frozen=True, slots=True)
class Called:
    """One call.

    ``step``: the dispatch step that served it. ``ms``: of the call alone. ``wrong``: what is wrong with its result.
    ``raised``: what it raised instead.
    """

    kernel: str
    problem: str
    is_example: bool
    step: str
    ms: float
    wrong: str = ""
    raised: str = ""

    @property
    def ok(self) -> bool:
        """Whether a tuned or default row served the call, with a right result."""
        return not (self.wrong or self.raised) and self.step not in UNTUNED and bool(self.step)


@dataclass(frozen=True, slots=True)
class _Prepared:
    problem: GalleryProblem
    args: tuple[Any, ...]
    reference: Reference | None


def verify(bundle: Path, out: Path, device_class: str = "", is_dry: bool = False) -> bool:
    """Call everything and write ``out``. Returns False where a requirement is missed.

    ``device_class``: dispatch as on that class, which a dry run needs. A dry run computes and compares nothing: it
    shows what would serve each call.
    """
    with ExitStack() as stack:
        attempts = stack.enter_context(hidden())
        started = time.perf_counter()
        import torch

        from tileflow import runtime

        from . import gallery

        imported_s = time.perf_counter() - started
        if is_dry:
            from .stand_in import without_gpu

            stack.enter_context(without_gpu())
        logging.getLogger("tileflow").setLevel(logging.ERROR)
        device = "cpu" if is_dry else "cuda"
        timed = [_prepare(kernel.calls()[0], device, is_dry) for kernel in gallery.TIMED]
        if not is_dry:
            torch.cuda.synchronize()
        started = time.perf_counter()
        runtime.load(bundle, as_device=device_class or None, on_miss="default")
        load_s = time.perf_counter() - started
        first = [_call(prepared) for prepared in timed]
        if not is_dry:
            torch.cuda.synchronize()
        total_s = time.perf_counter() - started
        calls = [_checked(prepared, *made) for prepared, made in zip(timed, first, strict=True)]
        del timed, first
        calls += _rest(gallery.TIMED, gallery.OTHERS, device, is_dry)
        found = {
            "device": device_name(),
            "bundle_bytes": _size(bundle),
            "import_s": imported_s,
            "load_s": load_s,
            "total_s": total_s,
            "timed_kernels": len(gallery.TIMED),
            "compiler": attempts.ours,
            "all_attempts": attempts.imports,
            "calls": [asdict(call) for call in calls],
        }
        return write(out, found, verdicts(calls, attempts, load_s, total_s, len(gallery.TIMED), _size(bundle)))


def verdicts(
    calls: Sequence[Called], attempts: Attempts, load_s: float, total_s: float, timed: int, size: int
) -> list[Verdict]:
    """Return the lines of the table: the totals, then each kernel with a call that misses a requirement."""
    unseen = [call for call in calls if not call.is_example]
    raised, wrong = sum(bool(c.raised) for c in calls), sum(bool(c.wrong) for c in calls)
    untuned = [c for c in calls if not c.raised and (not c.step or c.step in UNTUNED)]
    steps = Counter(call.step for call in calls)
    lines = [
        Verdict("bundle", f"{size / 1e6:.1f} MB", f"under {MOST_BYTES / 1e6:.0f} MB", size < MOST_BYTES),
        Verdict(
            f"load and first calls of {timed} kernels, no compiler",
            f"{total_s * 1e3:.0f} ms (load {load_s * 1e3:.0f})",
            f"under {MOST_S:g} s",
            total_s < MOST_S,
        ),
        Verdict("kernels, calls, at unseen problems", f"{len({c.kernel for c in calls})}, {len(calls)}, {len(unseen)}"),
        Verdict("calls that raised", str(raised), "0", not raised),
        Verdict("wrong results", str(wrong), "0", not wrong),
        Verdict("calls that no row served", str(len(untuned)), "0", not untuned),
        Verdict("steps", ", ".join(f"{step or 'none'} {n}" for step, n in steps.most_common())),
        Verdict("compiler modules asked for", ", ".join(attempts.ours) or "none", "none", not attempts.ours),
    ]
    return lines + [
        Verdict(
            f"{call.kernel} {call.problem}", f"{call.step or 'no step'}: {call.raised or call.wrong}"[:200], "", False
        )
        for call in calls
        if not call.ok
    ]


def _prepare(problem: GalleryProblem, device: str, is_dry: bool) -> _Prepared:
    from tileflow.measure.check import reference_of

    kernel, args = problem.shown.loaded, problem.arguments(device)
    return _Prepared(problem, args, None if is_dry else reference_of(kernel, args))


def _rest(timed: Iterable[Shown], others: Iterable[Shown], device: str, is_dry: bool) -> list[Called]:
    """Return the calls that are not timed together, with arguments made one after another."""
    problems = [*(p for kernel in timed for p in kernel.calls()[1:]), *(p for kernel in others for p in kernel.calls())]
    found = []
    for problem in problems:
        prepared = _prepare(problem, device, is_dry)
        found.append(_checked(prepared, *_call(prepared)))
    return found


def _call(prepared: _Prepared) -> tuple[Any, str, float, str]:
    """Return (the result, the step that served, milliseconds, what it raised)."""
    kernel = prepared.problem.shown.loaded
    before = _steps(kernel.name)
    started = time.perf_counter()
    result, raised = None, ""
    try:
        result = kernel(*prepared.args)
    except Exception as error:  # every exception of a call is recorded
        raised = f"{type(error).__name__}: {error}"
    ms = (time.perf_counter() - started) * 1e3
    return result, ", ".join((_steps(kernel.name) - before).keys()), ms, raised


def _steps(kernel: str) -> Counter[str]:
    from tileflow.runtime.observe import LOOKUP_EVENTS, counters

    found: Counter[str] = Counter()
    for row in counters():
        if row.kernel == kernel and row.step not in LOOKUP_EVENTS:
            found[row.step] += row.calls
    return found


def _checked(prepared: _Prepared, result: Any, step: str, ms: float, raised: str) -> Called:
    problem, reference, wrong = prepared.problem, prepared.reference, ""
    if reference is not None and not raised:
        wrong, raised = _difference(result, prepared.args, reference)
    is_example = problem.sizes == problem.shown.example
    return Called(problem.shown.kernel, problem.title, is_example, step, ms, wrong, raised)


def _difference(result: Any, args: tuple[Any, ...], reference: Reference) -> tuple[str, str]:
    """Return (what is wrong, what reading the result raised)."""
    from tileflow.measure.check import compare_with

    try:
        for got, expected, path in ((result, reference.result, "result"), (args, reference.args, "args")):
            verdict = compare_with(reference, got, expected, path)
            if not verdict.ok:
                return verdict.reason, ""
    except Exception as error:  # an illegal access shows where the result is read
        return "", f"{type(error).__name__}: {error}"
    return "", ""


def _size(bundle: Path) -> int:
    return sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file())
