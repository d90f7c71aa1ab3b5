"""Streams of bits: guesses of sound, pulses, turns by shifts, shared exponents, planes of bits, words of chance."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def partitions_ref(x: Any, part: int) -> Any:
    x = x.long()
    orders = [x]
    for _ in range(4):
        last = orders[-1]
        orders.append(torch.cat([last[:, :1], last.diff(dim=1)], 1))
    total = torch.stack([o[:, 4:].abs().sum(1) for o in orders], 1)
    best = total.argmin(1)
    residual = torch.stack(orders, 1)[torch.arange(len(x)), best]
    folded = torch.where(residual < 0, -2 * residual - 1, 2 * residual).unflatten(1, (-1, part))
    sizes = torch.stack([(folded >> k).sum(2) + (k + 1) * part for k in range(15)], 1)
    bits, k = sizes.min(1)
    return residual.int(), best.to(torch.uint8), k.to(torch.int8), bits.sum(1)


@stranger(
    lambda blocks, n, part: ((torch.randn(blocks, n).cumsum(1) * 300).clamp(-9000, 9000).short(), part),
    partitions_ref,
    {"blocks": 7, "n": 96, "part": 12},
    {"blocks": 1 << 14, "n": 4096, "part": 64},
)
@tileflow.kernel
def sound_residuals(x, part: int):
    """Coalson's FLAC: the fixed predictor that leaves least, and Rice's parameter of each part of what it leaves."""
    blocks, n = x.shape
    residual = torch.empty(blocks, n, dtype=torch.int32, device=x.device)
    order = torch.empty(blocks, dtype=torch.uint8, device=x.device)
    rice = torch.empty(blocks, n // part, dtype=torch.int8, device=x.device)
    bits = torch.empty(blocks, dtype=torch.int64, device=x.device)
    for b in tfl.tile(blocks):
        guess = x[b, :].int()
        best, least, which = guess, guess[:, 4:].abs().sum(1), torch.zeros_like(b.index)
        for k in range(1, 5):
            guess = torch.cat([guess[:, :1], guess.diff(dim=1)], dim=1)
            cost = guess[:, 4:].abs().sum(1)
            less = cost < least
            best = torch.where(less[:, None], guess, best)
            which = torch.where(less, k, which)
            least = torch.minimum(least, cost)
        residual[b, :] = best
        order[b] = which.byte()
        folded = torch.where(best < 0, -2 * best - 1, 2 * best).unflatten(1, (n // part, part))
        sizes = torch.stack([(folded >> k).sum(dim=2) + (k + 1) * part for k in range(15)], dim=1)
        size, k = torch.min(sizes, dim=1)
        rice[b, :] = k.char()
        bits[b] = size.sum(1)
    return residual, order, rice, bits


def pulses_ref(x: Any, pulses: int) -> Any:
    x = x.double()
    size = x.abs()
    y = (pulses * size / size.sum(1, keepdim=True)).floor()
    for _ in range(int(pulses - y.sum(1).min()) if len(x) else 0):
        left = y.sum(1) < pulses
        gain = ((size * y).sum(1, keepdim=True) + size) ** 2 / ((y * y).sum(1, keepdim=True) + 2 * y + 1)
        at = torch.nn.functional.one_hot(gain.argmax(1), x.size(1))
        y = y + at * left[:, None]
    signed = torch.where(x < 0, -y, y)
    return signed.to(torch.int8), (signed / signed.norm(dim=1, keepdim=True)).to(torch.bfloat16)


@stranger(
    lambda bands, n, pulses: (torch.randn(n, bands).T.half(), pulses),
    pulses_ref,
    {"bands": 29, "n": 11, "pulses": 9},
    {"bands": 1 << 18, "n": 22, "pulses": 16},
)
@tileflow.kernel
def pulse_vectors(x, pulses: int):
    """Fischer, 1986, as Opus searches it: whole pulses, one after the other, that point where a band does."""
    bands, n = x.shape
    out = torch.empty(bands, n, dtype=torch.int8, device=x.device)
    shape = torch.empty(bands, n, dtype=torch.bfloat16, device=x.device)
    for b in tfl.tile(bands):
        band = x[b, :].float()
        size = band.abs()
        y = torch.floor(pulses * size / size.sum(1, keepdim=True))
        left = pulses - y.sum(1)
        while left.max() > 0:
            along = torch.linalg.vecdot(size, y)[:, None] + size
            energy = y.square().sum(1, True) + 2 * y + 1
            place = (along * along / energy).argmax(dim=1, keepdim=True)
            hit = (torch.arange(n)[None, :] == place) & (left > 0)[:, None]
            y = y + hit
            left = left - (left > 0).float()
        signed = torch.copysign(y, band)
        out[b, :] = signed.to(torch.int8)
        shape[b, :] = torch.nn.functional.normalize(signed, dim=1)
    return out, shape


_ANGLES = tuple(round(math.atan(2.0**-i) / math.pi * 2**31) for i in range(24))
_GAIN = round(math.prod(1 / math.sqrt(1 + 4.0**-i) for i in range(24)) * 2**30)


def cordic_ref(x: Any, y: Any, angle: Any) -> Any:
    x, y, z = x.long(), y.long(), angle.long()
    flip = (z >= 1 << 30) | (z < -(1 << 30))
    z = torch.where(flip, torch.where(z < 0, z + (1 << 31), z - (1 << 31)), z)
    x, y = torch.where(flip, -x, x), torch.where(flip, -y, y)
    for i, a in enumerate(_ANGLES):
        up = z >= 0
        x, y = torch.where(up, x - (y >> i), x + (y >> i)), torch.where(up, y + (x >> i), y - (x >> i))
        z = torch.where(up, z - a, z + a)
    return torch.stack([x * _GAIN >> 30, y * _GAIN >> 30], -1).int(), z.int()


@stranger(
    lambda n: (*(torch.randint(-(1 << 28), 1 << 28, (n,), dtype=torch.int32) for _ in range(2)),
               torch.randint(-(1 << 31), (1 << 31) - 1, (n,)).int()),
    cordic_ref,
    {"n": 391},
    {"n": 1 << 24},
)  # fmt: skip
@tileflow.kernel
def turn_by_shifts(x, y, angle):
    """Volder, 1959 (CORDIC): vectors turn by smaller and smaller angles, with shifts and sums alone."""
    out = torch.empty(x.size(0), 2, dtype=torch.int32, device=x.device)
    rest = torch.empty_like(angle)
    for t in tfl.tile(x.size(0)):
        a, b, z = x[t], y[t], angle[t].long()
        flip = (z >= 1 << 30) | (z < -(1 << 30))
        z = torch.where(
            flip, z - torch.copysign(torch.full_like(a, 1.0, dtype=torch.float64), z.double()).long() * 2**31, z
        )
        a, b = torch.where(flip, -a, a), torch.where(flip, -b, b)
        for i, step in enumerate(_ANGLES):
            sign = torch.where(z < 0, -1, 1)
            a, b = a - sign * (b >> i), b + sign * (a >> i)
            z = z - sign * step
        scaled = [v.long() * _GAIN >> 30 for v in (a, b)]
        out[t, :] = torch.stack(scaled, dim=-1).int()
        rest[t] = z.int()
    return out, rest


class Blocks(NamedTuple):
    mantissa: torch.Tensor
    exponent: torch.Tensor


def blocks_ref(x: Any, bits: int) -> Any:
    x = x.double()
    top = torch.frexp(x.abs().amax(2)).exponent
    scaled = torch.ldexp(x, bits - 1 - top[:, :, None])
    limit = 2 ** (bits - 1) - 1
    m = scaled.round().clamp(-limit, limit)
    back = torch.ldexp(m, top[:, :, None] - (bits - 1))
    error = (back - x).square().sum((1, 2)) / x.square().sum((1, 2)).clamp(min=1e-30)
    return Blocks(m.to(torch.int8), (top + 127).to(torch.uint8)), -10 * error.log10().float()


@stranger(
    lambda rows, groups, size, bits: (
        (torch.randn(rows, size, groups) * torch.exp(2 * torch.randn(rows, 1, groups))).bfloat16().mT, bits,
    ),
    blocks_ref,
    {"rows": 17, "groups": 5, "size": 12, "bits": 6},
    {"rows": 8192, "groups": 128, "size": 32, "bits": 6},
)  # fmt: skip
@tileflow.kernel
def shared_exponents(x, bits: int):
    """Wilkinson, 1963: block floats, whose numbers share an exponent, and how many decibels that costs."""
    rows, groups, size = x.shape
    made = Blocks(
        torch.empty(rows, groups, size, dtype=torch.int8, device=x.device),
        torch.empty(rows, groups, dtype=torch.uint8, device=x.device),
    )
    noise = torch.empty(rows, device=x.device)
    limit = (1 << (bits - 1)) - 1
    for r in tfl.tile(rows):
        lost, whole = tfl.zeros([r]), tfl.zeros([r])
        for g in tfl.tile(groups):
            block = x[r, g, :].float()
            _, top = torch.frexp(block.abs().amax(2))
            shift = (bits - 1 - top).unsqueeze(-1)
            m = torch.ldexp(block, shift).round().clamp(-limit, limit)
            made.mantissa[r, g, :] = m.to(torch.int8)
            made.exponent[r, g] = (top + 127).to(torch.uint8)
            back = torch.ldexp(m, -shift)
            lost += (back - block).square().sum(dim=(1, 2))
            whole += torch.sum(block**2, dim=[1, 2])
        noise[r] = -10 * torch.log10(lost / whole.clamp(min=1e-30))
    return made, noise


def planes_ref(x: Any) -> Any:
    bits = (x[..., None] >> torch.arange(8)) & 1  # rows of eight bytes, each as its bits
    planes = (bits * (1 << torch.arange(8))[:, None]).sum(-2)
    return planes.to(torch.uint8), bits.sum((0, 1), dtype=torch.int64)


@stranger(
    lambda n: (torch.randint(0, 256, (n, 8), dtype=torch.uint8),),
    planes_ref,
    {"n": 133},
    {"n": 1 << 22},
)
@tileflow.kernel
def bit_planes(x):
    """Bits of eight bytes are turned as a matrix in one word (Warren, 2002), and counted by where they stand."""
    n = x.size(0)
    words = x.view(torch.int64).squeeze(1)
    out = torch.empty_like(words)
    counts = torch.zeros(8, dtype=torch.int64, device=x.device)
    for t in tfl.tile(n):
        w = words[t]
        for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
            swap = (w ^ (w >> shift)) & mask
            w = w ^ swap ^ (swap << shift)
        out[t] = w
        for plane in tfl.static_range(8):
            byte = (w >> 8 * plane) & 0xFF
            byte = byte - ((byte >> 1) & 0x55)
            byte = (byte & 0x33) + ((byte >> 2) & 0x33)
            tfl.atomic_add(counts, plane, ((byte + (byte >> 4)) & 0x0F).sum())
    return out.view(torch.uint8).view(n, 8), counts


def chance_ref(state: Any, draws: int) -> Any:
    s = list(state.view(torch.int64).T.clone())
    rotate = lambda x, k: (x << k) | ((x >> (64 - k)) & ((1 << k) - 1))  # noqa: E731
    numbers, words = [], []
    for _ in range(draws):
        word = rotate(s[1] * 5, 7) * 9
        t = s[1] << 17
        s[2] = s[2] ^ s[0]
        s[3] = s[3] ^ s[1]
        s[1] = s[1] ^ s[2]
        s[0] = s[0] ^ s[3]
        s[2] = s[2] ^ t
        s[3] = rotate(s[3], 45)
        words.append(word)
        numbers.append((((word >> 12) & ((1 << 52) - 1)) | (1023 << 52)).view(torch.float64) - 1)
    return torch.stack(s, 1).view(torch.uint64), torch.stack(numbers, 1), torch.stack(words, 1).view(torch.uint64)


@stranger(
    lambda streams, draws: (torch.randint(-(2**62), 2**62, (streams, 4)).view(torch.uint64), draws),
    chance_ref,
    {"streams": 57, "draws": 5},
    {"streams": 1 << 18, "draws": 32},
)
@tileflow.kernel
def words_of_chance(state, draws: int):
    """Blackman and Vigna, 2018 (xoshiro256**): streams of words, and doubles out of their upper bits."""

    def rotate(x, k):
        return (x << k) | (x >> (64 - k))

    streams = state.size(0)
    new = torch.empty_like(state)
    numbers = torch.empty(streams, draws, dtype=torch.float64, device=state.device)
    words = torch.empty(streams, draws, dtype=torch.uint64, device=state.device)
    for t in tfl.tile(streams):
        a, b, c, d = (state[t, i] for i in range(4))
        for k in range(draws):
            word = rotate(b * 5, 7) * 9
            shifted = b << 17
            c = c ^ a
            d = d ^ b
            b = b ^ c
            a = a ^ d
            c = c ^ shifted
            d = rotate(d, 45)
            words[t, k] = word
            numbers[t, k] = ((word >> 12) | (1023 << 52)).view(torch.float64) - 1
        new[t, :] = torch.stack([a, b, c, d], dim=1)
    return new, numbers, words
