"""What libraries for language models publish: decoding behind a shared prefix, windows of compressed keys, states that
requests keep, losses of preference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


@dataclass(frozen=True)
class Compression:
    """How long windows of keys are, how far they begin from one another, and what stands between the two layers."""

    block: int = 8
    stride: int = 4
    activation: Callable[[torch.Tensor], torch.Tensor] = F.silu

    def windows(self, time: int) -> int:
        return (time - self.block) // self.stride + 1


def make_compression(b: int, t: int, h: int, d: int, hidden: int, dtype: Any) -> Any:
    c = Compression()
    w1, w2 = randn(c.block, d, hidden, dtype=dtype) / math.sqrt(c.block * d), randn(hidden, d, dtype=dtype)
    return randn(b, t, h, d, dtype=dtype), randn(c.block, d, dtype=dtype), w1, w2 / math.sqrt(hidden), c


def compression_ref(k: Any, places: Any, w1: Any, w2: Any, how: Compression) -> Any:
    windows = k.unfold(1, how.block, how.stride).movedim(-1, 3)  # batch, window, head, place, d
    windows = windows[:, : how.windows(k.size(1))] + places
    return how.activation(windows.flatten(3) @ w1.flatten(0, 1)) @ w2


@stranger(
    make_compression,
    compression_ref,
    {"b": 2, "t": 37, "h": 3, "d": 16, "hidden": 24, "dtype": torch.float32},
    {"b": 4, "t": 8192, "h": 4, "d": 128, "hidden": 256, "dtype": torch.bfloat16},
)
@tileflow.kernel
def compress_key_blocks(k, places, w1, w2, how: Compression):
    """Native sparse attention (Yuan et al., 2025): windows of keys that overlap become one key each, by a small MLP."""
    batch, time, heads, d = k.shape
    count = how.windows(time)
    out = k.new_empty(batch, count, heads, d)
    for b, h in tfl.grid([batch, heads]):
        for t in tfl.tile(count):
            hidden = tfl.zeros([t, w1.size(2)])
            for i in range(how.block):
                token = k[b, t.index * how.stride + i, h, :] + places[i, :]
                hidden = hidden + token.to(k.dtype) @ w1[i, :, :]
            out[b, t, h, :] = how.activation(hidden).to(k.dtype) @ w2[:, :]
    return out


class Keys(NamedTuple):
    k: torch.Tensor
    v: torch.Tensor


class Softmax(NamedTuple):
    most: torch.Tensor
    total: torch.Tensor
    mixed: torch.Tensor

    def plus(self, score: torch.Tensor, v: torch.Tensor) -> Softmax:
        most = torch.maximum(self.most, score.amax(-1))
        old, p = torch.exp(self.most - most), torch.exp(score - most[:, None])
        return Softmax(most, self.total * old + p.sum(-1), self.mixed * old[:, None] + p.to(v.dtype) @ v)


def make_cascade(b: int, h: int, hk: int, s: int, own: int, d: int, dtype: Any) -> Any:
    shared = Keys(randn(s, hk, d, dtype=dtype), randn(s, hk, d, dtype=dtype))
    mine = Keys(*(randn(b, own, hk, d).to(torch.float8_e4m3fn) for _ in range(2)))
    return randn(b, h, d, dtype=dtype), shared, mine, torch.randint(1, own + 1, (b,)).int(), torch.tensor([0.75])[0]


def cascade_ref(q: Any, shared: Any, own: Any, lengths: Any, own_scale: Any) -> Any:
    b, h, d = q.shape
    groups = h // shared.k.size(1)
    k = torch.cat([shared.k.to(q.dtype).expand(b, -1, -1, -1), own.k.to(q.dtype) * own_scale], 1)
    v = torch.cat([shared.v.to(q.dtype).expand(b, -1, -1, -1), own.v.to(q.dtype) * own_scale], 1)
    score = torch.einsum("bhd,bshd->bhs", q, k.repeat_interleave(groups, 2)) / math.sqrt(d)
    past = torch.arange(k.size(1))[None, :] >= shared.k.size(0) + lengths[:, None]
    p = score.masked_fill(past[:, None, :], -math.inf).softmax(-1)
    return torch.einsum("bhs,bshd->bhd", p, v.repeat_interleave(groups, 2))


@stranger(
    make_cascade,
    cascade_ref,
    {"b": 5, "h": 6, "hk": 2, "s": 21, "own": 19, "d": 16, "dtype": torch.float32},
    {"b": 128, "h": 32, "hk": 8, "s": 4096, "own": 512, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def cascade_decode(q: torch.Tensor, shared: Keys, own: Keys, lengths: torch.Tensor, own_scale: torch.Tensor):
    """Cascade inference (FlashInfer, 2024): all requests read the shared prefix together, then each what it has alone,
    in 8 bits."""
    batch, heads, d = q.shape
    length, kv_heads, _ = shared.k.shape
    groups = heads // kv_heads
    scale = d**-0.5
    rows = q.view(batch, kv_heads, groups, d).transpose(0, 1).reshape(kv_heads, batch * groups, d)
    most = torch.empty(kv_heads, batch * groups, device=q.device)
    total = torch.empty_like(most)
    mixed = torch.empty(kv_heads, batch * groups, d, device=q.device)
    for h in tfl.grid(kv_heads):
        for r in tfl.tile(batch * groups):
            state = Softmax(tfl.full([r], -math.inf), tfl.zeros([r]), tfl.zeros([r, d]))
            for s in tfl.tile(length):
                score = rows[h, r, :] @ shared.k[s, h, :].T * scale
                state = state.plus(score.float(), shared.v[s, h, :])
            most[h, r], total[h, r], mixed[h, r, :] = state
    out = torch.empty_like(q)
    for b, h in tfl.grid([batch, kv_heads]):
        mine = slice(b * groups, (b + 1) * groups)
        state = Softmax(most[h, mine], total[h, mine], mixed[h, mine, :])
        for s in tfl.tile(lengths[b]):
            k = (own.k[b, s, h, :].float() * own_scale).to(q.dtype)
            v = (own.v[b, s, h, :].float() * own_scale).to(q.dtype)
            score = (rows[h, mine, :] @ k.T).float() * scale
            score = torch.where(s.index < lengths[b], score, -math.inf)
            state = state.plus(score, v)
        out[b, h * groups : (h + 1) * groups, :] = state.mixed / state.total[:, None]
    return out


class Preference(Enum):
    KTO = "kto"
    APO_ZERO = "apo_zero_unpaired"


def make_kto(b: int, t: int, v: int, dtype: Any) -> Any:
    targets = torch.randint(0, v, (b, t))
    targets[torch.rand(b, t) < 0.3] = -100
    return randn(b, t, v, dtype=dtype), -3 * torch.rand(b) * t, targets, torch.rand(b) < 0.5, torch.tensor(0.3)


def kto_ref(logits: Any, reference: Any, targets: Any, liked: Any, kl: Any, beta: float = 0.1) -> Any:
    nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="none")
    ratio = -nll.view(targets.shape).sum(1) - reference
    loss = torch.where(liked, 1 - torch.sigmoid(beta * (ratio - kl)), 1 - torch.sigmoid(beta * (kl - ratio)))
    return loss, beta * ratio


@stranger(
    make_kto,
    kto_ref,
    {"b": 3, "t": 11, "v": 43, "dtype": torch.float32},
    {"b": 8, "t": 1024, "v": 32000, "dtype": torch.bfloat16},
)
@tileflow.kernel
def kto_loss(
    logits: torch.Tensor,
    reference: torch.Tensor,
    targets: torch.Tensor,
    liked: torch.Tensor,
    kl: torch.Tensor,
    beta: float = 0.1,
    *,
    kind: Preference = Preference.KTO,
    ignore_index: int = -100,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ethayarajh et al., 2024: each answer alone was liked or was not."""
    batch, time, _ = logits.shape
    loss = torch.empty(batch, dtype=torch.float32, device=logits.device)
    reward = torch.empty_like(loss)
    for b in tfl.grid(batch):
        total = 0.0
        for t in tfl.tile(time):
            label = targets[b, t]
            counted = label != ignore_index
            log_p = torch.log_softmax(logits[b, t, :].float(), dim=-1)
            picked = torch.gather(log_p, 1, torch.where(counted, label, 0)[:, None]).squeeze(1)
            total += torch.where(counted, picked, 0.0).sum()
        ratio = total - reference[b]
        reward[b] = beta * ratio
        if kind is Preference.KTO:
            margin = ratio - kl
            loss[b] = 1 - torch.sigmoid(beta * margin if liked[b] else -beta * margin)
        elif kind == Preference.APO_ZERO:
            loss[b] = 1 - torch.sigmoid(beta * ratio) if liked[b] else torch.sigmoid(beta * ratio)
        else:
            raise ValueError(f"unknown preference {kind}")
    return loss, reward


def tvd_ref(student: Any, teacher: Any, labels: Any = None, reduction: str = "batchmean", ignore: int = -100) -> Any:
    apart = (student.softmax(-1) - teacher.softmax(-1)).abs().sum(-1) / 2
    if labels is not None:
        apart = torch.where(labels == ignore, 0.0, apart)
    if reduction == "none":
        return apart
    count = apart.numel() if labels is None else (labels != ignore).sum()
    return apart.sum() / count if reduction == "batchmean" else apart.sum()


def make_tvd(n: int, v: int, dtype: Any) -> Any:
    return (
        randn(n, v, dtype=dtype),
        randn(n, v, dtype=dtype),
        torch.randint(-1, v, (n,)).masked_fill_(torch.rand(n) < 0.2, -100),
    )


@stranger(
    make_tvd, tvd_ref, {"n": 13, "v": 101, "dtype": torch.float32}, {"n": 4096, "v": 32000, "dtype": torch.bfloat16}
)
@tileflow.kernel
def total_variation(student, teacher, labels=None, reduction="batchmean", ignore=-100):
    """Half the absolute difference of two distributions, of tokens that count (Wen et al., 2023)."""
    if reduction not in {"none", "sum", "batchmean"}:
        raise ValueError(reduction)
    n = len(student)
    loss = torch.empty(n, device=student.device)
    counts = torch.empty(n, device=student.device)
    for t in tfl.tile(n):
        p, q = (F.softmax(logits[t, :].float(), dim=-1) for logits in (student, teacher))
        apart = 0.5 * (p - q).abs().sum(dim=-1)
        counted = 1.0
        if labels is not None:
            counted = torch.where(labels[t] != ignore, 1.0, 0.0)
        loss[t] = apart * counted
        counts[t] = counted
    if reduction == "none":
        return loss
    return loss.sum() / counts.sum() if reduction == "batchmean" else loss.sum()


def sparsemax_ref(x: Any) -> Any:
    z = x.sort(-1, descending=True)[0]
    k = torch.arange(1, x.size(-1) + 1)
    c = z.cumsum(-1)
    size = (1 + k * z > c).sum(-1, keepdim=True)
    return (x - (c.gather(-1, size - 1) - 1) / size).clamp(min=0)


@stranger(
    lambda n, v, dtype: (randn(n, v, dtype=dtype),),
    sparsemax_ref,
    {"n": 7, "v": 37, "dtype": torch.float32},
    {"n": 8192, "v": 1000, "dtype": torch.bfloat16},
)
@tileflow.kernel
def sparsemax(x):
    """Martins and Astudillo, 2016: the nearest point of the simplex."""
    out = torch.empty_like(x)
    for t in tfl.tile(len(x)):
        r = x[t, :].float()
        z = r.sort(-1, descending=True).values
        inside = 1 + torch.arange(1, 1 + x.shape[1]) * z > z.cumsum(-1)
        k = inside.sum(-1, keepdim=True)
        tau = ((z * inside).sum(-1, keepdim=True) - 1) / k
        out[t, :] = (r - tau).relu()
    return out


def make_ragged_conv(lengths: Any, dim: int, width: int, slots: int, dtype: Any) -> Any:
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    x = randn(int(starts[-1]), dim, dtype=dtype).T
    which = torch.randperm(slots)[: len(lengths)].int()
    which[1] = -1
    begun = torch.arange(len(lengths)) % 3 != 0
    states = randn(slots, dim, width - 1, dtype=dtype)
    return x, randn(dim, width, dtype=dtype), randn(dim, dtype=dtype), starts, states, which, begun


def ragged_conv_ref(
    x: Any, weight: Any, bias: Any, starts: Any, states: Any, slots: Any = None, begun: Any = None, act: Any = "silu"
) -> Any:
    out, width = torch.zeros_like(x), weight.size(1)
    for i, (begin, end) in enumerate(zip(starts.tolist()[:-1], starts.tolist()[1:], strict=True)):
        slot = i if slots is None else int(slots[i])
        if slot < 0:
            continue
        old = states[slot] if begun is not None and begun[i] else torch.zeros_like(states[slot])
        wide = torch.cat([old, x[:, begin:end]], 1)
        y = F.conv1d(wide[None], weight[:, None], bias, groups=len(x))[0]
        out[:, begin:end] = F.silu(y) if act in ("silu", "swish") else y
        states[slot] = wide[:, -(width - 1) :]
    return out


@stranger(
    make_ragged_conv,
    ragged_conv_ref,
    {"lengths": (5, 3, 1, 17, 2), "dim": 19, "width": 4, "slots": 7, "dtype": torch.float32},
    {"lengths": (911, 2048, 17, 1, 4096) * 6, "dim": 4096, "width": 4, "slots": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def ragged_causal_conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    starts: torch.Tensor,
    states: torch.Tensor,
    slots: torch.Tensor | None = None,
    begun: torch.Tensor | None = None,
    activation: str | None = "silu",
    pad_slot_id: int = -1,
):
    """Mamba's convolution over requests that lie one behind another, each with what its slot kept of the last call."""
    dim, _ = x.shape
    width = weight.size(1)
    out = torch.zeros_like(x)
    for i in tfl.grid(starts.size(0) - 1):
        for d in tfl.tile(dim):
            slot = slots[i] if slots is not None else i
            if slot != pad_slot_id:
                begin, end = starts[i], starts[i + 1]
                fresh = True if begun is None else ~begun[i]
                history = [torch.where(fresh, 0.0, states[slot, d, j].float()) for j in range(width - 1)]
                last = list(history)
                for t in tfl.grid(begin, end):
                    last.append(x[d, t].float())
                    y = sum(tap * weight[d, j] for j, tap in enumerate(last))
                    if bias is not None:
                        y = y + bias[d]
                    out[d, t] = F.silu(y) if activation in ("silu", "swish") else y
                    last.pop(0)
                for j in range(width - 1):
                    states[slot, d, j] = last[j]
    return out


def make_states(b: int, slots: int, h: int, p: int, n: int, g: int, dtype: Any) -> Any:
    dt = torch.randn(b, h, 1).expand(b, h, p)
    a = -torch.rand(h)[:, None, None].expand(h, p, n)
    d, bias = torch.randn(h, 1).expand(h, p), torch.randn(h, 1).expand(h, p)
    x, z = randn(b, h, p, dtype=dtype), randn(b, h, p, dtype=dtype)
    wide = randn(b, 2 * g * n, dtype=dtype)
    to, by = wide.view(b, 2, g, n).unbind(1)
    which = torch.randperm(slots)[:b].int()
    return randn(slots, h, p, n, dtype=dtype), x, dt, a, to, by, d, z, bias, True, which


def states_ref(
    state: Any, x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any, soft: Any, which: Any
) -> Any:
    dt = F.softplus(dt + bias) if soft else dt + bias
    per = x.size(1) // b.size(1)
    b, c = b.repeat_interleave(per, 1), c.repeat_interleave(per, 1)
    new = state[which.long()] * torch.exp(dt[..., None] * a) + (dt * x)[..., None] * b[:, :, None, :]
    state[which.long()] = new.to(state.dtype)
    return ((new * c[:, :, None, :]).sum(-1) + x * d) * F.silu(z)


@stranger(
    make_states,
    states_ref,
    {"b": 3, "slots": 5, "h": 4, "p": 12, "n": 20, "g": 2, "dtype": torch.float32},
    {"b": 256, "slots": 300, "h": 64, "p": 64, "n": 128, "g": 8, "dtype": torch.bfloat16},
)
@tileflow.kernel
def update_states(state, x, dt, A, B, C, D=None, z=None, dt_bias=None, dt_softplus=False, state_batch_indices=None):
    """One token of Mamba-2: states in the slots of their requests, steps and decays that one number stands for."""
    batch, nheads, dim = x.shape
    ratio = nheads // B.size(1)
    out = torch.empty_like(x)
    for b, h in tfl.grid([batch, nheads]):
        slot = b if state_batch_indices is None else state_batch_indices[b]
        for p in tfl.tile(dim):
            step = dt[b, h, p].float()
            if dt_bias is not None:
                step += dt_bias[h, p]
            if dt_softplus:
                step = F.softplus(step)
            dA = torch.exp(A[h, p, :] * step[:, None])
            dB = B[b, h // ratio, :][None, :] * step[:, None]
            s = state[slot, h, p, :] * dA + dB * x[b, h, p][:, None]
            state[slot, h, p, :] = s
            y = (s * C[b, h // ratio, :]).sum(-1)
            y = y if D is None else y + x[b, h, p] * D[h, p]
            out[b, h, p] = y if z is None else y * F.silu(z[b, h, p].float())
    return out


def make_kda(b: int, h: int, t: int, k: int, v: int, dtype: Any) -> Any:
    q, key, g = (torch.randn(b, h, t, k) for _ in range(3))
    heads = [F.normalize(q, dim=-1), F.normalize(key, dim=-1), torch.randn(b, h, t, v), F.logsigmoid(g)]
    return *(x.to(dtype).transpose(1, 2) for x in heads), torch.rand(b, h, t).to(dtype).transpose(1, 2)


def kda_ref(q: Any, k: Any, v: Any, g: Any, beta: Any) -> Any:
    state = torch.zeros(q.size(0), q.size(2), q.size(3), v.size(3), dtype=q.dtype)
    out = []
    for t in range(q.size(1)):
        state = state * g[:, t].exp()[..., None]
        error = v[:, t] - (state * k[:, t][..., None]).sum(2)
        state = state + k[:, t][..., None] * (beta[:, t][..., None] * error)[..., None, :]
        out.append((state * q[:, t][..., None]).sum(2) * q.size(-1) ** -0.5)
    return torch.stack(out, 1), state


@stranger(
    make_kda,
    kda_ref,
    {"b": 2, "h": 3, "t": 9, "k": 16, "v": 20, "dtype": torch.float32},
    {"b": 4, "h": 16, "t": 2048, "k": 128, "v": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def channel_gated_delta(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Kimi Delta Attention (2025): the delta rule, where each channel of the keys forgets by a gate of its own."""
    B, T, H, K = q.shape
    V = v.shape[-1]
    if scale is None:
        scale = 1.0 / (K**0.5)
    o: torch.Tensor = torch.empty((B, T, H, V), dtype=v.dtype, device=v.device)
    final_state: torch.Tensor = torch.empty((B, H, K, V), dtype=torch.float32, device=v.device)
    for i_b, i_h in tfl.grid([B, H]):
        for t_v in tfl.tile(V):
            b_S: torch.Tensor = tfl.zeros([K, t_v], dtype=torch.float32)
            if initial_state is not None:
                b_S = initial_state[i_b, i_h, :, t_v].to(torch.float32)
            for i_t in range(T):
                b_q = q[i_b, i_t, i_h, :].to(torch.float32) * scale
                b_k = k[i_b, i_t, i_h, :].to(torch.float32)
                b_v = v[i_b, i_t, i_h, t_v].to(torch.float32)
                b_g = g[i_b, i_t, i_h, :].to(torch.float32)
                b_beta = beta[i_b, i_t, i_h].to(torch.float32)
                b_S = b_S * torch.exp(b_g).unsqueeze(-1)
                b_error = b_v - torch.sum(b_S * b_k.unsqueeze(-1), dim=0)
                b_S = b_S + b_k.unsqueeze(-1) * (b_beta * b_error).unsqueeze(0)
                o[i_b, i_t, i_h, t_v] = torch.sum(b_S * b_q.unsqueeze(-1), dim=0).to(o.dtype)
            final_state[i_b, i_h, :, t_v] = b_S
    return o, final_state
