"""What decoding does: recurrences over time, choices of experts and of largest values, numbers taken apart."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]
POLICY = helion.CuteStructuralPolicy(cute_region_fission=True)


@helion.aot_kernel(static_shapes=False)
def decayed(decay: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    batches, steps, channels = x.shape
    out = torch.empty_like(x)
    for tile_b, tile_c in hl.tile([batches, channels]):
        rate = decay[tile_c].to(torch.float32)[None, :]
        state = hl.zeros([tile_b, tile_c], dtype=torch.float32)
        for t in range(steps):
            state = state * rate + x[tile_b, t, tile_c].to(torch.float32)
            out[tile_b, t, tile_c] = state.to(out.dtype)
    return out


def decayed_one_by_one(decay: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    states = [torch.zeros_like(x[:, 0])]
    for t in range(x.size(1)):
        states.append(states[-1] * decay + x[:, t])
    return torch.stack(states[1:], dim=1)


@helion.aot_kernel(backend="cute", static_shapes=True, cute_structural_policy=POLICY)
def experts(
    logits: torch.Tensor, bias: torch.Tensor, k: int, cap: hl.constexpr, biased: hl.constexpr
) -> tuple[torch.Tensor, torch.Tensor]:
    k = hl.specialize(k)
    weights = torch.empty((logits.size(0), k), dtype=torch.float32, device=logits.device)
    chosen = torch.empty((logits.size(0), k), dtype=torch.int32, device=logits.device)
    for row in hl.tile(logits.size(0)):
        x = logits[row, :].to(torch.float32)
        if cap != 0:
            x = torch.tanh(x / cap) * cap
        if biased:
            x = x + bias[:]
        top, at = torch.topk(torch.softmax(x, dim=-1), k, dim=-1, sorted=True)
        weights[row, :] = top / top.sum(dim=-1, keepdim=True)
        chosen[row, :] = at
    return weights, chosen


def of_experts(
    logits: torch.Tensor, bias: torch.Tensor, k: int, cap: float, biased: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tanh(logits / cap) * cap if cap else logits
    top, at = torch.softmax(x + bias if biased else x, dim=-1).topk(k)
    return top / top.sum(-1, keepdim=True), at.int()


def _lanes(value: torch.Tensor, leading: int, width: int) -> tuple[torch.Tensor, ...]:
    if width == 1:
        return (value.reshape(leading),)
    low, high = hl.split(value.reshape(leading, 2, width // 2).permute(0, 2, 1))
    return (*_lanes(low, leading, width // 2), *_lanes(high, leading, width // 2))


@helion.kernel(static_shapes=True)
def by_exponents(x, exponents):  # type: ignore[no-untyped-def]
    rows, groups, _ = x.size()
    block = hl.register_block_size(1, groups)
    out = torch.empty([rows, groups], dtype=torch.float32, device=x.device)
    for tile_r in hl.tile(rows, block_size=1):
        for tile_g in hl.tile(groups, block_size=block):
            inside = (tile_g.index < groups)[:, None]
            values = hl.load(x, [tile_r.begin, tile_g.index, slice(None)], extra_mask=inside)
            lanes = _lanes(values, block, 8)
            total = hl.zeros([block], dtype=torch.float32)
            for n in hl.static_range(8):
                total += lanes[n] * (n + 1)
            scale = (exponents[tile_g].to(torch.int32) << 23).view(dtype=torch.float32)
            out[tile_r.begin, tile_g] = total * scale
    return out


def with_weights(x: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    return (x * torch.arange(1, 9)).sum(-1) * torch.exp2(exponents.float() - 127)


def _kth(keys: torch.Tensor, valid: torch.Tensor, k: int) -> torch.Tensor:
    """The ``k``-th largest of the ints that are not negative, bit by bit."""
    found = torch.full((), 0, dtype=torch.int32, device=keys.device)
    for bit in range(9, -1, -1):
        candidate = found | (1 << bit)
        found = torch.where(torch.sum(valid & (keys >= candidate), dtype=torch.int32) >= k, candidate, found)
    return found


@helion.kernel(static_shapes=True)
def largest(x: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
    rows, width = x.shape
    k = hl.specialize(k)
    block = hl.register_block_size(32, 64)
    parts = (width + block - 1) // block
    out = torch.zeros([rows, parts], dtype=torch.int32, device=x.device)
    for row, part in hl.grid([rows, parts]):
        at = part * block + hl.arange(block)
        valid = (at < width) & (at < lengths[row])
        keys = hl.load(x, [row, at], extra_mask=valid)
        if torch.clamp(lengths[row] - part * block, min=0, max=block) > k:
            kept = valid & (keys >= _kth(keys, valid, k))
        else:
            kept = valid
        hl.store(out, [row, part], torch.sum(torch.where(kept, keys, 0), dtype=torch.int32))
    return out


def sums_of_all(x: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
    return torch.stack([row[:n].topk(min(k, int(n))).values.sum() for row, n in zip(x, lengths, strict=True)])


@helion.kernel
def rows_by_columns(x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([x.size(0), 8, 8], dtype=x.dtype, device=x.device)
    for page in hl.grid(x.size(0)):
        rows = first[page] + hl.arange(8)
        hl.store(out, [page, hl.arange(8), hl.arange(8)], x[page, rows, hl.arange(8)])
    return out


def windows(x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    return torch.stack([page[n : n + 8, :8] for page, n in zip(x, first.tolist(), strict=True)])


@helion.kernel
def parts_of_a_page(x: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), x.size(1), x.size(3)], dtype=x.dtype, device=x.device)
    for tile_b, tile_n in hl.tile([x.size(0), x.size(1)], block_size=[1, None]):
        rows = x[tile_b.begin, :, which[tile_b.begin], :]
        out[tile_b.begin, tile_n, :] = rows[tile_n, :]
    return out


def pages(x: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    return torch.stack([page[:, n] for page, n in zip(x, which.tolist(), strict=True)])


@helion.kernel(static_shapes=True, dot_precision="ieee")
def of_each_head(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty([w.size(0), x.size(0), w.size(2)], dtype=x.dtype, device=x.device)
    for tile_h, tile_m, tile_n in hl.tile(out.size()):
        acc = hl.zeros([tile_h, tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(x.size(1)):
            acc = hl.dot(x[tile_m, tile_k], w[tile_h, tile_k, tile_n], acc=acc)
        out[tile_h, tile_m, tile_n] = acc
    return out


def cases() -> Iterator[Case]:
    f = torch.randn
    yield "decayed", decayed, (torch.rand(20), f(3, 7, 20)), decayed_one_by_one
    for cap, biased in ((2.0, True), (0.0, False)):
        yield f"experts_{biased}", experts, (f(5, 16), f(16), 4, cap, biased), of_experts
    exponents = torch.randint(126, 129, (4,), dtype=torch.uint8)
    yield "exponent_bytes", by_exponents, (f(3, 4, 8), exponents), with_weights
    keys, lengths = torch.randperm(96, dtype=torch.int32).view(3, 32), torch.tensor([32, 17, 3], dtype=torch.int32)
    yield "largest", lambda x, n, k: largest(x, n, k).sum(1), (keys, lengths, 8), sums_of_all
    yield "rows_by_columns", rows_by_columns, (f(3, 16, 8), torch.tensor([2, 0, 5])), windows
    yield "parts_of_a_page", parts_of_a_page, (f(2, 5, 3, 16), torch.tensor([1, 2])), pages
    yield "one_for_each_head", of_each_head, (f(17, 32), f(2, 32, 20)), lambda x, w: torch.einsum("mk,hkn->hmn", x, w)
