"""``tileflow bundle build``: a bundle without any sweep, cross-compiled on a machine without a GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tileflow_cluster.protocol import ProblemItems, toolchain_text

import tileflow
from tileflow.errors import SpecError
from tileflow.runtime.bundle import Bundle
from tileflow.runtime.snapshots import require_place, write_bundle
from tileflow.runtime.table import (
    CreatedBy,
    DeviceInfo,
    Entry,
    Fallback,
    KernelId,
    KeyField,
    Table,
    Validator,
    key_schema_of,
    launches_of,
)
from tileflow.target import target

from .portable import BuiltRow, Order, build_rows, defaults_of, homes, require_built, require_processes
from .spec import KernelSpec


def orders(kernels: Iterable[KernelSpec], examples: Iterable[KernelSpec], devices: Sequence[str]) -> list[Order]:
    """Return the rows that a bundle needs on each of ``devices``.

    These are a static row for each problem of a kernel, and a default for each kind of arguments among its problems;
    for a kernel without problems, among those of the ``examples``. Raises SpecError for a kernel with neither, and
    where its ``inputs`` refuses one.
    """
    known = {spec.kernel: spec.problems for spec in examples}
    wanted: list[Order] = []
    for spec in kernels:
        shown = spec.problems or known.get(spec.kernel, ())
        if not shown:
            raise SpecError(
                "a kernel must have an example problem to be built from",
                got=spec.kernel,
                hint="name one in a file: --problems FILE, or --examples FILE for a default only",
            )
        for device in devices:
            described = [(spec.kernel, device, _describe(spec.kernel, problem)) for problem in shown]
            wanted += [Order(spec.kernel, shown[number], device) for number in homes(described)]
            wanted += [Order(spec.kernel, problem, device, "static") for problem in spec.problems]
    return wanted


def build_bundle(wanted: Sequence[Order], out: Path, processes: int = 0, keep: int | None = None) -> Bundle:
    """Build every row, and write them as the current snapshot of ``out``.

    Raises BuildError, with nothing written, where one cannot be built; before any is built SpecError and TableError,
    where a count or ``out`` is none that a bundle can be written with.
    """
    require_processes(processes)
    require_place(out, keep)
    for order in wanted:
        target(order.device_class)
    built = require_built(build_rows(wanted, processes=processes))
    return write_bundle(tables(built), [binary for row in built for binary in row.binaries], out, keep=keep)


def tables(rows: Sequence[BuiltRow]) -> list[Table]:
    """Return one table per kernel. Static rows serve their own sizes alone; defaults serve all others."""
    by_kernel: dict[str, list[BuiltRow]] = {}
    for row in rows:
        by_kernel.setdefault(row.order.kernel, []).append(row)
    return [_table(kernel, group) for kernel, group in by_kernel.items()]


def _table(kernel: str, rows: list[BuiltRow]) -> Table:
    entries = [_entry(row) for row in rows if row.order.kind == "static"]
    fingerprints = "".join(sorted({row.space_fingerprint for row in rows}))
    return Table.of(
        KernelId.of(kernel, rows[0].semantic_hash, hashlib.sha256(fingerprints.encode()).hexdigest()[:16]),
        entries,
        devices={name: DeviceInfo.of(target(name)) for name in {row.order.device_class: None for row in rows}},
        key_schema=tuple(KeyField(field.name, "exact") for field in key_schema_of(entries)),
        default=Fallback(rows[0].config, reason=f"the default config of {rows[0].problem.key}"),
        defaults=defaults_of(rows, kernel),
        validators=tuple(Validator(name, value, "warn") for name, value in rows[0].compiled_by),
        created_by=CreatedBy(tileflow.__version__),
    )


def _entry(row: BuiltRow) -> Entry:
    return Entry(
        row.order.device_class,
        row.problem,
        row.config,
        "modelled",
        row.modelled_us,
        row.modelled_us,
        launches=launches_of(row.binaries),
        requirements=row.requirements,
        toolchain=toolchain_text(row.compiled_by),
    )


def _describe(kernel: str, problem: ProblemItems) -> Any:
    from tileflow.api import load_kernel

    found = load_kernel(kernel)
    arguments: dict[str, Any] = dict(problem)
    try:
        return found.describe(*found.inputs(device="meta", **arguments))
    except TypeError as error:  # the author's function
        raise SpecError(
            "the kernel's inputs function must accept the problem", got=f"{arguments}: {error}", where=kernel
        ) from error
