"""What receivers do with waves: codes that are looked for, carriers that are made even, frames that are taken apart and
put together, spikes that are cut out, words of spectra."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

TAPS = ((2, 6), (3, 7), (4, 8), (5, 9), (1, 9), (2, 10), (1, 8), (2, 9))


def gold_codes(count: int) -> Any:
    rows = []
    for a, b in TAPS[:count]:
        g1, g2, code = [1] * 10, [1] * 10, []
        for _ in range(1023):
            code.append(g1[9] ^ g2[a - 1] ^ g2[b - 1])
            g1 = [g1[2] ^ g1[9], *g1[:9]]
            g2 = [g2[1] ^ g2[2] ^ g2[5] ^ g2[7] ^ g2[8] ^ g2[9], *g2[:9]]
        rows.append(code)
    return torch.tensor(rows, dtype=torch.int8)


def make_samples(epochs: int, satellites: int, bins: int, length: int) -> Any:
    code = gold_codes(satellites)[:, :length].float() * 2 - 1
    signal = code[0].roll(5).repeat(epochs, 1) + 0.3 * torch.randn(epochs, length)
    return torch.view_as_complex(torch.stack([signal, 0.3 * torch.randn(epochs, length)], -1)), satellites, bins


def acquire_ref(samples: Any, satellites: int, bins: int) -> Any:
    length = samples.size(1)
    code = gold_codes(satellites)[:, :length].double() * 2 - 1
    t = torch.arange(length, dtype=torch.float64)
    power = torch.zeros(satellites, bins, length, dtype=torch.float64)
    for b in range(bins):
        phase = -2 * math.pi * (b - bins // 2) * t / (2 * length)
        mixed = samples.to(torch.complex128) * torch.polar(torch.ones_like(phase), phase)
        for s in range(satellites):
            product = torch.fft.ifft(torch.fft.fft(mixed) * torch.fft.fft(code[s].to(torch.complex128)).conj())
            power[s, b] = product.abs().square().sum(0)
    flat = power.flatten(1)
    best = flat.amax(1)
    return gold_codes(satellites), power.float(), flat.argmax(1).int(), (best / flat.mean(1)).float()


@stranger(
    make_samples,
    acquire_ref,
    {"epochs": 3, "satellites": 2, "bins": 3, "length": 61},
    {"epochs": 8, "satellites": 8, "bins": 21, "length": 1023},
)
@tileflow.kernel
def acquire_satellites(samples, satellites: int, bins: int):
    """Kaplan and Hegarty, 2006: codes out of shift registers, and where in delay and drift each one is heard."""
    epochs, length = samples.shape
    device = samples.device
    first = torch.tensor([a for a, _ in TAPS], dtype=torch.int32, device=device)
    second = torch.tensor([b for _, b in TAPS], dtype=torch.int32, device=device)
    codes = torch.empty(satellites, 1023, dtype=torch.int8, device=device)
    for s in tfl.tile(satellites):
        g1 = torch.full([s], 0x3FF, dtype=torch.int32)
        g2 = torch.full_like(g1, 0x3FF)
        for i in range(1023):
            bit = (g1 >> 9) ^ (g2 >> (first[s] - 1)) ^ (g2 >> (second[s] - 1))
            codes[s, i] = (bit & 1).to(torch.int8)
            g1 = ((g1 << 1) | (((g1 >> 2) ^ (g1 >> 9)) & 1)) & 0x3FF
            back = g2 >> 1 ^ g2 >> 2 ^ g2 >> 5 ^ g2 >> 7 ^ g2 >> 8 ^ g2 >> 9
            g2 = (g2 << 1 | back & 1) & 0x3FF
    tfl.barrier()
    parts = torch.view_as_real(samples)
    mixed = torch.empty(bins, 2, epochs, length, device=device)
    for b, e, t in tfl.tile([bins, epochs, length]):
        drift = (b.index - bins // 2).float()
        phase = -math.pi * (drift[:, None] * t.index.float()[None, :]) / length
        c, d = torch.cos(phase)[:, None, :], torch.sin(phase)[:, None, :]
        re, im = parts[e, t, 0], parts[e, t, 1]
        mixed[b, 0, e, t] = re * c - im * d
        mixed[b, 1, e, t] = re * d + im * c
    power = torch.empty(satellites, bins, length, device=device)
    for s, b in tfl.grid([satellites, bins]):
        for shift in tfl.tile(length):
            re, im = tfl.zeros([epochs, shift]), tfl.zeros([epochs, shift])
            for t in tfl.tile(length):
                place = (t.index[:, None] - shift.index[None, :] + length) % length
                chip = codes[s, place].float() * 2 - 1
                chip = torch.where((t.index < length)[:, None], chip, 0.0)
                re = re + mixed[b, 0, :, t] @ chip
                im = im + mixed[b, 1, :, t] @ chip
            power[s, b, shift] = (re**2 + im**2).sum(0)
    where = torch.empty(satellites, dtype=torch.int32, device=device)
    ratio = torch.empty(satellites, dtype=torch.float32, device=device)
    flat = power.view(satellites, -1)
    for s in tfl.tile(satellites):
        best, at = flat[s, :].max(1)
        where[s] = at
        ratio[s] = best / flat[s, :].mean(1)
    return codes[:, :], power, where, ratio


def make_carriers(symbols: int, carriers: int) -> Any:
    grid = torch.randn(symbols, carriers, 2)
    pilots = torch.view_as_complex(torch.sign(torch.randn((carriers + 5) // 6, 2))) / 2**0.5
    return torch.view_as_complex(grid).to(torch.complex64), pilots, 0.1


def carriers_ref(received: Any, pilots: Any, noise: float) -> Any:
    carriers = received.size(1)
    known = received[:, ::6].to(torch.complex128) / pilots
    k = torch.arange(carriers)
    left = k // 6
    right = (left + 1).clamp(max=known.size(1) - 1)
    part = ((k % 6) / 6.0).double()
    channel = known[:, left] * (1 - part) + known[:, right] * part
    gain = channel.abs().square()
    even = received * channel.conj() / (gain + noise)
    scale = 2 * 2**0.5 * gain / noise
    soft = torch.stack([even.real, even.imag], -1) * scale[..., None]
    return torch.view_as_real(even).float(), soft.clamp(-127, 127).round().to(torch.int8), gain.mean(1).float()


@stranger(make_carriers, carriers_ref, {"symbols": 5, "carriers": 43}, {"symbols": 1 << 13, "carriers": 3276})
@tileflow.kernel
def equalise_carriers(received, pilots, noise: float):
    """Van de Beek and others, 1995: the channel between pilots, symbols made even by it, and soft bits of them."""
    symbols, carriers = received.shape
    count = (carriers + 5) // 6
    y, p = torch.view_as_real(received), torch.view_as_real(pilots)
    known = torch.empty(symbols, count, 2, device=received.device)
    for s, i in tfl.tile([symbols, count]):
        re, im = y[s, 6 * i.index, 0], y[s, 6 * i.index, 1]
        a, b = p[i, 0], p[i, 1]
        square = a * a + b * b
        known[s, i, 0], known[s, i, 1] = (re * a + im * b) / square, (im * a - re * b) / square
    tfl.barrier()
    even = torch.empty_like(y)
    soft = torch.empty(symbols, carriers, 2, dtype=torch.int8, device=received.device)
    power = torch.zeros(symbols, device=received.device)
    for s, k in tfl.tile([symbols, carriers]):
        left = k.index // 6
        right = torch.clamp(left + 1, max=count - 1)
        part = (k.index % 6).float() / 6
        h = [torch.lerp(known[s, left, i], known[s, right, i], part[None, :]) for i in range(2)]
        gain = h[0] ** 2 + h[1] ** 2
        re, im = y[s, k, 0], y[s, k, 1]
        x = (re * h[0] + im * h[1]) / (gain + noise), (im * h[0] - re * h[1]) / (gain + noise)
        for i, value in enumerate(x):
            even[s, k, i] = value
            bits = value * (2 * math.sqrt(2) * gain / noise)
            soft[s, k, i] = bits.clamp(-127, 127).round().to(torch.int8)
        tfl.atomic_add(power, [s], gain.sum(-1) / carriers)
    return even, soft, power


def mdct_ref(x: Any, half: int) -> Any:
    frames = x.size(1) // half - 1
    n = torch.arange(2 * half, dtype=torch.float64)
    window = torch.sin(math.pi / (2 * half) * (n + 0.5))
    k = torch.arange(half, dtype=torch.float64)
    basis = torch.cos(math.pi / half * (n[:, None] + 0.5 + half / 2) * (k + 0.5))
    cut = x.double().unfold(1, 2 * half, half) * window
    spectrum = cut @ basis
    kept = torch.where(spectrum.abs() < 0.5, 0, spectrum)
    back = kept @ basis.T * window * (2 / half)
    out = torch.zeros(x.size(0), (frames + 1) * half, dtype=torch.float64)
    for f in range(frames):
        out[:, f * half : (f + 2) * half] += back[:, f]
    return spectrum.float(), out.float(), (kept != 0).sum(2).to(torch.int16)


@stranger(
    lambda channels, frames, half: (randn((frames + 1) * half, channels).T, half),
    mdct_ref,
    {"channels": 3, "frames": 5, "half": 16},
    {"channels": 64, "frames": 511, "half": 256},
)
@tileflow.kernel
def mdct_frames(x, half: int):
    """Princen, Johnson and Bradley, 1987: frames that overlap to cosines, of which loud ones are kept, and back."""
    channels, length = x.shape
    frames = length // half - 1
    device = x.device
    window = torch.sin(math.pi / (2 * half) * (torch.arange(2 * half, device=device) + 0.5))
    n, k = torch.arange(2 * half, device=device)[:, None], torch.arange(half, device=device)
    basis = torch.cos(math.pi / half * (n.double() + 0.5 + half / 2) * (k + 0.5)).float()
    spectrum = torch.empty(channels, frames, half, device=device)
    held = torch.zeros(channels, frames, dtype=torch.int32, device=device)
    for c in tfl.grid(channels):
        for f, b in tfl.tile([frames, half]):
            acc = tfl.zeros([f, b])
            for t in tfl.tile(2 * half):
                cut = x[c, f.index[:, None] * half + t.index[None, :]] * window[t]
                acc = acc + torch.matmul(cut, basis[t, b])
            spectrum[c, f, b] = acc
    kept = torch.zeros_like(spectrum)
    for c, f in tfl.tile([channels, frames]):
        row = spectrum[c, f, :]
        loud = row.abs() >= 0.5
        kept[c, f, :] = row.masked_fill(~loud, 0)
        held[c, f] = loud.sum(-1, dtype=torch.int32)
    out = torch.zeros(channels, (frames + 1) * half, device=device)
    for c, f, i in tfl.tile([channels, frames + 1, half]):
        first, second = tfl.zeros([c, f, i]), tfl.zeros([c, f, i])
        for b in tfl.tile(half):
            first += torch.einsum("cfb,ib->cfi", kept[c, f.index, b], basis[i, b])
            second += torch.einsum("cfb,ib->cfi", kept[c, f - 1, b], basis[i + half, b])
        value = first * window[i] + second * window[i + half]
        out[c, f.index[:, None] * half + i.index[None, :]] = value * (2 / half)
    return spectrum, out, held.to(torch.int16)


def hampel_ref(x: Any, radius: int, times: float) -> Any:
    wide = torch.nn.functional.pad(x.float(), (radius, radius), mode="reflect").unfold(1, 2 * radius + 1, 1)
    middle = wide.median(-1).values
    spread = 1.4826 * (wide - middle[..., None]).abs().median(-1).values
    out = (x.float() - middle).abs() > times * spread
    return torch.where(out, middle, x.float()).to(x.dtype), out, out.sum(1)


@stranger(
    lambda rows, n, radius: ((torch.randn(rows, n) * torch.where(torch.rand(rows, n) < 0.1, 9, 1)).half(), radius, 3.0),
    hampel_ref,
    {"rows": 5, "n": 37, "radius": 3},
    {"rows": 1 << 11, "n": 1 << 13, "radius": 5},
)
@tileflow.kernel
def hampel_filter(x, radius: int, times: float):
    """Hampel, 1974: what lies far from its neighbours' median is replaced by it, edges mirrored."""
    rows, n = x.shape
    out = torch.empty_like(x)
    spiked = torch.empty(rows, n, dtype=torch.bool, device=x.device)
    counts = torch.zeros(rows, dtype=torch.int64, device=x.device)
    for r, t in tfl.tile([rows, n]):
        window = torch.arange(-radius, radius + 1)
        at = (t.index[:, None] + window[None, :]).abs()
        at = torch.where(at >= n, 2 * (n - 1) - at, at)
        near = x[r, at].float()
        middle, _ = torch.median(near, dim=-1)
        deviation = (near - middle.unsqueeze(-1)).abs()
        spread = 1.4826 * torch.median(deviation, dim=-1)[0]
        own = x[r, t].float()
        is_far = (own - middle).abs() > times * spread
        out[r, t] = torch.where(is_far, middle, own)
        spiked[r, t] = is_far
        tfl.atomic_add(counts, [r], is_far.sum(1))
    return out, spiked, counts


def cepstra_ref(power: Any, bands: Any, cosines: Any, lifter: int) -> Any:
    loud = (power.double() @ bands.double()).clamp(min=1e-6).log()
    c = loud @ cosines.double()
    k = torch.arange(c.size(-1))
    c = c * (1 + lifter / 2 * torch.sin(math.pi * k / lifter))
    c = c - c.mean(1, keepdim=True)
    c = c / c.std(1, keepdim=True, correction=0).clamp(min=1e-3)

    def slope(y: Any) -> Any:
        wide = torch.cat([y[:, :1], y[:, :1], y, y[:, -1:], y[:, -1:]], 1)
        n = y.size(1)
        return (wide[:, 3 : n + 3] - wide[:, 1 : n + 1] + 2 * (wide[:, 4 : n + 4] - wide[:, :n])) / 10

    return torch.cat([c, slope(c), slope(slope(c))], 2).bfloat16()


@stranger(
    lambda batch, frames, bins, bands, kept: (
        torch.rand(batch, frames, bins), torch.rand(bins, bands) / bins, randn(bands, kept) / bands, 22,
    ),
    cepstra_ref,
    {"batch": 3, "frames": 17, "bins": 33, "bands": 12, "kept": 7},
    {"batch": 256, "frames": 1000, "bins": 257, "bands": 40, "kept": 13},
)  # fmt: skip
@tileflow.kernel
def cepstral_features(power, bands, cosines, lifter: int):
    """Davis and Mermelstein, 1980: cepstra by a chain of products, made alike along time, with two slopes behind."""
    batch, frames, _ = power.shape
    kept = cosines.size(1)
    c = torch.empty(batch, frames, kept, device=power.device)
    for b in tfl.grid(batch):
        for f in tfl.tile(frames):
            loud = (power[b, f, :] @ bands[:, :]).clamp(min=1e-6).log()
            raised = 1 + lifter / 2 * torch.sin(math.pi / lifter * torch.arange(kept).float())
            c[b, f, :] = (loud @ cosines[:, :]) * raised
    mean = torch.empty(batch, kept, device=power.device)
    spread = torch.empty_like(mean)
    for b in tfl.tile(batch):
        variance, centre = torch.var_mean(c[b, :, :], dim=1, correction=0)
        mean[b, :] = centre
        spread[b, :] = variance.sqrt().clamp(min=1e-3)
    out = torch.empty(batch, frames, 3 * kept, dtype=torch.bfloat16, device=power.device)

    def slope(at):
        return sum(k * (at(k) - at(-k)) for k in (1, 2)) / 10

    for b, f in tfl.tile([batch, frames]):
        scale, centre = spread[b, :][:, None, :], mean[b, :][:, None, :]

        def at(place, b=b, centre=centre, scale=scale):
            return (c[b, place.clamp(0, frames - 1), :] - centre) / scale

        def first(shift, f=f, at=at):
            place = (f.index + shift).clamp(0, frames - 1)
            return slope(lambda k: at(place + k))

        out[b, f, :kept] = at(f.index)
        out[b, f, kept : 2 * kept] = first(0)
        out[b, f, 2 * kept :] = slope(first)
    return out
