"""What the tracer makes of an expression, without a kernel around it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tileflow.expr import Expr
from tileflow.frontend import operations
from tileflow.frontend.promotion import dtype_name
from tileflow.frontend.structural_names import StructuralNames
from tileflow.frontend.trace import Tracer
from tileflow.frontend.trace_mode import TraceMode
from tileflow.ir.types import Dim

FAMILIES = operations.FAMILIES  # imported, they have filled the registries that tracing reads


def traced(expression: str, operands: dict[str, Any]) -> Any:
    """What the tracer makes of ``expression``; tensors stand for tiles of their shape and dtype."""
    tracer = Tracer("static", {}, StructuralNames(0), set(), torch.device("cpu"))

    def stand_in(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return tracer.full(tuple(Dim(Expr.of(n)) for n in x.shape), 1, dtype_name(x.dtype))

    names = {name: stand_in(x) for name, x in operands.items()}
    with TraceMode(tracer):
        return eval(expression, {"torch": torch, "F": F, **names})
