"""The loaded tables, and looking a call up in them: seven steps, each counted, and said once with its reason.

1 the caller's override; 2 this device, this key; 3 this device, near and inside what was tuned; 4 a listed sibling
device; 5 this arch's portfolio; 6 this vendor's portfolio; 7 the default. Never across vendors, and never a row of
another version of the kernel. What was measured goes before what was modelled through steps 2 to 4.
Who has to compile may find the call's own zero-search config better than another problem's row: see :class:`Hit`.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

from ..config import Config
from ..errors import TableError
from ..target import CATALOGUE, Target, target
from .abi import Binary
from .bundle import MANIFEST, Bundle, load_bundle
from .problem import Problem
from .table import Entry, Fallback, RegionLaunch, Requirement, Table, load_table

Step = Literal["override", "exact", "near", "sibling", "arch_portfolio", "vendor_portfolio", "default"]

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

        Machine code serves its own arch alone, and static code its own problem alone. Raises TableError for a damaged
        bundle.
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
            if v.sha256 is not None and target(v.target).arch == arch and (self.exact or v.mode == "dynamic")
        )


@dataclass(frozen=True, slots=True)
class _Source:
    """One loaded table, indexed. ``as_device``: answer as that class would, on any machine."""

    table: Table
    bundle: Bundle | None
    as_device: str | None
    strict: bool
    by_key: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)
    by_categories: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry in sorted(self.table.entries, key=lambda e: e.order):
            self.by_key.setdefault((entry.device, entry.problem.key), []).append(entry)
            self.by_categories.setdefault((entry.device, entry.problem.categories), []).append(entry)


class _Candidate(NamedTuple):
    step: Step
    row: Entry | Fallback
    source: _Source | None
    device: str | None
    reason: str
    exact: bool


_lock = threading.Lock()
_sources: dict[str, list[_Source]] = {}  # by kernel, the last loaded first
_counts: Counter[str] = Counter()
_said: set[tuple[str, ...]] = set()
_rejected: dict[tuple[str, str, str | None, str], str] = {}
# what was resolved under an older one is out of date; in a list, so that a warm call reads it without calling
generation = [0]


def load(path: str | PathLike[str], as_device: str | None = None, strict: bool = False) -> tuple[Table, ...]:
    """Register a table's file, a directory of tables or a bundle; later loads go first. Returns the tables.

    ``as_device``: look up as that device class would, on any machine. ``strict``: lookups raise in place of falling
    back. Raises TableError for what cannot be trusted, SpecError for an unknown device class.
    """
    if as_device is not None:
        target(as_device)
    where = Path(path)
    bundle = load_bundle(where) if (where / MANIFEST).exists() else None
    if bundle is not None:
        tables = bundle.tables
    elif where.is_dir():
        tables = tuple(load_table(file) for file in sorted(where.glob("*.json")))
        if not tables:
            raise TableError("a directory of tables must hold *.json files or a bundle", got=str(where))
    else:
        tables = (load_table(where),)
    for table in tables:
        check_validators(table)
    with _lock:
        generation[0] += 1
        for table in tables:
            known = _sources.setdefault(table.kernel.ref, [])
            known[:] = [s for s in known if s.table.table_id != table.table_id]
            known.insert(0, _Source(table, bundle, as_device, strict))
    return tables


def lookup(
    kernel: str, semantic_hash: str, problem: Problem, device: str | None = None, *, override: Config | None = None
) -> Hit | None:
    """The best row for a call, or None where no table has one: use the zero-search default.

    ``kernel``: ``module:qualname``; ``device``: the class of the device at hand, None where it is not known.
    Raises TableError under ``strict`` where the answer is not this very key's, and for tables of another version.
    """
    if override is not None:
        candidate = _Candidate("override", Fallback(override), None, device, "the caller's override", True)
        return _answer(candidate, kernel, problem)
    sources = _of_version(kernel, semantic_hash)
    strict = any(s.strict for s in sources)
    for candidate in _candidates(sources, problem, device):
        refusal = _refusal(candidate, kernel, problem)
        if refusal is not None:
            _count(refusal[0])
            _say(logging.WARNING, kernel, problem.bucket, candidate.step, refusal[1])
        elif strict and candidate.step != "exact":
            raise TableError("a strict lookup must find this device and this key", got=candidate.reason,
                             where=str(problem), hint="tune this problem, or load without strict")  # fmt: skip
        else:
            return _answer(candidate, kernel, problem)
    _count("miss")
    if strict:
        raise TableError("a strict lookup must find this device and this key", got="no row", where=str(problem),
                         hint="tune this problem, or load without strict")  # fmt: skip
    if sources:
        _say(logging.WARNING, kernel, problem.bucket, "miss", f"no row serves {device}")
    return None


def reject(hit: Hit, kernel: str, problem: Problem, reason: str) -> None:
    """Remember that ``hit`` ran out of resources, so that lookups of this problem move on to the next step."""
    with _lock:
        _rejected[kernel, problem.key, hit.device, hit.config.key] = reason


def stats() -> dict[str, int]:
    """How often each step answered, and ``miss``, ``constraint``, ``out_of_resources``, ``other_version``."""
    with _lock:
        return dict(_counts)


def clear() -> None:
    """Forget all tables, counts and rejections."""
    with _lock:
        generation[0] += 1
        for state in (_sources, _counts, _said, _rejected):
            state.clear()


# ---- the steps ----------------------------------------------------------------------------------------------------


def _of_version(kernel: str, semantic_hash: str) -> list[_Source]:
    with _lock:
        known = list(_sources.get(kernel, ()))
    current = [s for s in known if s.table.kernel.semantic_hash == semantic_hash]
    for stale in known:
        if stale in current:
            continue
        _count("other_version")
        text = f"{stale.table.kernel.semantic_hash[:12]}, but the kernel is {semantic_hash[:12]}"
        if stale.strict:
            raise TableError("a table must be of this version of the kernel", got=text, where=kernel,
                             hint="the kernel was edited since: tune again, or check the old version out")  # fmt: skip
        _say(logging.WARNING, kernel, stale.table.table_id, f"a table of another version is not used: {text}")
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
        for source, device in here:
            for sibling in _siblings(source.table, device):
                yield from _exact(source, problem, sibling, device, modelled)
                yield from _near(source, problem, sibling, device, modelled)
    for source, device in here:
        yield from _portfolio(source, problem, device, same_arch=True)
    for source, device in here:
        yield from _portfolio(source, problem, device, same_arch=False)
    for source, where in placed:
        if source.table.default is not None:
            row = source.table.default
            exact = row.problem is not None and row.problem.key == problem.key
            yield _Candidate("default", row, source, where, "no row fits: the table's default", exact)


def _exact(source: _Source, problem: Problem, owner: str, device: str, modelled: bool) -> Iterator[_Candidate]:
    for entry in source.by_key.get((owner, problem.key), ()):
        if (entry.origin == "modelled") == modelled:
            step: Step = "exact" if owner == device else "sibling"
            yield _Candidate(step, entry, source, device, f"{entry.origin} on {owner} for this key", True)


def _near(source: _Source, problem: Problem, owner: str, device: str, modelled: bool) -> Iterator[_Candidate]:
    """Rows of the same categories, the nearest first; none outside of what was tuned: a table does not extrapolate."""
    domain = source.table.domain.get(owner, {})
    for name, size in problem.sizes.items():
        low, high = domain.get(name, (1, 0))
        if not low <= size <= high:
            return
    kinds = {k.name: k.kind for k in source.table.key_schema}
    rows = [
        entry
        for entry in source.by_categories.get((owner, problem.categories), ())
        if (entry.origin == "modelled") == modelled
        and entry.problem.key != problem.key
        and all(_serves(kinds.get(n, "exact"), size, entry.problem.sizes[n]) for n, size in problem.sizes.items())
    ]
    rows.sort(key=lambda e: (e.problem.bucket != problem.bucket, e.problem.distance(problem), e.order))
    for entry in rows:
        step: Step = "near" if owner == device else "sibling"
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
    return tuple(name for name in listed if name in CATALOGUE and CATALOGUE[name].vendor == me.vendor)


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
        reason = _rejected.get((kernel, problem.key, candidate.device, row.config.key))
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


def _answer(candidate: _Candidate, kernel: str, problem: Problem) -> Hit:
    _count(candidate.step)
    level = logging.DEBUG if candidate.step in ("override", "exact") else logging.WARNING
    _say(level, kernel, problem.bucket, candidate.step, candidate.reason)
    source = candidate.source
    return Hit(
        candidate.row, candidate.step, candidate.reason, candidate.exact, candidate.device,
        None if source is None else source.table, None if source is None else source.bundle,
    )  # fmt: skip


def _count(what: str) -> None:
    with _lock:
        _counts[what] += 1


def _say(level: int, *words: str) -> None:
    """Log once for each text."""
    with _lock:
        if words in _said:
            return
        _said.add(words)
    _log.log(level, "%s", " | ".join(words))


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
            raise TableError(f"the table requires its {validator.name}", got=text, where=table.kernel.ref,
                             hint="export the table for this version")  # fmt: skip
        if here is not None:
            level = logging.WARNING if validator.level == "warn" else logging.INFO
            _say(level, table.kernel.ref, f"the table was made with {validator.name} {text}")


def _version_here(name: str, table: Table) -> str | None:
    own = {"semantic_hash": table.kernel.semantic_hash, "schema": str(table.schema_version), "launch_abi": "1"}
    if name in own:
        return own[name]
    for package in {"triton": ("triton", "pytorch-triton-rocm", "triton-rocm")}.get(name, (name,)):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def _same_release(one: str, other: str) -> bool:
    return one == other or one.split("+")[0].split(".")[:2] == other.split("+")[0].split(".")[:2]
