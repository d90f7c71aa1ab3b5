"""Fields of ciphers: numbers of 255 bits in limbs, ladders on curves, transforms, lattices, sponges, primes."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger

P = (1 << 255) - 19
BITS = tuple(26 - i % 2 for i in range(10))
PLACES = tuple(-(-51 * i // 2) for i in range(10))


def carried(h: Any) -> Any:
    """Limbs of 26 and 25 bits by turns, after the carries of one round and that of the first once more."""
    h = list(h)
    for i in (*range(10), 0):
        over = h[i] >> BITS[i]
        h[i] = h[i] - (over << BITS[i])
        if i < 9:
            h[i + 1] = h[i + 1] + over
        else:
            h[0] = h[0] + 19 * over
    return h


def multiplied(f: Any, g: Any) -> Any:
    h = []
    for k in range(10):
        total = 0
        for i in range(10):
            j = (k - i) % 10
            times = (2 if i % 2 and j % 2 else 1) * (19 if i + j >= 10 else 1)
            total = total + f[i] * (g[j] * times)
        h.append(total)
    return carried(h)


def whole(limbs: Any) -> list[int]:
    return [sum(v << p for v, p in zip(row, PLACES, strict=True)) % P for row in limbs.tolist()]


def limbs_of(numbers: list[int]) -> Any:
    """The one form of each number that has no carry left."""
    rows = [[(n % P >> p) & ((1 << b) - 1) for p, b in zip(PLACES, BITS, strict=True)] for n in numbers]
    return torch.tensor(rows, dtype=torch.int32)


def reduced(h: Any) -> Any:
    """What is less than the prime, limb by limb."""
    h = carried(carried(h))
    q = (19 * h[9] + (1 << 24)) >> 25
    for i in range(10):
        q = (h[i] + q) >> BITS[i]
    h[0] = h[0] + 19 * q
    for i in range(10):
        over = h[i] >> BITS[i]
        h[i] = h[i] - (over << BITS[i])
        if i < 9:
            h[i + 1] = h[i + 1] + over
    return h


def random_limbs(n: Any) -> Any:
    return torch.stack([torch.randint(0, 1 << b, (n,)) for b in BITS], 1).int()


def products_ref(a: Any, b: Any) -> Any:
    return limbs_of([x * y for x, y in zip(whole(a), whole(b), strict=True)])


@stranger(lambda n: (random_limbs(n), random_limbs(n)), products_ref, {"n": 37}, {"n": 1 << 21}, loops=True)
@tileflow.kernel
def field_products(a, b):
    """Bernstein, 2006: products modulo 2^255 - 19, of ten limbs each, in their one reduced form."""
    n = a.size(0)
    out = torch.empty_like(a)
    for t in tfl.tile(n):
        f = [a[t, i].long() for i in range(10)]
        g = [b[t, i].long() for i in range(10)]
        for i, limb in enumerate(reduced(multiplied(f, g))):
            out[t, i] = limb
    return out


def ladder_py(k: int, x: int, bits: int) -> tuple[int, int]:
    x2, z2, x3, z3 = 1, 0, x, 1
    for i in range(bits - 1, -1, -1):
        bit = k >> i & 1
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a, c * b
        x3, z3 = (da + cb) ** 2 % P, x * (da - cb) ** 2 % P
        aa, bb = a * a, b * b
        e = aa - bb
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return x2, z2


def ladder_ref(scalar: Any, point: Any) -> Any:
    pairs = zip(scalar.tolist(), whole(point), strict=True)
    found = [ladder_py(k, x, 32) for k, x in pairs]
    return limbs_of([x for x, _ in found]), limbs_of([z for _, z in found])


@stranger(
    lambda n: (torch.randint(1, 1 << 32, (n,)), random_limbs(n)),
    ladder_ref,
    {"n": 9},
    {"n": 1 << 16},
    loops=True,
)
@tileflow.kernel
def curve_ladder(scalar, point):
    """Montgomery, 1987: multiples of points of Curve25519 by their first coordinates alone, a swap for each bit."""
    n = scalar.size(0)
    out_x = torch.empty_like(point)
    out_z = torch.empty_like(point)
    for t in tfl.tile(n):
        k = scalar[t]
        x1 = [point[t, i].long() for i in range(10)]
        zero = tfl.zeros([t], dtype=torch.int64)
        one = [zero + 1] + [zero] * 9
        x2, z2, x3, z3 = one, [zero] * 10, x1, one
        for i in range(32):
            bit = (k >> (31 - i)) & 1 == 1
            x2, x3 = swapped(bit, x2, x3)
            z2, z3 = swapped(bit, z2, z3)
            a, b = plus(x2, z2), minus(x2, z2)
            c, d = plus(x3, z3), minus(x3, z3)
            da, cb = multiplied(d, a), multiplied(c, b)
            s, e = plus(da, cb), minus(da, cb)
            x3, z3 = multiplied(s, s), multiplied(x1, multiplied(e, e))
            aa, bb = multiplied(a, a), multiplied(b, b)
            e = minus(aa, bb)
            x2, z2 = multiplied(aa, bb), multiplied(e, plus(aa, carried([121665 * v for v in e])))
            x2, x3 = swapped(bit, x2, x3)
            z2, z3 = swapped(bit, z2, z3)
        for i, limb in enumerate(reduced(x2)):
            out_x[t, i] = limb
        for i, limb in enumerate(reduced(z2)):
            out_z[t, i] = limb
    return out_x, out_z


def plus(f: Any, g: Any) -> Any:
    return [a + b for a, b in zip(f, g, strict=True)]


def minus(f: Any, g: Any) -> Any:
    return [a - b for a, b in zip(f, g, strict=True)]


def swapped(bit: Any, f: Any, g: Any) -> Any:
    both = [(torch.where(bit, b, a), torch.where(bit, a, b)) for a, b in zip(f, g, strict=True)]
    return [a for a, _ in both], [b for _, b in both]


Q = 3329


def turns() -> Any:
    """17 to the powers 0 to 127 in the order of reversed bits, as Kyber's transform takes them."""
    return torch.tensor([pow(17, int(f"{i:07b}"[::-1], 2), Q) for i in range(128)], dtype=torch.int16)


def transform_ref(polynomial: Any, zeta: Any) -> Any:
    x, k = polynomial.int(), 1
    for layer in range(7):
        groups = 1 << layer
        low, high = x.view(-1, groups, 2, 128 >> layer).unbind(2)
        high = high * zeta[k : k + groups].int()[:, None] % Q
        x = torch.stack([low + high, low - high], 2) % Q
        k += groups
    return x.reshape(polynomial.shape).to(torch.int16)


@stranger(lambda n: (torch.randint(0, Q, (n, 256)).to(torch.int16), turns()), transform_ref, {"n": 5}, {"n": 1 << 17})
@tileflow.kernel
def number_transform(polynomial, zeta):
    """The transform of Kyber (FIPS 203): polynomials modulo 3329 in seven layers of butterflies, two to a root."""
    n = polynomial.size(0)
    out = torch.empty_like(polynomial)
    for t in tfl.tile(n):
        x = polynomial[t, :].int()
        for layer in range(7):
            groups = 1 << layer
            pairs = x.reshape(t, groups, 2, 128 >> layer)
            low, high = pairs[:, :, 0, :], pairs[:, :, 1, :]
            high = high * zeta[groups : 2 * groups].int()[None, :, None] % Q
            x = torch.stack([low + high, low - high], 2).reshape(t, 256) % Q
        out[t, :] = x.to(torch.int16)
    return out


def make_lattice(n: Any, secrets: Any, columns: Any) -> Any:
    a = torch.randint(-(1 << 15), 1 << 15, (n, n)).to(torch.int16)
    s, e = (torch.randint(-3, 4, (n, secrets)).to(torch.int16) for _ in range(2))
    return a, s, e, torch.randint(0, 2, (n, secrets)).to(torch.bool), columns


def lattice_ref(a: Any, s: Any, e: Any, message: Any, bits: int) -> Any:
    total = torch.zeros(s.shape, dtype=torch.int64)
    for part in range(0, a.size(1), 64):
        total += (a[:, part : part + 64, None].long() * s[part : part + 64].long()).sum(1)
    total = total + e + (message.long() << (bits - 1))
    return (total & ((1 << bits) - 1)).int()


@stranger(make_lattice, lattice_ref, {"n": 37, "secrets": 3, "columns": 15}, {"n": 8192, "secrets": 8, "columns": 15})
@tileflow.kernel
def lattice_samples(a, s, e, message, bits: int):
    """Frodo's samples (Bos et al., 2016): a square matrix of 16 bits by small secrets, noise and messages on top."""
    n, secrets = s.shape
    out = torch.empty(n, secrets, dtype=torch.int32, device=a.device)
    for tm in tfl.tile(n):
        acc = tfl.zeros([tm, secrets], dtype=torch.int32)
        for tk in tfl.tile(n):
            acc += a[tm, tk].int() @ s[tk, :].int()
        acc = acc + e[tm, :] + (message[tm, :].int() << (bits - 1))
        out[tm, :] = acc & ((1 << bits) - 1)
    return out


M31 = (1 << 31) - 1


def make_sponge(n: Any, width: Any, full: Any, partial: Any) -> Any:
    rounds = torch.randint(0, M31, (full + partial, width))
    return torch.randint(0, M31, (n, width)).int(), torch.randint(0, 1 << 8, (width, width)), rounds, full


def sponge_ref(state: Any, mix: Any, rounds: Any, full: int) -> Any:
    x = state.long()
    for r in range(rounds.size(0)):
        x = (x + rounds[r]) % M31
        cubed = x * x % M31 * x % M31
        fifth = cubed * x % M31 * x % M31
        every = r < full // 2 or r >= rounds.size(0) - full // 2
        x = fifth if every else torch.cat([fifth[:, :1], x[:, 1:]], 1)
        x = (x[:, :, None] * mix).sum(1) % M31
    return x[:, : x.size(1) // 2].int()


@stranger(
    make_sponge,
    sponge_ref,
    {"n": 11, "width": 8, "full": 4, "partial": 3},
    {"n": 1 << 17, "width": 16, "full": 8, "partial": 14},
)
@tileflow.kernel
def sponge_permutation(state, mix, rounds, full: int):
    """Poseidon (Grassi et al., 2021) modulo 2^31 - 1: fifth powers of all or of the first, then a matrix."""
    n, width = state.shape
    total = rounds.size(0)
    out = torch.empty(n, width // 2, dtype=torch.int32, device=state.device)
    for t in tfl.tile(n):
        x = state[t, :].long()
        for r in range(total):
            x = (x + rounds[r, :]) % M31
            fifth = x * x % M31
            fifth = fifth * fifth % M31 * x % M31
            if r < full // 2 or r >= total - full // 2:
                x = fifth
            else:
                x = torch.where(tfl.arange(width) == 0, fifth, x)
            x = (x[:, :, None] * mix[:, :]).sum(1) % M31
        out[t, :] = x[:, : width // 2].int()
    return out


BASES = (2, 3, 5, 7)


def primes_ref(n: Any) -> Any:
    found = []
    for v in n.tolist():
        d, twos = v - 1, 0
        while d % 2 == 0:
            d, twos = d // 2, twos + 1
        ok = True
        for base in BASES:
            x = pow(base, d, v)
            ok = ok and (v == base or x == 1 or any(pow(x, 1 << r, v) == v - 1 for r in range(twos)))
        found.append(ok)
    prime = torch.tensor(found)
    return prime, prime.sum().int()


@stranger(lambda n: (torch.randint(1 << 10, 1 << 30, (n,)) * 2 + 1,), primes_ref, {"n": 83}, {"n": 1 << 17}, loops=True)
@tileflow.kernel
def prime_test(n):
    """Miller, 1976, and Rabin, 1980: odd numbers below 2^31 against four bases, which settles nearly all of them."""
    out = torch.empty(n.size(0), dtype=torch.bool, device=n.device)
    count = torch.zeros((), dtype=torch.int32, device=n.device)
    for t in tfl.tile(n.size(0)):
        v = n[t]
        odd, twos = v - 1, torch.zeros_like(v)
        for _ in range(31):
            even = odd % 2 == 0
            odd = torch.where(even, odd // 2, odd)
            twos += even.long()
        ok = torch.full_like(v, True, dtype=torch.bool)
        for base in BASES:
            x, square = torch.ones_like(v), base % v
            for i in range(31):
                x = torch.where((odd >> i) & 1 == 1, x * square % v, x)
                square = square * square % v
            passed = (x == 1) | (x == v - 1) | (v == base)
            for r in range(1, 31):
                x = x * x % v
                passed |= (x == v - 1) & (r < twos)
            ok &= passed
        out[t] = ok
        tfl.atomic_add(count, [], ok.sum())
    return out, count
