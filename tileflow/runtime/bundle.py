"""A bundle: a directory of tables and the binaries that their rows name, so that production compiles nothing.

    bundle.json                    {"schema_version": 1, "tables": {file name: table_id}}
    tables/<kernel>.json           one table a kernel
    binaries/<sha256>.cubin|.hsaco machine code; how to launch it stands in the tables

Data only: nothing is executed, no path leads outside the directory, and every digest is checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import SpecError, TableError
from ..target import vendor_of
from .abi import Binary
from .codec import parse_json
from .files import read_inside
from .table import MAX_BYTES, Entry, Fallback, Table, Variant, parse_table, table_text, write_atomically

SCHEMA_VERSION = 1
MANIFEST = "bundle.json"
_MAX_MANIFEST = 1 << 22
_MAX_BINARY = 1 << 28

_FORMATS = {"nvidia": "cubin", "amd": "hsaco"}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A loaded bundle. Machine code is read, and its digest checked, when it is asked for."""

    path: Path
    tables: tuple[Table, ...]

    def binary(self, region: int, variant: Variant) -> Binary:
        """The binary of a row's variant. Raises TableError where it is missing or not what its name says."""
        if variant.sha256 is None:
            raise TableError("a variant must name its binary to be launched", got=variant.launch_abi.symbol)
        format_ = _format(variant)
        name = f"{variant.sha256}.{format_}"
        try:
            code = read_inside(self.path, "binaries", name, most=_MAX_BINARY)
        except OSError as error:
            raise TableError("a bundle must hold every binary that its tables name", got=str(error)) from error
        digest = hashlib.sha256(code).hexdigest()
        if digest != variant.sha256:
            raise TableError("a binary's content must have the digest that is its name", got=digest, where=name,
                             hint="the file was changed or damaged; export the bundle again")  # fmt: skip
        return Binary(region, variant.target, format_, code, variant.launch_abi, variant.guards, variant.resources,
                      variant.mode)  # fmt: skip


def write_bundle(tables: Iterable[Table], binaries: Iterable[Binary], directory: str | os.PathLike[str]) -> Bundle:
    """Write ``tables`` and those of ``binaries`` that they name; what the directory held of an older bundle goes.

    The manifest comes last, so that a reader sees the old bundle or the new one. Raises TableError where a binary is
    missing, two tables are of one kernel, or the directory holds something else.
    """
    tables = tuple(tables)
    root = Path(directory)
    if root.exists() and any(root.iterdir()) and not (root / MANIFEST).exists():
        raise TableError("a bundle's directory must be new, empty or a bundle", got=str(root))
    files = {f"{re.sub('[^A-Za-z0-9_.]', '-', t.kernel.ref)}.json": t for t in tables}
    if len(files) != len(tables):
        raise TableError("a bundle must have one table a kernel", got=sorted(t.kernel.ref for t in tables),
                         hint="merge(...) tables of one kernel first")  # fmt: skip
    code = {b.sha256: b.code for b in binaries}
    wanted = {v.sha256: _format(v) for t in tables for v in _variants(t) if v.sha256 is not None}
    if missing := sorted(wanted.keys() - code.keys()):
        raise TableError("every binary that a table names must be given", got=f"none for {', '.join(missing)[:200]}")
    for folder in ("tables", "binaries"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for digest, format_ in wanted.items():
        write_atomically(root / "binaries" / f"{digest}.{format_}", code[digest])
    for name, table in files.items():
        write_atomically(root / "tables" / name, table_text(table).encode())
    manifest = {"schema_version": SCHEMA_VERSION, "tables": {name: t.table_id for name, t in files.items()}}
    write_atomically(root / MANIFEST, (json.dumps(manifest, sort_keys=True, indent=1) + "\n").encode())
    _prune(root / "tables", set(files))
    _prune(root / "binaries", {f"{digest}.{format_}" for digest, format_ in wanted.items()})
    return Bundle(root, tables)


def load_bundle(directory: str | os.PathLike[str]) -> Bundle:
    """The bundle in ``directory``, its tables' digests checked. Raises TableError."""
    root = Path(directory)
    manifest = _manifest(root)
    tables = []
    for name, table_id in sorted(manifest.items()):
        table = _table(root, name)
        if table.table_id != table_id:
            raise TableError("a bundle's table must be the one that its manifest names", got=table.table_id[:12],
                             where=name, hint="the bundle is damaged; export it again")  # fmt: skip
        tables.append(table)
    return Bundle(root, tuple(tables))


def _table(root: Path, name: str) -> Table:
    where = f"{root}/tables/{name}"
    try:
        text = read_inside(root, "tables", name, most=MAX_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TableError("a bundle must hold every table that its manifest names", got=str(error), where=where,
                         hint="the bundle is damaged; export it again") from error  # fmt: skip
    return parse_table(text, where)


def _manifest(root: Path) -> dict[str, str]:
    where = str(root / MANIFEST)
    try:
        data = parse_json(read_inside(root, MANIFEST, most=_MAX_MANIFEST).decode("utf-8"))
    except (OSError, ValueError) as error:
        raise TableError("a bundle must have a readable manifest", got=str(error)[:200], where=where) from error
    match data:
        case {"schema_version": int() as version} if version > SCHEMA_VERSION:
            raise TableError(f"a bundle's schema_version must be at most {SCHEMA_VERSION}", got=version, where=where,
                             hint="upgrade tileflow to read a newer bundle")  # fmt: skip
        case {"schema_version": 1, "tables": dict() as tables, **rest} if not rest and all(
            isinstance(v, str) for v in tables.values()
        ):
            return tables
    raise TableError("a bundle's manifest must hold schema_version and tables", got=reprlib.repr(data), where=where)


def _variants(table: Table) -> Iterator[Variant]:
    rows: list[Entry | Fallback] = [*table.entries, *table.portfolio]
    if table.default is not None:
        rows.append(table.default)
    for row in rows:
        for launch in row.launches:
            yield from launch.variants


def _format(variant: Variant) -> str:
    try:
        return _FORMATS[vendor_of(variant.target)]
    except SpecError as error:
        raise TableError("a variant's target must be a device class", got=repr(variant.target)) from error


def _prune(folder: Path, keep: set[str]) -> None:
    for file in folder.iterdir():
        if file.name not in keep:
            file.unlink()
