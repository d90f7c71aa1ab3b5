"""A study as one run of MLflow: its name, its parameters and metrics so far, and its summary at the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tileflow.config import Config

from ..records import StudyKey, TrialRecord
from .names import MODELLED, cut, device_name, key_name, problem_words, study_name
from .runs import MOST_TEXT, PROBLEM, TIMES, Metric, MlflowRun, as_text, milliseconds, study_tags

if TYPE_CHECKING:
    from ..tables import Winner

BEST_CONFIG = "tileflow.best_config"
NOTE = "mlflow.note.content"
BY_SECOND = "_by_second"


@dataclass(frozen=True, slots=True)
class StudyResult:
    """The best so far, or the study's winner. ``roofline_us``: the least time that the card allows."""

    config: Config
    measured: bool
    best_us: float
    default_us: float | None
    roofline_us: float | None

    @staticmethod
    def of(won: Winner) -> StudyResult:
        """Return the result of a winner."""
        build = won.record.result.build
        roofline_us = build.roofline_us if build is not None else None
        return StudyResult(won.record.config, won.record.measured, won.time_us, won.default_us, roofline_us)

    def values(self) -> dict[str, float]:
        """Return the metrics of the parent run; modelled times have names of their own."""
        named = {"best_us": self.best_us, "default_us": self.default_us}
        if self.default_us is not None:
            named["speedup"] = self.default_us / self.best_us
        if self.measured and self.roofline_us is not None:
            named["roofline_frac"] = self.roofline_us / self.best_us
        prefix = "" if self.measured else f"{MODELLED}_"
        return {f"{prefix}{name}": value for name, value in named.items() if value is not None}


@dataclass
class StudyLog:
    """One study, as far as the journal tells.

    ``default``: the config that was tried first. ``mode``: the shape mode that is searched. ``curve``: points of the
    best time so far that no store has yet.
    """

    key: StudyKey
    sweep_id: str
    semantic_hash: str
    started_at: float
    default: Config
    mode: str
    ended_at: float = 0.0
    ended: Counter[str] = field(default_factory=Counter)
    curve: list[Metric] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _best: dict[bool, TrialRecord] = field(default_factory=dict)  # by whether it was measured
    _defaults: dict[bool, float] = field(default_factory=dict)

    def number(self, trial_id: str) -> int:
        """Return the trial's number in the study, in the order of the journal."""
        return self._numbers.get(trial_id, len(self._numbers) + 1)

    def add(self, record: TrialRecord) -> None:
        """Take in a trial's first verdict, or an attempt before it."""
        self._numbers.setdefault(record.trial_id, len(self._numbers) + 1)
        if record.completed:
            self._count(record)

    def _count(self, record: TrialRecord) -> None:
        self.ended[record.status.value] += 1
        self.ended_at = max(self.ended_at, record.started_at)
        if record.time_us is not None and math.isfinite(record.time_us):
            known = self._best.get(record.measured)
            if known is None or record.time_us < (known.time_us or math.inf):
                self._best[record.measured] = record
            if record.config == self.default:
                self._defaults.setdefault(record.measured, record.time_us)
        best = self._best.get(self.measured)
        if best is not None and best.time_us is not None:
            self._extend_curve(record, best.time_us)

    @property
    def measured(self) -> bool:
        """Whether any time was measured; one such replaces all modelled ones."""
        return True in self._best

    @property
    def completed(self) -> int:
        """How many trials have a verdict."""
        return self.ended.total()

    def best(self) -> StudyResult | None:
        """Return the best of the search so far, without the race at its end. None where no config works yet."""
        record = self._best.get(self.measured)
        if record is None or record.time_us is None:
            return None
        build = record.result.build
        roofline_us = build.roofline_us if build is not None else None
        return StudyResult(record.config, self.measured, record.time_us, self._defaults.get(self.measured), roofline_us)

    def run(
        self, name: str, result: StudyResult | None, at: float, *, done: bool = False, best_params: bool = False
    ) -> MlflowRun:
        """Return the study's run. ``at``: since when ``result`` holds.

        ``best_params``: the best config's knobs are parameters too, which MLflow never changes. Raises Unloggable.
        """
        times = "" if result is None else "measured" if result.measured else MODELLED
        at_ms = milliseconds(at)
        values = {"trials_ok": float(self.ended["ok"]), "trials": float(self.completed)}
        values |= result.values() if result is not None else {}
        tags = study_tags(self.sweep_id, self.key) | {
            PROBLEM: as_text(dict(self.key.problem)),
            "tileflow.semantic_hash": self.semantic_hash,
            TIMES: times,
            BEST_CONFIG: as_text(result.config.to_dict()) if result is not None else "",
            NOTE: self._note(result)[:MOST_TEXT],
        }
        return MlflowRun(
            name=f"{name} {MODELLED}" if times == MODELLED else name,
            status="FINISHED" if done else "RUNNING",
            started_ms=milliseconds(self.started_at),
            ended_ms=milliseconds(max(self.ended_at, self.started_at)) if done else None,
            tags=tags,
            params=self._params(result if best_params else None),
            metrics=[*self.curve, *(Metric(name, value, at_ms, self.completed) for name, value in values.items())],
        ).checked()

    def _params(self, result: StudyResult | None) -> dict[str, str]:
        params: dict[str, Any] = {"device": self.key.device_class} | dict(self.key.problem)
        best = {} if result is None else result.config.to_dict()
        params |= {f"best.{name}": value for name, value in best.items()}
        return {key_name(name): str(value)[:MOST_TEXT] for name, value in params.items()}

    def _extend_curve(self, record: TrialRecord, best_us: float) -> None:
        seconds = max(record.started_at - self.started_at, 0.0)
        at_ms = milliseconds(record.started_at)
        name = "best_so_far_us" if self.measured else f"{MODELLED}_best_so_far_us"
        self.curve.append(Metric(name, best_us, at_ms, self.completed))
        self.curve.append(Metric(f"{name}{BY_SECOND}", best_us, at_ms, int(seconds)))

    def _note(self, result: StudyResult | None) -> str:
        """Return the run's description in Markdown, of which MLflow shows the first lines."""
        what = f"`{self.key.kernel}`, {problem_words(dict(self.key.problem))} on {self.key.device_class}"
        ended = ", ".join(f"{count} {status}" for status, count in self.ended.most_common())
        trials = f"{self.completed} trials: {ended}." if ended else "No trial ended yet."
        if result is None:
            return "\n\n".join(["**No config works yet.**", what, trials])
        how = "measured" if result.measured else f"{MODELLED}: the cost model's, not measured on a card"
        config = {name: value for name, value in result.config.to_dict().items() if value not in ("", 0, False)}
        return "\n\n".join(
            [_gain(result), what, f"{trials} Times of a whole call, {how}.", f"Best: `{_knobs(config)}`"]
        )


def unique_name(key: StudyKey, taken: Mapping[str, StudyKey]) -> str:
    """Return the study's name, in full where another study has the short one."""
    name = study_name(key)
    if taken.get(name, key) == key:
        return name
    return cut(key.title.replace(key.device_class, device_name(key.device_class)))


def _gain(result: StudyResult) -> str:
    """Return ``**3.09 us**, 1.33x the default's speed (4.10 us), 85% of the roofline``."""
    values = result.values()
    gain = ""
    if result.default_us is not None:
        gain = f"{result.default_us / result.best_us:.2f}x the default's speed ({result.default_us:.2f} us)"
    roofline = f"{values['roofline_frac']:.0%} of the roofline" if "roofline_frac" in values else ""
    return ", ".join(filter(None, (f"**{result.best_us:.2f} us**", gain, roofline)))


def _knobs(config: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items())
