"""Two tables of one kernel: merged into one, or told apart row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from enum import Enum

from ..errors import TableError
from ..lazy_dataclass import dataclass
from ..target import find
from .table import DeviceInfo, Entry, Fallback, Table, Validator
from .table_files import require_table


def merge(ours: Table, theirs: Table) -> Table:
    """Both tables' rows; of two comparable ones for the same call the better, and both where they cannot be told apart.

    Comparable: same device class, key and toolchain, both measured there. Apart: the intervals ``best_us +- ci95`` do
    not touch. A measured row always displaces a modelled one. ``ours`` is the parent, and its defaults stay. Raises
    TableError for tables of two kernels or versions, or that disagree about a device that the catalogue does not know.
    """
    require_table(ours)
    require_table(theirs)
    if ours.kernel.ref != theirs.kernel.ref or ours.kernel.semantic_hash != theirs.kernel.semantic_hash:
        raise TableError(
            "tables must be of one kernel in one version to be merged",
            got=f"{ours.kernel.ref} {ours.kernel.semantic_hash[:12]} and "
            f"{theirs.kernel.ref} {theirs.kernel.semantic_hash[:12]}",
        )
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in (*ours.entries, *theirs.entries):
        groups.setdefault((entry.device, entry.problem.key), []).append(entry)
    rows = tuple(row for group in groups.values() for row in _best(group))
    portfolio = dict.fromkeys((r.arch, r.config, r.problem) for r in (*ours.portfolio, *theirs.portfolio))
    by_key = {(r.arch, r.config, r.problem): r for r in (*theirs.portfolio, *ours.portfolio)}
    return Table.of(
        ours.kernel,
        rows,
        devices=_devices(ours, theirs),
        domain=_wider(ours.domain, theirs.domain),
        key_schema=tuple(sorted({*ours.key_schema, *theirs.key_schema}, key=lambda k: (k.name, k.kind))),
        portfolio=tuple(by_key[key] for key in portfolio),
        default=ours.default or theirs.default,
        defaults=_all_defaults(ours, theirs),
        unseen={**theirs.unseen, **ours.unseen},
        validators=_merged_validators(ours, theirs),
        created_by=ours.created_by,
        parent_table_id=ours.table_id,
    )


def _devices(ours: Table, theirs: Table) -> dict[str, DeviceInfo]:
    merged = {**theirs.devices, **ours.devices}
    for name in ours.devices.keys() & theirs.devices.keys():
        merged[name] = _agreed(name, ours.devices[name], theirs.devices[name])
    return merged


def _agreed(name: str, mine: DeviceInfo, its: DeviceInfo) -> DeviceInfo:
    """The device of both tables. A table describes it as the catalogue of its day did, whose siblings and figures
    change: of one that this catalogue knows, its entry is served anyway. Raises TableError for others whose figures
    differ."""
    if mine == its:
        return mine
    known = find(name)
    if known is not None:
        return DeviceInfo.of(known)
    siblings = tuple(dict.fromkeys((*mine.siblings, *its.siblings)))
    merged = replace(mine, display_name=mine.display_name or its.display_name, siblings=siblings)
    differing = _difference(merged, replace(its, display_name=merged.display_name, siblings=siblings))
    if differing:
        raise TableError(
            "tables must agree about a device to be merged",
            got=differing,
            where=f"devices.{name}",
            hint="one of them was made on another card: load both, the better one last, or withdraw its rows",
        )
    return merged


def _difference(one: DeviceInfo, other: DeviceInfo) -> str:
    """The fields in which two differ, with both values."""
    pairs = ((f.name, getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return ", ".join(f"{name} {mine!r} and {its!r}" for name, mine, its in pairs if mine != its)


def _all_defaults(ours: Table, theirs: Table) -> dict[str, tuple[Fallback, ...]]:
    merged: dict[str, dict[str, Fallback]] = {}
    for table in (ours, theirs):
        for device, rows in table.defaults.items():
            for row in rows:
                assert row.problem is not None  # validated
                merged.setdefault(device, {}).setdefault(row.problem.kinds, row)
    return {device: tuple(rows.values()) for device, rows in merged.items()}


def _best(group: list[Entry]) -> list[Entry]:
    if any(e.origin != "modelled" for e in group):
        group = [e for e in group if e.origin != "modelled"]
    kept: dict[tuple[str, str], Entry] = {}
    for entry in sorted(group, key=lambda e: e.order):
        kept.setdefault((entry.config.key, entry.toolchain), entry)  # the same trial again: the better one
    rows = list(kept.values())
    return [row for row in rows if not any(is_faster(other, row) for other in rows)]


def is_faster(one: Entry, other: Entry) -> bool:
    """Whether both were measured by the same toolchain, and the intervals ``best_us +- ci95`` say that one is."""
    if one.origin != "measured" or other.origin != "measured" or one.toolchain != other.toolchain:
        return False
    if one.best_us is None or other.best_us is None:
        return False
    return one.best_us + (one.ci95 or 0.0) < other.best_us - (other.ci95 or 0.0)


def _wider(
    one: Mapping[str, Mapping[str, tuple[int, int]]], other: Mapping[str, Mapping[str, tuple[int, int]]]
) -> dict[str, dict[str, tuple[int, int]]]:
    result = {device: dict(sizes) for device, sizes in one.items()}
    for device, sizes in other.items():
        mine = result.setdefault(device, {})
        for name, (low, high) in sizes.items():
            before = mine.get(name, (low, high))
            mine[name] = (min(low, before[0]), max(high, before[1]))
    return result


def _merged_validators(ours: Table, theirs: Table) -> tuple[Validator, ...]:
    """Both tables' validators. Rows keep their own toolchain, so that two versions of a tool are no conflict."""
    merged = dict.fromkeys((*ours.validators, *theirs.validators))
    required: dict[str, str] = {}
    for v in merged:
        if v.level == "require" and required.setdefault(v.name, v.value) != v.value:
            raise TableError(
                "tables must require the same to be merged", got=f"{v.name} {required[v.name]} and {v.value}"
            )
    return tuple(sorted(merged, key=lambda v: (v.name, v.value, v.level)))


# ---- what changed ---------------------------------------------------------------------------------------------------


class Change(Enum):
    """The change of a device's row for a problem."""

    NEW = "new"
    GONE = "gone"
    BETTER = "better"
    WORSE = "worse"
    EQUAL = "equal"  # the times cannot be told apart
    OTHER = "other"  # not comparable: another toolchain, or not both measured


@dataclass(frozen=True, slots=True)
class RowChange:
    """The best rows of a device and problem before and after. ``old`` is None where it is new, ``new`` where gone."""

    kind: Change
    device: str
    problem: str
    old: Entry | None
    new: Entry | None

    @property
    def is_retuned(self) -> bool:
        """Whether another config is served, or the binary comes from another toolchain."""
        if self.old is None or self.new is None:
            return True
        return (self.old.config, self.old.toolchain) != (self.new.config, self.new.toolchain)


def compare(old: Table, new: Table) -> Iterator[RowChange]:
    """The change of each device's row for each problem, from ``old`` to ``new``; versions of the kernel may differ.

    Raises TableError for tables of two kernels.
    """
    require_table(old)
    require_table(new)
    if old.kernel.ref != new.kernel.ref:
        raise TableError("tables must be of one kernel to be compared", got=f"{old.kernel.ref} and {new.kernel.ref}")
    before, after = _best_by_call(old), _best_by_call(new)
    for device, problem in sorted(before.keys() | after.keys()):
        was, now = before.get((device, problem)), after.get((device, problem))
        yield RowChange(_change(was, now), device, problem, was, now)


def _best_by_call(table: Table) -> dict[tuple[str, str], Entry]:
    best: dict[tuple[str, str], Entry] = {}
    for entry in sorted(table.entries, key=lambda e: e.order):
        best.setdefault((entry.device, entry.problem.key), entry)
    return best


def _change(was: Entry | None, now: Entry | None) -> Change:
    if was is None or now is None:
        return Change.NEW if was is None else Change.GONE
    if (was.config, was.best_us, was.toolchain) == (now.config, now.best_us, now.toolchain):
        return Change.EQUAL
    if was.toolchain != now.toolchain or {was.origin, now.origin} != {"measured"}:
        return Change.OTHER
    if is_faster(now, was):
        return Change.BETTER
    return Change.WORSE if is_faster(was, now) else Change.EQUAL
