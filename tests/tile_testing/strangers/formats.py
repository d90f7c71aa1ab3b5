"""Packed formats: codes of 4 bits, exponents of blocks, states of 8 bits, single bits."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

NF4 = (
    -1.0,
    -0.6961928,
    -0.5250731,
    -0.3949175,
    -0.2844414,
    -0.1847734,
    -0.0910500,
    0.0,
    0.0795803,
    0.1609302,
    0.2461123,
    0.3379152,
    0.4407098,
    0.5626170,
    0.7229568,
    1.0,
)


def make_nf4(m: Any, n: Any, k: Any, dtype: Any = torch.float32) -> Any:
    return (
        randn(m, k, dtype=dtype),
        torch.randint(0, 256, (n, k // 2), dtype=torch.uint8),
        torch.rand(n, k // 64),
        torch.tensor(NF4),
    )


def nf4_ref(x: Any, w: Any, absmax: Any, table: Any) -> Any:
    q = torch.stack([w >> 4, w & 15], -1).flatten(1).long()
    d = (table[q].unflatten(1, (-1, 64)) * absmax[..., None]).flatten(1).to(x.dtype)
    return (x.float() @ d.float().T).to(x.dtype)


@stranger(make_nf4, nf4_ref, {"m": 5, "n": 19, "k": 128}, {"m": 4096, "n": 4096, "k": 4096, "dtype": torch.bfloat16})
@tileflow.kernel
def nf4_linear(x, w, absmax, table):
    m, k = x.shape
    n = w.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn])
        for tk in tfl.tile(k // 2, block_size=32):
            packed = w[tn, tk]
            codes = torch.stack([packed >> 4, packed & 15], dim=-1).reshape(tn, 64)
            wd = table[codes.to(torch.int32)] * absmax[tn, tk.id][:, None]
            acc = tfl.dot(x[tm, tk.begin * 2 : tk.begin * 2 + 64], wd.to(x.dtype).T, acc=acc)
        out[tm, tn] = acc
    return out


def mx4_ref(w: Any, s: Any) -> Any:
    t = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], device=w.device)
    v = t[torch.stack([w & 15, w >> 4], -1).flatten(1).long()]
    return (v.unflatten(1, (-1, 32)) * torch.exp2(s.float() - 127)[..., None]).flatten(1).to(torch.bfloat16)


@stranger(
    lambda m, n: (
        torch.randint(0, 256, (m, n // 2), dtype=torch.uint8),
        torch.randint(120, 135, (m, n // 32), dtype=torch.uint8),
    ),
    mx4_ref,
    {"m": 7, "n": 96},
    {"m": 16384, "n": 4096},
)
@tileflow.kernel
def mxfp4_dequantise(w, scales):
    m, half = w.shape
    n = 2 * half
    out = torch.empty(m, n, dtype=torch.bfloat16, device=w.device)
    for tm in tfl.tile(m):
        for g in range(n // 32):
            packed = w[tm, g * 16 : g * 16 + 16]
            code = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1)
            e, f = (code >> 1) & 3, code & 1
            mag = torch.where(e == 0, 0.5 * f, torch.exp2(e.float() - 1) * (1 + 0.5 * f))
            value = torch.where(code >= 8, -mag, mag)
            out[tm, g * 32 : g * 32 + 32] = value * torch.exp2(scales[tm, g].float() - 127)[:, None]
    return out


def mx8q_ref(x: Any) -> Any:
    b = x.float().unflatten(1, (-1, 32))
    amax = b.abs().amax(-1)
    e = torch.floor(torch.log2(amax.clamp(min=1e-30))).clamp(-127, 127) - 8
    q = (b * torch.exp2(-e)[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn).flatten(1)
    return q, (e + 127).to(torch.uint8)


@stranger(
    lambda m, n, dtype=torch.float32: (randn(m, n, dtype=dtype),),
    mx8q_ref,
    {"m": 5, "n": 96},
    {"m": 8192, "n": 8192, "dtype": torch.bfloat16},
)
@tileflow.kernel
def mxfp8_quantise(x):
    m, n = x.shape
    q = torch.empty(m, n, dtype=torch.float8_e4m3fn, device=x.device)
    s = torch.empty(m, n // 32, dtype=torch.uint8, device=x.device)
    for tm, tg in tfl.tile([m, n // 32]):
        v = x[tm, tg.begin * 32 : (tg.begin + tg.block_size) * 32].float().reshape(tm, tg, 32)
        amax = v.abs().amax(-1)
        e = ((amax.view(torch.int32) >> 23) & 255) - 127 - 8
        q[tm, tg.begin * 32 : (tg.begin + tg.block_size) * 32] = (
            (v * torch.exp2(-e.float())[:, :, None]).clamp(-448, 448).reshape(tm, 32 * tg.block_size)
        )
        s[tm, tg] = (e + 127).to(torch.uint8)
    return q, s


def make_gptq(m: Any, n: Any, k: Any, groups: Any, dtype: Any = torch.float32) -> Any:
    return (
        randn(m, k, dtype=dtype),
        torch.randint(-(2**31), 2**31, (k // 8, n)).int(),
        torch.randint(-(2**31), 2**31, (groups, n // 8)).int(),
        torch.rand(groups, n).to(dtype) * 0.1,
        torch.randint(0, groups, (k,)).int(),
    )


def gptq_ref(x: Any, qw: Any, qz: Any, sc: Any, g: Any) -> Any:
    sh = torch.arange(8, device=x.device) * 4
    w = ((qw[:, None] >> sh[None, :, None]) & 15).flatten(0, 1)
    z = ((qz[:, :, None] >> sh) & 15).flatten(1)
    return (x.float() @ ((w - z[g.long()] - 1).float() * sc[g.long()].float()).to(x.dtype).float()).to(x.dtype)


@stranger(
    make_gptq,
    gptq_ref,
    {"m": 5, "n": 24, "k": 64, "groups": 3},
    {"m": 16, "n": 4096, "k": 4096, "groups": 32, "dtype": torch.float16},
)
@tileflow.kernel
def gptq_linear(x, qweight, qzeros, scales, g_idx):
    m, k = x.shape
    n = qweight.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn])
        for tk in tfl.tile(k):
            word = qweight[tk.index // 8, tn]
            w = (word >> ((tk.index % 8) * 4)[:, None]) & 15
            g = g_idx[tk]
            z = (qzeros[g, tn.index // 8] >> ((tn.index % 8) * 4)[None, :]) & 15
            wd = (w - z - 1) * scales[g, tn]
            acc = tfl.dot(x[tm, tk], wd.to(x.dtype), acc=acc)
        out[tm, tn] = acc
    return out


def make_a8(n: Any, dtype: Any = torch.float32) -> Any:
    return (
        randn(n, dtype=dtype),
        randn(n, dtype=dtype),
        torch.randint(-127, 128, (n,), dtype=torch.int8),
        torch.randint(0, 256, (n,), dtype=torch.uint8),
        torch.rand(-(-n // 256)),
        torch.rand(-(-n // 256)),
        1e-2,
    )


def a8_ref(p: Any, g: Any, m8: Any, v8: Any, sm: Any, sv: Any, lr: Any) -> Any:
    n, blocks = p.numel(), sm.numel()
    grad, m, v = (F.pad(z.float(), (0, blocks * 256 - n)).view(blocks, 256) for z in (g, m8, v8))
    m = 0.9 * m / 127 * sm[:, None] + 0.1 * grad
    v = 0.99 * (v / 255) ** 2 * sv[:, None] + 0.01 * grad**2
    p -= (lr * m / (v.sqrt() + 1e-8)).view(-1)[:n].to(p.dtype)
    sm.copy_(m.abs().amax(1).clamp(min=1e-12))
    sv.copy_(v.amax(1).clamp(min=1e-12))
    m8.copy_(torch.round(m / sm[:, None] * 127).view(-1)[:n])
    v8.copy_(torch.round((v / sv[:, None]).sqrt() * 255).view(-1)[:n])
    return p, m8, v8, sm, sv


@stranger(make_a8, a8_ref, {"n": 611}, {"n": 1 << 26, "dtype": torch.bfloat16})
@tileflow.kernel
def adam_8bit(p, g, m8, v8, scale_m, scale_v, lr):
    for t in tfl.tile(p.numel(), block_size=256):
        grad = g[t].float()
        m = 0.9 * m8[t].float() / 127 * scale_m[t.id] + 0.1 * grad
        root = v8[t].float() / 255
        v = 0.99 * root * root * scale_v[t.id] + 0.01 * grad * grad
        p[t] = p[t] - lr * m / (torch.sqrt(v) + 1e-8)
        a, b = m.abs().max().clamp(min=1e-12), v.max().clamp(min=1e-12)
        m8[t] = torch.round(m / a * 127)
        v8[t] = torch.round(torch.sqrt(v / b) * 255)
        scale_m[t.id] = a
        scale_v[t.id] = b
    return p, m8, v8, scale_m, scale_v


def make_append(t: Any, h: Any, d: Any, pages: Any, page: Any, dtype: Any = torch.float32) -> Any:
    slots = torch.randperm(pages * page)[:t]
    slots = torch.where(torch.arange(t) % 5 == 3, -1, slots)
    return (
        randn(t, h, d, dtype=dtype),
        slots,
        torch.zeros(pages, h, page, d, dtype=torch.float8_e4m3fn),
        torch.rand(h) + 0.5,
    )


def append_ref(k: Any, slots: Any, cache: Any, scale: Any) -> Any:
    page = cache.size(2)
    ok = slots >= 0
    s = slots[ok]
    cache.view(torch.uint8)[s // page, :, s % page] = (
        (k[ok].float() / scale[:, None]).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    )
    return cache


@stranger(
    make_append,
    append_ref,
    {"t": 17, "h": 3, "d": 16, "pages": 4, "page": 8},
    {"t": 16384, "h": 8, "d": 128, "pages": 4096, "page": 16, "dtype": torch.bfloat16},
)
@tileflow.kernel
def paged_append(k, slots, cache, scale):
    t, h, _d = k.shape
    page = cache.size(2)
    for tt, th in tfl.tile([t, h], block_size=[None, 1]):
        slot = slots[tt]
        value = (k[tt, th.begin, :].float() / scale[th.begin]).clamp(-448, 448)
        tfl.store(
            cache,
            [slot // page, th.begin, slot % page, slice(None)],
            value.to(cache.dtype),
            extra_mask=(slot >= 0)[:, None],
        )
    return cache


def pop(x: Any) -> Any:
    x = x.long() & 0xFFFFFFFF
    c = torch.zeros_like(x)
    for i in range(32):
        c += (x >> i) & 1
    return c


@stranger(
    lambda m, n, k: (torch.randint(-(2**31), 2**31, (m, k)).int(), torch.randint(-(2**31), 2**31, (n, k)).int()),
    lambda a, b: (32 * a.size(1) - 2 * pop(a[:, None] ^ b[None]).sum(-1)).int(),
    {"m": 7, "n": 9, "k": 3},
    {"m": 4096, "n": 4096, "k": 128},
)
@tileflow.kernel
def xnor_matmul(a, b):
    m, k = a.shape
    n = b.size(0)
    out = torch.empty(m, n, dtype=torch.int32, device=a.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn], dtype=torch.int32)
        for i in range(k):
            v = a[tm, i][:, None] ^ b[tn, i][None, :]
            v = v - ((v >> 1) & 0x55555555)
            v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
            v = (v + (v >> 4)) & 0x0F0F0F0F
            acc += (v * 0x01010101) >> 24
        out[tm, tn] = 32 * k - 2 * acc
    return out


def sr_ref(p: Any, g: Any, noise: Any, lr: Any) -> Any:
    q = p.float() - lr * g.float()
    bits = (q.view(torch.int32) + (noise & 0xFFFF)) & -65536
    return bits.view(torch.float32).to(torch.bfloat16)


@stranger(
    lambda n: (randn(n).bfloat16(), randn(n).bfloat16(), torch.randint(0, 1 << 30, (n,)).int(), 0.01),
    sr_ref,
    {"n": 211},
    {"n": 1 << 26},
)
@tileflow.kernel
def sgd_stochastic(p, g, noise, lr):
    out = torch.empty_like(p)
    for t in tfl.tile(p.size(0)):
        new = p[t].float() - lr * g[t].float()
        bits = (new.view(torch.int32) + (noise[t] & 0xFFFF)) & -65536
        out[t] = bits.view(torch.float32).to(torch.bfloat16)
    return out
