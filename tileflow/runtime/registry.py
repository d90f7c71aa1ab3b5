"""The tables that are loaded, what serves the calls that none of them does, and the rows that ran out of resources.

:mod:`.table_lookup` looks calls up in them. The tables of the user's own folder (:mod:`.user_tables`) are read when a
lookup asks for them first.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Collection
from os import PathLike
from pathlib import Path
from typing import get_args

from ..errors import CallError, TableError
from ..locks import Lock
from ..target import target
from . import observe, user_tables
from .arguments import require
from .binaries import MODULES
from .bundle import Check, load_tables
from .files import as_path, real_path
from .loaded_table import LoadedTable, OnMiss
from .miss_record import clear_misses
from .table import Entry, Fallback, Table
from .version_checks import check_validators

# a kernel, a device class, a step of the lookup, and the row: its table, its problem and its config
RowKey = tuple[str, str | None, str, str, str, str]

_lock = Lock()
_sources: dict[str, list[LoadedTable]] = {}  # by kernel, the last loaded first
_found: dict[tuple[Path, str], list[LoadedTable]] = {}  # of the user's folder, by it and the kernel's version
_rejected: dict[RowKey, str] = {}
_listeners: list[Callable[[], None]] = []
_policy: list[OnMiss] = ["default"]


def on_change(listener: Callable[[], None]) -> None:
    """Call ``listener`` whenever tables were loaded or forgotten: what was resolved before is out of date."""
    _listeners.append(listener)


def _changed() -> None:
    for listener in _listeners:
        listener()


def load(
    path: str | PathLike[str],
    as_device: str | None = None,
    strict: bool = False,
    on_miss: OnMiss | None = None,
    check: Check = "all",
) -> tuple[Table, ...]:
    """Register a table's file, a directory of tables or a bundle; later loads go first. Returns the tables.

    Of two rows for one call on one device the measured one serves, of two such the one that was loaded later (in a
    directory: of the file whose name comes later), whichever version of tileflow wrote it; where their configs differ
    that is logged.

    What is loaded takes the place of all that was loaded from this path before: after a bundle's switch to another
    snapshot, and after a table was written again, load it again. ``as_device``: look up as that device class would, on
    any machine. ``strict``: lookups raise in place of falling back. ``on_miss``: what serves a call that no row does
    (see :func:`set_on_miss`), for the kernels of these tables. ``check``: whether each binary's digest is checked now,
    or when it is launched first. Raises TableError for what cannot be trusted, SpecError for an unknown device class.
    """
    if as_device is not None:
        target(as_device)
    if on_miss is not None:
        _check_policy(on_miss)
    origin = os.path.abspath(as_path(path, "what is loaded"))  # the program may go to another folder
    tables, bundle = load_tables(origin, check)
    for table in tables:
        check_validators(table)
    same = {table.table_id for table in tables if bundle is None}
    with _lock:
        now = {
            kernel: [s for s in known if s.origin != origin and not (s.bundle is None and s.table.table_id in same)]
            for kernel, known in _sources.items()
        }
        said = []
        for table in tables:
            fresh = LoadedTable(table, bundle, origin, as_device, strict, on_miss)
            before = now.setdefault(table.kernel.ref, [])
            said += [text for text in (_conflict(fresh, other) for other in before) if text]
            before.insert(0, fresh)
        _sources.update(now)  # in one step, also for a process that is forked meanwhile
    if said:
        observe.say_once(logging.WARNING, origin, "rows for the same calls", "; ".join(said))
    _changed()
    return tables


def _conflict(fresh: LoadedTable, other: LoadedTable) -> str:
    """Which rows of two tables are for the same calls and have different configs, and which of them serve; empty where
    none are."""
    if fresh.table.kernel.semantic_hash != other.table.kernel.semantic_hash or fresh.as_device != other.as_device:
        return ""
    rows = [(fresh.by_key[key][0], other.by_key[key][0]) for key in fresh.by_key.keys() & other.by_key.keys()]
    apart = [(mine, theirs) for mine, theirs in rows if mine.config != theirs.config]
    if not apart:
        return ""
    kept = sum(theirs.origin != "modelled" and mine.origin == "modelled" for mine, theirs in apart)
    versions = fresh.table.created_by.tileflow, other.table.created_by.tileflow
    written = f", which tileflow {versions[1] or 'of no known version'} wrote" if versions[0] != versions[1] else ""
    served = f"{len(apart) - kept} of these are served as loaded now" + f", {kept} as before" * bool(kept)
    return (
        f"{len(apart)} rows of {fresh.table.kernel.ref} have other configs than in {other.origin}{written}: {served} "
        "(measured rows go first, then what was loaded last; runtime.unload(PATH) takes one away)"
    )


def unload(what: str | PathLike[str] | Table) -> tuple[Table, ...]:
    """Forget a table, or all that were loaded from a path (a bundle's also by its digest), and free their machine code.

    Returns the tables. Calls under way end with what they have. A CUDA graph that was captured with these kernels must
    be gone: its replay would run freed code. Raises TableError where nothing such is loaded.
    """
    what = what if isinstance(what, Table) else as_path(what, "what is unloaded")
    with _lock:
        gone = [source for known in _sources.values() for source in known if _is_from(source, what)]
        for known in _sources.values():
            known[:] = [source for source in known if source not in gone]
    if not gone:
        raise TableError(
            "what is unloaded must be loaded",
            got=str(getattr(what, "table_id", what))[:80],
            hint="runtime.loaded() lists the tables",
        )
    for source in gone:
        source.servers.clear()
    _changed()
    MODULES.free_retired()
    return tuple(source.table for source in gone)


def _is_from(source: LoadedTable, what: Path | Table) -> bool:
    if isinstance(what, Table):
        return source.table.table_id == what.table_id
    if os.path.abspath(what) == source.origin:
        return True
    bundle = source.bundle
    return bundle is not None and (str(what) == bundle.digest or real_path(what) == bundle.path)


def loaded() -> tuple[Table, ...]:
    """The tables that lookups ask, in the order in which they do."""
    with _lock:
        return tuple(source.table for known in _sources.values() for source in known)


def set_on_miss(policy: OnMiss) -> None:
    """Set what serves a call that no tuned row does, where :func:`load` was not told otherwise, before or after it.

    ``default``: the bundle's own default for any shape; without one a compiler, and without that the reference.
    ``compile``: the call's own default config is compiled. ``reference``: the author's torch reference, or
    the kernel's own text as plain Python. ``error``: MissError. All of them are counted, and recorded as misses.
    Raises CallError for another policy.
    """
    _check_policy(policy)
    _policy[0] = policy
    _changed()


def on_miss(kernel: str) -> OnMiss:
    """The policy for ``kernel``: what the last load of its tables that named one named, else the general one."""
    require(kernel, str, "a kernel's name", "kernel.name; set_on_miss(...) sets what misses do")
    with _lock:
        told = (source.on_miss for source in _sources.get(kernel, ()))
        return next(filter(None, told), _policy[0])


def _check_policy(policy: str) -> None:
    if policy not in get_args(OnMiss):
        raise CallError(f"on_miss is one of {', '.join(get_args(OnMiss))}", got=repr(policy))


def digest() -> str:
    """One text for all that decides how calls are served: tables, bundles, policies and what ran out of resources.

    64 hex digits; processes that must run the same code (the ranks of one model) compare it.
    """
    with _lock:
        parts = [
            f"{kernel} {s.table.table_id} {s.bundle.digest if s.bundle else ''} {s.as_device} {s.strict} {s.on_miss}"
            for kernel, known in sorted(_sources.items())
            for s in known
        ]
        parts += [f"user {s.table.table_id}" for _, found in sorted(_found.items()) for s in found]
        parts += [f"rejected {key}" for key in sorted(map(str, _rejected))]
        parts.append(f"on_miss {_policy[0]}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def of_version(kernel: str, semantic_hash: str) -> list[LoadedTable]:
    """The loaded tables of this version of a kernel. Raises TableError for a strict table of another one."""
    with _lock:
        known = list(_sources.get(kernel, ()))
    current = [s for s in known if s.table.kernel.semantic_hash == semantic_hash]
    for stale in known:
        if stale in current:
            continue
        text = f"{stale.table.kernel.semantic_hash[:12]}, but the kernel is {semantic_hash[:12]}"
        if stale.strict:
            raise TableError(
                "a table must be of this version of the kernel",
                got=text,
                where=kernel,
                hint="the kernel was edited since: tune again, or check the old version out",
            )
        observe.count(kernel, "other_version", text)
        observe.say_once(
            logging.WARNING, kernel, stale.table.table_id, f"a table of another version is not used: {text}"
        )
    return current


def of_user_folder(semantic_hash: str) -> list[LoadedTable]:
    """The tables of the user's folder for this version of a kernel, read once."""
    folder = user_tables.user_folder()
    if folder is None:
        return []
    with _lock:
        found = _found.get((folder, semantic_hash))
    if found is not None:
        return found
    tables = user_tables.tables_of(semantic_hash, folder)
    made = [LoadedTable(table, None, "", None, False, None) for table in tables if _is_accepted(table, folder)]
    with _lock:
        return _found.setdefault((folder, semantic_hash), made)


def _is_accepted(table: Table, folder: Path) -> bool:
    try:
        check_validators(table)
    except TableError as error:
        user_tables.report(folder / table.table_id, error)
        return False
    return True


def stores_into_arguments(kernel: str, semantic_hash: str, parameters: Collection[str]) -> bool | None:
    """Whether the kernel writes into an argument, as its loaded binaries say; None where none says."""
    known: set[bool | None] = set()
    for source in of_version(kernel, semantic_hash):
        rows: list[Entry | Fallback] = [*source.table.entries, *source.table.portfolio]
        for row in rows:
            args = [a for x in row.launches for v in x.variants for a in v.launch_abi.args if a.kind != "int"]
            mine = [a.stored for a in args if a.kind != "float" and a.path.partition(".")[0] in parameters]
            known.update(mine or ([False] if args else []))
    return None if not known or None in known else True in known


def note_rejection(key: RowKey, reason: str) -> None:
    """Remember that a row ran out of resources."""
    with _lock:
        _rejected[key] = reason


def rejection(key: RowKey) -> str | None:
    """Why a row is to be passed over; None where it is not."""
    with _lock:
        return _rejected.get(key)


def clear() -> None:
    """Forget all tables, counts, misses and rejections, and free the machine code. See :func:`unload`."""
    with _lock:
        for known in _sources.values():
            for source in known:
                source.servers.clear()
        for state in (_sources, _found, _rejected):
            state.clear()
        _policy[0] = "default"
    observe.clear_counters()
    clear_misses()
    _changed()
    MODULES.free_retired()
