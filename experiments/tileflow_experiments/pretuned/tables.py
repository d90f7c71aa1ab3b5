"""The tables of ``configs/pretuned/tables``, one file a kernel, made by a sweep on a GPU or without one by a model.

A file has configs, their times, and where those come from: what a review of a change looks at. It has no machine code;
``package`` builds that from it. Rows that a sweep measured take the place of modelled ones, never the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tileflow.api import load_kernel
from tileflow.errors import TableError
from tileflow.runtime.problem import Problem
from tileflow.runtime.recorded import RECORDED, text_of
from tileflow.runtime.table import Entry, Fallback, Table
from tileflow.runtime.table_files import dump_tables, load_table

from ..offline import tables as tables_of_rows
from ..portable import Order, build_rows, require_built
from ..spec import KernelSpec
from ..spec_nodes import Parameter

FOLDER = Path("configs") / "pretuned"
PROBLEMS = FOLDER / "problems.yaml"
TABLES = FOLDER / "tables"


@dataclass(frozen=True, slots=True)
class State:
    """Whether the rows of a table are still rows of the kernel that this tree has.

    ``measured``, ``modelled``: how many rows are which. ``why_stale``: empty where the kernel's hash still matches.
    """

    path: Path
    kernel: str
    measured: int
    modelled: int
    why_stale: str

    @property
    def line(self) -> str:
        """The state as a line of text."""
        found = self.why_stale or "matches"
        return f"{self.kernel}: {self.measured} rows measured, {self.modelled} modelled: {found}"


def read(folder: Path) -> list[tuple[Path, Table]]:
    """The tables and their files. Raises TableError where there are none."""
    found = [(path, load_table(path)) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise TableError(
            "pretuned tables must be there",
            got="none",
            where=str(folder),
            hint="scripts/pretuned tune on a GPU, or model without one",
        )
    return found


def states(folder: Path) -> list[State]:
    """Of every table, which of them this tree's kernels still match."""
    return [_state(path, table) for path, table in read(folder)]


def _state(path: Path, table: Table) -> State:
    measured = sum(entry.origin == "measured" for entry in table.entries)
    now = load_kernel(table.kernel.ref).semantic_hash
    why = ""
    if now != table.kernel.semantic_hash:
        why = f"the kernel is another since: {table.kernel.semantic_hash[:12]}, now {now[:12]}"
    return State(path, table.kernel.ref, measured, len(table.entries) - measured, why)


def modelled(kernels: Iterable[KernelSpec], devices: Sequence[str], processes: int = 0) -> list[Table]:
    """Tables of default configs with the times that the cost model gives them, marked as such.

    Raises BuildError where one cannot be built: its registers and shared memory are a part of its time.
    """
    orders = [
        Order(k.kernel, problem, device, "static") for k in kernels for device in devices for problem in k.problems
    ]
    return [without_code(table) for table in tables_of_rows(require_built(build_rows(orders, processes=processes)))]


def without_code(table: Table) -> Table:
    """The table without what names binaries: its launches, and defaults, which are nothing but those."""

    def bare(row: Fallback) -> Fallback:
        return replace(row, launches=())

    return Table.of(
        table.kernel,
        (replace(entry, launches=()) for entry in table.entries),
        devices=table.devices,
        domain=table.domain,
        key_schema=table.key_schema,
        portfolio=tuple(map(bare, table.portfolio)),
        default=None if table.default is None else bare(table.default),
        unseen=table.unseen,
        validators=table.validators,
        created_by=table.created_by,
    )


def update(new: Iterable[Table], folder: Path) -> list[Path]:
    """Write tables, those of a kernel and version that is there merged with it row by row. Returns the files that
    changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changed: dict[Path, tuple[Table, str | None]] = {}
    for table in new:
        path = folder / f"{table.kernel.ref.replace(':', '.')}.json"
        old = load_table(path) if path.exists() else None
        merged = table if old is None else _merged(old, table)
        if old is None or merged.table_id != old.table_id:
            changed[path] = merged, None if old is None else old.table_id
    dump_tables(changed)
    return [*changed]


def _merged(old: Table, new: Table) -> Table:
    """``new`` with those of ``old``'s rows that it has none for, or only modelled ones where they were measured."""
    if old.kernel.semantic_hash != new.kernel.semantic_hash:
        return new
    rows = {(e.device, e.problem.key): e for e in new.entries}
    kept = [e for e in old.entries if _outlasts(e, rows.get((e.device, e.problem.key)))]
    gone = {(e.device, e.problem.key) for e in kept}
    fresh = [e for e in new.entries if (e.device, e.problem.key) not in gone]
    key_schema = new.key_schema if any(e.origin == "measured" for e in fresh) or not kept else old.key_schema
    merged = Table.of(
        new.kernel,
        [*kept, *fresh],
        devices={**old.devices, **new.devices},
        key_schema=key_schema,
        portfolio=new.portfolio or old.portfolio,
        default=new.default or old.default,
        unseen={**old.unseen, **new.unseen},
        validators=new.validators,
        created_by=new.created_by,
    )
    return old if _same_rows(merged, old) else merged


def _outlasts(old: Entry, new: Entry | None) -> bool:
    return new is None or (old.origin == "measured" and new.origin == "modelled")


def _same_rows(one: Table, other: Table) -> bool:
    return (one.entries, one.devices, one.key_schema) == (other.entries, other.devices, other.key_schema)


def arguments(problem: Problem) -> tuple[tuple[str, Parameter | None], ...]:
    """Keywords of ``Kernel.inputs`` that make a row's call again from its metadata."""
    return (*problem.sizes.items(), (RECORDED, text_of(problem, {})))


def as_json(found: Iterable[State]) -> str:
    """For a pull request's checks."""
    return json.dumps({s.kernel: {"measured": s.measured, "modelled": s.modelled, "stale": s.why_stale} for s in found})
