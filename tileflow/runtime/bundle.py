"""A bundle: a directory of tables and the binaries that their rows name, so that production compiles nothing.

A *snapshot* holds the content, and is never rewritten:

    bundle.json                    {"schema_version": 1, "tables": {file name: table_id}}
    tables/<kernel>.json           one table a kernel
    binaries/<sha256>.cubin|.hsaco machine code; how to launch it stands in the tables

A bundle's directory holds snapshots and says which is the current one (:mod:`.snapshots` writes it):

    bundle.json                    {"schema_version": 2, "snapshots": [digest, ...]}, the current one first
    snapshots/<digest>/            snapshots, each named by its digest

A snapshot alone, copied elsewhere, is a bundle too; the directories that older versions wrote are such. Data only:
nothing is executed, no path leads outside the directory, and every digest is checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from ..collector import paused
from ..errors import SpecError, TableError
from ..lazy_dataclass import dataclass
from ..target import vendor_of
from .abi import Binary
from .codec import parse_json
from .files import as_path, is_folder, names_in, read_inside, real_path
from .table import Entry, Fallback, Table, Variant
from .table_files import MAX_BYTES, load_table, parse_table

Check = Literal["all", "lazy"]

_TRIES = 16  # of reading a bundle that writers switch and prune meanwhile

SCHEMA_VERSION = 2
MANIFEST = "bundle.json"
_JOURNAL = "journal.jsonl"  # of a sweep, whose folder holds a bundle and is none
SNAPSHOTS = "snapshots"
_MAX_MANIFEST = 1 << 22
_MAX_BINARY = 1 << 28

_FORMATS = {"nvidia": "cubin", "amd": "hsaco"}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A loaded bundle. ``path``: the snapshot that it is, wherever links led when it was loaded; ``origin``: the
    directory that was given, as a whole path, whose current snapshot may be another by now. ``digest``: of all its
    tables and binaries, so that equal digests serve alike.

    ``code``: machine code by digest, where all was read and checked at load; else it is read when it is asked for.
    """

    path: Path
    tables: tuple[Table, ...]
    origin: Path
    digest: str
    code: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def binary(self, region: int, variant: Variant) -> Binary:
        """The binary of a row's variant. Raises TableError where it is missing or not what its name says."""
        if variant.sha256 is None:
            raise TableError("a variant must name its binary to be launched", got=variant.launch_abi.symbol)
        format_ = binary_format(variant)
        code = self.code.get(variant.sha256)
        if code is None:
            code = self._read(variant.sha256, format_)
        return Binary(
            region, variant.target, format_, code, variant.launch_abi, variant.guards, variant.resources, variant.mode
        )

    def _read(self, sha256: str, format_: str) -> bytes:
        name = f"{sha256}.{format_}"
        try:
            code = read_inside(self.path, "binaries", name, most=_MAX_BINARY)
        except OSError as error:
            raise TableError("a bundle must hold every binary that its tables name", got=str(error)) from error
        digest = hashlib.sha256(code).hexdigest()
        if digest != sha256:
            raise TableError(
                "a binary's content must have the digest that is its name",
                got=digest,
                where=name,
                hint="the file was changed or damaged; export the bundle again",
            )
        return code


@paused()
def load_bundle(directory: str | os.PathLike[str], check: Check = "all") -> Bundle:
    """The bundle in ``directory``: its current snapshot, or the snapshot that it is. Raises TableError.

    Tables' digests are checked. ``check="all"``: every binary's too, and the machine code is kept, so that the bundle
    needs the disk no more. ``"lazy"``: a binary is read and checked each time that it is asked for. A snapshot that a
    writer switches away from and prunes while it is read is no error: the one that took its place is read.
    """
    _require_check(check)
    origin = as_path(directory, "a bundle").absolute()  # the program may go to another folder
    tries = 0
    while True:
        tries += 1
        root = real_path(origin)  # the rest is read there, also where links lead elsewhere by then
        data = _content(root)  # once: a switch in the middle changes nothing
        try:
            return _read_bundle(origin, root, data, check)
        except TableError:
            if tries == _TRIES or not _has_moved_on(origin, root, data):
                raise


def _has_moved_on(origin: Path, root: Path, data: Any) -> bool:
    return real_path(origin) != root or _content(root) != data


def _read_bundle(origin: Path, root: Path, data: Any, check: Check) -> Bundle:
    """The bundle whose manifest is ``data``."""
    history = _history(root, data)
    path = snapshot_path(root, history[0]) if history else root
    manifest = _manifest(path, _content(path) if history else data)
    tables, ids = [], {}
    for name, table_id in sorted(manifest.items()):
        table = _table(path, name)
        if table.table_id != table_id:
            raise TableError(
                "a bundle's table must be the one that its manifest names",
                got=table.table_id[:12],
                where=name,
                hint="the bundle is damaged; export it again",
            )
        tables.append(table)
        ids[table.kernel.ref] = table_id
    digest = _digest(ids, tables)
    if history and digest != history[0]:
        raise TableError(
            "a snapshot must have the digest that is its name",
            got=digest,
            where=str(path),
            hint="the snapshot was changed or damaged; switch to another, or export it again",
        )
    bundle = Bundle(path, tuple(tables), origin, digest)
    if check == "lazy":
        return bundle
    wanted = {v.sha256: v for v in variants_of(tables) if v.sha256 is not None}
    return replace(bundle, code={sha256: bundle.binary(0, variant).code for sha256, variant in wanted.items()})


def _table(root: Path, name: str) -> Table:
    where = f"{root}/tables/{name}"
    try:
        text = read_inside(root, "tables", name, most=MAX_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(
            "a bundle must hold every table that its manifest names",
            got=str(error),
            where=where,
            hint="the bundle is damaged; export it again",
        ) from error
    return parse_table(text, where)


def _require_check(check: str) -> None:
    """Raise TableError for a word that no check is called by, also where a table alone has nothing to check."""
    if check not in get_args(Check):
        raise TableError(
            f"check must be one of {', '.join(get_args(Check))}", got=repr(check), hint="all reads each binary at once"
        )


@paused()
def load_tables(path: str | os.PathLike[str], check: Check = "all") -> tuple[tuple[Table, ...], Bundle | None]:
    """The tables in a table's file, a directory of tables or a bundle, and the bundle where it is one. Raises
    TableError."""
    where = as_path(path, "what is loaded")
    _require_check(check)
    if not os.path.isdir(where):
        return (load_table(where),), None
    names = names_in(where, "a directory of tables")
    if MANIFEST in names:
        bundle = load_bundle(where, check)
        return bundle.tables, bundle
    # hidden ones are other programs': a desktop writes ._NAME beside each file that it copies
    files = [where / name for name in names if name.endswith(".json") and not name.startswith(".")]
    if not files or _JOURNAL in names:
        raise TableError(
            "a directory of tables must hold *.json files or a bundle",
            got=f"a sweep's folder, {where}" if _JOURNAL in names else str(where),
            hint="a sweep's are in its folders tables and bundle",
        )
    return tuple(load_table(file) for file in files), None


def digest_of(tables: Iterable[Table]) -> str:
    """The digest of a bundle of ``tables``, 64 hex digits: over their ids and the digests of the binaries that they
    name, whatever the layout on disk."""
    tables = tuple(tables)
    return _digest({t.kernel.ref: t.table_id for t in tables}, tables)


def _digest(ids: Mapping[str, str], tables: Iterable[Table]) -> str:
    binaries = sorted({v.sha256 for v in variants_of(tables) if v.sha256 is not None})
    content = json.dumps({"tables": ids, "binaries": binaries}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def variants_of(tables: Iterable[Table]) -> Iterator[Variant]:
    """Every variant that a row of ``tables`` names."""
    for table in tables:
        rows: list[Entry | Fallback] = [*table.entries, *table.portfolio]
        rows += [row for defaults in table.defaults.values() for row in defaults]
        if table.default is not None:
            rows.append(table.default)
        for row in rows:
            for launch in row.launches:
                yield from launch.variants


def binary_format(variant: Variant) -> str:
    """``cubin`` or ``hsaco``. Raises TableError for what is no device class."""
    try:
        return _FORMATS[vendor_of(variant.target)]
    except SpecError as error:
        raise TableError("a variant's target must be a device class", got=repr(variant.target)) from error


# ---- manifests ----------------------------------------------------------------------------------------------------


def history_of(root: Path) -> tuple[str, ...]:
    """The snapshots that ``root`` has been switched to, the current one first; none where it is a snapshot itself."""
    return _history(root, _content(root))


def _history(root: Path, data: Any) -> tuple[str, ...]:
    match data:
        case {"schema_version": 2, "snapshots": [*digests], **rest} if (
            digests and not rest and all(isinstance(d, str) and re.fullmatch("[0-9a-f]{64}", d) for d in digests)
        ):
            return tuple(digests)
        case {"schema_version": 1}:
            return ()
    raise TableError(
        "a bundle's manifest must hold schema_version, and tables or snapshots",
        got=reprlib.repr(data),
        where=str(root / MANIFEST),
    )


def snapshot_path(root: Path, digest: str) -> Path:
    """The path of the snapshot ``digest`` in ``root``. Raises TableError where there is none."""
    path = root / SNAPSHOTS / digest
    if not path.resolve().is_relative_to(root.resolve()) or not is_folder(path, "a bundle's snapshot"):
        raise TableError("a bundle must hold the snapshot that it names", got=digest, where=str(root))
    return path


def _manifest(root: Path, data: Any) -> dict[str, str]:
    """A snapshot's tables: file name -> table_id."""
    match data:
        case {"schema_version": 1, "tables": dict() as tables, **rest} if not rest and all(
            isinstance(v, str) for v in tables.values()
        ):
            return tables
    raise TableError(
        "a snapshot's manifest must hold schema_version 1 and tables",
        got=reprlib.repr(data),
        where=str(root / MANIFEST),
    )


def _content(root: Path) -> Any:
    where = str(root / MANIFEST)
    try:
        data: Any = parse_json(read_inside(root, MANIFEST, most=_MAX_MANIFEST).decode("utf-8"))
    except (OSError, ValueError) as error:
        raise TableError(
            "a bundle must have a readable manifest", got=str(error)[:200], where=where, hint=_about_manifest(error)
        ) from error
    match data:
        case {"schema_version": int() as version} if version > SCHEMA_VERSION:
            raise TableError(
                f"a bundle's schema_version must be at most {SCHEMA_VERSION}",
                got=version,
                where=where,
                hint="upgrade tileflow to read a newer bundle",
            )
    return data


def _about_manifest(error: Exception) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "name a folder that `tileflow bundle build` wrote; a sweep's is its folder bundle"
        case PermissionError():
            return "let this user read it and the folders above"
    return "the bundle is damaged; export it again"
