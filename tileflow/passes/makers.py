"""The ops that values come from, as passes that look for a form in a region go back along them."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import Op
from ..ir.types import Value

Makers = Mapping[Value, Op]  # the op of each value of a block


def function_of(op: Op | None) -> str:
    """The pointwise function that an op computes; empty for any other op, and for none."""
    return op.attrs.fn if op is not None and isinstance(op.attrs, PointwiseAttrs) else ""
