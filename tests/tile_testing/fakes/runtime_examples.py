"""Small tables, rows and binaries for the tests of the runtime."""

from __future__ import annotations

import hashlib
from typing import Any

from tileflow.config import Config
from tileflow.expr import Expr
from tileflow.runtime import (
    Binary,
    Entry,
    KernelId,
    LaunchAbi,
    LaunchArg,
    Problem,
    Resources,
    ScalarSpec,
    Table,
    TensorSpec,
)

KERNEL = "kernels:softmax"
HASH = hashlib.sha256(b"softmax, first version").hexdigest()


def problem(m: int, n: int, dtype: str = "bfloat16", aligned: bool = True) -> Problem:
    x = TensorSpec(dtype, (m, n), (n, 1), aligned)
    return Problem(KERNEL, (("x", x), ("eps", ScalarSpec("float", 1e-5))))


def entry(m: int, n: int, device: str = "nvidia-h200", *, block: int = 64, **other: Any) -> Entry:
    values: dict[str, Any] = {
        "origin": "measured", "best_us": 10.0, "default_us": 20.0, "ci95": 0.1, "n": 50, "measured_on": device,
    }  # fmt: skip
    if other.get("origin", "measured") != "measured":
        values["measured_on"] = ""
    values |= other
    return Entry(device, values.pop("problem", problem(m, n)), Config.of({"block:tile": block}), **values)


def table(*entries: Entry, semantic_hash: str = HASH, **other: Any) -> Table:
    return Table.of(KernelId.of(KERNEL, semantic_hash), entries, **other)


def binary(code: bytes = b"machine code", *, target: str = "nvidia-h200", **other: Any) -> Binary:
    """Takes ``x`` (a tensor), its rows and ``eps``; one program for 32 rows."""
    rows = Expr.sym("x.shape.0")
    arguments = (
        LaunchArg("x", "tensor", "*bf16", "x"),
        LaunchArg("rows", "int", "i32", value=rows),
        LaunchArg("eps", "float", "fp32", "eps"),
    )
    abi = LaunchAbi("softmax_kernel", arguments, (rows.cdiv(32), Expr.of(1), Expr.of(1)), 128, 1024)
    values: dict[str, Any] = {"guards": Expr.sym("x.stride.1").eq(1), "resources": Resources(32, 0, 1024, 128)}
    return Binary(0, target, "hsaco" if target.startswith("amd") else "cubin", code, abi, **(values | other))
