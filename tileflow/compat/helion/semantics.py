"""What the same text means otherwise in the dialect: found in the IR, and said with its place."""

from __future__ import annotations

from ...ir.attributes import AccessAttrs
from ...ir.graph import Op, ValueIndex
from ...ir.kinds import OpKind
from ...lowered import Lowered
from . import notes


def flag_differences(lowered: Lowered) -> None:
    """Warn about every access with several 1-D index tiles of one loop: an outer product there, element by element
    here (as in torch)."""
    for ir in lowered.regions:
        for op in ir.walk():
            if op.kind in (OpKind.LOAD, OpKind.STORE) and _goes_together(op):
                notes.once(
                    f"{op.loc or lowered.host.fn.__name__}: several index tiles of one loop",
                    "they go together element by element; insert dimensions with None for an outer product",
                )


def _goes_together(op: Op) -> bool:
    vectors = [i.axes for i in AccessAttrs.of(op).index if isinstance(i, ValueIndex) and len(i.axes) == 1]
    return len(vectors) > len(set(vectors))
