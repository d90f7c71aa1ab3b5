"""Looking a call up in the loaded tables, step by step.

1 the caller's override; 2 this device, this key; 3 this device, near and inside what was tuned; 4 a listed sibling
device; 5 for a device that no table and no catalogue lists, one of its architecture; 6 this arch's portfolio; 7 this
vendor's portfolio; 8 the default. Never across vendors, and never a row of another version of the kernel. What was
measured goes before what was modelled through steps 2 to 5. Within a step rows come in the order of their distance;
:mod:`.serving` takes the first whose guards accept the call.
Who has to compile may find the call's own default config better than another problem's row: see :class:`Hit`.

The tables of the user's own folder (:mod:`.user_tables`) are looked at where no loaded one has a row left, on a GPU.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from ..config import Config
from ..errors import TableError
from ..lazy_dataclass import dataclass
from ..target import Target, find, runs_on, target
from . import observe, registry
from .abi import Binary
from .bundle import Bundle
from .defaults import defaults_for
from .loaded_table import LoadedTable, Step
from .problem import Problem
from .table import Entry, Fallback, RegionLaunch, Requirement, Table


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
        """The config of the row."""
        return self.row.config

    @property
    def default_is_better(self) -> bool:
        """Whether the call's own default config serves better than this row. It holds for problems other than the
        row's, on devices where that was measured; whoever has to compile should compile the default then."""
        measured = None if self.table is None or self.device is None else self.table.unseen.get(self.device)
        return not self.exact and measured is not None and measured.by_default

    def binaries(self) -> dict[int, tuple[Binary, ...]] | None:
        """The binaries of each region that may be launched, in order; None where a region has none and must be
        compiled.

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


class _Candidate(NamedTuple):
    step: Step
    row: Entry | Fallback
    source: LoadedTable | None
    device: str | None
    reason: str
    exact: bool


def lookup(
    kernel: str, semantic_hash: str, problem: Problem, device: str | None = None, *, override: Config | None = None
) -> Hit | None:
    """The best row for a call, or None where no table has one: use the default config.

    ``kernel``: ``module:qualname``; ``device``: the class of the device at hand, None where it is not known.
    Raises TableError under ``strict`` where the answer is not this very key's, and for tables of another version.
    """
    if override is not None:
        return Hit(Fallback(override), "override", "the caller's override", True, device)
    return next(hits(kernel, semantic_hash, problem, device), None)


def hits(kernel: str, semantic_hash: str, problem: Problem, device: str | None = None) -> Iterator[Hit]:
    """Every row that may serve a call, the best first. Raises TableError as :func:`lookup` does."""
    sources = registry.of_version(kernel, semantic_hash)
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


def reject(hit: Hit, kernel: str, reason: str) -> None:
    """Remember that ``hit``'s row ran out of resources on its device, so that lookups pass it over."""
    registry.note_rejection(_row_key(kernel, hit.device, hit.step, hit.table, hit.row), reason)


def _row_key(
    kernel: str, device: str | None, step: Step, table: Table | None, row: Entry | Fallback
) -> registry.RowKey:
    """What tells rows apart. One config needs more of a device for one problem than for another, whose row lies a whole
    dimension in one piece, and machine code that was built again may need less."""
    problem = "" if row.problem is None else row.problem.key
    return kernel, device, step, "" if table is None else table.table_id, problem, row.config.key


# ---- the steps ---------------------------------------------------------------------------------------------------


def _candidates(sources: Sequence[LoadedTable], problem: Problem, live: str | None) -> Iterator[_Candidate]:
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


def _of_user(semantic_hash: str, problem: Problem, device: str, before: Sequence[LoadedTable]) -> Iterator[_Candidate]:
    """The rows of the user's folder, which is looked at once this is reached; none that is loaded besides, and none for
    any shape: the call's own default is better."""
    known = {source.table.table_id for source in before}
    fresh = [source for source in registry.of_user_folder(semantic_hash) if source.table.table_id not in known]
    yield from (row for row in _candidates(fresh, problem, device) if row.step != "default")


def _exact(
    source: LoadedTable, problem: Problem, owner: str, device: str, modelled: bool, other: Step = "near"
) -> Iterator[_Candidate]:
    for entry in source.by_key.get((owner, problem.key), ()):
        if (entry.origin == "modelled") == modelled:
            step: Step = "exact" if owner == device else other
            yield _Candidate(step, entry, source, device, f"{entry.origin} on {owner} for this key", True)


def _near(
    source: LoadedTable, problem: Problem, owner: str, device: str, modelled: bool, other: Step = "near"
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


def _portfolio(source: LoadedTable, problem: Problem, device: str, same_arch: bool) -> Iterator[_Candidate]:
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
    table = None if candidate.source is None else candidate.source.table
    reason = registry.rejection(_row_key(kernel, candidate.device, candidate.step, table, row))
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
