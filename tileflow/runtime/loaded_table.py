"""One loaded table, indexed by what lookups ask of it."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from ..lazy_dataclass import dataclass
from ..target import CATALOGUE, find, target
from .bundle import Bundle
from .table import Entry, Table

Step = Literal["override", "exact", "near", "sibling", "architecture", "arch_portfolio", "vendor_portfolio", "default"]
OnMiss = Literal["default", "compile", "reference", "error"]


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """One loaded table, indexed. ``origin``: the whole path that it was loaded from, empty for the user's folder;
    ``as_device``: answer as that class would, on any machine; ``on_miss``: None where the load named none."""

    table: Table
    bundle: Bundle | None
    origin: str
    as_device: str | None
    strict: bool
    on_miss: OnMiss | None
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
