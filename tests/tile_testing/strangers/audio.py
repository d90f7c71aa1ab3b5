"""Audio: echoes cancelled, time stretched, rooms, onsets, pitch, loudspeakers around a listener, voices, noise."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_echo(b: Any, n: Any, taps: Any) -> Any:
    far, room = randn(b, n), randn(b, 1, taps) * 0.3
    heard = F.conv1d(F.pad(far, (taps - 1, 0))[None], room.flip(2), groups=b)[0]
    return far, heard + 0.01 * randn(b, n), taps, 0.5


def canceller_ref(far: Any, mic: Any, taps: int, step: float) -> Any:
    windows = F.pad(far, (taps - 1, 0)).unfold(1, taps, 1).flip(2)
    power = windows.square().sum(2) + 1e-3
    w, errors = torch.zeros(far.size(0), taps, 1), []
    for t in range(far.size(1)):
        e = mic[:, t] - torch.bmm(windows[:, None, t], w)[:, 0, 0]
        w = w + (step * e / power[:, t])[:, None, None] * windows[:, t, :, None]
        errors.append(e)
    return torch.stack(errors, 1), w[..., 0]


@stranger(make_echo, canceller_ref, {"b": 3, "n": 37, "taps": 16}, {"b": 512, "n": 1000, "taps": 256})
@tileflow.kernel
def echo_canceller(far, mic, taps: tfl.constexpr, step):
    """Nagumo and Noda, 1967: a filter learns a room from what the loudspeaker plays, and takes its echo away."""
    b, n = far.shape
    error = torch.empty_like(mic)
    weights = torch.empty(b, taps, device=far.device)
    for tb in tfl.tile(b):
        w = tfl.zeros([tb, taps])
        for t in range(n):
            x = far[tb, t - tfl.arange(taps)]
            e = mic[tb, t] - (w * x).sum(1)
            w += (step * e / ((x * x).sum(1) + 1e-3))[:, None] * x
            error[tb, t] = e
        weights[tb, :] = w
    return error, weights


def stretch_ref(spec: Any, advance: Any, rate: float) -> Any:
    m = int((spec.size(1) - 1) / rate)
    at = torch.arange(m) * rate
    i = at.long()
    one, two = spec[:, i].to(torch.complex128), spec[:, i + 1].to(torch.complex128)
    size = torch.lerp(one.abs(), two.abs(), (at - i).double())
    turn = torch.polar(torch.ones_like(advance), advance).to(torch.complex128)[:, None]
    jump = advance.double()[:, None] + (two * one.conj() / turn).angle()
    phase = jump.cumsum(1) - jump + spec[:, :1].to(torch.complex128).angle()
    return torch.view_as_real(torch.polar(size, phase)).float()


@stranger(
    lambda f, t, rate: (torch.complex(randn(f, t), randn(f, t)), torch.arange(f) % 4 * (math.pi / 2), rate),
    stretch_ref,
    {"f": 9, "t": 23, "rate": 0.75},
    {"f": 16400, "t": 1000, "rate": 1.25},
)
@tileflow.kernel
def phase_vocoder(spec, advance, rate):
    """Flanagan and Golden, 1966: a spectrogram at another pace, its phases carried on by what each step turned."""
    x = torch.view_as_real(spec)
    f, n, _ = x.shape
    m = int((n - 1) / rate)
    out = torch.empty(f, m, 2, device=x.device)
    for tf in tfl.tile(f):
        at = tfl.arange(m) * rate
        i = torch.floor(at).int()
        share = (at - i)[None, :]
        re, im = x[tf, i, 0], x[tf, i, 1]
        re2, im2 = x[tf, i + 1, 0], x[tf, i + 1, 1]
        size = torch.hypot(re, im) * (1 - share) + torch.hypot(re2, im2) * share
        expected = advance[tf][:, None]
        turn = torch.atan2(im2, re2) - torch.atan2(im, re) - expected
        jump = (expected + turn - 2 * math.pi * torch.round(turn / (2 * math.pi))).double()
        first = torch.atan2(x[tf, 0, 1], x[tf, 0, 0])[:, None]
        phase = torch.cumsum(jump, 1) - jump + first
        out[tf, :, 0] = size * torch.cos(phase)
        out[tf, :, 1] = size * torch.sin(phase)
    return out


def reverb_ref(x: Any, delay: Any, gain: Any) -> Any:
    b, n = x.shape
    most, least = int(delay.max()), int(delay.min())
    lines = torch.zeros(b, delay.numel(), n + most)
    out = torch.empty_like(x)
    for t in range(0, n, least):
        e = min(t + least, n)
        late = torch.stack([lines[:, k, t + most - d : e + most - d] for k, d in enumerate(delay.tolist())], 1)
        late = late * gain[:, None]
        out[:, t:e] = late.sum(1)
        lines[:, :, t + most : e + most] = x[:, None, t:e] + late - late.mean(1, keepdim=True) * 2
    return out


@stranger(
    lambda b, n: (randn(b, n), torch.randperm(60)[:8].int() + 11, 0.7 + 0.25 * torch.rand(8)),
    reverb_ref,
    {"b": 3, "n": 67},
    {"b": 1024, "n": 1000},
)
@tileflow.kernel
def feedback_delays(x, delay, gain):
    """Jot and Chaigne, 1991: a room as delay lines whose ends are mixed and fed back."""
    b, n = x.shape
    k = delay.size(0)
    lines = torch.zeros(b, k, n, device=x.device)
    out = torch.empty_like(x)
    for i in tfl.grid(b):
        line = tfl.arange(k)
        for t in range(n):
            late = lines[i, line, t - delay[:]] * gain[:]
            total = late.sum()
            out[i, t] = total
            lines[i, line, t] = x[i, t] + late - total * (2 / k)
    return out


def onsets_ref(mag: Any, w: int, scale: float) -> Any:
    loud = F.pad(torch.log1p(10 * mag.float()), (0, 0, 1, 0))
    flux = loud.diff(dim=1).clamp(min=0).sum(2)
    middle = F.pad(flux, (w, w)).unfold(1, 2 * w + 1, 1).median(2).values
    peak = F.max_pool1d(F.pad(flux, (3, 3))[:, None], 7, 1)[:, 0]
    return flux, (flux >= peak) & (flux > scale * middle)


@stranger(
    lambda b, t, f, dtype=torch.float32: (randn(b, t, f).abs().to(dtype), 7, 1.02),
    onsets_ref,
    {"b": 3, "t": 41, "f": 13},
    {"b": 64, "t": 1500, "f": 513, "dtype": torch.bfloat16},
)
@tileflow.kernel
def spectral_onsets(mag, w: tfl.constexpr, scale):
    """Dixon, 2006: notes begin where a spectrum grows more than around it; zeros stand before and after."""
    b, n, f = mag.shape
    flux = torch.empty(b, n, device=mag.device)
    onset = torch.empty(b, n, dtype=torch.bool, device=mag.device)
    for tb, tt in tfl.tile([b, n]):
        total = tfl.zeros([tb, tt])
        for tf in tfl.tile(f):
            now = torch.log1p(10 * mag[tb, tt, tf].float())
            before = torch.log1p(10 * mag[tb, tt - 1, tf].float())
            total += F.relu(now - before).sum(2)
        flux[tb, tt] = total
    for tb, tt in tfl.tile([b, n]):
        around = tt.index[:, None] + tfl.arange(-w, w + 1)[None, :]
        middle = torch.median(flux[tb, around], dim=2).values
        beside = tt.index[:, None] + tfl.arange(-3, 4)[None, :]
        peak = flux[tb, beside].amax(2)
        here = flux[tb, tt]
        onset[tb, tt] = (here >= peak) & (here > scale * middle)
    return flux, onset


def harmonic_ref(spec: Any, parts: int, width: float) -> Any:
    m = (spec.size(1) - 1) // parts + 1
    comb = torch.arange(m)[:, None] * torch.arange(1, parts + 1)
    total = spec.float().clamp(min=1e-6).log()[:, comb].sum(2)
    peak = total[:, 1:-1].argmax(1, keepdim=True) + 1
    low, top, high = (total.gather(1, peak + d)[:, 0] for d in (-1, 0, 1))
    offset = 0.5 * (low - high) / (low - 2 * top + high)
    return (peak[:, 0] + offset) * width, top / parts


def make_tones(b: Any, f: Any, dtype: Any = torch.float32) -> Any:
    pitch = torch.randint(3, (f - 1) // 5 - 1, (b, 1))
    spec = torch.rand(b, f) + 0.01
    loud = spec.gather(1, pitch * torch.arange(1, 6)) * 20
    return spec.scatter(1, pitch * torch.arange(1, 6), loud).to(dtype), 5, 10.77


@stranger(
    make_tones,
    harmonic_ref,
    {"b": 7, "f": 61},
    {"b": 16384, "f": 2049, "dtype": torch.float16},
)
@tileflow.kernel
def harmonic_pitch(spec, parts: tfl.constexpr, width):
    """Schroeder, 1968: the pitch whose harmonics have the largest product, between bins by a parabola."""
    b, f = spec.shape
    m = (f - 1) // parts + 1
    pitch, strength = (torch.empty(b, device=spec.device) for _ in range(2))
    for tb in tfl.tile(b):
        total = tfl.zeros([tb, m])
        for k in range(1, parts + 1):
            total += torch.log(torch.clamp(spec[tb, 0 : (m - 1) * k + 1 : k].float(), min=1e-6))
        place = tfl.arange(m)
        inner = (place > 0) & (place < m - 1)
        peak = torch.where(inner[None, :], total, float("-inf")).argmax(1)[:, None]
        low = torch.gather(total, 1, peak - 1)[:, 0]
        top = torch.gather(total, 1, peak)[:, 0]
        high = torch.gather(total, 1, peak + 1)[:, 0]
        pitch[tb] = (peak[:, 0] + 0.5 * (low - high) / (low - 2 * top + high)) * width
        strength[tb] = top / parts
    return pitch, strength


def make_speakers(s: Any, t: Any, speakers: Any) -> Any:
    triple = torch.rand(t, speakers).argsort(1)[:, :3].int()
    around = F.normalize(randn(speakers, 3), dim=1)
    bases = around[triple.long()].double() + 0.1 * torch.eye(3).double()
    inverse = torch.linalg.inv(bases).float().clamp(-50, 50)
    # sums of such numbers are exact: two triples may be as good, and the first of them is the answer
    return (F.normalize(randn(s, 3), dim=1) * 256).round() / 256, (inverse * 64).round() / 64, triple, speakers


def panning_ref(source: Any, inverse: Any, triple: Any, speakers: int) -> Any:
    gains = torch.einsum("sj,tjk->stk", source, inverse)
    best = gains.amin(2).argmax(1)
    gain = F.normalize(gains[torch.arange(source.size(0)), best].clamp(min=0), dim=1)
    return torch.zeros(source.size(0), speakers).scatter(1, triple[best].long(), gain)


@stranger(
    make_speakers,
    panning_ref,
    {"s": 5, "t": 7, "speakers": 7},
    {"s": 1 << 17, "t": 90, "speakers": 48},
)
@tileflow.kernel
def amplitude_panning(source, inverse, triple, speakers: int):
    """Pulkki, 1997: each direction of sound is given to the three loudspeakers that enclose it."""
    s, t = source.size(0), inverse.size(0)
    out = torch.zeros(s, speakers, device=source.device)
    for ts in tfl.tile(s):
        gains = []
        for k in range(3):
            g = tfl.zeros([ts, t])
            for j in range(3):
                g = g + source[ts, j][:, None] * inverse[:, j, k][None, :]
            gains.append(g)
        best = torch.minimum(torch.minimum(gains[0], gains[1]), gains[2]).argmax(1)
        chosen = [torch.clamp(torch.gather(g, 1, best[:, None])[:, 0], min=0) for g in gains]
        norm = torch.sqrt(sum(g * g for g in chosen))
        for k in range(3):
            out[ts.index, triple[best, k]] = chosen[k] / norm
    return out


def synthesis_ref(excitation: Any, reflection: Any, hop: int) -> Any:
    b, frames, p = reflection.shape
    x = excitation.double().T
    g = torch.zeros(p + 1, b, dtype=torch.float64)
    out = []
    for t in range(frames * hop):
        k = reflection[:, t // hop].double().T
        forward = x[t] - torch.cumsum((k * g[:-1]).flip(0), 0).flip(0)
        g = torch.cat([forward[:1], g[:-1] + k * forward])
        out.append(forward[0])
    return torch.stack(out, 1).float()


@stranger(
    lambda b, frames, hop: (randn(b, frames * hop), torch.rand(b, frames, 10) * 0.8 - 0.4, hop),
    synthesis_ref,
    {"b": 11, "frames": 3, "hop": 13},
    {"b": 8192, "frames": 10, "hop": 80},
)
@tileflow.kernel
def lattice_voice(excitation, reflection, hop: tfl.constexpr):
    """Itakura and Saito, 1971: a voice out of its excitation, by an all-pole lattice whose coefficients change."""
    b, frames, p = reflection.shape
    out = torch.empty_like(excitation)
    for tb in tfl.tile(b):
        state = [tfl.zeros([tb]) for _ in range(p + 1)]
        for frame in range(frames):
            k = [reflection[tb, frame, m] for m in range(p)]
            for t in range(hop):
                forward = excitation[tb, frame * hop + t]
                for m in reversed(range(p)):
                    forward = forward - k[m] * state[m]
                    state[m + 1] = state[m] + k[m] * forward
                state[0] = forward
                out[tb, frame * hop + t] = forward
    return out


def subtraction_ref(mag: Any, lead: int, floor: float) -> Any:
    x = mag.float()
    noise = x[:, :lead].mean(1, keepdim=True).square()
    power = x.square()
    ratio = 10 * torch.log10(power.sum(2, keepdim=True) / noise.sum(2, keepdim=True))
    over = (4 - 0.15 * ratio).clamp(1, 5)
    return torch.sqrt(torch.maximum(power - over * noise, floor * noise)).to(mag.dtype)


@stranger(
    lambda b, t, f, dtype=torch.float32: (randn(b, t, f).abs().to(dtype), 6, 0.02),
    subtraction_ref,
    {"b": 3, "t": 17, "f": 21},
    {"b": 64, "t": 1000, "f": 513, "dtype": torch.bfloat16},
)
@tileflow.kernel
def spectral_subtraction(mag, lead: tfl.constexpr, floor):
    """Berouti, Schwartz and Makhoul, 1979: the first frames' noise is taken away, the more so from weak frames."""
    b, n, _ = mag.shape
    out = torch.empty_like(mag)
    for tb, tt in tfl.tile([b, n]):
        noise = mag[tb, :lead, :].float().mean(1)
        noise = noise * noise
        x = mag[tb, tt, :].float()
        power = x * x
        ratio = 10 * torch.log10(power.sum(2) / noise.sum(1)[:, None])
        over = torch.clamp(4 - 0.15 * ratio, 1, 5)
        left = power - over[:, :, None] * noise[:, None, :]
        out[tb, tt, :] = torch.sqrt(torch.maximum(left, floor * noise[:, None, :]))
    return out
