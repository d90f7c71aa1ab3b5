"""Hand-written TritonSources that the tests of build, measure and the GPU share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tileflow.config import Choice
from tileflow.emit.source import TritonSource
from tileflow.expr import TRUE, Expr
from tileflow.runtime.abi import LaunchArg

_HEADER = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"

_ADD = (
    _HEADER
    + """def add(x, y, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) * scale + tl.load(y + i, mask=m), mask=m)
"""
)
_DOT = (
    _HEADER
    + """def dot(x, y, out, K, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(x + i[:, None] * K + (k + i)[None, :])
        b = tl.load(y + (k + i)[:, None] * BLOCK + i[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(out + i[:, None] * BLOCK + i[None, :], acc.to(tl.bfloat16))
"""
)
_CENTRE = (
    _HEADER
    + """def centre(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, v - tl.sum(v) / BLOCK)
"""
)


def tensor(name: str, type_: str, *, aligned: bool = True) -> LaunchArg:
    return LaunchArg(name, "tensor", type_, path=name, divisible_by_16=aligned)


def vector_add(block: int = 1024, *, body: str = _ADD, region: int = 0, **options: Choice) -> TritonSource:
    """``out = x * scale + y``; the size is a run-time argument."""
    n = Expr.sym("x.shape.0")
    return TritonSource(
        name="add",
        region=region,
        text=body,
        args=(
            tensor("x", "*fp32"), tensor("y", "*fp32"), tensor("out", "*fp32"),
            LaunchArg("n", "int", "i32", value=n),
            LaunchArg("scale", "float", "fp32", path="scale"),
        ),
        constexprs=(("BLOCK", block),),
        options=tuple({"num_warps": 4, **options}.items()),
        grid=(n.cdiv(block), Expr.of(1), Expr.of(1)),
        guards=n.eq(Expr.sym("y.shape.0")),
        mode="dynamic",
        lines=(0, 0, 0, 0, 0, 10, 11, 12, 13),
    )  # fmt: skip


def add_with(find: str, replace: str, **options: Choice) -> TritonSource:
    """Vector add with one change of its text: a planted mistake."""
    assert find in _ADD
    return vector_add(body=_ADD.replace(find, replace), **options)


def dot(block: int = 64, **options: Choice) -> TritonSource:
    """``out = x @ y``, (BLOCK, K) times (K, BLOCK), in bfloat16, one program."""
    return TritonSource(
        name="dot",
        region=0,
        text=_DOT,
        args=(
            tensor("x", "*bf16"), tensor("y", "*bf16"), tensor("out", "*bf16"),
            LaunchArg("K", "int", "i32", value=Expr.sym("x.shape.1"), divisible_by_16=True),
        ),
        constexprs=(("BLOCK", block),),
        options=tuple({"num_warps": 4, "num_stages": 3, **options}.items()),
        grid=(Expr.of(1), Expr.of(1), Expr.of(1)),
        guards=TRUE,
    )  # fmt: skip


def centre(block: int = 4096, **options: Choice) -> TritonSource:
    """``out = x - x.mean()`` in one warp, 128 values a thread kept in registers; a cap on them makes it spill."""
    return TritonSource(
        "centre", 0, _CENTRE, (tensor("x", "*fp32"), tensor("out", "*fp32")), (("BLOCK", block),),
        tuple({"num_warps": 1, **options}.items()), (Expr.of(1), Expr.of(1), Expr.of(1)), TRUE,
    )  # fmt: skip


def with_args(
    source: TritonSource, *, divisible_by_16: bool | None = None, order: Sequence[int] | None = None
) -> TritonSource:
    """``source`` with its arguments reordered, or with another promise of their alignment."""
    args = source.args if order is None else tuple(source.args[i] for i in order)
    if divisible_by_16 is not None:
        args = tuple(replace(arg, divisible_by_16=divisible_by_16 and arg.kind != "float") for arg in args)
    return replace(source, args=args)
