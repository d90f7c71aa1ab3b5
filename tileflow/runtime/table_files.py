"""A table as a file: its canonical text, read with suspicion and written in one step."""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path as FilePath
from typing import Any

from ..errors import TableError
from .arguments import require
from .codec import decode, parse_json
from .files import as_path, locked, read_file, real_path, write_atomically
from .table import FIELDS_SINCE, ROW_FIELDS_SINCE, SCHEMA_VERSION, Table, body, validate, validate_relations

_CONFLICT = ("<<<<<<< ", ">>>>>>> ")  # begin lines that git puts around two versions
MAX_BYTES = 1 << 26  # of a table's file


def table_text(table: Table) -> str:
    """The file's content: sorted keys, one value a line, so that a change is a small diff."""
    require_table(table)
    return json.dumps(body(table) | {"table_id": table.table_id}, sort_keys=True, indent=1, allow_nan=False) + "\n"


def parse_table(text: str, where: str = "table") -> Table:
    """The inverse of :func:`table_text`. Raises TableError for anything damaged, tampered with or too new."""
    require(text, str, "a table's text", "load_table(path) reads a file")
    try:
        data = parse_json(text)
    except ValueError as error:
        raise TableError(
            "a table must be complete JSON",
            got=str(error)[:200],
            where=where,
            hint=_how_to_mend(text),
        ) from error
    if not isinstance(data, dict):
        raise TableError("a table must be a JSON object", got=type(data).__name__, where=where)
    version = data.get("schema_version")
    if type(version) is not int or version < 1 or version > SCHEMA_VERSION:
        raise TableError(
            f"schema_version must be 1 to {SCHEMA_VERSION}",
            got=reprlib.repr(version),
            where=where,
            hint="upgrade tileflow to read a newer table" if type(version) is int else "is this a table?",
        )
    if late := _late_fields(data, version):
        raise TableError(
            f"a table of schema {version} must have only its fields",
            got=", ".join(late),
            where=where,
            hint="the file was edited or damaged; export it again",
        )
    claimed = data.pop("table_id", None)
    try:
        table = decode(Table, data)
        validate_relations(table)
    except TableError as error:
        place = where if error.where is None else f"{where}: {error.where}"
        raise TableError(error.constraint, got=error.got, where=place, hint=error.hint) from error
    if claimed != table.table_id:
        raise TableError(
            "table_id must be the digest of the table's content",
            got=reprlib.repr(claimed),
            where=where,
            hint="the file was edited, merged line by line or damaged: export it again, or `tileflow table merge` the "
            "versions that it was made of",
        )
    return table


def _how_to_mend(text: str) -> str:
    """What to do about a file that is no JSON."""
    if text.startswith("\ufeff"):
        return "an editor put a byte order mark before it: save it as UTF-8 without one"
    if any(line.startswith(_CONFLICT) for line in text.splitlines()):
        return (
            "git has left a conflict in it: `git show :2:FILE > ours.json`, `git show :3:FILE > theirs.json`, then "
            "`tileflow table merge ours.json theirs.json --out FOLDER` keeps the better row of each call"
        )
    return "the file is truncated, edited or damaged; export it again"


def require_table(table: object) -> None:
    """Raises SpecError for what is no table."""
    require(table, Table, "a Table", "load_table(path) reads one")


def load_table(path: str | os.PathLike[str]) -> Table:
    """The table in the file ``path``. Raises TableError."""
    path = as_path(path, "a table")
    try:
        text = read_file(path, MAX_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(
            "a table must be a readable text file",
            got=str(error),
            where=str(path),
            hint="name a table's file, a folder of tables (a sweep's is its folder tables) or a bundle",
        ) from error
    return parse_table(text, str(path))


def dump_table(table: Table, path: str | os.PathLike[str], *, replaces: str | None = None) -> None:
    """Write ``table`` to ``path`` in one step, or not at all.

    ``replaces``: the ``table_id`` that the writer has read there (None: no file yet). Raises TableError where the file
    holds another table by now: two sweeps write one table, and the later must merge with what the earlier wrote.
    """
    dump_tables({as_path(path, "a table"): (table, replaces)})


def dump_tables(tables: Mapping[FilePath, tuple[Table, str | None]]) -> None:
    """Write each table to its file as :func:`dump_table` does; none of them where it would refuse one. A table comes
    with what it replaces. A link stays, and the file that it leads to is written."""
    for table, _ in tables.values():
        require_table(table)
        validate(table)
    given, tables = tables, {real_path(path): written for path, written in tables.items()}
    if len(tables) < len(given):
        raise TableError("each table must have a file of its own", got=", ".join(map(str, given))[:200])
    with ExitStack() as held:
        for path in sorted(tables):  # in one order: no two writers wait for each other
            held.enter_context(locked(path))
        for path, (table, replaces) in tables.items():
            _require_unchanged(path, table, replaces)
        for path, (table, _) in tables.items():
            write_atomically(path, table_text(table).encode())


def _require_unchanged(path: FilePath, table: Table, replaces: str | None) -> None:
    current = load_table(path).table_id if path.exists() else None
    if current not in (replaces, table.table_id):
        raise TableError(
            "the file must still hold the table that was read",
            where=str(path),
            got=f"{_short(current)}, expected {_short(replaces)}",
            hint="load it, merge(...) with it, and write again",
        )


def table_file_name(ref: str) -> str:
    """The file name of the table of the kernel ``ref``; two kernels of identifiers have two. What no identifier holds
    becomes ``-``, so that no name leaves its folder."""
    return "".join(c if c == "." or f"a{c}".isidentifier() else "-" for c in ref) + ".json"


def _short(table_id: str | None) -> str:
    return "no table" if table_id is None else table_id[:12]


def _late_fields(data: Mapping[str, Any], version: int) -> list[str]:
    """The fields that a table of schema ``version`` cannot have, of what may be anything."""
    rows = data.get("entries")
    named = {name for row in rows if isinstance(row, Mapping) for name in row} if isinstance(rows, list) else set()
    late = {name for name, since in FIELDS_SINCE.items() if since > version and name in data}
    return sorted(late | {name for name, since in ROW_FIELDS_SINCE.items() if since > version and name in named})
