"""Float32 products by the matrix units, which take no float32: each operand as a sum of shorter numbers.

Three tf32 products of operands in two parts (``tf32x3``; Ootomo and Yokota, 2022, arXiv:2203.03341) or six bfloat16
products of operands in three (``bf16x6``; Henry et al., 2019, arXiv:1904.06376) leave out what lies below float32's
last bits. Sums in float32 lose more than that unless they are short. Measured on an H200 against float64, for normal,
uniform and positive numbers: six bfloat16 products are off by less than multiply-adds in float32, cuBLAS's among them,
for every length (0.65 of it over 16 elements, a fifth over 4096); three tf32 products are off by up to 1.6 times as
much over 16 to 64 elements, and by less from 96 on.

Numbers of 3.39e38 and more round to infinity in the shorter types.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from ..config import Constraint, Knob
from ..expr import Expr
from ..ir.analysis import in_full_precision, tile_length
from ..ir.attributes import site_of
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..target import Target
from .extents import Extents
from .knobs import PRECISION

OF_ANY_LENGTH = "bf16x6"  # of whatever sums an instruction takes
# elements that a sum has at least: the fewest of an instruction, and where the error is no larger than multiply-adds'
LEAST_SUMMED = {"tf32x3": 128, "bf16x6": 16}
# columns of a whole result: of 16, after another product and summed over 64 or more, ptxas makes wrong code, which
# reads elsewhere too (Triton 3.6, H100, 2026-11-26; right without its optimisation, and of tf32 parts)
LEAST_COLUMNS = {"tf32x3": 1, "bf16x6": 32}


def parts_of_product(ir: KernelIR, op: Op, target: Target) -> tuple[str, ...]:
    """The parts in which the matrix units may take a product's float32 operands; none where it is done otherwise."""
    if op.kind is not OpKind.DOT or not in_full_precision(op) or op.values[0].type.dtype != "float32":
        return ()
    if not target.has_wgmma:
        return ()
    inner = op.values[0].dims[-1]
    if inner.tile is not None:
        length = tile_length(ir, inner.tile)
    else:
        length = ir.hint(inner.extent) if inner.extent.symbols() <= ir.hints.keys() else 0
    last = op.values[1].dims[-1]
    is_whole = last.tile is None and last.extent.symbols() <= ir.hints.keys()
    columns = ir.hint(last.extent) if is_whole else max(LEAST_COLUMNS.values())
    fitting = (parts for parts, least in LEAST_SUMMED.items() if length >= least)
    return tuple(parts for parts in fitting if columns >= LEAST_COLUMNS[parts])


def columns_fit(ir: KernelIR, extents: Extents, knobs: Mapping[str, Knob]) -> Iterator[Constraint]:
    """Parts that results of few columns have not, where a block size says how many there are."""
    for op in ir.walk():
        name = PRECISION.name(site_of(op)) if op.kind is OpKind.DOT else ""
        for parts, least in LEAST_COLUMNS.items() if name in knobs else ():
            columns = extents.of(op.values[1].dims[-1])
            fits = PRECISION.symbol(site_of(op)).ne(PRECISION.encoded(parts)).or_(Expr.of(least).le(columns))
            if parts in knobs[name].choices and columns.constant is None:
                yield Constraint(
                    f"columns of {site_of(op)} in {parts}",
                    fits,
                    ((name, "down"),),
                    f"a product in the parts {parts} has at least {least} columns: of fewer ptxas makes wrong code",
                )


def parts_agree(ir: KernelIR, knobs: Mapping[str, Knob]) -> Iterator[Constraint]:
    """Products of one region that are all in the same parts, as far as they are in parts: where one was in three tf32
    and the next, of the same left operand, in six bfloat16, results were NaN by one stage, and by two or three memory
    of no tensor was read; both alike are right (Triton 3.6, H100, 2026-11-27)."""
    sites = [site_of(op) for op in ir.walk() if op.kind is OpKind.DOT and PRECISION.name(site_of(op)) in knobs]
    for one, other in itertools.combinations(sites, 2):
        for mine, theirs in itertools.permutations(LEAST_SUMMED, 2):
            choices = knobs[PRECISION.name(one)].choices, knobs[PRECISION.name(other)].choices
            if mine in choices[0] and theirs in choices[1]:
                differs = PRECISION.symbol(one).ne(PRECISION.encoded(mine))
                yield Constraint(
                    f"{mine} of {one} beside {theirs} of {other}",
                    differs.or_(PRECISION.symbol(other).ne(PRECISION.encoded(theirs))),
                    tuple((PRECISION.name(s), "down") for s in ((one, other) if mine == "bf16x6" else (other, one))),
                    f"products beside each other in the parts {mine} and {theirs} are wrong by Triton 3.6",
                )


def precision_knobs(ir: KernelIR, target: Target) -> Iterator[Knob]:
    """How each product of float32 operands is computed."""
    for op in ir.walk():
        parts = parts_of_product(ir, op, target)
        if parts:
            yield PRECISION.at(site_of(op), choices=(PRECISION.default, *parts))
