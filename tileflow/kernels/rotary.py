"""Rotary position embedding of queries and keys (Su et al., 2021, arXiv:2104.09864), by each token's own position.

What is turned together is element ``i`` of a head's two halves (``half``, as transformers has it) or elements ``2 i``
and ``2 i + 1`` (``interleaved``, as the paper). All heads of a token share its angles, which are loaded once.
"""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from ..autograd import BackwardContext, differentiable
from ..errors import CallError
from .rows import is_size, require_choice, require_inside, require_rows, require_shape, shown

LAYOUTS = ("half", "interleaved")
BASE = 10_000.0


def inputs(
    s: int,
    d: int,
    h: int,
    hk: int,
    b: int,
    interleaved: bool = False,
    with_positions: bool = True,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
) -> tuple[torch.Tensor | bool | None, ...]:
    """Queries and keys, [b, heads, s, d]; the angles' table, [2 s, d / 2], and positions, [b, s], or [b, s, d / 2]."""
    q, k = (torch.randn(b, heads, s, d, dtype=dtype, device=device) for heads in (h, hk))
    positions = (torch.arange(s, device=device) + 3 * torch.arange(b, device=device)[:, None]) % max(2 * s, 1)
    rows = torch.arange(2 * s, device=device) if with_positions else positions
    angles = rows[..., None] * BASE ** (-torch.arange(0, d, 2, dtype=torch.float32, device=device) / d)
    return q, k, angles.cos().to(dtype), angles.sin().to(dtype), positions if with_positions else None, interleaved


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    interleaved: bool,
    inverse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys ``(batch, heads, m, d)`` turned by the angles of their positions, backwards if ``inverse``, in
    torch."""
    cos, sin = (x if positions is None else x[positions] for x in (cos, sin))
    half = q.size(3) // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half] * (-1 if inverse else 1)

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second = x.unflatten(3, (half, 2)).unbind(-1) if interleaved else x.chunk(2, dim=3)
        pair = first * cos - second * sin, second * cos + first * sin
        return torch.stack(pair, dim=-1).flatten(3) if interleaved else torch.cat(pair, dim=3)

    return turned(q), turned(k)


def turn(x, out, tile_b, tile_s, cos, sin, interleaved):  # type: ignore[no-untyped-def]
    """The rotation of every head of ``x`` at some positions, stored in ``out``."""
    half = x.size(3) if interleaved else x.size(3) // 2
    for tile_h in tfl.tile(x.size(1)):
        if interleaved:
            first, second = x[tile_b, tile_h, tile_s, :, 0].float(), x[tile_b, tile_h, tile_s, :, 1].float()
            out[tile_b, tile_h, tile_s, :, 0] = first * cos - second * sin
            out[tile_b, tile_h, tile_s, :, 1] = second * cos + first * sin
        else:
            first, second = x[tile_b, tile_h, tile_s, :half].float(), x[tile_b, tile_h, tile_s, half:].float()
            out[tile_b, tile_h, tile_s, :half] = first * cos - second * sin
            out[tile_b, tile_h, tile_s, half:] = second * cos + first * sin


@tileflow.kernel(inputs=inputs, reference=reference)
def rope_turn(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    interleaved: bool = False,
    inverse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(batch, heads, s, d) turned by the angles of (batch or 1, s, at least d / 2), or of the rows of a table that
    ``positions`` name, (batch, s). ``inverse``: the other way, which is the gradient."""
    b, _, s, d = q.shape
    half = d // 2
    out_q, out_k = torch.empty_like(q), torch.empty_like(k)
    pairs = (half, 2)
    if interleaved:
        from_q, from_k, to_q, to_k = (x.unflatten(3, pairs) for x in (q, k, out_q, out_k))
    else:
        from_q, from_k, to_q, to_k = q, k, out_q, out_k
    for tile_b, tile_s in tfl.tile([b, s], block_size=[1, None]):
        if positions is None:
            c, s_ = cos[tile_b.begin, tile_s, :half].float(), sin[tile_b.begin, tile_s, :half].float()
        else:
            rows = positions[tile_b.begin, tile_s]
            is_row = ((rows >= 0) & (rows < cos.size(0)))[:, None]
            c = torch.where(is_row, cos[rows, :half].float(), float("nan"))
            s_ = torch.where(is_row, sin[rows, :half].float(), float("nan"))
        if inverse:
            s_ = -s_
        turn(from_q, to_q, tile_b, tile_s, c, s_, interleaved)
        turn(from_k, to_k, tile_b, tile_s, c, s_, interleaved)
    return out_q, out_k


def _backward(ctx: BackwardContext, grad_q: torch.Tensor, grad_k: torch.Tensor) -> tuple[Any, ...]:
    cos, sin, positions, interleaved = ctx.saved
    return *rope_turn(grad_q, grad_k, cos, sin, positions, interleaved, True), None, None, None, None, None


_turned = differentiable(rope_turn, _backward, save=("cos", "sin", "positions", "interleaved"))


def _require(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor | None
) -> None:
    """Raises CallError for shapes that do not fit queries of (batch, heads, s, d), which the kernel does not check."""
    batch, _, tokens, size = q.shape
    require_shape("rope", "k", k, (batch, k.size(1), tokens, size), "queries and keys differ in heads alone")
    require_shape("rope", "sin", sin, cos.shape, "cos and sin have one shape")
    if positions is None:
        first = 1 if cos.ndim == 3 and cos.size(0) == 1 else batch
        require_shape("rope", "cos", cos, (first, tokens, cos.size(-1)), "without positions, each token has its angles")
    else:
        require_shape("rope", "cos", cos, (cos.size(0), cos.size(-1)), "with positions, angles are a table of rows")
        first = 1 if positions.ndim == 2 and positions.size(0) == 1 else batch
        require_shape("rope", "positions", positions, (first, tokens), "each token has a position")
        if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
            raise CallError("positions are rows of a table", got=positions.dtype, where="tileflow.kernels.rope")
        require_inside("rope", "positions", positions, cos.size(0))
    if torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad):
        raise CallError(
            "angles are constants: rope differentiates queries and keys",
            got="cos or sin that requires grad",
            where="tileflow.kernels.rope",
            hint="pass cos.detach() and sin.detach(), or learn frequencies through torch's operations",
        )


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    *,
    layout: str = "half",
    head_dim: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys, (batch, heads, s, d), turned by ``cos`` and ``sin``: (batch or 1, s, d / 2), or tables of rows
    that ``positions``, (batch or 1, s), name. Angles of width d are those of transformers, whose halves are equal.

    ``layout``: ``half`` or ``interleaved``. ``head_dim``: 2 for (batch, s, heads, d). A position outside of the table
    gives NaN, and is refused on a CPU. Raises CallError for another layout, for shapes that do not fit, and for angles
    that need gradients.
    """
    require_choice("rope", "layout", layout, LAYOUTS)
    require_rows("rope", q=q, k=k, cos=cos, sin=sin)
    if not is_size(head_dim) or head_dim not in (1, 2) or q.ndim != 4 or k.ndim != 4:
        raise CallError(
            "rope turns tensors of four dimensions, of which heads are the second or the third",
            got=f"{q.ndim} and {k.ndim} dimensions, head_dim={shown(head_dim)}",
            where="tileflow.kernels.rope",
        )
    size = q.size(3)
    if cos.size(-1) not in (size // 2, size) or size % 2:
        raise CallError(
            "there is an angle for each pair of a head's elements",
            got=f"{cos.size(-1)} for {size}",
            where="tileflow.kernels.rope",
            hint="turn the part q[..., :rotary] and concatenate",
        )
    q, k = (x.transpose(1, head_dim) for x in (q, k))
    _require(q, k, cos, sin, positions)
    if positions is not None and positions.size(0) != q.size(0):
        positions = positions.expand(q.size(0), -1)
    out_q, out_k = _turned(q, k, cos, sin, positions, layout == "interleaved", False)
    return out_q.transpose(1, head_dim), out_k.transpose(1, head_dim)


class RotaryEmbedding(torch.nn.Module):
    """:func:`rope` by positions, with a table of angles for ``length`` of them, in float32.

    ``size``: of a head, an even number. ``base``: of the frequencies, ``base ** (-2 i / size)``. ``layout``: ``half``
    or ``interleaved``. Raises CallError for an odd size and another layout.

    No checkpoint holds the table: made on the meta device, it is computed where the module has memory.
    """

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(
        self,
        size: int,
        length: int,
        *,
        base: float = BASE,
        layout: str = "half",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if layout not in LAYOUTS or not is_size(size) or size % 2:
            raise CallError(
                "rope turns pairs of a head's elements, half or interleaved",
                got=f"{size!r} elements, layout={layout!r}",
                where="tileflow.kernels.RotaryEmbedding",
            )
        self.layout, self.size, self.length, self.base = layout, size, length, base
        cos, sin = self._angles(device)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self._lacks_angles = cos.is_meta

    def _angles(self, device: torch.device | str | None) -> tuple[torch.Tensor, torch.Tensor]:
        # in float32 whatever torch's default is: half precision holds neither the angles nor the positions
        frequencies = self.base ** (-torch.arange(0, self.size, 2, dtype=torch.float32, device=device) / self.size)
        angles = torch.arange(self.length, dtype=torch.float32, device=device)[:, None] * frequencies
        return angles.cos(), angles.sin()

    def reset_parameters(self) -> None:
        """Compute the table again, where it lies now; who makes modules on the meta device calls this."""
        for table, angles in zip((self.cos, self.sin), self._angles(self.cos.device), strict=True):
            table.copy_(angles)
        self._lacks_angles = self.cos.is_meta

    def forward(self, q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Queries and keys, (batch, heads, s, size), turned by the angles of ``positions``, (batch or 1, s)."""
        if self._lacks_angles and not self.cos.is_meta:
            self.reset_parameters()
        return rope(q, k, self.cos, self.sin, positions, layout=self.layout)
