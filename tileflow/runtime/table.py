"""The table: what a sweep found out, as one canonical JSON file. Data only; parsing needs neither torch nor Triton.

A table belongs to one kernel. Its *entries* are rows for one device class and one problem; the *portfolio* and the
*default* are configs for calls that no entry fits. ``table_id`` is the SHA-256 of everything else in the file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, Literal

from ..config import Config, ConfigSpace
from ..errors import TableError
from ..expr import Expr
from ..lazy_dataclass import dataclass
from ..locks import cached_property
from ..target import DeviceProperties, Target, described, find
from .abi import Binary, LaunchAbi, Resources
from .arguments import all_of, require
from .codec import Items, Text, decode, encode
from .limits import Region, check_grid, check_symbols
from .problem import Problem, TensorSpec

SCHEMA_VERSION = 4
FIELDS_SINCE: Mapping[str, int] = {
    "unseen": 2,
    "defaults": 3,
}  # the schema version that has a field first, where that is not 1
ROW_FIELDS_SINCE: Mapping[str, int] = {"checked_against": 4}  # likewise of an entry

Level = Literal["require", "warn", "info"]
Origin = Literal["measured", "transferred", "portfolio", "modelled"]
KeyKind = Literal["exact", "bucket", "pow2", "ceil"]

ORIGINS: tuple[Origin, ...] = ("measured", "transferred", "portfolio", "modelled")  # best first


@dataclass(frozen=True, slots=True)
class Validator:
    """A version that the table was made with. ``require``: another one refuses the table; else it is said."""

    name: str
    value: str
    level: Level


@dataclass(frozen=True, slots=True)
class KernelId:
    """``module`` and qualified ``name`` of the kernel, and what its rows are rows of."""

    name: str
    module: str
    semantic_hash: str
    space_fingerprint: str = ""

    @staticmethod
    def of(ref: str, semantic_hash: str, space_fingerprint: str = "") -> KernelId:
        """The id of a kernel named ``module:qualname``."""
        module, _, name = ref.partition(":")
        return KernelId(name, module, semantic_hash, space_fingerprint)

    @property
    def ref(self) -> str:
        """The reference ``module:name``, by which the kernel is imported."""
        return f"{self.module}:{self.name}"


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device class as the sweep saw it. ``siblings``: whose rows it may borrow, in order. None: not known."""

    vendor: Literal["nvidia", "amd"]
    arch: str
    sm_or_cu_count: int
    mem_gb: int
    smem_per_block: int
    display_name: str = ""
    siblings: tuple[str, ...] = ()
    pci_device_id: str | None = None
    partition: str | None = None
    power_cap_w: float | None = None

    @staticmethod
    def of(entry: Target) -> DeviceInfo:
        """The entry of a catalogued target, under its first display name."""
        return DeviceInfo(
            entry.vendor,
            entry.arch,
            entry.sm_count,
            entry.mem_gb,
            entry.smem_per_block,
            entry.display_names[0] if entry.display_names else "",
            entry.siblings,
        )

    def target(self, name: str) -> Target:
        """The class ``name``: as this version knows it, else as the table describes it. Raises SpecError for an
        architecture that is none."""
        figures = DeviceProperties(
            self.display_name, self.vendor, self.arch, self.sm_or_cu_count, self.mem_gb << 30, self.smem_per_block
        )
        return find(name) or replace(described(figures), name=name, mem_gb=self.mem_gb)


@dataclass(frozen=True, slots=True)
class KeyField:
    """How a size may differ from a row's: ``exact`` not at all; ``pow2`` within one power of two; ``ceil`` the row's
    is at least as large; ``bucket`` freely, the nearest by logarithm wins."""

    name: str
    kind: KeyKind


@dataclass(frozen=True, slots=True)
class Requirement:
    """A constraint of the space with the config filled in: ``check`` is over ``target.*`` and the problem's sizes."""

    name: str
    check: Expr
    reason: str


@dataclass(frozen=True, slots=True)
class Variant:
    """One binary of one region. ``sha256``: its file in a bundle; None where only the config is known."""

    guards: Expr
    resources: Resources
    launch_abi: LaunchAbi
    target: Annotated[str, Text(128)]
    sha256: str | None = None
    mode: Literal["static", "dynamic"] = "static"

    def validate(self) -> None:
        """Raises TableError for a digest that is none, and for guards that name what a launch does not have."""
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise TableError("sha256 must be 64 hex digits", got=repr(self.sha256)[:80], where="sha256")
        check_symbols([self.guards], "guards")


@dataclass(frozen=True, slots=True)
class RegionLaunch:
    """The variants of one region, tried in order; ``grid`` is the first one's."""

    region: Region
    grid: tuple[Expr, Expr, Expr]
    variants: Annotated[tuple[Variant, ...], Items(0, 1024)]

    def validate(self) -> None:
        """Raises TableError where its grid cannot be launched."""
        check_grid(self.grid)


@dataclass(frozen=True, slots=True)
class Correct:
    """The check that the row passed: ``max_err`` relative to the tolerance's scale (at most 1)."""

    rtol: float
    atol: float
    max_err: float


@dataclass(frozen=True, slots=True)
class Entry:
    """The best config found for one problem on one device class. Times in microseconds of a whole call.

    ``ci95``: half-width of the median's 95 % interval, of ``n`` samples. ``noise_pct``: how much the canary moved.
    ``tie_set``: keys of configs that were not told apart. ``measured_on``: the device class that measured ``best_us``
    (empty where nothing did). ``toolchain``: rows of different toolchains are not compared. ``checked_against``: what
    its results were held against, where it was measured.
    """

    device: str
    problem: Problem
    config: Config
    origin: Origin
    best_us: float | None = None
    default_us: float | None = None
    ci95: float | None = None
    n: int = 0
    noise_pct: float | None = None
    tie_set: tuple[str, ...] = ()
    correct: Correct | None = None
    launches: tuple[RegionLaunch, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    measured_on: str = ""
    toolchain: str = ""
    trial_id: str = ""
    checked_against: str = ""

    def __repr__(self) -> str:
        """The row as a notebook shows it: what it is worth and its config, in a line."""
        times = [f"{us:.6g} us{what}" for us, what in ((self.best_us, ""), (self.default_us, " by default")) if us]
        choices = ", ".join(f"{knob}={choice}" for knob, choice in self.config.items)
        return f"<Entry of {self.device}, {self.origin}: {', '.join(times) or 'not timed'}; {choices}>"

    @property
    def order(self) -> tuple[str, str, int, float, str]:
        """Rows in the order of a file, and of preference among rows for the same call."""
        time = float("inf") if self.best_us is None else self.best_us
        return self.device, self.problem.key, ORIGINS.index(self.origin), time, self.config.key


@dataclass(frozen=True, slots=True)
class Fallback:
    """A config without a row: of an arch's portfolio, or (``arch`` empty) the default, safe everywhere.

    ``problem``: where it won; a portfolio's row is taken by its distance from there. ``reason``: why it is here.
    """

    config: Config
    vendor: str = ""
    arch: str = ""
    problem: Problem | None = None
    launches: tuple[RegionLaunch, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unseen:
    """How well problems are served that were left out in turn: the geometric mean of their time over their best, by the
    table's ``rows`` for shapes that nobody tuned, and by each one's own default config (``default``)."""

    problems: int
    rows: float
    default: float

    @property
    def by_default(self) -> bool:
        """Whether the default configs served such problems better than the table's rows did."""
        return self.default < self.rows


@dataclass(frozen=True, slots=True)
class CreatedBy:
    """The version of tileflow and the sweep that wrote a table; empty where it is not known."""

    tileflow: str = ""
    sweep_id: str = ""


@dataclass(frozen=True)  # without slots, for the digest is kept
class Table:
    """See the module. ``domain``: device class -> size -> (smallest, largest) tuned there. ``unseen``: by device class,
    where enough problems were measured there. ``defaults``: by device class, a row for each ``Problem.kinds``, whose
    variants together take any size, stride and alignment; ``default`` is a config alone, for who can compile."""

    kernel: KernelId
    devices: Mapping[str, DeviceInfo]
    entries: tuple[Entry, ...]
    domain: Mapping[str, Mapping[str, tuple[int, int]]]
    key_schema: tuple[KeyField, ...] = ()
    portfolio: tuple[Fallback, ...] = ()
    default: Fallback | None = None
    defaults: Mapping[str, tuple[Fallback, ...]] = field(default_factory=dict)
    unseen: Mapping[str, Unseen] = field(default_factory=dict)
    validators: tuple[Validator, ...] = ()
    created_by: CreatedBy = field(default_factory=CreatedBy)
    parent_table_id: str | None = None
    schema_version: int = SCHEMA_VERSION

    @staticmethod
    def of(kernel: KernelId, entries: Iterable[Entry], **other: Any) -> Table:
        """A table of ``entries``, sorted, with devices from the catalogue, domain and key schema from the entries."""
        require(kernel, KernelId, "a KernelId", "KernelId.of('module:qualname', semantic_hash)")
        given = all_of(entries, Entry, "rows (Entry)", "another table's are its entries")
        rows = tuple(sorted(given, key=lambda e: e.order))
        known = {e.device: find(e.device) for e in rows}
        devices = {name: DeviceInfo.of(device) for name, device in known.items() if device is not None}
        derived: dict[str, Any] = {"devices": devices, "domain": domain_of(rows), "key_schema": key_schema_of(rows)}
        table = Table(kernel, entries=rows, **(derived | other))
        validate(table)
        return table

    @cached_property
    def table_id(self) -> str:
        """SHA-256 of the canonical body: 64 hex digits."""
        text = json.dumps(body(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def body(table: Table) -> dict[str, Any]:
    """A table's JSON data but for the digest: the fields that its schema version has."""
    version = table.schema_version
    data = {name: value for name, value in encode(table).items() if FIELDS_SINCE.get(name, 1) <= version}
    for row in data["entries"]:
        for name in [name for name, since in ROW_FIELDS_SINCE.items() if since > version]:
            del row[name]
    return data


def domain_of(entries: Sequence[Entry]) -> dict[str, dict[str, tuple[int, int]]]:
    """The range of each size over the entries of each device class."""
    domain: dict[str, dict[str, tuple[int, int]]] = {}
    for entry in entries:
        sizes = domain.setdefault(entry.device, {})
        for name, size in entry.problem.sizes.items():
            low, high = sizes.get(name, (size, size))
            sizes[name] = (min(low, size), max(high, size))
    return domain


def key_schema_of(entries: Sequence[Entry]) -> tuple[KeyField, ...]:
    """All that a key consists of: sizes by bucket, everything else exactly."""
    kinds: dict[str, KeyKind] = {}
    for entry in entries:
        for name, spec in entry.problem.args:
            kinds.setdefault(name, "exact")
            if isinstance(spec, TensorSpec):
                kinds |= {f"{name}.shape.{i}": "bucket" for i in range(len(spec.shape))}
    return tuple(KeyField(name, kind) for name, kind in sorted(kinds.items()))


def launches_of(binaries: Iterable[Binary]) -> tuple[RegionLaunch, ...]:
    """The ``launches`` of a row whose regions are ``binaries``, in the order that their guards are tried in."""
    regions: dict[int, list[Binary]] = {}
    for binary in binaries:
        regions.setdefault(binary.region, []).append(binary)
    return tuple(
        RegionLaunch(
            region,
            variants[0].abi.grid,
            tuple(Variant(b.guards, b.resources, b.abi, b.target, b.sha256, b.mode) for b in variants),
        )
        for region, variants in sorted(regions.items())
    )


def requirements_of(space: ConfigSpace, config: Config, problem: Problem) -> tuple[Requirement, ...]:
    """The constraints of ``space`` under this ``config``, as another device and another shape must meet them.

    Knobs are filled in, and what else the space fixes; ``target.*`` and the problem's sizes stay symbols.
    """
    fixed = {n: v for n, v in space.environment if not n.startswith("target.") and n not in problem.sizes}
    values: dict[str, Expr | int] = dict(fixed)
    values |= {name: space.knob(name).encode(choice) for name, choice in config.items}
    filled = (Requirement(c.name, c.check.substitute(values), c.reason) for c in space.constraints)
    return tuple(r for r in filled if not r.check.constant)


# ---- validity -----------------------------------------------------------------------------------------------------


def validate(table: Table) -> None:
    """Raises TableError, with the place, for a table that could not be read again once it is written."""
    decode(Table, encode(table))
    validate_relations(table)


def validate_relations(table: Table) -> None:
    """Raises TableError for what types do not say: devices, keys and digests fit together."""
    for name, device in table.devices.items():
        _validate_device(name, device)
    seen = set()
    for i, entry in enumerate(table.entries):
        where = f"entries[{i}]"
        _validate_entry(table, entry, where)
        identity = (entry.device, entry.problem.key, entry.config.key, entry.toolchain)
        if identity in seen:
            raise TableError("a table must have one row for a device, key and config", got=identity[:2], where=where)
        seen.add(identity)
    for i, row in enumerate(table.portfolio):
        if not row.arch or not row.vendor:
            raise TableError("a portfolio's row must name vendor and arch", got=row.arch, where=f"portfolio[{i}]")
        _validate_launches(row.launches, f"portfolio[{i}]")
    if table.default is not None:
        _validate_launches(table.default.launches, "default")
    for name, defaults in table.defaults.items():
        _validate_defaults(table, name, defaults)
    for device_name, served in table.unseen.items():
        if served.problems < 1 or min(served.rows, served.default) < 1:
            raise TableError(
                "unseen problems must be some, and take at least their best time",
                where=f"unseen.{device_name}",
                got=f"{served.problems}, {served.rows}, {served.default}",
            )
    for device_name, sizes in table.domain.items():
        for size, (low, high) in sizes.items():
            if low > high:
                raise TableError("a domain must run from low to high", got=(low, high), where=f"{device_name}.{size}")


def _validate_device(name: str, device: DeviceInfo) -> None:
    where = f"devices.{name}"
    if not device.arch or device.sm_or_cu_count < 1:
        raise TableError(
            "a device must have both its arch and its number of SMs or CUs",
            got=f"{device.arch!r}, {device.sm_or_cu_count}",
            where=where,
        )
    known = find(name)
    if known and (device.vendor, device.arch, device.sm_or_cu_count) != (known.vendor, known.arch, known.sm_count):
        raise TableError(
            f"{name} must be {known.vendor} {known.arch} with {known.sm_count} SMs or CUs",
            got=f"{device.vendor} {device.arch} with {device.sm_or_cu_count}",
            where=where,
        )
    for sibling in device.siblings:
        other = find(sibling)
        if other is not None and other.vendor != device.vendor:
            raise TableError("a sibling must be of the same vendor", got=sibling, where=where)


def _validate_defaults(table: Table, name: str, rows: tuple[Fallback, ...]) -> None:
    where = f"defaults.{name}"
    device = table.devices.get(name)
    if device is None:
        raise TableError("a default's device must be among the table's devices", got=name, where=where)
    kinds = set()
    for row in rows:
        if (row.vendor, row.arch) != (device.vendor, device.arch):
            raise TableError(
                f"a default of {name} must be of {device.vendor} {device.arch}",
                got=f"{row.vendor} {row.arch}",
                where=where,
            )
        if row.problem is None or row.problem.kernel != table.kernel.ref:
            raise TableError(
                f"a default must say for which kinds of arguments of {table.kernel.ref} it is",
                got=row.problem,
                where=where,
            )
        if row.problem.kinds in kinds:
            raise TableError(
                "a device must have one default for each kinds of arguments", got=row.problem.kinds, where=where
            )
        kinds.add(row.problem.kinds)
        _validate_launches(row.launches, where)


def _validate_entry(table: Table, entry: Entry, where: str) -> None:
    if entry.device not in table.devices:
        raise TableError("a row's device must be among the table's devices", got=entry.device, where=where)
    if entry.problem.kernel != table.kernel.ref:
        raise TableError(f"a row must be of the kernel {table.kernel.ref}", got=entry.problem.kernel, where=where)
    if entry.best_us is not None and entry.best_us <= 0:
        raise TableError("best_us must be positive", got=entry.best_us, where=where)
    if entry.origin == "measured" and (entry.measured_on != entry.device or entry.best_us is None or entry.n < 1):
        raise TableError(
            "a measured row must have been measured on its own device, with best_us and n",
            where=where,
            got=f"measured_on {entry.measured_on!r}, device {entry.device!r}, best_us {entry.best_us}, n {entry.n}",
        )
    _validate_launches(entry.launches, where)


def _validate_launches(launches: tuple[RegionLaunch, ...], where: str) -> None:
    regions = [launch.region for launch in launches]
    if len(set(regions)) != len(regions):
        raise TableError("each launch of a row must have a number of its own", got=regions, where=where)
