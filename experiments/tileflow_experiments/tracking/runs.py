"""A trial as one run of MLflow, in plain values: nothing here knows MLflow."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..records import StudyKey, TrialRecord
from .names import cut, key_name, trial_name

SWEEP, TRIAL, ATTEMPT = "tileflow.sweep_id", "tileflow.trial_id", "tileflow.attempt"
KERNEL, PROBLEM, DEVICE = "tileflow.kernel", "tileflow.problem", "tileflow.device_class"
TIMES = "tileflow.times"
MOST_TEXT = 6000  # characters that MLflow takes of a value
_encode = json.JSONEncoder(sort_keys=True).encode
_BIGGEST = 2**63  # the first number that a store's integer columns do not hold

# Of a measured trial; of a modelled one those that the model does not make up.
_TIMES = ("median_us", "p20_us", "p80_us", "ci95_us", "roofline_frac")
_METRICS = (
    "max_err", "registers", "spills", "shared_bytes", "occupancy", "traffic_bytes", "flops", "modelled_us",
    "queue_s", "compile_s", "built_s", "device_s", "prepare_s", "load_s", "verify_s", "bench_s",
    "sm_clock_mhz", "temp_c", "power_w", "attempt",
)  # fmt: skip


class Unloggable(ValueError):
    """A line of the journal, or what was made of it, that no store of MLflow takes."""


class Metric(NamedTuple):
    """One value of a metric. ``at_ms``: milliseconds since 1970."""

    name: str
    value: float
    at_ms: int
    step: int


@dataclass(frozen=True, slots=True)
class MlflowRun:
    """A run's content. ``tags``, ``params``, ``metrics``: all that MLflow gets of it, except its parent."""

    name: str
    status: str
    started_ms: int
    ended_ms: int | None
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Sequence[Metric]

    def checked(self) -> MlflowRun:
        """Return the run itself. Raises Unloggable for text and numbers that no store takes."""
        texts = [self.name, *self.tags, *self.tags.values(), *self.params, *self.params.values()]
        try:
            "".join(texts).encode()
        except UnicodeEncodeError as error:
            raise Unloggable(f"text must be Unicode: {error.reason}") from None
        for metric in self.metrics:
            if not math.isfinite(metric.value):
                raise Unloggable(f"{metric.name} must be finite, but got {metric.value}")
        return self


def milliseconds(seconds: float) -> int:
    """Return whole milliseconds. Raises Unloggable for a value that is no time or does not fit a store's columns."""
    try:
        found = int(seconds * 1000)
    except (OverflowError, ValueError, TypeError) as error:
        raise Unloggable(f"a time must be a number of seconds: {error}") from None
    if not 0 <= found < _BIGGEST:
        raise Unloggable(f"a time must be below 2^63 milliseconds, but got {found}")
    return found


def trial_run(record: TrialRecord, number: int) -> MlflowRun:
    """Return the run of ``record``'s trial, the ``number``-th of its study. Raises Unloggable."""
    try:
        return _trial_run(record, number).checked()
    except Unloggable:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise Unloggable(f"the line is of no trial: {type(error).__name__}: {error}") from None


def _trial_run(record: TrialRecord, number: int) -> MlflowRun:
    started = milliseconds(record.started_at)
    took = sum(record.seconds[name] for name in ("queue_s", "compile_s", "verify_s", "bench_s"))
    values = record.config.to_dict() | dict(record.study.problem)
    columns = record.columns()
    return MlflowRun(
        name=trial_name(record, number),
        status="FINISHED" if record.time_us is not None else "FAILED",
        started_ms=started,
        ended_ms=milliseconds(record.started_at + took),
        tags=study_tags(record.sweep_id, record.study) | _verdict(record, columns),
        params={key_name(name): str(value)[:MOST_TEXT] for name, value in values.items()},
        metrics=[Metric(name, value, started, 0) for name, value in _values(record, columns).items()],
    )


def _values(record: TrialRecord, columns: Mapping[str, Any]) -> dict[str, float]:
    names = (*_TIMES, *_METRICS) if record.measured else _METRICS
    found = {name: float(columns[name]) for name in names if columns[name] is not None}
    if not record.measured and record.time_us is not None:
        found["modelled_us"] = record.time_us
    return found


def study_tags(sweep_id: str, study: StudyKey) -> dict[str, str]:
    """Return the tags that tell the runs of one study from all others."""
    return {SWEEP: sweep_id, KERNEL: study.kernel, DEVICE: study.device_class}


def mark(record: TrialRecord) -> tuple[int, int]:
    """Return a pair that orders the attempts at a trial. Raises Unloggable."""
    return (milliseconds(record.started_at), record.result.attempt)


def _verdict(record: TrialRecord, columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the verdict's tags, empty where there is nothing, so that a later attempt clears an earlier one's."""
    error = ": ".join(filter(None, (columns["error_class"], columns["error_digest"])))
    return {
        TRIAL: record.trial_id,
        "tileflow.status": record.status.value,
        TIMES: "measured" if record.measured else "modelled",
        "tileflow.seed_source": record.seed_source,
        "tileflow.config": as_text(record.config.to_dict()),
        "tileflow.error": error[:MOST_TEXT],
        "tileflow.host": columns["host"],
        ATTEMPT: f"{milliseconds(record.started_at)} {record.result.attempt}",
    }


def as_text(values: Mapping[str, Any]) -> str:
    """Return canonical JSON; a text that MLflow does not take whole is cut, and stays one of its own."""
    return cut(_encode(dict(values)), MOST_TEXT)


StudyIdentity = tuple[str, str, str]


def identity(study: StudyKey) -> StudyIdentity:
    """Return what a study's run is found by: its kernel's, its problem's and its device's tags."""
    return study.kernel, as_text(dict(study.problem)), study.device_class


def identity_in(tags: Mapping[str, str]) -> StudyIdentity:
    """Return :func:`identity` of the study whose run has these tags. They are compared as text: JSON that was cut
    cannot be read."""
    return tags[KERNEL], tags[PROBLEM], tags[DEVICE]
