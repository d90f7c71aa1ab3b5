"""How attentions turn queries and keys, by the kernel: a function in place of that of each family in ``TURNED``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..kernels import rope
from .forms import rotary_of
from .forwards import are_local

Pair = tuple[torch.Tensor, torch.Tensor]
HALVES, NEIGHBOURS, HALF = "in both halves", "side by side", "once"  # where the angles of a pair stand


def turned(*given: Any, **named: Any) -> Pair:
    """All of a head's elements, as Llama's."""
    return _turned("llama", *given, **named)


def turned_as_given(*given: Any, **named: Any) -> Pair:
    """All of them, in their own dtypes whatever that of the angles is, as OLMo's and as the kernel."""
    return _turned("olmo2", *given, **named)


def turned_in_part(*given: Any, **named: Any) -> Pair:
    """The first of a head's elements, as many as there are angles, as those of GLM and Phi."""
    return _turned("glm4_moe", *given, in_part=True, **named)


def turned_by_half_angles(*given: Any, **named: Any) -> Pair:
    """All of them, by angles that stand once, as gpt-oss's."""
    return _turned("gpt_oss", *given, angles=HALF, **named)


def turned_neighbours(*given: Any, **named: Any) -> Pair:
    """All of a head's elements, each with its neighbour, as Helium's."""
    return _turned("helium", *given, layout="interleaved", **named)


def turned_neighbours_as_given(*given: Any, **named: Any) -> Pair:
    """The same in their own dtypes, as Ernie's."""
    return _turned("ernie4_5", *given, layout="interleaved", **named)


def turned_neighbours_in_part(*given: Any, **named: Any) -> Pair:
    """The first of them, each with its neighbour, as GLM's before its experts."""
    return _turned("glm", *given, in_part=True, layout="interleaved", **named)


def turned_neighbours_by_repeated_angles(*given: Any, **named: Any) -> Pair:
    """All of them, each with its neighbour, by angles that stand side by side for both, as Cohere's."""
    return _turned("cohere", *given, layout="interleaved", angles=NEIGHBOURS, **named)


def turned_into_halves(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.Tensor | None = None,  # which DeepSeek's does not read
    unsqueeze_dim: int = 1,
) -> Pair:
    """All of them, each with its neighbour, into halves, as DeepSeek's: they are gathered into halves first."""
    q, k = (x.reshape(*x.shape[:-1], -1, 2).transpose(-1, -2).flatten(-2) for x in (q, k))
    return _turned("llama", q, k, cos, sin, unsqueeze_dim)


# Plain functions of a module: a pickled model names them, and a graph that torch exports holds nothing of an object's.
TURNED: dict[str, Callable[..., Pair]] = {
    "llama": turned,
    "olmo2": turned_as_given,
    "glm4_moe": turned_in_part,
    "phi3": turned_in_part,
    "esm": turned_as_given,
    "gpt_oss": turned_by_half_angles,
    "helium": turned_neighbours,
    "ernie4_5": turned_neighbours_as_given,
    "glm": turned_neighbours_in_part,
    "cohere": turned_neighbours_by_repeated_angles,
    "deepseek_v3": turned_into_halves,
}


def _turned(
    family: str,
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    unsqueeze_dim: int = 1,
    *,
    in_part: bool = False,
    layout: str = "half",
    angles: str = HALVES,
) -> Pair:
    """Queries and keys, turned by the kernel where that serves them, else by the family's own function. ``in_part``:
    those of a head's elements that have an angle. ``layout``: what is turned together. ``angles``: where the two of a
    pair have theirs."""
    width = cos.size(-1) if in_part else q.size(-1)
    first_q, first_k = (q[..., :width], k[..., :width]) if in_part else (q, k)
    if not _turns(first_q, first_k, cos, sin, unsqueeze_dim, width // 2 if angles == HALF else width):
        found: Pair = rotary_of(family)(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
        return found
    if angles == NEIGHBOURS:
        cos, sin = cos[..., ::2], sin[..., ::2]
    first_q, first_k = rope(first_q, first_k, cos, sin, layout=layout, head_dim=unsqueeze_dim)
    if width == q.size(-1):
        return first_q, first_k
    return torch.cat((first_q, q[..., width:]), dim=-1), torch.cat((first_k, k[..., width:]), dim=-1)


def _turns(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int, width: int
) -> bool:
    """Whether the kernel serves what the library's function takes, which broadcasts angles of any shape: those of
    pictures have one for each patch, and no batch. ``width``: of a token's angles."""
    if not are_local(q, k, cos, sin):
        return False
    if unsqueeze_dim not in (1, 2) or not q.ndim == k.ndim == 4 or cos.shape != sin.shape or cos.ndim != 3:
        return False
    batch, tokens, size = q.size(0), q.size(3 - unsqueeze_dim), q.size(3)
    is_even = size % 2 == 0 and k.size(3) == size and cos.size(2) == width
    fits = k.size(0) == batch and k.size(3 - unsqueeze_dim) == tokens == cos.size(1) and cos.size(0) in (1, batch)
    return is_even and fits and not (cos.requires_grad or sin.requires_grad)
