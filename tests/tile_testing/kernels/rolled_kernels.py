"""Kernels that reduce or store whole dimensions of a tile, each of which may become a loop."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def norm_by_groups(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A norm over both dimensions, then the largest element of each group."""
    out, most = torch.empty_like(x), torch.empty_like(x[:, :, 0])
    for tile in tfl.tile(x.size(0), block_size=1):
        row = x[tile, :, :]
        scaled = row * torch.rsqrt((row * row).sum(dim=(1, 2)))[:, None, None]
        most[tile, :] = scaled.amax(-1)
        out[tile, :, :] = scaled
    return out, most


@tileflow.kernel
def less_both_maxima(x: torch.Tensor) -> torch.Tensor:
    """Less the largest of its row and of its column: each maximum is needed whole in the other's loops."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=1):
        row = x[tile, :, :]
        out[tile, :, :] = row - row.amax(1)[:, None, :] - row.amax(2)[:, :, None]
    return out


@tileflow.kernel
def stored_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two results of a row, which nothing reduces."""
    twice, scaled = torch.empty_like(x), torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        twice[tile, :] = x[tile, :] * 2
        scaled[tile, :] = x[tile, :] * x[tile, 0][:, None]
    return twice, scaled


@tileflow.kernel
def stored_boxes(x: torch.Tensor) -> torch.Tensor:
    """Both dimensions of each box, which nothing reduces."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=1):
        out[tile, :, :] = x[tile, :, :] * 2
    return out


@tileflow.kernel
def stored_beside_a_sum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One dimension is reduced in a loop of its own, and stored beside one that is not."""
    out, sums = torch.empty_like(x), torch.empty_like(x[:, :, 0])
    for tile in tfl.tile(x.size(0), block_size=1):
        row = x[tile, :, :]
        sums[tile, :] = row.sum(2)
        out[tile, :, :] = row - row.mean(2, keepdim=True)
    return out, sums


@tileflow.kernel
def projected(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A product of whole rows by columns, added to what there is."""
    out = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
    for t, n in tfl.tile([x.size(0), w.size(1)]):
        out[t, n] = torch.relu(x[t, :] @ w[:, n] + bias[n])
    return out


@tileflow.kernel
def projected_whole(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A product of whole rows by a whole matrix, and the softmax of each row of it."""
    out = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.softmax(torch.addmm(bias[:], x[t, :], w[:, :]).float(), -1).to(x.dtype)
    return out


@tileflow.kernel
def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention to all keys at once."""
    out = torch.empty_like(q)
    for t in tfl.tile(q.size(0)):
        scores = torch.softmax((q[t, :] @ k[:, :].T).float(), -1)
        out[t, :] = (scores.to(v.dtype) @ v[:, :]).to(q.dtype)
    return out


@tileflow.kernel
def multiplied_in_batches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Whole matrices of a batch, quantised on one side."""
    out = torch.empty(x.size(0), x.size(1), y.size(2), dtype=x.dtype, device=x.device)
    for b in tfl.tile(x.size(0), block_size=1):
        out[b, :, :] = torch.bmm(x[b, :, :], y[b, :, :].to(x.dtype) * 0.5)
    return out


@tileflow.kernel
def placed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The largest element of each row, its place, and the place of the least."""
    most, where, least = (torch.empty(x.size(0), dtype=d, device=x.device) for d in (x.dtype, torch.int64, torch.int64))
    for tile in tfl.tile(x.size(0)):
        most[tile], where[tile] = x[tile, :].max(1)
        least[tile] = x[tile, :].argmin(1)
    return most, where, least


@tileflow.kernel
def placed_in_columns(x: torch.Tensor) -> torch.Tensor:
    """The place of the largest element of each column of each box, and of its rows."""
    out = torch.empty(x.size(0), x.size(2), dtype=torch.int64, device=x.device)
    for tile in tfl.tile(x.size(0), block_size=1):
        out[tile, :] = x[tile, :, :].argmax(1)
    return out


@tileflow.kernel
def numbered(x: torch.Tensor, label: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row where its label is, and all of it by its places."""
    found, out = torch.empty_like(x[:, 0]), torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        places = tfl.arange(x.size(1))
        row = x[tile, :]
        found[tile] = torch.where(places == label[tile][:, None], row, 0.0).sum(1)
        out[tile, :] = row * (places + 3)
    return found, out


@tileflow.kernel
def averaged(x: torch.Tensor) -> torch.Tensor:
    """The mean over both dimensions of each box."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile, :, :].mean((1, 2))
    return out


@tileflow.kernel
def attended_before(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of scaled, biased scores to the keys before each query, and the logarithms of the sums."""
    out, lse = torch.empty_like(q), torch.empty_like(bias[:, 0])
    for t in tfl.tile(q.size(0)):
        scores = (q[t, :] @ k[:, :].T).float() / 8 + bias[t, :]
        is_before = t.index[:, None] >= tfl.arange(k.size(0))[None, :]
        scores = torch.where(is_before, scores, float("-inf"))
        out[t, :] = torch.softmax(scores, -1).to(v.dtype) @ v[:, :]
        lse[t] = torch.logsumexp(scores, -1)
    return out, lse


@tileflow.kernel
def attended_to_some(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """Attention by hand, to keys that each query keeps, with a weight; one that keeps none gets zeros."""
    out = torch.empty_like(q)
    for t in tfl.tile(q.size(0)):
        scores = torch.where(keep[t, :] > 0, (q[t, :] @ k[:, :].T).float() * 0.3, float("-inf"))
        most = scores.amax(-1, keepdim=True)
        weights = torch.exp(scores - torch.where(torch.isinf(most), 0.0, most))
        total = weights.sum(-1, keepdim=True)
        shares = weights * keep[t, :] / torch.where(total == 0, 1.0, total)
        out[t, :] = torch.where(keep[t, :] > 0, shares, 0.0).to(v.dtype) @ v[:, :]
    return out


@tileflow.kernel
def attended_by_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of all heads of a query at once, divided by the sums at the end, and added to the query."""
    out = torch.empty_like(q)
    for h, t in tfl.tile([q.size(0), q.size(1)]):
        scores = torch.bmm(q[h, t, :], k[h, :, :].transpose(1, 2)).float()
        weights = torch.exp2(scores - scores.amax(-1, keepdim=True))
        summed = torch.bmm(weights.to(v.dtype), v[h, :, :]).float()
        out[h, t, :] = (q[h, t, :] + summed / weights.sum(-1, keepdim=True)).to(q.dtype)
    return out


@tileflow.kernel
def attended_twice(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The difference of two attentions to the same values."""
    out = torch.empty_like(q)
    for t in tfl.tile(q.size(0)):
        one = torch.softmax((q[t, :] @ k[:, :].T).float(), -1)
        two = torch.softmax((other[t, :] @ k[:, :].T).float(), -1)
        out[t, :] = ((one.to(v.dtype) @ v[:, :]).float() - 0.5 * (two.to(v.dtype) @ v[:, :]).float()).to(q.dtype)
    return out


@tileflow.kernel
def soft_nearest(x: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean of a table's rows by the softmax of what is in memory, and the softmax itself."""
    out = torch.empty(x.size(0), table.size(1), dtype=table.dtype, device=x.device)
    shares = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        share = torch.softmax(x[t, :].float(), -1)
        shares[t, :] = share.to(x.dtype)
        out[t, :] = share.to(table.dtype) @ table[:, :]
    return out, shares


@tileflow.kernel
def attended_near(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, width: int) -> torch.Tensor:
    """Attention to the keys up to each query's own, of which there are ``width``."""
    out = torch.empty_like(q)
    for t in tfl.tile(q.size(0)):
        keys = tfl.arange(k.size(0))
        behind = t.index[:, None] - keys[None, :]
        is_far = (behind < 0) | ~(behind < width)
        scores = ((q[t, :] @ k[:, :].T).float() * 0.2).masked_fill(is_far, float("-inf"))
        out[t, :] = torch.softmax(scores, -1).to(v.dtype) @ v[:, :]
    return out


@tileflow.kernel
def attended_from(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: torch.Tensor, past: torch.Tensor
) -> torch.Tensor:
    """Attention of each batch to the keys from one number up to another, that have an even number."""
    out = torch.empty_like(q)
    for b, t in tfl.tile([q.size(0), q.size(1)], block_size=[1, None]):
        scores = (q[b.begin, t, :] @ k[b.begin, :, :].T).float()
        keys = tfl.arange(k.size(1))[None, :]
        is_even = (keys % 2 == 0) & (keys < past[b.begin]) & (first[b.begin] <= keys)
        scores = torch.where(is_even, scores, float("-inf"))
        out[b.begin, t, :] = (torch.softmax(scores, -1).to(v.dtype) @ v[b.begin, :, :]).to(q.dtype)
    return out


@tileflow.kernel
def attended_behind(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of the last queries to all keys before them: the ones of what was cached, and their own. The queries
    are scaled, not the scores."""
    out = torch.empty_like(q)
    more = k.size(0) - q.size(0)
    for t in tfl.tile(q.size(0)):
        scores = (q[t, :] / 7 @ k[:, :].T).float()
        scores = torch.where(tfl.arange(k.size(0))[None, :] > (t.index + more)[:, None], float("-inf"), scores)
        out[t, :] = torch.softmax(scores, -1).to(v.dtype) @ v[:, :]
    return out


@tileflow.kernel
def attended_by_torch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """torch's function: plain, with a mask, with a bias and a scale."""
    plain, before, biased = torch.empty_like(q), torch.empty_like(q), torch.empty_like(q)
    attend = torch.nn.functional.scaled_dot_product_attention
    for t in tfl.tile(q.size(0)):
        plain[t, :] = attend(q[t, :], k[:, :], v[:, :])
        is_before = tfl.arange(k.size(0))[None, :] <= t.index[:, None]
        before[t, :] = attend(q[t, :], k[:, :], v[:, :], attn_mask=is_before)
        biased[t, :] = attend(q[t, :], k[:, :], v[:, :], bias[t, :], scale=0.3)
    return plain, before, biased


@tileflow.kernel
def attended_and_placed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention, and how many keys have the largest score, which must be the score itself."""
    out, count = torch.empty_like(q), torch.empty(q.size(0), dtype=torch.int32, device=q.device)
    for t in tfl.tile(q.size(0)):
        scores = (q[t, :] @ k[:, :].T).float() * 0.3
        out[t, :] = torch.softmax(scores, -1).to(v.dtype) @ v[:, :]
        count[t] = (scores == scores.amax(-1, keepdim=True)).sum(-1)
    return out, count


@tileflow.kernel
def attended_before_and_within(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Attention to the keys up to each query's own, of those that a batch has."""
    out = torch.empty_like(q)
    for b, t in tfl.tile([q.size(0), q.size(1)], block_size=[1, None]):
        keys = tfl.arange(k.size(1))[None, :]
        scores = torch.where(keys <= t.index[:, None], (q[b.begin, t, :] @ k[b.begin, :, :].T).float(), float("-inf"))
        scores = torch.where(keys < length[b.begin], scores, float("-inf"))
        out[b.begin, t, :] = (torch.softmax(scores, -1).to(v.dtype) @ v[b.begin, :, :]).to(q.dtype)
    return out


@tileflow.kernel
def with_its_rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A layer with a residual: rows that the product takes, and that are added to its result."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        rows = x[t, :]
        out[t, :] = rows + torch.nn.functional.gelu(rows @ w[:, :])
    return out


@tileflow.kernel
def normed_with_its_rows(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of rows that are normed first, whose scale is stored."""
    out, scale = torch.empty_like(x), torch.empty(x.size(0), device=x.device)
    for t in tfl.tile(x.size(0)):
        rows = x[t, :].float()
        root = torch.rsqrt(rows.pow(2).mean(-1) + 1e-5)
        out[t, :] = rows + (rows * root[:, None]).to(x.dtype) @ w[:, :]
        scale[t] = root
    return out, scale


@tileflow.kernel
def highway(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Two products of the rows, which the gate passes on."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        rows = x[t, :]
        gate = torch.sigmoid(rows @ w[:, :])
        out[t, :] = gate * torch.relu(rows @ w[:, :].T) + (1 - gate) * rows
    return out


@tileflow.kernel
def quadratic_form(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A number a row, of its product with a matrix and the row itself."""
    out = torch.empty(x.size(0), device=x.device)
    for t in tfl.tile(x.size(0)):
        rows = x[t, :]
        out[t] = ((rows @ w[:, :]) * rows).float().sum(1)
    return out


@tileflow.kernel
def changed_in_place(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Rows that are written where they were read."""
    for t in tfl.tile(x.size(0)):
        rows = x[t, :]
        x[t, :] = rows + torch.relu(rows @ w[:, :])
    return x


@tileflow.kernel
def attended_in_a_grid(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of each head by a program, which goes along its queries."""
    out = torch.empty_like(q)
    for h in tfl.grid(q.size(0)):
        for t in tfl.tile(q.size(1)):
            scores = (q[h, t, :] @ k[h, :, :].T).float() * 0.3
            out[h, t, :] = torch.softmax(scores, -1).to(v.dtype) @ v[h, :, :]
    return out


@tileflow.kernel
def projected_in_a_grid(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """One matrix for all tiles of a program's rows."""
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        for t in tfl.tile(x.size(1)):
            out[i, t, :] = torch.relu(x[i, t, :] @ w[:, :])
    return out


@tileflow.kernel
def projected_around_a_range(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The same with a tile of rows of all matrices a program."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(1)):
        for i in range(x.size(0)):
            out[i, t, :] = torch.relu(x[i, t, :] @ w[:, :])
    return out


@tileflow.kernel
def written_again(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Elements that a later line gives other values, which wait for fewer sums than the earlier ones."""
    out, shares, sums = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x[:, :2])
    again = shares.view(x.shape)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        sums[tile, 0] = row.sum(1)
        out[tile, :] = row - row.mean(1, keepdim=True)
        out[tile, :] = y[tile, :]
        out[tile, 1] = 3.0
        shares[tile, :] = torch.softmax(row, 1)
        again[tile, 0] = 5.0
        sums[tile, 0] = 2.0
        sums[tile, 1] = row.amax(1)
    return out, shares, sums


@tileflow.kernel
def counted_twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Atomics of one element, of which the first waits for a sum; in ``places`` each says what was there before."""
    counts, places = torch.zeros_like(x[:, 0]), torch.empty_like(x[:, :2])
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, :] = row - row.amax(1, keepdim=True)
        tfl.atomic_add(counts, [tile], row.sum(1))
        tfl.atomic_add(counts, [tile], x[tile, 0])
        places[tile, 0] = tfl.atomic_xchg(counts, [tile], row.amax(1))
        places[tile, 1] = tfl.atomic_xchg(counts, [tile], x[tile, 1])
    return out, counts, places


@tileflow.kernel
def kept_beside(x: torch.Tensor, kept: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A few numbers of each row that are read, changed and read again, between sums over the row."""
    out, seen = torch.empty_like(x), torch.empty_like(kept)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        old = kept[tile, 0]
        top = row.amax(1)
        kept[tile, 0] = top
        kept[tile, 1] = 7.0
        seen[tile, 0] = kept[tile, 0] - old
        share = torch.exp(row - top[:, None])
        out[tile, :] = share / share.sum(1, keepdim=True) * kept[tile, 1][:, None]
        seen[tile, 1] = kept[tile, 1] + out[tile, 5]
        kept[tile, 1] = old
    return out, seen


@tileflow.kernel
def stored_in_turns(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Turns that each write one element twice, before a sum that takes its place."""
    out = torch.empty_like(kept)
    for tile in tfl.tile(x.size(0)):
        for i in range(x.size(1)):
            out[tile, 0] = x[tile, i]
            out[tile, 1] = out[tile, 0] + kept[tile, 0]
            out[tile, 0] = 3.0
        out[tile, 0] = x[tile, :].exp().sum(1)
    return out


@tileflow.kernel
def attended_by_distance(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """Attention with a number for how far away each key is, out of a table, and with keys in an order of their own."""
    out = torch.empty_like(q)
    n = k.size(0)
    for t in tfl.tile(q.size(0)):
        keys = tfl.arange(n)
        scores = (q[t, :] @ k[:, :].T).float() * 0.3
        scores = scores + near[(keys[None, :] - t.index[:, None]).abs()] + near[(7 * keys + 3) % n][None, :]
        out[t, :] = torch.softmax(scores, -1).to(v.dtype) @ v[:, :]
    return out


@tileflow.kernel
def gathered_row(x: torch.Tensor, order: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of rows in another order, some of whose places lie outside, and that order itself."""
    out, sums = torch.empty_like(x), torch.empty(x.size(0), device=x.device)
    for t in tfl.tile(x.size(0)):
        places = 3 * order[:] - 5
        row = x[t, places].float()
        sums[t] = torch.logsumexp(row, 1) + tfl.load(x, [t, order[:]], extra_mask=(places > 0)[None, :]).sum(1)
        out[t, :] = row * 2
    return out, sums


@tileflow.kernel
def gated_halves(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Halves of rows, of which one gates the other, normed, and their product with the halves of a weight."""
    n = x.size(1) // 2
    out = torch.empty(x.size(0), 2 * n, dtype=x.dtype, device=x.device)
    product = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
    for t in tfl.tile(x.size(0)):
        gated = torch.sigmoid(x[t, :n].float()) * x[t, n:].float()
        gated = gated / gated.square().mean(1, keepdim=True)
        out[t, n:] = gated
        out[t, :n] = 2 * gated
        product[t, :] = x[t, n:] @ w[n:, :] + x[t, :n] @ w[:n, :]
    return out, product


@tileflow.kernel
def multiplied_side_by_side(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> object:
    """Two tiles as what a product sums over: beside a weight's rows, its columns, and one below the other."""
    one = torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device)
    other, third = torch.empty_like(one), torch.empty(v.size(0), x.size(0), dtype=x.dtype, device=x.device)
    for t in tfl.tile(x.size(0)):
        both = torch.cat([torch.tanh(x[t, :].float()), y[t, :].float()], 1).to(x.dtype)
        one[t, :] = both @ w[:, :]
        other[t, :] = torch.addmm(y[t, :40], both, v[:, :].T)
        third[:, t] = v[:, :] @ torch.cat([x[t, :].T, y[t, :].T], 0)
    return one, other, third


@tileflow.kernel
def normed_side_by_side(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, gain: torch.Tensor) -> object:
    """Two rows as one: normed and projected, their largest and least element, and all of them as they are used."""
    n = w.size(1)
    out = torch.empty(x.size(0), w.size(0), dtype=x.dtype, device=x.device)
    ends, kept = torch.empty(2, x.size(0), device=x.device), torch.empty(x.size(0), n, device=x.device)
    for t in tfl.tile(x.size(0)):
        both = torch.cat([x[t, :], y[t, :]], 1).float()
        both = torch.where(tfl.arange(n)[None, :] % 3 > 0, both, 0.5 * both)
        scaled = both * torch.rsqrt(both.square().mean(1, keepdim=True) + 1e-6) * gain[:].float()
        out[t, :] = scaled.to(x.dtype) @ w[:, :].T
        ends[0, t], ends[1, t] = both.amax(1), both.amin(1)
        kept[t, :] = torch.softmax(scaled, 1)
    return out, ends, kept


@tileflow.kernel
def columns_apart(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> object:
    """Parts of a product's columns: halves of which one gates the other, three unequal ones, and a slice."""
    m, n = x.size(0), w.size(1)
    gated, out = torch.empty(m, n // 2, dtype=x.dtype, device=x.device), torch.empty(m, n, device=x.device)
    for t in tfl.tile(m):
        both = torch.addmm(bias[:], x[t, :], w[:, :]).float()
        gate, up = both.chunk(2, 1)
        gated[t, :] = torch.sigmoid(gate) * up
        first, second, third = torch.split(both, [100, n - 150, 50], 1)
        out[t, :100], out[t, 100 : n - 50] = first, second.sin()
        out[t, n - 50 :] = third + both[:, 7:57]
    return gated, out


@tileflow.kernel
def projected_in_three(x: torch.Tensor, wide: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> object:
    """Three products of the same rows, of which the first has columns of another number."""
    out = [torch.empty(x.size(0), w.size(1), dtype=x.dtype, device=x.device) for w in (wide, one, other)]
    for t in tfl.tile(x.size(0)):
        out[0][t, :] = x[t, :] @ wide[:, :]
        out[1][t, :] = x[t, :] @ one[:, :]
        out[2][t, :] = x[t, :] @ other[:, :]
    return out
