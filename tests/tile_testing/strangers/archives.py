"""What archives and indexes hold: sequences of copies, coded bits, sorted numbers in few bits, sets by containers."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def compressed(rng: random.Random, size: int) -> bytes:
    """A block in LZ4's format that unpacks to `size` bytes."""
    found, at = bytearray(), 0

    def lengths(n: int) -> list[int]:
        return [] if n < 15 else [255] * ((n - 15) // 255) + [(n - 15) % 255]

    while size - at > 12:
        literals = min(rng.choice((0, 1, 3, 8, 15, 20, 300)) + (at == 0), size - at - 5)
        match = min(rng.choice((4, 5, 9, 18, 19, 40, 290)), size - at - literals - 5)
        if match < 4 or at + literals == 0:
            break
        found.append(min(literals, 15) << 4 | min(match - 4, 15))
        found += bytes(lengths(literals)) + rng.randbytes(literals)
        at += literals
        found += (
            rng.choice((1, 2, rng.randint(1, at), rng.randint(1, at))).__index__().to_bytes(2, "little")
            if (at > 1)
            else b"\1\0"
        )
        found += bytes(lengths(match - 4))
        at += match
    found.append(min(size - at, 15) << 4)
    return bytes(found + bytes(lengths(size - at)) + rng.randbytes(size - at))


def make_blocks(n: int, size: int) -> Any:
    rng = random.Random(3)
    blocks = [compressed(rng, size) for _ in range(min(n, 16))]
    blocks = [blocks[i % len(blocks)] for i in range(n)]
    ends = torch.tensor([0] + [len(block) for block in blocks]).cumsum(0)
    return torch.frombuffer(bytearray(b"".join(blocks)), dtype=torch.uint8).to(ends.device), ends, size


def lz4_ref(packed: Any, ends: Any, size: int) -> Any:
    source, bounds = bytes(packed.tolist()), ends.tolist()
    out, sequences = torch.zeros(len(bounds) - 1, size, dtype=torch.uint8), []
    for row, (i, end) in enumerate(pairwise(bounds)):
        text, count = bytearray(), 0
        while i < end:
            token, i, count = source[i], i + 1, count + 1
            for is_match in (False, True):
                if is_match:
                    if i >= end:
                        break
                    offset, i = int.from_bytes(source[i : i + 2], "little"), i + 2
                n = token & 15 if is_match else token >> 4
                if n == 15:
                    while True:
                        n, i = n + source[i], i + 1
                        if source[i - 1] < 255:
                            break
                if is_match:
                    for _ in range(n + 4):
                        text.append(text[-offset])
                else:
                    text, i = text + source[i : i + n], i + n
        out[row] = torch.tensor(list(text), dtype=torch.uint8)
        sequences.append(count)
    return out, torch.tensor(sequences)


def read_length(source: torch.Tensor, at, nibble):
    """A length of 15 goes on in the bytes behind, up to the first that is no 255."""
    length = nibble
    if nibble == 15:
        byte = source[at].to(torch.int64)
        at += 1
        length += byte
        while byte == 255:
            byte = source[at].to(torch.int64)
            at += 1
            length += byte
    return at, length


@stranger(make_blocks, lz4_ref, {"n": 5, "size": 777}, {"n": 8192, "size": 1 << 15}, loops=True)
@tileflow.kernel
def lz4_unpack(packed, ends, size: int):
    """Collet's LZ4: blocks unpacked, a sequence of literals and a copy after the other; a copy may overlap itself."""
    n = ends.numel() - 1
    out = torch.zeros(n, size, dtype=torch.uint8, device=packed.device)
    sequences = torch.empty(n, dtype=torch.long, device=packed.device)
    for b in tfl.grid(n):
        i, end = ends[b], ends[b + 1]
        at = torch.zeros((), dtype=torch.int64)
        count = torch.zeros((), dtype=torch.int64)
        while i < end:
            token = packed[i].long()
            count += 1
            i, literals = read_length(packed, i + 1, token >> 4)
            for t in tfl.tile(literals):
                out[b, at + t.index] = packed[i + t.index]
            i += literals
            at += literals
            if i < end:
                offset = packed[i].long() | packed[i + 1].long() << 8
                i, match = read_length(packed, i + 2, token & 15)
                match = match + 4
                for t in tfl.tile(match):
                    out[b, at + t.index] = out[b, at - offset + t.index % offset]
                at += match
        sequences[b] = count
    return out, sequences


def range_ref(streams: Any, symbols: int, shift: int = 5) -> Any:
    n = streams.size(1)
    chance = torch.full((n, 256), 1024, dtype=torch.long)
    rows = torch.arange(n)
    data = torch.cat([streams.long(), torch.zeros(8 * symbols + 8, n, dtype=torch.long)])
    code = torch.zeros(n, dtype=torch.long)
    for i in range(4):
        code = code << 8 | data[i]
    width, at, out = torch.full((n,), 0xFFFFFFFF), torch.full((n,), 4), torch.empty(n, symbols, dtype=torch.uint8)
    for s in range(symbols):
        node = torch.ones(n, dtype=torch.long)
        for _ in range(8):
            p = chance[rows, node]
            bound = (width >> 11) * p
            zero = code < bound
            chance[rows, node] = torch.where(zero, p + ((2048 - p) >> shift), p - (p >> shift))
            width, code = torch.where(zero, bound, width - bound), torch.where(zero, code, code - bound)
            node = 2 * node + ~zero
            more = width < 1 << 24
            code, width = torch.where(more, code << 8 | data[at, rows], code), torch.where(more, width << 8, width)
            at = at + more
        out[:, s] = node - 256
    return out, chance.short(), at.int()


@stranger(
    lambda n, length, symbols: (torch.randint(0, 256, (length, n), dtype=torch.uint8), symbols),
    range_ref,
    {"n": 19, "length": 23, "symbols": 9},
    {"n": 1 << 16, "length": 256, "symbols": 200},
)
@tileflow.kernel
def range_decode(streams, symbols: int, shift: int = 5):
    """Martin, 1979, as in LZMA: bytes out of each stream, a bit at a time by chances that learn from what came."""
    length, n = streams.shape
    chance = torch.full((n, 256), 1 << 10, dtype=torch.int16, device=streams.device)
    out = torch.empty(n, symbols, dtype=torch.uint8, device=streams.device)
    used = torch.empty(n, dtype=torch.int32, device=streams.device)
    for t in tfl.tile(n):
        code = torch.zeros(t, dtype=torch.int64)
        for i in range(4):
            code = (code << 8) + streams[i, t]
        width = torch.full([t], 0xFFFFFFFF, dtype=torch.int64)
        at = torch.full([t], 4, dtype=torch.int32)
        for s in range(symbols):
            node = torch.ones_like(at)
            for _ in range(8):
                p = chance[t.index, node]
                bound = (width >> 11) * p
                zero = code < bound
                chance[t.index, node] = torch.where(zero, p + ((2048 - p) >> shift), p - (p >> shift))
                width = torch.where(zero, bound, width - bound)
                code = torch.where(zero, code, code - bound)
                node = node * 2 + (~zero).int()
                more = width < (1 << 24)
                byte = tfl.load(streams, [at, t.index], extra_mask=more & (at < length))
                code = torch.where(more, (code << 8) | byte.long(), code)
                width = torch.where(more, width << 8, width)
                at += more
            out[t, s] = (node - 256).to(torch.uint8)
        used[t] = at
    return out, chance, used


def make_sorted(n: int, queries: int, low: int) -> Any:
    values = torch.randint(0, n << (low + 1), (n,)).sort().values
    places = (values >> low) + torch.arange(n)
    words = torch.zeros(3 * n // 64 + 2, dtype=torch.int64).index_add_(0, places >> 6, 1 << (places & 63))
    bits = torch.zeros(n * low // 64 + 2, dtype=torch.int64)
    start, part = torch.arange(n) * low, values & ((1 << low) - 1)
    bits.index_add_(0, start >> 6, part << (start & 63))
    over = torch.where((start & 63) + low > 64, part >> (64 - (start & 63)).clamp(max=63), 0)
    bits.index_add_(0, (start >> 6) + 1, over)
    ones = torch.zeros_like(words)
    for i in range(64):
        ones += (words >> i) & 1
    index = {"high": words, "low": bits, "ranks": ones.cumsum(0) - ones}
    return index, low, torch.randint(0, n, (queries,)), values


def elias_ref(index: Any, low: int, wanted: Any, values: Any) -> Any:
    return values[wanted]


def count_ones(x: torch.Tensor) -> torch.Tensor:
    """The set bits of 64, by sums of neighbours."""
    x = x - ((x >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (x * 0x0101010101010101 >> 56) & 0x7F


@stranger(
    make_sorted,
    elias_ref,
    {"n": 300, "queries": 41, "low": 9},
    {"n": 1 << 24, "queries": 1 << 22, "low": 13},
)
@tileflow.kernel
def elias_fano_access(index: dict[str, torch.Tensor], low: int, wanted, values):
    """Elias, 1974, and Fano, 1971: numbers of a sorted list by their places, in two bits and their low ones each."""
    high, ranks = index["high"], index["ranks"]
    out = torch.empty_like(wanted)
    for t in tfl.tile(wanted.size(0)):
        i = wanted[t]
        first, last = torch.zeros_like(i), torch.full_like(i, high.numel() - 1)
        while (first < last).any():
            middle = (first + last + 1) // 2
            before = ranks[middle] <= i
            first, last = torch.where(before, middle, first), torch.where(before, last, middle - 1)
        rest, word, place = i - ranks[first], high[first], torch.zeros_like(i)
        for width in (32, 16, 8, 4, 2, 1):
            ones = count_ones((word >> place) & ((1 << width) - 1))
            skip = rest >= ones
            rest, place = torch.where(skip, rest - ones, rest), torch.where(skip, place + width, place)
        upper = first * 64 + place - i
        start = i * low
        at, shift = start // 64, start % 64
        lower = (index["low"][at] >> shift) & ~(-1 << (64 - shift))
        more = index["low"][at + 1] << (64 - shift)
        lower = torch.where(shift + low > 64, lower | more, lower)
        out[t] = (upper << low) | (lower & ((1 << low) - 1))
    return out


def make_containers(n: int) -> Any:
    kinds = torch.randint(0, 2, (2, n), dtype=torch.bool)
    dense = torch.rand(2, n, 1024, 64) < torch.rand(2, n, 1, 1) * torch.where(kinds, 0.5, 0.02)[..., None, None]
    words = (dense.long() << torch.arange(64)).sum(-1)
    flat = dense.flatten(2)
    flat &= kinds[..., None] | (flat.cumsum(-1) <= 4096)
    words = torch.where(kinds[..., None], words, 0)
    order = torch.where(flat, torch.arange(65536), 65536).sort(-1).values[..., :4096]
    lists = torch.where(kinds[..., None], 0, order.clamp(max=65535)).to(torch.uint16)
    counts = torch.where(kinds, 0, flat.sum(-1)).int()
    return [(kinds[i], words[i], lists[i], counts[i]) for i in range(2)]


def bits_of(side: Any) -> Any:
    _, words, lists, counts = side
    found = ((words[..., None] >> torch.arange(64)) & 1).bool().flatten(1)
    rows, places = torch.nonzero(torch.arange(4096) < counts[:, None], as_tuple=True)
    found[rows, lists.int()[rows, places].long()] = True
    return found


def roaring_ref(a: Any, b: Any) -> Any:
    both = bits_of(a) & bits_of(b)
    return (both.unflatten(1, (1024, 64)).long() << torch.arange(64)).sum(-1), both.sum(1).int()


def probe(row, values, count, words):
    """Mark a list's values whose bits are set, and count them."""
    found = 0
    for t in tfl.tile(count):
        value = values[t].to(torch.int32)
        word, bit = value // 64, value % 64
        hit = (words[word] >> bit) & 1
        tfl.atomic_or(row, [word], hit << bit)
        found += hit.sum()
    return found


@stranger(make_containers, roaring_ref, {"n": 6}, {"n": 512})
@tileflow.kernel
def roaring_intersect(a, b):
    """Chambi and others, 2016: what sets share, whose containers are bitmaps or sorted lists, as bitmaps."""
    kinds_a, words_a, lists_a, counts_a = a
    kinds_b, words_b, lists_b, counts_b = b
    n = kinds_a.size(0)
    out = torch.zeros_like(words_a)
    sizes = torch.zeros(n, dtype=torch.int32, device=words_a.device)

    for i in tfl.grid(n):
        if kinds_a[i] and kinds_b[i]:
            total = 0
            for t in tfl.tile(1024):
                both = words_a[i, t] & words_b[i, t]
                out[i, t] = both
                ones = tfl.zeros([t], dtype=torch.int64)
                for bit in tfl.static_range(64):
                    ones += (both >> bit) & 1
                total = total + ones.sum()
            sizes[i] = total
        elif kinds_a[i]:
            sizes[i] = probe(out[i], lists_b[i], counts_b[i], words_a[i])
        elif kinds_b[i]:
            sizes[i] = probe(out[i], lists_a[i], counts_a[i], words_b[i])
        else:
            total = 0
            for t in tfl.tile(counts_a[i]):
                value = lists_a[i, t].int()
                low, high = torch.zeros_like(value), torch.zeros_like(value) + counts_b[i]
                for _ in range(13):
                    middle = (low + high) // 2
                    less = (lists_b[i, middle].int() < value) & (low < high)
                    low, high = torch.where(less, middle + 1, low), torch.where(less, high, middle)
                hit = (low < counts_b[i]) & (lists_b[i, low].int() == value)
                tfl.atomic_or(out, [i, value // 64], hit.long() << (value % 64))
                total += hit.sum()
            sizes[i] = total
    return out, sizes
