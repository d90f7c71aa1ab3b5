"""Parts of networks of 2017 to 2026: words further ahead, caches, points in space, sounds, and what people may like."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_entry(b: int, t: int, d: int, words: int, dtype: torch.dtype = torch.float32) -> Any:
    gains = [1 + 0.1 * torch.randn(d) for _ in range(2)]
    w = (torch.randn(2 * d, d) * (2 * d) ** -0.5).to(dtype)
    return randn(b, t, d, dtype=dtype), torch.randint(0, words, (b, t)), randn(words, d, dtype=dtype), *gains, w


def entry_ref(h: Any, token: Any, table: Any, h_gain: Any, e_gain: Any, w: Any) -> Any:
    wide = torch.promote_types(h.dtype, torch.float32)
    d = h.size(2)
    later = F.embedding(F.pad(token[:, 1:], (0, 1)), table).to(wide)
    states = F.rms_norm(h.to(wide), (d,), h_gain.to(wide), 1e-6)
    both = torch.cat([states, F.rms_norm(later, (d,), e_gain.to(wide), 1e-6)], 2)
    return (both.to(h.dtype).to(wide) @ w.to(wide)).to(h.dtype)


@stranger(
    make_entry,
    entry_ref,
    {"b": 2, "t": 13, "d": 24, "words": 57},
    {"b": 4, "t": 2048, "d": 2048, "words": 32000, "dtype": torch.bfloat16},
)
@tileflow.kernel
def next_word_entry(h, token, table, h_gain, e_gain, w):
    """DeepSeek-AI, 2024 (V3's multi-token prediction): a state and the word after it, each normed, projected as one."""
    b, t, d = h.shape
    out = torch.empty_like(h)
    for tb, tt in tfl.tile([b, t], block_size=[1, None]):
        i = tb.begin
        state = F.rms_norm(h[i, tt, :].float(), (d,), h_gain[:], 1e-6)
        later = F.rms_norm(table[token[i, tt + 1], :].float(), (d,), e_gain[:], 1e-6)
        both = torch.cat([state, later], dim=1).to(h.dtype)
        out[i, tt, :] = both @ w[:, :]
    return out


def make_latent(t: int, rank: int, turned: int, slots: int, group: int, dtype: torch.dtype = torch.float32) -> Any:
    angle = torch.rand(4 * t, turned // 2) * 6.28
    slot = torch.randperm(slots)[:t].int()
    slot[torch.rand(t) < 0.1] = -1
    caches = torch.zeros(slots, rank).to(torch.float8_e4m3fn), torch.zeros(slots, rank // group)
    rest = torch.randint(0, 4 * t, (t,)), slot, angle.cos(), angle.sin()
    return (
        randn(t, rank + turned, dtype=dtype),
        1 + 0.1 * torch.randn(rank),
        *rest,
        *caches,
        torch.zeros(slots, turned, dtype=dtype),
    )


def latent_ref(
    kv: Any, gain: Any, position: Any, slot: Any, cos: Any, sin: Any, cache: Any, scale: Any, keys: Any
) -> Any:
    wide = torch.promote_types(kv.dtype, torch.float32)
    rank, groups = cache.size(1), scale.size(1)
    latent = F.rms_norm(kv[:, :rank].to(wide), (rank,), gain.to(wide), 1e-6).unflatten(1, (groups, -1))
    size = latent.abs().amax(2).clamp(min=1e-4) / 448
    a, b = kv[:, rank:].to(wide).unflatten(1, (-1, 2)).unbind(2)
    c, s = cos[position].to(wide), sin[position].to(wide)
    some = slot >= 0
    place = slot[some].long()
    cache[place] = (latent / size[:, :, None]).flatten(1)[some].to(cache.dtype)
    scale[place] = size[some].to(scale.dtype)
    keys[place] = torch.stack([a * c - b * s, a * s + b * c], 2).flatten(1)[some].to(keys.dtype)
    return cache, scale, keys


@stranger(
    make_latent,
    latent_ref,
    {"t": 11, "rank": 32, "turned": 8, "slots": 29, "group": 8},
    {"t": 32768, "rank": 512, "turned": 64, "slots": 131072, "group": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def latent_cache_write(kv, gain, position, slot, cos, sin, cache, scale, keys):
    """DeepSeek-AI, 2025 (V3.2): what a token leaves in a paged cache, a latent in fp8 by groups and a turned key."""
    t = kv.size(0)
    rank, groups = cache.size(1), scale.size(1)
    for tt in tfl.tile(t):
        latent = F.rms_norm(kv[tt, :rank].float(), (rank,), gain[:], 1e-6).reshape(tt, groups, rank // groups)
        size = latent.abs().amax(2).clamp(min=1e-4) / 448
        place = slot[tt]
        cache[place, :] = (latent / size[:, :, None]).reshape(tt, rank).to(cache.dtype)
        scale[place, :] = size
        a, b = kv[tt, rank:].float().unflatten(1, (-1, 2)).unbind(2)
        c, s = cos[position[tt], :], sin[position[tt], :]
        keys[place, :] = torch.stack([a * c - b * s, a * s + b * c], 2).flatten(1)
    return cache, scale, keys


def make_wy(b: int, t: int, heads: int, d: int, size: int, dtype: torch.dtype = torch.float32) -> Any:
    k = F.normalize(torch.randn(b, t, heads, d), dim=3).to(dtype)
    return k, randn(b, t, heads, d, dtype=dtype), -0.1 * torch.rand(b, t, heads, d), torch.rand(b, t, heads), size


def wy_ref(k: Any, v: Any, decay: Any, beta: Any, size: int) -> Any:
    wide = decay.dtype
    w, u = torch.empty_like(k), torch.empty_like(v)
    for begin in range(0, k.size(1), size):
        part = slice(begin, begin + size)
        key, value, fade = (x[:, part].to(wide).transpose(1, 2) for x in (k, v, decay))
        beta_part = beta[:, part].transpose(1, 2)[..., None]
        total = fade.cumsum(2)
        left, right = beta_part * key * total.exp(), key * (-total).exp()
        unit = torch.eye(key.size(2), dtype=wide) + (left @ right.mT).tril(-1)
        w[:, part] = torch.linalg.solve_triangular(unit, left, upper=False).transpose(1, 2).to(k.dtype)
        u[:, part] = torch.linalg.solve_triangular(unit, beta_part * value, upper=False).transpose(1, 2).to(v.dtype)
    return w, u


@stranger(
    make_wy,
    wy_ref,
    {"b": 2, "t": 37, "heads": 2, "d": 16, "size": 16},
    {"b": 2, "t": 8192, "heads": 16, "d": 128, "size": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def delta_chunk_factors(k, v, decay, beta, size: tfl.constexpr):
    """Kimi Team, 2025 (Kimi Linear): what a chunk of the delta rule needs before its state, by forward substitution."""
    b, t, heads, _ = k.shape
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    for i, h, c in tfl.grid([b, heads, (t + size - 1) // size]):
        begin = c * size
        key = k[i, begin : begin + size, h, :].float()
        total = torch.cumsum(decay[i, begin : begin + size, h, :], 0)
        step = beta[i, begin : begin + size, h][:, None]
        left = step * key * torch.exp(total)
        a = torch.tril(left @ (key * torch.exp(-total)).T, -1)
        rows = tfl.arange(size)
        inverse = torch.eye(size)
        for r in range(1, size):
            new = (rows == r).float() - (a[r, :][:, None] * inverse).sum(0)
            inverse = torch.where(rows[:, None] == r, new[None, :], inverse)
        inverse = inverse.to(k.dtype)
        w[i, begin : begin + size, h, :] = inverse @ left.to(k.dtype)
        u[i, begin : begin + size, h, :] = inverse @ (step * v[i, begin : begin + size, h, :]).to(k.dtype)
    return w, u


def make_levels(
    b: int, n: int, heads: int, d: int, points: int, shapes: tuple[tuple[int, int], ...], dtype: Any = torch.float32
) -> Any:
    cells = sum(h * w for h, w in shapes)
    place = 1.2 * torch.rand(b, n, heads, len(shapes), points, 2) - 0.1
    weight = torch.randn(b, n, heads, len(shapes) * points).softmax(3).unflatten(3, (len(shapes), points)).to(dtype)
    return randn(b, cells, heads, d, dtype=dtype), place, weight, shapes


def levels_ref(value: Any, place: Any, weight: Any, shapes: Any) -> Any:
    b, _, heads, d = value.shape
    wide = place.dtype
    n, points = place.size(1), place.size(4)
    total = torch.zeros(b * heads, d, n, dtype=wide)
    for level, ((h, w), part) in enumerate(zip(shapes, value.split([h * w for h, w in shapes], 1), strict=True)):
        image = part.to(wide).permute(0, 2, 3, 1).reshape(b * heads, d, h, w)
        at = (2 * place[:, :, :, level] - 1).transpose(1, 2).reshape(b * heads, n, points, 2)
        found = F.grid_sample(image, at, align_corners=False)
        total += (found * weight[:, :, :, level].to(wide).transpose(1, 2).reshape(b * heads, 1, n, points)).sum(3)
    return total.view(b, heads, d, n).permute(0, 3, 1, 2).to(value.dtype)


@stranger(
    make_levels,
    levels_ref,
    {"b": 2, "n": 19, "heads": 2, "d": 8, "points": 2, "shapes": ((7, 9), (4, 5))},
    {
        "b": 4, "n": 10723, "heads": 8, "d": 32, "points": 4, "shapes": ((92, 88), (46, 44), (23, 22), (12, 11)),
        "dtype": torch.float16,
    },
)  # fmt: skip
@tileflow.kernel
def multi_scale_sampling(value, place, weight, shapes):
    """Zhu and others, 2020 (Deformable DETR): a query looks at a few places of each of several sizes of a picture."""
    b, _, heads, d = value.shape
    _, n, _, _, points, _ = place.shape
    out = torch.empty(b, n, heads, d, dtype=value.dtype, device=value.device)
    for tb, tn, th in tfl.tile([b, n, heads]):
        acc = tfl.zeros([tb, tn, th, d])
        start = 0
        for level, (height, width) in enumerate(shapes):
            for p in range(points):
                x = place[tb, tn, th, level, p, 0] * width - 0.5
                y = place[tb, tn, th, level, p, 1] * height - 0.5
                share = weight[tb, tn, th, level, p].float()
                for dy in range(2):
                    for dx in range(2):
                        cx, cy = torch.floor(x) + dx, torch.floor(y) + dy
                        near = (1 - (x - cx).abs()) * (1 - (y - cy).abs()) * share
                        inside = (cx >= 0) & (cx < width) & (cy >= 0) & (cy < height)
                        cell = start + cy.int() * width + cx.int()
                        part = value[tb.index[:, None, None], cell, th.index[None, None, :], :].float()
                        acc += torch.where(inside, near, 0.0)[:, :, :, None] * part
            start += height * width
        out[tb, tn, th, :] = acc
    return out


def make_voxels(n: int, c: int, k: int, dtype: torch.dtype = torch.float32) -> Any:
    neighbour = torch.randint(0, n, (n, 27)).int()
    neighbour[torch.rand(n, 27) < 0.5] = -1
    neighbour[:, 13] = torch.arange(n)
    weight = (torch.randn(27, c, k) * (13 * c) ** -0.5).to(dtype)
    return randn(n, c, dtype=dtype), neighbour, weight, 1 + 0.1 * torch.randn(k), 0.1 * torch.randn(k)


def voxels_ref(x: Any, neighbour: Any, weight: Any, scale: Any, shift: Any) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    padded = F.pad(x.to(wide), (0, 0, 0, 1))
    total = torch.zeros(x.size(0), weight.size(2), dtype=wide)
    for k in range(27):
        total += padded[neighbour[:, k].long()] @ weight[k].to(wide)
    return torch.relu(total * scale.to(wide) + shift.to(wide)).to(x.dtype)


@stranger(
    make_voxels,
    voxels_ref,
    {"n": 43, "c": 8, "k": 12},
    {"n": 200003, "c": 64, "k": 96, "dtype": torch.float16},
)
@tileflow.kernel
def submanifold_convolution(x, neighbour, weight, scale, shift):
    """Graham and van der Maaten, 2017: a convolution at the voxels that are there, over those of 27 that are there."""
    n, _ = x.shape
    out = torch.empty(n, weight.size(2), dtype=x.dtype, device=x.device)
    for tn in tfl.tile(n):
        total = tfl.zeros([tn, weight.size(2)])
        for k in range(27):
            total += x[neighbour[tn, k], :] @ weight[k, :, :]
        out[tn, :] = torch.relu(total * scale[:] + shift[:])
    return out


def make_known(b: int, n: int, m: int, c: int, dtype: torch.dtype = torch.float32) -> Any:
    return torch.rand(b, n, 3), torch.rand(b, m, 3), randn(b, m, c, dtype=dtype)


def known_ref(points: Any, known: Any, features: Any) -> Any:
    wide = points.dtype
    out = []
    for point, other, feature in zip(points, known, features, strict=True):
        squares = torch.cat([(part[:, None] - other).square().sum(2) for part in point.split(1024)])
        near, place = squares.topk(3, 1, largest=False)
        weight = 1 / (near + 1e-8)
        weight = weight / weight.sum(1, keepdim=True)
        out.append((feature.to(wide)[place] * weight[:, :, None]).sum(1).to(features.dtype))
    return torch.stack(out)


@stranger(
    make_known,
    known_ref,
    {"b": 2, "n": 29, "m": 11, "c": 13},
    {"b": 8, "n": 16384, "m": 1024, "c": 131, "dtype": torch.float16},
)
@tileflow.kernel
def three_nearest_features(points, known, features):
    """Qi and others, 2017 (PointNet++): features of points out of the three nearest known ones, by their distances."""
    b, n, _ = points.shape
    c = features.size(2)
    out = torch.empty(b, n, c, dtype=features.dtype, device=points.device)
    for tb, tn in tfl.tile([b, n], block_size=[1, None]):
        i = tb.begin
        apart = points[i, tn, :][:, None, :] - known[i, :, :][None, :, :]
        near, place = torch.topk(apart.square().sum(2), 3, dim=1, largest=False)
        weight = 1 / (near + 1e-8)
        weight = weight / weight.sum(1, keepdim=True)
        total = tfl.zeros([tn, c])
        for k in range(3):
            total += weight[:, k][:, None] * features[i, place[:, k], :].float()
        out[i, tn, :] = total
    return out


def make_energies(b: int, t: int, f: int, dtype: torch.dtype = torch.float32) -> Any:
    parameters = [0.9 + 0.1 * torch.rand(f), 1 + torch.rand(f), 0.3 + 0.4 * torch.rand(f), 0.02 + 0.05 * torch.rand(f)]
    return (torch.randn(b, t, f).square() * 3).to(dtype), *parameters, 1e-3


def energies_ref(energy: Any, gain: Any, bias: Any, power: Any, smooth: Any, floor: float) -> Any:
    wide = gain.dtype
    out = torch.empty(energy.shape, dtype=wide)
    mean = energy[:, 0].to(wide)
    for i in range(energy.size(1)):
        now = energy[:, i].to(wide)
        mean = (1 - smooth) * mean + smooth * now
        out[:, i] = (now / (floor + mean) ** gain + bias) ** power - bias**power
    return out.to(energy.dtype)


@stranger(
    make_energies,
    energies_ref,
    {"b": 3, "t": 23, "f": 7},
    {"b": 64, "t": 3001, "f": 80, "dtype": torch.float16},
)
@tileflow.kernel
def channel_energy_norm(energy, gain, bias, power, smooth, floor: float):
    """Wang and others, 2017 (PCEN): each channel of a spectrogram over its own running mean, then a power."""
    b, t, f = energy.shape
    out = torch.empty_like(energy)
    for tb, tf in tfl.tile([b, f]):
        mean = energy[tb, 0, tf].float()
        for i in range(t):
            now = energy[tb, i, tf].float()
            mean = (1 - smooth[tf]) * mean + smooth[tf] * now
            out[tb, i, tf] = (now / (floor + mean) ** gain[tf] + bias[tf]) ** power[tf] - bias[tf] ** power[tf]
    return out


def make_relative(b: int, t: int, heads: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    q, k, v = (randn(b, t, heads, d, dtype=dtype) for _ in range(3))
    p = randn(2 * t - 1, heads, d, dtype=dtype)
    return q, k, v, p, randn(heads, d, dtype=dtype), randn(heads, d, dtype=dtype), torch.randint(t // 2, t + 1, (b,))


def relative_ref(q: Any, k: Any, v: Any, p: Any, by_key: Any, by_place: Any, length: Any) -> Any:
    wide = torch.promote_types(q.dtype, torch.float32)
    b, t, heads, d = q.shape
    out = torch.empty_like(q)
    offset = t - 1 - torch.arange(t)[:, None] + torch.arange(t)
    for i in range(b):
        for h in range(heads):
            query = q[i, :, h].to(wide)
            one = (query + by_key[h].to(wide)).to(q.dtype).to(wide) @ k[i, :, h].to(wide).T
            two = (query + by_place[h].to(wide)).to(q.dtype).to(wide) @ p[:, h].to(wide).T
            scores = (one + two.gather(1, offset)) * d**-0.5
            scores = scores.masked_fill(torch.arange(t) >= length[i], float("-inf"))
            out[i, :, h] = (scores.softmax(1) @ v[i, :, h].to(wide)).to(q.dtype)
    return out


@stranger(
    make_relative,
    relative_ref,
    {"b": 2, "t": 17, "heads": 2, "d": 16},
    {"b": 3, "t": 1500, "heads": 8, "d": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def relative_place_attention(q, k, v, p, by_key, by_place, length):
    """Gulati and others, 2020 (Conformer), after Dai and others, 2019: scores by key and by how far away the key is."""
    b, t, heads, d = q.shape
    near = torch.empty(b, heads, t, 2 * t - 1, dtype=q.dtype, device=q.device)
    out = torch.empty_like(q)
    for tb, th, tq, tp in tfl.tile([b, heads, t, 2 * t - 1], block_size=[1, 1, None, None]):
        i, h = tb.begin, th.begin
        near[i, h, tq, tp] = (q[i, tq, h, :] + by_place[h, :]) @ p[tp, h, :].T
    for tb, th, tq in tfl.tile([b, heads, t], block_size=[1, 1, None]):
        i, h = tb.begin, th.begin
        keys = tfl.arange(t)
        offset = t - 1 - tq.index[:, None] + keys[None, :]
        scores = (q[i, tq, h, :] + by_key[h, :]) @ k[i, :, h, :].T
        scores = (scores.float() + near[i, h, tq.index[:, None], offset].float()) * d**-0.5
        scores = scores.masked_fill(keys[None, :] >= length[i], float("-inf"))
        out[i, tq, h, :] = torch.softmax(scores, 1).to(v.dtype) @ v[i, :, h, :]
    return out


def make_snake(b: int, c: int, t: int, dtype: torch.dtype = torch.float32) -> Any:
    taps = torch.hann_window(14)[1:-1] * torch.sinc((torch.arange(12) - 5.5) / 2)
    return randn(b, c, t, dtype=dtype), 0.5 * torch.randn(c), taps / taps.sum()


def snake_ref(x: Any, log_alpha: Any, taps: Any) -> Any:
    wide = taps.dtype
    t = x.size(2)
    alpha = log_alpha.exp()[:, None]
    padded = F.pad(x.to(wide), (3, 3), mode="replicate")
    phases = []
    for phase in range(2):
        parts = (taps[2 * k + 1 - phase] * padded[:, :, phase + 5 - k : phase + 5 - k + t] for k in range(6))
        phases.append(2 * sum(parts))
    wave = torch.stack(phases, 3).flatten(2).to(x.dtype).to(wide)
    wave = F.pad(wave + (alpha * wave).sin().square() / (alpha + 1e-9), (5, 6), mode="replicate")
    return sum(taps[j] * wave[:, :, j : j + 2 * t : 2] for j in range(12)).to(x.dtype)


@stranger(
    make_snake,
    snake_ref,
    {"b": 1, "c": 5, "t": 41},
    {"b": 1, "c": 192, "t": 240001, "dtype": torch.float16},
)
@tileflow.kernel
def unaliased_snake(x, log_alpha, taps):
    """Lee and others, 2022 (BigVGAN): a periodic activation at twice the rate, between two low passes."""
    b, c, t = x.shape
    wave = torch.empty(b, c, 2 * t, dtype=x.dtype, device=x.device)
    out = torch.empty_like(x)
    for tb, tc, tt in tfl.tile([b, c, t]):
        for phase in range(2):
            total = tfl.zeros([tb, tc, tt])
            for k in range(6):
                at = (tt.index + (phase + 2 - k)).clamp(0, t - 1)
                total += taps[2 * k + 1 - phase] * x[tb, tc, at].float()
            wave[tb, tc, 2 * tt.index + phase] = 2 * total
    for tb, tc, tt in tfl.tile([b, c, t]):
        alpha = torch.exp(log_alpha[tc])[None, :, None]
        total = tfl.zeros([tb, tc, tt])
        for j in range(12):
            at = (2 * tt.index + j - 5).clamp(0, 2 * t - 1)
            one = wave[tb, tc, at].float()
            total += taps[j] * (one + torch.sin(alpha * one).square() / (alpha + 1e-9))
        out[tb, tc, tt] = total
    return out


def make_towers(n: int, d: int, items: int, dtype: torch.dtype = torch.float32) -> Any:
    user, item = (F.normalize(torch.randn(n, d), dim=1).to(dtype) for _ in range(2))
    return user, item, torch.randint(0, items, (n,)), torch.randn(n) - 8, 0.05


def towers_ref(user: Any, item: Any, number: Any, log_q: Any, temperature: float) -> Any:
    wide = torch.promote_types(user.dtype, torch.float32)
    n = user.size(0)
    loss, first = torch.empty(n, dtype=log_q.dtype), 0
    for rows in torch.arange(n).split(2048):
        scores = user[rows].to(wide) @ item.to(wide).T / temperature - log_q.to(wide)
        own = scores.gather(1, rows[:, None])
        same = (number[rows, None] == number) & (rows[:, None] != torch.arange(n))
        scores = scores.masked_fill(same, float("-inf"))
        loss[rows] = (scores.logsumexp(1) - own[:, 0]).to(loss.dtype)
        first = first + ((scores > own).sum(1) == 0).sum()
    return loss, first.int()


@stranger(
    make_towers,
    towers_ref,
    {"n": 37, "d": 24, "items": 30},
    {"n": 16384, "d": 192, "items": 100000, "dtype": torch.bfloat16},
)
@tileflow.kernel
def in_batch_softmax(user, item, number, log_q, temperature: float):
    """Yi and others, 2019: others' items of a batch as the wrong answers, corrected for how often each is drawn."""
    n, _ = user.shape
    loss = torch.empty(n, device=user.device)
    first = torch.zeros((), dtype=torch.int32, device=user.device)
    for tu in tfl.tile(n):
        own = (user[tu, :].float() * item[tu, :].float()).sum(1) / temperature - log_q[tu]
        top = tfl.full([tu], float("-inf"))
        total = tfl.zeros([tu])
        better = tfl.zeros([tu], dtype=torch.int32)
        for ti in tfl.tile(n):
            scores = (user[tu, :] @ item[ti, :].T).float() / temperature - log_q[ti]
            mine = tu.index[:, None] == ti.index[None, :]
            same = (number[tu][:, None] == number[ti][None, :]) & ~mine
            scores = torch.where(same, float("-inf"), scores)
            new = torch.maximum(top, scores.amax(1))
            total = total * torch.exp(top - new) + torch.exp(scores - new[:, None]).sum(1)
            better += ((scores > own[:, None]) & ~mine).sum(1)
            top = new
        loss[tu] = top + torch.log(total) - own
        tfl.atomic_add(first, [], (better == 0).sum())
    return loss, first


def make_fields(n: int, fields: int, rows: int, k: int, dtype: torch.dtype = torch.float32) -> Any:
    index = torch.randint(0, rows, (n, fields)).int()
    return index, randn(rows, fields, k, dtype=dtype), 0.1 * torch.randn(rows), torch.randn(1)


def fields_ref(index: Any, table: Any, linear: Any, bias: Any) -> Any:
    wide = linear.dtype
    total = bias + linear[index.long()].sum(1)
    for i in range(index.size(1)):
        for j in range(i + 1, index.size(1)):
            total = total + (table[index[:, i].long(), j].to(wide) * table[index[:, j].long(), i].to(wide)).sum(1)
    return torch.sigmoid(total)


@stranger(
    make_fields,
    fields_ref,
    {"n": 31, "fields": 5, "rows": 40, "k": 5},
    {"n": 65536, "fields": 23, "rows": 1_000_000, "k": 5},
)
@tileflow.kernel
def field_aware_machine(index, table, linear, bias):
    """Juan and others, 2016 (FFM): two features meet by the vectors that each keeps for the other's field."""
    n, fields = index.shape
    out = torch.empty(n, device=table.device)
    for tn in tfl.tile(n):
        total = bias[0] + linear[index[tn, :]].sum(1)
        for i in range(fields):
            for j in range(i + 1, fields):
                one = table[index[tn, i], j, :]
                other = table[index[tn, j], i, :]
                total += (one.float() * other.float()).sum(1)
        out[tn] = torch.sigmoid(total)
    return out


def make_interest(n: int, most: int, d: int, hidden: int, dtype: torch.dtype = torch.float32) -> Any:
    lengths = torch.randint(0, most + 1, (n,))

    offsets = F.pad(lengths.cumsum(0), (1, 0)).int()
    w1 = (torch.randn(4 * d, hidden) * (4 * d) ** -0.5).to(dtype)
    w2 = (torch.randn(hidden) * hidden**-0.5).to(dtype)
    keys = randn(int(offsets[-1]), d, dtype=dtype)
    return randn(n, d, dtype=dtype), keys, offsets, w1, 0.1 * torch.randn(hidden), 0.2 * torch.rand(hidden), w2


def interest_ref(query: Any, keys: Any, offsets: Any, w1: Any, b1: Any, slope: Any, w2: Any) -> Any:
    wide = torch.promote_types(query.dtype, torch.float32)
    n = query.size(0)
    owner = torch.repeat_interleave(torch.arange(n), offsets.diff().long())
    q, k = query[owner].to(wide), keys.to(wide)
    features = torch.cat([q, k, (q - k), (q * k)], 1).to(query.dtype).to(wide)
    hidden = features @ w1.to(wide) + b1.to(wide)
    score = torch.where(hidden > 0, hidden, slope.to(wide) * hidden) @ w2.to(wide)
    return torch.zeros(n, k.size(1), dtype=wide).index_add(0, owner, score[:, None] * k).to(query.dtype)


@stranger(
    make_interest,
    interest_ref,
    {"n": 13, "most": 9, "d": 6, "hidden": 12},
    {"n": 32768, "most": 200, "d": 18, "hidden": 36, "dtype": torch.float16},
)
@tileflow.kernel
def interest_pooling(query, keys, offsets, w1, b1, slope, w2):
    """Zhou and others, 2018 (DIN): what someone did before, weighted by a small network of it and of what is asked."""
    n, d = query.shape
    out = torch.empty_like(query)
    for i in tfl.grid(n):
        total = tfl.zeros([d])
        for tk in tfl.tile(offsets[i], offsets[i + 1]):
            key = keys[tk, :]
            asked = query[i, :][None, :].expand_as(key)
            features = torch.cat([asked, key, asked - key, asked * key], dim=1)
            hidden = features @ w1[:, :] + b1[:]
            hidden = torch.where(hidden > 0, hidden, slope[:] * hidden)
            score = (hidden * w2[:]).sum(1)
            total += (score[:, None] * key).sum(0)
        out[i, :] = total
    return out
