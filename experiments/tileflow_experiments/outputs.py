"""The files in a sweep's folder: where they are, and how they are made of the journal.

OUT/journal.jsonl    every attempt; the rest can be made from it again
OUT/trials.parquet   the same as a table
OUT/tables/*.json    one table a kernel
OUT/bundle/          the tables with the winners' machine code, and defaults that take any size
OUT/report.md        what was found
OUT/report.html      the same with charts, a page that needs no network
OUT/mlflow.db        MLflow's store, where none was named, and its artifacts beside it
OUT/mlflow-log.json  how far MLflow is, and which lines of the journal were set aside
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tileflow.errors import TableError, TileflowError
from tileflow.runtime.abi import Binary
from tileflow.runtime.files import require_folder, write_atomically
from tileflow.runtime.snapshots import write_bundle
from tileflow.runtime.table import Table
from tileflow.runtime.table_files import dump_table, load_table, table_file_name

from . import html_report, parquet, report, spec, tables
from . import journal as journals
from .driver import Built
from .journal_writer import in_the_way, never_begun
from .portable import BuiltRow
from .records import RECORD_KINDS, StudyKey
from .tables import Winners
from .tracking import state as states
from .tracking.uri import uri_of
from .tuning_task import TuningTask

log = logging.getLogger(__name__)


class OutputError(TileflowError):
    """The sweep's folder does not take what is exported. The journal has it all."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Outputs:
    """The paths in a sweep's folder."""

    folder: Path

    @property
    def journal(self) -> Path:
        """The journal, from which all else can be made again."""
        return self.folder / "journal.jsonl"

    @property
    def parquet(self) -> Path:
        """Every attempt as a Parquet file."""
        return self.folder / "trials.parquet"

    @property
    def tables(self) -> Path:
        """The folder of tables, one per kernel."""
        return self.folder / "tables"

    @property
    def bundle(self) -> Path:
        """The bundle: the tables with the winners' machine code, and defaults."""
        return self.folder / "bundle"

    @property
    def report(self) -> Path:
        """The report in Markdown."""
        return self.folder / "report.md"

    @property
    def page(self) -> Path:
        """The report with charts, an HTML page."""
        return self.folder / "report.html"

    @property
    def artifacts(self) -> Path:
        """The artifacts of MLflow's default store."""
        return self.folder / "mlartifacts"

    @property
    def mlflow_uri(self) -> str:
        """The URI of MLflow's default store, an sqlite file in the folder."""
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    def logged_to(self, given: str | None) -> str:
        """Return the URI of MLflow's store: ``given``, else where the sweep was logged before. Raises SpecError."""
        before = states.read(self.folder)
        return uri_of(given, self.mlflow_uri, before.uri if before is not None else "")

    def table(self, kernel: str, version: str = "") -> Path:
        """Return the path of a kernel's table. ``version``: which one, where the sweep has several of one name."""
        return self.tables / table_file_name(f"{kernel}{version}")

    def require_none(self) -> None:
        """Raise SpecError where an output exists, whoever wrote it: a new sweep replaces nothing."""
        ours = (
            self.journal,
            self.parquet,
            self.tables,
            self.bundle,
            self.report,
            self.page,
            self.folder / "mlflow.db",
        )
        for path in ours:
            # A link to nowhere is in the way too: a folder cannot be made in its place.
            if os.path.lexists(path) and not (path == self.journal and never_begun(path)):
                raise in_the_way(path)

    def files(self) -> list[Path]:
        """Return the tables, which MLflow keeps with the studies of their kernels."""
        return sorted(self.tables.glob("*.json"))


def write_outputs(
    outputs: Outputs,
    tasks: Sequence[TuningTask],
    built: Iterable[Built] = (),
    portable: Sequence[BuiltRow] = (),
    logged: states.LogState | None = None,
    fits: journals.Fits | None = None,
) -> None:
    """Write Parquet, tables, bundle and reports from the journal's lines that fit. ``logged``: how far MLflow is, where
    nobody logs to it meanwhile."""
    with writing(outputs.folder), journals.uncollected():
        lines = journals.read(outputs.journal, fits)
        parquet.write((r for kind in RECORD_KINDS for r in journals.attempts(lines, kind)), outputs.parquet)
        folded = journals.fold(lines)
        won = tables.winners(folded, tasks)
        _write_tables(outputs, folded, tasks, won, built, portable)
        _write_page(outputs, folded, tasks, won)
        _write_report(outputs, folded, tasks, won, logged)


def _write_tables(
    outputs: Outputs,
    folded: journals.Folded,
    tasks: Sequence[TuningTask],
    won: Winners,
    built: Iterable[Built],
    portable: Sequence[BuiltRow],
) -> None:
    """Write the tables, and the bundle where there is machine code."""
    code: dict[StudyKey, list[Binary]] = {}
    for item in sorted(built, key=lambda item: spec.MODES.index(item.mode)):
        code.setdefault(item.study, []).extend(item.binaries)
    made = tables.build_tables(folded, tasks, won, lambda key: code.get(key, ()), portable)
    binaries = [b for of_study in code.values() for b in of_study] + [b for row in portable for b in row.binaries]
    outputs.tables.mkdir(exist_ok=True)
    names = Counter(table.kernel.ref for table in made)
    for table in made:
        version = f"-{table.kernel.semantic_hash[:16]}" if names[table.kernel.ref] > 1 else ""
        _write_table(table, outputs.table(table.kernel.ref, version), keep_code=not binaries)
    if binaries and len(names) == len(made):
        write_bundle(made, binaries, outputs.bundle)


def _write_table(table: Table, path: Path, *, keep_code: bool) -> None:
    """Write a table in place of the sweep's earlier one. One that is damaged is kept beside it: the journal has all
    that it said, and whoever loads it is told to export it again. ``keep_code``: nothing was built, so that the earlier
    table's machine code and defaults, which no journal has, and the bundle beside it stay as they are."""
    replaces = None
    if path.exists():
        try:
            earlier = load_table(path)
            replaces = earlier.table_id
            table = tables.with_code_of(table, earlier) if keep_code else table
        except TableError as error:
            aside = path.with_name(f"{path.name}.damaged")
            path.rename(aside)
            log.warning("%s is made anew; what was there is now %s: %s", path, aside, error)
    dump_table(table, path, replaces=replaces)


def _write_page(outputs: Outputs, folded: journals.Folded, tasks: Sequence[TuningTask], won: Winners) -> None:
    """Write the HTML report. A failure to draw charts costs no table: the plotting library may be absent."""
    try:
        page = html_report.render(folded, tasks, won)
    except ModuleNotFoundError as error:
        log.warning(
            "%s was not written: %s. report.md says the same without charts; `pip install plotly`, then "
            "`tileflow sweep export` writes the page",
            outputs.page,
            error,
        )
        return
    write_atomically(outputs.page, page.encode("utf-8", "backslashreplace"))


def report_log(outputs: Outputs, tasks: Sequence[TuningTask]) -> str:
    """Write to the report what MLflow lacks, now that it is known. Returns why that could not be written."""
    logged = states.read(outputs.folder)
    if logged is None or not logged.lines():
        return ""
    try:
        with writing(outputs.folder):
            folded = journals.fold(journals.read(outputs.journal))
            _write_report(outputs, folded, tasks, tables.winners(folded, tasks), logged)
    except OutputError as error:
        log.error("%s", error)
        return str(error)
    return ""


def _write_report(
    outputs: Outputs,
    folded: journals.Folded,
    tasks: Sequence[TuningTask],
    won: Winners,
    logged: states.LogState | None,
) -> None:
    text = report.render(folded, tasks, won, logged)
    write_atomically(outputs.report, text.encode("utf-8", "backslashreplace"))


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn the system's errors of writing to ``folder`` into OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            "a sweep's folder must take its files",
            got=error.strerror or error,
            where=str(error.filename or folder),
            hint="make room, make it writable, or name another; `tileflow sweep export` writes tables and report from "
            "the journal",
        ) from error


def require_writable(folder: Path) -> None:
    """Raise SpecError or OutputError before minutes are spent on outputs that cannot be kept."""
    require_folder(folder, "--out")
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    with writing(folder), tempfile.TemporaryFile(dir=there):
        pass
