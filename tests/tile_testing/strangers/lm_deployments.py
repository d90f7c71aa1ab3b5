"""Language models as they are deployed: caches that are copied, rotated and thinned, steps of many requests, weights
that are unpacked as they are read, texts that are uncovered word by word."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_turbo(n: int, d: int, dtype: Any) -> Any:
    levels = torch.tensor([-2.15, -1.34, -0.76, -0.25, 0.25, 0.76, 1.34, 2.15]) / math.sqrt(d)
    return torch.randn(n, d).to(dtype), torch.randn(d, d) / math.sqrt(d), levels, torch.randn(d, d)


def turbo_ref(keys: Any, rotation: Any, levels: Any, sketch: Any) -> Any:
    k = keys.float()
    norm = k.norm(dim=1)
    y = (k / norm[:, None]) @ rotation.T
    code = (y[:, :, None] - levels).abs().argmin(2)
    rest = y - levels[code]
    bits = ((rest @ sketch.T) > 0).view(len(k), -1, 8)
    packed = (bits * 2 ** torch.arange(8)).sum(2).to(torch.uint8)
    return code.to(torch.uint8), packed, norm, rest.norm(dim=1)


@stranger(
    make_turbo,
    turbo_ref,
    {"n": 13, "d": 32, "dtype": torch.float32},
    {"n": 1 << 17, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def turbo_quantise(keys, rotation, levels, sketch):
    """TurboQuant (Zandieh et al., 2025): turned keys in three bits a number, the signs of a sketch of the rest."""
    n, d = keys.shape
    codes = torch.empty(n, d, dtype=torch.uint8, device=keys.device)
    signs = torch.empty(n, d // 8, dtype=torch.uint8, device=keys.device)
    norms = torch.empty(n, device=keys.device)
    rests = torch.empty(n, device=keys.device)
    for t in tfl.tile(n):
        k = keys[t, :].float()
        norm = torch.linalg.norm(k, dim=-1, keepdim=True)
        y = (k / norm) @ rotation[:, :].T
        borders = (levels[1:] + levels[:-1]) / 2
        code = torch.bucketize(y, borders)
        rest = y - levels[code]
        bits = (rest @ sketch[:, :].T) > 0
        shifted = bits.reshape(t, d // 8, 8).to(torch.uint8) << torch.arange(8, dtype=torch.uint8)
        codes[t, :] = code.to(torch.uint8)
        signs[t, :] = shifted.sum(-1)
        norms[t] = norm.squeeze(-1)
        rests[t] = torch.linalg.vector_norm(rest, dim=-1)
    return codes, signs, norms, rests


@dataclass
class Decoding:
    """What a server keeps of each request that is decoded."""

    tokens: torch.Tensor
    positions: torch.Tensor
    lengths: torch.Tensor
    slots: torch.Tensor


def make_advance(n: int, pages: int, size: int) -> Any:
    lengths = torch.randint(1, pages * size - 1, (n,), dtype=torch.int32)
    state = Decoding(torch.zeros(n, dtype=torch.int64), lengths.long() - 1, lengths, torch.zeros(n, dtype=torch.int64))
    table = torch.randperm(n * pages).view(n, pages).int()
    return state, torch.randint(0, 7, (n, 1)), table, size


def advance_ref(state: Any, sampled: Any, table: Any, size: int, last: int = 2) -> Any:
    done = sampled[:, 0] == last
    position = state.lengths.long()
    page = table.gather(1, (position // size)[:, None])[:, 0].long()
    state.slots.copy_(torch.where(done, -1, page * size + position % size))
    state.tokens.copy_(sampled[:, 0])
    state.positions.copy_(torch.where(done, state.positions, position))
    state.lengths.add_(~done)
    return done


@stranger(make_advance, advance_ref, {"n": 21, "pages": 5, "size": 4}, {"n": 8192, "pages": 512, "size": 16})
@tileflow.kernel
def advance_decode(state: Decoding, sampled, table, page_size: int = 16, last_token: int = 2):
    """vLLM's step between two tokens: lengths, positions and slots of the cache, all in place; who is done stays."""
    n = sampled.shape[0]
    done = torch.empty(n, dtype=torch.bool, device=sampled.device)
    for t in tfl.tile(n):
        token = sampled[t, 0]
        finished = token == last_token
        position = state.lengths[t]
        page = table[t.index, position // page_size].long()
        slot = page * page_size + position % page_size
        state.tokens[t] = token
        state.positions[t] = torch.where(finished, state.positions[t], position)
        state.slots[t] = torch.where(finished, -1, slot)
        state.lengths[t] += ~finished
        done[t] = finished
    return done


def make_copies(layers: int, blocks: int, size: int, heads: int, d: int, pairs: int, dtype: Any) -> Any:
    caches = [[torch.randn(blocks, size, heads, d).to(dtype) for _ in range(layers)] for _ in range(2)]
    places = torch.randperm(blocks)[: 2 * pairs].view(pairs, 2)
    return caches[0], caches[1], places


def copies_ref(keys: Any, values: Any, pairs: Any) -> None:
    for cache in (*keys, *values):
        cache[pairs[:, 1]] = cache[pairs[:, 0]]


@stranger(
    make_copies,
    copies_ref,
    {"layers": 2, "blocks": 9, "size": 4, "heads": 3, "d": 5, "pairs": 3, "dtype": torch.float16},
    {"layers": 8, "blocks": 2048, "size": 16, "heads": 8, "d": 128, "pairs": 512, "dtype": torch.bfloat16},
)
@tileflow.kernel
def copy_cache_blocks(key_caches: list[torch.Tensor], value_caches: list[torch.Tensor], pairs: torch.Tensor) -> None:
    """vLLM's copy of shared blocks before they are written: of every layer, keys and values, source by source."""
    for keys, values in zip(key_caches, value_caches, strict=True):
        for i in tfl.grid(pairs.shape[0]):
            source, target = pairs[i, 0], pairs[i, 1]
            keys[target] = keys[source]
            values[target] = values[source]


def make_unmask(b: int, n: int, vocabulary: int, dtype: Any) -> Any:
    tokens = torch.randint(0, vocabulary - 1, (b, n))
    tokens = torch.where(torch.rand(b, n) < 0.6, vocabulary - 1, tokens)
    budget = torch.randint(0, n // 3, (b,))
    return torch.randn(b, n, vocabulary).to(dtype), tokens, budget, vocabulary - 1


def unmask_ref(logits: Any, tokens: Any, budget: Any, mask: int) -> Any:
    sure, guess = logits.float().softmax(-1).max(-1)
    for row in range(len(tokens)):
        places = (tokens[row] == mask).nonzero()[:, 0]
        best = places[sure[row, places].sort(descending=True, stable=True).indices[: int(budget[row])]]
        tokens[row, best] = guess[row, best]
    return tokens == mask


@stranger(
    make_unmask,
    unmask_ref,
    {"b": 3, "n": 17, "vocabulary": 29, "dtype": torch.float32},
    {"b": 32, "n": 1024, "vocabulary": 32000, "dtype": torch.float32},
    loops=True,
)
@tileflow.kernel
def unmask_confident(logits, tokens, budget, mask_token):
    """LLaDA (Nie et al., 2025): of the words that are still masked, each text uncovers those it is surest of."""
    b, n, _ = logits.shape
    sure = torch.empty(b, n, device=logits.device)
    guess = torch.empty_like(tokens)
    left = torch.empty(b, n, dtype=torch.bool, device=logits.device)
    for i, t in tfl.tile([b, n]):
        probability = torch.softmax(logits[i, t, :].float(), dim=-1)
        sure[i, t], guess[i, t] = probability.max(dim=-1)
    for i in tfl.grid(b):
        hidden = tokens[i, :] == mask_token
        score = torch.where(hidden, sure[i, :], float("-inf"))
        rank = score.argsort(descending=True, stable=True).argsort()
        chosen = hidden & (rank < budget[i])
        tokens[i, :] = torch.where(chosen, guess[i, :], tokens[i, :])
        left[i, :] = hidden & ~chosen
    return left


def make_redundant(heads: int, n: int, d: int, keep: int, dtype: Any) -> Any:
    keys = (torch.randn(n, heads, d) + torch.randn(1, heads, d)).to(dtype).transpose(0, 1)
    return keys, torch.rand(heads, n), keep


def redundant_ref(keys: Any, importance: Any, keep: int, mix: float = 0.1) -> Any:
    unit = F.normalize(keys.float(), dim=-1)
    alike = (unit @ unit.transpose(1, 2)).clamp(min=0)
    alike.diagonal(dim1=1, dim2=2).zero_()
    score = mix * importance - (1 - mix) * alike.mean(1).softmax(-1)
    return score, score.topk(keep, dim=-1).indices.sort(dim=-1).values


@stranger(
    make_redundant,
    redundant_ref,
    {"heads": 2, "n": 37, "d": 16, "keep": 8, "dtype": torch.float32},
    {"heads": 32, "n": 4096, "d": 128, "keep": 1024, "dtype": torch.bfloat16},
)
@tileflow.kernel
def redundant_keys(keys, importance, keep: int, mix: float = 0.1):
    """R-KV (Cai et al., 2025): a cache keeps keys that matter and that no other key resembles."""
    heads, n, _ = keys.shape
    alike = torch.empty(heads, n, device=keys.device)
    score = torch.empty_like(importance)
    kept = torch.empty(heads, keep, dtype=torch.int64, device=keys.device)
    for h, t in tfl.tile([heads, n], block_size=[1, None]):
        mine = F.normalize(keys[h, t, :].float(), dim=-1)
        total = tfl.zeros([h, t])
        for s in tfl.tile(n):
            other = F.normalize(keys[h, s, :].float(), dim=-1)
            cosine = torch.clamp(mine @ other.mT, min=0)
            same = t.index[:, None] == s.index[None, :]
            total += cosine.masked_fill(same, 0.0).sum(dim=-1)
        alike[h, t] = total / n
    for h in tfl.grid(heads):
        redundancy = alike[h, :].softmax(dim=-1)
        row = mix * importance[h, :] - (1 - mix) * redundancy
        score[h, :] = row
        kept[h, :] = row.topk(keep).indices.sort().values
    return score, kept


@dataclass(frozen=True)
class Yarn:
    """How a model that was trained on texts of one length is read at a greater."""

    base: float = 10000.0
    factor: float = 4.0
    trained: int = 4096
    fast: float = 32.0
    slow: float = 1.0

    def turning(self, turns: float, width: int) -> float:
        return width * math.log(self.trained / (turns * 2 * math.pi)) / (2 * math.log(self.base))

    @property
    def magnitude(self) -> float:
        return 0.1 * math.log(self.factor) + 1.0


def yarn_ref(positions: Any, width: int, yarn: Any, dtype: Any) -> Any:
    low = max(math.floor(yarn.turning(yarn.fast, width)), 0)
    high = min(math.ceil(yarn.turning(yarn.slow, width)), width - 1)
    i = torch.arange(width // 2).double()
    ramp = ((i - low) / (high - low)).clamp(0, 1)
    rate = yarn.base ** (-2 * i / width)
    angle = (positions[:, None].float() * (rate * (1 - ramp) + rate / yarn.factor * ramp).float()).double()
    return (angle.cos() * yarn.magnitude).to(dtype), (angle.sin() * yarn.magnitude).to(dtype)


@stranger(
    lambda n, width, dtype: (torch.randint(0, 300, (n,)), width, Yarn(), dtype),
    yarn_ref,
    {"n": 19, "width": 64, "dtype": torch.float32},
    {"n": 1 << 17, "width": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def yarn_tables(positions, width: int, yarn: Yarn = Yarn(), dtype=torch.float32):
    """YaRN (Peng et al., 2023): cosines and sines of positions, slow turns stretched, fast ones as they were."""
    n = positions.numel()
    half = width // 2
    cos = torch.empty(n, half, dtype=dtype, device=positions.device)
    sin = torch.empty(n, half, dtype=dtype, device=positions.device)
    for t in tfl.tile(n):
        low = max(math.floor(yarn.turning(yarn.fast, width)), 0)
        high = min(math.ceil(yarn.turning(yarn.slow, width)), width - 1)
        i = torch.arange(half)
        ramp = torch.clamp((i - low) / (high - low), 0, 1)
        rate = yarn.base ** (-2 * i / width)
        rate = rate * (1 - ramp) + rate / yarn.factor * ramp
        angle = torch.outer(positions[t].float(), rate)
        cos[t, :] = angle.cos() * yarn.magnitude
        sin[t, :] = angle.sin() * yarn.magnitude
    return cos, sin


LONGEST = 12


def lengths_of(counts: Any) -> dict[int, int]:
    heap = [(count, [symbol]) for symbol, count in counts.items()]
    lengths = dict.fromkeys(counts, 0)
    heapq.heapify(heap)
    while len(heap) > 1:
        (a, one), (b, other) = heapq.heappop(heap), heapq.heappop(heap)
        for symbol in one + other:
            lengths[symbol] += 1
        heapq.heappush(heap, (a + b, one + other))
    return lengths


def make_packed_weights(blocks: int, per: int) -> Any:
    """The exponents of normal numbers in Huffman's code, what else is in a bfloat16 as it is."""
    if torch.empty(0).is_meta:
        n = blocks * per
        stream, rest = torch.empty(n * 3 // 8, dtype=torch.uint8), torch.empty(n, dtype=torch.uint8)
        table = torch.empty(1 << LONGEST, dtype=torch.uint8)
        return stream, torch.empty(blocks, dtype=torch.int64), table, table.clone(), rest, per
    words = (torch.randn(blocks * per) * 0.02).bfloat16().view(torch.int16).int() & 0xFFFF
    exponents = ((words >> 7) & 0xFF).clamp(min=112).cpu().tolist()
    lengths = lengths_of(Counter(exponents))
    assert max(lengths.values()) <= LONGEST
    symbols, widths, codes, code = [], [], {}, 0
    for length, symbol in sorted((length, symbol) for symbol, length in lengths.items()):
        codes[symbol] = format(code >> (LONGEST - length), f"0{length}b")
        span = 1 << (LONGEST - length)
        symbols += [symbol] * span
        widths += [length] * span
        code += span
    starts, text, place = [], [], 0
    for block in range(blocks):
        starts.append(place)
        for e in exponents[block * per : (block + 1) * per]:
            text.append(codes[e])
            place += len(codes[e])
    joined = "".join(text)
    joined += "0" * (-len(joined) % 8)
    stream = torch.tensor([int(joined[i : i + 8], 2) for i in range(0, len(joined), 8)], dtype=torch.uint8)
    rest = ((words >> 8) & 0x80 | words & 0x7F).to(torch.uint8)
    tables = (torch.tensor(x, dtype=torch.uint8) for x in (symbols, widths))
    return stream, torch.tensor(starts), *tables, rest, per


def packed_weights_ref(stream: Any, starts: Any, symbols: Any, widths: Any, rest: Any, per: int) -> Any:
    bits = "".join(f"{byte:08b}" for byte in stream.tolist()) + "0" * LONGEST
    symbols, widths, exponents = symbols.tolist(), widths.tolist(), []
    for place in starts.tolist():
        for _ in range(per):
            window = int(bits[place : place + LONGEST], 2)
            exponents.append(symbols[window])
            place += widths[window]
    low = rest.int()
    words = (low & 0x80) << 8 | torch.tensor(exponents, dtype=torch.int32) << 7 | low & 0x7F
    return words.to(torch.int16).view(torch.bfloat16)


@stranger(make_packed_weights, packed_weights_ref, {"blocks": 11, "per": 9}, {"blocks": 8192, "per": 64}, loops=True)
@tileflow.kernel
def huffman_weights(stream, starts, symbols, widths, rest, per: int):
    """DFloat11 (Zhang et al., 2025): bfloat16 weights, their exponents in Huffman's code, a stretch for each lane."""
    out = torch.empty(rest.shape, dtype=torch.bfloat16, device=rest.device)
    for t in tfl.tile(starts.numel()):
        place = starts[t]
        for k in range(per):
            byte = place >> 3
            word = stream[byte].int() << 16 | stream[byte + 1].int() << 8 | stream[byte + 2].int()
            window = (word >> (24 - LONGEST - (place & 7))) & ((1 << LONGEST) - 1)
            exponent = symbols[window].int()
            place += widths[window]
            low = rest[t.index * per + k].int()
            value = (low & 0x80) << 8 | exponent << 7 | low & 0x7F
            out[t.index * per + k] = value.to(torch.int16).view(torch.bfloat16)
    return out


def make_prodigy(n: int, dtype: Any) -> Any:
    p = torch.randn(n).to(dtype)
    g = torch.randn(n).to(dtype)
    m, v, s = torch.randn(n) * 1e-3, torch.rand(n) * 1e-4, torch.randn(n) * 1e-3
    return p, g, m, v, s, (p.float() + 0.1 * torch.randn(n)).to(dtype), torch.tensor(1e-3), torch.tensor(0.5)


def prodigy_ref(p: Any, g: Any, m: Any, v: Any, s: Any, start: Any, d: Any, total: Any) -> None:
    lr, beta1, beta2, eps, decay = 1.0, 0.9, 0.999, 1e-8, 0.01
    beta3 = beta2**0.5
    old, grad = d.clone(), g.float()
    dot = (grad.double() * (start.double() - p.double())).sum()
    total.copy_(beta3 * total + old / 1e-6 * old * lr * dot)
    m.mul_(beta1).add_(old * grad, alpha=1 - beta1)
    v.mul_(beta2).add_((old * grad) ** 2, alpha=1 - beta2)
    s.mul_(beta3).add_(old / 1e-6 * old * lr * grad)
    d.copy_(torch.maximum(old, total / s.double().abs().sum()))
    step = m / (v.sqrt() + d * eps)
    p.copy_(p.float() * (1 - decay * old * lr) - old * lr * step)


@stranger(make_prodigy, prodigy_ref, {"n": 101, "dtype": torch.float32}, {"n": 1 << 24, "dtype": torch.bfloat16})
@tileflow.kernel
def prodigy_step(
    p, g, m, v, s, start, d, total, lr: float = 1.0, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.01
):
    """Prodigy (Mishchenko and Defazio, 2023): Adam that finds its own step, of distances and gradients so far."""
    beta1, beta2 = betas
    beta3 = math.sqrt(beta2)
    first = 1e-6
    dot = torch.zeros((), device=p.device)
    norm = torch.zeros((), device=p.device)
    old = d.clone()
    for t in tfl.tile(p.numel()):
        rate = old[...]
        grad = g[t].float()
        tfl.atomic_add(dot, [], (grad * (start[t].float() - p[t].float())).sum())
        m[t] = beta1 * m[t] + (1 - beta1) * rate * grad
        v[t] = beta2 * v[t] + (1 - beta2) * (rate * grad).square()
        moved = beta3 * s[t] + rate / first * rate * lr * grad
        s[t] = moved
        tfl.atomic_add(norm, [], moved.abs().sum())
    for _ in tfl.grid(1):
        total[...] = beta3 * total[...] + old[...] / first * old[...] * lr * dot[...]
        d[...] = torch.maximum(old[...], total[...] / norm[...])
    for t in tfl.tile(p.numel()):
        rate = old[...] * lr
        step = m[t] / (v[t].sqrt() + d[...] * eps)
        p[t] = p[t].float() * (1 - weight_decay * rate) - rate * step
