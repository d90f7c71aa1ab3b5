"""Loudness and pitch classes of sounds, and whole numbers lifted to coarser ones."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_dynamics(channels: int, n: int) -> Any:
    return torch.randint(-32768, 32768, (n, channels), dtype=torch.int16), -20.0, 4.0, 0.9, 0.995


def dynamics_ref(pcm: Any, threshold: float, ratio: float, attack: float, release: float) -> Any:
    x = pcm.T.double() / 32768
    level = 20 * torch.log10(x.abs().clamp(min=1e-6))
    over = (level - threshold).clamp(min=0) * (1 - 1 / ratio)
    state, gains = torch.zeros(x.size(0), dtype=torch.float64), []
    for i in range(x.size(1)):
        c = torch.where(over[:, i] > state, attack, release)
        state = c * state + (1 - c) * over[:, i]
        gains.append(state)
    y = x * 10 ** (-torch.stack(gains, 1) / 20)
    return (y * 32767).round().clamp(-32768, 32767).to(torch.int16).T


@stranger(make_dynamics, dynamics_ref, {"channels": 5, "n": 23}, {"channels": 256, "n": 48000}, loops=True)
@tileflow.kernel
def compress_dynamics(pcm, threshold: float, ratio: float, attack: float, release: float):
    """Giannoulis, Massberg and Reiss, 2012: what is louder than a threshold is turned down, fast, and back slowly."""
    n, channels = pcm.shape
    out = torch.empty_like(pcm)
    for tc in tfl.tile(channels):
        state = tfl.zeros([tc])
        for i in range(n):
            x = pcm[i, tc] / 32768
            level = x.abs().clip(1e-6).log10() * 20
            over = (level - threshold).relu() * (1 - 1 / ratio)
            c = torch.where(over > state, attack, release)
            state = c * state + (1 - c) * over
            y = x * 10 ** (-state / 20)
            out[i, tc] = (y * 32767).round().clamp(-32768, 32767).to(torch.int16)
    return out


def chroma_ref(power: Any, rate: int, nfft: int, tuning: float) -> Any:
    f = torch.arange(power.size(1)).to(power.dtype) * rate / nfft
    midi = 69 + 12 * torch.log2(f.clamp(min=1e-3) / (440.0 * 2 ** (tuning / 12)))
    pitch = torch.floor(midi + 0.5).long()
    keep = (f >= 55) & (f < 5000)
    fold = ((pitch % 12)[:, None] == torch.arange(12)) & keep[:, None]
    chroma = power.transpose(1, 2) @ fold.to(power.dtype)
    return chroma / chroma.amax(2, keepdim=True).clamp(min=1e-10)


@stranger(
    lambda b, bins, frames: (torch.rand(b, bins, frames), 8000, 2 * (bins - 1), 0.13),
    chroma_ref,
    {"b": 2, "bins": 65, "frames": 7},
    {"b": 32, "bins": 2049, "frames": 1024},
)
@tileflow.kernel
def fold_to_chroma(power, rate: int, nfft: int, tuning: float = 0.0):
    """Fujishima, 1999: a spectrum folded into the twelve classes of pitch, the loudest of a frame being one."""
    b, bins, frames = power.shape
    out = torch.empty(b, frames, 12, device=power.device)
    a4 = 440.0 * 2 ** (tuning / 12)
    classes = torch.arange(12, device=power.device)
    for tb, tf in tfl.tile([b, frames], block_size=[1, None]):
        total = tfl.zeros([tf, 12])
        for tk in tfl.tile(bins):
            f = tk.index * rate / nfft
            midi = torch.log2(f.clamp(min=1e-3) / a4) * 12 + 69
            pitch = torch.floor(midi + 0.5).to(torch.int64) % 12
            keep = (f >= 55) & (f < 5000)
            one_hot = (pitch[:, None] == classes[None, :]) & keep[:, None]
            total += (power[tb.begin, tk, tf].mT[..., None] * one_hot).sum(-2)
        out[tb.begin, tf, :] = total / total.amax(-1, True).clamp_min(1e-10)
    return out


def lift_ref(x: Any) -> Any:
    x = x.int()
    n = x.size(-1)
    even, odd = x[..., ::2], x[..., 1::2]
    right = torch.cat([even[..., 1:], even[..., -1:]], -1)[..., : odd.size(-1)]
    d = odd - ((even[..., : odd.size(-1)] + right) >> 1)
    left = torch.cat([d[..., :1], d], -1)[..., : even.size(-1)]
    here = torch.cat([d, d[..., -1:]], -1)[..., : even.size(-1)] if n % 2 else d
    return even + ((left + here + 2) >> 2), d


@stranger(
    lambda rows, n: (torch.randint(0, 256, (rows, n), dtype=torch.uint8),),
    lift_ref,
    {"rows": 6, "n": 22},
    {"rows": 16384, "n": 8192},
)
@tileflow.kernel
def lift_five_three(x):
    """Le Gall and Tabatabai, 1988, as in JPEG 2000: a row of whole numbers as means and details, without loss."""
    rows, n = x.shape
    half = n // 2
    low = torch.empty(rows, half, dtype=torch.int32, device=x.device)
    high = torch.empty_like(low)

    def detail(tr, k):
        centre = 2 * k + 1
        after = torch.where(centre + 1 < n, centre + 1, centre - 1)
        ends = x[tr, 2 * k].int() + x[tr, after].int()
        return x[tr, centre].int() - ends.bitwise_right_shift(1)

    for tr, tk in tfl.tile([rows, half]):
        k = tk.index
        here = detail(tr, k)
        before = detail(tr, (k - 1).clamp_min(0))
        high[tr, tk] = here
        low[tr, tk] = x[tr, 2 * k] + (before + here + 2 >> 2)
    return low, high
