"""One layer of a Llama, of torch's operations and with kernels in place of some: what :mod:`.compiled_cost` times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
from tileflow import kernels
from tileflow.kernels import gated, residual

Tensor = torch.Tensor
EPS = 1e-5


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a block, and of the small call whose host share is measured."""

    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    mlp: int = 14336
    tokens: int = 4096
    rows: int = 256
    columns: int = 1024
    rounds: int = 20
    calls: int = 400

    @property
    def head(self) -> int:
        """The elements of a head."""
        return self.hidden // self.heads


DRY = Sizes(64, 4, 2, 96, 32, 8, 32, 1, 5)


@dataclass(frozen=True, slots=True)
class Parts:
    """The operations of a block beside its plain products. ``gate``: what is done element by element between products,
    which ``gated`` does with both of them; ``linear_add``: a product of rows and a weight, added to a residual."""

    norm: Callable[[Tensor, Tensor], Tensor]
    rope: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    gate: Callable[[Tensor, Tensor], Tensor]
    gated: Callable[[Tensor, Tensor, Tensor], Tensor]
    attention: Callable[[Tensor, Tensor, Tensor], Tensor]
    linear_add: Callable[[Tensor, Tensor, Tensor], Tensor]


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def torchs() -> Parts:
    """Return torch's own, for Inductor to fuse."""
    return Parts(
        norm=lambda x, w: F.rms_norm(x, (x.size(-1),), w, EPS),
        rope=lambda q, k, cos, sin: (_turn(q, cos, sin), _turn(k, cos, sin)),
        gate=lambda a, b: F.silu(a) * b,
        gated=lambda x, gate, up: F.silu(F.linear(x, gate)) * F.linear(x, up),
        attention=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        linear_add=lambda x, w, residual: residual + F.linear(x, w),
    )


def ours(words: Sequence[str], is_training: bool) -> Parts:
    """Return torch's, with the kernels that ``words`` name in place of some. Those of a product and what follows it
    have no gradients."""
    from examples import rms_norm, rope, swiglu, training

    plain = torchs()
    norm = training.rms_norm if is_training else rms_norm.rms_norm
    turned = _trained_rope() if is_training else rope.rope
    chosen: dict[str, Callable[..., Any]] = {}
    if "norm" in words:
        chosen["norm"] = lambda x, w: norm(x, w, EPS)
    if "rope" in words:
        chosen["rope"] = turned
    if "gate" in words:
        gate = chosen["gate"] = training.swiglu if is_training else swiglu.swiglu
        chosen["gated"] = lambda x, first, up: gate(F.linear(x, first), F.linear(x, up))
    if "gated product" in words:
        chosen["gated"] = gated.gated_linear
    if "attention" in words:
        chosen["attention"] = lambda q, k, v: kernels.attention(q, k, v, causal=True, backend="tileflow")
    if "residual" in words:
        chosen["linear_add"] = residual.linear_add
    return replace(plain, **chosen)


def _trained_rope() -> Any:
    from examples import rope

    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *rope.rope_bwd(*(grad.contiguous() for grad in grads), *ctx.saved), None, None

    return tileflow.differentiable(rope.rope, backward, save=("cos", "sin"))


class Block(torch.nn.Module):
    """One layer of a Llama."""

    def __init__(self, sizes: Sizes, parts: Parts, dtype: torch.dtype, device: str) -> None:
        super().__init__()
        self.sizes, self.parts = sizes, parts
        hidden, kv = sizes.hidden, sizes.kv_heads * sizes.head

        def weight(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(*shape, dtype=dtype, device=device) * shape[-1] ** -0.5)

        self.first = torch.nn.Parameter(torch.ones(hidden, dtype=dtype, device=device))
        self.second = torch.nn.Parameter(torch.ones(hidden, dtype=dtype, device=device))
        self.q, self.o = weight(hidden, hidden), weight(hidden, hidden)
        self.k, self.v = weight(kv, hidden), weight(kv, hidden)
        self.gate, self.up, self.down = weight(sizes.mlp, hidden), weight(sizes.mlp, hidden), weight(hidden, sizes.mlp)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the layer's output for a batch of one."""
        s, parts = self.sizes, self.parts
        y = parts.norm(x, self.first)
        q = F.linear(y, self.q).view(1, -1, s.heads, s.head).transpose(1, 2)
        k = F.linear(y, self.k).view(1, -1, s.kv_heads, s.head).transpose(1, 2)
        v = F.linear(y, self.v).view(1, -1, s.kv_heads, s.head).transpose(1, 2)
        q, k = parts.rope(q, k, cos, sin)
        attended = parts.attention(q, k, v)
        x = parts.linear_add(attended.transpose(1, 2).reshape(-1, s.hidden), self.o, x)
        y = parts.norm(x, self.second)
        return parts.linear_add(parts.gated(y, self.gate, self.up), self.down, x)


def inputs(sizes: Sizes, dtype: torch.dtype, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return a block's input, and the angles of its positions."""
    x = torch.randn(sizes.tokens, sizes.hidden, dtype=dtype, device=device)
    frequencies = 10_000.0 ** (-torch.arange(0, sizes.head, 2, device=device) / sizes.head)
    angles = torch.arange(sizes.tokens, device=device)[:, None] * frequencies
    return x, angles.cos().to(dtype), angles.sin().to(dtype)
