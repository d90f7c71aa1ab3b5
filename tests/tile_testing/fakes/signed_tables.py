"""Tables with one of everything, and edited ones whose digests are computed anew."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tile_testing.fakes import runtime_examples as examples
from tile_testing.fakes import table_mutations as mutations
from tileflow.config import Config
from tileflow.errors import TableError
from tileflow.expr import Expr, all_of
from tileflow.runtime import (
    Binary,
    CallableSpec,
    Fallback,
    LaunchAbi,
    LaunchArg,
    Problem,
    Requirement,
    Resources,
    ScalarSpec,
    Table,
    TensorSpec,
    Validator,
    launches_of,
    parse_table,
)
from tileflow.runtime.abi import TensorMap
from tileflow.runtime.codec import decode
from tileflow.runtime.table import Unseen


def small_table() -> Table:
    """One of everything that a table can hold, in a few kilobytes."""
    x, n = Expr.sym, Expr.sym("n")
    guards = all_of([x("x.stride.1").eq(1), x("x.align").eq(1), (x("x.shape.0") % 16).eq(0), n.le(2**31 - 1),
                     x("f.cell:scale.shape.0").eq(x("x.shape.1"))])  # fmt: skip
    tensor_map = TensorMap((x("x.shape.0"), x("x.shape.1")), (x("x.stride.0"), Expr.of(1)), (16, 64), 2, 9, 3)
    args = (
        LaunchArg("x_ptr", "tensor", "*bf16", "x", divisible_by_16=True, dtype="bfloat16", rank=2, stored=True),
        LaunchArg("scale_ptr", "tensor", "*fp32", "f.cell:scale"),
        LaunchArg("x_desc", "descriptor", "tensordesc<bf16[16, 64]>", "x", tensor_map=tensor_map),
        LaunchArg("n", "int", "i32", value=n),
        LaunchArg("eps", "float", "fp32", "eps"),
    )
    one, grid = Expr.of(1), (x("x.shape.0").cdiv(32).min(x("target.sm_count")), x("end.0") - x("begin.0"), Expr.of(1))
    resources = Resources(32, 0, 1024, 128, (("mma", 4), ("total", 99)))
    static = Binary(0, "nvidia-h200", "cubin", b"cubin", LaunchAbi("k0", args, grid, 128, 1024), guards, resources)
    dynamic = Binary(1, "nvidia-h200", "cubin", b"dynamic", LaunchAbi(
        "k1", args[:2], (one, one, one), 256, 0, (("global", 128, 8), ("profile", 0, 1)), (2, 1, 1), True, True,
    ), x("x.stride.1").eq(1), resources, "dynamic")  # fmt: skip
    problem = Problem(examples.KERNEL, (
        ("x", TensorSpec("bfloat16", (64, 64), (64, 1))), ("eps", ScalarSpec("float", float("inf"))),
        ("flag", ScalarSpec("bool", True)), ("f", CallableSpec("f", "0" * 64, (
            ("scale", TensorSpec("float32", (64,), (1,))), ("g", CallableSpec("g", "1" * 64)),
        ))),
    ))  # fmt: skip
    fits = Requirement("fits", x("target.smem_per_block").le(1 << 20), "it must fit")
    row = examples.entry(64, 64, problem=problem, launches=launches_of([static, dynamic]), tie_set=("0" * 16,),
                         requirements=(fits,))  # fmt: skip
    return examples.table(row, default=Fallback(Config.of({"block:tile": 64})),
                          portfolio=(Fallback(Config.of({"a": True}), "nvidia", "sm_90a", problem),),
                          defaults={"nvidia-h200": (Fallback(Config.of({}), "nvidia", "sm_90a", problem),)},
                          validators=(Validator("triton", "3.7", "warn"),),
                          unseen={"nvidia-h200": Unseen(3, 1.1, 1.2)})  # fmt: skip


def signed(data: Any) -> str:
    """The text of ``data`` with the digest that an attacker would put there."""
    if isinstance(data, dict):
        body = {k: v for k, v in data.items() if k != "table_id"}
        digest = hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        data = {**body, "table_id": digest}
    return str(mutations.text_of(data))


def parsed(data: Any) -> Table:
    """As :func:`parse_table` reads it, signed also where the canonical text is another."""
    text = signed(data)
    try:
        return parse_table(text)
    except TableError as error:
        if not error.constraint.startswith("table_id must be"):
            raise
    found = json.loads(text)
    del found["table_id"]
    return parse_table(json.dumps(found | {"table_id": decode(Table, found).table_id}))
