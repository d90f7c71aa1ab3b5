"""Circuits: gates, nodal equations, diodes, two-ports, truth tables, trees of wires, modulators, crossbars."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_gates(inputs: Any, gates: Any, words: Any) -> Any:
    before = torch.arange(inputs, inputs + gates)[:, None]
    return (
        torch.randint(-(1 << 62), 1 << 62, (inputs, words)),
        torch.randint(0, 5, (gates,)).to(torch.uint8),
        (torch.rand(gates, 2) * before).int(),
        gates,
    )


def gates_ref(given: Any, kind: Any, source: Any, gates: int) -> Any:
    value = list(given.unbind(0))
    for k, (a, b) in zip(kind.tolist(), source.tolist(), strict=True):
        x, y = value[a], value[b]
        value.append([x & y, x | y, x ^ y, ~(x & y), ~x][k])
    nets = torch.stack(value)
    turned = (nets[-gates:, 1:] ^ nets[-gates:, :-1]).ne(0).sum(1)
    return nets, turned.int()


@stranger(
    make_gates,
    gates_ref,
    {"inputs": 5, "gates": 21, "words": 13},
    {"inputs": 256, "gates": 8192, "words": 16384},
)
@tileflow.kernel
def simulate_gates(given, kind, source, gates: int):
    """A netlist in the order of its levels, 64 patterns to a word, and how often each gate's words change."""
    inputs, words = given.shape
    nets = torch.empty(inputs + gates, words, dtype=given.dtype, device=given.device)
    nets[:inputs] = given
    turned = torch.zeros(gates, dtype=torch.int32, device=given.device)
    for t in tfl.tile(words):
        for g in range(gates):
            k = kind[g]
            x = nets[source[g, 0], t]
            if k == 4:
                nets[inputs + g, t] = ~x
            else:
                y = nets[source[g, 1], t]
                if k == 0:
                    z = x & y
                elif k == 1:
                    z = x | y
                elif k == 2:
                    z = x ^ y
                else:
                    z = ~(x & y)
                nets[inputs + g, t] = z
    for tg, tw in tfl.tile([gates, words - 1]):
        change = nets[inputs + tg.index, tw] != nets[inputs + tg.index, tw + 1]
        tfl.atomic_add(turned, [tg], change.sum(1))
    return nets, turned


def nodal_ref(conductance: Any, source: Any, step: Any) -> Any:
    g = conductance + torch.diag_embed(step)
    return torch.linalg.solve(g, source[..., None])[..., 0]


def make_nodes(b: Any, n: Any) -> Any:
    g = torch.rand(b, n, n)
    between = (g + g.transpose(1, 2)) * (1 - torch.eye(n))
    return torch.diag_embed(between.sum(2)) - between, randn(b, n), torch.rand(b, n) + 0.5


@stranger(make_nodes, nodal_ref, {"b": 7, "n": 5}, {"b": 1 << 16, "n": 12})
@tileflow.kernel
def nodal_voltages(conductance, source, step):
    """Ho, Ruehli and Brennan, 1975: voltages of many small networks, by elimination without pivots."""
    b, n = source.shape
    out = torch.empty_like(source)
    for t in tfl.tile(b):
        place = tfl.arange(n)
        eye = place[:, None] == place[None, :]
        a = conductance[t, :, :] + torch.where(eye, step[t, :][:, :, None], 0.0)
        x = source[t, :]
        for k in range(n):
            row, value = a[:, k, :], x[:, k]
            pivot = row[:, k]
            share = torch.where(place != k, a[:, :, k] / pivot[:, None], 0.0)
            a = a - share[:, :, None] * row[:, None, :]
            x = x - share * value[:, None]
        out[t, :] = x / torch.where(eye, a, 0.0).sum(2)
    return out


def clipper_ref(signal: Any, r: float, c: float, rate: float) -> Any:
    out = torch.empty_like(signal)
    v = torch.zeros_like(signal[:, 0])
    h = 1 / rate
    for i in range(signal.size(1)):
        u, old = signal[:, i], v
        for _ in range(6):
            s = 2e-9 * torch.sinh(v / 0.0453)
            f = v - old - h / c * ((u - v) / r - s)
            slope = 1 + h / c * (1 / r + 2e-9 / 0.0453 * torch.cosh(v / 0.0453))
            v = v - (f / slope).clamp(-0.1, 0.1)
        out[:, i] = v
    return out


@stranger(
    lambda lines, n: (randn(lines, n), 2200.0, 1e-8, 96000.0),
    clipper_ref,
    {"lines": 5, "n": 9},
    {"lines": 8192, "n": 4096},
    loops=True,
)
@tileflow.kernel
def diode_clipper(signal, r, c, rate):
    """Yeh, Abel and Smith, 2007: two diodes against one another behind a resistor, by backward Euler and Newton."""
    lines, n = signal.shape
    out = torch.empty_like(signal)
    h = 1 / rate
    for t in tfl.tile(lines):
        v = tfl.zeros([t])
        for i in range(n):
            u, old = signal[t, i], v
            for _ in range(6):
                s = 2e-9 * torch.sinh(v / 0.0453)
                f = v - old - h / c * ((u - v) / r - s)
                slope = 1 + h / c * (1 / r + 2e-9 / 0.0453 * torch.cosh(v / 0.0453))
                v = v - torch.clamp(f / slope, -0.1, 0.1)
            out[t, i] = v
    return out


def make_line(f: Any, sections: Any) -> Any:
    return torch.rand(f, dtype=torch.float32) * 2e9, torch.rand(sections, 3) * torch.tensor([2.0, 5e-9, 2e-12]), 50.0


def two_ports_ref(frequency: Any, part: Any, z0: float) -> Any:
    w = 2 * math.pi * frequency
    chain = torch.eye(2, dtype=torch.complex128).expand(w.numel(), 2, 2)
    for r, henry, c in part.double().tolist():
        z, y = torch.complex(torch.full_like(w, r), w * henry), torch.complex(torch.zeros_like(w), w * c)
        one = torch.ones_like(z)
        chain = chain @ torch.stack([torch.stack([1 + z * y, z], -1), torch.stack([y, one], -1)], -2).to(chain.dtype)
    a, b, c, d = chain[:, 0, 0], chain[:, 0, 1] / z0, chain[:, 1, 0] * z0, chain[:, 1, 1]
    den = a + b + c + d
    s = torch.stack(
        [torch.stack([a + b - c - d, 2 * (a * d - b * c)], -1), torch.stack([2 + 0 * a, -a + b - c + d], -1)], -2
    )
    return torch.view_as_real(s / den[:, None, None]).to(frequency.dtype)


def times(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def plus(*terms: tuple[Any, Any]) -> tuple[Any, Any]:
    return sum([t[0] for t in terms]), sum([t[1] for t in terms])


def minus(x: tuple[Any, Any]) -> tuple[Any, Any]:
    return -x[0], -x[1]


@stranger(make_line, two_ports_ref, {"f": 29, "sections": 4}, {"f": 1 << 20, "sections": 24})
@tileflow.kernel
def two_port_chain(frequency, part, z0):
    """A ladder of series and shunt elements as a product of complex matrices, then as waves that go in and out."""
    n = frequency.numel()
    out = torch.empty(n, 2, 2, 2, device=frequency.device)
    for t in tfl.tile(n):
        w = 2 * math.pi * frequency[t]
        zero, one = tfl.zeros([t]), tfl.full([t], 1.0)
        m = {"a": (one, zero), "b": (zero, zero), "c": (zero, zero), "d": (one, zero)}
        for k in range(part.size(0)):
            z = (one * part[k, 0], w * part[k, 1])
            y = (zero, w * part[k, 2])
            for p, q in (("a", "b"), ("c", "d")):
                first = plus(m[p], times(m[p], times(z, y)), times(m[q], y))
                m[q] = plus(times(m[p], z), m[q])
                m[p] = first
        a, d = m["a"], m["d"]
        b = (m["b"][0] / z0, m["b"][1] / z0)
        c = (m["c"][0] * z0, m["c"][1] * z0)
        den = plus(a, b, c, d)
        size = den[0] ** 2 + den[1] ** 2
        inverse = (den[0] / size, -den[1] / size)
        det = plus(times(a, d), minus(times(b, c)))
        waves = [
            [plus(a, b, minus(c), minus(d)), (2 * det[0], 2 * det[1])],
            [(2 * one, zero), plus(b, d, minus(a), minus(c))],
        ]
        for i in range(2):
            for j in range(2):
                real, imaginary = times(waves[i][j], inverse)
                out[t, i, j, 0] = real
                out[t, i, j, 1] = imaginary
    return out


def swap_inputs(x: Any, i: int, j: int) -> Any:
    """The truth table with two of its four inputs exchanged."""
    keep = sum(1 << m for m in range(16) if (m >> i & 1) == (m >> j & 1))
    up = sum(1 << m for m in range(16) if (m >> i & 1) and not (m >> j & 1))
    shift = (1 << j) - (1 << i)
    return (x & keep) | ((x & up) << shift) | ((x >> shift) & up)


def flip_input(x: Any, i: int) -> Any:
    low = sum(1 << m for m in range(16) if not m >> i & 1)
    return ((x & low) << (1 << i)) | ((x >> (1 << i)) & low)


ORDERS = ((), ((0, 1),), ((1, 2),), ((2, 3),), ((0, 1), (1, 2)), ((1, 2), (2, 3)), ((0, 2),), ((0, 3),))


def canonical_ref(table: Any) -> Any:
    x = table.int() & 0xFFFF
    best = torch.full_like(x, 0xFFFF)
    for order in ORDERS:
        y = x
        for i, j in order:
            y = swap_inputs(y, i, j)
        for phase in range(16):
            z = y
            for i in range(4):
                z = flip_input(z, i) if phase >> i & 1 else z
            best = torch.minimum(best, torch.minimum(z, ~z & 0xFFFF))
    found = best.unique()
    return best.int(), torch.tensor(found.numel(), dtype=torch.int32)


@stranger(
    lambda n: (torch.randint(-(1 << 15), 1 << 15, (n,)).to(torch.int16),), canonical_ref, {"n": 97}, {"n": 1 << 22}
)
@tileflow.kernel
def canonical_tables(table):
    """Functions of four inputs up to negations and some exchanges: the least table of each, and how many differ."""
    n = table.numel()
    out = torch.empty(n, dtype=torch.int32, device=table.device)
    seen = torch.zeros(1 << 16, dtype=torch.bool, device=table.device)
    count = torch.zeros((), dtype=torch.int32, device=table.device)
    for t in tfl.tile(n):
        x = table[t].int() & 0xFFFF
        best = torch.full_like(x, 0xFFFF)
        for order in ORDERS:
            y = x
            for i, j in order:
                y = swap_inputs(y, i, j)
            for phase in tfl.static_range(16):
                y = flip_input(y, (0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, 3)[phase])
                best = torch.minimum(best, torch.minimum(y, ~y & 0xFFFF))
        out[t] = best
        seen[best] = True
    for t in tfl.tile(1 << 16):
        tfl.atomic_add(count, [], seen[t].sum())
    return out, count


def make_trees(nets: Any, most: Any) -> Any:
    size = torch.randint(1, most + 1, (nets,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), size.cumsum(0)]).int()
    n = most * nets // 2 if offsets.is_meta else int(offsets[-1])
    node = torch.arange(n)
    if not offsets.is_meta:
        node = node - torch.repeat_interleave(offsets[:-1].long(), size)
    parent = torch.where(node > 0, (torch.rand(n) * node).long(), -1)
    return offsets, parent.int(), torch.rand(n), torch.rand(n)


def elmore_ref(offsets: Any, parent: Any, r: Any, c: Any) -> Any:
    delay = torch.zeros_like(r)
    worst = torch.zeros(offsets.numel() - 1, dtype=r.dtype)
    for k, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        load = c[a:b].clone()
        for i in reversed(range(1, b - a)):
            load[parent[a + i]] += load[i]
        for i in range(b - a):
            p = int(parent[a + i])
            delay[a + i] = (delay[a + p] if p >= 0 else 0) + r[a + i] * load[i]
        worst[k] = delay[a:b].max()
    return delay, worst


@stranger(make_trees, elmore_ref, {"nets": 7, "most": 9}, {"nets": 1 << 18, "most": 64}, loops=True)
@tileflow.kernel
def elmore_delays(offsets, parent, r, c):
    """Elmore, 1948: each tree's loads from its leaves up, then delays from its root down, and the worst."""
    nets = offsets.numel() - 1
    load = c.clone()
    delay = torch.empty_like(r)
    worst = torch.empty(nets, device=r.device)
    for i in tfl.grid(nets):
        start, end = offsets[i], offsets[i + 1]
        for back in range(end - start - 1):
            at = end - 1 - back
            load[start + parent[at]] = load[start + parent[at]] + load[at]
        longest = tfl.full([], 0.0)
        for at in range(start, end):
            before = parent[at]
            d = r[at] * load[at]
            if before >= 0:
                d = d + delay[start + before]
            delay[at] = d
            longest = torch.maximum(d, longest)
        worst[i] = longest
    return delay, worst


def modulator_ref(signal: Any, gain: float) -> Any:
    lines, n = signal.shape
    a = torch.zeros(lines, dtype=torch.float64)
    b = torch.zeros_like(a)
    bits = torch.zeros(lines, n, dtype=torch.int64)
    for i in range(n):
        out = torch.where(b >= 0, 1.0, -1.0).double()
        bits[:, i] = b >= 0
        a = a + signal[:, i].double() - out
        b = b + gain * a - 2 * gain * out
    packed = (bits.view(lines, n // 8, 8) << torch.arange(8)).sum(2)
    return packed.to(torch.uint8), bits.sum(1).int()


@stranger(
    lambda lines, n: ((torch.randint(-64, 65, (n, lines)) / 128).half().T, 0.5),
    modulator_ref,
    {"lines": 7, "n": 24},
    {"lines": 16384, "n": 8192},
)
@tileflow.kernel
def sigma_delta(signal, gain):
    """Candy, 1985: a modulator of second order turns samples into bits, eight to a byte, the first one lowest."""
    lines, n = signal.shape
    out = torch.empty(lines, n // 8, dtype=torch.uint8, device=signal.device)
    ones = torch.empty(lines, dtype=torch.int32, device=signal.device)
    for t in tfl.tile(lines):
        a, b = tfl.zeros([t]), tfl.zeros([t])
        count = tfl.zeros([t], dtype=torch.int32)
        for byte in range(n // 8):
            packed = tfl.zeros([t], dtype=torch.uint8)
            for k in range(8):
                high = b >= 0
                level = torch.where(high, 1.0, -1.0)
                a += signal[t, byte * 8 + k] - level
                b += gain * a - 2 * gain * level
                packed |= high << k
                count += high
            out[t, byte] = packed
        ones[t] = count
    return out, ones


def crossbar_ref(x: Any, w: Any, top: int, bits: int) -> Any:
    out = torch.zeros(x.size(0), w.size(1), dtype=torch.int32)
    for rows in torch.arange(x.size(1)).split(64):
        for i in range(bits):
            for j in range(bits):
                a = (x[:, rows].long() >> i & 1).double()
                b = (w[rows].long() >> j & 1).double()
                out += ((a @ b).clamp(max=top) * 2 ** (i + j)).int()
    return out


@stranger(
    lambda m, k, n: (
        torch.randint(0, 16, (m, k), dtype=torch.uint8),
        torch.randint(0, 16, (n, k), dtype=torch.uint8).T,
        15,
        4,
    ),
    crossbar_ref,
    {"m": 9, "k": 128, "n": 11},
    {"m": 2048, "k": 1024, "n": 1024},
)
@tileflow.kernel
def crossbar_product(x, w, top: int, bits: tfl.constexpr):
    """ISAAC (Shafiee et al., 2016): products bit by bit in arrays of 64 rows, whose converters end at `top`."""
    m, k = x.shape
    n = w.size(1)
    out = torch.empty(m, n, dtype=torch.int32, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        total = tfl.zeros([tm, tn], dtype=torch.int32)
        for tk in tfl.tile(k, block_size=64):
            a, b = x[tm, tk], w[tk, tn]
            for i in range(bits):
                for j in range(bits):
                    current = tfl.dot(((a >> i) & 1).half(), ((b >> j) & 1).half())
                    total += (torch.clamp(current, max=top).int()) << (i + j)
        out[tm, tn] = total
    return out
