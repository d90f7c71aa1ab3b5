"""Speech and sound: codecs of samples, frames and their sums, pitch, alignments of labels to frames."""

from __future__ import annotations

import itertools
import random
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def mu_law_ref(codes: Any, coefficient: Any = 0.97) -> Any:
    y = codes.double() / 127.5 - 1
    x = torch.sign(y) * (256.0 ** y.abs() - 1) / 255
    return (x - coefficient * F.pad(x, (1, 0))[:, :-1]).float()


@stranger(
    lambda b, n: (torch.randint(0, 256, (b, n), dtype=torch.uint8),),
    mu_law_ref,
    {"b": 3, "n": 45},
    {"b": 256, "n": 480000},
)
@tileflow.kernel
def mu_law_preemphasis(codes, coefficient=0.97):
    """ITU G.711's curve undone, then high frequencies raised."""
    out = torch.empty(codes.shape, device=codes.device)
    for tb, tn in tfl.tile(codes.shape):

        def sample(code):
            y = code.float() / 127.5 - 1
            return torch.sign(y) * (torch.pow(256.0, y.abs()) - 1) / 255

        before = torch.where(tn.index > 0, sample(codes[tb, tn - 1]), 0.0)
        out[tb, tn] = sample(codes[tb, tn]) - coefficient * before
    return out


def overlap_ref(frames: Any, window: Any, hop: Any) -> Any:
    _b, f, n = frames.shape
    t = (f - 1) * hop + n

    def fold(x: Any) -> Any:
        return F.fold(x.mT.contiguous(), (1, t), (1, n), stride=(1, hop))[:, 0, 0]

    return fold(frames * window) / fold((window**2).expand(1, f, n)).clamp(min=1e-8)


@stranger(
    lambda b, f, n, hop: (randn(b, f, n), torch.rand(n) + 0.1, hop),
    overlap_ref,
    {"b": 3, "f": 7, "n": 12, "hop": 4},
    {"b": 32, "f": 2000, "n": 1024, "hop": 256},
)
@tileflow.kernel
def overlap_add(frames, window, hop):
    """Griffin and Lim, 1984: each sample gathers the frames that cover it."""
    b, f, n = frames.shape
    total = (f - 1) * hop + n
    out = torch.empty(b, total, device=frames.device)
    for tb, tt in tfl.tile([b, total]):
        acc = tfl.zeros([tb, tt])
        norm = tfl.zeros([tt])
        for k in range(n // hop):
            frame = tt.index // hop - k
            place = tt.index % hop + k * hop
            w = window[place]
            acc += frames[tb, frame, place] * w
            norm += torch.where((frame >= 0) & (frame < f), w * w, 0.0)
        out[tb, tt] = acc / norm.clamp(min=1e-8)
    return out


def yin_ref(x: Any, width: Any, lags: Any) -> Any:
    d = torch.stack([((x[:, :width] - x[:, t : t + width]) ** 2).sum(1) for t in range(1, lags)], 1)
    curve = d * torch.arange(1, lags) / d.cumsum(1).clamp(min=1e-9)
    return curve, curve.amin(1)


@stranger(
    lambda b, width, lags: (randn(b, width + lags), width, lags),
    yin_ref,
    {"b": 5, "width": 24, "lags": 11},
    {"b": 16384, "width": 512, "lags": 320},
)
@tileflow.kernel
def yin_curve(x, width: int, lags: int):
    """De Cheveigne and Kawahara, 2002: differences with the shifted frame, by their running mean."""
    b = x.size(0)
    curve = torch.empty(b, lags - 1, device=x.device)
    lowest = torch.empty(b, device=x.device)
    for tb in tfl.tile(b):
        frame = x[tb, :width]
        running = tfl.zeros([tb])
        low = tfl.full([tb], float("inf"))
        for lag in range(1, lags):
            d = ((frame - x[tb, lag : lag + width]) ** 2).sum(1)
            running += d
            value = d * lag / running.clamp(min=1e-9)
            curve[tb, lag - 1] = value
            low = torch.minimum(low, value)
        lowest[tb] = low
    return curve, lowest


def make_rnnt(b: Any, t: Any, u: Any) -> Any:
    lengths = random.Random(0)
    frames = torch.tensor([lengths.randint(t // 2, t) for _ in range(b)], dtype=torch.int32)
    labels = torch.tensor([lengths.randint(u // 2, u) for _ in range(b)], dtype=torch.int32)
    return -torch.rand(b, t, u + 1), -torch.rand(b, t, u) * 2, frames, labels


def rnnt_ref(blank: Any, label: Any, frames: Any, labels: Any) -> Any:
    b, t, _n = blank.shape
    rows = torch.arange(b)
    up = F.pad(label.cumsum(2), (1, 0))
    row = up[:, 0]
    alphas = [row]
    for i in range(1, t):
        row = up[:, i] + torch.logcumsumexp(row + blank[:, i - 1] - up[:, i], 1)
        alphas.append(row)
    last, most = frames.long() - 1, labels.long()
    return -(torch.stack(alphas, 1)[rows, last, most] + blank[rows, last, most])


@stranger(make_rnnt, rnnt_ref, {"b": 3, "t": 7, "u": 5}, {"b": 512, "t": 400, "u": 80})
@tileflow.kernel
def transducer_loss(blank, label, frames, labels):
    """Graves, 2012, arXiv:1211.3711: diagonals of the lattice, one after another."""
    b, t, n = blank.shape
    loss = torch.empty(b, device=blank.device)
    for ib in tfl.grid(b):
        u = tfl.arange(n)
        alpha = torch.where(u == 0, 0.0, -1e30)
        final = 0.0
        last, most = frames[ib] - 1, labels[ib]
        for d in range(1, t + n):
            i = d - u
            stay = alpha + tfl.load(blank, [ib, i - 1, u], extra_mask=(i >= 1) & (i <= t), other=-1e30)
            left = torch.where(u > 0, torch.roll(alpha, 1, 0), -1e30)
            step = left + tfl.load(label, [ib, i, u - 1], extra_mask=(i >= 0) & (i < t) & (u > 0), other=-1e30)
            here = (u == most) & (i == last + 1)
            final = final + torch.where(here, stay, 0.0).sum()
            alpha = torch.logaddexp(stay, step)
        loss[ib] = -final
    return loss


STEPS = [7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97]
while len(STEPS) < 89:
    STEPS.append(min(int(STEPS[-1] * 1.1), 32767))
TURNS = [-1, -1, -1, -1, 2, 4, 6, 8] * 2


def make_adpcm(b: Any, n: Any) -> Any:
    return (
        torch.randint(0, 256, (b, n), dtype=torch.uint8),
        torch.randint(-1000, 1000, (b,), dtype=torch.int16),
        torch.randint(0, 89, (b,), dtype=torch.uint8),
        torch.tensor(STEPS, dtype=torch.int32),
        torch.tensor(TURNS, dtype=torch.int32),
    )


def adpcm_ref(codes: Any, first: Any, index: Any, steps: Any, turns: Any) -> Any:
    value, index = first.int(), index.int()
    out = []
    for i in range(2 * codes.size(1)):
        code = (codes[:, i // 2].int() >> (4 * (i % 2))) & 15
        step = steps[index.long()]
        d = (step >> 3) + (code & 1) * (step >> 2) + ((code >> 1) & 1) * (step >> 1) + ((code >> 2) & 1) * step
        value = (value + torch.where(code >= 8, -d, d)).clamp(-32768, 32767)
        index = (index + turns[code.long()]).clamp(0, 88)
        out.append(value)
    return torch.stack(out, 1).to(torch.int16)


@stranger(make_adpcm, adpcm_ref, {"b": 5, "n": 5}, {"b": 65536, "n": 256})
@tileflow.kernel
def adpcm_decode(codes, first, index, steps, turns):
    """IMA ADPCM: four bits a sample, with a step that the codes themselves turn up and down."""
    b, n = codes.shape
    out = torch.empty(b, 2 * n, dtype=torch.int16, device=codes.device)
    for tb in tfl.tile(b):
        value = first[tb].int()
        at = index[tb].int()
        for i in range(n):
            byte = codes[tb, i].int()
            for half in range(2):
                code = (byte >> (4 * half)) & 15
                step = steps[at]
                change = step >> 3
                change = torch.where((code & 1) != 0, change + (step >> 2), change)
                change = torch.where((code & 2) != 0, change + (step >> 1), change)
                change = torch.where((code & 4) != 0, change + step, change)
                value = torch.where((code & 8) != 0, value - change, value + change).clamp(-32768, 32767)
                at = (at + turns[code]).clamp(0, 88)
                out[tb, 2 * i + half] = value.to(torch.int16)
    return out


def make_utterances(n: Any, most: Any, d: Any) -> Any:
    lengths = random.Random(0)
    ends = list(itertools.accumulate([lengths.randint(2, most) for _ in range(n)], initial=0))
    return randn(ends[-1], d) * 3 + 1, torch.tensor(ends)


def utterance_ref(features: Any, offsets: Any) -> Any:
    lengths = offsets.diff()
    owner = torch.repeat_interleave(torch.arange(lengths.numel()), lengths)
    zero = features.new_zeros(lengths.numel(), features.size(1))
    centred = features - (zero.index_add(0, owner, features) / lengths[:, None])[owner]
    var = zero.index_add(0, owner, centred**2) / lengths[:, None]
    return centred * torch.rsqrt(var + 1e-5)[owner]


@stranger(make_utterances, utterance_ref, {"n": 5, "most": 9, "d": 7}, {"n": 2048, "most": 1600, "d": 80})
@helion.kernel()
def utterance_norm(features: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Kaldi's normalisation by utterance: packed frames, each column by its own mean and variance."""
    n = offsets.size(0) - 1
    d = features.size(1)
    out = torch.empty_like(features)
    for iu, td in hl.tile([n, d], block_size=[1, None]):
        start, end = offsets[iu.begin], offsets[iu.begin + 1]
        total = hl.zeros([td], dtype=torch.float32)
        squares = hl.zeros([td], dtype=torch.float32)
        for tile in hl.tile(start, end):
            x = features[tile, td]
            total = total + x.sum(0)
            squares = squares + (x * x).sum(0)
        mean = total / (end - start)
        scale = torch.rsqrt(squares / (end - start) - mean * mean + 1e-5)
        for tile in hl.tile(start, end):
            out[tile, td] = (features[tile, td] - mean[None, :]) * scale[None, :]
    return out
