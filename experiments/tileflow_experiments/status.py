"""The status of a sweep in numbers: its driver announces it, and anyone on its cluster may ask for it."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .records import TrialRecord

if TYPE_CHECKING:
    from .driver import Driver

MOST_STUDIES = 100


def status_of(driver: Driver) -> dict[str, Any]:
    """Return the driver's status as plain values, small enough to be sent every second."""
    counters, studies = driver.evaluator.counters(), driver.studies
    classes = driver.evaluator.device_classes()
    trials = sum(len(study.completed) for study in studies)
    return {
        "at": time.time(),
        "elapsed_s": round(counters.elapsed_s, 1),
        "trials": trials,
        "in_flight": sum(study.in_flight for study in studies),
        "studies": len(studies),
        "done": sum(not study.open for study in studies),
        "stopped": sum(bool(study.stopped) for study in studies),
        "considered_per_s": round(counters.considered_per_s, 2),
        "measured_per_s": round(counters.measured_per_s, 2),
        "retried": counters.retried,
        "eta_s": _eta_s(driver, trials / counters.elapsed_s if counters.elapsed_s else 0.0),
        "classes": {c.name: {"measured": c.measured, "workers": c.workers} for c in classes},
        "waiting": {c.name: why for c in classes if (why := driver.evaluator.away(c.name))},
        "unused": list(driver.evaluator.unused()),
        "failures": dict(driver.failures),
        "best": [_best(study.task.key.title, study.best) for study in studies[:MOST_STUDIES] if study.best],
        "stopping": driver.stopping,
    }


def _eta_s(driver: Driver, trials_per_s: float) -> float | None:
    """Return the seconds until all budgets are used, at the rate so far; None where that is unknown."""
    left_trials = left_s = 0.0
    under_way = Counter(s.task.key.device_class for s in driver.studies if s.open)
    for study in driver.studies:
        if not study.open:
            continue
        if study.budget.trials is not None:
            left_trials += max(study.budget.trials - len(study.completed), 0)
        elif study.budget.seconds is not None:
            left_s += max(study.budget.seconds - study.spent_s, 0) / max(len(under_way), 1)
        elif study.budget.gpu_seconds is not None:
            gpus = sum(c.workers for c in driver.evaluator.device_classes() if c.measured)
            left_s += max(study.budget.gpu_seconds - study.used_s, 0) / max(gpus, 1)
    if left_trials and not trials_per_s:
        return None
    found = left_s + (left_trials / trials_per_s if left_trials else 0.0)
    return round(found, 1) if math.isfinite(found) else None


def _best(title: str, record: TrialRecord | None) -> dict[str, Any]:
    time_us = None if record is None or record.time_us is None else round(record.time_us, 3)
    return {"study": title, "time_us": time_us, "measured": record is not None and record.measured}


SUMS = (
    "trials",
    "in_flight",
    "studies",
    "done",
    "stopped",
    "considered_per_s",
    "measured_per_s",
    "retried",
)


def merged(statuses: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the combined status of at least one scheduler. They work side by side and end when the last one does."""
    classes: dict[str, dict[str, Any]] = {}
    failures: Counter[str] = Counter()
    for status in statuses:
        failures.update(status["failures"])
        for name, served in status["classes"].items():
            known = classes.setdefault(name, {"measured": served["measured"], "workers": 0})
            known["workers"] += served["workers"]
    left = [status["eta_s"] for status in statuses]
    return {name: sum(status[name] for status in statuses) for name in SUMS} | {
        "at": max(status["at"] for status in statuses),
        "elapsed_s": max(status["elapsed_s"] for status in statuses),
        "eta_s": None if None in left else max(left),
        "classes": classes,
        "waiting": {name: why for status in statuses for name, why in status["waiting"].items()},
        "unused": sorted({why for status in statuses for why in status["unused"]}),
        "failures": dict(failures),
        "best": [best for status in statuses for best in status["best"]][:MOST_STUDIES],
        "stopping": next((status["stopping"] for status in statuses if status["stopping"]), ""),
    }


def lines(sweep_id: str, status: Mapping[str, Any]) -> Iterator[str]:
    """Yield ``status`` as lines of text."""
    if not status:
        yield f"{sweep_id}: has said nothing yet"
        return
    eta = "" if status["eta_s"] is None else f", about {duration(status['eta_s'])} left"
    yield (
        f"{sweep_id}: {status['trials']} trials in {duration(status['elapsed_s'])}, "
        f"{status['considered_per_s']:.1f}/s considered, {status['measured_per_s']:.1f}/s measured, "
        f"{status['done']} of {status['studies']} tuning tasks done{eta}"
    )
    for name, served in status["classes"].items():
        how = "measured on" if served["measured"] else "modelled by"
        why = status["waiting"].get(name, "")
        workers = f"{served['workers']} worker{'' if served['workers'] == 1 else 's'}"
        yield f"  {name}: {how} {workers}{f': {why}' if why else ''}"
    failures = [f"{count} {name}" for name, count in sorted(status["failures"].items())]
    if failures or status["retried"]:
        yield f"  not ok: {', '.join(failures) or 'none'}; {status['retried']} tried again"
    yield from (f"  not used: {reason}" for reason in status["unused"])
    if status["stopped"]:
        yield f"  {status['stopped']} tuning tasks stopped"
    for best in status["best"]:
        time_us = "no working config" if best["time_us"] is None else f"best {best['time_us']:.2f} us"
        yield f"  {best['study']}: {time_us}{'' if best['measured'] else ' (modelled)'}"
    if status["stopping"]:
        yield f"  stopping: {status['stopping']}"


def duration(seconds: float) -> str:
    """Return ``45 s``, ``12 min`` or ``3.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def shown(entries: Sequence[Any]) -> Iterator[str]:
    """Yield every sweep of a cluster's registry as lines of text."""
    for entry in entries:
        yield from lines(entry.sweep_id, entry.status)
        if entry.order:
            yield f"  told to {entry.order}"
