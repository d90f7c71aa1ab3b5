"""Writes the fixtures beside it: ``git worktree add OLD 1d0fe62; PYTHONPATH=OLD python tests/data/formats/write.py``.

Run once, with the tileflow of commit 1d0fe62 (Triton 3.7.1), to hold what that wrote: a table of schema version 2
without machine code, and a bundle of schema version 1 with launch ABIs of versions 1 and 2. Nothing runs it again.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.runtime import (
    Binary,
    Correct,
    CreatedBy,
    Entry,
    Fallback,
    KernelId,
    Table,
    Validator,
    dump_table,
    launches_of,
    requirements_of,
    write_bundle,
)
from tileflow.target import target

HERE = Path(__file__).parent
DEVICE = target("nvidia-h200")


def built(kernel: Kernel, args: Any, changes: dict[str, Any], modes: tuple[str, ...]) -> tuple[Any, Config, Any]:
    """(the call lowered, its config, its binaries in the order in which they are tried)."""
    lowered = kernel.lower(args, DEVICE)
    config = lowered.space.adapt(lowered.default.to_dict() | changes)
    assert changes.items() <= config.to_dict().items(), config
    binaries: list[Binary] = []
    for mode in modes:
        binaries += [build(source, DEVICE) for source in kernel.lower(args, DEVICE, mode).emit(config)]
    return lowered, config, binaries


def table(
    kernel: Kernel, problem: dict[str, Any], fallback: dict[str, Any], changes: dict[str, Any], *modes: str
) -> tuple[Table, list[Binary]]:
    """A measured and a modelled row, a portfolio's and the default, each with what it may carry."""
    args = kernel.inputs(device="meta", **problem)
    lowered, config, binaries = built(kernel, args, changes, modes)
    row = Entry(
        DEVICE.name, lowered.problem, config, "measured", 12.5, 20.0, 0.25, 9, 0.5, ("tied=1",),
        Correct(1e-2, 1e-3, 0.5), launches_of(binaries), requirements_of(lowered.space, config, lowered.problem),
        DEVICE.name, "triton 3.7.1", "trial-1",
    )  # fmt: skip
    other = kernel.lower(kernel.inputs(device="meta", **fallback), DEVICE)
    modelled = Entry(DEVICE.name, other.problem, other.default, "modelled", 30.0)
    away, _, generic = built(kernel, kernel.inputs(device="meta", **fallback), {}, ("dynamic",))
    fallbacks = [
        Fallback(away.default, vendor, arch, problem, launches,
                 requirements_of(away.space, away.default, away.problem), reason)
        for vendor, arch, problem, launches, reason in (
            ("nvidia", "sm_90a", away.problem, (), "the portfolio"), ("", "", None, launches_of(generic), "safe"),
        )
    ]  # fmt: skip
    found = Table.of(
        KernelId.of(kernel.name, kernel.semantic_hash, lowered.space.fingerprint), [row, modelled],
        portfolio=(fallbacks[0],), default=fallbacks[1], validators=(Validator("triton", "3.7.1", "warn"),),
        created_by=CreatedBy("0.1.0", "formats"),
    )  # fmt: skip
    return found, [*binaries, *generic]


def bare(found: Table) -> Table:
    """Without machine code, as ``tileflow sweep export`` writes a table."""
    strip = [dataclasses.replace(row, launches=()) for row in found.entries]
    portfolio = tuple(dataclasses.replace(row, launches=()) for row in found.portfolio)
    assert found.default is not None
    return dataclasses.replace(
        found, entries=tuple(strip), portfolio=portfolio, default=dataclasses.replace(found.default, launches=())
    )


def main() -> None:
    add, add_code = table(
        load_kernel("format_kernels:add"), {"n": 4096}, {"n": 1000}, {"block:tile": 256}, "static", "dynamic"
    )
    normalised, code = table(
        load_kernel("format_kernels:normalised"), {"m": 256, "n": 512}, {"m": 100, "n": 300},
        {"load:x#0@1.access": "descriptor", "block:tile_m@1": 16, "block:tile_n@1": 64}, "static",
    )  # fmt: skip
    dump_table(bare(add), HERE / "table_of_schema_2.json")
    write_bundle([add, normalised], [*add_code, *code], HERE / "bundle_of_schema_1")


if __name__ == "__main__":
    main()
