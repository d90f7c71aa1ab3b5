"""Markets and what supplies them: auctions, options, tails of losses, queues, assignment, search, columns."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_orders(b: Any, n: Any, ticks: Any) -> Any:
    price = torch.randn(2, b, n) * ticks / 8 + torch.tensor([0.45, 0.55])[:, None, None] * ticks
    price = price.int().clamp(0, ticks - 1)
    amount = torch.randint(1, 100, (2, b, n), dtype=torch.int32)
    return price[0], amount[0], price[1], amount[1], ticks


def call_ref(bid: Any, bid_amount: Any, ask: Any, ask_amount: Any, ticks: Any) -> Any:
    b = bid.size(0)
    zero = torch.zeros(b, ticks, dtype=torch.int64)
    demand = zero.scatter_add(1, bid.long(), bid_amount.long()).flip(1).cumsum(1).flip(1)
    supply = zero.scatter_add(1, ask.long(), ask_amount.long()).cumsum(1)
    volume = torch.minimum(demand, supply)
    most = volume.amax(1, keepdim=True)
    uneven = torch.where(volume == most, (demand - supply).abs(), 1 << 60)
    price = (uneven == uneven.amin(1, keepdim=True)).int().argmax(1)
    return price.int(), most[:, 0].int()


@stranger(make_orders, call_ref, {"b": 3, "n": 43, "ticks": 29}, {"b": 2048, "n": 4096, "ticks": 1000})
@tileflow.kernel
def call_auction(bid, bid_amount, ask, ask_amount, ticks: int):
    """Mendelson, 1982: one price for all, at which most is traded; of several the most even one, then the lowest."""
    b, n = bid.shape
    demand = torch.zeros(b, ticks, dtype=torch.int32, device=bid.device)
    supply = torch.zeros(b, ticks, dtype=torch.int32, device=bid.device)
    price = torch.empty(b, dtype=torch.int32, device=bid.device)
    traded = torch.empty(b, dtype=torch.int32, device=bid.device)
    for tb, tn in tfl.tile([b, n]):
        tfl.atomic_add(demand, [tb.index[:, None], bid[tb, tn]], bid_amount[tb, tn])
        tfl.atomic_add(supply, [tb.index[:, None], ask[tb, tn]], ask_amount[tb, tn])
    for tb in tfl.tile(b):
        buyers = tfl.cumsum(demand[tb, :], 1, reverse=True)
        sellers = torch.cumsum(supply[tb, :], 1)
        volume = torch.minimum(buyers, sellers)
        key = (volume.long() << 32) - (buyers - sellers).abs()
        price[tb] = key.argmax(1)
        traded[tb] = volume.amax(1)
    return price, traded


def servers_ref(gap: Any, work: Any, servers: Any) -> Any:
    load, waits = torch.zeros(gap.size(0), servers), []
    for g, s in zip(gap.unbind(1), work.unbind(1), strict=True):
        load = (load - g[:, None]).clamp(min=0)
        waits.append(load[:, 0])
        load = torch.cat([load[:, :1] + s[:, None], load[:, 1:]], 1).sort(1).values
    waits = torch.stack(waits, 1)
    return waits, (waits > 0).float().mean(1)


@stranger(
    lambda b, n, servers: (
        -torch.log(torch.rand(b, n) + 1e-6), -torch.log(torch.rand(b, n) + 1e-6) * servers * 0.9, servers,
    ),
    servers_ref,
    {"b": 5, "n": 17, "servers": 3},
    {"b": 32768, "n": 1000, "servers": 6},
)  # fmt: skip
@tileflow.kernel
def many_servers(gap, work, servers: tfl.constexpr):
    """Kiefer and Wolfowitz, 1955: whoever comes goes to the server with the least left to do."""
    b, n = gap.shape
    waits = torch.empty(b, n, device=gap.device)
    delayed = torch.empty(b, device=gap.device)
    for tb in tfl.tile(b):
        left = tfl.zeros([tb, servers])
        count = tfl.zeros([tb])
        for i in range(n):
            left = torch.clamp(left - gap[tb, i][:, None], min=0)
            least, who = left.min(1)
            waits[tb, i] = least
            count += (least > 0).float()
            mine = tfl.arange(servers)[None, :] == who[:, None]
            left = torch.where(mine, left + work[tb, i][:, None], left)
        delayed[tb] = count / n
    return waits, delayed


def tail_ref(weight: Any, returns: Any, k: Any) -> Any:
    losses = torch.sort(torch.einsum("pa,sa->ps", weight, -returns), 1, descending=True).values
    return losses[:, k - 1], losses[:, :k].sum(1) / k


@stranger(
    lambda p, a, s, k: (torch.softmax(randn(p, a), 1), randn(s, a), k),
    tail_ref,
    {"p": 7, "a": 9, "s": 45, "k": 4},
    {"p": 16384, "a": 96, "s": 1000, "k": 25},
)
@tileflow.kernel
def tail_loss(weight, returns, k: tfl.constexpr):
    """Rockafellar and Uryasev, 2000: of many scenarios' losses, the k-th worst and the mean of the worst k."""
    p = weight.size(0)
    at_risk = torch.empty(p, device=weight.device)
    shortfall = torch.empty(p, device=weight.device)
    for tp in tfl.tile(p):
        losses = -(weight[tp, :] @ returns[:, :].T)
        worst = losses.topk(k, 1).values
        at_risk[tp] = worst[:, -1]
        shortfall[tp] = worst.mean(1)
    return at_risk, shortfall


def make_postings(docs: Any, terms: Any, most: Any, q: Any, m: Any) -> Any:
    counts = (most * torch.rand(terms) ** 3).int().clamp(min=1)
    offsets = F.pad(counts.cumsum(0), (1, 0)).int()
    owner = torch.arange(terms).repeat_interleave(counts.long())
    at = torch.arange(owner.numel()) - offsets[:-1].long()[owner]
    where = ((at * docs) // counts.long()[owner] + owner) % docs  # no document twice in a list
    often = torch.randint(1, 9, (owner.numel(),), dtype=torch.int16)
    query = torch.randint(-1, terms, (q, m), dtype=torch.int32)
    return offsets, where.int(), often, torch.randint(20, 400, (docs,), dtype=torch.int32), query


def bm25_ref(offsets: Any, where: Any, often: Any, lengths: Any, query: Any) -> Any:
    docs = lengths.numel()
    mean = lengths.double().mean()
    scores = torch.zeros(query.size(0), docs, dtype=torch.float64)
    for row, terms in zip(scores, query.tolist(), strict=True):
        for term in terms:
            if term >= 0:
                low, high = offsets[term], offsets[term + 1]
                who, tf = where[low:high].long(), often[low:high].double()
                rare = torch.log1p((docs - (high - low) + 0.5) / (high - low + 0.5))
                row.index_add_(0, who, rare * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * lengths[who] / mean)))
    return scores.float(), scores.float().amax(1)


@stranger(
    make_postings,
    bm25_ref,
    {"docs": 41, "terms": 11, "most": 30, "q": 3, "m": 4},
    {"docs": 100_000, "terms": 1000, "most": 60_000, "q": 256, "m": 6},
)
@tileflow.kernel
def bm25_scores(offsets, where, often, lengths, query):
    """Robertson et al., 1994: each word's list of documents adds to their scores; -1 is no word."""
    docs = lengths.size(0)
    q, m = query.shape
    total = torch.zeros(1, dtype=torch.int64, device=where.device)
    scores = torch.zeros(q, docs, device=where.device)
    best = torch.empty(q, device=where.device)
    for td in tfl.tile(docs):
        tfl.atomic_add(total, [0], lengths[td].long().sum())
    for iq, im in tfl.grid([q, m]):
        term = query[iq, im]
        if term >= 0:
            mean = total[0].float() / docs
            low, high = offsets[term], offsets[term + 1]
            rare = torch.log(1 + (docs - (high - low) + 0.5) / (high - low + 0.5))
            for t in tfl.tile(low, high):
                doc = where[t]
                tf = often[t].float()
                norm = 0.25 + 0.75 * lengths[doc].float() / mean
                tfl.atomic_add(scores, [iq, doc], rare * tf * 2.2 / (tf + 1.2 * norm))
    for tq in tfl.tile(q):
        best[tq] = scores[tq, :].amax(1)
    return scores, best


def put_ref(spot: Any, strike: Any, rate: Any, spread: Any, years: Any, steps: Any) -> Any:
    spot, strike, rate, spread, years = (x.double()[:, None] for x in (spot, strike, rate, spread, years))
    up = torch.exp(spread * torch.sqrt(years / steps))
    fade = torch.exp(-rate * years / steps)
    chance = (1 / fade - 1 / up) / (up - 1 / up)
    value = (strike - spot * up ** (2 * torch.arange(steps + 1) - steps)).clamp(min=0)
    for n in range(steps - 1, -1, -1):
        now = strike - spot * up ** (2 * torch.arange(n + 1) - n)
        value = torch.maximum(now, fade * (chance * value[:, 1:] + (1 - chance) * value[:, :-1]))
    return value[:, 0].float()


@stranger(
    lambda b, steps: (
        torch.rand(b) * 40 + 80, torch.rand(b) * 40 + 80, torch.rand(b) * 0.05 + 0.01, torch.rand(b) * 0.4 + 0.2,
        torch.rand(b) + 0.25, steps,
    ),
    put_ref,
    {"b": 5, "steps": 12},
    {"b": 16384, "steps": 255},
)  # fmt: skip
@tileflow.kernel
def american_put(spot, strike, rate, spread, years, steps: tfl.constexpr):
    """Cox, Ross and Rubinstein, 1979: from the last day of a binomial tree to the first."""
    b = spot.size(0)
    out = torch.empty_like(spot)
    for tb in tfl.tile(b):
        s, k = spot[tb][:, None], strike[tb][:, None]
        dt = years[tb][:, None] / steps
        jump = spread[tb][:, None] * torch.sqrt(dt)
        up, down = torch.exp(jump), torch.exp(-jump)
        fade = torch.exp(-rate[tb][:, None] * dt)
        chance = (1 / fade - down) / (up - down)
        j = tfl.arange(steps + 1)[None, :]
        value = torch.clamp(k - s * torch.exp(jump * (2 * j - steps)), min=0)
        for n in reversed(range(steps)):
            later = fade * (chance * torch.roll(value, -1, 1) + (1 - chance) * value)
            value = torch.maximum(k - s * torch.exp(jump * (2 * j - n)), later)
        out[tb] = value[:, 0]
    return out


def make_readings(b: Any, n: Any) -> Any:
    level = torch.randint(0, 4, (b, n)).cumsum(1) % 50
    return (torch.where(torch.rand(b, n) < 0.3, level.double(), level.double() * 0.1 + 15),)


def gorilla_ref(x: Any) -> Any:
    bits = x.view(torch.int64)
    shifts = torch.arange(64)
    lead, trail = torch.full((x.size(0),), 64), torch.full((x.size(0),), 64)
    total = torch.full((x.size(0),), 64)
    for i in range(1, x.size(1)):
        changed = bits[:, i] ^ bits[:, i - 1]
        ones = (changed[:, None] >> shifts) & 1
        zero = changed == 0
        left = ones.flip(1).argmax(1).clamp(max=31)
        right = ones.argmax(1)
        fits = (left >= lead) & (right >= trail)
        total += torch.where(zero, 1, torch.where(fits, 2 + 64 - lead - trail, 2 + 5 + 6 + 64 - left - right))
        lead, trail = (torch.where(zero | fits, old, new) for old, new in ((lead, left), (trail, right)))
    return total.int()


@stranger(make_readings, gorilla_ref, {"b": 7, "n": 15}, {"b": 131072, "n": 120})
@tileflow.kernel
def gorilla_sizes(x):
    """Pelkonen et al., 2015: bits that a block of doubles takes, each as what differs from the one before."""
    b, n = x.shape
    out = torch.empty(b, dtype=torch.int32, device=x.device)

    def zeros_below(word):
        count = (word == 0).int() * 64
        for step in (32, 16, 8, 4, 2, 1):
            none = (word & ((1 << step) - 1)) == 0
            count = count + torch.where(none & (word != 0), step, 0)
            word = torch.where(none, word >> step, word)
        return count

    def zeros_above(word):
        count = (word == 0).int() * 64
        for step in (32, 16, 8, 4, 2, 1):
            none = ((word >> (64 - step)) & ((1 << step) - 1)) == 0
            count = count + torch.where(none & (word != 0), step, 0)
            word = torch.where(none, word << step, word)
        return count

    for tb in tfl.tile(b):
        before = x[tb, 0].view(torch.int64)
        lead = tfl.full([tb], 64, dtype=torch.int32)
        trail = tfl.full([tb], 64, dtype=torch.int32)
        total = tfl.full([tb], 64, dtype=torch.int32)
        for i in range(1, n):
            word = x[tb, i].view(torch.int64)
            changed = word ^ before
            left = torch.clamp(zeros_above(changed), max=31)
            right = zeros_below(changed)
            fits = (left >= lead) & (right >= trail)
            cost = torch.where(fits, 66 - lead - trail, 77 - left - right)
            total += torch.where(changed == 0, 1, cost)
            new = (changed != 0) & ~fits
            lead = torch.where(new, left, lead)
            trail = torch.where(new, right, trail)
            before = word
        out[tb] = total
    return out


def make_assignment(b: Any, n: Any) -> Any:
    owner = torch.argsort(torch.rand(b, n), 1).int()
    owner = torch.where(torch.rand(b, n) < 0.5, owner, -1)
    return torch.rand(b, n, n), torch.rand(b, n), owner, 1e-3


def bids_ref(value: Any, price: Any, owner: Any, step: Any) -> Any:
    b, n, _ = value.shape
    free = ~(owner[:, None, :] == torch.arange(n)[None, :, None]).any(-1)
    two, best = (value - price[:, None, :]).topk(2, -1)
    best = best[..., 0]
    bid = price.gather(1, best) + (two[..., 0] - two[..., 1]) + step
    table = torch.full((b, n, n), -1.0).scatter(2, best[..., None], torch.where(free, bid, -1.0)[..., None])
    most, who = table.max(1)
    some = most >= 0
    return torch.where(some, most, price), torch.where(some, who.int(), owner)


@stranger(make_assignment, bids_ref, {"b": 3, "n": 11}, {"b": 256, "n": 512})
@tileflow.kernel
def assignment_bids(value, price, owner, step: float):
    """Bertsekas, 1979: who has nothing bids for the best object, as far as it is better than the next."""
    b, n, _ = value.shape
    held = torch.zeros(b, n, dtype=torch.int32, device=value.device)
    bids = torch.full([b, n], -1, dtype=torch.int64, device=value.device)
    new_price = torch.empty_like(price)
    new_owner = torch.empty_like(owner)
    for tb, tn in tfl.tile([b, n]):
        who = owner[tb, tn]
        tfl.store(held, [tb.index[:, None], who], 1, extra_mask=who >= 0)
    for tb, tp in tfl.tile([b, n]):
        net = value[tb, tp, :] - price[tb, :][:, None, :]
        two, places = net.topk(2, -1)
        best = places[:, :, 0]
        bid = price[tb.index[:, None], best] + (two[:, :, 0] - two[:, :, 1]) + step
        packed = (bid.view(torch.int32).long() << 32) | (n - 1 - tp.index)[None, :]
        tfl.atomic_max(bids, [tb.index[:, None], best], packed, extra_mask=held[tb, tp] == 0)
    for tb, tn in tfl.tile([b, n]):
        packed = bids[tb, tn]
        some = packed >= 0
        new_price[tb, tn] = torch.where(some, (packed >> 32).int().view(torch.float32), price[tb, tn])
        new_owner[tb, tn] = torch.where(some, n - 1 - (packed & 0xFFFFFFFF).int(), owner[tb, tn])
    return new_price, new_owner
