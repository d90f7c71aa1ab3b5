"""What trains language models: losses over vocabularies, answers and packs, late optimisers, formats of few bits."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_words(n: int, v: int, dtype: torch.dtype = torch.float32) -> Any:
    label = torch.randint(0, v, (n,))
    return randn(n, v, dtype=dtype) * 2, torch.where(torch.rand(n) < 0.1, -100, label), 1e-3


def words_ref(logits: Any, label: Any, z_weight: float) -> Any:
    with torch.enable_grad():
        x = logits.detach().to(torch.promote_types(logits.dtype, torch.float32)).clone().requires_grad_()
        keep = label != -100
        z = torch.logsumexp(x, 1)
        loss = F.cross_entropy(x, label, reduction="none") + torch.where(keep, z_weight * z * z, 0.0)
        (loss.sum() / keep.sum()).backward()
    logits.copy_(x.grad)
    return loss.detach()


@stranger(make_words, words_ref, {"n": 13, "v": 101}, {"n": 2048, "v": 128256, "dtype": torch.bfloat16})
@tileflow.kernel
def cross_entropy_in_place(logits, label, z_weight: float):
    """Chowdhery and others, 2022 (PaLM's z-loss); the logits become their gradient (Hsu and others, 2024)."""
    n, v = logits.shape
    loss = torch.empty(n, device=logits.device)
    count = (label != -100).sum()
    for rows in tfl.tile(n):
        target = label[rows]
        keep = target != -100
        own = logits[rows.index, target].float()
        top, total = tfl.full([rows], float("-inf")), tfl.zeros([rows])
        for words in tfl.tile(v):
            x = logits[rows, words].float()
            high = torch.maximum(top, x.amax(1))
            total = total * torch.exp(top - high) + torch.exp(x - high[:, None]).sum(1)
            top = high
        z = top + torch.log(total)
        loss[rows] = torch.where(keep, z - own + z_weight * z * z, 0.0)
        share = torch.where(keep, 1.0 / count[()], 0.0)
        for words in tfl.tile(v):
            p = torch.exp(logits[rows, words].float() - z[:, None])
            hit = words.index[None, :] == target[:, None]
            grad = p * (1 + 2 * z_weight * z)[:, None] - torch.where(hit, 1.0, 0.0)
            logits[rows, words] = grad * share[:, None]
    return loss


def muon_ref(p: Any, g: Any, m: Any, v: Any, lr: float, decay: float, mu: float, beta: float) -> None:
    m.lerp_(g.to(m.dtype), 1 - mu)
    u = torch.lerp(g.to(m.dtype), m, mu)
    v.lerp_(u.square().mean(1), 1 - beta)
    u = u / (v.sqrt() + 1e-8)[:, None]
    scale = 0.2 * math.sqrt(u.numel()) / u.norm()
    p.copy_(p * (1 - lr * decay) - lr * scale * u)


@stranger(
    lambda m, n, dtype=torch.float32: (
        randn(m, n), randn(m, n, dtype=dtype), randn(m, n), torch.rand(m), 2e-2, 0.1, 0.95, 0.95,
    ),
    muon_ref,
    {"m": 13, "n": 37},
    {"m": 4096, "n": 11008, "dtype": torch.bfloat16},
)  # fmt: skip
@tileflow.kernel
def row_scaled_momentum(p, g, m, v, lr: float, decay: float, mu: float, beta: float) -> None:
    """Li and others, 2025 (NorMuon), of a gradient as it is: a second moment for each row, then one size for all."""
    rows, columns = p.shape
    squares = torch.zeros((), device=p.device)
    for tr in tfl.tile(rows):
        grad = g[tr, :].float()
        moment = torch.lerp(grad, m[tr, :], mu)
        m[tr, :] = moment
        u = torch.lerp(grad, moment, mu)
        second = beta * v[tr] + (1 - beta) * u.square().mean(1)
        v[tr] = second
        scaled = u / (second.sqrt() + 1e-8)[:, None]
        tfl.atomic_add(squares, [], scaled.square().sum())
    for tr, tc in tfl.tile([rows, columns]):
        u = torch.lerp(g[tr, tc].float(), m[tr, tc], mu) / (v[tr].sqrt() + 1e-8)[:, None]
        scale = 0.2 * math.sqrt(rows * columns) * torch.rsqrt(squares[()])
        p[tr, tc] = p[tr, tc] * (1 - lr * decay) - lr * scale * u


def soap_ref(g: Any, q: Any, m: Any, row: Any, column: Any, step: int, beta1: float, beta2: float) -> Any:
    turned = (q.T @ g).to(m.dtype)
    m.lerp_(turned, 1 - beta1)
    row.lerp_(turned.square().mean(1), 1 - beta2)
    column.lerp_(turned.square().mean(0), 1 - beta2)
    second = row[:, None] * column / row.mean() / (1 - beta2**step)
    return (m / (1 - beta1**step) / (second.sqrt() + 1e-8)).to(g.dtype)


def make_soap(m: int, n: int, dtype: torch.dtype = torch.float32) -> Any:
    q = (torch.randn(m, m) * m**-0.5).to(dtype)
    return randn(m, n, dtype=dtype), q, randn(m, n), torch.rand(m), torch.rand(n), 3, 0.95, 0.95


@stranger(make_soap, soap_ref, {"m": 21, "n": 37}, {"m": 2048, "n": 8192, "dtype": torch.bfloat16})
@tileflow.kernel
def turned_adam(g, q, m, row, column, step: int, beta1: float, beta2: float):
    """Vyas and others, 2024 (SOAP, of one side, its second moment factored): Adam in the basis that q turns to."""
    rows, columns = g.shape
    out = torch.empty_like(g)
    of_row, of_column = torch.zeros_like(row), torch.zeros_like(column)
    for tr, tc in tfl.tile([rows, columns]):
        turned = tfl.zeros([tr, tc])
        for tk in tfl.tile(rows):
            turned += q[tk, tr].T @ g[tk, tc]
        m[tr, tc] = beta1 * m[tr, tc] + (1 - beta1) * turned
        tfl.atomic_add(of_row, [tr], turned.square().sum(1) / columns)
        tfl.atomic_add(of_column, [tc], turned.square().sum(0) / rows)
    row.lerp_(of_row, 1 - beta2)
    column.lerp_(of_column, 1 - beta2)
    mean = row.mean()
    for tr, tc in tfl.tile([rows, columns]):
        second = row[tr][:, None] * column[tc][None, :] / mean[()] / (1 - beta2**step)
        out[tr, tc] = m[tr, tc] / (1 - beta1**step) / (torch.sqrt(second) + 1e-8)
    return out


def make_answers(n: int, total: int) -> Any:
    offsets = torch.cat([torch.tensor([0]), torch.randint(0, total + 1, (n - 1,)).sort().values, torch.tensor([total])])
    old = -torch.rand(total) * 2
    return old + randn(total) * 0.2, old, randn(n), offsets, 0.04, 0.05


def answers_ref(new: Any, old: Any, advantage: Any, offsets: Any, low: float, high: float) -> Any:
    loss, grad = torch.zeros_like(advantage), torch.zeros_like(new)
    for i, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        length = max(b - a, 1)
        ratio = ((new[a:b] - old[a:b]).sum() / length).exp()
        free, clipped = ratio * advantage[i], ratio.clamp(1 - low, 1 + high) * advantage[i]
        loss[i] = -torch.minimum(free, clipped)
        grad[a:b] = torch.where(free <= clipped, -free / length, 0.0)
    return loss, grad


@stranger(make_answers, answers_ref, {"n": 7, "total": 131}, {"n": 4096, "total": 1 << 24}, loops=True)
@tileflow.kernel
def sequence_policy_loss(new, old, advantage, offsets, low: float, high: float):
    """Zheng and others, 2025 (GSPO): one clipped ratio for each answer, and what its tokens' gradients are."""
    n = advantage.size(0)
    loss = torch.empty(n, device=new.device)
    grad = torch.empty_like(new)
    for i in tfl.grid(n):
        start, end = offsets[i], offsets[i + 1]
        length = max(end - start, 1)
        total = 0.0
        for t in tfl.tile(start, end):
            total += (new[t] - old[t]).sum()
        ratio = torch.exp(total / length)
        free = ratio * advantage[i]
        clipped = ratio.clamp(1 - low, 1 + high) * advantage[i]
        loss[i] = -min(free, clipped)
        each = -free / length if free <= clipped else 0.0
        for t in tfl.tile(start, end):
            grad[t] = each
    return loss, grad


def odds_ref(chosen: Any, rejected: Any, lengths: Any, beta: float) -> Any:
    there = torch.arange(chosen.size(1))[None, None] < lengths[:, :, None]
    yes, no = (torch.stack([chosen, rejected], 1) * there).sum(2).div(lengths).unbind(1)
    odds = (yes - no) - (torch.log(-torch.expm1(yes)) - torch.log(-torch.expm1(no)))
    return -yes - beta * F.logsigmoid(odds), odds


@stranger(
    lambda b, t: (-torch.rand(b, t) * 2, -torch.rand(b, t) * 3, torch.randint(1, t + 1, (b, 2)).int(), 0.1),
    odds_ref,
    {"b": 11, "t": 45},
    {"b": 8192, "t": 4096},
)
@tileflow.kernel
def odds_ratio_preference(chosen, rejected, lengths, beta: float):
    """Hong, Lee and Thorne, 2024 (ORPO): the likelihood of an answer, and its odds against another one's."""
    b, t = chosen.shape
    loss = torch.empty(b, device=chosen.device)
    odds = torch.empty(b, device=chosen.device)
    for tb in tfl.tile(b):
        yes, no = tfl.zeros([tb]), tfl.zeros([tb])
        for tt in tfl.tile(t):
            yes += torch.where(tt.index[None, :] < lengths[tb, 0][:, None], chosen[tb, tt], 0.0).sum(1)
            no += torch.where(tt.index[None, :] < lengths[tb, 1][:, None], rejected[tb, tt], 0.0).sum(1)
        yes, no = yes / lengths[tb, 0], no / lengths[tb, 1]
        gain = (yes - no) - (torch.log(-torch.expm1(yes)) - torch.log(-torch.expm1(no)))
        odds[tb] = gain
        loss[tb] = -yes - beta * F.logsigmoid(gain)
    return loss, odds


def scaled_ref(dy: Any, x: Any, history: Any) -> Any:
    with torch.enable_grad():
        wide = x.float().detach().requires_grad_()
        F.gelu(wide, approximate="tanh").backward(dy.float())
    scale = 448.0 / history.amax().float()
    q = (wide.grad * scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    late = torch.cat([wide.grad.abs().amax().view(1), history[:-1].float()])
    return q, q.T.contiguous(), wide.grad.sum(0), late, 1 / scale


@stranger(
    lambda m, n, steps, dtype=torch.float32: (
        randn(m, n, dtype=dtype), randn(m, n, dtype=dtype), torch.rand(steps) + 3,
    ),
    scaled_ref,
    {"m": 21, "n": 37, "steps": 5},
    {"m": 8192, "n": 11008, "steps": 16, "dtype": torch.bfloat16},
)  # fmt: skip
@tileflow.kernel
def gelu_backward_fp8(dy, x, history):
    """Micikevicius and others, 2022 (delayed scaling): GELU's gradient in float8, both ways, and the bias's."""
    m, n = x.shape
    q = torch.empty(m, n, dtype=torch.float8_e4m3fn, device=x.device)
    turned = torch.empty(n, m, dtype=torch.float8_e4m3fn, device=x.device)
    dbias = torch.zeros(n, device=x.device)
    scale = 448.0 / history.amax()
    late = torch.roll(history, 1)
    late[0] = 0
    for tm, tn in tfl.tile([m, n]):
        a = x[tm, tn].float()
        tanh = torch.tanh(0.7978845608 * (a + 0.044715 * a * a * a))
        slope = 0.5 * (1 + tanh) + 0.5 * a * (1 - tanh * tanh) * 0.7978845608 * (1 + 0.134145 * a * a)
        grad = dy[tm, tn].float() * slope
        tfl.atomic_max(late, [0], grad.abs().amax())
        tfl.atomic_add(dbias, [tn], grad.sum(0))
        small = (grad * scale[()]).clamp(-448, 448).to(torch.float8_e4m3fn)
        q[tm, tn] = small
        turned[tn, tm] = small.T
    return q, turned, dbias, late, 1 / scale


def dithered_ref(total: Any, grads: Any, seed: int) -> None:
    word = 0xFFFFFFFF
    h = (torch.arange(total.size(0)) + seed * 0x9E3779B9) & word
    h = ((h ^ (h >> 16)) * 0x7FEB352D) & word
    h = ((h ^ (h >> 15)) * 0x846CA68B) & word
    bits = (total.float() + grads.float().sum(0)).view(torch.int32) + ((h ^ (h >> 16)) & 0xFFFF).int()
    total.copy_((bits & -65536).view(torch.float32))


@stranger(
    lambda n, micro: (randn(n, dtype=torch.bfloat16), randn(micro, n, dtype=torch.bfloat16) * 0.01, 7),
    dithered_ref,
    {"n": 211, "micro": 3},
    {"n": 1 << 26, "micro": 4},
)
@tileflow.kernel
def accumulate_dithered(total, grads, seed: int) -> None:
    """Gupta and others, 2015: sums that are kept in bfloat16, rounded by chance, which is a hash of the place."""
    for t in tfl.tile(total.size(0)):
        h = t.index.to(torch.uint32) + seed * 0x9E3779B9
        h = (h ^ (h >> 16)) * 0x7FEB352D
        h = (h ^ (h >> 15)) * 0x846CA68B
        h = h ^ (h >> 16)
        new = total[t].float() + grads[:, t].float().sum(0)
        bits = new.view(torch.int32) + (h & 0xFFFF).to(torch.int32)
        total[t] = (bits & -65536).view(torch.float32)


def make_pack(n: int, total: int) -> Any:
    middle = torch.randint(0, total + 1, (n - 1,)).sort().values
    offsets = torch.cat([torch.tensor([0]), middle, torch.tensor([total])]).int()
    return torch.rand(total) * 3, torch.rand(total) < 0.7, offsets


def pack_ref(loss: Any, keep: Any, offsets: Any) -> Any:
    n = offsets.size(0) - 1
    means, weight = torch.zeros(n, dtype=loss.dtype), torch.zeros_like(loss)
    for i, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        some = keep[a : b - 1] if b > a else keep[:0]
        count = some.sum().clamp(min=1)
        means[i] = torch.where(some, loss[a : a + some.size(0)], 0.0).sum() / count
        weight[a : a + some.size(0)] = some / (count * n)
    return means, weight, means.mean()


@stranger(make_pack, pack_ref, {"n": 9, "total": 143}, {"n": 16384, "total": 1 << 24}, loops=True)
@tileflow.kernel
def document_means(loss, keep, offsets):
    """Krell and others, 2021 (packing): documents count alike, and none's last token, whose next is another's."""
    n = offsets.size(0) - 1
    means = torch.empty(n, device=loss.device)
    weight = torch.zeros_like(loss)
    mean = torch.zeros((), device=loss.device)
    for td in tfl.tile(n):
        start = offsets[td]
        length = offsets[td + 1] - start - 1
        total, count = tfl.zeros([td]), tfl.zeros([td], dtype=torch.int32)
        for tj in tfl.jagged_tile(length):
            place = start[:, None] + tj.index[None, :]
            some = keep[place]
            total += torch.where(some, loss[place], 0.0).sum(1)
            count += some.sum(1)
        count = count.clamp(min=1)
        means[td] = total / count
        tfl.atomic_add(mean, [], (total / count).sum() / n)
        for tj in tfl.jagged_tile(length):
            place = start[:, None] + tj.index[None, :]
            weight[place] = torch.where(keep[place], 1.0 / (count * n)[:, None], 0.0)
    return means, weight, mean
