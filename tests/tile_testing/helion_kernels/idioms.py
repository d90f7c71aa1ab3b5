"""Ways of writing that published kernels of the dialect have."""

from __future__ import annotations

import itertools
import math

import helion
import helion.language as hl
import torch
import torch.nn.functional as F
from helion.autotuner import EnumFragment, PowerOfTwoFragment

# ---- options that are None, Python and device conditions mixed ----------------------------------


@helion.kernel(config=helion.Config(block_sizes=[2, 4, 32]))
def clipped_policy_loss(
    logits: torch.Tensor, selected: torch.Tensor, old: torch.Tensor | None, ref: torch.Tensor | None,
    advantages: torch.Tensor, mask: torch.Tensor | None, temperature: float, beta: float, low: float, high: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    batch, longer, vocabulary = logits.shape
    length = longer - 1
    logits = logits[:, :-1, :]
    loss = torch.zeros([batch, length], dtype=torch.float32, device=logits.device)
    clipped = torch.zeros_like(loss)
    penalty = torch.zeros_like(loss)
    for tile_b, tile_l in hl.tile([batch, length]):
        highest = hl.full([tile_b, tile_l], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_b, tile_l], dtype=torch.float32)
        for tile_v in hl.tile(vocabulary):
            part = logits[tile_b, tile_l, tile_v].to(torch.float32) / temperature
            higher = torch.maximum(highest, torch.amax(part, dim=-1))
            total = total * torch.exp(highest - higher) + torch.sum(torch.exp(part - higher[:, :, None]), dim=-1)
            highest = higher
        log_p = selected[tile_b, tile_l] - (highest + torch.log(total))
        if old is None:
            before = log_p
        else:
            before = old[tile_b, tile_l]
        ratio = torch.exp(log_p - before)
        limited = torch.clamp(ratio, 1 - low, 1 + high)
        advantage = advantages[tile_b]
        first, second = ratio * advantage[:, None], limited * advantage[:, None]
        each = -torch.minimum(first, second)
        if mask is not None:
            each *= mask[tile_b, tile_l]
        if beta != 0.0 and ref is not None:
            theirs = ref[tile_b, tile_l]
            kl = torch.exp(theirs - log_p) - (theirs - log_p) - 1
            if mask is not None:
                kl *= mask[tile_b, tile_l]
            each += beta * kl
            penalty[tile_b, tile_l] = kl
        loss[tile_b, tile_l] = each
        clipped[tile_b, tile_l] = (first < second).float()
    return loss, penalty, clipped


def clipped_policy_reference(logits, selected, old, ref, advantages, mask, temperature, beta, low, high):
    log_p = selected - torch.logsumexp(logits[:, :-1] / temperature, -1)
    ratio = torch.exp(log_p - (log_p if old is None else old))
    first, second = ratio * advantages[:, None], ratio.clamp(1 - low, 1 + high) * advantages[:, None]
    each, kl = -torch.minimum(first, second), torch.zeros_like(log_p)
    each = each if mask is None else each * mask
    if ref is not None:
        kl = torch.exp(ref - log_p) - (ref - log_p) - 1
        kl = kl if mask is None else kl * mask
        each = each + beta * kl
    return each, kl, (first < second).float()


@helion.kernel(config=helion.Config(block_sizes=[32, 32]))
def labelled_divergence(x: torch.Tensor, y: torch.Tensor, labels: torch.Tensor | None, beta: float, ignore: int):
    rows, columns = x.shape
    loss = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    grad = torch.empty_like(x)
    one = helion.cdiv(rows, rows)
    for tile_r in hl.tile(rows, block_size=one):
        if labels is not None:  # noqa: SIM102  (a question of Python, then one of the kernel)
            if labels[tile_r] == ignore:
                for tile_x in hl.tile(columns):
                    grad[tile_r, tile_x] = 0.0
                continue
        for tile_c in hl.tile(columns):
            a, b = x[tile_r, tile_c], y[tile_r, tile_c]
            p, q = torch.exp(b), torch.exp(a)
            mixed = beta * p + (1 - beta) * q
            log_m = torch.log(mixed)
            loss[tile_r, tile_c] = beta * p * b + (1 - beta) * q * a - mixed * log_m
            grad[tile_r, tile_c] = (1 - beta) * q * (a - log_m)
    return loss.sum(), grad


def labelled_reference(x, y, labels, beta, ignore):
    p, q = y.exp(), x.exp()
    mixed = beta * p + (1 - beta) * q
    keep = (labels != ignore)[:, None]
    loss = beta * p * y + (1 - beta) * q * x - mixed * mixed.log()
    return (loss * keep).sum(), (1 - beta) * q * (x - mixed.log()) * keep


# ---- rows split over programs, and partial results ----------------------------------------------


@helion.kernel(config=helion.Config(block_sizes=[16, 4]))
def rms_norm_backward(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, inverse: torch.Tensor):
    block = hl.register_block_size(x.size(0))
    grad_x = torch.empty_like(x)
    partial = x.new_empty([helion.cdiv(x.size(0), block), *weight.shape], dtype=torch.float32)
    width = hl.specialize(weight.size(0))
    for outer in hl.tile(x.size(0), block_size=block):
        total = weight.new_zeros(width, dtype=torch.float32)
        for inner in hl.tile(outer.begin, outer.end):
            row = x[inner, :].to(torch.float32)
            slope = grad[inner, :].to(torch.float32)
            scale = inverse[inner, :].to(torch.float32)
            total += (row * slope * scale).sum(0)
            w = weight[None, :].to(torch.float32)
            grad_x[inner, :] = (
                w * slope * scale - row * scale**3 * (w * slope * row).mean(-1)[:, None]
            ).to(x.dtype)  # fmt: skip
        partial[outer.id, :] = total
    return grad_x, partial.sum(0).to(weight.dtype)


def rms_norm_gradients(grad, x, weight, inverse):
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    return torch.autograd.grad(F.rms_norm(x, [x.size(1)], weight, eps=1e-5), (x, weight), grad)


@helion.kernel(
    static_shapes=True, dot_precision="ieee", config=helion.Config(block_sizes=[16, 16, 16, 8, 8], split_k=4)
)
def matmul_in_two_phases(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, k = a.shape
    n = b.size(1)
    split_k = hl.register_tunable("split_k", PowerOfTwoFragment(2, 16, 4))
    block_k = helion.next_power_of_2(helion.cdiv(k, split_k))
    parts = torch.empty((m, n, helion.cdiv(k, block_k)), device=a.device, dtype=a.dtype)
    out = torch.empty((m, n), device=a.device, dtype=a.dtype)
    for tile_m, tile_n, outer in hl.tile([m, n, k], block_size=[None, None, block_k]):
        acc = hl.zeros([tile_m, tile_n], device=a.device, dtype=a.dtype)
        for inner in hl.tile(outer.begin, outer.end):
            acc = torch.addmm(acc, a[tile_m, inner], b[inner, tile_n])
        parts[tile_m, tile_n, outer.id] = acc
    hl.barrier()
    for tile_m, tile_n in hl.tile([m, n]):
        out[tile_m, tile_n] = torch.sum(parts[tile_m, tile_n, :], dim=-1)
    return out


@helion.kernel(static_shapes=True, config=helion.Config(block_sizes=[16, 16, 16, 16]))
def squeeze_and_excite_rows(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor):
    """What one loop of the kernel stores, a later one loads."""
    m, n = x.size()
    k = a.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    c = torch.empty([m, k], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        for tile_k in hl.tile(k):
            c[tile_m, tile_k] = torch.relu(x[tile_m, :] @ a[:, tile_k])
        for tile_n in hl.tile(n):
            acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
            for tile_k in hl.tile(k):
                acc = torch.addmm(acc, c[tile_m, tile_k], b[tile_k, tile_n])
            out[tile_m, tile_n] = x[tile_m, tile_n] * torch.sigmoid(acc.to(x.dtype))
    return out, c


@helion.kernel(static_shapes=True, config=helion.Config(block_sizes=[16, 16, 16, 16, 16, 16, 16, 16]))
def squeeze_and_excite_gradient(
    grad: torch.Tensor, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d
):
    m, n = x.size()
    k = a.size(1)
    grad_cb = torch.empty([m, n], dtype=x.dtype, device=x.device)
    grad_c = torch.empty([m, k], dtype=x.dtype, device=x.device)
    grad_x = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile((m, n)):
        s = d[tile_m, tile_n]
        grad_cb[tile_m, tile_n] = grad[tile_m, tile_n] * x[tile_m, tile_n] * s * (1.0 - s)
    hl.barrier()
    for row_c, column_c in hl.tile((m, k)):
        acc = hl.zeros([row_c, column_c], dtype=torch.float32)
        for reduce_n in hl.tile(n):
            acc = torch.addmm(acc, grad_cb[row_c, reduce_n], b[column_c, reduce_n].T)
        grad_c[row_c, column_c] = acc.to(x.dtype) * (c[row_c, column_c] > 0)
    hl.barrier()
    for row_x, column_x in hl.tile((m, n)):
        acc = hl.zeros([row_x, column_x], dtype=torch.float32)
        for reduce_k in hl.tile(k):
            acc = torch.addmm(acc, grad_c[row_x, reduce_k], a[column_x, reduce_k].T)
        grad_x[row_x, column_x] = grad[row_x, column_x] * d[row_x, column_x] + acc.to(x.dtype)
    return grad_x


def squeeze_and_excite_gradient_reference(grad, x, a, b, c, d):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(x * torch.sigmoid(torch.relu(x @ a) @ b), x, grad)[0]


# ---- attention with registers split in halves, and over sparse blocks ---------------------------


@helion.kernel(
    static_shapes=True,
    configs=[
        helion.Config(
            block_sizes=[16, n], range_warp_specializes=[True, None], range_multi_buffers=[None, False],
            pid_type="persistent_interleaved", indexing="tensor_descriptor", num_warps=4, num_stages=3,
            _data_partition_factor=2, _registers=registers,
        )
        for n in [16, 32]
        for registers in [152, 192]
    ],
    autotune_accuracy_check=False,
)  # fmt: skip
def attention_in_halves(q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor):
    batch, heads, m, width = q_in.shape
    n = k_in.size(2)
    width = hl.specialize(width)
    q, k, v = q_in.reshape(-1, width), k_in.reshape(-1, width), v_in.reshape(-1, width)
    rows = q.shape[0]
    out = q.new_empty(rows, width)
    lse = q.new_empty(rows, dtype=torch.float32)
    block_m = hl.register_block_size(m)
    block_n = hl.register_block_size(n)
    assert m % block_m == 0 and n % block_n == 0
    hl.register_tunable("_data_partition_factor", EnumFragment(choices=(2,)))
    hl.register_tunable("_registers", EnumFragment(choices=(152, 192)))
    scale = 1.44269504 / math.sqrt(width)
    for tile_m in hl.tile(rows, block_size=block_m):
        highest = hl.zeros([tile_m]) - float("inf")
        total = hl.zeros([tile_m]) + 1.0
        acc = hl.zeros([tile_m, width])
        left = q[tile_m, :]
        start = tile_m.begin // m * n
        for tile_n in hl.tile(start, start + n, block_size=block_n):
            scores = hl.dot(left, k[tile_n, :].T, out_dtype=torch.float32)
            higher = torch.maximum(highest, torch.amax(scores, -1) * scale)
            p = torch.exp2(scores * scale - higher[:, None])
            correction = torch.exp2(highest - higher)
            first, second = hl.split(acc.reshape([tile_m, 2, width // 2]).permute(0, 2, 1))
            first, second = first * correction[:, None], second * correction[:, None]
            acc = hl.join(first, second).permute(0, 2, 1).reshape(acc.size(0), acc.size(1))
            acc = hl.dot(p.to(v.dtype), v[tile_n, :], acc=acc)
            total = total * correction + torch.sum(p, -1)
            highest = higher
        highest += torch.log2(total)
        lse[tile_m] = highest
        out[tile_m, :] = acc / total[:, None]
    return out.reshape(batch, heads, m, width), lse.reshape(batch, heads, m)


@helion.kernel(config=helion.Config(block_sizes=[16, 16]), autotune_accuracy_check=False)
def sparse_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score_mod, counts: torch.Tensor, blocks: torch.Tensor,
    mask_mod, size_m: int, size_n: int, scale: float, grouped: bool = False,
):  # fmt: skip
    batch, heads, m, width = query.size()
    width = hl.specialize(width)
    _, heads_k, n, _ = key.size()
    groups = heads // heads_k if grouped else 1
    out = torch.empty_like(query)
    lse = torch.empty((batch, heads, m), dtype=torch.float32, device=out.device)
    block_m = hl.register_block_size(min(256, size_m))
    block_n = hl.register_block_size(min(256, size_n))
    for tile_b, tile_h, tile_m in hl.tile([batch, heads, m], block_size=[1, 1, block_m]):
        highest = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_m, width], dtype=torch.float32)
        left = query[tile_b.begin, tile_h.begin, tile_m, :]
        row = tile_m.begin // size_m
        count = counts[tile_b.begin, tile_h.begin, row]
        for block in hl.tile(count, block_size=1):
            start = blocks[tile_b.begin, tile_h.begin, row, block.id] * size_n
            end = start + size_n
            end = torch.minimum(end, end.new_full([], n))
            for tile_n in hl.tile(start, end, block_size=block_n):
                right = key[tile_b.begin, tile_h.begin // groups, tile_n, :]
                at_b = (tile_b.begin + hl.arange(tile_b.block_size))[:, None, None, None]
                at_h = (tile_h.begin + hl.arange(tile_h.block_size))[None, :, None, None]
                at_m = (tile_m.begin + hl.arange(tile_m.block_size))[None, None, :, None]
                at_n = (tile_n.begin + hl.arange(tile_n.block_size))[None, None, None, :]
                scores = hl.zeros([tile_m, tile_n], dtype=torch.float32)
                scores = hl.dot(left, right.T, acc=scores) * scale
                score = score_mod(scores[None, None, :, :], at_b, at_h, at_m, at_n)
                score = torch.where(mask_mod(at_b, at_h, at_m, at_n), score, -float("inf"))
                scores = score.squeeze(0).squeeze(0)
                higher = torch.maximum(highest, torch.amax(scores, -1))
                p = torch.exp2(1.44269504 * (scores - higher[:, None]))
                correction = torch.exp2(1.44269504 * (highest - higher))
                highest = higher
                total = total * correction + torch.sum(p, -1)
                values = value[tile_b.begin, tile_h.begin // groups, tile_n, :]
                acc = hl.dot(p.to(values.dtype), values, acc=acc * correction[:, None])
        highest += torch.log(total)
        acc = acc / total[:, None]
        out[tile_b, tile_h, tile_m, :] = acc[None, None, :, :].to(out.dtype)
        lse[tile_b, tile_h, tile_m] = highest[None, None, :]
    return out, lse


def soft_cap(score, b, h, i, j):
    return 5.0 * torch.tanh(score / 5.0) - 0.1 * (h + 1) * (i - j)


def causal(b, h, i, j):
    return i >= j


def sparse_causal(q, k, v):
    size, n = 32, q.size(2)
    wide = -(-n // size)
    counts = (
        torch.arange(1, wide + 1, dtype=torch.int32, device=q.device).expand(q.size(0), q.size(1), wide).contiguous()
    )
    blocks = (
        torch.arange(wide, dtype=torch.int32, device=q.device).expand(q.size(0), q.size(1), wide, wide).contiguous()
    )
    return sparse_attention(q, k, v, soft_cap, counts, blocks, causal, size, size, 1 / math.sqrt(q.size(3)), True)


def sparse_reference(q, k, v):
    k, v = (t.repeat_interleave(q.size(1) // t.size(1), 1) for t in (k, v))
    i, j = torch.arange(q.size(2))[:, None], torch.arange(q.size(2))[None, :]
    heads = torch.arange(q.size(1))[:, None, None]
    scores = soft_cap(q @ k.transpose(2, 3) / math.sqrt(q.size(3)), 0, heads, i, j)
    scores = scores.masked_fill(i < j, -float("inf"))
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)


# ---- jagged rows with products ------------------------------------------------------------------


@helion.kernel(config=helion.Config(block_sizes=[2, 16, 16]))
def jagged_attention(length: int, alpha: float, q, k, v, offsets: torch.Tensor) -> torch.Tensor:
    scale = 1.0 / length
    heads = hl.specialize(q.size(1))
    batches = hl.specialize(offsets.size(0) - 1)
    width = hl.specialize(v.size(2))
    q_flat, k_flat, v_flat = q.view(-1), k.view(-1), v.view(-1)
    out = torch.zeros_like(v)
    flat = out.view(-1)
    for tile_b, tile_h in hl.tile([batches, heads], block_size=[None, 1]):
        starts = offsets[tile_b]
        lengths = offsets[tile_b.index + 1] - starts
        for tile_q in hl.jagged_tile(lengths):
            columns = hl.arange(width)
            base = (starts[:, None] + tile_q.index[None, :]) * heads + tile_h.begin
            at_q = base[:, :, None] * width + columns[None, None, :]
            left = hl.load(q_flat, [at_q])
            acc = hl.zeros([tile_b, tile_q, width], dtype=torch.float32)
            for tile_k in hl.jagged_tile(lengths):
                base = (starts[:, None] + tile_k.index[None, :]) * heads + tile_h.begin
                at_k = base[:, :, None] * width + columns[None, None, :]
                right, values = hl.load(k_flat, [at_k]), hl.load(v_flat, [at_k])
                scores = F.silu(torch.matmul(left, right.transpose(1, 2)) * alpha) * scale
                scores = torch.where(tile_q.index[:, None] >= tile_k.index[None, :], scores, 0.0)
                acc = hl.dot(scores.to(v.dtype), values, acc=acc)
            hl.store(flat, [at_q], acc.to(out.dtype))
    return out


def jagged_attention_reference(length, alpha, q, k, v, offsets):
    out = torch.zeros_like(v)
    for a, b in zip(offsets.tolist(), offsets.tolist()[1:], strict=False):
        left, right, values = (t[a:b].transpose(0, 1) for t in (q, k, v))
        scores = F.silu(left @ right.transpose(1, 2) * alpha) / length
        out[a:b] = (scores.tril() @ values).transpose(0, 1)
    return out


@helion.kernel(config=helion.Config(block_sizes=[2, 16, 16, 16]))
def jagged_dense_bmm(offsets: torch.Tensor, jagged: torch.Tensor, dense: torch.Tensor, bias: torch.Tensor | None):
    total, d = jagged.shape
    batch, d, k = dense.shape
    flat = jagged.view(-1)
    out = torch.empty((total, k), dtype=jagged.dtype, device=jagged.device).view(-1)
    for tile_b in hl.tile(batch):
        starts = offsets[tile_b]
        lengths = offsets[tile_b.index + 1] - starts
        for tile_l in hl.jagged_tile(lengths):
            rows = starts[:, None] + tile_l.index[None, :]
            for tile_k in hl.tile(0, k):
                acc = hl.zeros([tile_b, tile_l, tile_k], dtype=jagged.dtype, device=jagged.device)
                for tile_d in hl.tile(0, d):
                    part = hl.load(flat, [rows[:, :, None] * d + tile_d.index[None, None, :]])
                    acc = acc + torch.matmul(part, dense[tile_b, tile_d, tile_k])
                if bias is not None:
                    acc = acc + bias[tile_b, tile_k].unsqueeze(1)
                hl.store(out, [rows[:, :, None] * k + tile_k.index[None, None, :]], acc)
    return out.reshape(total, k)


def jagged_dense_reference(offsets, jagged, dense, bias):
    ends = offsets.tolist()
    return torch.cat([jagged[a:b] @ dense[i] + bias[i] for i, (a, b) in enumerate(itertools.pairwise(ends))])


# ---- the rest -----------------------------------------------------------------------------------


@helion.kernel(config=helion.Config(block_sizes=[16, 16, 16]))
def chunk_state(b: torch.Tensor, x: torch.Tensor, dt: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    batch, _, groups, state = b.shape
    _, _length, heads, width = x.shape
    _, _, chunks, size = dt.shape
    block_m = hl.register_block_size(width)
    block_n = hl.register_block_size(state)
    block_k = hl.register_block_size(size)
    out = b.new_empty(batch, chunks, heads, width, state)
    for tile_h, tile_m, tile_n, tile_b, tile_c in hl.tile(
        [heads, width, state, batch, chunks], block_size=[1, block_m, block_n, 1, 1]
    ):
        last = decay[tile_b.begin, tile_h.begin, tile_c.begin, size - 1].to(torch.float32)
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(size, block_size=block_k):
            part = x[tile_b.begin, tile_k.index + tile_c.begin * size, tile_h.begin, tile_m]
            here = decay[tile_b.begin, tile_h.begin, tile_c.begin, tile_k].to(torch.float32)
            scale = torch.exp(last - here) * dt[tile_b.begin, tile_h.begin, tile_c.begin, tile_k]
            part = (part.T * scale[None, :]).to(b.dtype)
            group = tile_h.begin // (heads // groups)
            acc = hl.dot(part, b[tile_b.begin, tile_c.begin * size + tile_k.index, group, tile_n], acc=acc)
        out[tile_b.begin, tile_c.begin, tile_h.begin, tile_m, tile_n] = acc.to(b.dtype)
    return out


def chunk_state_reference(b, x, dt, decay):
    batch, chunks, size = x.size(0), dt.size(2), dt.size(3)
    b = b.repeat_interleave(x.size(2) // b.size(2), 2).reshape(batch, chunks, size, x.size(2), -1)
    x = x.reshape(batch, chunks, size, x.size(2), -1)
    return torch.einsum("bclhn,bhcl,bhcl,bclhp->bchpn", b, torch.exp(decay[..., -1:] - decay), dt, x)


@helion.kernel(config=helion.Config(block_sizes=[8, 8, 2]))
def table_gemm(a: torch.Tensor, packed: torch.Tensor, table: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    m, groups, _ = a.shape
    n = packed.size(2)
    out = torch.empty([m, n], dtype=torch.float32, device=a.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(groups):
            scale = scales[tile_k.index[:, None] * n + tile_n.index[None, :]].to(torch.float32)
            for byte in hl.static_range(4):
                both = packed[tile_k, byte, tile_n].to(torch.int32)
                low, high = table[both & 15], table[(both >> 4) & 15]
                even = a[tile_m, tile_k, byte * 2].to(torch.float32)
                odd = a[tile_m, tile_k, byte * 2 + 1].to(torch.float32)
                part = even.unsqueeze(2) * low.unsqueeze(0) + odd.unsqueeze(2) * high.unsqueeze(0)
                acc = acc + (part * scale.unsqueeze(0)).sum(dim=1)
        out[tile_m, tile_n] = acc
    return out


def table_reference(a, packed, table, scales):
    _m, groups, width = a.shape
    both = packed.int()
    whole = torch.stack([table[both & 15], table[both >> 4]], dim=2).reshape(groups, width, -1)
    return torch.einsum("mgk,gkn->mn", a.float(), whole * scales.float().view(groups, 1, -1))


@helion.kernel(config=helion.Config(block_sizes=[2]))
def distilled(beta: float, temperature: float, student: torch.Tensor, teacher: torch.Tensor):
    rows, _ = student.size()
    loss = student.new_empty(rows, dtype=torch.float)
    grad = torch.empty_like(student, dtype=torch.float)
    for tile in hl.tile(rows):
        ours, theirs = student[tile, :] / temperature, teacher[tile, :] / temperature
        p, q = torch.softmax(ours.to(torch.float), dim=-1), torch.softmax(theirs.to(torch.float), dim=-1)
        log_p, log_q = torch.log_softmax(ours.float(), dim=-1), torch.log_softmax(theirs.float(), dim=-1)
        mixed = (1 - beta) * p + beta * q
        log_m = torch.log(mixed)
        loss[tile] = (1 - beta) * (p * (log_p - log_m)).sum(dim=-1) + beta * (q * (log_q - log_m)).sum(dim=-1)
        grad[tile, :] = ((1 - beta) / temperature) * (p - mixed)
    return loss, grad


def distilled_reference(beta, temperature, student, teacher):
    p, q = torch.softmax(student / temperature, -1), torch.softmax(teacher / temperature, -1)
    mixed = (1 - beta) * p + beta * q
    loss = (1 - beta) * (p * (p / mixed).log()).sum(-1) + beta * (q * (q / mixed).log()).sum(-1)
    return loss, (1 - beta) / temperature * (p - mixed)


@helion.kernel(config=helion.Config(block_sizes=[8]))
def every_other_row(x: torch.Tensor, scale: list[torch.Tensor]) -> torch.Tensor:
    out = torch.zeros_like(x)
    for row in hl.grid(0, x.size(0), 2):
        for tile in hl.tile(0, x.size(1), 8):
            total = x[row, tile]
            for factor in scale:
                total = total * factor[tile]
            out[row, tile] = total
        for tile in hl.tile(x.size(1)):
            out[row, tile] += 1.0
    return out


def every_other_reference(x, scale):
    out = torch.zeros_like(x)
    out[::2] = x[::2] * scale[0] * scale[1] + 1
    return out


@helion.kernel(config=helion.Config(block_sizes=[8, 8]))
def inline_text(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        value = x[tile]
        kept = hl.inline_triton(
            """
            total = {lhs} + {rhs} * 2
            tl.where(total > 0, total, 0.0)
            """,
            args={"lhs": value, "rhs": y[tile]},
            output_like=value,
        )
        out[tile] = hl.triton_kernel(TRITON, args=(kept, 1.0), output_like=value)
    return out


TRITON = """
def shifted(a, by):
    return a + by
"""


@helion.kernel(config=helion.Config(block_sizes=[8]))
def powers(x: torch.Tensor, exponent: hl.constexpr, negate: hl.constexpr) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        value = x[tile]
        result = torch.ones_like(value)
        for _ in range(exponent):
            result = result * value
        out[tile] = -result if negate else result
    return out


def cases():
    f = torch.randn
    logits, chosen = f(3, 6, 70), f(3, 5)
    mask = torch.rand(3, 5) > 0.3
    yield (
        "clipped_policy_loss", clipped_policy_loss,
        (logits, chosen, chosen - 4 + 0.3 * f(3, 5), chosen - 4.5, f(3), mask.float(), 0.9, 0.04, 0.2, 0.4),
        clipped_policy_reference,
    )  # fmt: skip
    yield (
        "clipped_policy_loss_alone", clipped_policy_loss,
        (logits, chosen, None, None, f(3), None, 0.9, 0.0, 0.2, 0.4), clipped_policy_reference,
    )  # fmt: skip
    p, q = f(5, 40).log_softmax(1), f(5, 40).log_softmax(1)
    labels = torch.tensor([1, -100, 3, -100, 4])
    yield "labelled_divergence", labelled_divergence, (p, q, labels, 0.5, -100), labelled_reference
    x = f(37, 20)
    inverse = torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-5)
    yield "rms_norm_backward", rms_norm_backward, (f(37, 20), x, f(20), inverse), rms_norm_gradients
    yield "matmul_in_two_phases", matmul_in_two_phases, (f(17, 50), f(50, 20)), torch.matmul
    x, a, b = f(17, 32), f(32, 20), f(20, 32)
    c = torch.relu(x @ a)
    yield "squeeze_and_excite_rows", squeeze_and_excite_rows, (x, a, b), lambda x, a, b: (
        x * torch.sigmoid(torch.relu(x @ a) @ b), torch.relu(x @ a),
    )  # fmt: skip
    yield (
        "squeeze_and_excite_gradient", squeeze_and_excite_gradient, (f(17, 32), x, a, b, c, torch.sigmoid(c @ b)),
        squeeze_and_excite_gradient_reference,
    )  # fmt: skip
    q, k, v = (f(1, 2, n, 32).half() for n in (32, 64, 64))
    yield (
        "attention_in_halves", attention_in_halves, (q, k, v),
        lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), None),
    )  # fmt: skip
    yield "sparse_attention", sparse_causal, (f(1, 4, 50, 16), f(1, 2, 50, 16), f(1, 2, 50, 16)), sparse_reference
    offsets = torch.tensor([0, 5, 24, 24, 31])
    q, k, v = f(31, 2, 16), f(31, 2, 16), f(31, 2, 16)
    yield "jagged_attention", jagged_attention, (20, 0.25, q, k, v, offsets), jagged_attention_reference
    yield (
        "jagged_dense_bmm", jagged_dense_bmm, (offsets, f(31, 20), f(4, 20, 24), f(4, 24)), jagged_dense_reference,
    )  # fmt: skip
    yield (
        "chunk_state", chunk_state, (f(1, 64, 1, 16), f(1, 64, 2, 20), f(1, 2, 2, 32), 0.1 * f(1, 2, 2, 32)),
        chunk_state_reference,
    )  # fmt: skip
    yield (
        "table_gemm", table_gemm,
        (f(9, 3, 8).bfloat16(), torch.randint(0, 256, (3, 4, 20), dtype=torch.uint8), f(16), torch.rand(60).half()),
        table_reference,
    )  # fmt: skip
    yield "every_other_row", every_other_row, (f(7, 20), [f(20), f(20)]), every_other_reference
    yield "inline_text", inline_text, (f(7, 20), f(7, 20)), lambda a, b: torch.relu(a + 2 * b) + 1
    yield "distilled", distilled, (0.3, 2.0, f(5, 50), f(5, 50)), distilled_reference
    yield "powers", powers, (f(20), 3, True), lambda x, n, negate: -(x**n)
    yield "powers_of_constants", powers, (f(20), hl.constexpr(2), hl.constexpr(False)), lambda x, n, negate: x**2
