"""Layers: convolutions of sequences, rotations, modulation, colours, a sampler's gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_wave(b, c, t, k, dtype=torch.float32):
    return (
        randn(b, c, t, dtype=dtype),
        randn(2 * c, c, k, dtype=dtype) * c**-0.5,
        randn(2 * c, dtype=dtype),
        randn(c, c, dtype=dtype) * c**-0.5,
        4,
    )


def wave_ref(x, w, bias, skip, dilation):
    k = w.size(-1)
    z = F.conv1d(F.pad(x.float(), ((k - 1) * dilation, 0)), w.float(), bias.float(), dilation=dilation)
    a, b = z.chunk(2, 1)
    h = torch.tanh(a) * torch.sigmoid(b)
    return (x.float() + torch.einsum("oc,bct->bot", skip.float(), h)).to(x.dtype)


@stranger(
    make_wave,
    wave_ref,
    {"b": 2, "c": 16, "t": 37, "k": 2},
    {"b": 16, "c": 64, "t": 16384, "k": 2, "dtype": torch.bfloat16},
)
@tileflow.kernel
def wavenet_layer(x, w, bias, skip, dilation: int):
    """Dilated causal convolution, gate and residual (arXiv:1609.03499)."""
    b, c, t = x.shape
    k = w.size(2)
    out = torch.empty_like(x)
    for tb, tt in tfl.tile([b, t], block_size=[1, None]):
        i = tb.begin
        filt, gate = tfl.zeros([c, tt]), tfl.zeros([c, tt])
        for j in range(k):
            past = x[i, :, tt - (k - 1 - j) * dilation]
            filt = filt + w[:c, :, j] @ past
            gate = gate + w[c:, :, j] @ past
        h = torch.tanh(filt + bias[:c, None]) * torch.sigmoid(gate + bias[c:, None])
        out[i, :, tt] = x[i, :, tt] + skip[:, :] @ h.to(x.dtype)
    return out


def make_tconv(b, ci, co, t, k, dtype=torch.float32):
    return randn(b, ci, t, dtype=dtype), randn(ci, co, k, dtype=dtype), randn(co, dtype=dtype), 2, 1


def tconv_ref(x, w, bias, stride, padding):
    return F.conv_transpose1d(x.float(), w.float(), bias.float(), stride, padding).to(x.dtype)


@stranger(
    make_tconv,
    tconv_ref,
    {"b": 2, "ci": 5, "co": 6, "t": 13, "k": 4},
    {"b": 16, "ci": 256, "co": 128, "t": 4096, "k": 4, "dtype": torch.bfloat16},
)
@tileflow.kernel
def transposed_conv1d(x, w, bias, stride: int, padding: int):
    b, ci, t = x.shape
    _, co, k = w.shape
    length = (t - 1) * stride - 2 * padding + k
    out = torch.empty(b, co, length, dtype=x.dtype, device=x.device)
    for tb, to, tl in tfl.tile([b, co, length], block_size=[1, None, None]):
        acc = tfl.zeros([to, tl])
        for tc in tfl.tile(ci):
            for j in range(k):
                shifted = tl.index + padding - j
                there = (shifted % stride == 0) & (shifted >= 0)
                part = torch.where(there, x[tb.begin, tc, shifted // stride], 0.0)
                acc += w[tc, to, j].T @ part
        out[tb.begin, to, tl] = acc + bias[to, None]
    return out


def make_conv(b, ci, co, t, k, g, dtype=torch.float32):
    return randn(b, ci, t, dtype=dtype), randn(co, ci // g, k, dtype=dtype), None, 2, 3, g


@stranger(
    make_conv,
    lambda x, w, bias, s, p, g: F.conv1d(x.float(), w.float(), bias, s, p, 1, g).to(x.dtype),
    {"b": 2, "ci": 6, "co": 4, "t": 13, "k": 5, "g": 2},
    {"b": 16, "ci": 512, "co": 512, "t": 4096, "k": 7, "g": 8, "dtype": torch.bfloat16},
)
@tileflow.kernel
def grouped_conv1d(x, w, bias, stride: tfl.constexpr, padding: tfl.constexpr, groups: tfl.constexpr):
    b, _, t = x.shape
    co, per, k = w.shape
    length = (t + 2 * padding - k) // stride + 1
    out = torch.empty(b, co, length, dtype=x.dtype, device=x.device)
    xg, wg, og = (
        x.view(b, groups, per, t),
        w.view(groups, co // groups, per, k),
        out.view(b, groups, co // groups, length),
    )
    for tb, tg, to, tl in tfl.tile([b, groups, co // groups, length], block_size=[1, 1, None, None]):
        acc = tfl.zeros([to, tl])
        for tc in tfl.tile(per):
            for j in range(k):
                at = tl.index * stride + j - padding
                acc = acc + wg[tg.begin, to, tc, j] @ xg[tb.begin, tg.begin, tc, at]
        if bias is not None:
            acc = acc + bias.view(groups, -1)[tg.begin, to][:, None]
        og[tb.begin, tg.begin, to, tl] = acc
    return out


def make_crot(b, t, h, d, dtype=torch.float32):
    a = torch.arange(t)[:, None] * 1e4 ** (-torch.arange(d // 2) / (d // 2))
    return randn(b, t, h, d, dtype=dtype), randn(b, t, h // 2, d, dtype=dtype), torch.stack([a.cos(), a.sin()], -1)


def crot_ref(q, k, freqs):
    f = torch.view_as_complex(freqs.float())[:, None]
    return tuple(
        torch.view_as_real(torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * f).flatten(-2).to(x.dtype)
        for x in (q, k)
    )


@stranger(
    make_crot,
    crot_ref,
    {"b": 2, "t": 5, "h": 4, "d": 8},
    {"b": 4, "t": 4096, "h": 32, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def complex_rotary(q, k, freqs):
    """Llama's: pairs as complex numbers, of queries and keys in place of two launches."""
    outs = []
    for x in (q, k):
        b, t, h, d = x.shape
        pairs = x.unflatten(-1, (d // 2, 2))
        out = torch.empty_like(pairs)
        for tb, tt, th in tfl.tile([b, t, h]):
            real, imag = pairs[tb, tt, th, :, 0].float(), pairs[tb, tt, th, :, 1].float()
            cos, sin = freqs[tt, None, :, 0], freqs[tt, None, :, 1]
            out[tb, tt, th, :, 0] = real * cos - imag * sin
            out[tb, tt, th, :, 1] = real * sin + imag * cos
        outs.append(out.flatten(-2))
    return tuple(outs)


def make_aug(b, c, h, w):
    return torch.randint(0, 256, (b, c, h, w), dtype=torch.uint8), torch.randint(0, 5, (b,)), torch.rand(b)


def aug_ref(images, op, level):
    out = []
    for img, o, m in zip(images, op.tolist(), level, strict=True):
        x = img.float()
        gray = 0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2]
        if o == 0:
            y = x * (0.1 + 1.8 * m)
        elif o == 1:
            y = gray.mean() + (x - gray.mean()) * (0.1 + 1.8 * m)
        elif o == 2:
            y = gray + (x - gray) * (0.1 + 1.8 * m)
        elif o == 3:
            y = (img >> int(4 * m) << int(4 * m)).float()
        else:
            y = torch.where(img >= int(256 * (1 - m)), 255 - img, img).float()
        out.append(y.clamp(0, 255).round().to(torch.uint8))
    return torch.stack(out)


@stranger(make_aug, aug_ref, {"b": 6, "c": 3, "h": 5, "w": 7}, {"b": 256, "c": 3, "h": 224, "w": 224})
@tileflow.kernel
def colour_augment(images, op, level):
    """RandAugment's colour operations, one for each image (arXiv:1909.13719)."""
    b, c, h, w = images.shape
    flat = images.view(b, c, h * w)
    out = torch.empty_like(flat)
    for i in tfl.grid(b):
        magnitude = level[i]
        which = op[i]
        factor = 0.1 + 1.8 * magnitude
        mean = 0.0
        if which == 1:
            for t in tfl.tile(h * w):
                mean += (0.299 * flat[i, 0, t] + 0.587 * flat[i, 1, t] + 0.114 * flat[i, 2, t]).sum()
            mean = mean / (h * w)
        for t in tfl.tile(h * w):
            pixels = flat[i, :, t]
            x = pixels.float()
            gray = 0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2]
            if which == 0:
                y = x * factor
            elif which == 1:
                y = mean + (x - mean) * factor
            elif which == 2:
                y = gray + (x - gray) * factor
            elif which == 3:
                bits = (4 * magnitude).int()
                y = (pixels >> bits << bits).float()
            else:
                y = torch.where(pixels >= (256 * (1 - magnitude)).int(), 255 - pixels, pixels).float()
            out[i, :, t] = y.clamp(0, 255).round().to(torch.uint8)
    return out.view(images.shape)


def make_mel(b, f, n, m):
    return randn(b, f, n, 2), (torch.rand(n, m) * (torch.rand(n, m) < 0.1)), 1e-10


def mel_ref(spec, bank, floor):
    power = spec.square().sum(-1)
    mel = (power @ bank).clamp(min=floor).log10()
    return torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8).add(4) / 4


@stranger(make_mel, mel_ref, {"b": 2, "f": 13, "n": 33, "m": 20}, {"b": 64, "f": 3000, "n": 201, "m": 80})
@tileflow.kernel
def log_mel(spec, bank, floor: float):
    """Whisper's: power, filter bank, logarithm, at most 8 below the largest of the clip."""
    b, f, _, _ = spec.shape
    m = bank.size(1)
    mel = torch.empty(b, f, m, device=spec.device)
    top = torch.full((b,), -math.inf, device=spec.device)
    for tb, tf in tfl.tile([b, f], block_size=[1, None]):
        power = spec[tb.begin, tf, :, :].square().sum(-1)
        out = torch.log10(torch.clamp(power @ bank[:, :], min=floor))
        mel[tb.begin, tf, :] = out
        tfl.atomic_max(top, [tb.begin], out.amax())
    for tb, tf in tfl.tile([b, f]):
        part = mel[tb, tf, :]
        mel[tb, tf, :] = (torch.maximum(part, top[tb][:, None, None] - 8) + 4) / 4
    return mel


class Modulation(NamedTuple):
    shift: Any
    scale: Any
    gate: Any


@dataclass
class Block:
    attention: Modulation
    eps: float = 1e-6


def make_adaln(b, t, c, dtype=torch.float32):
    mod = randn(b, 3 * c, dtype=dtype).chunk(3, 1)
    return randn(b, t, c, dtype=dtype), randn(b, t, c, dtype=dtype), Block(Modulation(*mod))


def adaln_ref(x, branch, block):
    m = block.attention
    x = x.float() + m.gate[:, None].float() * branch.float()
    y = F.layer_norm(x, x.shape[-1:], eps=block.eps) * (1 + m.scale[:, None].float()) + m.shift[:, None].float()
    return x.to(branch.dtype), y.to(branch.dtype)


@stranger(make_adaln, adaln_ref, {"b": 3, "t": 7, "c": 37}, {"b": 32, "t": 1024, "c": 1152, "dtype": torch.bfloat16})
@tileflow.kernel
def adaln_modulate(x, branch, block: Block, *, residual: bool = True):
    """DiT."""
    b, t, c = x.shape
    mod = block.attention
    out, normed = torch.empty_like(x), torch.empty_like(x)
    for tb, tt in tfl.tile([b, t]):
        row = x[tb, tt, :] + mod.gate[tb, None, :] * branch[tb, tt, :] if residual else x[tb, tt, :]
        out[tb, tt, :] = row
        y = F.layer_norm(row, [c], eps=block.eps)
        normed[tb, tt, :] = y * (1 + mod.scale[tb, None, :]) + mod.shift[tb, None, :]
    return out, normed


def make_st(b, c, h, w, dtype=torch.float32):
    return randn(b, c, h, w, dtype=dtype), randn(b, c, h, w, dtype=dtype), torch.rand(b, h, w, 2) * 2.4 - 1.2


def st_ref(dy, x, grid):
    with torch.enable_grad():
        xs, g = x.detach().requires_grad_(), grid.detach().to(x.dtype).requires_grad_()
        F.grid_sample(xs, g, align_corners=True, padding_mode="zeros").backward(dy)
    return xs.grad, g.grad


@stranger(make_st, st_ref, {"b": 2, "c": 3, "h": 5, "w": 7}, {"b": 32, "c": 64, "h": 64, "w": 64})
@tileflow.kernel
def spatial_transformer_backward(dy, x, grid):
    b, c, h, w = x.shape
    dx, dgrid = torch.zeros_like(x), torch.empty_like(grid)
    for tb, ty, tx in tfl.tile([b, h, w], block_size=[1, None, None]):
        i = tb.begin
        px = (grid[i, ty, tx, 0] + 1) / 2 * (w - 1)
        py = (grid[i, ty, tx, 1] + 1) / 2 * (h - 1)
        x0, y0 = px.floor(), py.floor()
        fx, fy = px - x0, py - y0
        gx, gy = tfl.zeros([ty, tx]), tfl.zeros([ty, tx])
        corners = [
            (0, 0, (1 - fx) * (1 - fy), fy - 1, fx - 1),
            (1, 0, fx * (1 - fy), 1 - fy, -fx),
            (0, 1, (1 - fx) * fy, -fy, 1 - fx),
            (1, 1, fx * fy, fy, fx),
        ]
        for cx, cy, weight, wx, wy in corners:
            col, row = x0.int() + cx, y0.int() + cy
            for ch in range(c):
                grad = dy[i, ch, ty, tx]
                value = x[i, ch, row, col]
                gx += grad * value * wx
                gy += grad * value * wy
                tfl.atomic_add(dx, [i, ch, row, col], grad * weight)
        dgrid[i, ty, tx, 0] = gx * (w - 1) / 2
        dgrid[i, ty, tx, 1] = gy * (h - 1) / 2
    return dx, dgrid
