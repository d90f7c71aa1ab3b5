"""Codes that mend errors: parity checks, fields of 256, trellises, polar codes, symbols of radio, fountains."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_checks(b: Any, n: Any, checks: Any, degree: Any) -> Any:
    place = torch.rand(checks, n).argsort(1)[:, :degree]
    shorter = torch.arange(degree) >= torch.randint(3, degree + 1, (checks, 1))
    return 2 + randn(b, n), torch.where(shorter, -1, place).to(torch.int16), 2, 0.75


def ldpc_ref(channel: Any, place: Any, turns: int, scale: float) -> Any:
    b, checks = channel.size(0), place.size(0)
    total = channel.clone()
    message = torch.zeros(b, checks, place.size(1), dtype=channel.dtype)
    for _ in range(turns):
        for c in range(checks):
            at = place[c][place[c] >= 0].long()
            k = at.numel()
            come = total[:, at] - message[:, c, :k]
            sign = torch.where(come < 0, -1.0, 1.0).to(come.dtype)
            size = come.abs()
            others = torch.stack([size[:, [j for j in range(k) if j != i]].amin(1) for i in range(k)], 1)
            new = scale * sign.prod(1, keepdim=True) * sign * others
            message[:, c, :k] = new
            total[:, at] = come + new
    return total, total < 0


@stranger(
    make_checks,
    ldpc_ref,
    {"b": 5, "n": 21, "checks": 7, "degree": 5},
    {"b": 16384, "n": 648, "checks": 324, "degree": 8},
)
@tileflow.kernel
def ldpc_layers(channel, place, turns: int, scale):
    """Gallager, 1962, by layers (Hocevar, 2004): each check tells its bits the least of what the others are sure of."""
    b, n = channel.shape
    checks, degree = place.shape
    total = channel.clone()
    message = torch.zeros(b, checks, degree, device=channel.device)
    bits = torch.empty(b, n, dtype=torch.bool, device=channel.device)
    for t in tfl.tile(b):
        for _ in range(turns):
            for c in range(checks):
                at = place[c, :]
                there = at >= 0
                come = total[t, at] - message[t, c, :]
                size = torch.where(there, come.abs(), float("inf"))
                negative = (come < 0) & there
                first = torch.argmin(size, 1)
                own = tfl.arange(degree)[None, :] == first[:, None]
                least = size.amin(1)
                second = torch.where(own, float("inf"), size).amin(1)
                other = torch.where(own, second[:, None], least[:, None])
                odd = (negative.sum(1)[:, None] - negative.int()) % 2 == 1
                new = torch.where(odd, -scale * other, scale * other)
                tfl.store(message, [t, c, slice(None)], new, extra_mask=there)
                tfl.store(total, [t, at], come + new, extra_mask=there)
        bits[t, :] = total[t, :] < 0
    return total, bits


def field() -> tuple[list[int], list[int]]:
    """Powers and logarithms of 2 among the bytes, by the polynomial 0x11d."""
    power, log = [0] * 510, [0] * 256
    x = 1
    for i in range(255):
        power[i] = power[i + 255] = x
        log[x] = i
        x <<= 1
        if x & 256:
            x ^= 0x11D
    return power, log


def make_words(b: Any, n: Any, parity: Any) -> Any:
    power, log = field()
    return (
        torch.randint(0, 256, (n, b), dtype=torch.uint8).T,
        torch.tensor(power, dtype=torch.uint8),
        torch.tensor(log, dtype=torch.uint8),
        parity,
    )


def syndromes_ref(words: Any, power: Any, log: Any, parity: int) -> Any:
    s = torch.zeros(words.size(0), parity, dtype=torch.long)
    turn = torch.arange(parity)
    for byte in words.long().unbind(1):
        s = torch.where(s == 0, 0, power.long()[log.long()[s] + turn]) ^ byte[:, None]
    return s.to(torch.uint8), (s != 0).any(1)


@stranger(make_words, syndromes_ref, {"b": 9, "n": 13, "parity": 6}, {"b": 1 << 18, "n": 255, "parity": 32})
@tileflow.kernel
def reed_solomon_syndromes(words, power, log, parity: int):
    """Reed and Solomon, 1960: received words as polynomials, by Horner's rule at the first powers of 2."""
    b, n = words.shape
    out = torch.empty(b, parity, dtype=torch.uint8, device=words.device)
    wrong = torch.empty(b, dtype=torch.bool, device=words.device)
    for t in tfl.tile(b):
        s = tfl.zeros([t, parity], dtype=torch.uint8)
        turn = tfl.arange(parity)[None, :]
        for i in range(n):
            turned = power[log[s].int() + turn]
            s = torch.where(s == 0, 0, turned) ^ words[t, i][:, None]
        out[t, :] = s
        wrong[t] = (s != 0).any(1)
    return out, wrong


def parity_of(x: Any) -> Any:
    for shift in (32, 16, 8, 4, 2, 1):
        x = x ^ (x >> shift)
    return (x & 1).int()


def masks() -> list[int]:
    """For each of seven checks the data bits that it covers, as an int64."""
    places = [p for p in range(1, 128) if p & (p - 1)][:64]
    rows = [sum(1 << i for i, p in enumerate(places) if p >> k & 1) for k in range(7)]
    return [row - (1 << 64) if row >> 63 else row for row in rows]


def make_memory(n: Any) -> Any:
    data = torch.randint(-(1 << 62), 1 << 62, (n,)) * 2 + torch.randint(0, 2, (n,))
    check = torch.zeros(n, dtype=torch.int32)
    for k, m in enumerate(masks()):
        check = check | (parity_of(data & m) << k)
    whole = parity_of(data) ^ parity_of(check.long())
    kind = torch.randint(0, 3, (n,))
    one = torch.ones((), dtype=torch.int64) << torch.randint(0, 31, (n,))
    two = torch.ones((), dtype=torch.int64) << torch.randint(31, 64, (n,))
    data = torch.where(kind > 0, data ^ one, data)
    data = torch.where(kind > 1, data ^ two, data)
    places = [p for p in range(1, 128) if p & (p - 1)][:64]
    where = torch.full((128,), -1, dtype=torch.int8)
    where[torch.tensor(places)] = torch.arange(64, dtype=torch.int8)
    return data, (check | (whole << 7)).to(torch.uint8), torch.tensor(masks()), where


def secded_ref(data: Any, check: Any, mask: Any, where: Any) -> Any:
    syndrome = check.int() & 127
    for k in range(7):
        syndrome = syndrome ^ (parity_of(data & mask[k]) << k)
    odd = (parity_of(data) ^ parity_of(check.long())) == 1
    bit = where[syndrome.long()].long()
    fixed = odd & (syndrome != 0) & (bit >= 0)
    lost = (syndrome != 0) & ~odd
    flip = torch.where(fixed, torch.ones_like(data) << bit.clamp(min=0), 0)
    return data ^ flip, torch.stack([fixed.sum(), lost.sum()]).int()


@stranger(make_memory, secded_ref, {"n": 301}, {"n": 1 << 24})
@tileflow.kernel
def secded_scrub(data, check, mask, where):
    """Hsiao's use of Hamming's code: words of 64 bits with eight checks; one wrong bit is mended, two are counted."""
    n = data.numel()
    out = torch.empty_like(data)
    counts = torch.zeros(2, dtype=torch.int32, device=data.device)
    for t in tfl.tile(n):
        word, c = data[t], check[t]
        syndrome = c.int() & 127
        for k in range(7):
            syndrome ^= parity_of(word & mask[k]) << k
        odd = (parity_of(word) ^ parity_of(c.long())) == 1
        bit = where[syndrome]
        fixed = odd & (syndrome != 0) & (bit >= 0)
        lost = (syndrome != 0) & ~odd
        out[t] = torch.where(fixed, word ^ (1 << torch.clamp(bit, min=0).long()), word)
        tfl.atomic_add(counts, [0], fixed.sum())
        tfl.atomic_add(counts, [1], lost.sum())
    return out, counts


def polar_ref(channel: Any, frozen: Any) -> Any:
    def decode(llr, start):
        n = llr.size(1)
        if n == 1:
            u = torch.zeros_like(llr) if frozen[start] else (llr < 0).to(llr.dtype)
            return u, u
        a, b = llr[:, : n // 2], llr[:, n // 2 :]
        u0, x0 = decode(a.sign() * b.sign() * torch.minimum(a.abs(), b.abs()), start)
        u1, x1 = decode(b + (1 - 2 * x0) * a, start + n // 2)
        return torch.cat([u0, u1], 1), torch.cat([(x0 + x1) % 2, x1], 1)

    u, x = decode(channel, 0)
    return u.to(torch.uint8), x.to(torch.uint8)


def successive(llr: Any, frozen: tuple[bool, ...]) -> Any:
    n = len(frozen)
    if n == 1:
        bit = torch.zeros_like(llr) if frozen[0] else torch.where(llr < 0, 1.0, 0.0)
        return bit, bit
    a, b = torch.chunk(llr, 2, dim=1)
    u0, x0 = successive(torch.sign(a) * torch.sign(b) * torch.minimum(a.abs(), b.abs()), frozen[: n // 2])
    u1, x1 = successive(b + (1 - 2 * x0) * a, frozen[n // 2 :])
    return torch.cat([u0, u1], 1), torch.cat([(x0 + x1) % 2, x1], 1)


FROZEN = (True, True, True, True, True, True, True, False, True, True, True, False, True, False, False, False)


@stranger(lambda b: (1 + randn(b, 16), FROZEN), polar_ref, {"b": 19}, {"b": 1 << 22})
@tileflow.kernel
def polar_decode(channel, frozen):
    """Arikan, 2009, by successive cancellation: bits one after another, by a recursion over halves."""
    b, n = channel.shape
    bits = torch.empty(b, n, dtype=torch.uint8, device=channel.device)
    word = torch.empty_like(bits)
    for t in tfl.tile(b):
        u, x = successive(channel[t, :], frozen)
        bits[t, :] = u
        word[t, :] = x
    return bits, word


def trellis() -> tuple[Any, Any, Any]:
    """Of the octal code 7, 5 with four states: for a state and a bit the next state and the two bits that go out."""
    state = torch.arange(4)
    after = torch.stack([state >> 1, (state >> 1) | 2], 1)
    sent = torch.stack([torch.stack([bit ^ (state >> 1) ^ (state & 1), bit ^ (state & 1)], 1) for bit in (0, 1)], 1)
    before = torch.stack([(state & 1) * 2, (state & 1) * 2 + 1], 1)
    return after, before, sent


def make_received(b: Any, n: Any) -> Any:
    after, before, sent = trellis()
    return randn(b, n, 2), after.int(), before.int(), (1.0 - 2.0 * sent)


def bcjr_ref(received: Any, after: Any, before: Any, sent: Any) -> Any:
    b, n, _ = received.shape
    branch = torch.einsum("bnk,sik->bnsi", received, sent.to(received.dtype)) / 2
    alpha = torch.full((b, 4), -1e9, dtype=received.dtype)
    alpha[:, 0] = 0
    forward = []
    for i in range(n):
        forward.append(alpha)
        to = torch.full((b, 4, 4), float("-inf"), dtype=received.dtype)
        for s in range(4):
            for bit in range(2):
                to[:, s, after[s, bit]] = alpha[:, s] + branch[:, i, s, bit]
        alpha = to.logsumexp(1)
    beta = torch.zeros(b, 4, dtype=received.dtype)
    out = torch.empty(b, n, dtype=received.dtype)
    for i in reversed(range(n)):
        both = forward[i][:, :, None] + branch[:, i] + beta[:, after.long()]
        out[:, i] = both[..., 0].logsumexp(1) - both[..., 1].logsumexp(1)
        beta = (branch[:, i] + beta[:, after.long()]).logsumexp(2)
    return out


@stranger(make_received, bcjr_ref, {"b": 7, "n": 9}, {"b": 65536, "n": 256})
@tileflow.kernel
def trellis_beliefs(received, after, before, sent):
    """Bahl, Cocke, Jelinek and Raviv, 1974: how sure each bit is, by sums over all ways before and after it."""
    b, n, _ = received.shape
    states = after.size(0)
    kept = torch.empty(n, b, states, device=received.device)
    out = torch.empty(b, n, device=received.device)
    for t in tfl.tile(b):
        alpha = torch.where(tfl.arange(states) == 0, 0.0, -1e9).expand(t, states)
        come = before[:, :]
        bit = (tfl.arange(states) >> 1)[:, None].expand(states, 2)
        for i in range(n):
            kept[i, t, :] = alpha
            pair = received[t, i, :]
            wave = sent[come, bit, :]
            branch = (pair[:, None, None, :] * wave[None]).sum(-1) / 2
            last = torch.stack([alpha[:, before[:, 0]], alpha[:, before[:, 1]]], -1)
            alpha = torch.logsumexp(last + branch, -1)
        beta = tfl.zeros([t, states])
        for i in reversed(range(n)):
            pair = received[t, i, :]
            branch = (pair[:, None, None, :] * sent[:, :, :][None]).sum(-1) / 2
            onward = branch + torch.stack([beta[:, after[:, 0]], beta[:, after[:, 1]]], -1)
            both = kept[i, t, :][:, :, None] + onward
            out[t, i] = torch.logsumexp(both[:, :, 0], 1) - torch.logsumexp(both[:, :, 1], 1)
            beta = torch.logsumexp(onward, 2)
    return out


def qam_ref(symbol: Any, noise: Any, level: Any) -> Any:
    z = symbol.float() if symbol.dtype == torch.bfloat16 else symbol
    d = -((z[..., None] - level) ** 2) / noise[:, None, None, None].to(z.dtype)
    gray = torch.arange(8) ^ (torch.arange(8) >> 1)
    out = []
    for k in (2, 1, 0):
        one = (gray >> k & 1) == 1
        out.append(d[..., ~one].amax(-1) - d[..., one].amax(-1))
    return torch.stack(out, -1).flatten(2).clamp(-31, 31).round().to(torch.int8)


@stranger(
    lambda users, n: (
        (torch.randint(-28, 28, (n, users, 2)) / 4 + 0.0625).to(torch.bfloat16).transpose(0, 1),
        torch.full((users,), 0.5),
        torch.arange(8) * 2.0 - 7,
    ),
    qam_ref,
    {"users": 3, "n": 37},
    {"users": 4096, "n": 1200},
)
@tileflow.kernel
def soft_bits(symbol, noise, level):
    """Max-log beliefs about the six bits of each symbol of 64-QAM, Gray's order on both axes, as bytes."""
    users, n, _ = symbol.shape
    out = torch.empty(users, n, 6, dtype=torch.int8, device=symbol.device)
    for tu, tn in tfl.tile([users, n]):
        z = symbol[tu, tn, :].float()
        apart = z[..., None] - level[:]
        d = -apart.square() / noise[tu][:, None, None, None]
        k = tfl.arange(8)
        gray = k ^ (k >> 1)
        beliefs = []
        for bit in (2, 1, 0):
            one = (gray >> bit & 1) == 1
            zero_best = torch.where(one, float("-inf"), d).amax(-1)
            one_best = torch.where(one, d, float("-inf")).amax(-1)
            beliefs.append((zero_best - one_best).clamp(-31, 31).round())
        out[tu, tn, :] = torch.stack(beliefs, -1).flatten(2)
    return out


def make_fountain(symbols: Any, source: Any, width: Any) -> Any:
    degree = torch.randint(1, 9, (symbols,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), degree.cumsum(0)]).int()
    nnz = 4 * symbols if offsets.is_meta else int(offsets[-1])
    return (
        torch.randint(-(1 << 31), 1 << 31, (source, width)).int(),
        torch.randint(0, source, (nnz,)).int(),
        offsets,
    )


def fountain_ref(data: Any, chosen: Any, offsets: Any) -> Any:
    out = torch.zeros(offsets.numel() - 1, data.size(1), dtype=torch.int32)
    for i, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        for j in chosen[a:b].tolist():
            out[i] ^= data[j]
    return out


@stranger(
    make_fountain,
    fountain_ref,
    {"symbols": 17, "source": 11, "width": 7},
    {"symbols": 65536, "source": 32768, "width": 256},
    loops=True,
)
@tileflow.kernel
def fountain_encode(data, chosen, offsets):
    """Luby, 2002: each symbol that is sent is the exclusive or of some of the source's, any number of them."""
    symbols, width = offsets.numel() - 1, data.size(1)
    out = torch.empty(symbols, width, dtype=data.dtype, device=data.device)
    for ts, tw in tfl.tile([symbols, width]):
        start = offsets[ts]
        value = tfl.zeros([ts, tw], dtype=data.dtype)
        for tj in tfl.jagged_tile(offsets[ts + 1] - start):
            rows = chosen[start[:, None] + tj.index[None, :]]
            value ^= tfl.reduce(lambda a, b: a ^ b, data[rows, tw], dim=1, other=0)
        out[ts, tw] = value
    return out
