"""Float32 products by the matrix units, which take no float32: each operand as a sum of shorter numbers.

Three tf32 products of operands in two parts (``tf32x3``; Ootomo and Yokota, 2022, arXiv:2203.03341) or six bfloat16
products of operands in three (``bf16x6``; Henry et al., 2019, arXiv:1904.06376) leave out what lies below float32's
last bits. Sums in float32 lose more than that unless they are short: measured on an H200 against float64 over 4096
elements, both are off by a fifth of what multiply-adds in float32 are off by, cuBLAS's among them.

Numbers of 3.39e38 and more round to infinity in the shorter types.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..config import Knob
from ..ir.analysis import in_full_precision, tile_length
from ..ir.attributes import site_of
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..target import Target
from .knobs import PRECISION

# Elements. Multiply-adds in float32 are off by 2**-24 times the root of a sixth of them (1.4e-6 measured over 4096),
# parts by 3e-7 there: shorter sums were not measured, and may be nearer to the exact result without parts.
LEAST_SUMMED = 512


def in_parts(ir: KernelIR, op: Op, target: Target) -> bool:
    """Whether the matrix units may do a product of float32 operands in parts."""
    if op.kind is not OpKind.DOT or not in_full_precision(op) or op.values[0].type.dtype != "float32":
        return False
    inner = op.values[0].dims[-1]
    if inner.tile is not None:
        length = tile_length(ir, inner.tile)
    else:
        length = ir.hint(inner.extent) if inner.extent.symbols() <= ir.hints.keys() else 0
    return target.has_wgmma and length >= LEAST_SUMMED


def precision_knobs(ir: KernelIR, target: Target) -> Iterator[Knob]:
    """How each product of float32 operands is computed."""
    for op in ir.walk():
        if in_parts(ir, op, target):
            yield PRECISION.at(site_of(op))
