"""Warm start: seeds from earlier sweeps' results for other shapes and devices, in tables, journals or trials.parquet.

The nearest shapes of the nearest devices come first: this device class, those it lists as siblings, those of its
architecture, those of its vendor. Another vendor's configs are not used.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow_search.transfer import ProblemFeatures

from tileflow.config import Config
from tileflow.errors import ConfigError, SpecError
from tileflow.measure.types import Status
from tileflow.runtime.problem import Problem
from tileflow.runtime.table_files import load_table
from tileflow.target import find, target

from . import journal as journals
from .journal import JournalError
from .study import leaders
from .tuning_task import TuningTask

log = logging.getLogger(__name__)

SEEDS = 8  # of one study
BEST = 2  # of one earlier problem
_SEED_HINT = "name a file of a sweep's folder: tables/*.json, journal.jsonl or trials.parquet"


@dataclass(frozen=True, slots=True)
class KnownConfigs:
    """The known configs of one problem on one device class, fastest first.

    ``described``: ``features`` are of a call's metadata, as tables keep it, and not of the arguments of the kernel's
    ``inputs``.
    """

    kernel: str
    device_class: str
    features: ProblemFeatures
    described: bool
    configs: tuple[Config, ...]


Transfers = Callable[[TuningTask], Sequence[Config]]


def transfers(paths: Iterable[Path]) -> Transfers:
    """Return a function that gives the best configs of the same kernel, whatever its version, for a study.

    They are repaired to the study's space, at most :data:`SEEDS`. Raises SpecError, JournalError and TableError, which
    name the file, where one is none of the three kinds.
    """
    earlier = [known for path in paths for known in read(path)]

    def of(task: TuningTask) -> Sequence[Config]:
        ranked = sorted(_ranked(earlier, task), key=lambda pair: pair[0])
        fitted = (_fit(task, config) for _, known in ranked for config in known.configs)
        return list(dict.fromkeys(config for config in fitted if config is not None))[:SEEDS]

    return of


def read(path: Path) -> list[KnownConfigs]:
    """Return the known configs in a table (``.json``), a journal (``.jsonl``) or a file of trials (``.parquet``)."""
    match path.suffix:
        case ".json":
            return _of_table(path)
        case ".jsonl":
            return _of_journal(path)
        case ".parquet":
            return _of_trials(path)
    raise SpecError(
        "a seed must be a table (.json), a journal (.jsonl) or trials (.parquet)",
        got=repr(str(path)),
        where="seeds",
        hint=_SEED_HINT,
    )


def features_of(problem: Problem) -> ProblemFeatures:
    """Return a call's metadata as features: the sizes of its arguments, and all else as one label."""
    return ProblemFeatures.of(dict(problem.sizes) | {"categories": problem.categories})


def _of_table(path: Path) -> list[KnownConfigs]:
    table = load_table(path)
    return [KnownConfigs(table.kernel.ref, e.device, features_of(e.problem), True, (e.config,)) for e in table.entries]


def _of_journal(path: Path) -> list[KnownConfigs]:
    found = []
    lines = journals.read(path)
    try:
        journals.header(lines)
    except JournalError as error:
        raise JournalError(error.constraint, got=error.got, where=str(path), hint=_SEED_HINT) from None
    for key, records in journals.by_study(journals.trials(lines).values()).items():
        best = tuple(record.config for record in leaders(records)[:BEST])
        found.append(KnownConfigs(key.kernel, key.device_class, ProblemFeatures.of(dict(key.problem)), False, best))
    return found


def _of_trials(path: Path) -> list[KnownConfigs]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = ["kernel", "problem", "device_class", "config", "status", "median_us", "measured"]
    try:
        return _of_rows(pq.read_table(path, columns=columns).to_pylist())
    except (OSError, pa.ArrowException, ValueError, TypeError, AttributeError) as error:
        # Whoever wrote the file, any of its columns may hold anything.
        said = str(error).partition("\n")[0]
        raise SpecError(
            "a seed must be a readable Parquet file of trials",
            got=f"{type(error).__name__}: {said}",
            where=str(path),
            hint=_SEED_HINT,
        ) from None


def _of_rows(rows: Iterable[Mapping[str, Any]]) -> list[KnownConfigs]:
    studies: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["status"] == Status.OK.value:
            studies.setdefault((row["kernel"], row["problem"], row["device_class"]), []).append(row)
    found = []
    for (kernel, problem, device_class), group in studies.items():
        group.sort(key=lambda row: (not row["measured"], float(row["median_us"])))
        best = dict.fromkeys(Config.of(json.loads(row["config"])) for row in group)
        found.append(
            KnownConfigs(kernel, device_class, ProblemFeatures.of(json.loads(problem)), False, tuple(best)[:BEST])
        )
    return found


def _ranked(earlier: Sequence[KnownConfigs], task: TuningTask) -> list[tuple[tuple[int, float], KnownConfigs]]:
    here, described = ProblemFeatures.of(dict(task.key.problem)), features_of(task.problem)
    found = []
    for known in earlier:
        away = _device_steps(task.key.device_class, known.device_class)
        if known.kernel == task.key.kernel and away is not None:
            found.append(((away, known.features.distance(described if known.described else here)), known))
    return found


def _device_steps(here: str, there: str) -> int | None:
    """Return how many steps away another device class is; None where its configs are not used."""
    if here == there:
        return 0
    ours, theirs = target(here), find(there)
    if theirs is None or theirs.vendor != ours.vendor:
        return None
    if there in ours.siblings:
        return 1
    return 2 if theirs.arch == ours.arch else 3


def _fit(task: TuningTask, config: Config) -> Config | None:
    try:
        return task.space.adapt(config.to_dict())
    except ConfigError as error:
        log.info("a seed is passed over for %s: %s", task.key.title, error)
        return None
