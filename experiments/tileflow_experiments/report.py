"""OUT/report.md: what a sweep found, from the journal alone."""

from __future__ import annotations

import json
import math
import statistics
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from . import journal as journals
from .journal import Folded, Line
from .records import StudyKey, TrialRecord, checked_against
from .tables import Winner, Winners
from .tracking.state import SHOWN, LogState
from .tuning_task import TuningTask
from .verify import MADE

MODEL_PAIRS = 5  # fewer pairs give no meaningful correlation
PHASES = {
    "waiting for a compile worker": "queue_s",
    "compiling": "compile_s",
    "built, waiting for a device": "built_s",
    "inputs and references": "prepare_s",
    "loading": "load_s",
    "checking": "verify_s",
    "timing": "bench_s",
}
ON_THE_DEVICE = ("inputs and references", "loading", "checking", "timing")


def render(folded: Folded, tasks: Sequence[TuningTask], won: Winners, logged: LogState | None = None) -> str:
    """Return the report as Markdown. Every figure is of this journal; modelled times are marked as such.

    ``won``: each study's winner. ``logged``: how far MLflow is.
    """
    header = folded.header
    stopped = journals.stopped(folded.events)
    lines = [
        f"# Sweep {header['spec']['name']}",
        "",
        f"`{header['sweep_id']}`, begun {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(header['created_at']))}, "
        f"tileflow {header['tileflow']}. Times are microseconds of a whole call.",
        "",
        "## Default against best",
        "",
        "| kernel | problem | device | trials | default | best | speedup | how |",
        "|---|---|---|---:|---:|---:|---:|---|",
        *(_row(folded, task, won[task.key], task.key.id in stopped) for task in tasks),
        "",
        *_stopped(stopped, tasks),
        "## How trials ended",
        "",
        *_statuses(folded.trials, [s.key for s in tasks]),
        "",
        "## Throughput",
        "",
        *_throughput(folded),
        "",
        "## The cost model against measured times",
        "",
        *_model(folded.trials),
        "",
        "## Checks in the interpreter",
        "",
        *_checks(folded.events),
        "",
        *_events(folded.events),
        "",
        *_mlflow(logged),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _row(folded: Folded, task: TuningTask, won: Winner | None, stopped: bool) -> str:
    key = task.key
    trials = sum(r.completed for r in folded.trials.get(key, ()))
    if won is None:
        return f"| {_place(key)} | {trials} | | | | {'stopped, see below' if stopped else 'no config works'} |"
    default = "" if won.default_us is None else f"{won.default_us:.2f}"
    gain = "" if won.default_us is None else f"{won.default_us / won.time_us:.2f}x"
    return f"| {_place(key)} | {trials} | {default} | {won.time_us:.2f} | {gain} | {_how(won)} |"


def _how(won: Winner) -> str:
    if not won.record.measured:
        return "modelled"
    tie = f", level with {len(won.ties)} more" if won.ties else ""
    outcome = won.record.result.outcome
    reference = f", checked against: {checked_against(outcome)}" if outcome.reference else ""
    return f"measured, {won.samples} samples{tie}{reference}"


def _place(key: StudyKey) -> str:
    return f"{key.kernel} | {key.shown} | {key.device_class}"


def _stopped(stopped: Mapping[str, str], tasks: Iterable[TuningTask]) -> list[str]:
    if not stopped:
        return []
    lines = ["## Studies that were stopped", "", "`tileflow sweep resume` tries them again.", ""]
    for task in tasks:
        if reason := stopped.get(task.key.id):
            lines += [f"{task.key.title}:", "", *(f"    {line}" for line in reason.splitlines()), ""]
    return lines


def _statuses(trials: dict[StudyKey, list[TrialRecord]], keys: Iterable[StudyKey]) -> list[str]:
    counts = {key: Counter(r.status.value for r in trials.get(key, ())) for key in keys}
    names = sorted({name for count in counts.values() for name in count}, key=lambda name: (name != "ok", name))
    if not names:
        return ["No trial ended."]
    return [
        f"| kernel | problem | device | {' | '.join(names)} |",
        f"|---|---|---|{'---:|' * len(names)}",
        *(f"| {_place(key)} | {' | '.join(str(count[name]) for name in names)} |" for key, count in counts.items()),
    ]


def _throughput(folded: Folded) -> list[str]:
    records = [r for group in folded.attempts.values() for r in group]
    completed = [r for group in folded.trials.values() for r in group if r.completed]
    measured = sum(r.measured and r.time_us is not None for r in completed)
    lines = [
        f"- distinct trials: {len(completed)}, measured {measured}; attempts journalled: {len(records)}",
        f"- compiling: {sum(r.seconds['compile_s'] for r in records):.1f} s of CPU, summed over workers",
    ]
    for event in folded.events:
        if event["event"] == "counters":
            lines.append(
                f"- session {event['epoch']}, {event.get('phase', 'all')}: {event['elapsed_s']:.1f} s, "
                f"{event['considered']} configs considered "
                f"({event['considered_per_s']:.2f}/s), {event['measured']} measured ({event['measured_per_s']:.2f}/s), "
                f"{event['modelled']} modelled, {event['duplicates']} duplicates, {event['retried']} retried, "
                f"{event['cancelled']} cancelled; device workers idle {event['device_idle']:.0%}, "
                f"compile workers {event.get('compile_idle', 0.0):.0%}"
            )
    return lines + _where_time_goes(folded)


def _where_time_goes(folded: Folded) -> list[str]:
    """List the seconds of each phase, summed, and the milliseconds per measured trial; races from their events."""
    timed = [s for group in folded.attempts.values() for r in group if (s := r.seconds)["device_s"]]
    if not timed:
        return []
    sums = {name: sum(seconds[field] for seconds in timed) for name, field in PHASES.items()}
    on_device = sum(seconds["device_s"] for seconds in timed)
    sums["else on the device worker"] = on_device - sum(sums[name] for name in ON_THE_DEVICE)
    for event in folded.events:
        if event["event"] == "counters" and event.get("phase", "all") == "all":
            for name, field in (("asking", "ask_s"), ("ranking", "rank_s"), ("hearing", "hear_s")):
                sums[f"driver, {name}"] = sums.get(f"driver, {name}", 0.0) + event.get(field, 0.0)
    contests = sum(e["device_s"] for e in folded.events if e["event"] == "contest")
    return [
        "",
        f"Of the {len(timed)} trials that reached a device ({on_device:.1f} s there, contests {contests:.1f} s more):",
        "",
        "| phase | s in all | ms a trial |",
        "|---|---:|---:|",
        *(f"| {name} | {total:.1f} | {total / len(timed) * 1e3:.1f} |" for name, total in sums.items()),
    ]


def _model(trials: dict[StudyKey, list[TrialRecord]]) -> list[str]:
    """Report how well the model ranks: Spearman's correlation over the configs that were measured."""
    lines = []
    for key, records in trials.items():
        builds = ((r.result.build, r.time_us) for r in records if r.measured)
        pairs = [(b.modelled_us, time_us) for b, time_us in builds if b is not None and b.modelled_us and time_us]
        if len(pairs) >= MODEL_PAIRS:
            lines.append(f"| {_place(key)} | {len(pairs)} | {rank_correlation(pairs):.2f} |")
    if not lines:
        return ["Nothing was measured."]
    return ["| kernel | problem | device | configs | Spearman |", "|---|---|---|---:|---:|", *lines]


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Spearman's correlation, equal values sharing their ranks; NaN where one side is constant.

    SciPy's version takes seconds to load.
    """
    one, other = (_ranks(side) for side in zip(*pairs, strict=True))
    try:
        return statistics.correlation(one, other)
    except statistics.StatisticsError:
        return math.nan


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(bisect_left(ordered, v) + bisect_right(ordered, v)) / 2 for v in values]


def _checks(events: Iterable[Line]) -> list[str]:
    made = (e for e in events if e["event"] == "interpreted")
    checks = list({(e["study"], json.dumps(e["config"], sort_keys=True)): e for e in made}.values())
    if not checks:
        return ["None were made."]
    counts = Counter((e["role"], _check_status(e)) for e in checks)
    lines = [f"- {role} configs: {n} {status}" for (role, status), n in sorted(counts.items())]
    for check in checks:
        if check["status"] != "ok":
            what = f"{check['study']} with `{check['config']}`"
            lines.append(f"- {_check_status(check)}: {what}: {_first_line(check['error'])}")
    return lines


def _check_status(check: Line) -> str:
    status: str = check["status"]
    return status if status in MADE else f"not checked ({status})"


def _events(events: Iterable[Line]) -> list[str]:
    lines = []
    for event in events:
        if event["event"] == "study_postponed":
            lines.append(f"- {event['study']} went last: {_first_line(event['reason'])}")
        if event["event"] == "closed" and event["reason"]:
            lines.append(f"- the sweep was stopped before its end: {_first_line(event['reason'])}")
        if event["event"] == "salvaged":
            lines.append(f"- {event['lines']} damaged lines of the journal were set aside in {event['kept']}")
    return ["## What went wrong", "", *lines] if lines else []


def _mlflow(logged: LogState | None) -> list[str]:
    said = logged.lines() if logged is not None else []
    if logged is None or not said:
        return []
    shown = [f"  - {item.place}: {item.why}" for item in logged.set_aside[:SHOWN]]
    return ["## MLflow", "", *(f"- {line}" for line in said), *shown]


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""
