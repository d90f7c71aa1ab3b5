"""Names that the space and the emission agree on, and choices of powers of two."""

from __future__ import annotations

import re

from ..ir.graph import CUT, KernelIR
from ..passes.roll import ROW

_REDUCTION = "reduce:"
_REGION = re.compile(r"@(\d+)")


def suffixed(ir: KernelIR, knob: str) -> str:
    """The name of a knob or site of this region: regions after the first have ``@<region>`` behind it."""
    return f"{knob}@{ir.region}" if ir.region else knob


def region_of(knob: str) -> int:
    """The region that a knob of this name belongs to; 0 for those that host code asks for, which belong to all."""
    found = _REGION.search(knob)
    return int(found[1]) if found else 0


def is_block(symbol: str) -> bool:
    """Whether a symbol is the size of a loop's blocks, the author's or the compiler's."""
    return symbol.startswith(("block:", CUT))


def loop_site(ir: KernelIR, tile: str) -> str:
    """The site of a loop over ``tile``: ``loop:tile_k``. All the loops that a reduction or a stored row is rolled into
    are one site, named after it: ``loop:max#0``, ``loop:row:out#0:1``."""
    if tile.startswith((_REDUCTION, ROW)):
        return rolled_site(tile.rpartition(".")[0])
    return suffixed(ir, f"loop:{tile}")


def rolled_site(reduction: str) -> str:
    """The site of the loops that the reduction, or the stored row, of this site is rolled into."""
    return f"loop:{reduction.removeprefix(_REDUCTION)}"


def powers(low: int, high: int) -> tuple[int, ...]:
    """The powers of two from ``low`` to ``high``; at least one."""
    first = 1 << max(low - 1, 0).bit_length()
    return tuple(1 << n for n in range(first.bit_length() - 1, max(high, first).bit_length()))
