"""A tuning task: a kernel lowered for one problem and one device class, which one study searches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow_cluster.protocol import KernelRef, Mode
from tileflow_search.transfer import ProblemFeatures

from tileflow.config import Config, ConfigSpace
from tileflow.errors import ConfigError, SpecError
from tileflow.ir.traffic import Traffic
from tileflow.runtime.problem import Problem
from tileflow.target import target

from .records import RECORD_KINDS, StudyKey
from .spec_check import problem_inputs
from .waiting import said_when_slow


@dataclass(frozen=True, slots=True)
class TuningTask:
    """One kernel, problem and device class to tune.

    ``default``: the default config, repaired, which a study tries first. ``traffic``: of one call.
    """

    key: StudyKey
    kernel: KernelRef
    problem: Problem
    space: ConfigSpace
    default: Config
    mode: Mode = "static"
    traffic: Traffic | None = None

    @property
    def features(self) -> ProblemFeatures:
        """The problem's features, by which searches transfer results between problems."""
        work = {} if self.traffic is None else {"bytes": self.traffic.bytes, "flops": self.traffic.flops}
        return ProblemFeatures.of(dict(self.key.problem), **work)

    def to_json(self) -> dict[str, Any]:
        """Return what the journal keeps, so that its folds need no compiler and a resumed sweep knows its kernel
        again."""
        return {
            "study": self.key.id,
            "kernel": self.key.kernel,
            "inputs": dict(self.key.problem),
            "device_class": self.key.device_class,
            "semantic_hash": self.kernel.semantic_hash,
            "space_fingerprint": self.space.fingerprint,
            "space_size": self.space.size,
            "problem": self.problem.to_json(),
            "default": self.default.to_dict(),
            "mode": self.mode,
        }


Prepare = Callable[[StudyKey, Mode], TuningTask]


def require_searched(task: TuningTask, known: Mapping[str, Any]) -> None:
    """Raise SpecError where a journal's trials are of another kernel, or of another call, than ``task``.

    ``known``: the ``study`` event of the same study. The call's metadata is what a table is keyed by; it follows from
    the author's ``inputs``, which no hash of the kernel covers.
    """
    now = task.to_json()
    for what in ("semantic_hash", "mode"):
        if now[what] != known[what]:
            raise _changed(task, what, known[what], now[what])
    was = Problem.from_json(known["problem"]).key if "problem" in known else task.problem.key
    if was != task.problem.key:
        raise _changed(task, "the call that inputs= makes", was, task.problem.key)


def require_unchanged(task: TuningTask, known: Mapping[str, Any]) -> None:
    """Raise SpecError as :func:`require_searched`, and where the space is another, so that its search cannot go on."""
    require_searched(task, known)
    if task.space.fingerprint != known["space_fingerprint"]:
        raise _changed(task, "space_fingerprint", known["space_fingerprint"], task.space.fingerprint)


def configs_fit(
    tasks: Iterable[TuningTask], known: Mapping[str, Mapping[str, Any]]
) -> Callable[[Mapping[str, Any]], None]:
    """Return a function that raises ConfigError for a journal's line of a search that is none of ``tasks``, or of
    configs outside its space: somebody has changed the line. ``known``: the ``study`` events by study.

    A space that is another by now, as that of a later version, says nothing of the configs.
    """
    spaces: dict[StudyKey | str, ConfigSpace | None] = {}
    for task in tasks:
        is_same = task.key.id in known and known[task.key.id]["space_fingerprint"] == task.space.fingerprint
        spaces[task.key] = spaces[task.key.id] = task.space if is_same else None

    def fits(line: Mapping[str, Any]) -> None:
        configs = _configs_of(line)
        if configs is None:
            return
        key = StudyKey.of(line) if line["kind"] in RECORD_KINDS else line["study"]
        if key not in spaces:
            raise ConfigError("a trial must be of a search of its sweep", got=str(key))
        if (space := spaces[key]) is not None:
            for config in configs:
                space.check(Config.of(config))

    return fits


def _configs_of(line: Mapping[str, Any]) -> list[Any] | None:
    """Return the configs that a line says something of; None of a line that is not about configs."""
    if line["kind"] in RECORD_KINDS or line.get("event") in ("known", "interpreted"):
        return [line["config"]]
    return [place["config"] for place in line["places"]] if line.get("event") == "contest" else None


def _changed(task: TuningTask, what: str, was: str, now: str) -> SpecError:
    return SpecError(
        f"a sweep must be resumed and exported with the kernels that it searched: {what} was {was}",
        got=now,
        where=task.key.title,
        hint="go back to the code and the settings of torch that it began with, or start a new sweep in another folder",
    )


def prepare(key: StudyKey, mode: Mode) -> TuningTask:
    """Lower ``key``'s kernel without data and without a GPU. Raises SpecError and KernelError."""
    from tileflow.api import load_kernel

    kernel = load_kernel(key.kernel)
    problem: dict[str, Any] = dict(key.problem)
    arguments = problem_inputs(kernel, problem, key.title)
    with said_when_slow(f"the host code of {key.title}"):
        lowered = kernel.lower(arguments, target(key.device_class), mode)
    ref = KernelRef(key.kernel, kernel.semantic_hash, (_root(key.kernel),))
    default = lowered.space.repair(lowered.default)
    return TuningTask(key, ref, lowered.problem, lowered.space, default, mode, lowered.traffic)


def _root(kernel: str) -> str:
    """Return the directory from which the kernel's module was imported."""
    module = kernel.partition(":")[0]
    file = Path(str(sys.modules[module].__file__)).resolve()
    depth = module.count(".") + (file.name == "__init__.py")
    return str(file.parents[depth])
