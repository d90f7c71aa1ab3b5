"""Writing bundles: every change makes a new snapshot beside the old ones and switches to it in one step.

A server that loaded an older snapshot keeps it, and so does a rollback: snapshots go when :func:`prune` is asked to
remove them, never before. A writer that dies between two steps leaves the current snapshot as it was.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType

from ..errors import TableError
from ..lazy_dataclass import dataclass
from .abi import Binary
from .arguments import all_of, require
from .bundle import (
    MANIFEST,
    SNAPSHOTS,
    Bundle,
    binary_format,
    digest_of,
    history_of,
    load_bundle,
    variants_of,
)
from .files import as_path, lock, names_in, require_folder, say_without_locks, write_atomically
from .merging import merge
from .table import Fallback, Table, domain_of, validate
from .table_files import table_file_name, table_text

_LOCK = ".lock"
_DIGEST = re.compile("[0-9a-f]{64}")
_LEFT = re.compile(r"\.[0-9a-f]{64}\.(new|old)")
_TABLES = ("tables (Table)", "load_table(path) reads one; of load_tables(path) they are the first of two")
_log = logging.getLogger("tileflow.runtime")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One content of a bundle. ``path``: a bundle by itself, wherever it is copied."""

    digest: str
    path: Path
    is_current: bool


def write_bundle(
    tables: Iterable[Table],
    binaries: Iterable[Binary],
    directory: str | os.PathLike[str],
    *,
    keep: int | None = None,
) -> Bundle:
    """Make a snapshot of ``tables`` and those of ``binaries`` that they name, and switch ``directory`` to it.

    ``keep``: how many snapshots to leave, this one among them; all of them where not given. Raises TableError where a
    binary is missing, two tables are of one kernel, or the directory holds something else.
    """
    tables = all_of(tables, Table, *_TABLES)
    root = as_path(directory, "a bundle")
    code = _code(binaries)
    _check_content(tables, code)
    with _writing(root, keep, is_new=True):
        return _publish(root, tables, code, keep)


def require_place(directory: str | os.PathLike[str], keep: int | None = None) -> None:
    """Raise TableError where :func:`write_bundle` would, whatever the tables, and SpecError where it could not write:
    for those who first build them."""
    root = as_path(directory, "a bundle")
    _require_keep(keep)
    _require_place(root, is_new=True)


def list_snapshots(directory: str | os.PathLike[str]) -> tuple[Snapshot, ...]:
    """The snapshots in ``directory``: the current one, the ones before it, then those that it was never switched to."""
    root = as_path(directory, "a bundle")
    history = history_of(root)
    if not history:
        return (Snapshot(load_bundle(root, "lazy").digest, root, True),)
    names = names_in(root / SNAPSHOTS, "a bundle's folder of snapshots")
    there = {name: root / SNAPSHOTS / name for name in names if _DIGEST.fullmatch(name)}
    order = dict.fromkeys((*(d for d in history if d in there), *there))
    return tuple(Snapshot(digest, there[digest], digest == history[0]) for digest in order)


def switch(directory: str | os.PathLike[str], digest: str | None = None) -> Bundle:
    """Make another snapshot the current one: the one whose digest begins with ``digest``, by default the previous one.
    Raises TableError where there is none, or it is damaged."""
    root = as_path(directory, "a bundle")
    require(digest, (str, NoneType), "the beginning of a snapshot's digest", "list_snapshots(directory) has them")
    with _writing(root):
        known = list_snapshots(root)
        if digest is None:
            found = [s for s in known if not s.is_current and s.digest in history_of(root)][:1]
        else:
            found = [s for s in known if digest and s.digest.startswith(digest)]
        if len(found) != 1:
            raise TableError(
                "a bundle must hold exactly one such snapshot to switch to",
                where=str(root),
                got=f"{len(found)} for {'the one before' if digest is None else repr(digest)}",
                hint=f"it has {', '.join(s.digest[:12] for s in known)}",
            )
        (snapshot,) = found
        held = load_bundle(snapshot.path)
        if held.digest != snapshot.digest:
            raise TableError(
                "a snapshot must have the digest that is its name", got=held.digest, where=str(snapshot.path)
            )
        if not snapshot.is_current:
            _point(root, snapshot.digest)
    return load_bundle(root)


def replace(
    directory: str | os.PathLike[str],
    tables: Iterable[Table],
    binaries: Iterable[Binary] = (),
    *,
    keep: int | None = None,
) -> Bundle:
    """A new snapshot in which ``tables`` stand for those of their kernels, and other kernels' tables stay.

    Binaries that the current snapshot holds need not be given. Raises TableError as :func:`write_bundle`."""
    given = {t.kernel.ref: t for t in all_of(tables, Table, *_TABLES)}
    code = _code(binaries)
    return _change(as_path(directory, "a bundle"), lambda old: {t.kernel.ref: t for t in old} | given, code, keep)


def take_over(
    directory: str | os.PathLike[str],
    other: str | os.PathLike[str],
    *,
    is_merged: bool = False,
    keep: int | None = None,
) -> Bundle:
    """Replace all rows by those of the bundle ``other``, as :func:`replace` does; ``is_merged``: with both bundles'
    rows (:func:`merge`)."""
    theirs = load_bundle(other)

    def change(old: tuple[Table, ...]) -> dict[str, Table]:
        tables = {t.kernel.ref: t for t in old}
        for table in theirs.tables:
            mine = tables.get(table.kernel.ref) if is_merged else None
            tables[table.kernel.ref] = table if mine is None else merge(mine, table)
        return tables

    return _change(as_path(directory, "a bundle"), change, theirs.code, keep)


def withdraw(
    directory: str | os.PathLike[str],
    kernel: str,
    device: str | None = None,
    problem: str | None = None,
    *,
    keep: int | None = None,
) -> Bundle:
    """Make a snapshot without rows that turned out to be bad. They are all rows of ``kernel`` (``module:qualname``), or
    those of the device class ``device``, of the key ``problem`` (``Problem.key``), or of both.

    A whole kernel, or device class, goes with its defaults. With a key also the portfolio's rows that are at home there
    go, as they are the same config; generic defaults stay. Raises TableError where there is no such row.
    """

    def change(old: tuple[Table, ...]) -> dict[str, Table]:
        tables = {t.kernel.ref: t for t in old}
        table = tables.pop(kernel, None)
        if table is None:
            raise TableError(
                "a bundle must have the kernel that is withdrawn",
                got=kernel,
                where=str(directory),
                hint=f"it has {', '.join(t.kernel.ref for t in old)}",
            )
        if device is None and problem is None:
            return tables
        return tables | {kernel: _without(table, device, problem)}

    return _change(as_path(directory, "a bundle"), change, {}, keep)


def prune(directory: str | os.PathLike[str], keep: int) -> tuple[str, ...]:
    """Remove all snapshots but the ``keep`` that were current last; returns the digests of the removed ones.

    A server that loaded one of those lazily can read no more of it. Raises TableError for ``keep`` below 1.
    """
    root = as_path(directory, "a bundle")
    with _writing(root, keep):
        return _prune(root, keep)


def _code(binaries: Iterable[Binary]) -> dict[str, bytes]:
    given = all_of(binaries, Binary, "binaries (Binary)", "compiling makes them, Bundle.binary(...) reads them")
    return {b.sha256: b.code for b in given}


# ---- rows ---------------------------------------------------------------------------------------------------------


def _without(table: Table, device: str | None, problem: str | None) -> Table:
    """``table`` without the rows of ``device`` (None: any) for ``problem`` (None: any)."""

    def goes(row_device: str | None, key: str) -> bool:
        return device in (None, row_device) and problem in (None, key)

    entries = tuple(e for e in table.entries if not goes(e.device, e.problem.key))
    portfolio = tuple(r for r in table.portfolio if not _portfolio_goes(table, r, device, problem))
    gone = {name for name in table.devices if name == device and problem is None}
    defaults = {name: rows for name, rows in table.defaults.items() if name not in gone}
    if (entries, portfolio, defaults) == (table.entries, table.portfolio, dict(table.defaults)):
        rows = [e for e in table.entries if device in (None, e.device)] or table.entries
        keys = dict.fromkeys(f"{e.device} {e.problem.key}" for e in rows)
        raise TableError(
            "a bundle must have the row that is withdrawn",
            where=table.kernel.ref,
            got=f"none of {device or 'any device'} for {problem or 'any problem'}",
            hint=f"it has {'; '.join(keys) or 'no such rows'}",
        )
    unseen = {name: served for name, served in table.unseen.items() if name not in gone}
    return dataclasses.replace(
        table,
        entries=entries,
        portfolio=portfolio,
        defaults=defaults,
        unseen=unseen,
        domain=domain_of(entries),
        parent_table_id=table.table_id,
    )


def _portfolio_goes(table: Table, row: Fallback, device: str | None, problem: str | None) -> bool:
    """A portfolio's row is of an architecture: it goes with a device class that its machine code was built for, or that
    is the only one of that architecture in the table."""
    if problem is not None and (row.problem is None or row.problem.key != problem):
        return False
    if device is None:
        return True
    built_for = {v.target for launch in row.launches for v in launch.variants}
    return device in (built_for or {name for name, d in table.devices.items() if d.arch == row.arch})


# ---- steps --------------------------------------------------------------------------------------------------------


def _change(
    root: Path,
    change: Callable[[tuple[Table, ...]], dict[str, Table]],
    code: Mapping[str, bytes],
    keep: int | None,
) -> Bundle:
    with _writing(root, keep):
        old = load_bundle(root)
        tables = tuple(change(old.tables).values())
        everything = {**old.code, **code}
        _check_content(tables, everything)
        return _publish(root, tables, everything, keep)


def _publish(root: Path, tables: tuple[Table, ...], code: Mapping[str, bytes], keep: int | None) -> Bundle:
    """The steps in their order: what an older version wrote is kept, the snapshot written, the bundle switched."""
    _adopt(root)
    digest = _write_snapshot(root, tables, code)
    _point(root, digest)
    if keep is not None:
        _prune(root, keep)
    return load_bundle(root)


def _check_content(tables: tuple[Table, ...], code: Mapping[str, bytes]) -> None:
    if len({_file_name(t) for t in tables}) != len(tables):
        raise TableError(
            "a bundle must have one table a kernel",
            got=sorted(t.kernel.ref for t in tables),
            hint="merge(...) tables of one kernel first",
        )
    for table in tables:
        validate(table)
    wanted = {v.sha256 for v in variants_of(tables) if v.sha256 is not None}
    if missing := sorted(wanted - code.keys()):
        raise TableError("every binary that a table names must be given", got=f"none for {', '.join(missing)[:200]}")


def _file_name(table: Table) -> str:
    return table_file_name(table.kernel.ref)


def _write_snapshot(root: Path, tables: Iterable[Table], code: Mapping[str, bytes]) -> str:
    """Write the snapshot under another name, then rename it; one that is there already, and whole, stays."""
    tables = tuple(tables)
    digest = digest_of(tables)
    folder = root / SNAPSHOTS / digest
    if folder.exists() and _is_whole(folder, digest):
        return digest
    for left in folder.parent.glob(".*.*"):  # by a writer that died
        if _LEFT.fullmatch(left.name):  # and not what a desktop or a network's file system puts into folders
            shutil.rmtree(left)
    fresh, damaged = folder.with_name(f".{digest}.new"), folder.with_name(f".{digest}.old")
    for part in ("tables", "binaries"):
        (fresh / part).mkdir(parents=True)
    formats = {v.sha256: binary_format(v) for v in variants_of(tables) if v.sha256 is not None}
    for sha256, format_ in formats.items():
        write_atomically(fresh / "binaries" / f"{sha256}.{format_}", code[sha256])
    for table in tables:
        write_atomically(fresh / "tables" / _file_name(table), table_text(table).encode())
    manifest = {"schema_version": 1, "tables": {_file_name(t): t.table_id for t in tables}}
    _write_manifest(fresh, manifest)
    if not folder.exists():
        fresh.rename(folder)
    else:
        folder.rename(damaged)
        fresh.rename(folder)
        shutil.rmtree(damaged)
    _sync(folder.parent)
    return digest


def _is_whole(folder: Path, digest: str) -> bool:
    try:
        return load_bundle(folder).digest == digest
    except TableError as error:
        _log.warning("a damaged snapshot is written again: %s", error)
        return False


def _adopt(root: Path) -> None:
    """Make a snapshot of what an older version wrote into ``root`` itself, so that there is a way back. The files stay
    where they are, for servers that loaded them."""
    if not (root / MANIFEST).exists() or history_of(root):
        return
    try:
        old = load_bundle(root)
    except TableError as error:
        _log.warning("the bundle that is replaced is damaged, and not kept: %s", error)
        return
    _point(root, _write_snapshot(root, old.tables, old.code))


def _point(root: Path, digest: str) -> None:
    """Switch: the one step that readers see."""
    before = history_of(root) if (root / MANIFEST).exists() else ()
    history = [digest, *(d for d in before if d != digest and (root / SNAPSHOTS / d).is_dir())]
    _write_manifest(root, {"schema_version": 2, "snapshots": history})


def _write_manifest(folder: Path, data: object) -> None:
    write_atomically(folder / MANIFEST, (json.dumps(data, sort_keys=True, indent=1) + "\n").encode())
    _sync(folder)


def _prune(root: Path, keep: int) -> tuple[str, ...]:
    _adopt(root)
    history = history_of(root)[:keep]
    if not history:
        raise TableError("a bundle must be whole to be pruned", got=str(root), hint="export it again")
    known = list_snapshots(root)
    gone = [s for s in known if s.digest not in history]
    _write_manifest(root, {"schema_version": 2, "snapshots": list(history)})  # first: nothing names what is gone
    for snapshot in gone:
        shutil.rmtree(snapshot.path)
    for part in ("tables", "binaries"):  # of the layout of older versions
        if (root / part).exists():
            shutil.rmtree(root / part)
    return tuple(s.digest for s in gone)


@contextmanager
def _writing(root: Path, keep: int | None = None, *, is_new: bool = False) -> Iterator[None]:
    """One writer at a time. Raises TableError, with nothing changed, where ``keep`` is below 1, or ``root`` neither a
    bundle nor, if ``is_new``, a place for one."""
    _require_keep(keep)
    _require_place(root, is_new)
    root.mkdir(parents=True, exist_ok=True)
    with open(root / _LOCK, "w") as held:
        if not lock(held.fileno()):
            say_without_locks(root / _LOCK)
        yield


def _require_keep(keep: int | None) -> None:
    if keep is not None and type(keep) is not int:
        raise TableError("a bundle must keep a whole number of snapshots", got=f"keep={keep!r}", hint="keep=3, say")
    if keep is not None and keep < 1:
        raise TableError("a bundle must keep its current snapshot", got=f"keep={keep}", hint="keep=1 leaves it alone")


def _require_place(root: Path, is_new: bool) -> None:
    """``is_new``: a place for a new bundle will do."""
    if root.parent.name == SNAPSHOTS and (root.parent.parent / MANIFEST).exists():
        raise TableError("a snapshot must not be changed", got=str(root), hint=f"name {root.parent.parent}")
    known = {_LOCK, SNAPSHOTS}  # what a first writer that died may have left
    if not is_new or (root / MANIFEST).exists():
        history_of(root)
    elif root.exists() and not (root.is_dir() and {p.name for p in root.iterdir()} <= known):
        raise TableError(
            "a bundle's directory must be new, empty or a bundle",
            got="other files" if root.is_dir() else "a file",
            where=str(root),
            hint="name another",
        )
    require_folder(root)


def _sync(folder: Path) -> None:
    """Renames in ``folder`` outlive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
