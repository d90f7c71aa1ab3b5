"""What a server does with ``tileflow-runtime`` alone: ``python bundled_calls.py BUNDLE``, a process of its own.

Each step asserts what it gives. At the end it prints the modules of tileflow that were imported, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tileflow import runtime
from tileflow.errors import CallError, MissError


def refused(kind: type[Exception], call: Any, *args: Any) -> str:
    try:
        call(*args)
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} is raised")


def main(bundle: str) -> None:
    sys.modules["triton"] = None  # type: ignore[assignment]  # it is not installed
    import format_kernels

    for name in (*runtime.__all__, *tfl.__all__):
        assert getattr(runtime if name in runtime.__all__ else tfl, name) is not None
    assert len(runtime.load(bundle)) == 2
    add = format_kernels.add
    x, y = torch.randn(4096), torch.randn(4096)
    hit = runtime.lookup(add.name, add.semantic_hash, add.describe(x, y), "nvidia-h200")
    assert hit is not None and hit.step == "exact", hit

    torch.testing.assert_close(add(x, y), x + y)  # on a CPU: as plain Python over tiles
    os.environ["TRITON_INTERPRET"] = "1"  # what looks rows up for tensors on a CPU, too
    policies: tuple[Any, ...] = ("default", "reference", "compile", "error")
    for policy in policies[:2]:
        runtime.load(bundle, on_miss=policy)
        torch.testing.assert_close(add(x, y), x + y)
    for policy in policies[2:]:
        runtime.load(bundle, on_miss=policy)
        assert add.name in refused(MissError, add, x, y)
    assert runtime.stats()["reference"] == 2, runtime.stats()
    del os.environ["TRITON_INTERPRET"]
    with tileflow.interpret({"block:tile": 512}):
        torch.testing.assert_close(add(x, y), x + y)

    differentiable(add)
    exported(add)
    said = refused(CallError, add.explain, x, y)
    assert "pip install tileflow" in said, said
    said = refused(Exception, torch.compile(add, backend="eager", fullgraph=True), x, y)
    assert "needs the compiler" in said, said
    assert "tileflow_" in runtime.openmetrics()
    from tileflow.runtime import show

    assert show.main(bundle) == 0
    print(json.dumps(sorted(name for name in sys.modules if name.partition(".")[0] == "tileflow")))


def differentiable(add: Any) -> None:
    runtime.clear()
    both = tileflow.differentiable(add, lambda ctx, grad: (grad, grad))
    a, b = torch.randn(64, requires_grad=True), torch.randn(64)
    both(a, b).sum().backward()
    torch.testing.assert_close(a.grad, torch.ones(64))


def exported(add: Any) -> None:
    """What a program that was exported elsewhere calls."""
    from tileflow.operators import Operator
    from tileflow.runtime.argtree import Leaf, flatten_call

    x, y = torch.randn(64), torch.randn(64)
    name = Operator(add, flatten_call(add.host, (x, y), {})[0], Leaf(0, "Tensor", "result"), frozenset()).name
    leaves = ["tuple", [["leaf", "Tensor", "x"], ["leaf", "Tensor", "y"]]]
    saved = {"name": name, "kernel": add.name, "template": leaves, "results": ["leaf", "Tensor", "result"],
             "stored": [], "settings": "()", "rule": "", "shown": ""}  # fmt: skip
    assert tileflow.load_operators({"tileflow_operators.json": json.dumps({"version": 1, "operators": [saved]})}) == (
        name,
    )
    torch.testing.assert_close(getattr(torch.ops.tileflow, name)(x, y), x + y)


if __name__ == "__main__":
    main(sys.argv[1])
