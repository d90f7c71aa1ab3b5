"""Brings MLflow up to date with a journal.

What MLflow has is found by its tags, so that replaying again, also after a kill, leaves the same runs. Lines that
MLflow would refuse are set aside, and hold up nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tileflow.config import Config

from .. import journal as journals
from ..journal import Line
from ..records import StudyKey, TrialRecord
from .client import ClientStore
from .database import DatabaseStore, serves
from .runs import MlflowRun, Unloggable, identity, mark, trial_run
from .state import LogState, SetAside
from .store import KnownRuns, Refused, RunUpdate, Store, masked, page
from .study import StudyLog, StudyResult, unique_name

if TYPE_CHECKING:
    from ..tables import Winners

CHUNK_BYTES = 2 << 20  # of the journal; about a transaction of a thousand trials


class OnProgress(Protocol):
    """A callback that is given the log's state whenever the store has taken some more."""

    def __call__(self, state: LogState) -> None:
        """Take in how far the log is."""


def open_store(uri: str, experiment: str, artifacts: Path | None) -> Store:
    """Open the store at ``uri`` with its experiment.

    ``artifacts``: where a new experiment keeps its artifacts; a server has a place of its own. Raises MlflowUnusable,
    and whatever MLflow's transport raises where it does not answer.
    """
    if serves(uri):
        return DatabaseStore(uri, experiment, artifacts)
    return ClientStore(uri, experiment, None if uri.startswith("http") else artifacts)


class Replay:
    """Logs ``journal`` from its beginning. ``progress`` is called whenever the store has taken some
    more.

    Raises whatever the store does; a new Replay continues from there.
    """

    def __init__(self, uri: str, journal: Path, artifacts: Path | None, progress: OnProgress) -> None:
        self._journal = journal
        self._progress = progress
        self._tail = Tail(journal)
        header = self._tail.header()
        self._sweep_id: str = header["sweep_id"]
        self._store = open_store(uri, header["spec"]["name"], artifacts)
        self._known: KnownRuns = self._store.known(self._sweep_id)
        self._uri, self._page = masked(uri), page(uri, self._store.experiment_id)
        self._studies: dict[StudyKey, _Study] = {}
        self._names: dict[str, StudyKey] = {}
        self._defaults: dict[str, Line] = {}  # by study id: what it began with
        self._verdicts: dict[str, tuple[str, bool]] = {}  # by trial: its config, and whether it is completed
        self._aside: list[SetAside] = []
        self._logged_bytes = 0

    def catch_up(self) -> None:
        """Log every line that the journal has gained."""
        for lines in self._tail.chunks():
            self._log(lines)
            self._logged_bytes = self._tail.offset
            self._progress(self.state())

    def state(self, complete: bool = False) -> LogState:
        """Return how far the log is."""
        return LogState(
            self._uri, complete, "", self._logged_bytes, len(self._known.trials), tuple(self._aside), self._page
        )

    # ---- lines --------------------------------------------------------------------------------------------------

    def _log(self, lines: Sequence[Numbered]) -> None:
        pending: dict[str, _Pending] = {}
        touched: dict[StudyKey, _Study] = {}
        for found in lines:
            try:
                self._take(found, pending, touched)
            except Unloggable as error:
                trial = found.record.trial_id if found.record is not None else ""
                self._set_aside(found.number, trial, str(error))
        for study in touched.values():
            self._write_study(study, study.log.best(), study.last_at)
            self._progress(self.state())
        self._write_trials(pending)

    def _take(self, found: Numbered, pending: dict[str, _Pending], touched: dict[StudyKey, _Study]) -> None:
        record = found.record
        if found.event is not None and found.event["event"] == "study":
            self._defaults[found.event["study"]] = found.event
        if record is None:
            if found.damage:
                raise Unloggable(f"it is no line of a journal: {found.damage}")
            return
        if record.sweep_id != self._sweep_id:
            raise Unloggable(f"it is a trial of {record.sweep_id}")
        attempt = mark(record)
        known = self._studies.get(record.study)
        number = known.log.number(record.trial_id) if known is not None else 1
        run = trial_run(record, number)  # first, so that a line that MLflow refuses counts nowhere
        study = self._study(record)
        study.last_at = max(study.last_at, record.started_at)
        touched[record.study] = study
        if not record.trial_id or not self._is_news(record):  # lost before it was known which trial it was
            return
        study.log.add(record)
        if attempt > self._known.trials.get(record.trial_id, ("", (0, 0)))[1]:
            pending[record.trial_id] = _Pending(found.number, number, study, run, attempt)

    def _is_news(self, record: TrialRecord) -> bool:
        """Whether the record adds to its trial: the first verdict stands. Raises Unloggable for another config of
        the trial."""
        config = record.config.key
        known, completed = self._verdicts.get(record.trial_id, (config, False))
        if completed and known != config:
            raise Unloggable(f"the trial is known with another config, {known}")
        if not completed:
            self._verdicts[record.trial_id] = (config, record.completed)
        return not completed

    def _study(self, record: TrialRecord) -> _Study:
        key = record.study
        study = self._studies.get(key)
        if study is None:
            begun = self._defaults.get(key.id, {})
            log = StudyLog(
                key,
                self._sweep_id,
                record.semantic_hash,
                record.started_at,
                Config.of(begun.get("default", {})),
                begun.get("mode", record.mode),
            )
            name = unique_name(key, self._names)
            log.run(name, None, record.started_at)  # raises for one that MLflow takes no run of
            self._names[name] = key
            study = self._studies[key] = _Study(log, name, record.started_at)
        return study

    # ---- runs ---------------------------------------------------------------------------------------------------

    def _write_study(self, study: _Study, result: StudyResult | None, at: float, *, done: bool = False) -> str:
        """Write the study's run and return its id; empty where MLflow refused it."""
        key, log = study.log.key, study.log
        try:
            run = log.run(study.name, result, at, done=done, best_params=done and study.ended_for_good)
        except Unloggable as error:
            self._set_aside(0, key.id, str(error))
            return ""
        written = self._store.write_study(self._known.studies.get(identity(key), ""), run)
        log.curve.clear()
        if isinstance(written, Refused):
            self._set_aside(0, key.id, written.why)
            return ""
        self._known.studies[identity(key)] = written
        return written

    def _write_trials(self, pending: dict[str, _Pending]) -> None:
        ready = {}
        for trial_id, item in pending.items():
            parent = self._known.studies.get(identity(item.study.log.key))
            if parent is None:
                self._set_aside(item.line, trial_id, "MLflow refused its tuning task")
                continue
            run_id = self._known.trials.get(trial_id, ("",))[0]
            ready[trial_id] = RunUpdate(trial_id, item.number, parent, run_id, item.run)
        updates, at_once = list(ready.values()), self._store.at_once or len(ready) or 1
        for start in range(0, len(updates), at_once):
            some = updates[start : start + at_once]
            for update, answer in zip(some, self._store.write_trials(some), strict=True):
                trial_id = update.trial_id
                if isinstance(answer, Refused):
                    self._set_aside(pending[trial_id].line, trial_id, answer.why)
                else:
                    self._known.trials[trial_id] = (answer, pending[trial_id].attempt)
            self._progress(self.state())

    def _set_aside(self, line: int, what: str, why: str) -> None:
        item = SetAside(line, what, why)
        if item not in self._aside:
            self._aside.append(item)

    # ---- the end ------------------------------------------------------------------------------------------------

    def close(self, tables: Sequence[Path] = ()) -> LogState:
        """Write each study's result, figures and files to its run, and end the run. ``tables``: of the sweep's
        kernels."""
        folded = journals.fold(journals.read(self._journal))
        ending = _Ending.of(folded, [study.log for study in self._studies.values()])
        of_kernels = _by_kernel(tables)
        for study in self._studies.values():
            key, won = study.log.key, ending.won[study.log.key]
            study.ended_for_good = ending.finished(key) or self._store.changes_params
            result = StudyResult.of(won) if won is not None else study.log.best()
            run_id = self._write_study(study, result, max(ending.at, study.last_at), done=True)
            if run_id:
                self._keep_files(run_id, study.log, folded, of_kernels.get(key.kernel, ()))
            self._progress(self.state())
        return self.state(complete=True)

    def _keep_files(self, run_id: str, log: StudyLog, folded: journals.Folded, tables: Sequence[Path]) -> None:
        with tempfile.TemporaryDirectory(prefix="tileflow-mlflow-") as folder:
            try:
                _draw(folded, log, Path(folder), tables)
            except (ValueError, TypeError, OverflowError) as error:  # a value that no check foresaw
                self._set_aside(0, log.key.id, f"its files: {type(error).__name__}: {error}")
            self._store.keep(run_id, Path(folder))


@dataclass(slots=True)
class _Study:
    """A study being logged. ``last_at``: the time of its latest line. ``ended_for_good``: its best config will not
    change."""

    log: StudyLog
    name: str
    last_at: float
    ended_for_good: bool = False


@dataclass(frozen=True, slots=True)
class _Pending:
    """A trial's run to write. ``number``: of the trial in its study."""

    line: int
    number: int
    study: _Study
    run: MlflowRun
    attempt: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a sweep ended, races and checks included. ``won``: the winner of each study. ``whole``: it was not stopped;
    ``stopped``: the ids of studies that were."""

    won: Winners
    at: float
    whole: bool
    stopped: Collection[str]

    def finished(self, key: StudyKey) -> bool:
        """Whether the study did all that it was to do."""
        return self.whole and key.id not in self.stopped

    @staticmethod
    def of(folded: journals.Folded, logs: Sequence[StudyLog]) -> _Ending:
        from ..tables import winners

        closed = [event for event in folded.events if event["event"] == "closed"]
        opened = max((event["epoch"] for event in folded.events if event["event"] == "opened"), default=0)
        whole = bool(closed) and closed[-1]["epoch"] == opened and not closed[-1]["reason"]
        at = max((float(event["at"]) for event in folded.events if "at" in event), default=0.0)
        return _Ending(winners(folded, logs), at, whole, journals.stopped(folded.events))


def _by_kernel(tables: Sequence[Path]) -> dict[str, list[Path]]:
    """Group the files of tables by the kernel that each is of."""
    from tileflow.runtime.table_files import load_table

    found: dict[str, list[Path]] = {}
    for path in tables:
        found.setdefault(load_table(path).kernel.ref, []).append(path)
    return found


def _draw(folded: journals.Folded, log: StudyLog, folder: Path, tables: Sequence[Path]) -> None:
    """Write the files of one study: its figures, its trials, its kernel's ``tables``."""
    from .. import parquet
    from ..figures import convergence, roofline

    key = log.key
    records = folded.attempts.get(key, [])
    convergence(records, key.title).savefig(folder / "convergence.png")
    roofline(records, key.title).savefig(folder / "roofline.png")
    parquet.write([*records, *folded.remeasures.get(key, ())], folder / "trials.parquet")
    for path in tables:
        (folder / path.name).write_bytes(path.read_bytes())


# ---- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbered:
    """A numbered line of the journal, from 1: a trial's, an event, or one that cannot be read."""

    number: int
    record: TrialRecord | None = None
    event: Line | None = None
    damage: str = ""


@dataclass
class Tail:
    """Reads what a journal has gained since the last read."""

    path: Path
    offset: int = 0
    _lines: int = field(default=0, init=False)

    def header(self) -> Line:
        """Return the header line. Raises JournalError where it is missing or of a newer schema."""
        with self.path.open("rb") as file:
            return journals.header(journals.parse(file.readline()).lines)

    def chunks(self) -> Iterator[list[Numbered]]:
        """Yield whole lines, some megabytes at a time."""
        with self.path.open("rb") as file:
            while True:
                file.seek(self.offset)
                content = file.read(CHUNK_BYTES)
                if content and b"\n" not in content:  # a line longer than a chunk, or one that is being written
                    content += file.readline()
                end = content.rfind(b"\n") + 1
                if not end:
                    return
                with journals.uncollected():
                    found = [self._numbered(line) for line in content[: end - 1].split(b"\n")]
                self.offset += end
                yield found

    def _numbered(self, content: bytes) -> Numbered:
        self._lines += 1
        try:
            line, record = journals.read_line(content)
        except journals.JournalError as error:
            return Numbered(self._lines, damage=str(error.got))
        if line["kind"] == "event":
            return Numbered(self._lines, event=line)
        return Numbered(self._lines, record=record if line["kind"] == "trial" else None)
