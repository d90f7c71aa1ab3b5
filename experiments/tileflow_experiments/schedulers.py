"""Several schedulers for one sweep: processes that each search some of its kernels, and a driver that merges.

One process can search, journal and talk to Ray for some hundred trials a second. So the kernels of a large sweep are
distributed over schedulers, each with strategies, a trial queue and workers of its own. To the cluster they are parts
of one sweep, which share its GPUs and CPUs. Their results reach the driver as lines of the journal, a moment after
their strategies are told; the driver remains its only writer. A scheduler that dies is started again and, as a resumed
sweep does, asks again for what was in flight: only the dead process knew what was not journalled.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tileflow.errors import TileflowError

from . import journal as journals
from .driver import Driver
from .journal import JournalError, Lines
from .journal_writer import Journal, JournalFull, Writer
from .open_studies import study_keys
from .records import StudyKey
from .spec import SweepSpec
from .status import merged, status_of
from .warm_start import transfers
from .work import SchedulerResult, Tools, opened, work

log = logging.getLogger(__name__)

MOST_STARTS = 4  # starts of one scheduler
SEND_BYTES = 1 << 16
SEND_S = 0.1
STATUS_S = 1.0
ANSWER_S = 60.0
LOOK_S = 0.25
ENDED_S = 10.0  # seconds for a scheduler to end after its last message

Say = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class SweepPart:
    """One scheduler's part of a sweep. ``share``: of the sweep's budget, 0 to 1."""

    number: int
    keys: tuple[StudyKey, ...]
    share: float

    def spec(self, whole: SweepSpec) -> SweepSpec:
        """Return ``whole`` with the share of the cluster that this part has."""
        gpu_seconds = None if whole.gpu_seconds is None else whole.gpu_seconds * self.share
        return replace(whole, name=f"{whole.name}-{self.number}", part=self.share, gpu_seconds=gpu_seconds)


def parts(spec: SweepSpec, keys: Sequence[StudyKey], most: int) -> list[SweepPart]:
    """Distribute the kernels over at most ``most`` schedulers, with budgets as even as possible.

    The searches of one kernel stay together: they transfer results, and a choice of portfolios needs all of them.
    """
    kernels: dict[str, list[StudyKey]] = {}
    for key in keys:
        kernels.setdefault(key.kernel, []).append(key)

    def weight(kernel: str) -> float:
        return sum(spec.budget_of(kernel, key.problem).amount for key in kernels[kernel])

    loads = [0.0] * min(most, len(kernels))
    dealt: list[list[str]] = [[] for _ in loads]
    for kernel in sorted(kernels, key=weight, reverse=True):
        lightest = min(range(len(loads)), key=loads.__getitem__)
        loads[lightest] += weight(kernel)
        dealt[lightest].append(kernel)
    found = []
    for number, mine in enumerate(dealt):
        own = tuple(key for key in keys if key.kernel in mine)
        found.append(SweepPart(number, own, loads[number] / sum(loads)))
    return found


# ---- in a scheduler's process ---------------------------------------------------------------------------------------


class Relay(Writer):
    """The journal as a scheduler sees it: lines are sent to the driver, which writes them.

    Raises JournalError once the driver is gone.
    """

    def __init__(self, path: Path, epoch: int, connection: Connection) -> None:
        super().__init__(path)
        self.epoch = epoch
        self._connection = connection
        self._waiting = bytearray()
        self._sent = time.monotonic()

    def write(self, content: bytes) -> None:
        """Buffer lines, and send them once there are :data:`SEND_BYTES`."""
        self._waiting += content
        if len(self._waiting) >= SEND_BYTES:
            self.flush()

    def sync_when_due(self) -> None:
        """Send buffered lines that have waited for :data:`SEND_S` seconds."""
        if self._waiting and time.monotonic() - self._sent >= SEND_S:
            self.flush()

    def flush(self) -> None:
        """Send all buffered lines now."""
        self._sent = time.monotonic()
        if self._waiting:
            self.say("lines", bytes(self._waiting))
            self._waiting.clear()

    def say(self, what: str, value: Any) -> None:
        """Send the driver one message, a kind and its value. Raises JournalError once the driver is gone."""
        try:
            self._connection.send((what, value))
        except OSError as error:
            raise _driver_gone() from error

    @property
    def lines(self) -> Lines:
        """The lines of the journal, read once the driver has written all that was sent."""
        self.flush()
        self.say("mark", None)
        try:
            if not self._connection.poll(ANSWER_S):
                raise JournalError("a sweep's driver must answer its schedulers", got=f"nothing for {ANSWER_S:g} s")
            self._connection.recv()
        except (EOFError, OSError) as error:
            raise _driver_gone() from error
        return journals.read(self.path)


def _driver_gone() -> JournalError:
    return JournalError(
        "a scheduler must reach its driver", got="the driver has gone", hint="`tileflow sweep resume` goes on"
    )


def serve(
    whole: SweepSpec,
    part: SweepPart,
    path: Path,
    epoch: int,
    sweep_id: str,
    tools: Tools,
    connection: Connection,
    orders: Connection,
) -> None:
    """Run a scheduler's process. It ignores Ctrl-C and its terminal's end, which reach all of a terminal's processes:
    the driver decides."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, format=f"%(levelname)s %(name)s [{part.number}]: %(message)s")
    journal = Relay(path, epoch, connection)
    said: str
    value: Any
    try:
        try:
            said, value = "found", _work(whole, part, journal, sweep_id, tools, orders)
        except TileflowError as error:
            said, value = "failed", f"{type(error).__name__}: {error}"
        except Exception:  # an error of tileflow itself, which the driver reports and journals
            said, value = "failed", traceback.format_exc()
        journal.flush()
        journal.say(said, value)
    except JournalError as error:
        log.error("%s", error)
    finally:
        connection.close()


def _work(
    whole: SweepSpec, part: SweepPart, journal: Relay, sweep_id: str, tools: Tools, orders: Connection
) -> SchedulerResult:
    spec = part.spec(whole)
    tasks = [tools.prepare(key, spec.modes[0]) for key in part.keys]
    evaluator = tools.evaluator(spec)
    said_at = -math.inf

    def progress(driver: Driver) -> None:
        nonlocal said_at
        while orders.poll():
            driver.stop(orders.recv())
        journal.sync_when_due()
        if time.monotonic() - said_at >= STATUS_S:
            said_at = time.monotonic()
            journal.say("status", status_of(driver))

    try:
        studies = opened(whole, tasks, evaluator, journal, transfers(whole.seeds))
        driver = Driver(
            sweep_id,
            studies,
            evaluator,
            journal,
            seed=whole.strategy.seed,
            progress=progress,
            whole=False,
            gpu_seconds=spec.gpu_seconds,
        )
        return work(whole, driver, journal, tools)
    finally:
        evaluator.close()


# ---- in the driver --------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Scheduler:
    part: SweepPart
    process: BaseProcess
    lines: Connection
    orders: Connection
    starts: int = 1


class Schedulers:
    """Runs the parts of a sweep; :meth:`stop` may be called from a signal handler."""

    def __init__(
        self, spec: SweepSpec, dealt: Sequence[SweepPart], journal: Journal, tools: Tools, show: Say = lambda _: None
    ) -> None:
        self.stopping = ""
        self._spec, self._journal, self._tools, self._show = spec, journal, tools, show
        self._told = ""
        self._statuses: dict[int, Mapping[str, Any]] = {}
        self._found = SchedulerResult()
        self._by_lines: dict[Any, _Scheduler] = {}
        for part in dealt:
            self._start(part, 1)

    def stop(self, reason: str) -> None:
        """Let every scheduler ask for nothing more."""
        self.stopping = self.stopping or reason

    def run(self) -> SchedulerResult:
        """Merge what the schedulers send until the last has ended, and return their results together."""
        try:
            while self._by_lines:
                self._tell()
                for ready in wait(list(self._by_lines), LOOK_S):
                    self._hear(self._by_lines[ready])
                self._journal.sync_when_due()
        except JournalFull as error:
            self.stop(str(error))
            log.error("%s", error)
        finally:
            for scheduler in list(self._by_lines.values()):
                self._end(scheduler, 0.0)
        self._found.stopping = self.stopping or self._found.stopping
        return self._found

    def _start(self, part: SweepPart, starts: int) -> None:
        context = multiprocessing.get_context("spawn")
        lines, theirs = context.Pipe()
        told, orders = context.Pipe(duplex=False)
        process = context.Process(
            target=serve,
            name=f"scheduler-{part.number}",
            args=(
                self._spec,
                part,
                self._journal.path,
                self._journal.epoch,
                self._journal.header["sweep_id"],
                self._tools,
                theirs,
                told,
            ),
        )
        process.start()
        theirs.close()
        told.close()
        self._by_lines[lines] = _Scheduler(part, process, lines, orders, starts)

    def _tell(self) -> None:
        if self.stopping and not self._told:
            self._told = self.stopping
            for scheduler in self._by_lines.values():
                try:
                    scheduler.orders.send(self.stopping)
                except OSError:  # it has just ended
                    continue

    def _hear(self, scheduler: _Scheduler) -> None:
        try:
            what, value = scheduler.lines.recv()
        except (EOFError, OSError):
            self._lost(scheduler)
            return
        match what:
            case "lines":
                self._journal.write(value)
            case "mark":
                with suppress(OSError):  # it has just ended, which the next message says
                    scheduler.lines.send("written")
            case "status":
                self._statuses[scheduler.part.number] = value
                self._show(merged(list(self._statuses.values())))
            case "found":
                self._take(value)
                self._end(scheduler, ENDED_S)
            case "failed":
                log.error("scheduler %d: %s", scheduler.part.number, value)
                self._end(scheduler, ENDED_S)
                self._fail(scheduler.part, value)

    def _take(self, found: SchedulerResult) -> None:
        """Add one scheduler's result to the total."""
        mine = self._found
        mine.stopping = mine.stopping or found.stopping
        mine.built += found.built
        mine.stopped += found.stopped
        mine.unchecked += found.unchecked
        mine.unbuilt += found.unbuilt
        for phase, rates in found.rates.items():
            known = mine.rates.get(phase)
            mine.rates[phase] = rates if known is None else _added(known, rates)

    def _lost(self, scheduler: _Scheduler) -> None:
        """Start another scheduler in place of one that ended unexpectedly; it continues from the journal."""
        self._end(scheduler, ENDED_S)
        part, ended = scheduler.part, f"exit code {scheduler.process.exitcode}"
        self._journal.event("scheduler_lost", scheduler=part.number, ended=ended, starts=scheduler.starts)
        log.error("scheduler %d was lost (%s)", part.number, ended)
        if self.stopping:
            return
        if scheduler.starts < MOST_STARTS:
            self._start(part, scheduler.starts + 1)
        else:
            self._fail(part, f"scheduler {part.number} was lost {MOST_STARTS} times, at last with {ended}")

    def _fail(self, part: SweepPart, reason: str) -> None:
        """Give up one part; the others go on."""
        for key in part.keys:
            self._journal.event("study_stopped", study=key.id, reason=reason)
        self._found.stopped += part.keys

    def _end(self, scheduler: _Scheduler, grace_s: float) -> None:
        del self._by_lines[scheduler.lines]
        scheduler.process.join(grace_s)
        if scheduler.process.is_alive():
            scheduler.process.kill()
            scheduler.process.join()
        scheduler.lines.close()
        scheduler.orders.close()


MEANS = ("device_idle", "compile_idle")
FIRSTS = ("compiler_ready_at", "device_ready_at", "data_ready_at")


def _added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Add counts and rates of two schedulers that worked side by side; of elapsed times the longer one counts, of
    times of day the earlier one."""
    total = {name: one[name] + other[name] for name in one if name not in FIRSTS}
    for name in FIRSTS:
        total[name] = min((each[name] for each in (one, other) if each[name] is not None), default=None)
    total["elapsed_s"] = max(one["elapsed_s"], other["elapsed_s"])
    work = [max(each["considered"], 1) for each in (one, other)]
    for name in MEANS:
        total[name] = (one[name] * work[0] + other[name] * work[1]) / sum(work)
    return total


def dealt(spec: SweepSpec) -> list[SweepPart]:
    """Return the parts of ``spec``, by the number of schedulers that it asks for."""
    return parts(spec, study_keys(spec), spec.schedulers)
