"""Numbers of many limbs, and numbers out of interleaved bits: powers, letters, tags, places along a curve."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger

BITS, LIMBS = 28, 10
MASK = (1 << BITS) - 1


@dataclass
class Modulus:
    """An odd number by its limbs, the square of the radix by it, and what makes the lowest limb vanish."""

    limbs: torch.Tensor
    radix_squared: torch.Tensor
    negative_inverse: int


def to_limbs(value: int) -> list[int]:
    return [(value >> (BITS * i)) & MASK for i in range(LIMBS)]


def of_limbs(limbs: list[int]) -> int:
    return sum(limb << (BITS * i) for i, limb in enumerate(limbs))


def make_powers(n: int) -> Any:
    modulus = random.Random(5).getrandbits(BITS * LIMBS - 1) | 1 | 1 << (BITS * LIMBS - 2)
    radix = 1 << (BITS * LIMBS)
    inverse = -pow(modulus, -1, 1 << BITS) & MASK
    base = torch.randint(0, 1 << BITS, (n, LIMBS))
    base[:, -1] = base[:, -1] >> 3
    key = Modulus(torch.tensor(to_limbs(modulus)), torch.tensor(to_limbs(radix * radix % modulus)), inverse)
    return base, key


def powers_ref(base: Any, key: Modulus) -> Any:
    modulus = of_limbs(key.limbs.tolist())
    return torch.tensor([to_limbs(pow(of_limbs(row), 65537, modulus)) for row in base.tolist()])


def multiplied(a: Any, b: Any, key: Modulus) -> Any:
    """Limbs of a * b / radix."""
    total = [torch.zeros_like(a[0]) for _ in range(LIMBS)]
    n = [key.limbs[i] for i in range(LIMBS)]
    for limb in a:
        total = [acc + limb * other for acc, other in zip(total, b, strict=True)]
        m = ((total[0] & MASK) * key.negative_inverse) & MASK
        total = [acc + m * other for acc, other in zip(total, n, strict=True)]
        carry = total[0] >> BITS
        total = [*total[1:], torch.zeros_like(carry)]
        total[0] = total[0] + carry
    carry = torch.zeros_like(total[0])
    for i in range(LIMBS):
        total[i] = total[i] + carry
        carry = total[i] >> BITS
        total[i] &= MASK
    less, borrow = [], torch.zeros_like(carry)
    for i in range(LIMBS):
        d = total[i] - n[i] + borrow
        borrow = d >> BITS  # 0 or -1
        less.append(d & MASK)
    return [torch.where(carry + borrow < 0, x, y) for x, y in zip(total, less, strict=True)]


@stranger(make_powers, powers_ref, {"n": 13}, {"n": 1 << 20}, loops=True)
@tileflow.kernel
def montgomery_powers(base, key: Modulus):
    """Montgomery, 1985: the power 65537 of each number by an odd modulus, without a division."""
    out = torch.empty_like(base)
    for t in tfl.tile(base.size(0)):
        x = [base[t, i] for i in range(LIMBS)]
        r2 = [key.radix_squared[i] + torch.zeros_like(x[0]) for i in range(LIMBS)]
        x = multiplied(x, r2, key)
        y = x
        for _ in range(16):
            y = multiplied(y, y, key)
        y = multiplied(y, x, key)
        one = [torch.ones_like(x[0])] + [torch.zeros_like(x[0])] * (LIMBS - 1)
        for i, limb in enumerate(multiplied(y, one, key)):
            out[t, i] = limb
    return out


ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def make_keys(n: int) -> Any:
    keys = torch.randint(0, 256, (n, 32), dtype=torch.uint8)
    keys[::5, 0] = 0
    keys[::10, :3] = 0
    return (keys,)


def base58_ref(keys: Any) -> Any:
    text = torch.zeros(keys.size(0), 44, dtype=torch.uint8)
    lengths = []
    for n, row in enumerate(keys.tolist()):
        value, letters = int.from_bytes(bytes(row), "big"), ""
        while value:
            value, digit = divmod(value, 58)
            letters = ALPHABET[digit] + letters
        letters = "1" * (len(row) - len(bytes(row).lstrip(b"\0"))) + letters
        text[n, : len(letters)] = torch.tensor(list(letters.encode()), dtype=torch.uint8)
        lengths.append(len(letters))
    return text, torch.tensor(lengths, dtype=torch.int8)


@stranger(make_keys, base58_ref, {"n": 21}, {"n": 1 << 20}, loops=True)
@tileflow.kernel
def base58_text(keys):
    """Keys of 32 bytes as the letters of base 58, by long division; a letter 1 for each zero byte in front."""
    n = keys.size(0)
    letters = torch.tensor([ord(c) for c in ALPHABET], dtype=torch.uint8, device=keys.device)
    text = torch.zeros(n, 44, dtype=torch.uint8, device=keys.device)
    length = torch.empty(n, dtype=torch.int8, device=keys.device)
    digits = torch.empty(44, n, dtype=torch.int8, device=keys.device)
    for t in tfl.tile(n):
        words = []
        for i in range(8):
            word = torch.zeros(t, dtype=torch.int64)
            for j in range(4):
                word = word << 8 | keys[t, 4 * i + j].long()
            words.append(word)
        used = torch.zeros(t, dtype=torch.int32)
        for place in range(44):
            rest = torch.zeros(t, dtype=torch.int64)
            for i in range(8):
                words[i], rest = (
                    torch.div((rest << 32) + words[i], 58, rounding_mode="floor"),
                    ((rest << 32) + words[i]) % 58,
                )
            digits[place, t] = rest.to(torch.int8)
            used = torch.where(rest > 0, place + 1, used)
        nothing = (torch.cumsum(keys[t, :] != 0, 1) == 0).sum(-1).int()
        length[t] = used + nothing
        for place in range(44):
            at = used - 1 - (place - nothing)
            digit = torch.where(place < nothing, 0, digits[at.clamp(0, 43), t.index])
            text[t, place] = torch.where(place < used + nothing, letters[digit], 0)
    return text, length


def make_messages(n: int, length: int) -> Any:
    message = torch.randint(0, 256, (length, n), dtype=torch.uint8).T
    return message, torch.randint(0, 256, (n, 32), dtype=torch.uint8)


def poly1305_ref(message: Any, keys: Any) -> Any:
    found = []
    for text, key in zip(message.tolist(), keys.tolist(), strict=True):
        r = int.from_bytes(bytes(key[:16]), "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
        total = 0
        for i in range(0, len(text), 16):
            total = (total + int.from_bytes(bytes([*text[i : i + 16], 1]), "little")) * r % ((1 << 130) - 5)
        tag = (total + int.from_bytes(bytes(key[16:]), "little")) % (1 << 128)
        found.append(list(tag.to_bytes(16, "little")))
    return torch.tensor(found, dtype=torch.uint8)


def gathered(rows: Any, t: Any, first: Any, length: int) -> Any:
    """A block's 16 bytes and the 1 behind them, as five limbs of 26 bits."""
    limbs = [torch.zeros(t, dtype=torch.long) for _ in range(5)]
    for j in tfl.static_range(17):
        at = first + j
        byte = torch.zeros(t, dtype=torch.long)
        if at == length or (j == 16 and at < length):
            byte = byte + 1
        if j < 16 and at < length:
            byte = rows[t, at].long()
        which, shift = divmod(8 * j, 26)
        limbs[which] = limbs[which] + ((byte << shift) & 0x3FFFFFF)
        if shift > 18 and which < 4:
            limbs[which + 1] = limbs[which + 1] + (byte >> (26 - shift))
    return limbs


def words_of(keys: Any, t: Any) -> Any:
    """The eight words of each key."""
    bits = []
    for start in range(0, 32, 4):
        word = torch.zeros(t, dtype=torch.int64)
        for j in range(4):
            word = word | keys[t, start + j].long() << (8 * j)
        bits.append(word)
    return bits


def reduced(h: Any) -> Any:
    """The same number below 2**130 - 5: whole carries, then what is past the prime."""
    for _ in range(2):
        for i in range(5):
            if i < 4:
                h[i + 1] = h[i + 1] + (h[i] >> 26)
            else:
                h[0] = h[0] + 5 * (h[4] >> 26)
            h[i] = h[i] & 0x3FFFFFF
    over, carry = [], torch.full_like(h[0], 5)
    for i in range(5):
        d = h[i] + carry
        carry = d >> 26
        over.append(d & 0x3FFFFFF)
    return [torch.where(carry > 0, b, a) for a, b in zip(h, over, strict=True)]


@stranger(make_messages, poly1305_ref, {"n": 11, "length": 41}, {"n": 1 << 17, "length": 1500}, loops=True)
@tileflow.kernel
def poly1305_tags(message, keys):
    """Bernstein, 2005: the tag of each message under a key of its own, by a polynomial of its blocks."""
    n, length = message.shape
    tags = torch.empty(n, 16, dtype=torch.uint8, device=message.device)
    clamp = (0x3FFFFFF, 0x3FFFF03, 0x3FFC0FF, 0x3F03FFF, 0x00FFFFF)
    for t in tfl.tile(n):
        bits = words_of(keys, t)
        r = []
        for i in range(5):
            low, shift = divmod(26 * i, 32)
            limb = bits[low] >> shift
            if low < 3:
                limb = limb | bits[low + 1] << (32 - shift)
            r.append(limb & clamp[i])
        h = [torch.zeros_like(bits[0]) for _ in range(5)]
        for block in range((length + 15) // 16):
            for i, limb in enumerate(gathered(message, t, 16 * block, length)):
                h[i] = h[i] + limb
            product = []
            for i in range(5):
                acc = torch.zeros_like(h[0])
                for j in range(5):
                    acc += h[j] * r[i - j] if j <= i else 5 * h[j] * r[5 + i - j]
                product.append(acc)
            carry = torch.zeros_like(h[0])
            for i in range(5):
                product[i] = product[i] + carry
                carry, h[i] = product[i] >> 26, product[i] & 0x3FFFFFF
            h[0] = h[0] + 5 * carry
            h[1], h[0] = h[1] + (h[0] >> 26), h[0] & 0x3FFFFFF
        h = reduced(h)
        carry = torch.zeros_like(h[0])
        for i in range(4):
            first, shift = divmod(32 * i, 26)
            word = h[first] >> shift | h[first + 1] << (26 - shift)
            if 52 - shift < 32:
                word = word | h[first + 2] << (52 - shift)
            word = (word & 0xFFFFFFFF) + bits[4 + i] + carry
            carry = word >> 32
            for j in range(4):
                tags[t, 4 * i + j] = ((word >> (8 * j)) & 0xFF).to(torch.uint8)
    return tags


def hilbert_ref(points: Any, bits: int) -> Any:
    x = [points[:, i].long() for i in range(points.size(1))]
    for q in (1 << b for b in range(bits - 1, 0, -1)):
        for i in range(len(x)):
            flipped = x[0] ^ (q - 1)
            swap = (x[0] ^ x[i]) & (q - 1)
            inverted = (x[i] & q) != 0
            x[0], x[i] = torch.where(inverted, flipped, x[0] ^ swap), torch.where(inverted, x[i], x[i] ^ swap)
            if i == 0:
                x[0] = torch.where(inverted, flipped, x[0])
    for i in range(1, len(x)):
        x[i] = x[i] ^ x[i - 1]
    t = torch.zeros_like(x[0])
    for q in (1 << b for b in range(bits - 1, 0, -1)):
        t = torch.where((x[-1] & q) != 0, t ^ (q - 1), t)
    code = torch.zeros_like(t)
    for b in range(bits - 1, -1, -1):
        for one in x:
            code = code * 2 + (((one ^ t) >> b) & 1)
    return code, code.div(1 << (len(x) * (bits - 1)), rounding_mode="floor").bincount(minlength=1 << len(x)).int()


@stranger(
    lambda n, bits: (torch.randint(0, 1 << bits, (3, n), dtype=torch.int16).T, bits),
    hilbert_ref,
    {"n": 77, "bits": 5},
    {"n": 1 << 23, "bits": 15},
)
@tileflow.kernel
def hilbert_places(points, bits: int):
    """Skilling, 2004: where each point lies along Hilbert's curve, and how many lie in each of its first parts."""
    n, dims = points.shape
    code = torch.empty(n, dtype=torch.int64, device=points.device)
    parts = torch.zeros(2**dims, dtype=torch.int32, device=points.device)
    for t in tfl.tile(n):
        x = [points[t, d].int() for d in range(dims)]
        q = 1 << (bits - 1)
        while q > 1:
            p = q - 1
            for d in range(dims):
                is_set = (x[d] & q) != 0
                swap = torch.where(is_set, 0, (x[0] ^ x[d]) & p)
                x[0] = torch.where(is_set, x[0] ^ p, x[0] ^ swap)
                if d > 0:
                    x[d] ^= swap
            q >>= 1
        for d in range(1, dims):
            x[d] ^= x[d - 1]
        turned = torch.zeros_like(x[0])
        for b in range(bits - 1, 0, -1):
            turned = torch.where(((x[-1] >> b) & 1) > 0, turned ^ ((1 << b) - 1), turned)
        place = torch.zeros(t, dtype=torch.int64)
        for b in reversed(range(bits)):
            for one in x:
                place = (place << 1) | ((one ^ turned) >> b & 1)
        code[t] = place
        tfl.atomic_add(parts, [place >> (dims * (bits - 1))], 1)
    return code, parts
