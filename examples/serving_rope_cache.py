"""Rotary embedding of queries and keys by position, and the write of keys and values into a paged cache, in one launch.

Queries are rotated in place. A token's slot is the index of its row in the cache; padding tokens have the slot -1, and
are not written. ``examples.rope`` explains the rotation.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

BASE = 10_000.0
PAGE = 16  # tokens

Arguments = tuple[torch.Tensor, ...]


def inputs(
    tokens: int,
    h: int,
    hk: int,
    d: int,
    pages: int = 8,
    dtype: torch.dtype = torch.bfloat16,
    cache_dtype: torch.dtype | None = None,
    device: str = "cpu",
) -> tuple[torch.Tensor | float, ...]:
    """Return random queries, keys and values, [tokens, heads, d], with positions, angles, an empty cache and slots.

    The angles are cosines then sines of each position, [positions, d]. The cache has at least ``pages`` pages, [pages,
    16, hk, d]. Every fifth token has no slot.
    """
    q = torch.randn(tokens, h, d, dtype=dtype, device=device)
    k, v = (torch.randn(tokens, hk, d, dtype=dtype, device=device) for _ in range(2))
    pages = max(pages, -(-tokens // PAGE) + 1)  # the first page stays empty
    positions = torch.arange(tokens, device=device) * 7 % (4 * PAGE)
    frequencies = BASE ** (-torch.arange(0, d, 2, device=device) / d)
    angles = torch.arange(4 * PAGE, device=device)[:, None] * frequencies
    cache = torch.zeros(2, pages, PAGE, hk, d, dtype=dtype, device=device).to(cache_dtype or dtype)
    rows = torch.arange(tokens, device=device)
    slots = torch.where(rows % 5 == 4, -1, pages * PAGE - 1 - rows)
    return q, k, v, positions, torch.cat([angles.cos(), angles.sin()], dim=1).to(dtype), cache[0], cache[1], slots


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the halves of each row by its position's angles."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    angles: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Rotate in torch, and write the tokens that have a slot."""
    cos, sin = angles[positions].chunk(2, dim=-1)
    q.copy_(turned(q, cos, sin))
    kept = slots >= 0
    for cache, rows in ((key_cache, turned(k, cos, sin)), (value_cache, v)):
        cache.flatten(0, 1)[slots[kept]] = rows[kept].to(cache.dtype)


@tileflow.kernel(inputs=inputs, reference=reference)
def rope_cache_write(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    angles: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Turns ``q`` in place, and stores the turned ``k``, and ``v``, at the slots of the caches in their dtype."""
    tokens, heads, d = q.shape
    kv_heads, half = k.size(1), d // 2
    assert heads % kv_heads == 0, f"{heads} heads do not share {kv_heads} evenly"
    groups = q.unflatten(1, (kv_heads, heads // kv_heads))
    keys, values = key_cache.flatten(0, 1), value_cache.flatten(0, 1)
    for tile_t, tile_h in tfl.tile([tokens, kv_heads], block_size=[None, 1]):
        head, position, slot = tile_h.begin, positions[tile_t], slots[tile_t]
        cos, sin = angles[position, :half].float(), angles[position, half:].float()
        first, second = k[tile_t, head, :half].float(), k[tile_t, head, half:].float()
        keys[slot, head, :half] = first * cos - second * sin
        keys[slot, head, half:] = second * cos + first * sin
        values[slot, head, :] = v[tile_t, head, :]
        cos, sin = cos[:, None, :], sin[:, None, :]
        first, second = groups[tile_t, head, :, :half].float(), groups[tile_t, head, :, half:].float()
        groups[tile_t, head, :, :half] = first * cos - second * sin
        groups[tile_t, head, :, half:] = second * cos + first * sin
