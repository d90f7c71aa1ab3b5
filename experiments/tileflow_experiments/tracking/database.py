"""MLflow's database, written in bulk: sqlite and PostgreSQL. The one file that depends on MLflow's internals.

Its store makes the tables and the studies' runs; its models name tables, columns and keys. A trial's row is a copy of
its study's, so a version that adds columns is served. What is written is read back by MLflow's own client.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from tileflow.runtime.files import lock, say_without_locks

from .client import ACTIVE, attempt_of, filled, find_experiment, first_line
from .runs import ATTEMPT, DEVICE, KERNEL, PROBLEM, SWEEP, TRIAL, MlflowRun, identity_in
from .store import PARENT, KnownRuns, MlflowUnusable, Refused, RunUpdate, deleted_experiment, masked
from .uri import MEMORY

log = logging.getLogger(__name__)

SQLITE, POSTGRESQL = "sqlite", "postgresql"
RUN_NAME = "mlflow.runName"
BUSY_MS = 20_000  # how long sqlite waits for another writer
CACHE_KB = 1 << 16  # of sqlite, which reads its indices again and again where it has but 2 MB
ROWS = 50  # of one statement of sqlite's: 14 columns of each are below its oldest limit, 999 values
_SQLITE_MAGIC = b"SQLite format 3\0"
# Of a run that is there: one that somebody deleted comes back, since the journal still has it.
_CHANGING = ("name", "status", "start_time", "end_time", "lifecycle_stage", "deleted_time")
_Item = tuple[str, Mapping[str, Any], MlflowRun]  # a run's id, the row of its study's run, what it says
Rows = dict[tuple[Any, ...], tuple[Any, ...]]  # by primary key, since a statement may touch a row once


def serves(uri: str) -> bool:
    """Whether this module writes to ``uri``. With MLflow's workspaces its own client must choose the rows."""
    workspaces = os.environ.get("MLFLOW_ENABLE_WORKSPACES", "").lower() in ("1", "true")
    return uri.partition(":")[0].partition("+")[0] in (SQLITE, POSTGRESQL) and not workspaces


class DatabaseStore:
    """A store that writes rows. ``artifacts``: where a new experiment keeps its artifacts."""

    changes_params = True
    at_once = 0

    def __init__(self, uri: str, experiment: str, artifacts: Path | None) -> None:
        from mlflow.tracking import MlflowClient

        self._uri, self._experiment = uri, experiment
        self._engine: Any = _open(uri, artifacts).engine
        self._client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)
        self.experiment_id = find_experiment(self._client, uri, experiment, artifacts)
        self._rows = _Statements(self._engine)
        self._parents: dict[str, Mapping[str, Any]] = {}
        self._sweep_id = ""

    def known(self, sweep_id: str) -> KnownRuns:
        """Return the runs of a sweep, found by their tags."""
        self._sweep_id = sweep_id
        known = KnownRuns()
        for run_id, tags in self._tags(sweep_id).items():
            if TRIAL in tags:
                known.trials[tags[TRIAL]] = (run_id, attempt_of(tags))
                known.parents[run_id] = tags.get(PARENT, "")
            else:
                known.studies[identity_in(tags)] = run_id
        return known.without_strays()

    def _tags(self, sweep_id: str) -> dict[str, dict[str, str]]:
        """Return, by run, the tags that identify it."""
        import sqlalchemy as sa

        runs, tags = self._rows.table("runs"), self._rows.table("tags")
        mine = tags.alias("mine")
        asked = (
            sa.select(tags.c.run_uuid, tags.c.key, tags.c.value)
            .join(mine, mine.c.run_uuid == tags.c.run_uuid)
            .join(runs, runs.c.run_uuid == tags.c.run_uuid)
            .where(mine.c.key == SWEEP, mine.c.value == sweep_id, runs.c.lifecycle_stage == "active")
            .where(runs.c.experiment_id == int(self.experiment_id))
            .where(tags.c.key.in_((TRIAL, ATTEMPT, KERNEL, PROBLEM, DEVICE, PARENT)))
        )
        found: dict[str, dict[str, str]] = {}
        with self._engine.connect() as connection:
            for run_id, key, value in connection.execute(asked):
                found.setdefault(run_id, {})[key] = value
        return found

    def write_study(self, run_id: str, run: MlflowRun) -> str | Refused:
        """Write a study's run, made by MLflow's client where it is new. Returns its id, or Refused."""
        if not run_id:
            made = self._client.create_run(self.experiment_id, run.started_ms, filled(run.tags), run.name)
            run_id = str(made.info.run_id)
        return self._write([(run_id, self._parent(run_id), run)])[0]

    def write_trials(self, entries: Sequence[RunUpdate]) -> list[str | Refused]:
        """Write trials' runs in one transaction, split where the database refuses some. Returns ids, or Refused."""
        found = []
        for entry in entries:
            run_id = entry.run_id or self._new_id(entry)
            tags = dict(entry.run.tags) if entry.run_id else filled(entry.run.tags)
            tags |= {PARENT: entry.parent_id}
            found.append((run_id, self._parent(entry.parent_id), replace(entry.run, tags=tags)))
        return self._write(found)

    def _new_id(self, entry: RunUpdate) -> str:
        """Return a stable id for the update. A study's ids follow each other, so that a transaction's rows lie
        together."""
        study = hashlib.sha256(f"{self._sweep_id} {entry.parent_id}".encode()).hexdigest()
        trial = hashlib.sha256(entry.trial_id.encode()).hexdigest()
        return f"{study[:12]}{entry.number % 2**32:08x}{trial[:12]}"

    def _parent(self, run_id: str) -> Mapping[str, Any]:
        """Return the row of a study's run, as MLflow made it."""
        if run_id not in self._parents:
            runs = self._rows.table("runs")
            with self._engine.connect() as connection:
                row = connection.execute(runs.select().where(runs.c.run_uuid == run_id)).mappings().one()
            self._parents[run_id] = dict(row)
        return self._parents[run_id]

    def _write(self, items: Sequence[_Item]) -> list[str | Refused]:
        """Write all in one transaction; where the database refuses one, halve them until it stands alone."""
        from sqlalchemy import exc

        try:
            with self._engine.begin() as connection:
                if self._engine.dialect.name == SQLITE:
                    connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_MS}")
                    connection.exec_driver_sql(f"PRAGMA cache_size = -{CACHE_KB}")
                self._require_there(connection)
                self._rows.write(connection, items)
        except (exc.DataError, exc.IntegrityError, exc.StatementError, ValueError, OverflowError, TypeError) as error:
            if isinstance(error, exc.OperationalError | exc.InterfaceError | exc.InternalError | exc.ProgrammingError):
                raise
            if len(items) == 1:
                return [Refused(first_line(error))]
            half = len(items) // 2
            return self._write(items[:half]) + self._write(items[half:])
        return [run_id for run_id, *_ in items]

    def _require_there(self, connection: Any) -> None:
        """Raise MlflowUnusable where somebody has deleted the experiment: it takes all runs, and shows none."""
        experiments = self._rows.table("experiments")
        mine = experiments.select().where(experiments.c.experiment_id == int(self.experiment_id))
        found = connection.execute(mine).mappings().one_or_none()
        if found is None or found["lifecycle_stage"] != ACTIVE:
            raise deleted_experiment(self._uri, self._experiment, self.experiment_id)

    def keep(self, run_id: str, folder: Path) -> None:
        """Store the files in ``folder`` as the run's artifacts."""
        self._client.log_artifacts(run_id, str(folder))


class _Statements:
    """Upserts for MLflow's tables, by the columns and keys of its models."""

    def __init__(self, engine: Any) -> None:
        from mlflow.store.db.base_sql_model import Base

        self._dialect = engine.dialect
        self._tables = Base.metadata.tables
        self._texts: dict[tuple[str, tuple[str, ...], int], str] = {}

    def table(self, name: str) -> Any:
        return self._tables[name]

    def write(self, connection: Any, items: Iterable[_Item]) -> None:
        rows: dict[str, Rows] = {name: {} for name in ("runs", "tags", "params", "metrics", "latest_metrics")}
        columns: tuple[str, ...] = ()
        for run_id, parent, run in sorted(items, key=itemgetter(0)):
            row = _row(run_id, parent, run)
            columns = tuple(row)
            rows["runs"][(run_id,)] = tuple(row.values())
            for key, text in ({RUN_NAME: run.name} | dict(run.tags)).items():
                rows["tags"][key, run_id] = (key, text, run_id)
            for key, text in run.params.items():
                rows["params"][key, run_id] = (key, text, run_id)
            for key, value, at_ms, step in run.metrics:
                point = (key, value, at_ms, step, False, run_id)
                rows["metrics"][point] = point
                known = rows["latest_metrics"].get((key, run_id))
                if known is None or (step, at_ms) >= (known[3], known[2]):
                    rows["latest_metrics"][key, run_id] = point
        self._insert(connection, "runs", columns, rows["runs"], *_CHANGING)
        self._insert(connection, "tags", ("key", "value", "run_uuid"), rows["tags"], "value")
        self._insert(connection, "params", ("key", "value", "run_uuid"), rows["params"], "value")
        point_columns = ("key", "value", "timestamp", "step", "is_nan", "run_uuid")
        self._insert(connection, "metrics", point_columns, rows["metrics"])
        self._insert(connection, "latest_metrics", point_columns, rows["latest_metrics"], *point_columns[1:5])

    def _insert(self, connection: Any, name: str, columns: tuple[str, ...], rows: Rows, *changed: str) -> None:
        """Insert ``rows``; of those that exist, the ``changed`` columns get the new values."""
        if not rows:
            return
        if self._dialect.name != SQLITE:
            values = tuple(list(column) for column in zip(*rows.values(), strict=True))
            connection.exec_driver_sql(self._text(name, columns, changed, 0), values)
            return
        # Beside each other in the index, whose keys begin so: a run's rows are in their order already.
        ordered = sorted(rows.values(), key=itemgetter(0))
        whole = len(ordered) - len(ordered) % ROWS
        if whole:
            many = [tuple(chain.from_iterable(ordered[at : at + ROWS])) for at in range(0, whole, ROWS)]
            connection.exec_driver_sql(self._text(name, columns, changed, ROWS), many)
        if ordered[whole:]:
            connection.exec_driver_sql(self._text(name, columns, changed, 1), ordered[whole:])

    def _text(self, name: str, columns: tuple[str, ...], changed: Sequence[str], rows: int) -> str:
        """Return the statement for ``rows`` rows of sqlite's; PostgreSQL takes any number, as an array a column."""
        known = self._texts.get((name, columns, rows))
        if known is None:
            known = self._texts[name, columns, rows] = self._made_text(name, columns, changed, rows)
        return known

    def _made_text(self, name: str, columns: tuple[str, ...], changed: Sequence[str], rows: int) -> str:
        table, quote = self._tables[name], self._dialect.identifier_preparer.quote
        if self._dialect.name == SQLITE:
            row = f"({', '.join('?' for _ in columns)})"
            values = f"VALUES {', '.join([row] * rows)}"
        else:
            types = (table.c[column].type.compile(self._dialect) for column in columns)
            values = f"SELECT * FROM unnest({', '.join(f'CAST(%s AS {kind}[])' for kind in types)})"
        keys = ", ".join(quote(column.name) for column in table.primary_key.columns)
        then = "NOTHING"
        if changed:
            then = "UPDATE SET " + ", ".join(f"{quote(c)} = excluded.{quote(c)}" for c in changed)
        if name == "latest_metrics":
            then += " WHERE excluded.step >= latest_metrics.step"
        listed = ", ".join(quote(column) for column in columns)
        return f"INSERT INTO {quote(name)} ({listed}) {values} ON CONFLICT ({keys}) DO {then}"


def _row(run_id: str, parent: Mapping[str, Any], run: MlflowRun) -> dict[str, Any]:
    """Return the row of ``runs``: the study's own, except for the trial's values."""
    return dict(parent) | {
        "run_uuid": run_id,
        "name": run.name,
        "status": run.status,
        "start_time": run.started_ms,
        "end_time": run.ended_ms,
        "artifact_uri": str(parent["artifact_uri"]).replace(str(parent["run_uuid"]), run_id),
    }


# ---- opening --------------------------------------------------------------------------------------------------------


def _open(uri: str, artifacts: Path | None) -> Any:
    """Return MLflow's own store.

    A new sqlite file is made beside its place and moved there whole, so that a kill leaves no half-made one. A
    half-made one that holds nothing is set aside. Raises MlflowUnusable for every other that is not whole.
    """
    path = _sqlite_path(uri)
    if path is not None and not _is_made(path, uri):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone_in_making(path):
            if not _is_made(path, uri):  # another sweep that logs there may have made it meanwhile
                _set_half_aside(path)
                _make(path, artifacts)
    return _whole(lambda: _store(uri, artifacts), uri)


def _set_half_aside(path: Path) -> None:
    if not path.exists() or not path.stat().st_size:
        return
    aside = path.with_name(f"{path.name}.half-made")
    log.warning("%s was never completed and holds nothing: it is %s now, and made anew", path, aside)
    for suffix in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))


def _make(path: Path, artifacts: Path | None) -> None:
    fresh = path.with_name(f"{path.name}.new")
    for suffix in ("", "-journal", "-wal", "-shm"):
        fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    store = _store(_uri_of(fresh), artifacts)
    store.engine.dispose()
    fresh.replace(path)


@contextlib.contextmanager
def _alone_in_making(path: Path) -> Iterator[None]:
    """Wait for whoever makes the store at ``path``: two that make one file take each other's tables away.

    The lock's file goes once the store is there, since nobody makes it again.
    """
    beside = path.with_name(f"{path.name}.lock")
    with beside.open("w") as held:
        if not lock(held.fileno()):
            say_without_locks(path)
        yield
        beside.unlink(missing_ok=True)


def _store(uri: str, artifacts: Path | None) -> Any:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    return SqlAlchemyStore(uri, artifacts.as_uri() if artifacts is not None else "./mlruns")


def _whole(make: Callable[[], Any], uri: str) -> Any:
    """Raise MlflowUnusable where the schema is not what this version of MLflow writes."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy import exc

    try:
        return make()
    except (MlflowException, exc.SQLAlchemyError) as error:
        text = str(error)
        schema = "schema" in text or "already exists" in text or "duplicate column" in text or "no such table" in text
        if not schema and not isinstance(error, exc.ProgrammingError):
            raise
        raise _unusable(uri, first_line(error)) from error


def _unusable(uri: str, got: str) -> MlflowUnusable:
    return MlflowUnusable(
        "MLflow's store must have the schema of the MLflow that is installed",
        got=got,
        where=masked(uri),
        hint="take a copy, then `mlflow db upgrade URI`; or move it away, and `tileflow sweep log OUT` writes another",
    )


def _sqlite_path(uri: str) -> Path | None:
    """Return the file of an sqlite URI, as SQLAlchemy reads it; None for another database, and for one in memory."""
    from sqlalchemy.engine import make_url

    name = make_url(uri).database if uri.startswith(SQLITE) else None
    return Path(name) if name and name != MEMORY else None


def _uri_of(path: Path) -> str:
    """Return the URI that SQLAlchemy reads as ``path``."""
    from sqlalchemy.engine import URL

    return URL.create(SQLITE, database=str(path)).render_as_string()


# What MLflow itself writes into its new tables: the experiment "Default", a workspace, the migration's version.
_OWN_ROWS = {"experiments": 1, "workspaces": 1, "alembic_version": 1}
_SHOWN_TABLES = 5


def _is_made(path: Path, uri: str) -> bool:
    """Whether a store is at ``path``; not where there is none, or one that holds nothing since a process died while it
    made the tables.

    Raises MlflowUnusable for every other file: one of another program, and a store of another MLflow.
    """
    if not path.exists() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        begun = file.read(len(_SQLITE_MAGIC))
    if begun != _SQLITE_MAGIC:
        raise _unusable(uri, "a file that is no sqlite database")
    from mlflow.store.db.base_sql_model import Base
    from mlflow.store.db.utils import _get_latest_schema_revision

    with _connected(path) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        tables -= {name for name in tables if name.startswith("sqlite_")}
        version = list(connection.execute("SELECT * FROM alembic_version")) if "alembic_version" in tables else []
        newest = _get_latest_schema_revision()
        if version == [(newest,)] and set(Base.metadata.tables) <= tables:
            return True
        ours = {*Base.metadata.tables, *_OWN_ROWS}
        others = {t for t in tables if t not in ours and not t.startswith(_ALEMBIC_COPY)}
        kept = {t for t in tables & ours if _more_rows(connection, t, _OWN_ROWS.get(t, 0))}
    if others and not tables & ours:
        raise MlflowUnusable(
            "MLflow's store must be a file of its own",
            got=f"another program's database, with {_some(others)}",
            where=masked(uri),
            hint="name another file: --mlflow sqlite:////data/mlflow.db",
        )
    if others or kept:
        schema = version[0][0] if version else "of no MLflow"
        raise _unusable(uri, f"the schema {schema} and content in {_some(others | kept)}")
    return False


def _some(tables: set[str]) -> str:
    return ", ".join(sorted(tables)[:_SHOWN_TABLES])


_ALEMBIC_COPY = "_alembic_tmp_"  # begins the name of a table that a migration was about to put in another's place


def _more_rows(connection: sqlite3.Connection, table: str, than: int) -> bool:
    return len(list(connection.execute(f'SELECT 1 FROM "{table}" LIMIT {than + 1}'))) > than


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, timeout=BUSY_MS / 1000)
    try:
        yield connection
    finally:
        connection.close()
