"""What one scheduler does for its studies: search, complete portfolios, run races, check winners, build them.

A sweep has one scheduler, in its driver's process, or several in processes of their own (:mod:`.schedulers`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from tileflow_cluster.protocol import Evaluator
from tileflow_search.registry import shares

from tileflow.config import Config
from tileflow.errors import ClusterError
from tileflow.measure.interpret import InterpreterProcess

from . import journal as journals
from . import tables
from .driver import Built, Driver
from .journal_writer import Writer
from .open_studies import open_studies, take_turns
from .portable import BuiltRow, Failure, Order, build_rows
from .progress import Progress
from .records import StudyKey
from .spec import SweepSpec
from .study import Study
from .tuning_task import Prepare, TuningTask, prepare
from .verify import Check, verify
from .warm_start import Transfers

log = logging.getLogger(__name__)

Rates = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tools:
    """The parts that a sweep works with; tests replace them by fakes.

    ``check``: None checks in a process that interprets. ``build_rows``: builds defaults that take any size.
    ``display``: is given the budget in words and shows progress. ``to_mlflow``: whether trials are logged there too.
    ``random_checks_s``: seconds after which no further random config is interpreted; None for as long as it takes.
    Several schedulers need tools that pickle.
    """

    evaluator: Callable[[SweepSpec], Evaluator]
    prepare: Prepare = prepare
    check: Check | None = None
    build_rows: Callable[[Sequence[Order], Callable[[], bool]], Sequence[BuiltRow | Failure]] = build_rows
    display: Callable[[str], Progress] = Progress
    to_mlflow: bool = True
    random_checks_s: float | None = None


@dataclass(slots=True)
class SchedulerResult:
    """What a scheduler returns besides its lines in the journal.

    ``stopping``: why it ended early. ``stopped``: the studies that were stopped. ``unchecked``: those whose winner
    nothing checked. ``unbuilt``: those whose winner lacks machine code that can be built. ``rates``: what its evaluator
    counted, by phase.
    """

    stopping: str = ""
    built: list[Built] = field(default_factory=list)
    stopped: list[StudyKey] = field(default_factory=list)
    unchecked: list[StudyKey] = field(default_factory=list)
    unbuilt: list[StudyKey] = field(default_factory=list)
    rates: dict[str, Rates] = field(default_factory=dict)


def opened(
    spec: SweepSpec, tasks: Sequence[TuningTask], evaluator: Evaluator, journal: Writer, transfers: Transfers
) -> list[Study]:
    """Return the studies of these tasks, told what the journal knows of them. ``transfers``: of the spec's seeds.
    Raises SpecError where a kernel changed."""
    classes = evaluator.device_classes()
    measured = [served.name for served in classes if served.measured]
    studies = open_studies(spec, journal, tasks, transfers, measured)
    if shares(spec.strategy.name):
        take_turns(studies, {served.name: served.workers + 1 for served in classes})
    return studies


def work(spec: SweepSpec, driver: Driver, journal: Writer, tools: Tools) -> SchedulerResult:
    """Do all that the driver's studies need, or as much as possible until something stops it.

    Raises JournalError; what was in flight is then not journalled, and asked again on resuming.
    """
    found = SchedulerResult()
    studies = driver.studies

    def stopping() -> bool:
        return bool(driver.stopping)

    def shown_and_stopping() -> bool:  # a check in flight asks a few times a second
        driver.progress(driver)
        return stopping()

    with _stopped_by_its_cluster(driver):
        driver.begin("search")
        driver.search()
        driver.begin("portfolios", "trying best configs on other problems")
        driver.complete_portfolios()
        found.rates["search"] = _rates(driver)
        driver.begin("race", "racing the best configs")
        driver.race()
        if not driver.stopping:
            driver.begin("check", "checking configs in the interpreter")
            with _checker(tools, shown_and_stopping) as check:
                unchecked = verify(
                    studies,
                    journal,
                    check,
                    seed=spec.strategy.seed,
                    stopping=stopping,
                    random_s=tools.random_checks_s,
                    show=driver.show,
                )
                found.unchecked = [study.task.key for study in unchecked]
        if not driver.stopping:
            driver.begin("build", "building the winners")
            found.built, found.unbuilt = driver.build(_winners(journal, studies), spec.modes)
    found.rates["all"] = _rates(driver)
    found.stopped = [study.task.key for study in studies if study.stopped]
    found.stopping = driver.stopping
    return found


def _rates(driver: Driver) -> Rates:
    counters = driver.evaluator.counters()
    rates = {"considered_per_s": counters.considered_per_s, "measured_per_s": counters.measured_per_s}
    return asdict(counters) | rates | driver.thinking() | {"cancelled": driver.cancelled}


def _winners(journal: Writer, studies: Iterable[Study]) -> list[tuple[Study, Config]]:
    studies = list(studies)
    won = tables.winners(journals.fold(journal.lines), [study.task for study in studies])
    found = ((study, won[study.task.key]) for study in studies)
    return [(study, best.record.config) for study, best in found if best is not None]


@contextmanager
def _checker(tools: Tools, stopping: Callable[[], bool]) -> Iterator[Check]:
    """Give the check. A stop ends the check in flight: the kernel that it runs may take for ever."""
    if tools.check is not None:
        yield tools.check
        return
    with InterpreterProcess(stopping) as process:
        yield process.check


@contextmanager
def _stopped_by_its_cluster(driver: Driver) -> Iterator[None]:
    """Stop the driver where the evaluator can do nothing more; what is known is kept."""
    try:
        yield
    except ClusterError as error:
        driver.stop(str(error))
        log.error("%s", error)
