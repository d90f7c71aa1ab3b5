"""Columns of data and their rows: fields of text, numbers of varying length, filters, the largest by digits, groups."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_csv(n: int) -> Any:
    text = torch.tensor(list(b'a,"b, ""c""",\n12;'), dtype=torch.uint8)
    return text[torch.randint(0, text.numel(), (n,))], ord(","), ord('"'), ord("\n")


def csv_ref(text: Any, comma: int, quote: int, line: int) -> Any:
    inside = (text == quote).long().cumsum(0) % 2 == 1
    ends = ~inside & ((text == comma) | (text == line))
    places = ends.nonzero()[:, 0]
    start = torch.full((text.numel(),), -1, dtype=torch.int64)
    start[: places.numel()] = places
    row = torch.full((text.numel(),), -1, dtype=torch.int32)
    rows = (text[places] == line).cumsum(0) - (text[places] == line).long()
    row[: places.numel()] = rows.int()
    return start, row, torch.tensor(places.numel())


@stranger(make_csv, csv_ref, {"n": 531}, {"n": 1 << 24})
@tileflow.kernel
def csv_fields(text, comma: int, quote: int, line: int):
    """Langdale and Lemire's way for CSV: quotes by parity, then where each field ends and in which row."""
    n = text.numel()
    block = tfl.register_block_size(64, 4096)
    blocks = (n + block - 1) // block
    quotes = torch.zeros(blocks, dtype=torch.int32, device=text.device)
    fields, rows = torch.zeros_like(quotes), torch.zeros_like(quotes)
    ends = torch.full((n,), -1, dtype=torch.int64, device=text.device)
    row = torch.full((n,), -1, dtype=torch.int32, device=text.device)
    for t in tfl.tile(n, block_size=block):
        quotes[t.id] = (text[t] == quote).sum()
    parity = (torch.cumsum(quotes, 0) - quotes) % 2
    for t in tfl.tile(n, block_size=block):
        c = text[t]
        outside = ((c == quote).to(torch.int32).cumsum(0) + parity[t.id]) % 2 == 0
        fields[t.id] = (outside & ((c == comma) | (c == line))).sum()
        rows[t.id] = (outside & (c == line)).sum()
    first_field = torch.cumsum(fields, 0) - fields
    first_row = torch.cumsum(rows, 0) - rows
    for t in tfl.tile(n, block_size=block):
        c = text[t]
        outside = ((c == quote).to(torch.int32).cumsum(0) + parity[t.id]) % 2 == 0
        newline = outside & (c == line)
        end = newline | (outside & (c == comma))
        place = first_field[t.id] + end.cumsum(0) - 1
        tfl.store(ends, [place], t.index, extra_mask=end)
        tfl.store(row, [place], first_row[t.id] + newline.cumsum(0) - newline.int(), extra_mask=end)
    return ends, row, fields.sum()


def make_varints(rows: int, longest: int) -> Any:
    bits = torch.randint(0, 64, (rows, longest))
    values = torch.randint(-(2**62), 2**62, (rows, longest)) >> bits
    lengths = torch.randint(0, longest + 1, (rows,))
    lengths[0] = 0
    data, starts = [], [0]
    for i in range(rows):
        for value in values[i, : lengths[i]].tolist():
            z = (value << 1) ^ (value >> 63)
            while z >= 128:
                data.append(z & 127 | 128)
                z >>= 7
            data.append(z)
        starts.append(len(data))
    return torch.tensor(data or [0], dtype=torch.uint8), torch.tensor(starts), longest


def varint_ref(data: Any, starts: Any, longest: int) -> Any:
    rows = starts.numel() - 1
    out, count = torch.zeros(rows, longest, dtype=torch.int64), torch.zeros(rows, dtype=torch.int64)
    flat, s = data.tolist(), starts.tolist()
    for i in range(rows):
        value, shift, n = 0, 0, 0
        for byte in flat[s[i] : s[i + 1]]:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                out[i, n] = (value >> 1) ^ -(value & 1)
                value, shift, n = 0, 0, n + 1
        count[i] = n
    return out, count


@stranger(make_varints, varint_ref, {"rows": 7, "longest": 13}, {"rows": 4096, "longest": 24}, loops=True)
@tileflow.kernel
def zigzag_varints(data, starts, longest: int):
    """Protocol buffers' packed sint64: seven bits a byte until one is below 128, the sign in the lowest bit."""
    rows = starts.size(0) - 1
    out = torch.zeros(rows, longest, dtype=torch.int64, device=data.device)
    count = torch.zeros(rows, dtype=torch.int64, device=data.device)
    for i in tfl.grid(rows):
        at = starts[i]
        n = 0
        while at < starts[i + 1]:
            value = torch.zeros((), dtype=torch.int64)
            shift = 0
            byte = data[at].long()
            while byte >= 128:
                value |= (byte & 127) << shift
                shift += 7
                at += 1
                byte = data[at].long()
            value |= byte << shift
            at += 1
            out[i, n] = (value >> 1) ^ -(value & 1)
            n += 1
        count[i] = n
    return out, count


def make_cuckoo(buckets: int, n: int) -> Any:
    table = torch.randint(0, 2**16, (buckets, 4))
    keys = torch.randint(-(2**63), 2**63 - 1, (n,))
    first, finger = cuckoo_hash(keys, buckets)
    table[first[::3], torch.arange(first[::3].numel()) % 4] = finger[::3]
    return table.to(torch.uint16), keys


def cuckoo_hash(keys: Any, buckets: int) -> Any:
    x = keys * -7046029254386353131
    x = x ^ ((x >> 32) & 0xFFFFFFFF)
    finger = ((x >> 48) & 0xFFFF) | 1
    return x & (buckets - 1), finger


def cuckoo_ref(table: Any, keys: Any) -> Any:
    buckets = table.size(0)
    first, finger = cuckoo_hash(keys, buckets)
    second = (first ^ (finger * 0x5BD1E995)) & (buckets - 1)
    t = table.long()
    found = (t[first] == finger[:, None]).any(1) | (t[second] == finger[:, None]).any(1)
    return found, found.sum()


@stranger(make_cuckoo, cuckoo_ref, {"buckets": 64, "n": 173}, {"buckets": 1 << 20, "n": 1 << 23})
@tileflow.kernel
def cuckoo_probe(table, keys):
    """Fan and others, 2014: whether keys may be in a filter of sixteen-bit fingerprints, in either of two buckets."""
    buckets, ways = table.shape
    assert buckets & (buckets - 1) == 0
    found = torch.empty(keys.shape, dtype=torch.bool, device=keys.device)
    hits = torch.zeros((), dtype=torch.int64, device=keys.device)
    for t in tfl.tile(keys.numel()):
        x = keys[t] * -7046029254386353131
        x ^= (x >> 32) & 0xFFFFFFFF
        finger = ((x >> 48) & 0xFFFF) | 1
        b1 = x & (buckets - 1)
        b2 = (b1 ^ (finger * 0x5BD1E995)) & (buckets - 1)
        hit = torch.zeros_like(x, dtype=torch.bool)
        for way in range(ways):
            hit |= (table[b1, way].long() == finger) | (table[b2, way].long() == finger)
        found[t] = hit
        tfl.atomic_add(hits, [], hit.sum())
    return found, hits


def make_radix(b: int, n: int, k: int, dtype: torch.dtype = torch.float32) -> Any:
    x = randn(b, n, dtype=dtype)
    x[0, ::5] = x[0, 0]
    x[b - 1] = -0.0
    x[b // 2, 3] = float("-inf")
    x[b // 2, 5] = float("inf")
    return torch.randint(k, n + 1, (b,)), x, k


def radix_ref(lengths: Any, x: Any, k: int) -> Any:
    b, n = x.shape
    real = torch.arange(n)[None, :] < lengths[:, None]
    bits = x.float().view(torch.int32).long() & 0xFFFFFFFF
    key = torch.where(bits >= 1 << 31, ~bits & 0xFFFFFFFF, bits | (1 << 31))
    key = torch.where(real, key, -1)
    least = key.sort(1, descending=True).values[:, k - 1]
    above = (key > least[:, None]) & real
    rest = (key == least[:, None]) & real
    chosen = above | (rest & (rest.cumsum(1) <= k - above.sum(1, keepdim=True)))
    index = chosen.nonzero()[:, 1].view(b, k)
    return index.int(), x.gather(1, index), least


@stranger(make_radix, radix_ref, {"b": 5, "n": 77, "k": 9}, {"b": 64, "n": 65536, "k": 2048, "dtype": torch.bfloat16})
@tileflow.kernel
def radix_select(lengths, x, k: int):
    """The k largest of each ragged row by four rounds over eight bits of an ordered key, ties by place; unsorted."""
    b = x.size(0)
    index = torch.full((b, k), -1, dtype=torch.int32, device=x.device)
    values = torch.empty(b, k, dtype=x.dtype, device=x.device)
    least = torch.empty(b, dtype=torch.int64, device=x.device)

    def key_of(value):
        bits = value.float().view(torch.int32).to(torch.int64) & 0xFFFFFFFF
        return torch.where(bits >= 2**31, bits ^ 0xFFFFFFFF, bits | 2**31)

    for i in tfl.grid(b):
        length = lengths[i]
        prefix = torch.tensor(0, dtype=torch.int64)
        remaining = k
        for shift in (24, 16, 8, 0):
            hist = tfl.zeros([256], dtype=torch.int32)
            for t in tfl.tile(length):
                key = key_of(x[i, t])
                same = (key >> (shift + 8)) == prefix
                digit = (key >> shift) & 255
                hist += ((digit[:, None] == torch.arange(256)) & same[:, None]).sum(0)
            above = hist.flip(0).cumsum(0).flip(0)  # how many have this digit or a larger one
            digit = (above >= remaining).sum() - 1
            remaining = remaining - (above - hist)[digit]
            prefix = prefix << 8 | digit
        least[i] = prefix
        taken, ties = 0, 0
        for t in tfl.tile(length):
            key = key_of(x[i, t])
            tie = key == prefix
            rank = ties + tie.int().cumsum(0)
            keep = (key > prefix) | (tie & (rank <= remaining))
            place = taken + keep.int().cumsum(0) - 1
            tfl.store(index, [i, place], t.index, extra_mask=keep)
            tfl.store(values, [i, place], x[i, t], extra_mask=keep)
            taken += keep.sum()
            ties += tie.sum()
    return index, values, least


def make_arg(rows: int, most: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    degree = torch.randint(0, most + 1, (rows,))
    degree[1] = 0
    starts = torch.nn.functional.pad(degree.cumsum(0), (1, 0))
    edges = int(starts[-1])
    nodes = torch.randint(0, rows, (edges,))
    x = randn(d, rows, dtype=dtype).T
    x[2] = float("nan")
    return x, starts, nodes, torch.rand(edges) < 0.8


def arg_ref(x: Any, starts: Any, nodes: Any, alive: Any) -> Any:
    rows, d = x.shape
    out = torch.zeros(rows, d, dtype=x.dtype)
    arg = torch.full((rows, d), -1, dtype=torch.int64)
    for i in range(rows):
        a, b = int(starts[i]), int(starts[i + 1])
        edges = torch.arange(a, b)[alive[a:b]]
        if edges.numel():
            diff = x[nodes[edges]].double() - x[i].double()
            value, at = diff.max(0)
            out[i], arg[i] = value.to(x.dtype), edges[at]
    return out, arg


@stranger(
    make_arg,
    arg_ref,
    {"rows": 23, "most": 9, "d": 17},
    {"rows": 100_000, "most": 40, "d": 128, "dtype": torch.float16},
    loops=True,
)
@tileflow.kernel
def max_relative_edges(x, starts, nodes, alive):
    """Li and others, 2019 (deep graph networks): the largest difference to a living neighbour, and by which edge."""
    rows, d = x.shape
    out = torch.zeros(rows, d, dtype=x.dtype, device=x.device)
    arg = torch.full((rows, d), -1, dtype=torch.int64, device=x.device)
    for i, td in tfl.tile([rows, d], block_size=[1, None]):
        row = i.begin
        here = x[row, td].float()
        best = torch.full_like(here, float("-inf"))
        which = torch.full_like(here, -1, dtype=torch.int64)
        for e in range(starts[row], starts[row + 1]):
            if alive[e]:
                diff = x[nodes[e], td].float() - here
                better = (diff > best) | (diff.isnan() & ~best.isnan()) | (which < 0)
                best = torch.where(better, diff, best)
                which = torch.where(better, e, which)
        out[row, td] = torch.where(which >= 0, best, 0)
        arg[row, td] = which
    return out, arg


def make_rollup(n: int, groups: int) -> Any:
    group = torch.randint(0, groups, (n,)).sort().values.to(torch.int16)
    cents = torch.randint(-(2**40), 2**40, (n,))
    cents[0] = 2**63 - 1
    null = torch.rand(n) < 0.2
    return group, cents, null, groups


def rollup_ref(group: Any, cents: Any, null: Any, groups: int) -> Any:
    out = torch.zeros(4, groups, dtype=torch.int64)
    out[2], out[3] = 2**63 - 1, -(2**63)
    g = group.long()[~null]
    c = cents[~null]
    out[0].index_add_(0, g, torch.ones_like(c))
    out[1].index_add_(0, g, c)
    out[2].scatter_reduce_(0, g, c, "amin")
    out[3].scatter_reduce_(0, g, c, "amax")
    return out, null.any()


@stranger(make_rollup, rollup_ref, {"n": 301, "groups": 11}, {"n": 1 << 24, "groups": 1000})
@tileflow.kernel
def nullable_rollup(group, cents, null, groups: int):
    """Count, sum, least and most of whole cents by group, nulls left out; sums wrap as int64 does."""
    out = torch.zeros(4, groups, dtype=torch.int64, device=cents.device)
    info = torch.iinfo(torch.int64)
    out[2].fill_(info.max)
    out[3].fill_(info.min)
    count, total, least, most = out
    any_null = torch.zeros(1, dtype=torch.int32, device=cents.device)
    for t in tfl.tile(len(group)):
        g, c, ok = group[t], cents[t], ~null[t]
        tfl.atomic_add(count, [g], ok.long(), extra_mask=ok)
        tfl.atomic_add(total, [g], c, extra_mask=ok)
        tfl.atomic_min(least, [g], c, extra_mask=ok)
        tfl.atomic_max(most, [g], c, extra_mask=ok)
        if (~ok).any():
            any_null[0] = 1
    return out, any_null[0] > 0
