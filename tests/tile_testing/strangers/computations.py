"""Particles and waves, likelihoods and particles that move by them, weights of few bits, series and graphs."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_drops(n: int, g: int) -> Any:
    place = torch.rand(n, 2) * g
    cell = (place[:, 1].long() * g + place[:, 0].long()).clamp(max=g * g - 1)
    counts = torch.zeros(g * g, dtype=torch.long).index_add(0, cell, torch.ones_like(cell))
    start = F.pad(counts.cumsum(0), (1, 0)).int()
    return place[cell.argsort()], start, g, 0.01


def drops_ref(place: Any, start: Any, g: int, mass: float) -> Any:
    n = place.size(0)
    density = torch.zeros(n, dtype=place.dtype)
    cell = place.long().clamp(max=g - 1)
    counts = start.diff().long()
    most = int(counts.max())
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            x, y = cell[:, 0] + dx, cell[:, 1] + dy
            inside = (x >= 0) & (x < g) & (y >= 0) & (y < g)
            near = torch.where(inside, y * g + x, 0)
            for k in range(most):
                there = inside & (k < counts[near])
                other = place[torch.where(there, start[near].long() + k, 0)]
                gap = 1 - (other - place).square().sum(1)
                density += torch.where(there & (gap > 0), gap**3, 0)
    return density * (4 * mass / math.pi)


@stranger(make_drops, drops_ref, {"n": 53, "g": 4}, {"n": 4_000_000, "g": 701})
@tileflow.kernel
def smoothed_density(place, start, g: int, mass: float):
    """Mueller, Charypar and Gross, 2003 (SPH): each particle's density, from those in the nine cells around it."""
    density = torch.empty(place.size(0), device=place.device)
    for cy, cx in tfl.grid([g, g]):
        cell = cy * g + cx
        for tp in tfl.tile(start[cell], start[cell + 1]):
            x, y = place[tp, 0], place[tp, 1]
            total = tfl.zeros([tp])
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    ny, nx = cy + dy, cx + dx
                    if 0 <= ny < g and 0 <= nx < g:
                        near = ny * g + nx
                        for tq in tfl.tile(start[near], start[near + 1]):
                            far_x = x[:, None] - place[tq, 0][None, :]
                            far_y = y[:, None] - place[tq, 1][None, :]
                            gap = (1 - far_x * far_x - far_y * far_y).clamp(min=0)
                            inside = tq.index[None, :] < start[near + 1]
                            total += torch.where(inside, gap**3, 0.0).sum(1)
            density[tp] = total * (4 * mass / math.pi)
    return density


def make_flow(n: int) -> Any:
    return torch.view_as_real(torch.fft.rfftn(torch.randn(3, n, n, n), dim=(1, 2, 3))).contiguous(), n, 1e-3, 0.01


def flow_ref(u: Any, n: int, viscosity: float, dt: float) -> Any:
    k = torch.fft.fftfreq(n, 1 / n, dtype=u.dtype)
    kz, ky, kx = k[:, None, None], k[None, :, None], torch.arange(n // 2 + 1, dtype=u.dtype)[None, None]
    square = kx**2 + ky**2 + kz**2
    along = (kx[..., None] * u[0] + ky[..., None] * u[1] + kz[..., None] * u[2]) / square.clamp(min=1)[..., None]
    kept = (kx.abs() < n / 3) & (ky.abs() < n / 3) & (kz.abs() < n / 3)
    fade = torch.where(kept, torch.exp(-viscosity * dt * square), 0)[..., None]
    return torch.stack([(u[i] - one[..., None] * along) * fade for i, one in enumerate((kx, ky, kz))])


@stranger(make_flow, flow_ref, {"n": 10}, {"n": 350})
@tileflow.kernel
def divergence_free(u, n: int, viscosity: float, dt: float):
    """Orszag, 1971: waves of a flow without what diverges, without the highest third, after a step of viscosity."""
    _, nz, ny, half, _ = u.shape
    out = torch.empty_like(u)
    for tz, ty, tx in tfl.tile([nz, ny, half]):
        kz = torch.where(tz.index <= (n - 1) // 2, tz.index, tz.index - n).float()[:, None, None]
        ky = torch.where(ty.index <= (n - 1) // 2, ty.index, ty.index - n).float()[None, :, None]
        kx = tx.index.float()[None, None, :]
        square = kx**2 + ky**2 + kz**2
        kept = (kx < n / 3) & (ky.abs() < n / 3) & (kz.abs() < n / 3)
        fade = torch.where(kept, torch.exp(-viscosity * dt * square), 0.0)
        for part in range(2):
            x, y, z = u[0, tz, ty, tx, part], u[1, tz, ty, tx, part], u[2, tz, ty, tx, part]
            along = (kx * x + ky * y + kz * z) / square.clamp(min=1)
            out[0, tz, ty, tx, part] = (x - kx * along) * fade
            out[1, tz, ty, tx, part] = (y - ky * along) * fade
            out[2, tz, ty, tx, part] = (z - kz * along) * fade
    return out


def weno_face(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """The value at the face right of c, from three parabolas of which the smoothest count most."""
    first = 13 / 12 * (a - 2 * b + c) ** 2 + (a - 4 * b + 3 * c) ** 2 / 4
    second = 13 / 12 * (b - 2 * c + d) ** 2 + (b - d) ** 2 / 4
    third = 13 / 12 * (c - 2 * d + e) ** 2 + (3 * c - 4 * d + e) ** 2 / 4
    w0, w1, w2 = 0.1 / (first + 1e-6) ** 2, 0.6 / (second + 1e-6) ** 2, 0.3 / (third + 1e-6) ** 2
    parts = w0 * (2 * a - 7 * b + 11 * c) + w1 * (-b + 5 * c + 2 * d) + w2 * (2 * c + 5 * d - e)
    return parts / (6 * (w0 + w1 + w2))


def weno_ref(u: Any, speed: Any, ratio: float) -> Any:
    at = [u.roll(-k, 1) for k in range(-3, 4)]
    right = speed[:, None] > 0
    ahead = torch.where(right, weno_face(*at[1:6]), weno_face(*at[6:1:-1]))
    behind = torch.where(right, weno_face(*at[0:5]), weno_face(*at[5:0:-1]))
    return u - ratio * speed[:, None] * (ahead - behind)


@stranger(
    lambda rows, n: (torch.randn(rows, n).cumsum(1) / 9, torch.randn(rows), 0.4),
    weno_ref,
    {"rows": 5, "n": 29},
    {"rows": 4099, "n": 8191},
)
@tileflow.kernel
def weno_advection(u, speed, ratio: float):
    """Jiang and Shu, 1996: what is carried along periodic lines, of fifth order where it is smooth, upwind."""
    rows, n = u.shape
    out = torch.empty_like(u)
    for tr, tc in tfl.tile([rows, n]):
        a, b, c, d, e, f, g = (u[tr, (tc.index + k) % n] for k in range(-3, 4))
        right = (speed[tr] > 0)[:, None]
        ahead = torch.where(right, weno_face(b, c, d, e, f), weno_face(g, f, e, d, c))
        behind = torch.where(right, weno_face(a, b, c, d, e), weno_face(f, e, d, c, b))
        out[tr, tc] = u[tr, tc] - ratio * speed[tr][:, None] * (ahead - behind)
    return out


def make_pixels(b: int, n: int, k: int, dtype: torch.dtype = torch.float32) -> Any:
    return torch.randint(0, 256, (b, n, 3), dtype=torch.uint8), randn(b, n, 10 * k, dtype=dtype)


def pixels_ref(pixel: Any, raw: Any) -> Any:
    wide = torch.promote_types(raw.dtype, torch.float32)
    k = raw.size(2) // 10
    raw, x = raw.to(wide), pixel.to(wide) / 127.5 - 1
    mean, size, mixed = raw[:, :, k:].unflatten(2, (3, 3, k)).unbind(3)
    size, mixed = size.clamp(min=-7), mixed.tanh()
    shift = torch.zeros_like(mean)
    shift[:, :, 1] = mixed[:, :, 0] * x[:, :, 0, None]
    shift[:, :, 2] = mixed[:, :, 1] * x[:, :, 0, None] + mixed[:, :, 2] * x[:, :, 1, None]
    away, narrow = x[..., None] - mean - shift, (-size).exp()
    high, low, middle = narrow * (away + 1 / 255), narrow * (away - 1 / 255), narrow * away
    inside = high.sigmoid() - low.sigmoid()
    log_p = torch.where(
        inside > 1e-5, inside.clamp(min=1e-12).log(), middle - size - 2 * F.softplus(middle) - math.log(127.5)
    )
    log_p = torch.where(x[..., None] > 0.999, -F.softplus(low), log_p)
    log_p = torch.where(x[..., None] < -0.999, F.logsigmoid(high), log_p)
    return -(log_p.sum(2) + raw[:, :, :k].log_softmax(2)).logsumexp(2).sum(1)


@stranger(
    make_pixels,
    pixels_ref,
    {"b": 3, "n": 17, "k": 5},
    {"b": 128, "n": 4096, "k": 10, "dtype": torch.float16},
)
@tileflow.kernel
def mixed_logistics(pixel, raw):
    """Salimans and others, 2017 (PixelCNN++): pixels of three colours under mixtures of logistics, each colour given
    those before it."""
    b, n, width = raw.shape
    k = width // 10
    loss = torch.zeros(b, device=raw.device)
    for tb, tn in tfl.tile([b, n]):
        x = pixel[tb, tn, :].float() / 127.5 - 1
        own = raw[tb, tn, :].float()
        mean, size, mixed = own[:, :, k:].reshape(tb, tn, 3, 3, k).unbind(3)
        size, mixed = size.clamp(min=-7), torch.tanh(mixed)
        red, green = x[:, :, 0][:, :, None], x[:, :, 1][:, :, None]
        means = [
            mean[:, :, 0, :],
            mean[:, :, 1, :] + mixed[:, :, 0, :] * red,
            mean[:, :, 2, :] + mixed[:, :, 1, :] * red + mixed[:, :, 2, :] * green,
        ]
        total = torch.log_softmax(own[:, :, :k], dim=-1)
        for c in range(3):
            value, log_s = x[:, :, c][:, :, None], size[:, :, c, :]
            away, narrow = value - means[c], torch.exp(-log_s)
            high, low, middle = narrow * (away + 1 / 255), narrow * (away - 1 / 255), narrow * away
            inside = torch.sigmoid(high) - torch.sigmoid(low)
            flat = middle - log_s - 2 * F.softplus(middle) - math.log(127.5)
            log_p = torch.where(inside > 1e-5, torch.log(inside.clamp(min=1e-12)), flat)
            log_p = torch.where(value > 0.999, -F.softplus(low), log_p)
            total = total + torch.where(value < -0.999, F.logsigmoid(high), log_p)
        tfl.atomic_add(loss, [tb], -torch.logsumexp(total, -1).sum(1))
    return loss


def stein_ref(x: Any, score: Any, width: float, step: float) -> Any:
    out = []
    for part in x.split(1024):
        near = torch.exp(-(torch.cdist(part, x) ** 2) / width)
        push = near.sum(1, keepdim=True) * part - near @ x
        out.append(part + step * (near @ score + 2 / width * push) / x.size(0))
    return torch.cat(out)


@stranger(
    lambda n, d: (torch.randn(n, d), torch.randn(n, d), float(d), 0.3),
    stein_ref,
    {"n": 29, "d": 7},
    {"n": 8191, "d": 55},
)
@tileflow.kernel
def stein_step(x, score, width: float, step: float):
    """Liu and Wang, 2016 (Stein variational gradient descent): particles climb a density and push each other apart."""
    n, d = x.shape
    out = torch.empty_like(x)
    for ti in tfl.tile(n):
        mine = x[ti, :]
        climb = tfl.zeros([ti, d])
        weight = tfl.zeros([ti])
        for tj in tfl.tile(n):
            other = x[tj, :]
            square = (mine * mine).sum(1)[:, None] + (other * other).sum(1)[None, :] - 2 * (mine @ other.T)
            near = torch.exp(-square / width)
            climb += near @ (score[tj, :] - 2 / width * other)
            weight += near.sum(1)
        out[ti, :] = mine + step * (climb + 2 / width * weight[:, None] * mine) / n
    return out


def make_cells(cells: int, genes: int, dtype: torch.dtype = torch.float32) -> Any:
    count = torch.poisson(torch.rand(cells, genes) * 3).to(torch.int16)
    raw, gone = randn(cells, genes, dtype=dtype), randn(cells, genes, dtype=dtype)
    return count, raw, gone, 100 + 900 * torch.rand(cells), torch.randn(genes)


def cells_ref(count: Any, raw: Any, gone: Any, library: Any, log_theta: Any) -> Any:
    wide = torch.promote_types(raw.dtype, torch.float32)
    out = []
    for rows in torch.arange(count.size(0)).split(256):
        x, theta, zero = count[rows].to(wide), log_theta.to(wide).exp(), gone[rows].to(wide)
        mean = library[rows, None].to(wide) * raw[rows].to(wide).softmax(1)
        log_sum = (theta + mean).log()
        none = theta * (log_theta.to(wide) - log_sum)
        some = none + x * ((mean + 1e-8).log() - log_sum) + (x + theta).lgamma() - theta.lgamma() - (x + 1).lgamma()
        log_p = torch.where(x < 0.5, F.softplus(none - zero) - F.softplus(-zero), some - F.softplus(zero))
        out.append(-log_p.sum(1))
    return torch.cat(out).to(library.dtype)


@stranger(
    make_cells,
    cells_ref,
    {"cells": 7, "genes": 53},
    {"cells": 4096, "genes": 20011, "dtype": torch.bfloat16},
)
@tileflow.kernel
def zero_inflated_counts(count, raw, gone, library, log_theta):
    """Lopez and others, 2018 (scVI): how likely a cell's counts of genes are, some of which the machine never saw."""
    cells, _ = count.shape
    loss = torch.empty(cells, device=raw.device)
    for tc in tfl.tile(cells):
        x = count[tc, :].float()
        theta = torch.exp(log_theta[:])
        mean = library[tc][:, None] * torch.softmax(raw[tc, :].float(), dim=1)
        zero = gone[tc, :].float()
        log_sum = torch.log(theta + mean)
        none = theta * (log_theta[:] - log_sum)
        some = none + x * (torch.log(mean + 1e-8) - log_sum)
        some = some + torch.lgamma(x + theta) - torch.lgamma(theta) - torch.lgamma(x + 1)
        log_p = torch.where(x < 0.5, F.softplus(none - zero) - F.softplus(-zero), some - F.softplus(zero))
        loss[tc] = -log_p.sum(1)
    return loss


def make_three_bits(m: int, k: int, n: int, group: int, dtype: torch.dtype = torch.float32) -> Any:
    packed = torch.randint(-(1 << 31), 1 << 31, (k // 32 * 3, n)).int()
    scale = (0.02 * torch.rand(k // group, n)).to(dtype)
    return randn(m, k, dtype=dtype), packed, scale, torch.randint(2, 6, (k // group, n), dtype=torch.uint8), group


def three_bits_ref(x: Any, packed: Any, scale: Any, zero: Any, group: int) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    words = packed.long().view(-1, 3, packed.size(1)) & 0xFFFFFFFF
    bits = (words[:, :, None] >> torch.arange(32)[:, None]) & 1
    bits = bits.flatten(1, 2).view(words.size(0), 32, 3, -1)
    code = (bits * torch.tensor([1, 2, 4])[:, None]).sum(2).flatten(0, 1)
    spread = [one.to(wide).repeat_interleave(group, 0) for one in (zero, scale)]
    return (x.to(wide) @ ((code - spread[0]) * spread[1]).to(x.dtype).to(wide)).to(x.dtype)


@stranger(
    make_three_bits,
    three_bits_ref,
    {"m": 3, "k": 128, "n": 21, "group": 64},
    {"m": 7, "k": 8192, "n": 28672, "group": 128, "dtype": torch.float16},
)
@tileflow.kernel
def three_bit_linear(x, packed, scale, zero, group: tfl.constexpr):
    """Frantar and others, 2022 (GPTQ's kernel of three bits): 32 weights in three words, two of which cross an end."""
    m, k = x.shape
    n = packed.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn])
        for j in range(k // 32):
            a, b, c = packed[3 * j, tn], packed[3 * j + 1, tn], packed[3 * j + 2, tn]
            codes = [(a >> (3 * i)) & 7 for i in range(10)]
            codes.append(((a >> 30) & 3) | ((b & 1) << 2))
            codes += [(b >> (3 * i + 1)) & 7 for i in range(10)]
            codes.append(((b >> 31) & 1) | ((c & 3) << 1))
            codes += [(c >> (3 * i + 2)) & 7 for i in range(10)]
            g = j * 32 // group
            weight = (torch.stack(codes, 0) - zero[g, tn].int()).float() * scale[g, tn].float()
            acc += x[tm, 32 * j : 32 * j + 32] @ weight.to(x.dtype)
        out[tm, tn] = acc
    return out


FOURS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def make_blocks(t: int, top: int, experts: int, n: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    expert = torch.rand(t, experts).argsort(1)[:, :top].int()
    blocks = torch.randint(0, 256, (experts, n, d // 32, 16), dtype=torch.uint8)
    scales = torch.randint(118, 124, (experts, n, d // 32), dtype=torch.uint8)
    return randn(t, d, dtype=dtype), expert, blocks, scales, randn(experts, n, dtype=dtype)


def blocks_ref(x: Any, expert: Any, blocks: Any, scales: Any, bias: Any) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    table = torch.tensor(FOURS, dtype=wide)
    out = torch.empty(*expert.shape, blocks.size(1), dtype=x.dtype)
    for t in range(x.size(0)):
        for s in range(expert.size(1)):
            e = expert[t, s]
            pairs = torch.stack([blocks[e] & 15, blocks[e] >> 4], -1).flatten(2)
            weight = (table[pairs.long()] * torch.exp2(scales[e].to(wide) - 127)[..., None]).flatten(1)
            out[t, s] = (weight @ x[t].to(wide) + bias[e].to(wide)).to(x.dtype)
    return out


@stranger(
    make_blocks,
    blocks_ref,
    {"t": 3, "top": 2, "experts": 5, "n": 13, "d": 96},
    {"t": 8, "top": 4, "experts": 16, "n": 5760, "d": 2880, "dtype": torch.bfloat16},
)
@tileflow.kernel
def mxfp4_expert_linear(x, expert, blocks, scales, bias):
    """OpenAI, 2025 (gpt-oss): a few words through the experts that each chose, whose weights are numbers of four bits
    with an exponent for 32 of them."""
    t, _ = x.shape
    top = expert.size(1)
    _, n, groups, _ = blocks.shape
    out = torch.empty(t, top, n, dtype=x.dtype, device=x.device)
    for tt, ts, tn in tfl.tile([t, top, n], block_size=[1, 1, None]):
        i, s = tt.begin, ts.begin
        e = expert[i, s]
        table = torch.tensor(FOURS)
        acc = tfl.zeros([tn])
        for g in range(groups):
            pair = blocks[e, tn, g, :]
            weight = torch.stack([table[(pair & 15).int()], table[(pair >> 4).int()]], dim=-1).flatten(1)
            size = torch.exp2(scales[e, tn, g].float() - 127)
            acc += (weight * x[i, 32 * g : 32 * g + 32].float()).sum(1) * size
        out[i, s, tn] = acc + bias[e, tn].float()
    return out


def make_trits(m: int, k: int, n: int, dtype: torch.dtype = torch.float32) -> Any:
    trits = torch.randint(0, 3, (4, n // 4, k), dtype=torch.uint8)
    packed = trits[0] | trits[1] << 2 | trits[2] << 4 | trits[3] << 6
    return randn(m, k, dtype=dtype), packed, 0.02


def trits_ref(x: Any, packed: Any, scale: float) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    most = x.to(wide).abs().amax(1, keepdim=True).clamp(min=1e-5)
    code = (x.to(wide) * (127 / most)).round().clamp(-128, 127)
    weight = torch.cat([((packed >> 2 * part) & 3).to(wide) - 1 for part in range(4)])
    return (code @ weight.T * (most / 127) * scale).to(x.dtype)


@stranger(
    make_trits,
    trits_ref,
    {"m": 5, "k": 48, "n": 28},
    {"m": 2048, "k": 2560, "n": 6912, "dtype": torch.bfloat16},
)
@tileflow.kernel
def ternary_linear(x, packed, scale: float):
    """Ma and others, 2024 (BitNet b1.58): weights of -1, 0 and 1, four to a byte by quarters of the rows, and words as
    bytes."""
    m, k = x.shape
    quarter = packed.size(0)
    code = torch.empty(m, k, dtype=torch.int8, device=x.device)
    size = torch.empty(m, device=x.device)
    out = torch.empty(m, 4 * quarter, dtype=x.dtype, device=x.device)
    for tm in tfl.tile(m):
        row = x[tm, :].float()
        most = row.abs().amax(1).clamp(min=1e-5)
        code[tm, :] = torch.round(row * (127 / most)[:, None]).clamp(-128, 127).to(torch.int8)
        size[tm] = most / 127
    for tm, tn in tfl.tile([m, quarter]):
        for part in range(4):
            acc = tfl.zeros([tm, tn], dtype=torch.int32)
            for tk in tfl.tile(k):
                weight = ((packed[tn, tk] >> (2 * part)) & 3).to(torch.int8) - 1
                acc = tfl.dot(code[tm, tk], weight.T, acc=acc)
            out[tm, tn + part * quarter] = acc.float() * size[tm][:, None] * scale
    return out


def make_trend(b: int, t: int, c: int, ahead: int, dtype: torch.dtype = torch.float32) -> Any:
    w, bias = [(torch.randn(ahead, t) * t**-0.5).to(dtype) for _ in range(2)], torch.randn(ahead)
    return randn(b, t, c, dtype=dtype), *w, bias, 25


def trend_ref(x: Any, w_season: Any, w_trend: Any, bias: Any, window: int) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    lines = x.to(wide).transpose(1, 2)
    trend = F.avg_pool1d(F.pad(lines, (window // 2, window // 2), mode="replicate"), window, 1)
    season = (lines - trend).to(x.dtype).to(wide)
    ahead = season @ w_season.to(wide).T + trend.to(x.dtype).to(wide) @ w_trend.to(wide).T + bias.to(wide)
    return ahead.transpose(1, 2).to(x.dtype)


@stranger(
    make_trend,
    trend_ref,
    {"b": 2, "t": 31, "c": 5, "ahead": 9},
    {"b": 256, "t": 336, "c": 321, "ahead": 96, "dtype": torch.float16},
)
@tileflow.kernel
def trend_and_season(x, w_season, w_trend, bias, window: tfl.constexpr):
    """Zeng and others, 2022 (DLinear): a series as a moving mean and what is left, each carried on by a product."""
    b, t, c = x.shape
    ahead = w_season.size(0)
    trend = torch.empty_like(x)
    out = torch.empty(b, ahead, c, dtype=x.dtype, device=x.device)
    for tb, tt, tc in tfl.tile([b, t, c]):
        total = tfl.zeros([tb, tt, tc])
        for j in range(window):
            total += x[tb, (tt.index + j - window // 2).clamp(0, t - 1), tc].float()
        trend[tb, tt, tc] = total / window
    for tb, ta, tc in tfl.tile([b, ahead, c], block_size=[1, None, None]):
        i = tb.begin
        acc = tfl.zeros([ta, tc])
        for tt in tfl.tile(t):
            slow = trend[i, tt, tc]
            acc += w_season[ta, tt] @ (x[i, tt, tc] - slow) + w_trend[ta, tt] @ slow
        out[i, ta, tc] = acc + bias[ta][:, None]
    return out


def make_links(n: int, links: int, heads: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    counts = torch.zeros(n).index_add(0, torch.randint(0, n, (links,)), torch.ones(links))
    start = F.pad(counts.cumsum(0), (1, 0)).int()
    from_, to = (randn(n, heads, d, dtype=dtype) for _ in range(2))
    return from_, to, torch.randn(heads, d), start, torch.randint(0, n, (links,)).int()


def links_ref(from_: Any, to: Any, vector: Any, start: Any, link: Any) -> Any:
    wide = vector.dtype
    n, heads, d = from_.shape
    owner = torch.repeat_interleave(torch.arange(n), start.diff().long())
    theirs = from_[link.long()].to(wide)
    score = (F.leaky_relu(theirs + to[owner].to(wide), 0.2) * vector).sum(2)
    top = torch.full((n, heads), float("-inf"), dtype=wide).index_reduce(0, owner, score, "amax")
    weight = torch.exp(score - top[owner])
    total = torch.zeros(n, heads, dtype=wide).index_add(0, owner, weight)
    out = torch.zeros(n, heads, d, dtype=wide).index_add(0, owner, weight[:, :, None] * theirs)
    return (out / total.clamp(min=1e-30)[:, :, None]).to(from_.dtype)


@stranger(
    make_links,
    links_ref,
    {"n": 23, "links": 70, "heads": 2, "d": 5},
    {"n": 169343, "links": 2_315_598, "heads": 3, "d": 40, "dtype": torch.float16},
)
@tileflow.kernel
def graph_attention(from_, to, vector, start, link):
    """Brody, Alon and Yahav, 2021 (GATv2): each node listens to its neighbours by a softmax over them."""
    n, heads, d = from_.shape
    out = torch.empty_like(to)
    for i in tfl.grid(n):
        mine = to[i, :, :].float()
        top = tfl.full([heads], float("-inf"))
        total = tfl.zeros([heads])
        acc = tfl.zeros([heads, d])
        for te in tfl.tile(start[i], start[i + 1]):
            theirs = from_[link[te], :, :].float()
            score = (F.leaky_relu(theirs + mine, 0.2) * vector[:, :]).sum(2)
            new = torch.maximum(top, score.amax(0))
            weight = torch.exp(score - new)
            fade = torch.exp(top - new)
            total = total * fade + weight.sum(0)
            acc = acc * fade[:, None] + (weight[:, :, None] * theirs).sum(0)
            top = new
        out[i, :, :] = acc / total.clamp(min=1e-30)[:, None]
    return out


def make_series(n: int, t: int, kernels: int) -> Any:
    length = torch.tensor([7, 9, 11])[torch.randint(0, 3, (kernels,))]
    dilation = torch.exp2(torch.rand(kernels) * torch.log2((t - 1) / (length - 1))).int()
    padded = torch.where(torch.rand(kernels) < 0.5, (length - 1) * dilation // 2, 0)
    weight = torch.randn(kernels, 11) * (torch.arange(11) < length[:, None])
    return torch.randn(n, t), weight, 2 * torch.rand(kernels) - 1, length.int(), dilation, padded.int()


def series_ref(x: Any, weight: Any, bias: Any, length: Any, dilation: Any, padded: Any) -> Any:
    n, kernels = x.size(0), weight.size(0)
    share, most = (torch.empty(n, kernels, dtype=x.dtype) for _ in range(2))
    for k in range(kernels):
        taps = weight[k, : int(length[k])]
        wave = F.conv1d(x[:, None], taps[None, None], bias[k : k + 1], 1, int(padded[k]), int(dilation[k]))[:, 0]
        share[:, k], most[:, k] = (wave > 0).to(x.dtype).mean(1), wave.amax(1)
    return share, most


@stranger(
    make_series,
    series_ref,
    {"n": 5, "t": 61, "kernels": 11},
    {"n": 1024, "t": 997, "kernels": 2000},
)
@tileflow.kernel
def random_kernel_features(x, weight, bias, length, dilation, padded):
    """Dempster, Petitjean and Webb, 2019 (ROCKET): how much of a series random dilated kernels find positive, and the
    most."""
    n, t = x.shape
    kernels = weight.size(0)
    share = torch.empty(n, kernels, device=x.device)
    most = torch.empty(n, kernels, device=x.device)
    for tn, tk in tfl.tile([n, kernels], block_size=[None, 1]):
        k = tk.begin
        size = t + 2 * padded[k] - (length[k] - 1) * dilation[k]
        positive = tfl.zeros([tn])
        top = tfl.full([tn], float("-inf"))
        for tt in tfl.tile(size):
            total = tfl.full([tn, tt], 0.0) + bias[k]
            for j in range(length[k]):
                at = tt.index + j * dilation[k] - padded[k]
                total += weight[k, j] * x[tn, at]
            positive += (total > 0).float().sum(1)
            top = torch.maximum(top, total.amax(1))
        share[tn, k] = positive / size
        most[tn, k] = top
    return share, most
