"""Matrix products: plain, and with an epilogue that the caller passes as a function.

An epilogue is applied to the accumulator while it is still in registers. It may close over tensors (a bias), which are
read again at each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

Epilogue = Callable[[torch.Tensor, Any, Any], torch.Tensor]


def inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random matrices, (m, k) and (k, n)."""
    return torch.randn(m, k, dtype=dtype, device=device), torch.randn(k, n, dtype=dtype, device=device)


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply with torch."""
    return x @ y


@tileflow.kernel(inputs=inputs, reference=reference)
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    k2, n = y.shape
    assert k == k2, f"inner sizes differ: {k} and {k2}"
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


def bias_gelu(bias: torch.Tensor) -> Epilogue:
    """Return the epilogue ``gelu(acc + bias)``; ``bias`` has one element per column."""
    return lambda acc, tile_m, tile_n: F.gelu(acc + bias[tile_n].float())


def leaky_relu(slope: float) -> Epilogue:
    """Return the epilogue ``leaky_relu(acc)``."""
    return lambda acc, tile_m, tile_n: F.leaky_relu(acc, slope)


def epilogue_inputs(
    m: int, n: int, k: int, epilogue: str = "bias_gelu", dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, Epilogue]:
    """Return two random matrices and an epilogue. ``epilogue``: ``bias_gelu`` or ``leaky_relu``."""
    x, y = inputs(m, n, k, dtype, device)
    if epilogue == "leaky_relu":
        return x, y, leaky_relu(0.1)
    return x, y, bias_gelu(torch.randn(n, dtype=dtype, device=device))


def epilogue_reference(x: torch.Tensor, y: torch.Tensor, epilogue: Epilogue) -> torch.Tensor:
    """Apply the epilogue to the whole product, in float32 as in the kernel."""
    return epilogue((x @ y).float(), slice(None), slice(None)).to(x.dtype)


@tileflow.kernel(inputs=epilogue_inputs, reference=epilogue_reference)
def matmul_epilogue(x: torch.Tensor, y: torch.Tensor, epilogue: Epilogue) -> torch.Tensor:
    m, k = x.shape
    k2, n = y.shape
    assert k == k2, f"inner sizes differ: {k} and {k2}"
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = epilogue(acc, tile_m, tile_n)
    return out
