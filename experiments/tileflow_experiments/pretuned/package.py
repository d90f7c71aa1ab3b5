"""The distribution ``tileflow-pretuned``: the pretuned tables, the binaries that are built from them, and the kernels.

It needs torch and ``tileflow-runtime``. ``tileflow_pretuned.load()`` serves the kernels where they are at home;
``tileflow_pretuned.serving`` has them as functions, for machines that have nothing of tileflow but the runtime.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tileflow
from tileflow.errors import BuildError, TableError
from tileflow.runtime.bundle import Bundle
from tileflow.runtime.snapshots import write_bundle
from tileflow.runtime.table import Table, launches_of

from ..portable import BuiltRow, Failure, Order, build_rows, defaults_of, homes, require_built
from ..standalone import write_package
from .tables import arguments

PACKAGE = "tileflow_pretuned"
log = logging.getLogger(__name__)
_PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tileflow-pretuned"
version = "{version}"
description = "Rows and binaries of tileflow's serving kernels for H200 and H100"
license = "Apache-2.0"
requires-python = ">=3.11"
dependencies = ["tileflow-runtime=={version}"]

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
artifacts = ["{package}/**"]
"""
_INIT = '''\
"""Rows of tileflow's serving kernels, with their binaries. Written by `scripts/pretuned wheel`; do not edit."""

from pathlib import Path

from tileflow import runtime

BUNDLE = Path(__file__).parent / "serving" / "bundle"


def load(**options):
    """Serve the kernels from these rows; returns the tables. ``options``: of ``tileflow.runtime.load``."""
    return runtime.load(BUNDLE, **options)


__all__ = ["BUNDLE", "load"]
'''


def orders(tables: Sequence[Table]) -> list[Order]:
    """What is built: each row for its own sizes, and with sizes as parameters where the table lets it serve near ones;
    and for each kinds of arguments a default, from the problem in the middle."""
    wanted = []
    for table in tables:
        is_near = any(field.kind != "exact" for field in table.key_schema)
        for entry in table.entries:
            own = Order(table.kernel.ref, arguments(entry.problem), entry.device, "static", entry.config)
            wanted += [own, replace(own, kind="dynamic")] if is_near else [own]
        middle = homes((table.kernel.ref, entry.device, entry.problem) for entry in table.entries)
        for entry in (table.entries[n] for n in middle):
            wanted.append(Order(table.kernel.ref, arguments(entry.problem), entry.device))
    return wanted


def write_binaries(tables: Sequence[Table], out: Path, processes: int = 0) -> Bundle:
    """The bundle ``out`` of the tables with their machine code.

    A default that does not build is logged and left out, as a sweep does. Raises BuildError where a row does not, and
    TableError, before anything is built, for rows of another version of a kernel than this tree's.
    """
    for table in tables:
        _require_current(table)
    found = build_rows(orders(tables), processes=processes)
    defaults = [row for row in found if isinstance(row, Failure) and row.order.kind == "portable"]
    for failure in defaults:
        log.error("without the default %s: %s", failure.order.title, failure.error)
    rows = require_built(row for row in found if row not in defaults)
    binaries = [binary for row in rows for binary in row.binaries]
    return write_bundle([with_code(table, rows) for table in tables], binaries, out)


def _require_current(table: Table) -> None:
    from tileflow.api import load_kernel

    now = load_kernel(table.kernel.ref).semantic_hash
    if now != table.kernel.semantic_hash:
        raise TableError(
            "a row must be of the kernel that this tree has",
            got=f"{table.kernel.semantic_hash[:12]}, now {now[:12]}",
            where=table.kernel.ref,
            hint="scripts/pretuned tune on a GPU, or model without one",
        )


def with_code(table: Table, rows: Sequence[BuiltRow]) -> Table:
    """The table with the launches of what was built from it, and defaults that take any size."""
    of_kernel = [row for row in rows if row.order.kernel == table.kernel.ref]
    code: dict[tuple[str, str], list[BuiltRow]] = {}
    for row in of_kernel:
        if row.order.kind != "portable":
            code.setdefault((row.order.device_class, row.problem.key), []).append(row)
    entries = []
    for entry in table.entries:
        mine = code[entry.device, entry.problem.key]
        launches = launches_of(binary for row in mine for binary in row.binaries)
        entries.append(replace(entry, launches=launches, requirements=mine[0].requirements))
    return replace(table, entries=tuple(entries), defaults=defaults_of(of_kernel, table.kernel.ref))


def write_sources(tables: Sequence[Table], folder: Path, processes: int = 0) -> Bundle:
    """The distribution's tree in ``folder``: a project file and the package, with its binaries."""
    package = folder / PACKAGE
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_PROJECT.format(version=tileflow.__version__, package=PACKAGE))
    names = [table.kernel.ref for table in tables]
    bundle = write_package(package / "serving", names, lambda out: write_binaries(tables, out, processes))
    (package / "__init__.py").write_text(_INIT)
    return bundle


def write_wheel(tables: Sequence[Table], dest: Path, processes: int = 0) -> Path:
    """Build the distribution's wheel in ``dest``; needs hatchling. Raises BuildError where pip fails."""
    with tempfile.TemporaryDirectory(prefix="tileflow-pretuned-") as folder:
        tree, made = Path(folder) / "tree", Path(folder) / "made"
        tree.mkdir()
        write_sources(tables, tree, processes)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-index", "--no-deps"]
        done = subprocess.run(
            [*pip, "--no-build-isolation", "--wheel-dir", made, tree], capture_output=True, text=True, check=False
        )
        wheels = [*made.glob("*.whl")] if made.is_dir() else []
        if done.returncode or len(wheels) != 1:
            raise BuildError("pip must build the wheel", got=done.stderr[-2000:], hint="pip install hatchling")
        dest.mkdir(parents=True, exist_ok=True)
        return Path(wheels[0].rename(dest / wheels[0].name))
