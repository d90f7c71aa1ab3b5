"""Packets: routes, buckets of tokens, rules, queues by hashes, checksums, latencies."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_routes(n: Any, bits: Any, long: Any, hops: Any) -> Any:
    first = torch.randint(0, hops, (1 << bits,))
    first = torch.where(torch.rand(1 << bits) < 0.1, -1 - torch.randint(0, long, (1 << bits,)), first)
    second = torch.randint(0, hops, (long, 256)).to(torch.uint8)
    address = torch.randint(-(1 << 31), 1 << 31, (n,)).int()
    return address, torch.randint(40, 1501, (n,)).to(torch.int16), first.to(torch.int16), second, hops


def routes_ref(address: Any, size: Any, first: Any, second: Any, hops: int) -> Any:
    wide = address.long() & 0xFFFFFFFF
    entry = first.long()[wide >> (33 - first.numel().bit_length())]
    hop = torch.where(entry < 0, second[(-1 - entry).clamp(min=0), wide & 255].long(), entry)
    packets = torch.bincount(hop, minlength=hops)
    carried = torch.zeros(hops, dtype=torch.int64).index_add(0, hop, size.long())
    return hop.to(torch.uint8), packets.int(), carried


@stranger(
    make_routes,
    routes_ref,
    {"n": 203, "bits": 6, "long": 5, "hops": 7},
    {"n": 20_000_000, "bits": 24, "long": 20_000, "hops": 200},
)
@tileflow.kernel
def route_packets(address, size, first, second, hops):
    """Gupta, Lin and McKeown, 1998: the longest prefix by one big table, then small ones; what each hop gets."""
    n = address.numel()
    low = 33 - first.numel().bit_length()
    out = torch.empty(n, dtype=torch.uint8, device=address.device)
    packets = torch.zeros(hops, dtype=torch.int32, device=address.device)
    carried = torch.zeros(hops, dtype=torch.int64, device=address.device)
    for t in tfl.tile(n):
        wide = address[t].long() & 0xFFFFFFFF
        entry = first[wide >> low].int()
        behind = entry < 0
        deep = tfl.load(second, [-1 - entry, wide & 255], extra_mask=behind)
        hop = torch.where(behind, deep.int(), entry)
        out[t] = hop.to(torch.uint8)
        tfl.atomic_add(packets, [hop], 1)
        tfl.atomic_add(carried, [hop], size[t].long())
    return out, packets, carried


def buckets_ref(gap: Any, size: Any, rate: Any, burst: float) -> Any:
    tokens = torch.full_like(rate, burst)
    good, dropped = [], torch.zeros(gap.size(1), dtype=torch.int32)
    for g, s in zip(gap.float(), size.int(), strict=True):
        tokens = torch.clamp(tokens + rate * g, max=burst)
        fits = tokens >= s
        tokens = torch.where(fits, tokens - s, tokens)
        dropped += torch.where(fits, 0, s).int()
        good.append(fits)
    return torch.stack(good), dropped, tokens


@stranger(
    lambda packets, flows: (
        torch.randint(0, 60, (packets, flows)).to(torch.uint8),
        torch.randint(40, 1501, (flows, packets)).to(torch.int16).T,
        torch.randint(5, 40, (flows,)).float(),
        4000.0,
    ),
    buckets_ref,
    {"packets": 9, "flows": 45},
    {"packets": 700, "flows": 120_000},
)
@tileflow.kernel
def shape_flows(gap, size, rate, burst):
    """A bucket of tokens for each flow: a packet passes if enough have come by its time, else it is dropped."""
    packets, flows = gap.shape
    good = torch.empty(packets, flows, dtype=torch.bool, device=gap.device)
    dropped = torch.empty(flows, dtype=torch.int32, device=gap.device)
    left = torch.empty(flows, device=gap.device)
    for t in tfl.tile(flows):
        tokens = tfl.full([t], burst)
        lost = tfl.zeros([t], dtype=torch.int32)
        per = rate[t]
        for k in range(packets):
            s = size[k, t].int()
            tokens = torch.clamp(tokens + per * gap[k, t], max=burst)
            fits = tokens >= s
            tokens = torch.where(fits, tokens - s, tokens)
            lost += torch.where(fits, 0, s)
            good[k, t] = fits
        dropped[t] = lost
        left[t] = tokens
    return good, dropped, left


def make_rules(n: Any, rules: Any) -> Any:
    low = torch.randint(0, 60000, (5, rules))
    high = low + torch.randint(5000, 65536, (5, rules))
    return torch.randint(0, 65536, (n, 5)).int(), torch.stack([low, high.clamp(max=65535)], -1).int()


def rules_ref(header: Any, interval: Any) -> Any:
    n, rules = header.size(0), interval.size(1)
    out = []
    for part in header.split(4096):
        ok = torch.ones(part.size(0), rules, dtype=torch.bool)
        for f in range(5):
            x = part[:, f, None]
            ok &= (x >= interval[f, :, 0]) & (x <= interval[f, :, 1])
        out.append(torch.where(ok, torch.arange(rules), rules).amin(1))
    first = torch.cat(out).int()
    return first, torch.bincount(first, minlength=rules + 1).int(), (first == rules).sum() / n


@stranger(make_rules, rules_ref, {"n": 67, "rules": 19}, {"n": 1 << 19, "rules": 2000})
@tileflow.kernel
def match_rules(header, interval):
    """A classifier of packets: the first rule whose five intervals hold a header, and how often each rule is hit."""
    n = header.size(0)
    fields, rules, _ = interval.shape
    first = torch.empty(n, dtype=torch.int32, device=header.device)
    hits = torch.zeros(rules + 1, dtype=torch.int32, device=header.device)
    missed = torch.zeros((), device=header.device)
    for t in tfl.tile(n):
        best = tfl.full([t], rules, dtype=torch.int32)
        for tr in tfl.tile(rules):
            ok = tfl.full([t, tr], True, dtype=torch.bool)
            for f in range(fields):
                x = header[t, f][:, None]
                ok = ok & (x >= interval[f, tr, 0]) & (x <= interval[f, tr, 1])
            best = torch.minimum(best, torch.where(ok, tr.index, rules).amin(1))
        first[t] = best
        tfl.atomic_add(hits, [best], 1)
        tfl.atomic_add(missed, [], (best == rules).sum() / n)
    return first, hits, missed


def toeplitz_ref(tuples: Any, key: Any, table: Any) -> Any:
    stream = ((key[:, None].int() >> torch.arange(7, -1, -1)) & 1).flatten().long()
    window = (stream.unfold(0, 32, 1) << torch.arange(31, -1, -1)).sum(1)
    out = torch.zeros(tuples.size(0), dtype=torch.int64)
    for k in range(8 * tuples.size(1)):
        bit = (tuples[:, k // 8].int() >> (7 - k % 8)) & 1
        out ^= torch.where(bit > 0, window[k], 0)
    queue = table[out & (table.numel() - 1)]
    return (out - ((out >> 31) << 32)).int(), queue, torch.bincount(queue.long(), minlength=64).int()


@stranger(
    lambda n: (
        torch.randint(0, 256, (n, 12)).to(torch.uint8),
        torch.randint(0, 256, (40,)).to(torch.uint8),
        torch.randint(0, 48, (128,)).to(torch.uint8),
    ),
    toeplitz_ref,
    {"n": 101},
    {"n": 8_000_001},
)
@tileflow.kernel
def toeplitz_queues(tuples, key, table):
    """Receive side scaling: Toeplitz's hash of addresses and ports, the queue that a table gives, and their loads."""
    n, length = tuples.shape
    code = torch.empty(n, dtype=torch.int32, device=tuples.device)
    queue = torch.empty(n, dtype=torch.uint8, device=tuples.device)
    load = torch.zeros(64, dtype=torch.int32, device=tuples.device)
    for t in tfl.tile(n):
        out = tfl.zeros([t], dtype=torch.int64)
        for byte in tfl.static_range(length):
            x = tuples[t, byte].int()
            window = tfl.full([], 0, dtype=torch.int64)
            for k in range(5):
                window = (window << 8) | key[byte + k].long()
            for bit in range(8):
                part = (window >> (8 - bit)) & 0xFFFFFFFF
                out = out ^ torch.where(((x >> (7 - bit)) & 1) > 0, part, 0)
        code[t] = out.int()
        chosen = table[out & (table.size(0) - 1)]
        queue[t] = chosen
        tfl.atomic_add(load, [chosen.int()], 1)
    return code, queue, load


def make_buffer(packets: Any, most: Any) -> Any:
    words = torch.randint(10, most, (packets,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), words.cumsum(0)])
    total = packets * most // 2 if offsets.is_meta else int(offsets[-1])
    return torch.randint(0, 256, (2 * total,)).to(torch.uint8), (2 * offsets).int()


def checksum_ref(buffer: Any, offsets: Any) -> Any:
    pair = buffer.view(-1, 2).long()
    word = pair[:, 0] * 256 + pair[:, 1]
    lengths = offsets.long().diff() // 2
    packet = torch.repeat_interleave(torch.arange(lengths.numel()), lengths)
    total = torch.zeros_like(lengths).index_add(0, packet, word)
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    code = total ^ 0xFFFF
    return code.int(), (code & 1 == 0).sum().int()


@stranger(make_buffer, checksum_ref, {"packets": 29, "most": 41}, {"packets": 300_000, "most": 760})
@tileflow.kernel
def internet_checksums(buffer, offsets):
    """RFC 1071: the sum of the 16-bit words of each packet of a buffer, with the carries put back, inverted."""
    packets = offsets.size(0) - 1
    code = torch.empty(packets, dtype=torch.int32, device=buffer.device)
    even = torch.zeros((), dtype=torch.int32, device=buffer.device)
    for t in tfl.tile(packets):
        start = offsets[t]
        total = tfl.zeros([t], dtype=torch.int32)
        for tw in tfl.jagged_tile((offsets[t + 1] - start) // 2):
            at = start[:, None] + 2 * tw.index[None, :]
            total += (buffer[at].int() * 256 + buffer[at + 1].int()).sum(1).int()
        for _ in range(2):
            total = (total & 0xFFFF) + (total >> 16)
        total = total ^ 0xFFFF
        code[t] = total
        tfl.atomic_add(even, [], (total % 2 == 0).sum().int())
    return code, even


def latency_ref(micros: Any, service: Any, services: int, share: Any) -> Any:
    bucket = bucket_of(micros)
    counts = torch.bincount(service.long() * 256 + bucket.long(), minlength=services * 256).view(services, 256)
    reached = counts.cumsum(1)[:, :, None] >= (share * counts.sum(1, keepdim=True))[:, None, :]
    place = torch.where(reached, torch.arange(256)[None, :, None], 255).amin(1)
    slow = torch.zeros(services, dtype=torch.int32).scatter_reduce(0, service.long(), micros, "amax")
    return counts.int(), torch.exp2(place / 10), slow


def bucket_of(micros):
    return torch.clamp(torch.floor(10 * torch.log2(micros.float() + 0.5)), min=0, max=255).int()


@stranger(
    lambda n, services: (
        torch.exp(torch.randn(n) * 1.5 + 6).int(),
        torch.randint(0, services, (n,)).to(torch.int16),
        services,
        torch.tensor([0.5, 0.9, 0.99, 0.999]),
    ),
    latency_ref,
    {"n": 333, "services": 5},
    {"n": 30_000_000, "services": 777},
)
@tileflow.kernel
def latency_quantiles(micros, service, services, share):
    """Histograms of logarithms of each service's latencies, then the quantiles by their running sums, and the worst."""
    counts = torch.zeros(services, 256, dtype=torch.int32, device=micros.device)
    slow = torch.zeros(services, dtype=torch.int32, device=micros.device)
    quantile = torch.empty(services, share.numel(), device=micros.device)
    for t in tfl.tile(micros.numel()):
        who, x = service[t].int(), micros[t]
        tfl.atomic_add(counts, [who, bucket_of(x)], 1)
        tfl.atomic_max(slow, [who], x)
    for t in tfl.tile(services):
        running = torch.cumsum(counts[t, :], 1)
        total = running.amax(1)
        for k in range(share.numel()):
            reached = running >= (share[k] * total)[:, None]
            place = torch.where(reached, tfl.arange(256), 255).amin(1)
            quantile[t, k] = torch.exp2(place / 10)
    return counts, quantile, slow
