"""Kernels that take a batch, a head or a row out of a tensor, and then blocks of it, with what they must give."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case
Tensor = torch.Tensor

ROWS, BATCHES, LONG, PARTS = rand(5, 300), rand(3, 20, 24), rand(2, 150, 40), rand(3, 40, 48)
HEADS = tuple(rand(2, 3, 40, 16, seed=seed) for seed in range(3))
NAMES = ints(2100, 70, seed=1)


@case(ROWS, wanted=lambda x: x * 2 + x.double().float() - 1, t=64)
@tileflow.kernel
def row(x: Tensor) -> Tensor:
    """A row by its number, read by blocks, by their indices, and converted."""
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        whole = x[i]
        for t in tfl.tile(x.size(1)):
            out[i, t] = whole[t] + whole[t.index] + whole.double()[t].float() - 1
    return out


@case(ROWS, wanted=lambda x: torch.nn.functional.pad(x, (1, 1)).unfold(1, 3, 1).sum(-1), i=2, t=64)
@tileflow.kernel
def neighbours(x: Tensor) -> Tensor:
    """Shifted blocks of rows, which are 0 outside."""
    out = torch.empty_like(x)
    for i in tfl.tile(x.size(0)):
        rows = x[i, :]
        for t in tfl.tile(x.size(1)):
            out[i, t] = rows[:, t - 1] + rows[:, t] + rows[:, t + 1]
    return out


@case(BATCHES, rand(3, 24, 10), wanted=lambda x, w: x @ w, m=16, n=16, k=16)
@tileflow.kernel
def batched(x: Tensor, w: Tensor) -> Tensor:
    """A batch of products, the right operand turned twice."""
    out = x.new_empty(x.size(0), x.size(1), w.size(2))
    for b in tfl.grid(x.size(0)):
        rows, columns = x[b], w[b].T
        for m, n in tfl.tile([x.size(1), w.size(2)]):
            total = torch.zeros(m, n)
            for k in tfl.tile(x.size(2)):
                total = torch.addmm(total, rows[m, k], columns.T[k, n])
            out[b, m, n] = total
    return out


def one_head(q: Tensor, k: Tensor, v: Tensor, rows: tfl.Tile, keys: int) -> Tensor:
    """Attention of a head's rows, by a function that knows of no batch."""
    total = torch.zeros(rows, v.shape[1])
    most, weight = torch.full([rows], float("-inf")), torch.zeros(rows)
    for s in tfl.tile(keys):
        scores = q[rows, :] @ k[s, :].T
        new = torch.maximum(most, scores.amax(1))
        shares, scale = torch.exp(scores - new[:, None]), torch.exp(most - new)
        weight = weight * scale + shares.sum(1)
        total = total * scale[:, None] + shares @ v[s, :]
        most = new
    return total / weight[:, None]


@case(*HEADS, wanted=lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, t=16, s=16)
@tileflow.kernel
def heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each head handed to a function."""
    out = torch.empty_like(q)
    for b, h, t in tfl.tile(q.shape[:3], block_size=[1, 1, None]):
        i, j = b.begin, h.begin
        out[b, h, t, :] = one_head(q[i, j], k[i, j], v[i, j], t, k.size(2))[None, None]
    return out


@case(LONG, wanted=lambda x: x.cumsum(1), t=16)
@tileflow.kernel
def steps(x: Tensor) -> Tensor:
    """A sequence by its steps, one number after the other."""
    out = torch.empty_like(x)
    for b, t in tfl.tile([x.size(0), x.size(2)], block_size=[1, None]):
        sequence = x[b.begin]
        state = torch.zeros(t)
        for n in range(x.size(1)):
            state = state + sequence[n, t]
            out[b, n, t] = state[None]
    return out


@case(ROWS, wanted=lambda x: x[:, -2:].sum(1) + x[:, 7] + x[:, 0])
@tileflow.kernel
def ends(x: Tensor) -> Tensor:
    """Single elements of long rows, counted from both ends."""
    out = x.new_empty(x.size(0))
    for i in tfl.grid(x.size(0)):
        whole = x[i]
        last = torch.zeros([])
        for n in range(2):
            last = last + whole[n - 2]
        out[i] = last + whole[7] + whole[-x.size(1)]
    return out


@case(ROWS, rand(300, seed=4), wanted=lambda x, w: torch.softmax(x * w, 1), i=2, t=64)
@tileflow.kernel
def computed(x: Tensor, w: Tensor) -> Tensor:
    """Blocks of rows that are computed, with numbers of the whole rows."""
    out = torch.empty_like(x)
    for i in tfl.tile(x.size(0)):
        shares = torch.softmax(x[i, :] * w[:], 1)
        for t in tfl.tile(x.size(1)):
            out[i, t] = shares[:, t]
    return out


@case(BATCHES, rand(3, 20, seed=5), wanted=lambda x, scale: (x.mT.exp() * scale[:, None] + 1).sum(1), t=8, k=8)
@tileflow.kernel
def scaled(x: Tensor, scale: Tensor) -> Tensor:
    """Blocks of a batch that is scaled by row, turned and shifted."""
    out = x.new_empty(x.size(0), x.size(1))
    for b in tfl.grid(x.size(0)):
        batch = x[b].exp() * scale[b, :, None]
        for t in tfl.tile(x.size(1)):
            total = torch.zeros(t)
            for k in tfl.tile(x.size(2)):
                total = total + (batch.T + 1)[k, t].sum(0)
            out[b, t] = total
    return out


ENDS = torch.tensor([300, 7, 320, 301, 0])


def as_far_as(x, ends):
    """Rows and their second halves, one more than they are, up to an end each; 0 behind theirs."""
    more = [torch.nn.functional.pad(part + 1, (0, 320 - part.size(1))) for part in (x, x[:, 150:])]
    return torch.where(torch.arange(320) < ends[:, None], sum(more), 0.0)


@case(ROWS, ENDS, wanted=as_far_as, t=64)
@tileflow.kernel
def of_loaded_ends(x: Tensor, ends: Tensor) -> Tensor:
    """Loops that run past what was computed and sliced: it is 0 there."""
    out = x.new_zeros(x.size(0), 320)
    for i in tfl.grid(x.size(0)):
        whole, half = x[i] + 1, x[i, 150:] + 1
        for t in tfl.tile(ends[i]):
            out[i, t] = whole[t] + half[t]
    return out


@case(ROWS.half(), wanted=lambda x: (x * 3).float() - x.float() * 3, t=64)
@tileflow.kernel
def rounded(x: Tensor) -> Tensor:
    """A conversion to the dtype that a tile has rounds each block too."""
    out = torch.empty(x.shape)
    for i in tfl.grid(x.size(0)):
        whole = (x[i] * 3).half()
        for t in tfl.tile(x.size(1)):
            out[i, t] = whole[t].float() - x[i, t].float() * 3
    return out


@case(ROWS, wanted=lambda x: torch.nn.functional.pad(x + 1, (1, 0))[:, :-1] + (x + 1)[:, 7:8] + x + 1, t=64)
@tileflow.kernel
def outside(x: Tensor) -> Tensor:
    """Outside what was computed is 0, not what would be computed of zeros."""
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        more = x[i] + 1
        for t in tfl.tile(x.size(1)):
            out[i, t] = more[t - 1] + more[7] + more[t] + more[t.index + x.size(1)]
    return out


@case(ROWS, 18, wanted=lambda x, turns: x.cumsum(1)[:, -20 : turns - 20].sum(1))
@tileflow.kernel
def from_the_end(x: Tensor, turns: int) -> Tensor:
    """Elements of a row that registers alone have, counted from its end by a loop of the kernel."""
    out = x.new_empty(x.size(0))
    for i in tfl.grid(x.size(0)):
        sums = x[i].cumsum(0)
        total = torch.zeros([])
        for n in range(turns):
            total = total + sums[n - 20]
        out[i] = total
    return out


@case(rand(2, 2100, 16), NAMES, wanted=lambda w, names: w[:, names].sum(0), t=16)
@tileflow.kernel
def tables(w: Tensor, names: Tensor) -> Tensor:
    """Rows of large tables by numbers that are loaded."""
    out = w.new_empty(names.size(0), w.size(2))
    for t in tfl.tile(names.size(0)):
        first, second = w[0], w[1]
        out[t, :] = first[names[t], :] + second[names[t], :]
    return out


@case(ROWS, rand(300, 8, seed=3), ints(5, 12), wanted=lambda x, w, rows: x[rows] @ w, t=16, k=64)
@tileflow.kernel
def routed(x: Tensor, w: Tensor, rows: Tensor) -> Tensor:
    """Rows by numbers that are loaded, and blocks of their columns."""
    out = x.new_empty(rows.size(0), w.size(1))
    for t in tfl.tile(rows.size(0)):
        mine = x[rows[t], :]
        total = torch.zeros(t, w.size(1))
        for k in tfl.tile(x.size(1)):
            total = total + mine[:, k] @ w[k, :]
        out[t, :] = total
    return out


@case(BATCHES, wanted=lambda x: x[:, :, 2:6].sum(-1) + x[..., 0], t=8)
@tileflow.kernel
def more_items(x: Tensor) -> Tensor:
    """Slices, an ellipsis and new axes beside a tile."""
    out = x.new_empty(x.shape[:2])
    for b in tfl.grid(x.size(0)):
        batch = x[b]
        for t in tfl.tile(x.size(1)):
            beside = batch[None, t, None, :4][0, :, 0]
            out[b, t] = batch[t, 2:6].sum(1) + batch[t, ...][:, 0] + (beside - batch[t, :4]).sum(1)
    return out


# ---- parts, views and other orders of what was taken ----------------------------------------------------------------


@case(BATCHES, wanted=lambda x: x.sum(1), t=8, r=8)
@tileflow.kernel
def sizes_of_a_batch(x: Tensor) -> Tensor:
    """Loops over the sizes of what was taken."""
    out = x.new_empty(x.size(0), x.size(2))
    for b in tfl.grid(x.size(0)):
        batch = x[b]
        for t in tfl.tile(batch.shape[1]):
            total = torch.zeros(t)
            for r in tfl.tile(batch.size(0)):
                total = total + batch[r, t].sum(0)
            out[b, t] = total
    return out


@case(BATCHES, wanted=lambda x: x.flatten(1) * 2, t=64)
@tileflow.kernel
def flattened(x: Tensor) -> Tensor:
    """All rows as one."""
    out = x.new_empty(x.size(0), x.size(1) * x.size(2))
    for b in tfl.grid(x.size(0)):
        first, second = x[b].flatten(), x[b].view(-1)
        for t in tfl.tile(out.size(1)):
            out[b, t] = first[t] + second[t]
    return out


@case(BATCHES, wanted=lambda x: x.unflatten(2, (4, 6)).transpose(1, 2) * 2, t=8)
@tileflow.kernel
def heads_of_rows(x: Tensor) -> Tensor:
    """A dimension as two."""
    out = x.new_empty(x.size(0), 4, x.size(1), 6)
    for b, h in tfl.grid([x.size(0), 4]):
        first, second = x[b].view(x.size(1), 4, 6), x[b].unflatten(1, (4, 6))
        for t in tfl.tile(x.size(1)):
            out[b, h, t, :] = first[t, h] + second[t, h, :]
    return out


@case(BATCHES.mT, wanted=lambda x: x.flatten(1) * 2, t=64)
@tileflow.kernel
def flattened_across(x: Tensor) -> Tensor:
    """All rows as one, where memory has no such row."""
    out = x.new_empty(x.size(0), x.size(1) * x.size(2))
    for b in tfl.grid(x.size(0)):
        rows = x[b].flatten()
        for t in tfl.tile(out.size(1)):
            out[b, t] = rows[t] * 2
    return out


@case(PARTS, wanted=lambda x: x[..., :16] * x[..., 16:32] + x[..., 32:] - x[..., :16] * 2, t=8)
@tileflow.kernel
def three_of_rows(x: Tensor) -> Tensor:
    """Parts by a split, by slices of the tensor and of the tile, and by halves."""
    out = x.new_empty(x.size(0), x.size(1), 16)
    for b in tfl.grid(x.size(0)):
        q, k, _ = x[b].split(16, -1)
        v, again, half = x[b][:, 32:], x[b, :, :16], x[b, :, :32].chunk(2, -1)[0]
        for t in tfl.tile(x.size(1)):
            out[b, t] = q[t] * k[t] + v[t] - again[t] - half[t]
    return out


@case(PARTS, wanted=lambda x: x[..., 16:32].mT @ x[..., :16] * x[..., 32:].sum((1, 2))[:, None, None])
@tileflow.kernel
def products_of_parts(x: Tensor) -> Tensor:
    """Parts of rows that are no halves of them, each loaded by itself."""
    out = x.new_empty(x.size(0), 16, 16)
    for b in tfl.grid(x.size(0)):
        q, k, v = x[b].split(16, -1)
        out[b] = k.T @ q * v.sum()
    return out


@case(PARTS, wanted=lambda x: x[:, 1:] - x[:, :-1] + x[:, 1:2], t=8)
@tileflow.kernel
def differences(x: Tensor) -> Tensor:
    """Rows from the second on, and up to the last but one."""
    out = x.new_empty(x.size(0), x.size(1) - 1, x.size(2))
    for b in tfl.grid(x.size(0)):
        now, before = x[b, 1:], x[b, :-1]
        for t in tfl.tile(x.size(1) - 1):
            out[b, t] = now[t] - before[t] + now[0]
    return out


@case(PARTS, wanted=lambda x: x.roll(1, 1) + x.flip(1) + 2 * x.flip(1)[..., -1:], t=8)
@tileflow.kernel
def other_orders(x: Tensor) -> Tensor:
    """Rows moved around the end, and from the last to the first."""
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        moved, turned = x[b].roll(1, 0), x[b].flip(1).flip(1).flip(0)
        for t in tfl.tile(x.size(1)):
            out[b, t] = moved[t] + turned[t] + (turned[t, -1] * 2)[:, None]
    return out


# ---- what registers have --------------------------------------------------------------------------------------------


@case(BATCHES[0], wanted=lambda x: x.cumsum(1), t=8, k=8)
@tileflow.kernel
def by_two_loops(x: Tensor) -> Tensor:
    """Blocks of what registers alone have, by the tiles of two loops."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        sums = x[:, :].cumsum(1)
        for k in tfl.tile(x.size(1)):
            out[t, k] = sums[t, k]
    return out


@case(ROWS.clone(), wanted=lambda x: x.flip(1), t=64)
@tileflow.kernel
def reversed_in_place(x: Tensor) -> Tensor:
    """What was loaded is a copy of what is overwritten."""
    for i in tfl.grid(x.size(0)):
        whole = x[i]
        for t in tfl.tile(x.size(1)):
            x[i, t] = whole[x.size(1) - 1 - t.index]
    return x


@case(ROWS.clone(), wanted=lambda x: torch.cat([x[:, :1], x[:, :-1]], 1), t=64)
@tileflow.kernel
def moved_in_place(x: Tensor) -> Tensor:
    """The same where each turn reads what the turn before has overwritten, through a view of the same memory."""
    flat = x.view(-1)
    for i in tfl.grid(x.size(0)):
        whole = x[i]
        for t in tfl.tile(x.size(1)):
            flat[i * x.size(1) + t.index] = torch.where(t.index > 0, whole[t - 1], whole[t])
    return x
