"""The contents of the suite's binaries, read from their machine code without a GPU.

The first variant of every launch is read: registers, spills, shared memory, occupancy, and by instruction (NVIDIA's
SASS) how wide its loads and stores of global memory are, which of them the copy engine does, the matrix units'
instructions, and accesses of local memory.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow.api import load_kernel
from tileflow.build import compat
from tileflow.build.compile import build
from tileflow.build.resources import occupancy
from tileflow.emit.source import TritonSource
from tileflow.runtime.abi import Binary
from tileflow.runtime.registry import load
from tileflow.runtime.table_lookup import lookup
from tileflow.target import Target, target

from .cells import Cell

# an instruction's first word, by what it does; widths and the copy engine's boxes are told apart in each
_GLOBAL = {
    "LDG": "loads",
    "LD": "loads",
    "LDGSTS": "loads",
    "UTMALDG": "loads",
    "STG": "stores",
    "ST": "stores",
    "UTMASTG": "stores",
    "UBLKCP": "loads",
}
_MATRIX = {"HGMMA": "wgmma", "QGMMA": "wgmma", "IGMMA": "wgmma", "HMMA": "mma", "QMMA": "mma", "IMMA": "mma"}
_ATOMIC = {"RED", "REDG", "ATOM", "ATOMG", "UTMAREDG"}
_LOCAL = {"LDL", "STL"}
_WIDTH = re.compile(r"\.(?:[US])?(8|16|64|128)\b")
_LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BinaryFacts:
    """The facts of one launch of a cell.

    ``loads``, ``stores``: of global memory, by ``128``, ``64`` ... bits a thread, ``box`` for the copy engine.
    ``others``: matrix instructions by kind, atomics, and accesses of local memory.
    """

    cell: str
    config: str
    launch: str
    registers: int
    spills: int
    shared: int
    warps: int
    occupancy: float
    loads: Counter[str]
    stores: Counter[str]
    others: Counter[str]


def of_suite(cells: Sequence[Cell], device: str, tables: Path | None, processes: int) -> Iterator[BinaryFacts]:
    """Yield the facts of every launch, in the order of the cells.

    ``tables``: the configs of their rows are built where they have a cell's own; elsewhere, and without, the default
    config.
    """
    loading: dict[str, Any] = {} if tables is None else {"initializer": load, "initargs": (tables,)}
    with ProcessPoolExecutor(processes, **loading) as pool:
        for found in pool.map(of_cell, cells, [device] * len(cells)):
            yield from found


def of_cell(cell: Cell, device: str) -> list[BinaryFacts]:
    """Return the facts of one cell, built by the row of this very problem in the loaded tables, if there is one."""
    on, kernel = target(device), load_kernel(cell.kernel)
    sizes: dict[str, Any] = dict(cell.problem)
    lowered = kernel.lower(kernel.inputs(device="meta", **sizes), on)
    config, whose = lowered.default, "default"
    hit = lookup(kernel.name, kernel.semantic_hash, lowered.problem, device)
    if hit is not None and hit.step == "exact":
        config, whose = lowered.space.adapt(hit.config.to_dict()), "tuned"
    first: dict[int, TritonSource] = {}
    for source in lowered.emit(config):
        first.setdefault(source.region, source)
    return [_facts(cell.title, whose, build(source, on), on) for source in first.values()]


def _facts(title: str, config: str, binary: Binary, on: Target) -> BinaryFacts:
    loads, stores, others = instructions(disassembly(binary.code)) if on.vendor == "nvidia" else _mix(binary)
    resources = binary.resources
    return BinaryFacts(
        title,
        config,
        binary.abi.symbol,
        resources.registers,
        resources.spills,
        resources.shared,
        resources.threads // on.warp_size,
        occupancy(resources, on),
        loads,
        stores,
        others,
    )


def disassembly(cubin: bytes) -> str:
    """Return the SASS of a cubin. Raises CalledProcessError where nvdisasm fails."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [compat.tool("nvdisasm"), "-c", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def instructions(sass: str) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return loads and stores of global memory by width, and the other counts of :class:`BinaryFacts`."""
    found: dict[str, Counter[str]] = {"loads": Counter(), "stores": Counter(), "others": Counter()}
    for text in _LINE.findall(sass):
        name, _, rest = text.partition(".")
        if name in _GLOBAL:
            wide = _WIDTH.search(f".{rest}")
            kind = "box" if name.startswith(("UTMA", "UBLK")) else wide[1] if wide else "32"
            found[_GLOBAL[name]][kind] += 1
        elif name in _MATRIX:
            found["others"][_MATRIX[name]] += 1
        elif name in _ATOMIC:
            found["others"]["atomic"] += 1
        elif name in _LOCAL:
            found["others"]["local"] += 1
    return found["loads"], found["stores"], found["others"]


def _mix(binary: Binary) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return AMD's counts, by the class of its assembly's mnemonics and without widths."""
    mix = dict(binary.resources.instructions)
    loads, stores = (Counter({"any": mix.pop(name, 0)}) for name in ("load_global", "store_global"))
    return loads, stores, Counter({name: mix[name] for name in ("mma", "atomic", "spill") if name in mix})


def to_markdown(facts: Sequence[BinaryFacts]) -> str:
    """Return a table with a row per launch."""
    lines = [
        "| cell | config | launch | registers | spilled bytes | shared bytes | warps | occupancy | global loads | "
        "global stores | besides |",
        "|---|---|---|---:|---:|---:|---:|---:|---|---|---|",
    ]
    for f in facts:
        lines.append(
            f"| {f.cell} | {f.config} | {f.launch} | {f.registers} | {f.spills} | {f.shared} | {f.warps} | "
            f"{f.occupancy:.0%} | {_counted(f.loads)} | {_counted(f.stores)} | {_counted(f.others)} |"
        )
    return "\n".join(lines) + "\n"


def _counted(counts: Counter[str]) -> str:
    wide = sorted((kind for kind in counts if kind.isdigit()), key=int, reverse=True)
    kinds = [*wide, *sorted(kind for kind in counts if not kind.isdigit())]
    return ", ".join(f"{counts[kind]} x {kind}" for kind in kinds if counts[kind])
