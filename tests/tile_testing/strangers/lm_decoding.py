"""Decoding of language models: trees of drafts, layers held against each other, repeats, caches of two bits."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_tree(b: int, n: int, h: int, g: int, s: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    parent = (torch.rand(b, n) * torch.arange(n)).long()
    ancestors = torch.ones(b, n, dtype=torch.long)  # the root sees itself
    for i in range(1, n):
        ancestors[:, i] = ancestors.gather(1, parent[:, i : i + 1])[:, 0] | (1 << i)
    cache = [randn(b, s, g, d, dtype=dtype) for _ in range(2)]
    drafts = [randn(b, n, g, d, dtype=dtype) for _ in range(2)]
    return randn(b, n, h, d, dtype=dtype), *cache, *drafts, ancestors, torch.randint(s // 2, s + 1, (b,)).int()


def tree_ref(q: Any, k: Any, v: Any, draft_k: Any, draft_v: Any, ancestors: Any, lengths: Any) -> Any:
    s, n, times = k.size(1), q.size(1), q.size(2) // k.size(2)
    keys, values = torch.cat([k, draft_k], 1), torch.cat([v, draft_v], 1)
    tree = (ancestors[:, :, None] >> torch.arange(n)) % 2 == 1
    before = (torch.arange(s) < lengths[:, None])[:, None].expand(-1, n, -1)
    mask = torch.cat([before, tree], 2)[:, None]
    q, keys, values = (x.transpose(1, 2) for x in (q, keys, values))
    keys, values = (x.repeat_interleave(times, 1) for x in (keys, values))
    return F.scaled_dot_product_attention(q, keys, values, mask).transpose(1, 2)


@stranger(
    make_tree,
    tree_ref,
    {"b": 2, "n": 7, "h": 4, "g": 2, "s": 37, "d": 16},
    {"b": 16, "n": 61, "h": 32, "g": 8, "s": 4096, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def tree_draft_attention(q, k, v, draft_k, draft_v, ancestors, lengths):
    """Miao and others, 2023 (SpecInfer): all nodes of a tree of drafts see the cache, and their ancestors by bits."""
    b, n, h, d = q.shape
    times = h // k.size(2)
    out = torch.empty_like(q)
    for ib, ih in tfl.grid([b, h]):
        g = ih // times
        query = q[ib, :, ih, :]
        top = tfl.full([n], float("-inf"))
        total = tfl.zeros([n])
        acc = tfl.zeros([n, d])
        for tk in tfl.tile(lengths[ib]):
            scores = tfl.dot(query, k[ib, tk, g, :].T) * d**-0.5
            new = torch.maximum(top, scores.amax(1))
            p = torch.exp(scores - new[:, None])
            fade = torch.exp(top - new)
            total = total * fade + p.sum(1)
            acc = acc * fade[:, None] + tfl.dot(p.to(v.dtype), v[ib, tk, g, :])
            top = new
        seen = (ancestors[ib, :][:, None] >> tfl.arange(n)[None, :]) & 1
        scores = tfl.dot(query, draft_k[ib, :, g, :].T) * d**-0.5
        scores = torch.where(seen == 1, scores, float("-inf"))
        new = torch.maximum(top, scores.amax(1))
        p = torch.exp(scores - new[:, None])
        fade = torch.exp(top - new)
        total = total * fade + p.sum(1)
        acc = acc * fade[:, None] + tfl.dot(p.to(v.dtype), draft_v[ib, :, g, :])
        out[ib, :, ih, :] = acc / total[:, None]
    return out


def make_layers(layers: int, n: int, words: int, dtype: torch.dtype = torch.float32) -> Any:
    final = (2 * torch.randn(n, words)).to(dtype)
    far = torch.stack([torch.randperm(layers) for _ in range(n)], 1)[:, :, None] / layers
    return final, (final * (1 - far) + 2 * torch.randn(layers, n, words) * far).to(dtype), 0.1


def layers_ref(final: Any, early: Any, alpha: float) -> Any:
    wide = torch.promote_types(final.dtype, torch.float32)
    p, q = final.to(wide).softmax(1), early.to(wide).softmax(2)
    middle = (p + q) / 2
    apart = (p * (p / middle).log()).sum(2) + (q * (q / middle).log()).sum(2)
    layer = apart.argmax(0)
    chosen = q[layer, torch.arange(p.size(0))]
    score = torch.where(p < alpha * p.amax(1, keepdim=True), float("-inf"), (p / chosen).log())
    return score, layer.int(), score.argmax(1)


@stranger(
    make_layers,
    layers_ref,
    {"layers": 3, "n": 5, "words": 211},
    {"layers": 8, "n": 256, "words": 32000, "dtype": torch.bfloat16},
)
@tileflow.kernel
def layer_contrast(final, early, alpha: float):
    """Chuang and others, 2023 (DoLa): the last layer's words against those of the layer that differs most from it."""
    layers, n, words = early.shape
    score = torch.empty(n, words, device=final.device)
    chosen = torch.empty(n, dtype=torch.int32, device=final.device)
    token = torch.empty(n, dtype=torch.int64, device=final.device)
    for t in tfl.tile(n):
        p = torch.log_softmax(final[t, :].float(), 1)
        most = tfl.full([t], -1.0)
        layer = tfl.zeros([t], dtype=torch.int32)
        for j in range(layers):
            q = torch.log_softmax(early[j, t, :].float(), 1)
            middle = torch.logaddexp(p, q) - 0.6931471805599453
            apart = (p.exp() * (p - middle)).sum(1) + (q.exp() * (q - middle)).sum(1)
            layer = torch.where(apart > most, j, layer)
            most = torch.maximum(most, apart)
        q = torch.log_softmax(early[layer, t.index, :].float(), 1)
        plausible = p.exp() >= alpha * p.exp().amax(1, keepdim=True)
        contrast = torch.where(plausible, p - q, float("-inf"))
        score[t, :] = contrast
        chosen[t] = layer
        token[t] = contrast.argmax(1)
    return score, chosen, token


def make_dry(n: int, s: int, words: int, alphabet: int, most: int) -> Any:
    tokens = torch.randint(0, alphabet, (n, s)).int()
    return randn(n, words), tokens, torch.randint(s // 2, s + 1, (n,)).int(), 0.8, 1.75, 2, most


def dry_ref(logits: Any, tokens: Any, lengths: Any, times: float, base: float, allowed: int, most: int) -> Any:
    n, words = logits.shape
    for row in range(n):
        text = tokens[row, : lengths[row]].long()
        length, alive = torch.zeros_like(text[1:]), torch.ones_like(text[1:], dtype=torch.bool)
        for back in range(min(most, text.numel() - 1)):
            before = text[: text.numel() - 1 - back] == text[-1 - back]
            alive = alive & F.pad(before, (back, 0))
            length += alive
        longest = torch.zeros(words, dtype=torch.long).scatter_reduce(0, text[1:], length, "amax")
        logits[row] -= torch.where(longest >= allowed, times * base ** (longest - allowed).to(logits.dtype), 0.0)
    return logits


@stranger(
    make_dry,
    dry_ref,
    {"n": 5, "s": 43, "words": 29, "alphabet": 3, "most": 5},
    {"n": 64, "s": 8192, "words": 128256, "alphabet": 20, "most": 24},
)
@tileflow.kernel
def dry_penalty(logits, tokens, lengths, times: float, base: float, allowed: int, most: int):
    """Weidmann, 2024 (DRY): what would go on with a repeat of the text's end loses by the length of the repeat."""
    n, words = logits.shape
    s = tokens.size(1)
    longest = torch.zeros(n, words, dtype=torch.int32, device=logits.device)
    for tb, ts in tfl.tile([n, s]):
        last = lengths[tb] - 1
        length = tfl.zeros([tb, ts], dtype=torch.int32)
        alive = ts.index[None, :] < last[:, None]
        for back in range(most):
            alive &= (ts.index >= back)[None, :]
            alive &= tokens[tb, ts - back] == tokens[tb.index, last - back][:, None]
            length += alive
        following = tokens[tb, ts + 1]
        tfl.atomic_max(longest, [tb.index[:, None], following], length, extra_mask=length >= allowed)
    for tb, tw in tfl.tile([n, words]):
        length = longest[tb, tw]
        logits[tb, tw] -= torch.where(length >= allowed, times * base ** (length - allowed), 0.0)
    return logits


def make_two_bit(b: int, h: int, g: int, s: int, d: int, size: int, recent: int, dtype: Any = torch.float32) -> Any:
    k_codes, v_codes = (torch.randint(0, 256, x, dtype=torch.uint8) for x in ((b, g, s // 4, d), (b, g, s, d // 4)))
    k_scale, v_scale = (torch.rand(x).to(dtype) for x in ((b, g, s // size, d), (b, g, s, d // size)))
    k_zero, v_zero = (randn(*x.shape, dtype=dtype) - 1.5 * x for x in (k_scale, v_scale))
    late = [randn(b, g, recent, d, dtype=dtype) for _ in range(2)]
    return randn(b, h, d, dtype=dtype), k_codes, k_scale, k_zero, v_codes, v_scale, v_zero, *late, size


def two_bit_ref(q: Any, kc: Any, ks: Any, kz: Any, vc: Any, vs: Any, vz: Any, k: Any, v: Any, size: int) -> Any:
    b, h, d = q.shape
    shifts = torch.arange(0, 8, 2)
    old_k = (kc[:, :, :, None].int() >> shifts[:, None] & 3).flatten(2, 3).unflatten(2, (-1, size))
    old_k = (old_k * ks[:, :, :, None] + kz[:, :, :, None]).flatten(2, 3)
    old_v = (vc[..., None].int() >> shifts & 3).flatten(3).unflatten(3, (-1, size))
    old_v = (old_v * vs[..., None] + vz[..., None]).flatten(3)
    keys, values = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
    weight = (q.view(b, k.size(1), -1, d) @ keys.mT * d**-0.5).softmax(3)
    return (weight @ values).view(b, h, d)


@stranger(
    make_two_bit,
    two_bit_ref,
    {"b": 2, "h": 6, "g": 2, "s": 40, "d": 24, "size": 8, "recent": 5},
    {"b": 16, "h": 32, "g": 8, "s": 16384, "d": 128, "size": 32, "recent": 97, "dtype": torch.float16},
)
@tileflow.kernel
def two_bit_cache_decode(q, k_codes, k_scale, k_zero, v_codes, v_scale, v_zero, k, v, size: int):
    """Liu and others, 2024 (KIVI): one token and keys of two bits by channel, values by token, and recent ones."""
    b, h, d = q.shape
    groups, s = k_codes.size(1), v_codes.size(2)
    queries = q.view(b, groups, h // groups, d)
    out = torch.empty_like(queries)
    for ib, ig in tfl.grid([b, groups]):
        query = queries[ib, ig, :, :]
        top = tfl.full([h // groups], float("-inf"))
        total = tfl.zeros([h // groups])
        acc = tfl.zeros([h // groups, d])
        channel = tfl.arange(d)
        for t in tfl.tile(s):
            code = (k_codes[ib, ig, t.index // 4, :] >> (2 * (t.index % 4))[:, None]) & 3
            key = code * k_scale[ib, ig, t.index // size, :] + k_zero[ib, ig, t.index // size, :]
            code = (v_codes[ib, ig, t, channel // 4] >> (2 * (channel % 4))[None, :]) & 3
            value = code * v_scale[ib, ig, t, channel // size] + v_zero[ib, ig, t, channel // size]
            scores = query @ key.T * d**-0.5
            new = torch.maximum(top, scores.amax(1))
            p = torch.exp(scores - new[:, None])
            fade = torch.exp(top - new)
            total = total * fade + p.sum(1)
            acc = acc * fade[:, None] + p.to(value.dtype) @ value
            top = new
        scores = query @ k[ib, ig, :, :].T * d**-0.5
        new = torch.maximum(top, scores.amax(1))
        p = torch.exp(scores - new[:, None])
        fade = torch.exp(top - new)
        acc = acc * fade[:, None] + p.to(v.dtype) @ v[ib, ig, :, :]
        out[ib, ig, :, :] = acc / (total * fade + p.sum(1))[:, None]
    return out.view(b, h, d)


def make_accepted(layers: int, b: int, s: int, width: int, nodes: int, dtype: torch.dtype = torch.float32) -> Any:
    caches = [randn(2, b, s, width, dtype=dtype) for _ in range(layers)]
    taken = torch.rand(b, nodes) < 0.3
    path = torch.where(taken, torch.arange(nodes), nodes).sort(1).values
    path = torch.where(path < nodes, path, -1)[:, : nodes // 2].int()
    return caches, path, torch.randint(1, s - nodes + 1, (b,)).int()


def accepted_ref(caches: Any, path: Any, lengths: Any) -> Any:
    for i in range(path.size(0)):
        nodes = path[i][path[i] >= 0].long()
        first, count = int(lengths[i]), nodes.numel()
        for cache in caches:
            cache[:, i, first : first + count] = cache[:, i].index_select(1, first + nodes)
        lengths[i] += count
    return caches, lengths


@stranger(
    make_accepted,
    accepted_ref,
    {"layers": 2, "b": 3, "s": 23, "width": 21, "nodes": 9},
    {"layers": 4, "b": 128, "s": 512, "width": 1024, "nodes": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def keep_accepted_path(caches: list[torch.Tensor], path, lengths):
    """Cai and others, 2024 (Medusa): keys and values of the accepted path move together behind the text, in place."""
    b, most = path.shape
    for cache in caches:
        width = cache.size(3)
        for ib, tc in tfl.tile([b, width], block_size=[1, None]):
            i = ib.id
            first = lengths[i]
            node = path[i, :]
            moved = cache[:, i, first + node, tc]
            place = first + tfl.arange(most)
            tfl.store(cache, [slice(None), i, place, tc], moved, extra_mask=(node >= 0)[None, :, None])
    for tb in tfl.tile(b):
        lengths[tb] += (path[tb, :] >= 0).sum(1)
    return caches, lengths
