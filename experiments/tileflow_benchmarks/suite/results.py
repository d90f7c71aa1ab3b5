"""The results of a benchmark run, as plain values that cross processes and become JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .cells import Cell

OURS, DEFAULT, EAGER = "tileflow", "default", "eager"


@dataclass(frozen=True, slots=True)
class Timing:
    """One contender of one cell.

    ``median_us``, ``ci95_us``: device time of a call with a cold L2. ``host_us``: host time of a warm call.
    ``max_err``: largest error over the tolerance, at most 1 passes. ``setup_s``: seconds until it could be called
    (compiling). ``error``: why its time does not count. ``note``: what to know of a time that counts.
    """

    median_us: float | None = None
    ci95_us: float | None = None
    host_us: float | None = None
    max_err: float | None = None
    setup_s: float | None = None
    error: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What a card reaches in this run: GB/s of copying (read + written), and TFLOP/s of a bf16 product of 8192
    cubed."""

    copy_gbps: float
    matmul_tflops: float


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell on one device: its traffic, that device's ceilings, and the timing of each contender."""

    cell: Cell
    timings: Mapping[str, Timing]
    bytes: int = 0
    flops: int = 0
    flop_dtype: str = "float32"
    ceilings: Ceilings | None = None
    device: str = ""

    def us(self, name: str) -> float | None:
        """Return the contender's median, or None where it has none that counts."""
        timing = self.timings.get(name)
        return timing.median_us if timing is not None and not timing.error else None


@dataclass(frozen=True, slots=True)
class Tuned:
    """A peer's own search for one cell.

    ``tried``: configs that it tested. ``error``: why it found none. ``effort``: the peer's name of its thoroughness.
    """

    config: Mapping[str, Any] | None
    seconds: float
    tried: int
    error: str = ""
    effort: str = "full"


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A whole run. ``dispatch``: shapes in turn -> contender -> microseconds of host time, or why not."""

    header: Mapping[str, Any]
    results: Sequence[CellResult]
    unmeasured: Sequence[Cell] = ()
    dispatch: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data that :func:`run_from` reads back."""
        return asdict(self)


def run_from(data: Mapping[str, Any]) -> SuiteRun:
    """Read :meth:`SuiteRun.to_json` back, through JSON."""
    results = []
    for row in data["results"]:
        timings = {name: Timing(**timing) for name, timing in row["timings"].items()}
        limits = None if row["ceilings"] is None else Ceilings(**row["ceilings"])
        results.append(CellResult(**{**row, "cell": _cell(row["cell"]), "timings": timings, "ceilings": limits}))
    return SuiteRun(data["header"], results, [_cell(c) for c in data["unmeasured"]], data["dispatch"])


def _cell(data: Mapping[str, Any]) -> Cell:
    return Cell(data["kernel"], tuple((name, value) for name, value in data["problem"]), data["bound"])
