"""Attention in its forms."""

import math

import helion
import helion.language as hl
import torch
import torch.nn.functional as F


@helion.kernel(static_shapes=True, config=helion.Config(block_sizes=[1, 16, 32], num_warps=4, pid_type="xyz"))
def attention(q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = q_in.size(-2), k_in.size(-2)
    assert n == v_in.size(-2)
    head = hl.specialize(q_in.size(-1))
    q_all, k_all, v_all = q_in.reshape([-1, m, head]), k_in.reshape([-1, n, head]), v_in.reshape([-1, n, head])
    out = torch.empty_like(q_all)
    lse = torch.empty([q_all.size(0), m], device=q_in.device, dtype=torch.float32)
    scale = 1.44269504 / math.sqrt(head)
    for tile_b, tile_m in hl.tile([q_all.size(0), m]):
        highest = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        total = torch.full_like(highest, 1.0)
        acc = hl.zeros([tile_b, tile_m, head], dtype=torch.float32)
        q = q_all[tile_b, tile_m, :]
        for tile_n in hl.tile(v_all.size(1)):
            k = k_all[tile_b, tile_n, :].transpose(1, 2)
            scores = torch.bmm(q, k)
            higher = torch.maximum(highest, torch.amax(scores, -1) * scale)
            scores = scores * scale - higher[:, :, None]
            p = torch.exp2(scores)
            correction = torch.exp2(highest - higher)
            total = total * correction + torch.sum(p, -1)
            acc = acc * correction[:, :, None]
            v = v_all[tile_b, tile_n, :]
            acc = torch.baddbmm(acc, p.to(v.dtype), v)
            highest = higher
        lse[tile_b, tile_m] = highest + torch.log2(total)
        acc = acc / total[:, :, None]
        out[tile_b, tile_m, :] = acc.to(out.dtype)
    return out.view(q_in.size()), lse.view(q_in.size()[:-1])


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, None]:
    return F.scaled_dot_product_attention(q, k, v), None


@helion.kernel(static_shapes=True, config=helion.Config(block_sizes=[1, 16, 16]))
def causal_attention(q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor) -> torch.Tensor:
    m = q_in.size(-2)
    head = hl.specialize(q_in.size(-1))
    q_all, k_all, v_all = (t.reshape([-1, t.size(-2), head]) for t in (q_in, k_in, v_in))
    out = torch.empty_like(q_all)
    scale = 1.0 / math.sqrt(head)
    for tile_b, tile_m in hl.tile([q_all.size(0), m]):
        highest = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_b, tile_m])
        acc = hl.zeros([tile_b, tile_m, head], dtype=torch.float32)
        q = q_all[tile_b, tile_m, :]
        for tile_n in hl.tile(tile_m.end):
            scores = torch.bmm(q, k_all[tile_b, tile_n, :].transpose(1, 2)).to(torch.float32) * scale
            seen = tile_m.index[None, :, None] >= tile_n.index[None, None, :]
            scores = torch.where(seen, scores, float("-inf"))
            higher = torch.maximum(highest, torch.amax(scores, -1))
            p = torch.exp(scores - higher[:, :, None])
            correction = torch.exp(highest - higher)
            total = total * correction + p.sum(-1)
            v = v_all[tile_b, tile_n, :]
            acc = torch.baddbmm(acc * correction[:, :, None], p.to(v.dtype), v)
            highest = higher
        out[tile_b, tile_m, :] = (acc / total[:, :, None]).to(out.dtype)
    return out.view(q_in.size())


@helion.kernel(static_shapes=True, config=helion.Config(block_sizes=[16, 32]))
def fp8_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: int, heads: int) -> torch.Tensor:
    planes, m, head = q.size()
    head = hl.specialize(head)
    n = k.size(1)
    out = torch.empty([batch, heads, m, head], dtype=torch.float32, device=q.device)
    scale = 1.44269504 / math.sqrt(float(head))
    for plane in hl.grid(planes):
        b = plane // heads
        h = plane % heads
        for tile_m in hl.tile(m):
            highest = hl.full([tile_m], float("-inf"), dtype=torch.float32)
            total = hl.full([tile_m], 0.0, dtype=torch.float32)
            acc = hl.zeros([tile_m, head], dtype=torch.float32)
            left = q[plane, tile_m, :]
            for tile_n in hl.tile(n):
                scores = hl.dot(left, k[plane, tile_n, :].t()) * scale
                higher = torch.maximum(highest, torch.amax(scores, dim=-1))
                p = torch.exp2(scores - higher[:, None])
                correction = torch.exp2(highest - higher)
                total = total * correction + torch.sum(p, dim=-1)
                acc = hl.dot(p.to(v.dtype), v[plane, tile_n, :], acc=acc * correction[:, None])
                highest = higher
            out[b, h, tile_m, :] = acc / total[:, None]
    return out


def attended_planes(q, k, v, batch, heads):
    out = torch.softmax(q.float() @ k.float().transpose(1, 2) / math.sqrt(q.size(2)), -1) @ v.float()
    return out.view(batch, heads, *out.shape[1:])


@helion.kernel(config=helion.Config(block_sizes=[16, 16]))
def flex_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, change, keep) -> torch.Tensor:
    planes, m, head = q.size()
    head = hl.specialize(head)
    out = torch.empty_like(q)
    for tile_b, tile_m in hl.tile([planes, m], block_size=[1, None]):
        highest = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_m, head], dtype=torch.float32)
        left = q[tile_b.begin, tile_m, :]
        for tile_n in hl.tile(k.size(1)):
            scores = hl.dot(left, k[tile_b.begin, tile_n, :].T) / math.sqrt(head)
            rows, columns = tile_m.index[:, None], tile_n.index[None, :]
            scores = change(scores, tile_b.begin, rows, columns)
            scores = torch.where(keep(tile_b.begin, rows, columns), scores, float("-inf"))
            higher = torch.maximum(highest, torch.amax(scores, dim=-1))
            safe = torch.where(higher == float("-inf"), 0.0, higher)
            p = torch.exp(scores - safe[:, None])
            correction = torch.exp(highest - safe)
            total = total * correction + p.sum(-1)
            acc = torch.addmm(acc * correction[:, None], p.to(v.dtype), v[tile_b.begin, tile_n, :])
            highest = higher
        out[tile_b.begin, tile_m, :] = (acc / total[:, None]).to(out.dtype)
    return out


def biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    return flex_attention(
        q, k, v, lambda s, b, i, j: s - slopes[b] * (i - j), lambda b, i, j: (i - j >= 0) & (i - j < 9)
    )


def biased_reference(q, k, v, slopes):
    i, j = torch.arange(q.size(1))[:, None], torch.arange(k.size(1))[None, :]
    scores = q @ k.transpose(1, 2) / math.sqrt(q.size(2)) - slopes[:, None, None] * (i - j)
    return torch.softmax(scores.masked_fill(~((i - j >= 0) & (i - j < 9)), float("-inf")), -1) @ v


def cases():
    q, k, v = (torch.randn(1, 2, n, 32).half() for n in (33, 50, 50))
    yield "attention", attention, (q, k, v), attended
    same = tuple(torch.randn(2, 41, 32).half() for _ in range(3))
    yield (
        "causal_attention",
        causal_attention,
        same,
        lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True),
    )
    eight = tuple(torch.randn(2, 33, 32).to(torch.float8_e5m2) for _ in range(3))
    yield "fp8_attention", fp8_attention, (*eight, 1, 2), attended_planes
    yield "flex_attention", biased, (*(t.float() for t in same), torch.rand(2)), biased_reference
