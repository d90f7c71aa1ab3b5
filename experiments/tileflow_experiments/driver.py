"""The sweep loop: ask as capacity allows, submit, poll, journal, tell. It has no barriers, and knows neither Ray nor
MLflow.

Every study is a search of its own; all of them are interleaved over one evaluator. A result is journalled before a
strategy is told, so that a resumed sweep knows at least what its strategies knew.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tileflow_cluster.protocol import AnyRequest, Evaluator, Mode, RaceRequest, TrialRequest
from tileflow_cluster.trial import Build, TrialResult

from tileflow.config import Config
from tileflow.errors import ClusterError, SlowProblem, TileflowError
from tileflow.measure.types import Status
from tileflow.runtime.abi import Binary

from .device_scheduling import StudySchedulingPolicy
from .journal_writer import Writer
from .portfolio import missing
from .records import PORTFOLIO, RecordKind, StudyKey, TrialRecord
from .selection import RaceEntry, finalists
from .status import status_of
from .study import Study, gpu_seconds

log = logging.getLogger(__name__)

Purpose = Literal["trial", "race", "build"]

POLL_S = 0.25
FILL_S = 0.03  # a measurement of a fast kernel
CLOCK_EVENT_S = 5.0
LOOK_S = 1.0
STRAGGLER_S = 5.0  # many times what a config takes to compile


@dataclass(frozen=True, slots=True)
class _WorkItem:
    """A trial, race or build that is run once, whether its outcome is known or not.

    ``candidates``: those of a race, of which ``config`` is the first.
    """

    study: Study
    config: Config
    mode: Mode
    candidates: tuple[tuple[str, Config], ...] = ()


@dataclass(frozen=True, slots=True)
class _Flight:
    """A request in flight. ``config``: its own, or the first of a race. ``started_at``: seconds since 1970;
    ``began``: of a clock that nobody sets."""

    study: Study
    config: Config
    request: AnyRequest
    kind: Purpose
    started_at: float
    began: float


@dataclass(frozen=True, slots=True)
class Built:
    """A winner's machine code in one shape mode."""

    study: StudyKey
    mode: Mode
    binaries: tuple[Binary, ...]


class Driver:
    """Runs studies over an evaluator in one thread; :meth:`stop` may be called from a signal handler.

    ``progress``: called at every turn. ``doing``: what it does beside searching, for the progress line. ``whole``:
    these are all studies of the sweep. ``gpu_seconds``: the most that GPUs may work for all of them; the search then
    ends as at the end of its budgets.
    """

    def __init__(
        self,
        sweep_id: str,
        studies: Sequence[Study],
        evaluator: Evaluator,
        journal: Writer,
        *,
        seed: int = 0,
        progress: Callable[[Driver], None] = lambda _: None,
        whole: bool = True,
        gpu_seconds: float | None = None,
    ) -> None:
        self.studies = studies
        self.evaluator = evaluator
        self.stopping = ""
        self.doing = ""
        self.cancelled = 0
        self._sweep_id = sweep_id
        self._journal = journal
        self._seed = seed
        self.progress = progress
        self._whole = whole
        self._gpu_seconds = gpu_seconds
        self._flights: dict[str, _Flight] = {}
        self._keep: Callable[[_Flight, TrialResult], None] = lambda flight, result: None
        self._numbers = itertools.count(1)
        self._turns: dict[str, deque[Study]] = {}
        for study in studies:
            self._turns.setdefault(study.task.key.device_class, deque()).append(study)
        self._ticked = time.monotonic()
        self._clock_noted = self._ticked
        self._policy = StudySchedulingPolicy(lambda request_id: self._flights[request_id].study)
        self._asking_s = self._hearing_s = 0.0
        self._measured = {served.name for served in evaluator.device_classes() if served.measured}
        self._next_look = 0.0
        self._searching = False
        self.failures = Counter(r.status.value for s in studies for r in s.completed.values() if r.time_us is None)
        evaluator.set_policy(self._policy)

    def begin(self, phase: str, doing: str = "") -> None:
        """Journal that a phase of the work begins and show what is done in it, which the budgets do not count."""
        self._journal.event("phase", phase=phase)
        self.show(doing)

    def show(self, doing: str) -> None:
        """Show what is done beside searching."""
        self.doing = doing
        self.progress(self)

    def search(self) -> None:
        """Search until every study has used its budget, or until something stops the sweep. Raises JournalFull."""
        self._searching = True
        while any(study.open for study in self.studies):
            self._check_stop()
            filled = self.stopping or self._fill()
            ending = self.stopping or self._used_up() or not any(study.wants_more for study in self.studies)
            if ending and not self._flights:
                break
            self._turn(POLL_S if filled else 0.0)
        self._searching = False
        self._note_clock()
        for study in self.studies:
            if study.finished:
                self._journal.event("study_finished", study=study.task.key.id, reason=study.finished)

    def complete_portfolios(self) -> None:
        """Run the trials that the choice of portfolios lacks: one problem's best config on the others."""
        wanted = missing([study for study in self.studies if not study.stopped])
        for study, config in wanted:
            study.want(config)
        self._run_once([_WorkItem(study, config, study.task.mode) for study, config in wanted], "trial")

    def race(self) -> None:
        """Race each study's leaders against its default. Candidates whose binaries are gone are built first."""
        meeting = [(study, finalists(study.completed.values(), study.default)) for study in self.studies]
        mode = {study: study.task.mode for study, _ in meeting}
        gone = [(s, r) for s, records in meeting for r in records if not self.evaluator.keeps(r.trial_id)]
        self._run_once([_WorkItem(study, record.config, mode[study]) for study, record in gone], "build")
        items = []
        for study, records in meeting:
            candidates = tuple((r.trial_id, r.config) for r in records if self.evaluator.keeps(r.trial_id))
            if candidates:
                items.append(_WorkItem(study, candidates[0][1], mode[study], candidates))
        self._run_once(items, "race", self._keep_race)

    def _keep_race(self, flight: _Flight, result: TrialResult) -> None:
        """Journal a race: the time of each candidate, then the ranking."""
        study, race, places = flight.study, flight.request, result.outcome.ranked
        assert isinstance(race, RaceRequest)
        pairs = list(zip(race.candidates, places, strict=bool(places)))
        for (trial_id, config), place in pairs:
            alone = replace(result, build=Build(trial_id), outcome=place.outcome)
            self._journal.add(self._record(flight, race.alone(config), alone, "remeasure"))
        entries = [RaceEntry.of(config, place).to_json() for (_, config), place in pairs]
        outcome = result.outcome
        self._journal.event(
            "contest",
            study=study.task.key.id,
            places=entries,
            status=outcome.status.value,
            error=outcome.error_digest,
            device_s=round(result.phases.device_s, 3),
        )

    def build(
        self, winners: Iterable[tuple[Study, Config]], modes: Iterable[Mode]
    ) -> tuple[list[Built], list[StudyKey]]:
        """Run each winner once more in every shape mode and return its machine code, and the studies that lack some
        since a worker was lost, which a resume builds. What a mode cannot build is left out, and said."""
        modes = tuple(modes)
        plan = [_WorkItem(study, config, mode) for study, config in winners for mode in modes]
        trial_ids: list[tuple[Study, Mode, str]] = []
        lost: dict[StudyKey, None] = {}

        def keep(flight: _Flight, result: TrialResult) -> None:
            self._journal.event(
                "built",
                study=flight.study.task.key.id,
                mode=flight.request.mode,
                trial_id=result.trial_id,
                status=result.outcome.status.value,
                error=result.outcome.error_digest,
            )
            key, outcome = flight.study.task.key, result.outcome
            if outcome.status is Status.OK:
                trial_ids.append((flight.study, flight.request.mode, result.trial_id))
            elif not self.stopping:
                why = f"{outcome.status.value}: {outcome.error_digest}"
                log.warning("no machine code for %s, %s sizes: %s", key.title, flight.request.mode, why)
                if outcome.status.is_infrastructure and result.kernel_error is None:  # which is named itself
                    lost[key] = None

        self._run_once(plan, "build", keep)
        fetched = [(found[0].task.key, self._fetch(*found)) for found in trial_ids]
        lost |= {key: None for key, built in fetched if built is None}
        return [built for _, built in fetched if built is not None], list(lost)

    def thinking(self) -> dict[str, float]:
        """Return this process's seconds by activity: asking strategies, ranking built configs, handling results.

        Handling includes journalling.
        """
        return {"ask_s": self._asking_s, "rank_s": self._policy.spent_s, "hear_s": self._hearing_s}

    def stop(self, reason: str) -> None:
        """Ask for nothing more; what is in flight ends soon."""
        self.stopping = self.stopping or reason

    def give_up(self, study: Study, error: TileflowError) -> None:
        """Stop a study whose kernel fails whatever the config. Raises ``error`` where the sweep has no other."""
        if not study.stopped:
            study.stop(f"{type(error).__name__}: {error}")
            self._note_stopped(study)
        if self._whole and len(self.studies) == 1:
            raise error

    def _postpone(self, study: Study, error: SlowProblem) -> None:
        """Let a study whose problem is slow to make wait until no other one is open; it then has all its time."""
        if not study.postponed:
            others = [other for other in self.studies if other is not study]
            for other in others:
                if other.after is study:
                    other.after = None  # they would wait for each other
            study.postpone(lambda: not any(not other.postponed and other.open for other in others))
            self._journal.event("study_postponed", study=study.task.key.id, reason=str(error))
            log.warning("%s goes last: %s", study.task.key.title, error)

    # ---- phases ---------------------------------------------------------------------------------

    def _run_once(
        self,
        plan: Sequence[_WorkItem],
        kind: Purpose,
        keep: Callable[[_Flight, TrialResult], None] = lambda flight, result: None,
    ) -> None:
        """Run every item of ``plan``, started in order as capacity allows; ``keep`` is called with each final
        result."""
        pending = deque(plan)
        self._keep = keep
        while pending or self._flights:
            self._check_stop()
            if self.stopping:
                pending.clear()
            for _ in range(len(pending)):
                item = pending.popleft()
                if self._capacity(item.study.task.key.device_class) > 0:
                    self._submit(item, kind)
                elif not item.study.stopped:
                    pending.append(item)
            self._turn(POLL_S)

    def _fetch(self, study: Study, mode: Mode, trial_id: str) -> Built | None:
        try:
            return Built(study.task.key, mode, self.evaluator.fetch_binaries(trial_id))
        except ClusterError as error:
            log.warning("no machine code for %s: %s", study.task.key.title, error)
            return None

    # ---- one turn -------------------------------------------------------------------------------

    def _check_stop(self) -> None:
        if not self.stopping and self.evaluator.ordered == "stop":
            self.stop("told to stop")
        if not self.stopping and self.evaluator.draining:
            self.stop("the evaluator is draining")
        if not self.stopping and not self._journal.has_room():
            self.stop("the disk is nearly full")
            log.error("the disk is nearly full: the sweep stops while its journal still takes what is under way")
        if self.stopping and not self.evaluator.draining:
            self.evaluator.drain()

    def _fill(self) -> bool:
        """Give every device class enough requests to keep it busy, its studies taking turns.

        Returns False where that takes so long that workers must be looked after in between.
        """
        if self._used_up():
            return True
        until = time.monotonic() + FILL_S
        for device_class, turns in self._turns.items():
            free = self._capacity(device_class)
            idle = 0
            while free > 0 and idle < len(turns):
                if time.monotonic() > until:
                    return False
                study = turns[0]
                turns.rotate(-1)
                started = time.monotonic()
                config = study.ask() if study.wants_more else None
                self._asking_s += time.monotonic() - started
                if config is None:
                    idle += 1
                    continue
                idle = 0
                free -= 1
                self._submit(_WorkItem(study, config, study.task.mode), "trial")
        return True

    def _used_up(self) -> bool:
        """Whether GPUs have worked as long for the sweep as they may."""
        return self._gpu_seconds is not None and sum(study.gpu_s for study in self.studies) >= self._gpu_seconds

    def _leave_stragglers(self) -> None:
        """Do not wait for configs that compile for long once a search is over and has a result."""
        before = time.monotonic() - STRAGGLER_S
        for request_id, flight in self._flights.items():
            if flight.began < before and flight.study.over and flight.study.best is not None:
                self.evaluator.cancel(request_id)

    def _capacity(self, device_class: str) -> int:
        try:
            return self.evaluator.capacity(device_class)
        except ClusterError as error:
            for study in self._turns[device_class]:
                if not study.stopped:
                    study.stop(str(error))
                    self._note_stopped(study)
            return 0

    def _submit(self, item: _WorkItem, kind: Purpose) -> None:
        study = item.study
        request_id, key = f"{self._journal.epoch}-{next(self._numbers)}", study.task.key
        place = request_id, study.task.kernel, key.problem, key.device_class
        request: AnyRequest
        if item.candidates:
            request = RaceRequest(
                *place,
                item.candidates,
                mode=item.mode,
                incumbent_us=study.incumbent_us,
                seed=self._seed,
                budget_s=study.budget.seconds,
            )
        else:
            request = TrialRequest(
                *place,
                item.config,
                mode=item.mode,
                incumbent_us=study.incumbent_us,
                seed=self._seed,
                remeasure=kind != "trial",
                budget_s=study.budget.seconds,
                others_wait=kind == "trial" and not study.postponed and self._others_wait(study),
            )
        self._flights[request_id] = _Flight(study, item.config, request, kind, time.time(), time.monotonic())
        self.evaluator.submit(request)

    def _others_wait(self, study: Study) -> bool:
        return any(other.open for other in self.studies if other is not study)

    def _turn(self, timeout_s: float) -> None:
        results = self.evaluator.poll(timeout_s)
        started = time.monotonic()
        for result in results:
            self._hear(result)
        self._hearing_s += time.monotonic() - started
        self._charge()
        self._journal.sync_when_due()
        if self._ticked >= self._next_look:
            self._next_look = self._ticked + LOOK_S
            self._notice_joined()
            if self._searching:
                self._leave_stragglers()
            self.evaluator.announce(status_of(self))
        self.progress(self)

    def _notice_joined(self) -> None:
        """Restart, with measuring, the searches of a class that was modelled and has a GPU now."""
        for served in self.evaluator.device_classes():
            if served.measured and served.name not in self._measured:
                self._measured.add(served.name)
                for study in self._turns.get(served.name, ()):
                    study.measure()
                self._journal.event("joined", device_class=served.name)

    def _hear(self, result: TrialResult) -> None:
        """Journal one result, then tell its study.

        A config whose trial is known is told the known verdict, without another line in the journal.
        """
        flight = self._flights.get(result.request_id)
        if flight is None:
            log.warning("dropped a result of request %s, which is not under way", result.request_id)
            return
        if result.final:
            del self._flights[result.request_id]
        flight.study.gpu_s += gpu_seconds(result)
        if result.kernel_error is not None:
            self._hear_kernel_error(flight, result, result.kernel_error)
        elif result.outcome.status is Status.CANCELLED and not result.blocklisted:
            self._cancel(flight, final=result.final)
        elif flight.kind == "trial":
            self._hear_trial(flight, result)
        elif result.final:
            self._keep(flight, result)

    def _hear_kernel_error(self, flight: _Flight, result: TrialResult, error: TileflowError) -> None:
        """Leave out a mode that the kernel has no machine code for; else stop its study, or let it go last."""
        study, mode = flight.study, flight.request.mode
        if mode != study.task.mode:
            log.error("%s cannot be built in mode %s: %s", study.task.key.title, mode, error)
            failed = f"{type(error).__name__}: {error}"
            self._keep(flight, replace(result, outcome=replace(result.outcome, error_digest=failed)))
            return
        self._cancel(flight, final=True)
        if isinstance(error, SlowProblem) and flight.request.others_wait:
            self._postpone(study, error)
            study.ask_again(flight.config)
        else:
            self.give_up(study, error)

    def _hear_trial(self, flight: _Flight, result: TrialResult) -> None:
        """Journal a trial's attempt, and tell its study where it is the last."""
        assert isinstance(flight.request, TrialRequest)
        study, config = flight.study, flight.config
        entry = self._record(flight, flight.request, result, "trial")
        if not entry.completed:
            self._journal.add(entry)
            if result.final:
                self._lose(study, config, entry)
            return
        if entry.trial_id not in study.completed:
            self._journal.add(entry)
            if entry.time_us is None:
                self.failures[entry.status.value] += 1
        elif study.source(config) == PORTFOLIO:  # a table looks for this config, and would not find another's line
            self._journal.event("known", study=study.task.key.id, config=config.to_dict(), trial_id=entry.trial_id)
        study.complete(config, entry)

    def _record(self, flight: _Flight, request: TrialRequest, result: TrialResult, kind: RecordKind) -> TrialRecord:
        return TrialRecord(
            kind=kind,
            sweep_id=self._sweep_id,
            seed_source=flight.study.source(request.config),
            started_at=flight.started_at,
            study=flight.study.task.key,
            semantic_hash=request.kernel.semantic_hash,
            mode=request.mode,
            config=request.config,
            result=result,
        )

    def _cancel(self, flight: _Flight, *, final: bool) -> None:
        if final:
            self.cancelled += 1
            if flight.kind == "trial":
                flight.study.cancelled(flight.config)

    def _lose(self, study: Study, config: Config, entry: TrialRecord) -> None:
        stopped = study.stopped
        study.lost(config, entry.result.outcome.error_digest or entry.status)
        if study.stopped and not stopped:
            self._note_stopped(study)

    def _note_stopped(self, study: Study) -> None:
        self._journal.event("study_stopped", study=study.task.key.id, reason=study.stopped)
        log.error("%s: %s", study.task.key.title, study.stopped)

    def _charge(self) -> None:
        """Charge the passed time to the studies of each device class, in proportion to their requests in flight."""
        now = time.monotonic()
        elapsed, self._ticked = now - self._ticked, now
        for device_class, turns in self._turns.items():
            if self.evaluator.away(device_class):
                continue  # nobody's time passes while there is nothing to work with
            under_way = Counter({id(study): study.in_flight for study in turns})
            total = under_way.total()
            for study in turns:
                study.spent_s += elapsed * under_way[id(study)] / total if total else 0.0
        if now - self._clock_noted >= CLOCK_EVENT_S:
            self._note_clock()

    def _note_clock(self) -> None:
        self._clock_noted = time.monotonic()
        spent = {study.task.key.id: round(study.spent_s, 3) for study in self.studies}
        self._journal.event("clock", spent_s=spent)
