"""The loaded tables, and looking a call up in them, step by step.

1 the caller's override; 2 this device, this key; 3 this device, near and inside what was tuned; 4 a listed sibling
device; 5 for a device that no table and no catalogue lists, one of its architecture; 6 this arch's portfolio; 7 this
vendor's portfolio; 8 the default. Never across vendors, and never a row of another version of the kernel. What was
measured goes before what was modelled through steps 2 to 5. Within a step rows come in the order of their distance;
:mod:`.serving` takes the first whose guards accept the call.
Who has to compile may find the call's own zero-search config better than another problem's row: see :class:`Hit`.

The tables of the user's own folder (:mod:`.user_tables`) are looked at where no loaded one has a row left, on a GPU.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ..config import Config
from ..errors import CallError, TableError
from ..lazy_dataclass import dataclass
from ..target import CATALOGUE, Target, find, runs_on, target
from . import observe, user_tables
from .abi import Binary
from .binaries import MODULES
from .bundle import Bundle, Check, load_tables
from .defaults import defaults_for
from .miss_record import clear_misses
from .problem import Problem
from .table import Entry, Fallback, RegionLaunch, Requirement, Table

Step = Literal["override", "exact", "near", "sibling", "architecture", "arch_portfolio", "vendor_portfolio", "default"]
OnMiss = Literal["default", "compile", "reference", "error"]

_log = logging.getLogger("tileflow.runtime")


@dataclass(frozen=True, slots=True)
class Hit:
    """What a lookup found. ``exact``: the row's problem is the call's own, so that its static binaries fit.

    ``device``: the class that was asked for (None where it is not known); ``reason``: why this row, in words.
    """

    row: Entry | Fallback
    step: Step
    reason: str
    exact: bool
    device: str | None
    table: Table | None = None
    bundle: Bundle | None = None
    servers: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # kept with the table

    @property
    def config(self) -> Config:
        return self.row.config

    @property
    def default_is_better(self) -> bool:
        """The call is another problem than the row's, and its own zero-search config serves such better: whoever has to
        compile should compile that one."""
        measured = None if self.table is None or self.device is None else self.table.unseen.get(self.device)
        return not self.exact and measured is not None and measured.by_default

    def binaries(self) -> dict[int, tuple[Binary, ...]] | None:
        """For each region the binaries that may be launched, in order; None where a region has none: compile.

        Machine code serves the archs that run it, and static code its own problem alone. Raises TableError for a
        damaged bundle.
        """
        if self.bundle is None or self.device is None or not self.row.launches:
            return None
        found: dict[int, tuple[Binary, ...]] = {}
        for launch in self.row.launches:
            usable = self._usable(launch, target(self.device).arch)
            if not usable:
                return None
            found[launch.region] = usable
        return found

    def _usable(self, launch: RegionLaunch, arch: str) -> tuple[Binary, ...]:
        assert self.bundle is not None
        return tuple(
            self.bundle.binary(launch.region, v)
            for v in launch.variants
            if v.sha256 is not None and self._runs(v.target, arch) and (self.exact or v.mode == "dynamic")
        )

    def _runs(self, built_for: str, arch: str) -> bool:
        """Whether machine code for a device class runs on ``arch``; the class may be one of a newer catalogue."""
        known = find(built_for)
        listed = None if self.table is None else self.table.devices.get(built_for)
        own = known.arch if known is not None else listed.arch if listed is not None else ""
        return runs_on(own, arch)


@dataclass(frozen=True, slots=True)
class _Source:
    """One loaded table, indexed. ``as_device``: answer as that class would, on any machine."""

    table: Table
    bundle: Bundle | None
    as_device: str | None
    strict: bool
    on_miss: OnMiss
    servers: dict[Any, Any] = field(default_factory=dict)  # what serves by each row, made once
    by_key: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)
    by_categories: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)  # the key schema's, by the names of sizes
    borrowed: dict[str, tuple[tuple[str, Step], ...]] = field(default_factory=dict)  # owners, by device

    def __post_init__(self) -> None:
        for entry in sorted(self.table.entries, key=lambda e: e.order):
            self.by_key.setdefault((entry.device, entry.problem.key), []).append(entry)
            self.by_categories.setdefault((entry.device, entry.problem.categories), []).append(entry)
        self.kinds.update({k.name: k.kind for k in self.table.key_schema})

    def owners(self, device: str) -> tuple[tuple[str, Step], ...]:
        """The other devices whose rows serve ``device``, in order, each with the step that this is; those alone that
        have rows. An unknown shape asks on its first call, so that the answer is kept."""
        found = self.borrowed.get(device)
        if found is None:
            others: list[tuple[str, Step]] = [(name, "sibling") for name in _siblings(self.table, device)]
            others += [(name, "architecture") for name in _of_architecture(self.table, device)]
            with_rows = {entry.device for entry in self.table.entries}
            found = self.borrowed[device] = tuple(owner for owner in others if owner[0] in with_rows)
        return found


class _Candidate(NamedTuple):
    step: Step
    row: Entry | Fallback
    source: _Source | None
    device: str | None
    reason: str
    exact: bool


_lock = threading.Lock()
_sources: dict[str, list[_Source]] = {}  # by kernel, the last loaded first
_found: dict[tuple[Path, str], list[_Source]] = {}  # of the user's folder, by it and the kernel's version
_rejected: dict[tuple[str, str | None, str, str], str] = {}
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

    A bundle takes the place of what was loaded from its folder before: after a switch to another snapshot, load the
    folder again. ``as_device``: look up as that device class would, on any machine. ``strict``: lookups raise in place
    of falling back. ``on_miss``: what serves a call that no row does (see :func:`set_on_miss`), for the kernels of
    these tables. ``check``: whether each binary's digest is checked now, or when it is launched first. Raises
    TableError for what cannot be trusted, SpecError for an unknown device class.
    """
    if as_device is not None:
        target(as_device)
    if on_miss is not None:
        _check_policy(on_miss)
    tables, bundle = load_tables(path, check)
    for table in tables:
        check_validators(table)
    with _lock:
        for table in tables:
            known = _sources.setdefault(table.kernel.ref, [])
            known[:] = [s for s in known if not _follows(table, bundle, s)]
            known.insert(0, _Source(table, bundle, as_device, strict, on_miss or _policy[0]))
    _changed()
    return tables


def _follows(table: Table, bundle: Bundle | None, old: _Source) -> bool:
    """Whether a table takes the place of one that was loaded before: the same table, or what its folder holds now."""
    if bundle is None or old.bundle is None:
        return bundle is old.bundle and old.table.table_id == table.table_id
    return bundle.origin.absolute() == old.bundle.origin.absolute()


def unload(what: str | PathLike[str] | Table) -> tuple[Table, ...]:
    """Forget a table, or all that were loaded from a bundle (its folder, or its digest), and free their machine code.

    Returns the tables. Calls under way end with what they have. A CUDA graph that was captured with these kernels must
    be gone: its replay would run freed code. Raises TableError where nothing such is loaded.
    """
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


def _is_from(source: _Source, what: str | PathLike[str] | Table) -> bool:
    if isinstance(what, Table):
        return source.table.table_id == what.table_id
    if source.bundle is None:
        return False
    folders = (source.bundle.path, source.bundle.origin)
    return str(what) == source.bundle.digest or Path(what).absolute() in [folder.absolute() for folder in folders]


def loaded() -> tuple[Table, ...]:
    """The tables that lookups ask, in the order in which they do."""
    with _lock:
        return tuple(source.table for known in _sources.values() for source in known)


def set_on_miss(policy: OnMiss) -> None:
    """What serves a call that no tuned row does, where :func:`load` was not told otherwise.

    ``default``: the bundle's own default for any shape; without one a compiler, and without that the reference.
    ``compile``: the zero-search config is compiled for this very call. ``reference``: the author's torch reference, or
    the kernel's own text as plain Python. ``error``: CallError. All of them are counted, and recorded as misses.
    """
    _check_policy(policy)
    _policy[0] = policy
    _changed()


def on_miss(kernel: str) -> OnMiss:
    """The policy for ``kernel``: that of the table which was loaded last, or the general one."""
    with _lock:
        known = _sources.get(kernel)
        return known[0].on_miss if known else _policy[0]


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


def lookup(
    kernel: str, semantic_hash: str, problem: Problem, device: str | None = None, *, override: Config | None = None
) -> Hit | None:
    """The best row for a call, or None where no table has one: use the zero-search default.

    ``kernel``: ``module:qualname``; ``device``: the class of the device at hand, None where it is not known.
    Raises TableError under ``strict`` where the answer is not this very key's, and for tables of another version.
    """
    if override is not None:
        return Hit(Fallback(override), "override", "the caller's override", True, device)
    return next(hits(kernel, semantic_hash, problem, device), None)


def hits(kernel: str, semantic_hash: str, problem: Problem, device: str | None = None) -> Iterator[Hit]:
    """Every row that may serve a call, the best first. Raises TableError as :func:`lookup` does."""
    sources = _of_version(kernel, semantic_hash)
    strict = any(s.strict for s in sources)
    candidates = _candidates(sources, problem, device)
    if device is not None and not strict:
        candidates = itertools.chain(candidates, _of_user(semantic_hash, problem, device, sources))
    for candidate in candidates:
        refusal = _refusal(candidate, kernel, problem)
        if refusal is not None:
            observe.count(kernel, refusal[0], refusal[1], candidate.device)
            observe.say_once(logging.WARNING, kernel, f"{refusal[0]} {candidate.step}", refusal[1])
        elif strict and candidate.step != "exact":
            raise TableError(
                "a strict lookup must find this device and this key",
                got=candidate.reason,
                where=str(problem),
                hint="tune this problem, or load without strict",
            )
        else:
            yield _hit(candidate)
    if strict:
        raise TableError(
            "a strict lookup must find this device and this key",
            got="no row",
            where=str(problem),
            hint="tune this problem, or load without strict",
        )


def stores_into_arguments(kernel: str, semantic_hash: str, parameters: Collection[str]) -> bool | None:
    """Whether the kernel writes into an argument, as its loaded binaries say; None where none says."""
    known: set[bool | None] = set()
    for source in _of_version(kernel, semantic_hash):
        rows: list[Entry | Fallback] = [*source.table.entries, *source.table.portfolio]
        for row in rows:
            args = [a for x in row.launches for v in x.variants for a in v.launch_abi.args if a.kind != "int"]
            mine = [a.stored for a in args if a.kind != "float" and a.path.partition(".")[0] in parameters]
            known.update(mine or ([False] if args else []))
    return None if not known or None in known else True in known


def reject(hit: Hit, kernel: str, reason: str) -> None:
    """Remember that ``hit``'s row ran out of resources on its device, so that lookups pass it over."""
    with _lock:
        _rejected[kernel, hit.device, hit.step, hit.config.key] = reason


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


# ---- the steps ----------------------------------------------------------------------------------------------------


def _of_version(kernel: str, semantic_hash: str) -> list[_Source]:
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


def _candidates(sources: Sequence[_Source], problem: Problem, live: str | None) -> Iterator[_Candidate]:
    """Every row that might serve, in the order of the steps."""
    placed = [(s, s.as_device or live) for s in sources]
    here = [(s, device) for s, device in placed if device is not None]
    for modelled in (False, True):
        for source, device in here:
            yield from _exact(source, problem, device, device, modelled)
        for source, device in here:
            yield from _near(source, problem, device, device, modelled)
        for kinship in ("sibling", "architecture"):
            for source, device in here:
                for owner, step in source.owners(device):
                    if step == kinship:
                        yield from _exact(source, problem, owner, device, modelled, step)
                        yield from _near(source, problem, owner, device, modelled, step)
    for source, device in here:
        yield from _portfolio(source, problem, device, same_arch=True)
    for source, device in here:
        yield from _portfolio(source, problem, device, same_arch=False)
    for source, device in here:
        me = target(device)
        for row in defaults_for(source.table, problem, me.vendor, me.arch, device):
            yield _Candidate("default", row, source, device, f"the default of {me.arch} for any shape", False)
    for source, where in placed:
        if source.table.default is not None:
            row = source.table.default
            exact = row.problem is not None and row.problem.key == problem.key
            yield _Candidate("default", row, source, where, "no row fits: the table's default", exact)


def _of_user(semantic_hash: str, problem: Problem, device: str, before: Sequence[_Source]) -> Iterator[_Candidate]:
    """The rows of the user's folder, which is looked at once this is reached; none that is loaded besides, and none for
    any shape: the call's own default is better."""
    folder = user_tables.user_folder()
    if folder is None:
        return
    with _lock:
        found = _found.get((folder, semantic_hash))
    if found is None:
        tables = user_tables.tables_of(semantic_hash, folder)
        made = [_Source(table, None, None, False, _policy[0]) for table in tables if _is_accepted(table, folder)]
        with _lock:
            found = _found.setdefault((folder, semantic_hash), made)
    known = {source.table.table_id for source in before}
    fresh = [source for source in found if source.table.table_id not in known]
    yield from (row for row in _candidates(fresh, problem, device) if row.step != "default")


def _is_accepted(table: Table, folder: Path) -> bool:
    try:
        check_validators(table)
    except TableError as error:
        user_tables.report(folder / table.table_id, error)
        return False
    return True


def _exact(
    source: _Source, problem: Problem, owner: str, device: str, modelled: bool, other: Step = "near"
) -> Iterator[_Candidate]:
    for entry in source.by_key.get((owner, problem.key), ()):
        if (entry.origin == "modelled") == modelled:
            step: Step = "exact" if owner == device else other
            yield _Candidate(step, entry, source, device, f"{entry.origin} on {owner} for this key", True)


def _near(
    source: _Source, problem: Problem, owner: str, device: str, modelled: bool, other: Step = "near"
) -> Iterator[_Candidate]:
    """Rows of the same categories, the nearest first; none outside of what was tuned: a table does not extrapolate."""
    alike = source.by_categories.get((owner, problem.categories))
    if not alike:
        return
    domain, kinds = source.table.domain.get(owner, {}), source.kinds
    for name, size in problem.sizes.items():
        low, high = domain.get(name, (1, 0))
        if not low <= size <= high:
            return
    rows = [
        entry
        for entry in alike
        if (entry.origin == "modelled") == modelled
        and entry.problem.key != problem.key
        and all(_serves(kinds.get(n, "exact"), size, entry.problem.sizes[n]) for n, size in problem.sizes.items())
    ]
    rows.sort(key=lambda e: (e.problem.bucket != problem.bucket, e.problem.distance(problem), e.order))
    for entry in rows:
        step: Step = "near" if owner == device else other
        yield _Candidate(step, entry, source, device, f"{entry.origin} on {owner} for {entry.problem.key}", False)


def _serves(kind: str, asked: int, tuned: int) -> bool:
    """Whether a row tuned at one size may serve another, by the key schema's kind."""
    match kind:
        case "bucket":
            return True
        case "pow2":
            return max(asked - 1, 0).bit_length() == max(tuned - 1, 0).bit_length()
        case "ceil":
            return tuned >= asked
    return asked == tuned


def _siblings(table: Table, device: str) -> tuple[str, ...]:
    """The devices whose rows ``device`` may borrow: what the table lists, else the catalogue; of its own vendor."""
    me = target(device)
    listed = table.devices[device].siblings if device in table.devices else me.siblings
    known = ((name, find(name)) for name in listed)
    return tuple(name for name, found in known if found is not None and found.vendor == me.vendor)


def _of_architecture(table: Table, device: str) -> tuple[str, ...]:
    """The table's devices of the architecture of one that no catalogue lists, the most alike first."""
    me = target(device)
    if device in CATALOGUE or device in table.devices:
        return ()
    mine = [name for name, info in table.devices.items() if info.arch == me.arch and name not in me.siblings]
    return tuple(sorted(mine, key=lambda name: abs(table.devices[name].sm_or_cu_count - me.sm_count)))


def _portfolio(source: _Source, problem: Problem, device: str, same_arch: bool) -> Iterator[_Candidate]:
    me = target(device)
    rows = [
        row
        for row in source.table.portfolio
        if row.vendor == me.vendor
        and (row.arch == me.arch) == same_arch
        and (row.problem is None or row.problem.categories == problem.categories)
    ]
    rows.sort(key=lambda r: math.inf if r.problem is None else r.problem.distance(problem))
    step: Step = "arch_portfolio" if same_arch else "vendor_portfolio"
    for row in rows:
        exact = row.problem is not None and row.problem.key == problem.key
        yield _Candidate(step, row, source, device, f"the portfolio of {row.arch}", exact)


def _refusal(candidate: _Candidate, kernel: str, problem: Problem) -> tuple[str, str] | None:
    """(what to count, why) where a candidate must not be used."""
    row = candidate.row
    with _lock:
        reason = _rejected.get((kernel, candidate.device, candidate.step, row.config.key))
    if reason is not None:
        return "out_of_resources", f"{candidate.reason} ran out of resources: {reason}"
    if candidate.step == "exact" and isinstance(row, Entry) and row.origin == "measured":
        return None
    device = None if candidate.device is None else target(candidate.device)
    broken = _broken(row, problem, device)
    return None if broken is None else ("constraint", f"{candidate.reason} does not fit: {broken}")


def _broken(row: Entry | Fallback, problem: Problem, device: Target | None) -> str | None:
    """The first requirement that does not hold on ``device``, or that cannot be decided there."""
    env: dict[str, int] = dict(problem.sizes)
    if device is not None:
        env |= device.symbols()
        needed = max((v.resources.shared for x in row.launches for v in x.variants), default=0)
        if needed > device.smem_per_block:
            return f"{needed} bytes of shared memory, the device has {device.smem_per_block}"
    for requirement in row.requirements:
        if not _holds(requirement, env):
            return requirement.reason
    return None


def _holds(requirement: Requirement, env: dict[str, int]) -> bool:
    return requirement.check.symbols() <= env.keys() and requirement.check.holds(env)


def _hit(candidate: _Candidate) -> Hit:
    source = candidate.source
    if source is None:
        return Hit(candidate.row, candidate.step, candidate.reason, candidate.exact, candidate.device)
    return Hit(
        candidate.row,
        candidate.step,
        candidate.reason,
        candidate.exact,
        candidate.device,
        source.table,
        source.bundle,
        source.servers,
    )


# ---- versions -----------------------------------------------------------------------------------------------------


def check_validators(table: Table) -> None:
    """Compare the versions that ``table`` was made with to those here, by major and minor number.

    A new toolchain orphans no row: it is said, once. Raises TableError where a *required* one differs or is unknown.
    """
    for validator in table.validators:
        here = _version_here(validator.name, table)
        if here is not None and _same_release(validator.value, here):
            continue
        text = f"{validator.value}, here {here or 'not known'}"
        if validator.level == "require":
            raise TableError(
                f"the table requires its {validator.name}",
                got=text,
                where=table.kernel.ref,
                hint="export the table for this version",
            )
        if here is not None:
            level = logging.WARNING if validator.level == "warn" else logging.INFO
            observe.say_once(
                level, table.kernel.ref, validator.name, f"the table was made with {validator.name} {text}"
            )


def _version_here(name: str, table: Table) -> str | None:
    own = {"semantic_hash": table.kernel.semantic_hash, "schema": str(table.schema_version), "launch_abi": "1"}
    if name in own:
        return own[name]
    return _installed(name)


@cache
def _installed(name: str) -> str | None:
    """The version of a package here. Asking reads and parses a file."""
    from importlib import metadata

    for package in {"triton": ("triton", "pytorch-triton-rocm", "triton-rocm")}.get(name, (name,)):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def _same_release(one: str, other: str) -> bool:
    return one == other or one.split("+")[0].split(".")[:2] == other.split("+")[0].split(".")[:2]
