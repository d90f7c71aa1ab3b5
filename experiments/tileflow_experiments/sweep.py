"""A sweep from its spec to its folder: open, search, complete for portfolios, race, check, export (:mod:`.outputs`)."""

from __future__ import annotations

import itertools
import logging
import secrets
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Protocol

from tileflow_cluster.protocol import Evaluator
from tileflow_search.registry import STRATEGIES, warm_up

import tileflow
from tileflow.errors import SpecError, TileflowError

from . import journal as journals
from . import mlflow_log, spec, tables, warm_start
from .driver import Built, Driver
from .journal import JournalError
from .journal_writer import Journal, JournalFull, require_free
from .open_studies import study_keys
from .outputs import OutputError, Outputs, report_log, require_writable, write_outputs, writing
from .portable import BuiltRow, Failure, Order, homes
from .portfolio import Portfolio, choose
from .records import StudyKey
from .schedulers import Schedulers, dealt
from .spec import SweepSpec
from .spec_check import check
from .stops import STOPS
from .tracking import state as states
from .tracking.uri import uri_of
from .tuning_task import Prepare, TuningTask, configs_fit, prepare, require_searched, require_unchanged
from .warm_start import Transfers
from .work import SchedulerResult, Tools, opened, work

log = logging.getLogger(__name__)

MLFLOW_FINISH_S = 120.0
# Ray's `job stop` kills three seconds after its SIGTERM.
MLFLOW_STOP_S = 0.5


def run(sweep: SweepSpec, out: Path, tools: Tools, mlflow_uri: str | None = None) -> str:
    """Run a new sweep in the folder ``out``. Returns why it, or which of its studies, stopped early; empty where none
    did.

    Raises SpecError, KernelError and ClusterError before anything is written. For a sweep of one study it also raises
    the kernel's error that holds whatever the config.
    """
    outputs = Outputs(out)
    outputs.require_none()
    require_writable(out)
    mlflow_uri = uri_of(mlflow_uri, outputs.mlflow_uri) if tools.to_mlflow else ""
    with _opened(sweep, tools) as (tasks, evaluator, seeds):
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
        journal = Journal.create(
            outputs.journal,
            {
                "sweep_id": f"{sweep.name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}",
                "spec": sweep.to_json(),
                "created_at": time.time(),
                "tileflow": tileflow.__version__,
                **({"shared": True} if any(task.kernel.shared for task in tasks) else {}),
            },
        )
        given = (sweep, outputs, tasks, seeds, evaluator, journal, tools, mlflow_uri)
        return _carried_out(outputs, journal, partial(_run, *given))


def resume(out: Path, tools: Tools, mlflow_uri: str | None = None) -> str:
    """Continue the sweep in the folder ``out``, asking again for what was in flight. Returns and raises as
    :func:`run`."""
    outputs = Outputs(out)
    sweep, known = _searched(outputs.journal)
    require_free(outputs.journal)
    require_writable(out)
    mlflow_uri = outputs.logged_to(mlflow_uri) if tools.to_mlflow else ""
    with _opened(sweep, tools) as (tasks, evaluator, seeds):
        _require_known(tasks, known, require_unchanged)
        journal = Journal.resume(outputs.journal, configs_fit(tasks, known))
        given = (sweep, outputs, tasks, seeds, evaluator, journal, tools, mlflow_uri)
        return _carried_out(outputs, journal, partial(_run, *given))


def export(out: Path, prepare: Prepare = prepare) -> None:
    """Write Parquet, tables and report from the journal of ``out``, whatever state the sweep is in; no machine code.

    Raises OutputError where the folder does not take them, SpecError where a kernel has changed since it was searched:
    its rows would be taken for those of the new version.
    """
    outputs = Outputs(out)
    sweep, known = _searched(outputs.journal)
    tasks = [prepare(key, sweep.modes[0]) for key in study_keys(sweep)]
    _require_known(tasks, known, require_searched)
    write_outputs(outputs, tasks, logged=states.read(outputs.folder), fits=configs_fit(tasks, known))


def to_mlflow(out: Path, mlflow_uri: str | None = None) -> states.LogState:
    """Replay the journal of ``out`` to MLflow, whatever state the sweep is in. Repeating it changes nothing.

    Raises MlflowAway and MlflowUnusable.
    """
    outputs = Outputs(out)
    journals.whole_header(journals.read(outputs.journal))
    uri = outputs.logged_to(mlflow_uri)
    return mlflow_log.replay(outputs.journal, uri, outputs.files(), outputs.artifacts)


def portfolios(out: Path, prepare: Prepare = prepare) -> list[tuple[str, Portfolio]]:
    """Return the portfolios of the journal of ``out``, by kernel, whatever state the sweep is in. Raises SpecError
    where a kernel has changed since it was searched."""
    journal = Outputs(out).journal
    sweep, known = _searched(journal)
    tasks: dict[str, list[TuningTask]] = {}
    for key in study_keys(sweep):
        tasks.setdefault(key.kernel, []).append(prepare(key, sweep.modes[0]))
    every = list(itertools.chain(*tasks.values()))
    _require_known(every, known, require_searched)
    trials = tables.right_trials(journals.fold(journals.read(journal, configs_fit(every, known))))
    return [(kernel, found) for kernel, group in tasks.items() for found in choose(group, trials)]


def _spec_of(lines: Sequence[journals.Line]) -> SweepSpec:
    """Return the spec of a journal. Raises SpecError for one of calls whose arguments were gone with their process."""
    header = journals.whole_header(lines)
    if header.get("shared"):
        raise SpecError(
            "a search over a program's own calls ends with the program",
            where=str(header["sweep_id"]),
            hint="its tables are in its folder; kernel.tune(...) begins another",
        )
    return spec.parse(header["spec"])


def _searched(journal: Path) -> tuple[SweepSpec, dict[str, journals.Line]]:
    """Return a journal's spec, and its ``study`` events by study. Raises SpecError as :func:`_spec_of`."""
    lines = journals.read(journal)
    return _spec_of(lines), _studies_of(lines)


def _studies_of(lines: Sequence[journals.Line]) -> dict[str, journals.Line]:
    return {line["study"]: line for line in journals.events(lines, "study")}


def _require_known(
    tasks: Iterable[TuningTask],
    known: Mapping[str, journals.Line],
    require: Callable[[TuningTask, journals.Line], None],
) -> None:
    """Let ``require`` look at each task that the journal has trials of, beside its ``study`` event."""
    for task in tasks:
        if task.key.id in known:
            require(task, known[task.key.id])


def check_spec(sweep: SweepSpec) -> None:
    """Import the sweep's kernels and ask them for its problems. Raises SpecError."""
    from tileflow.api import load_kernel

    check(sweep, load_kernel, STRATEGIES)


@contextmanager
def _opened(sweep: SweepSpec, tools: Tools) -> Iterator[tuple[list[TuningTask], Evaluator | None, Transfers]]:
    """Read the sweep's seeds and lower its kernels in another thread while the evaluator's workers start; it imports
    the strategy then.

    Each takes seconds. The strategy proposes configs of its own once some have ended, so that nothing waits for its
    import. Schedulers open their own.

    The evaluator and its libraries handle signals, so that it is opened in this thread. Who calls gets them back at
    once: a signal before the search drained workers that had nothing to do, and the sweep waited for them.
    """
    handlers = _Handlers()
    aside = ThreadPoolExecutor(1, thread_name_prefix="lower")
    unwanted = threading.Event()
    reading = aside.submit(warm_start.transfers, sweep.seeds)
    lowering = aside.submit(_tasks, sweep, tools, unwanted)
    aside.submit(warm_up, sweep.strategy.name)
    try:
        evaluator = tools.evaluator(sweep) if len(dealt(sweep)) == 1 else None
    except BaseException:
        unwanted.set()
        aside.shutdown(cancel_futures=True)
        raise
    finally:
        handlers.put_back()
    aside.shutdown(wait=False)
    try:
        seeds = reading.result()
        yield lowering.result(), evaluator, seeds
    finally:
        unwanted.set()
        try:
            if evaluator is not None:
                evaluator.close()
        finally:
            handlers.put_back()


class _Handlers:
    """The handlers of the signals that stop a sweep, as they are now. Outside a main thread, which may set none, and of
    handlers that are not Python's: none."""

    def __init__(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        found = {number: signal.getsignal(number) for number in (STOPS if is_main else ())}
        self._found = {number: handler for number, handler in found.items() if handler is not None}

    def put_back(self) -> None:
        """Set them again, whatever was set since."""
        for number, handler in self._found.items():
            signal.signal(number, handler)


def _tasks(sweep: SweepSpec, tools: Tools, unwanted: threading.Event) -> list[TuningTask]:
    """Return the tasks made until they are ``unwanted``."""
    keys = itertools.takewhile(lambda _: not unwanted.is_set(), study_keys(sweep))
    return [tools.prepare(key, sweep.modes[0]) for key in keys]


class _Stoppable(Protocol):
    """What runs the sweep: this process's driver, or schedulers."""

    @property
    def stopping(self) -> str: ...
    def stop(self, reason: str) -> None: ...


def _carried_out(outputs: Outputs, journal: Journal, run: Callable[[], str]) -> str:
    """Return what ``run`` does. Say what is kept, and how to go on, where somebody does not wait for the end of a
    stop; a folder that is full before the search stops the sweep as a full one does later."""
    try:
        return run()
    except (JournalFull, OutputError) as error:
        log.error("%s", error)
        with suppress(JournalFull):
            journal.close()
        return str(error)
    except KeyboardInterrupt:
        log.error(
            "interrupted: the journal in %s has each trial that ended, and the other files may be missing or old. "
            "`tileflow sweep resume %s` goes on, `tileflow sweep export %s` writes tables and report",
            outputs.folder,
            *[shlex.quote(str(outputs.folder))] * 2,
        )
        raise


def _run(
    sweep: SweepSpec,
    outputs: Outputs,
    tasks: Sequence[TuningTask],
    seeds: Transfers,
    evaluator: Evaluator | None,
    journal: Journal,
    tools: Tools,
    mlflow_uri: str,
) -> str:
    driver = None
    if evaluator is not None:
        driver = _driver(sweep, tasks, seeds, evaluator, journal)
    logger = mlflow_log.MlflowLog(outputs.journal, mlflow_uri, outputs.artifacts) if tools.to_mlflow else None
    if logger is not None:
        with writing(outputs.folder):
            logger.start()
    progress = tools.display(str(sweep.budget))
    runner: Driver | Schedulers
    if driver is None:
        runner = Schedulers(sweep, dealt(sweep), journal, tools, progress.show)
        progress.say(f"{len(dealt(sweep))} schedulers")
    else:
        runner = driver
        driver.progress = progress
        for served in driver.evaluator.device_classes():
            how = "measured on" if served.measured else "modelled by"
            progress.say(f"{served.name}: {how} {served.workers} worker{'s' if served.workers != 1 else ''}")
    found, portable = SchedulerResult(), list[BuiltRow]()
    try:
        with _stopped_by_signals(runner):
            found = runner.run() if isinstance(runner, Schedulers) else work(sweep, runner, journal, tools)
            if not runner.stopping and "dynamic" in sweep.modes:
                stopped = set(found.stopped)
                orders = _defaults([task for task in tasks if task.key not in stopped])
                rows = tools.build_rows(orders, lambda: bool(runner.stopping))
                portable = [row for row in rows if isinstance(row, BuiltRow)]
                _say_failures(journal, [row for row in rows if isinstance(row, Failure)])
        for phase, rates in found.rates.items():
            journal.event("counters", epoch=journal.epoch, phase=phase, **rates)
        journal.event("closed", epoch=journal.epoch, reason=runner.stopping)
    except JournalError as error:  # what was in flight is not journalled, and asked again on resuming
        runner.stop(str(error))
        log.error("%s", error)
    finally:
        progress.close()
        try:
            journal.close()
        except JournalFull as error:
            runner.stop(str(error))
            log.error("%s", error)
    unwritten = _unwritten(outputs, tasks, found.built, portable)
    if logger is not None:
        if runner.stopping:
            logger.abandon(MLFLOW_STOP_S)
        else:
            logger.finish(outputs.files(), MLFLOW_FINISH_S)
        unwritten = unwritten or report_log(outputs, tasks)
    missing = (
        _named(found.stopped, len(tasks), "tuning tasks"),
        _named(found.unchecked, len(tasks), "tuning tasks have an unchecked winner"),
        _named(found.unbuilt, len(tasks), "tuning tasks have a winner without machine code"),
    )
    return "; ".join(filter(None, (runner.stopping or found.stopping, *missing, unwritten)))


def _unwritten(
    outputs: Outputs, tasks: Sequence[TuningTask], built: Iterable[Built], portable: Sequence[BuiltRow]
) -> str:
    """Write tables, bundle and reports. Returns what could not be written, which is logged too: the search is over and
    journalled, and MLflow still waits for its end."""
    try:
        write_outputs(outputs, tasks, built, portable)
    except TileflowError as error:
        log.error("%s", error)
        return str(error)
    return ""


def _driver(
    sweep: SweepSpec, tasks: Sequence[TuningTask], seeds: Transfers, evaluator: Evaluator, journal: Journal
) -> Driver:
    studies = opened(sweep, tasks, evaluator, journal, seeds)
    return Driver(
        journal.header["sweep_id"], studies, evaluator, journal, seed=sweep.strategy.seed, gpu_seconds=sweep.gpu_seconds
    )


def _named(some: Sequence[StudyKey], of: int, what: str) -> str:
    """Return ``2 of 49 tuning tasks: ..., ...``; empty where there is none."""
    return f"{len(some)} of {of} {what}: {', '.join(key.title for key in some)}" if some else ""


def _defaults(tasks: Iterable[TuningTask]) -> list[Order]:
    """Return the orders of the defaults that a table needs."""
    keys = [(task.key, task.problem) for task in tasks]
    middle = homes((key.kernel, key.device_class, problem) for key, problem in keys)
    return [Order(keys[n][0].kernel, keys[n][0].problem, keys[n][0].device_class) for n in middle]


def _say_failures(journal: Journal, failures: Iterable[Failure]) -> None:
    for failure in failures:
        what, why = failure.order.title, f"{type(failure.error).__name__}: {failure.error}"
        journal.event("not_built", row=what, error=why)
        log.error("a bundle without the row %s: %s", what, why)


@contextmanager
def _stopped_by_signals(runner: _Stoppable) -> Iterator[None]:
    """Let the signals that stop a sweep drain it; a second Ctrl-C interrupts. Does nothing outside a main thread, nor
    for a signal that the process ignores, or whose handler is not Python's and could not be given back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        runner.stop(signal.Signals(number).name)
        if signal.SIGINT in before:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    heard = [n for n in STOPS if signal.getsignal(n) not in (None, signal.SIG_IGN)]
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
