"""What libraries for language models publish about weights: rows in 8 bits beside columns that are too large for them,
blocks of bytes with scales of their own, products of several sizes, steps that round by chance, layers that are left
out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_outliers(m: int, n: int, k: int, o: int) -> Any:
    x = torch.randn(m, k)
    where = torch.randperm(k)[:o].sort().values
    x[:, where] *= 20
    odd = torch.zeros(k, dtype=torch.bool)
    odd[where] = True
    w = torch.randint(-127, 128, (n, k)).to(torch.int8)
    w[:, where] = 0
    return x.half(), w, torch.rand(n) / 100, randn(n, o, dtype=torch.float16), where, odd


def outliers_ref(x: Any, w: Any, w_scale: Any, w_odd: Any, where: Any, odd: Any) -> Any:
    usual = x.float().masked_fill(odd, 0.0)
    scale = usual.abs().amax(1).clamp(min=1e-6) / 127
    rounded = torch.round(usual / scale[:, None])
    whole = rounded.double() @ w.double().T
    return (whole.float() * scale[:, None] * w_scale + x[:, where].float() @ w_odd.float().T).half()


@stranger(
    make_outliers,
    outliers_ref,
    {"m": 9, "n": 21, "k": 70, "o": 5},
    {"m": 2048, "n": 4096, "k": 4096, "o": 24},
)
@tileflow.kernel
def outlier_linear(x, w, w_scale, w_odd, where, odd):
    """LLM.int8 (Dettmers et al., 2022): rows in 8 bits, but for the few columns that are too large for them."""
    m, k = x.shape
    n = w.shape[0]
    rows, scales = torch.empty(m, k, dtype=torch.int8, device=x.device), torch.empty(m, device=x.device)
    for t in tfl.tile(m):
        usual = x[t, :].float().masked_fill(odd[:], 0)
        scale = usual.abs().max(dim=1)[0].clamp(min=1e-6) / 127
        rows[t, :] = torch.round(usual / scale[:, None]).to(torch.int8)
        scales[t] = scale
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        whole = tfl.zeros([tm, tn], dtype=torch.int32)
        for tk in tfl.tile(k):
            whole = tfl.dot(rows[tm, tk], w[tn, tk].T, acc=whole)
        y = whole.float() * scales[tm][:, None] * w_scale[tn][None, :]
        y += x[tm, where[:]].float() @ w_odd[tn, :].float().T
        out[tm, tn] = y.half()
    return out


def scaled_add_ref(x: Any, index: Any, source: Any, scaling: Any, alpha: Any) -> Any:
    x[index.long()] += alpha * scaling * source
    return x


def make_scaled_add(b: int, n: int, m: int, d: int, dtype: Any) -> Any:
    return randn(b, m, d, dtype=dtype), torch.randperm(b)[:n], randn(n, m, d, dtype=dtype), randn(d, dtype=dtype), 0.7


@stranger(
    make_scaled_add,
    scaled_add_ref,
    {"b": 7, "n": 3, "m": 5, "d": 24, "dtype": torch.float32},
    {"b": 64, "n": 40, "m": 1024, "d": 1024, "dtype": torch.float16},
)
@helion.kernel(static_shapes=False)
def scaled_index_add(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, scaling: torch.Tensor | None, alpha: float
) -> torch.Tensor:
    """xFormers' branch of stochastic depth: some examples of a batch get what a layer computed for them."""
    n, m, d = source.size()
    for tile_n, tile_m, tile_d in hl.tile([n, m, d], block_size=[1, None, None]):
        row = index[tile_n.begin]
        update = source[tile_n.begin, tile_m, tile_d] * alpha
        if scaling is not None:
            update = update * scaling[tile_d]
        x[row, tile_m, tile_d] += update
    return x


def make_grouped(sizes: Any, dtype: Any) -> Any:
    return [randn(m, k, dtype=dtype) for m, _, k in sizes], [randn(k, n, dtype=dtype) for _, n, k in sizes]


@stranger(
    make_grouped,
    lambda a, b: [x @ y for x, y in zip(a, b, strict=True)],
    {"sizes": ((13, 21, 17), (1, 8, 40), (0, 5, 3)), "dtype": torch.float32},
    {"sizes": ((1024, 1024, 1024), (512, 2048, 512), (64, 4096, 256)), "dtype": torch.float16},
)
@tileflow.kernel
def grouped_products(left: list[torch.Tensor], right: list[torch.Tensor]) -> list[torch.Tensor]:
    """Products of several sizes, as Triton's tutorial groups them."""
    results = []
    for a, b in zip(left, right, strict=True):
        (m, k), (_, n) = a.shape, b.shape
        c = torch.empty(m, n, dtype=a.dtype, device=a.device)
        for tm, tn in tfl.tile([m, n]):
            acc = tfl.zeros([tm, tn])
            for tk in tfl.tile(k):
                acc = tfl.dot(a[tm, tk], b[tk, tn], acc=acc)
            c[tm, tn] = acc
        results.append(c)
    return results


def q6_ref(packed: Any, columns: int) -> Any:
    b = packed.view(len(packed), -1, 210)
    low, high, scales = b[..., :128].int(), b[..., 128:192].int(), b[..., 192:208].contiguous().view(torch.int8)
    parts = []
    for half in range(2):
        ql, qh = low[..., 64 * half :][..., :64], high[..., 32 * half :][..., :32]
        for part in range(4):
            nibble = ql[..., 32 * (part % 2) :][..., :32] >> (4 * (part // 2)) & 15
            parts.append((nibble | (qh >> (2 * part) & 3) << 4) - 32)
    d = b[..., 208:].contiguous().view(torch.float16).float()
    y = torch.cat(parts, -1) * scales.repeat_interleave(16, -1) * d
    return y.flatten(1)[:, :columns].half()


def make_q6(rows: int, blocks: int) -> Any:
    b = torch.randint(0, 256, (rows, blocks, 210)).to(torch.uint8)
    b[..., 208:] = torch.rand(rows, blocks, 1).half().view(torch.uint8)
    return b.flatten(1), 256 * blocks


@stranger(make_q6, q6_ref, {"rows": 3, "blocks": 2}, {"rows": 4096, "blocks": 16})
@helion.kernel()
def q6k_dequantise(packed: torch.Tensor, columns: hl.constexpr) -> torch.Tensor:
    """llama.cpp's six bits: 256 weights in 210 bytes, with a scale of 8 bits for 16 of them and one half for all."""
    rows = packed.size(0)
    blocks = columns // 256
    out = torch.empty([rows, columns], dtype=torch.float16, device=packed.device)
    source = packed.view(rows * blocks, 210)
    result = out.view(rows * blocks, 2, 4, 2, 16)
    for tile in hl.tile(rows * blocks):
        bits = source[tile, 208].to(torch.int16) | (source[tile, 209].to(torch.int16) << 8)
        d = bits.view(torch.float16).to(torch.float32)
        for half in hl.static_range(2):
            qh = source[tile, 128 + 32 * half : 160 + 32 * half].to(torch.int32)
            for part in hl.static_range(4):
                start = 64 * half + 32 * (part % 2)
                ql = source[tile, start : start + 32].to(torch.int32)
                nibble = (ql >> (4 * (part // 2))) & 0xF
                q = (nibble | (((qh >> (2 * part)) & 3) << 4)) - 32
                first = 192 + 8 * half + 2 * part
                scale = source[tile, first : first + 2].view(torch.int8).to(torch.float32)
                y = q.reshape(tile, 2, 16) * scale[:, :, None] * d[:, None, None]
                result[tile, half, part, :, :] = y.to(torch.float16)
    return out


@dataclass
class AdamW:
    lr: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1

    def move(self, p, m, v, step):
        b1, b2 = self.betas
        first, second = m / (1 - b1**step), v / (1 - b2**step)
        return p - self.lr * (first / (second.sqrt() + self.eps) + self.weight_decay * p)


def dithered(x, noise):
    """The two neighbours in bfloat16, each as likely as it is near."""
    return ((x.view(torch.int32) + (noise & 0xFFFF)) & -0x10000).view(torch.float32).bfloat16()


def scrambled(i, step):
    i = (i ^ step) * 0x45D9F3B
    i = ((i >> 16) & 0xFFFF ^ i) * 0x45D9F3B
    return (i >> 16) & 0xFFFF ^ i


def dithered_ref(params: Any, grads: Any, means: Any, squares: Any, how: AdamW, step: int) -> None:
    for p, g, m, v in zip(params, grads, means, squares, strict=True):
        g = g.float()
        m.copy_(how.betas[0] * m.float() + (1 - how.betas[0]) * g)
        v.copy_(how.betas[1] * v.float() + (1 - how.betas[1]) * g * g)
        noise = scrambled(torch.arange(p.numel(), dtype=torch.int32), step).view_as(p)
        p.copy_(dithered(how.move(p.float(), m.float(), v.float(), step), noise))


def make_dithered(sizes: Any) -> Any:
    grads = [randn(*s, dtype=torch.bfloat16) for s in sizes]
    means, squares = [torch.randn(s) for s in sizes], [torch.rand(s) for s in sizes]
    return [randn(*s, dtype=torch.bfloat16) for s in sizes], grads, means, squares, AdamW(), 7


@stranger(
    make_dithered,
    dithered_ref,
    {"sizes": ((7, 11), (1,), (64,))},
    {"sizes": ((4096, 4096), (4096,), (11008, 4096), (1,))},
)
@tileflow.kernel
def adamw_dithered(
    params: list[torch.Tensor],
    grads: list[torch.Tensor],
    means: list[torch.Tensor],
    squares: list[torch.Tensor],
    how: AdamW,
    step: int,
) -> None:
    """Weights in bfloat16 alone, rounded by chance so that small steps count on average."""
    for i in range(len(params)):
        p, g, m, v = params[i].view(-1), grads[i].view(-1), means[i].view(-1), squares[i].view(-1)
        for t in tfl.tile(p.numel()):
            grad = g[t].float()
            m[t] = mean = torch.lerp(grad, m[t], how.betas[0])
            v[t] = square = how.betas[1] * v[t] + (1 - how.betas[1]) * grad**2
            p[t] = dithered(how.move(p[t].float(), mean, square, step), scrambled(t.index, step))
