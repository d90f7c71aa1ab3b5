"""``kernel.tune(...)`` and ``tileflow.tune([...])``: a sweep over the given calls, whose rows are kept and loaded.

Workers get copies of the calls' own arguments, in memory that they share (:mod:`tileflow_cluster.shared_call`), so a
kernel needs neither ``inputs=`` nor a module of its own. The output of Ray and other libraries goes to a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TextIO, cast

import torch
from tileflow_cluster.local_evaluator import LocalEvaluator
from tileflow_cluster.pipeline import TileflowStages
from tileflow_cluster.protocol import Evaluator, KernelRef, Mode, problem_items
from tileflow_cluster.shared_call import SharedCall
from tileflow_search.registry import STRATEGIES

from tileflow import runtime
from tileflow.api import Kernel
from tileflow.errors import CallError, InternalError, SpecError, TableError
from tileflow.runtime.argtree import bind_call, tensors
from tileflow.runtime.bundle import load_tables
from tileflow.runtime.describe import check_memory
from tileflow.runtime.describe import device_class as class_of
from tileflow.runtime.files import require_folder
from tileflow.runtime.problem import Problem
from tileflow.runtime.table import Entry, Table
from tileflow.runtime.user_tables import keep, read, user_folder
from tileflow.settled import known_default
from tileflow.streams import is_terminal, say
from tileflow.target import target

from . import closing, sweep
from . import journal as journals
from .begin import on_ray
from .outputs import Outputs
from .progress import Progress
from .records import StudyKey, TrialRecord
from .spec import KernelSpec, SweepSpec, parse
from .stops import STOPS
from .tuning_folder import TuningFolder, tuning_folder
from .tuning_task import TuningTask
from .verify import WRONG, how_it_ended, some_config_works
from .work import Tools

CHATTY = ("ray", "tileflow", "tileflow_experiments", "tileflow_cluster", "mlflow", "alembic")

CHECKS_SHARE = 0.25  # of the budget, for interpreting random configs after a modelled search

log = logging.getLogger("tileflow")


class _Turn:
    """``with turn: ...`` is one thread's at a time. Raises CallError where that thread enters again."""

    def __init__(self) -> None:
        self._held = threading.Lock()
        self._thread = 0

    def __enter__(self) -> None:
        if self._thread == threading.get_ident():
            raise CallError(
                "a search ends before its thread begins another",
                got="tune called amid a tune, as from a signal's handler, a finalizer or a kernel's reference",
                where="tileflow.tune",
                hint="set a flag there and tune after the search, or tune in another thread, which waits its turn",
            )
        self._held.acquire()
        self._thread = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._thread = 0
        self._held.release()


# of the searches of this process: each has its workers, its GPUs and what its libraries log to itself
_turn = _Turn()


def tune_calls(
    calls: Iterable[tuple[Any, ...]],
    *,
    budget_s: float = 60.0,
    tables: str | PathLike[str] | None = None,
    out: str | PathLike[str] | None = None,
    device_class: str | None = None,
    strategy: str = "default",
    seed: int = 0,
    by_value: bool = False,
    tools: Tools | None = None,
) -> list[Entry | None]:
    """Tune the calls as :func:`tileflow.tune` does. ``tools``: what trials run on; workers of this machine where
    None. Threads take turns, and a search within a search is refused. A signal that stopped the search is raised anew
    at its end."""
    wanted = _wanted(calls)
    if not wanted:
        return []
    _require_options(tables, out, by_value)
    device = _device_class(wanted) if device_class is None else device_class
    spec = _spec(device, budget_s, strategy, seed)
    studies = {call.study(device): call for call in wanted}
    kernels = tuple(KernelSpec(key.kernel, (cast("Any", key.problem),)) for key in studies)
    place = Path(tables) if tables is not None else user_folder()
    with _turn, tuning_folder(out) as folder:
        outputs = folder.outputs
        spec = replace(spec, kernels=kernels, seeds=_seeds(wanted, place))
        with contextlib.ExitStack() as stack:
            shared = {
                key: stack.enter_context(SharedCall(c.kernel, c.args, c.device, by_value)) for key, c in studies.items()
            }
            chatter = stack.enter_context(_chatter_in(folder.log))
            used = replace(
                tools or Tools(_on_this_machine),
                prepare=lambda key, mode: _task(key, mode, shared[key], studies[key]),
                display=lambda budget: _TuneProgress(budget, chatter),
                to_mlflow=out is not None,
                random_checks_s=CHECKS_SHARE * budget_s,
            )
            stopped = sweep.run(spec, outputs.folder, used)
        rows = _rows(outputs)
        kept = {version: _keep(table, place, outputs) for version, table in rows.items()}
        found = [_row_of(call, device, rows) for call in wanted]
        folder.is_needed = bool(stopped) or not all(found) or outputs.tables in kept.values()
        drawn = {key: call.drawn for key, call in shared.items()}
        said = _closing_table(wanted, found, kept, device, folder, stopped, drawn)
        if untold := say(said, sys.stdout):  # the rows are kept and loaded all the same
            log.warning("nobody was told what was found: %s\n%s", untold, said)
    _pass_on(stopped)
    return found


def _pass_on(stopped: str) -> None:
    """Let a signal that stopped the search reach the program, once the rows are kept: whoever asked meant all of it.

    Raises KeyboardInterrupt after a Ctrl-C, unless the program's own handler does something else.
    """
    for number in STOPS:
        if stopped.partition(";")[0] == number.name:
            signal.raise_signal(number)


# ---- what is asked --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Call:
    """A call to tune. ``device``: of its tensors."""

    kernel: Kernel
    args: tuple[Any, ...]
    problem: Problem
    device: torch.device

    @property
    def digest(self) -> str:
        """What tells it from calls of the same sizes."""
        return hashlib.sha256(f"{self.kernel.semantic_hash} {self.problem.key}".encode()).hexdigest()[:8]

    def study(self, device_class: str) -> StudyKey:
        return StudyKey(self.kernel.name, problem_items({**self.problem.sizes, "call": self.digest}), device_class)


def _wanted(calls: object) -> list[_Call]:
    """Return the calls. Raises SpecError for what is no list of them, and as :func:`_call`."""
    if not isinstance(calls, Iterable) or isinstance(calls, (str, bytes, Mapping)):
        raise _no_call(f"a {type(calls).__name__} in place of a list of calls")
    wanted = []
    for call in calls:
        if not isinstance(call, (tuple, list)) or len(call) not in (2, 3):
            many = f" of {len(call)}" if isinstance(call, (tuple, list)) else ""
            raise _no_call(f"a {type(call).__name__}{many}")
        if len(call) == 3 and not isinstance(call[2], Mapping):
            raise _no_call(f"a {type(call[2]).__name__} in place of keywords by name")
        wanted.append(_call(*call))
    return wanted


def _no_call(got: str) -> SpecError:
    return SpecError(
        "a call to tune is (kernel, args) or (kernel, args, kwargs)",
        got=got,
        hint="tileflow.tune([(kernel, (x, w)), ...])",
    )


def _require_options(tables: object, out: object, by_value: object) -> None:
    """Raise SpecError for an option of another type, and for a folder of tables that takes no rows: they would be found
    to have no place after the search. The user's own folder may take none."""
    for name, value in (("tables", tables), ("out", out)):
        if value is None:
            continue
        if not isinstance(value, (str, PathLike)) or not str(value) or "\0" in str(value):
            raise SpecError(f"{name} must be a folder's path", got=repr(value), where=name, hint=f"{name}='/a/folder'")
        require_folder(value, name)
    if not isinstance(by_value, bool):
        raise SpecError("by_value must be True or False", got=repr(by_value), where="by_value", hint="by_value=True")


def _call(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> _Call:
    """Return the call. Raises CallError for arguments that the kernel cannot take, SpecError for what is no kernel."""
    own = getattr(kernel, "__tileflow_kernel__", kernel)
    if not isinstance(own, Kernel) or not isinstance(args, (tuple, list)):
        raise _no_call(f"{type(kernel).__name__}, {type(args).__name__}")
    bound = own.positional_args(tuple(args), dict(kwargs or {}))
    check_memory(own.name, bind_call(own.host.signature, own.name, bound, {}))
    devices = {tensor.device for tensor in tensors(bound)}
    if len(devices) != 1 or any(device.type == "meta" for device in devices):
        raise CallError(
            "a call is tuned with its tensors, which have memory and are on one device",
            where=own.name,
            got=", ".join(sorted(map(str, devices))) or "no tensor",
            hint="move all of them to the GPU: x.to('cuda')",
        )
    return _Call(own, bound, own.describe(*bound), devices.pop())


def _device_class(calls: Sequence[_Call]) -> str:
    """Return the class of the GPU that holds the calls' arguments. Raises CallError."""
    devices = {call.device for call in calls}
    classes = {class_of(device) for device in devices if device.type == "cuda"}
    if len(classes) != 1 or any(device.type != "cuda" for device in devices):
        raise CallError(
            "a call is tuned on the GPU that holds its arguments, all calls on one kind",
            got=", ".join(sorted(map(str, devices))),
            hint="or name a device class for the cost model: tune(..., device_class='nvidia-h200')",
        )
    return classes.pop()


def _spec(device: str, budget_s: float, strategy: str, seed: int) -> SweepSpec:
    """Return a spec whose kernels are still to be named. Raises SpecError, which names the option."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise SpecError(
            "a strategy is one that tileflow knows", got=repr(strategy), where="strategy", hint=", ".join(STRATEGIES)
        )
    try:
        return parse(
            {
                "name": "tune",
                "kernels": [{"kernel": "a:call", "problems": [{"n": 1}]}],
                "device_classes": [device],
                "strategy": {"name": strategy, "seed": seed},
                "budget": {"seconds": budget_s},
                "modes": ["static"],  # whoever tunes a call has a compiler for other shapes
            }
        )
    except SpecError as error:
        option = _OPTION_OF.get(str(error.where))
        if option is None:
            raise
        constraint = error.constraint.replace("the field", option)
        hint = error.hint if option == "device_class" else f"{option} is a plain number"
        raise SpecError(constraint, got=error.got, where=option, hint=hint) from None


_OPTION_OF = {"budget.seconds": "budget_s", "device_classes[0]": "device_class", "strategy.seed": "seed"}


def _seeds(calls: Sequence[_Call], place: Path | None) -> tuple[Path, ...]:
    """Return the kept tables of the same kernels: their configs are tried first."""
    versions = dict.fromkeys(call.kernel.semantic_hash for call in calls)
    return tuple(path for version in versions for path, _ in read(version, place)) if place is not None else ()


def _task(key: StudyKey, mode: Mode, shared: SharedCall, call: _Call) -> TuningTask:
    """Lower the kernel from a copy of the arguments, since host code may write into them. Raises KernelError."""
    copy = shared.copy()
    lowered = copy.lower(copy.inputs(device="meta"), target(key.device_class), mode)
    if lowered.problem.key != call.problem.key:
        raise InternalError(
            "a worker's arguments must be those of the call", got=lowered.problem.key, where=call.problem.key
        )
    ref = KernelRef(key.kernel, call.kernel.semantic_hash, shared=shared.reference)
    default = lowered.space.repair(known_default(lowered, call.kernel.semantic_hash))
    return TuningTask(key, ref, call.problem, lowered.space, default, mode, lowered.traffic)


def _on_this_machine(wanted: SweepSpec) -> Evaluator:
    """Return workers of this process, or of the Ray that ``RAY_ADDRESS`` names, if that is of this machine alone."""
    if on_ray():
        from tileflow_cluster.local import open_on_this_machine  # loads Ray, which takes a second

        return open_on_this_machine(TileflowStages(), wanted.device_classes)
    return LocalEvaluator(TileflowStages(), wanted.device_classes)


# ---- what is said ---------------------------------------------------------------------------------------------------


class _TuneProgress(Progress):
    """A live line on a terminal or below a notebook's cell; elsewhere only the file has it."""

    def __init__(self, budget: str, chatter: TextIO) -> None:
        super().__init__(budget, sys.stderr if is_terminal(sys.stderr) else chatter)
        self._chatter = chatter
        if self._live is None and "ipykernel" in sys.modules:
            self._live = _CellLine()

    def say(self, text: str) -> None:
        say(text, self._chatter)


class _CellLine:
    """A line that a notebook writes over itself."""

    def __init__(self) -> None:
        self._width = 0

    def update(self, line: str) -> None:
        say(f"\r{line.ljust(self._width)}", sys.stderr, end="")
        self._width = len(line)

    def stop(self) -> None:
        self.update("")
        say("\r", sys.stderr, end="")


@contextlib.contextmanager
def _chatter_in(path: Path) -> Iterator[TextIO]:
    """Redirect what libraries log to the file at ``path``."""
    loggers = [logging.getLogger(name) for name in CHATTY]
    with path.open("a", encoding="utf-8") as file:
        handler = logging.StreamHandler(file)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        before = [(logger, logger.handlers, logger.propagate) for logger in loggers]
        for logger in loggers:
            logger.handlers, logger.propagate = [handler], False
        try:
            yield file
        finally:
            for logger, handlers, propagate in before:
                logger.handlers, logger.propagate = handlers, propagate


# ---- what is found --------------------------------------------------------------------------------------------------


def _rows(outputs: Outputs) -> dict[str, Table]:
    """Return the tables of a sweep that have a row, by semantic hash."""
    if not any(outputs.tables.glob("*.json")):
        return {}
    tables, _ = load_tables(outputs.tables)
    return {table.kernel.semantic_hash: table for table in tables if table.entries}


def _keep(table: Table, place: Path | None, outputs: Outputs) -> Path:
    """Write the rows where the next process finds them, and load them here. Returns the file.

    Where that folder cannot be written, a message says so and the rows stay in the sweep's folder.
    """
    path = outputs.tables
    if place is not None:
        try:
            path = keep(table, place)
        except (OSError, TableError) as error:
            log.warning("the rows are in %s: your folder of tables takes none: %s", path, error)
    runtime.load(path)
    return path


def _row_of(call: _Call, device: str, rows: Mapping[str, Table]) -> Entry | None:
    table = rows.get(call.kernel.semantic_hash)
    entries = () if table is None else table.entries
    return next((e for e in entries if (e.device, e.problem.key) == (device, call.problem.key)), None)


def _closing_table(
    calls: Sequence[_Call],
    rows: Sequence[Entry | None],
    kept: Mapping[str, Path],
    device: str,
    folder: TuningFolder,
    stopped: str,
    drawn: Mapping[StudyKey, Sequence[str]],
) -> str:
    """Return a table of what each call's search found, then where the rows are. ``drawn``: each call's arguments whose
    values were drawn."""
    folded = journals.fold(journals.read(folder.outputs.journal))
    reasons = journals.stopped(folded.events)
    outcomes = []
    for call, row in zip(calls, rows, strict=True):
        key = call.study(device)
        ended = "" if row else how_it_ended(folded, key)
        why, works = reasons.get(key.id, ""), some_config_works(folded, key)
        outcomes.append(closing.Outcome(call.kernel.__name__, call.problem.key, row, why, ended, works))
    text = closing.table(outcomes, folded)
    for call, row in zip(calls, rows, strict=True):
        key = call.study(device)
        text += [] if row else _of_drawn_values(call, drawn[key], folded.trials.get(key, ()))
    text += [f"row{'s' if len(calls) > 1 else ''} in {path}" for path in dict.fromkeys(kept.values())]
    if stopped:
        text.append(f"stopped before its end: {stopped}")
    if stopped or not all(rows):
        text.append(f"what was logged is in {folder.log}")
    return "\n".join(text)


def _of_drawn_values(call: _Call, drawn: Sequence[str], trials: Sequence[TrialRecord]) -> list[str]:
    """Return what to do where results were wrong of values that are not the call's own: a line, or none."""
    if not drawn or not any(record.result.outcome.status in WRONG for record in trials):
        return []
    return [
        f"{call.kernel.__name__}: trials had other values of {', '.join(drawn)} than yours, drawn from theirs since "
        "they take more than 64 MiB; where results need values that belong together: tune(..., by_value=True)"
    ]


def _after_fork() -> None:
    """Let a fork search: the thread whose turn it was is not here."""
    global _turn
    _turn = _Turn()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
