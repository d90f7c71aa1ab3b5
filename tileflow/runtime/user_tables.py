"""The user's own folder of tables: where ``kernel.tune`` keeps its rows, and where the next process finds them.

The folder is ``$TILEFLOW_TABLES``, else ``$XDG_DATA_HOME/tileflow/tables``, else ``~/.local/share/tileflow/tables``;
an empty ``TILEFLOW_TABLES`` means none. A kernel of a script, a notebook or a closure has no lasting name, so that a
file is named by what its kernel means: ``softmax-<16 digits of the semantic hash>.json``.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path

from ..errors import SpecError, TableError
from .files import locked, names_in, require_here
from .merging import merge
from .table import KernelId, Table
from .table_files import dump_table, load_table, require_table

VARIABLE = "TILEFLOW_TABLES"

_DIGITS = 16
_VERSIONED = re.compile(rf"-[0-9a-f]{{{_DIGITS}}}")
_TRIES = 8  # of writing a file that other processes write too
_log = logging.getLogger("tileflow.runtime")
_reported: set[Path] = set()


def user_folder() -> Path | None:
    """The folder, be it there or not; None where the environment says that there is none, or names no home. Raises
    SpecError for the home of a user that there is not."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _whole(_expanded(given), VARIABLE) if given else None
    data = os.environ.get("XDG_DATA_HOME")
    home = os.environ.get("HOME")
    if not data and not home:
        return None
    return _whole(Path(data or f"{home}/.local/share"), "XDG_DATA_HOME" if data else "HOME") / "tileflow" / "tables"


def _whole(folder: Path, variable: str) -> Path:
    require_here(folder, variable)
    return folder.absolute()


def _expanded(given: str) -> Path:
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise SpecError(
            "a folder of tables must be of a user whose home is known",
            got=given,
            where=VARIABLE,
            hint="write the folder's whole path, or nothing for none",
        ) from error


def tables_of(semantic_hash: str, folder: Path) -> Iterator[Table]:
    """The tables of this version of a kernel, whatever it is called. A file that cannot be trusted is said once."""
    return (table for _, table in read(semantic_hash, folder))


def read(semantic_hash: str, folder: Path) -> Iterator[tuple[Path, Table]]:
    """The tables that :func:`tables_of` gives, each with its file."""
    try:
        names = _names(folder)
    except TableError as error:
        report(folder, error)
        return
    for path in (folder / name for name in fnmatch.filter(names, f"*-{semantic_hash[:_DIGITS]}*.json")):
        try:
            table = load_table(path)
        except TableError as error:
            report(path, error)
            continue
        if table.kernel.semantic_hash == semantic_hash:
            yield path, table


def _names(folder: Path) -> list[str]:
    """The names in the folder, of which there may be none yet. Raises TableError for what is no such folder: another
    file, and a folder of tables that are all named otherwise, as a sweep's are."""
    if not os.path.isdir(folder):
        if os.path.lexists(folder):
            raise TableError(
                "your folder of tables must be a folder",
                got=str(folder),
                hint=f"name one by {VARIABLE}; tileflow.runtime.load(PATH) loads a table's file",
            )
        return []
    names = names_in(folder, "your folder of tables")
    tables = [name for name in names if name.endswith(".json") and not name.startswith(".")]
    if tables and not any(map(_VERSIONED.search, tables)):
        raise TableError(
            "tables in your folder are named by the version of their kernel, KERNEL-VERSION.json",
            got=", ".join(tables[:3]) + (f" and {len(tables) - 3} more" if len(tables) > 3 else ""),
            where=str(folder),
            hint="tileflow.runtime.load(PATH) loads a sweep's folder of tables, or its bundle, whatever their names",
        )
    return names


def report(path: Path, error: TableError) -> None:
    """Say once that a table of the folder, or all of it, is not used."""
    if path not in _reported:
        _reported.add(path)
        _log.warning("a table of your folder is not used: %s", error)


def keep(table: Table, folder: str | PathLike[str]) -> Path:
    """Write the rows of ``table`` into ``folder``, beside those that it has of this version of the kernel.

    Its defaults are left out: a call without a row gets its own default. What cannot be read stays as it is. Returns
    the file. Raises OSError, and TableError where others keep writing the file.
    """
    require_table(table)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    bare = replace(table, default=None, defaults={}, portfolio=(), unseen={})
    version = table.kernel.semantic_hash[:_DIGITS]
    with locked(place / version):  # many processes that tune one kernel may end at once
        return _keep(bare, place)


def _keep(bare: Table, place: Path) -> Path:
    """Write rows beside those of this version, while nobody else keeps some; other writers have no such lock."""
    for _ in range(_TRIES):
        path, old = _home(bare, place)
        new = bare if old is None else merge(old, _renamed(bare, old.kernel))
        try:
            dump_table(new, path, replaces=None if old is None else old.table_id)
        except TableError as error:
            refused = error  # another process has written it since: read it again
        else:
            return path
    raise refused


def _home(table: Table, folder: Path) -> tuple[Path, Table | None]:
    """The file for the rows of ``table``, and what it holds."""
    semantic_hash = table.kernel.semantic_hash
    for found in read(semantic_hash, folder):
        return found
    function = re.sub(r"\W", "-", table.kernel.name.rpartition(".")[2])
    path = folder / f"{function}-{semantic_hash[:_DIGITS]}.json"
    if path.exists():  # and is damaged
        path = folder / f"{function}-{semantic_hash[:_DIGITS]}-{table.table_id[:8]}.json"
    return path, None


def _renamed(table: Table, kernel: KernelId) -> Table:
    """``table`` as one of a kernel of the same version under another name."""
    rows = tuple(replace(e, problem=replace(e.problem, kernel=kernel.ref)) for e in table.entries)
    return replace(table, kernel=kernel, entries=rows)
