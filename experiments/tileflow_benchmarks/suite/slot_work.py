"""The work of a slot's process in a benchmark run: cells, the host's share of a call, and peers' own searches."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..process_pool import Retry, Slot, Work
from . import helion_peer
from .cells import Cell
from .helion_peer import Effort
from .opponent import Peer
from .results import DEFAULT, EAGER, OURS, CellResult, Timing, Tuned

PEERS = ("triton", "liger", "quack", "helion")


@dataclass(frozen=True, slots=True)
class Settings:
    """A run's settings. ``peers``: names in PEERS; ``compile_s``: see :class:`.measure.Bench`; ``effort``: Helion's."""

    tables: Path | None = None
    peers: Sequence[str] = ()
    peer_configs: Path | None = None
    compile_s: float = 120.0
    tune_s: float = 0.0
    effort: Effort = "quick"
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class CellJob:
    """Measure a cell. ``skip``: contenders that ended their process -> how."""

    cell: Cell
    skip: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostCalls:
    """Measure the host's share of a warm call instead of a cell."""


@dataclass(frozen=True, slots=True)
class Host:
    """The host's share of a call: shapes in turn -> contender -> microseconds, or why not."""

    table: Mapping[str, Mapping[str, float | str]]


def measuring(settings: Settings, slot: Slot) -> Work:
    """Prepare a process to measure cells: load tables, import peers, measure the device's ceilings."""
    from tileflow import runtime

    from .host_calls import host_calls
    from .measure import Bench, ceilings, run_cell

    if settings.tables is not None:
        runtime.load(settings.tables)
    limits = None if settings.is_dry else ceilings()
    bench = Bench(peers(settings), settings.compile_s, limits, settings.is_dry)

    def work(job: CellJob | HostCalls, tell: Callable[[str], None]) -> CellResult | Host:
        if isinstance(job, HostCalls):
            tell("host calls")
            return Host(host_calls(settings))
        return run_cell(job.cell, bench, tell, job.skip)

    return work


def lost(job: CellJob | HostCalls, phase: str, why: str) -> CellResult | Host | Retry[CellJob | HostCalls]:
    """Return a retry without the contender that was at work; where that was ours, or unknown, the cell has failed.

    A process that ends while all are timed in turn names nobody: then ours and eager alone are tried again.
    """
    if isinstance(job, HostCalls):
        return Host({"1": {OURS: why}})
    known = {OURS, *job.skip}
    suspects = {DEFAULT, EAGER, *PEERS, "torch.compile"} - known
    if phase == "timing" and suspects - {DEFAULT, EAGER}:
        return Retry(CellJob(job.cell, {**job.skip, **dict.fromkeys(suspects - {DEFAULT, EAGER}, f"timing: {why}")}))
    if phase in suspects:
        return Retry(CellJob(job.cell, {**job.skip, phase: why}))
    return CellResult(
        job.cell, {OURS: Timing(error=f"{phase}: {why}"), **{n: Timing(error=e) for n, e in job.skip.items()}}
    )


def peers(settings: Settings) -> list[Peer]:
    """Return the peers asked for. Raises ImportError, which names the one that is not there."""
    from . import triton_kernels

    found = []
    for name in settings.peers:
        if name == "triton":
            found.append(triton_kernels.peer())
        elif name == "liger":
            from . import liger_peer

            found.append(liger_peer.peer())
        elif name == "quack":
            from . import quack_peer

            found.append(quack_peer.peer())
        elif name == "helion":
            found.append(helion_peer.peer(read_configs(settings.peer_configs)))
    return found


def read_configs(path: Path | None) -> dict[str, Tuned]:
    """Return what ``tune-peers`` wrote for Helion, by a cell's title."""
    if path is None:
        return {}
    return {title: Tuned(**found) for title, found in json.loads(path.read_text())["helion"].items()}


def tuning(settings: Settings, slot: Slot) -> Work:
    """Prepare a process to run Helion's own search."""

    def work(cell: Cell, tell: Callable[[str], None]) -> tuple[Cell, Tuned | None]:
        tell("helion")
        return cell, helion_peer.tune(cell, settings.tune_s, settings.effort, len(slot.cores))

    return work


def search_lost(cell: Cell, phase: str, why: str) -> tuple[Cell, Tuned | None]:
    """Return a search without a config, whose error says in which phase its process ended."""
    return cell, Tuned(None, 0.0, 0, f"{phase}: {why}")
