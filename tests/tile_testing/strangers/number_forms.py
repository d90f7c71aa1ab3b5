"""Numbers in forms of their own: posits, lattices, residues, two words for one, numbers with slopes, bits for cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def posit_py(bits: int) -> float:
    if bits == 0:
        return 0.0
    if bits == 0x8000:
        return float("inf")
    sign, text = (-1, format((1 << 16) - bits, "016b")) if bits >> 15 else (1, format(bits, "016b"))
    body = text[1:]
    run = len(body) - len(body.lstrip(body[0]))
    k = run - 1 if body[0] == "1" else -run
    rest = body[run + 1 :]
    exponent = int((rest[:2] + "00")[:2], 2)
    fraction = Fraction(int(rest[2:], 2), 1 << len(rest[2:])) if rest[2:] else Fraction(0)
    return float(sign * (1 + fraction) * Fraction(2) ** (4 * k + exponent))


def posit_ref(words: Any) -> Any:
    return torch.tensor([posit_py(int(w) & 0xFFFF) for w in words.flatten().tolist()]).view(words.shape)


@stranger(
    lambda m, n: (torch.randint(0, 1 << 16, (n, m)).to(torch.uint16).T,),
    posit_ref,
    {"m": 7, "n": 40},
    {"m": 4096, "n": 4096},
    loops=True,
)
@tileflow.kernel
def posit_decode(words):
    """The posit standard (2022): 16 bits with two of exponent, a regime as long as its bits are alike."""
    out = torch.empty(words.shape, dtype=torch.float32, device=words.device)
    for i, j in tfl.tile(words.shape):
        bits = words[i, j].int()
        negative = bits >> 15 == 1
        body = torch.where(negative, -bits, bits) & 0x7FFF
        first = body >> 14
        run = torch.zeros_like(body)
        alike = torch.ones_like(body, dtype=torch.bool)
        for k in range(15):
            alike = alike & ((body >> (14 - k)) & 1 == first)
            run += alike
        regime = torch.where(first == 1, run - 1, -run)
        rest = (body << (run + 1)) & 0x7FFF
        exponent = rest >> 13
        fraction = (rest & 0x1FFF) / 0x2000
        value = torch.ldexp(1 + fraction, 4 * regime + exponent)
        value = torch.where(negative, -value, value)
        value = torch.where(bits == 0, 0.0, value)
        out[i, j] = torch.where(bits == 0x8000, float("inf"), value)
    return out


def roots() -> Any:
    """Some points of E8 that a nearest one is looked for among: all of norm 2, moved by whole points."""
    signs = torch.cartesian_prod(*[torch.tensor([-0.5, 0.5])] * 8)
    halves = signs[(signs < 0).sum(1) % 2 == 0]
    eye = torch.eye(8)
    pairs = [a * eye[i] + b * eye[j] for i in range(8) for j in range(i) for a in (-1, 1) for b in (-1, 1)]
    return torch.cat([torch.zeros(1, 8), halves, torch.stack(pairs)])


def lattice_points_ref(x: Any, scale: float) -> Any:
    """The best of all roots around a first guess, until none is better."""
    v = (x.double() / scale).reshape(-1, 8)
    steps, best = roots().double(), torch.zeros_like(v)
    for _ in range(40):
        there = best[:, None] + steps
        best = there[torch.arange(len(v)), (v[:, None] - there).square().sum(2).argmin(1)]
    return (best * 2).to(torch.int8).reshape(x.shape), (v - best).square().sum(1).float().reshape(*x.shape[:-1], -1)


def nearest_even(x: Any) -> Any:
    """The nearest point of whole numbers whose sum is even."""
    y = x.round()
    gap = x - y
    worst = gap.abs().argmax(dim=-1, keepdim=True)
    second = y + torch.where(gap >= 0, 1.0, -1.0)
    odd = y.sum(-1, keepdim=True) % 2 != 0
    return torch.where(odd & (torch.arange(8) == worst), second, y)


@stranger(
    lambda m, n, scale: (torch.randn(m, n), scale),
    lattice_points_ref,
    {"m": 5, "n": 48, "scale": 0.7},
    {"m": 4096, "n": 4096, "scale": 0.7},
    loops=True,
)
@tileflow.kernel
def e8_nearest(x, scale: float):
    """Conway and Sloane, 1982, as QuIP# (Tseng et al., 2024) quantises: eight numbers to the nearest point of E8."""
    m, n = x.shape
    points = torch.empty(m, n, dtype=torch.int8, device=x.device)
    gaps = torch.empty(m, n // 8, device=x.device)
    groups, codes = x.view(m, n // 8, 8), points.view(m, n // 8, 8)
    for i, j in tfl.tile([m, n // 8]):
        v = groups[i, j, :] / scale
        whole = nearest_even(v)
        half = nearest_even(v - 0.5) + 0.5
        to_whole = ((v - whole) ** 2).sum(-1)
        to_half = ((v - half) ** 2).sum(-1)
        point = torch.where((to_half < to_whole).unsqueeze(-1), half, whole)
        codes[i, j, :] = (2 * point).to(torch.int8)
        gaps[i, j] = torch.minimum(to_half, to_whole)
    return points, gaps


def hqq_ref(weights: Any, beta: float = 10.0, rounds: int = 20) -> Any:
    w = weights.double().view(weights.size(0), -1, 64)
    low, high = w.amin(2, keepdim=True), w.amax(2, keepdim=True)
    scale = 15 / (high - low)
    zero = -low * scale
    for _ in range(rounds):
        q = (w * scale + zero).round().clamp(0, 15)
        gap = w - (q - zero) / scale
        gap = gap.sign() * (gap.abs() - gap.abs().clamp(min=1e-8).pow(-0.3) / beta).clamp(min=0)
        zero = (q - (w - gap) * scale).mean(2, keepdim=True)
        beta *= 1.01
    return (1 / scale)[:, :, 0].float(), zero[:, :, 0].float()


@stranger(
    lambda m, n: (torch.randn(m, n) * 0.02,),
    hqq_ref,
    {"m": 3, "n": 192},
    {"m": 8192, "n": 8192},
)
@tileflow.kernel
def hqq_fit(weights, beta: float = 10.0, rounds: int = 20):
    """HQQ (Badri and Shaji, 2023): zeros of groups of 64 weights by half-quadratic steps, no data needed."""
    m, n = weights.shape
    groups = weights.view(m, n // 64, 64)
    scales = torch.empty(m, n // 64, device=weights.device)
    zeros = torch.empty(m, n // 64, device=weights.device)
    for i, j in tfl.tile([m, n // 64]):
        w = groups[i, j, :].float()
        low, high = torch.aminmax(w, dim=-1, keepdim=True)
        scale = 15 / (high - low)
        zero = -low * scale
        strength = beta
        for _ in range(rounds):
            q = torch.clamp(torch.round(w * scale + zero), 0, 15)
            gap = w - (q - zero) / scale
            size = gap.abs()
            gap = gap.sign() * torch.relu(size - size.clamp(min=1e-8) ** -0.3 / strength)
            zero = (q - (w - gap) * scale).mean(-1, keepdim=True)
            strength *= 1.01
        scales[i, j] = (1 / scale).squeeze(-1)
        zeros[i, j] = zero.squeeze(-1)
    return scales, zeros


@dataclass
class Dual:
    """A number and how fast it changes."""

    value: Any
    slope: Any = 0.0

    def __add__(self, other: Any) -> Dual:
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Any) -> Dual:
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: Any) -> Dual:
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)

    def __truediv__(self, other: Any) -> Dual:
        other = other if isinstance(other, Dual) else Dual(other)
        slope = (self.slope * other.value - self.value * other.slope) / (other.value * other.value)
        return Dual(self.value / other.value, slope)

    __rmul__ = __mul__
    __radd__ = __add__

    def cdf(self) -> Dual:
        """Of the normal distribution."""
        value = 0.5 * torch.erfc(-self.value * 0.5**0.5)
        return Dual(value, self.slope * torch.exp(-0.5 * self.value * self.value) * 0.3989422804014327)


def make_quotes(n: int) -> Any:
    spot, strike = 80 + 40 * torch.rand(n, dtype=torch.float64), 80 + 40 * torch.rand(n, dtype=torch.float64)
    years, wanted = 0.2 + 2 * torch.rand(n, dtype=torch.float64), 0.1 + 0.5 * torch.rand(n, dtype=torch.float64)
    root = wanted * years.sqrt()
    d1 = ((spot / strike).log() + (0.01 + wanted**2 / 2) * years) / root
    price = spot * torch.special.ndtr(d1) - strike * torch.exp(-0.01 * years) * torch.special.ndtr(d1 - root)
    return price, spot, strike, years, 0.01


def quotes_ref(price: Any, spot: Any, strike: Any, years: Any, rate: float) -> Any:
    low, high = torch.full_like(price, 1e-4), torch.full_like(price, 4.0)
    for _ in range(80):
        middle = (low + high) / 2
        root = middle * years.sqrt()
        d1 = ((spot / strike).log() + (rate + middle**2 / 2) * years) / root
        there = spot * torch.special.ndtr(d1) - strike * torch.exp(-rate * years) * torch.special.ndtr(d1 - root)
        low, high = torch.where(there < price, middle, low), torch.where(there < price, high, middle)
    return (low + high) / 2


@stranger(make_quotes, quotes_ref, {"n": 33}, {"n": 1 << 22})
@tileflow.kernel
def implied_volatility(price, spot, strike, years, rate: float, rounds: int = 12):
    """Newton's steps to the volatility that a price implies, its slope by dual numbers (Clifford, 1873)."""
    out = torch.empty_like(price)
    for t in tfl.tile(price.numel()):
        s, k, y = spot[t], strike[t], years[t]
        sigma = torch.full_like(s, 0.3)
        for _ in range(rounds):
            x = Dual(sigma, 1.0)
            root = x * y.sqrt()
            d1 = (torch.log(s / k) + (x * x / 2 + rate) * y) / root
            d2 = d1 - root
            worth = s * d1.cdf() - k * torch.exp(-rate * y) * d2.cdf()
            sigma = torch.clamp(sigma - (worth.value - price[t]) / worth.slope, 1e-3, 4.0)
        out[t] = sigma
    return out


WORD = (1 << 64) - 1


def signed(x: int) -> int:
    x &= WORD
    return x - (1 << 64) if x >> 63 else x


def sip_py(words: Any, key: Any) -> int:
    def turn(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & WORD

    k0, k1 = (k & WORD for k in key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def round_() -> None:
        v[0] = (v[0] + v[1]) & WORD
        v[1] = turn(v[1], 13) ^ v[0]
        v[0] = turn(v[0], 32)
        v[2] = (v[2] + v[3]) & WORD
        v[3] = turn(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & WORD
        v[3] = turn(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & WORD
        v[1] = turn(v[1], 17) ^ v[2]
        v[2] = turn(v[2], 32)

    for word in [*(w & WORD for w in words), (8 * len(words) & 0xFF) << 56]:
        v[3] ^= word
        round_()
        round_()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        round_()
    return signed(v[0] ^ v[1] ^ v[2] ^ v[3])


def sip_ref(messages: Any, key: Any) -> Any:
    pair = key.tolist()
    return torch.tensor([sip_py(row, pair) for row in messages.tolist()])


def rotated(x: Any, by: int) -> Any:
    return (x << by) | ((x >> (64 - by)) & ((1 << by) - 1))


class SipState:
    """Four words that are stirred."""

    def __init__(self, k0: Any, k1: Any) -> None:
        self.v0 = k0 ^ 0x736F6D6570736575
        self.v1 = k1 ^ 0x646F72616E646F6D
        self.v2 = k0 ^ 0x6C7967656E657261
        self.v3 = k1 ^ 0x7465646279746573

    def round(self) -> None:
        self.v0 += self.v1
        self.v1 = rotated(self.v1, 13) ^ self.v0
        self.v0 = rotated(self.v0, 32)
        self.v2 += self.v3
        self.v3 = rotated(self.v3, 16) ^ self.v2
        self.v0 += self.v3
        self.v3 = rotated(self.v3, 21) ^ self.v0
        self.v2 += self.v1
        self.v1 = rotated(self.v1, 17) ^ self.v2
        self.v2 = rotated(self.v2, 32)

    def absorb(self, word: Any) -> None:
        self.v3 ^= word
        for _ in range(2):
            self.round()
        self.v0 ^= word


def make_messages(n: int, words: int) -> Any:
    top = (1 << 63) - 1
    return torch.randint(-top, top, (n, words)), torch.randint(-top, top, (2,))


@stranger(make_messages, sip_ref, {"n": 19, "words": 3}, {"n": 1 << 20, "words": 4}, loops=True)
@tileflow.kernel
def siphash(messages, key):
    """SipHash-2-4 (Aumasson and Bernstein, 2012): keyed hashes of short messages, in words of 64 bits."""
    n, words = messages.shape
    out = torch.empty(n, dtype=torch.int64, device=messages.device)
    for t in tfl.tile(n):
        zero = tfl.zeros([t], dtype=torch.int64)
        state = SipState(key[0] + zero, key[1] + zero)
        for w in range(words):
            state.absorb(messages[t, w])
        state.absorb((8 * words & 0xFF) << 56)
        state.v2 ^= 0xFF
        for _ in range(4):
            state.round()
        out[t] = state.v0 ^ state.v1 ^ state.v2 ^ state.v3
    return out


MODULI = (1073479681, 1073184769, 1073053697, 1072857089)


def make_residues(n: int, batch: int) -> Any:
    return torch.stack([torch.randint(0, q, (batch, n)) for q in MODULI]), MODULI


def residues_ref(x: Any, moduli: Any) -> Any:
    last = moduli[-1]
    top = x[-1].where(x[-1] <= last // 2, x[-1] - last)
    return torch.stack([(x[i] - top) % q * pow(last, -1, q) % q for i, q in enumerate(moduli[:-1])])


@stranger(make_residues, residues_ref, {"n": 50, "batch": 2}, {"n": 1 << 16, "batch": 64})
@tileflow.kernel
def residue_rescale(x, moduli: tuple[int, ...]):
    """CKKS in residues (Cheon et al., 2018): divide by the last modulus, rounding, without leaving the others."""
    *kept, last = moduli
    _, batch, n = x.shape
    out = torch.empty(len(kept), batch, n, dtype=x.dtype, device=x.device)
    for b, t in tfl.tile([batch, n]):
        top = x[-1, b, t]
        top = torch.where(top > last // 2, top - last, top)
        for i, q in enumerate(kept):
            inverse = pow(last, -1, q)
            out[i, b, t] = (x[i, b, t] - top) % q * inverse % q
    return out


def wide_ref(a: Any, b: Any) -> Any:
    totals = [sum(x * y for x, y in zip(p, q, strict=True)) for p, q in zip(a.tolist(), b.tolist(), strict=True)]
    return torch.tensor([[t >> 64, signed(t)] for t in totals])


def below(a: Any, b: Any) -> Any:
    """Whether one word is less than another, both without a sign."""
    return (a ^ -(1 << 63)) < (b ^ -(1 << 63))


def add_wide(a: Any, b: Any) -> Any:
    low = a[1] + b[1]
    return a[0] + b[0] + below(low, a[1]).long(), low


def multiply_wide(a: Any, b: Any) -> Any:
    mask = (1 << 32) - 1
    a1, a0, b1, b0 = a >> 32, a & mask, b >> 32, b & mask
    low, m1, m2 = a0 * b0, a1 * b0, a0 * b1
    carried = m1 + ((low >> 32) & mask)
    middle = (carried & mask) + m2
    return a1 * b1 + (carried >> 32) + (middle >> 32), a * b


def make_wide(n: int, m: int) -> Any:
    top = (1 << 62) - 1
    return torch.randint(-top, top, (n, m)), torch.randint(-top, top, (n, m))


@stranger(make_wide, wide_ref, {"n": 5, "m": 37}, {"n": 16384, "m": 2048}, loops=True)
@tileflow.kernel
def wide_dot(a, b):
    """Exact sums of products of decimals: 128 bits as two words, carried from the low one to the high."""
    n = a.size(0)
    out = torch.empty(n, 2, dtype=torch.int64, device=a.device)
    for t in tfl.tile(n):
        product = multiply_wide(a[t, :], b[t, :])
        high, low = tfl.reduce(add_wide, product, dim=1, other=(0, 0))
        out[t, 0] = high
        out[t, 1] = low
    return out


def make_reads_and_text(n: int, longest: int, text: int) -> Any:
    return (
        torch.randint(0, 4, (n, longest), dtype=torch.uint8),
        torch.randint(1, longest + 1, (n,)),
        torch.randint(0, 4, (text,), dtype=torch.uint8),
    )


def bit_distance_ref(reads: Any, lengths: Any, text: Any) -> Any:
    best, place = [], []
    for read, m in zip(reads.tolist(), lengths.tolist(), strict=True):
        column = list(range(m + 1))
        found = []
        for c in text.tolist():
            new = [0]
            for i in range(1, m + 1):
                new.append(min(column[i - 1] + (read[i - 1] != c), column[i] + 1, new[i - 1] + 1))
            column = new
            found.append(column[m])
        best.append(min([m, *found]))
        place.append(found.index(best[-1]) if best[-1] in found and best[-1] < m else -1)
    return torch.tensor(best, dtype=torch.int32), torch.tensor(place, dtype=torch.int32)


@stranger(
    make_reads_and_text,
    bit_distance_ref,
    {"n": 9, "longest": 64, "text": 40},
    {"n": 1 << 20, "longest": 64, "text": 1000},
    loops=True,
)
@tileflow.kernel
def bit_parallel_match(reads, lengths, text):
    """Myers, 1999: where in a text a read fits best, and with how many edits; a column of the table is one word."""
    n, longest = reads.shape
    best = torch.empty(n, dtype=torch.int32, device=reads.device)
    place = torch.empty(n, dtype=torch.int32, device=reads.device)
    for t in tfl.tile(n):
        m = lengths[t]
        masks = []
        for letter in range(4):
            mask = tfl.zeros([t], dtype=torch.int64)
            for i in range(longest):
                mask |= (reads[t, i] == letter).long() << i
            masks.append(mask)
        plus = tfl.full([t], -1, dtype=torch.int64)
        minus = tfl.zeros([t], dtype=torch.int64)
        score = m.int()
        least, where = score.clone(), torch.full_like(score, -1)
        for j in range(text.numel()):
            letter = text[j]
            equal = masks[0]
            for k in (1, 2, 3):
                equal = torch.where(letter == k, masks[k], equal)
            vertical = equal | minus
            across = (((equal & plus) + plus) ^ plus) | equal
            up = minus | ~(across | plus)
            down = plus & across
            score += ((up >> (m - 1)) & 1).int()
            score -= ((down >> (m - 1)) & 1).int()
            up = up << 1
            down = down << 1
            plus = down | ~(vertical | up)
            minus = up & vertical
            better = score < least
            least = torch.where(better, score, least)
            where = torch.where(better, j, where)
        best[t] = least
        place[t] = where
    return best, place
