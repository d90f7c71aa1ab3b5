"""Video: how blocks move, edges of blocks, modes of prediction, noise over time, cuts, high dynamic range."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def pictures(frames: Any, h: Any, w: Any) -> Any:
    y, x, t = torch.arange(h)[:, None], torch.arange(w), torch.arange(frames)[:, None, None]
    wave = 60 * torch.sin((x + 3 * t) * 0.11) + 50 * torch.cos((y - 2 * t) * 0.07)
    return (wave + 128 + 12 * torch.rand(frames, h, w)).to(torch.uint8)


def motion_ref(frame: Any, before: Any, reach: int) -> Any:
    f, h, w = frame.shape
    wide = torch.nn.functional.pad(before.int(), (reach,) * 4)
    best = torch.full((f, h // 16, w // 16), 1 << 30, dtype=torch.int32)
    move = torch.zeros(f, h // 16, w // 16, 2, dtype=torch.int8)
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            apart = (frame.int() - wide[:, reach + dy :, reach + dx :][:, :h, :w]).abs()
            sad = apart.view(f, h // 16, 16, w // 16, 16).sum((2, 4)).int()
            better = sad < best
            best = torch.where(better, sad, best)
            move[better] = torch.tensor([dy, dx], dtype=torch.int8)
    return move, best, best.sum((1, 2))


def make_motion(f: Any, h: Any, w: Any, reach: Any) -> Any:
    x = pictures(f + 1, h, w)
    return x[1:], x[:-1], reach


@stranger(make_motion, motion_ref, {"f": 2, "h": 32, "w": 48, "reach": 2}, {"f": 4, "h": 1088, "w": 1920, "reach": 12})
@tileflow.kernel
def block_motion(frame, before, reach: tfl.constexpr):
    """Full search: where each block of 16 by 16 was one frame earlier, by the least sum of absolute differences."""
    f, h, w = frame.shape
    move = torch.empty(f, h // 16, w // 16, 2, dtype=torch.int8, device=frame.device)
    sad = torch.empty(f, h // 16, w // 16, dtype=torch.int32, device=frame.device)
    cost = torch.zeros(f, dtype=torch.int64, device=frame.device)
    for k, by, bx in tfl.grid([f, h // 16, w // 16]):
        y, x = by * 16, bx * 16
        block = frame[k, y : y + 16, x : x + 16].int()
        best, up, left = 1 << 30, 0, 0
        for dy in range(-reach, reach + 1):
            for dx in range(-reach, reach + 1):
                there = before[k, y + dy : y + dy + 16, x + dx : x + dx + 16].int()
                total = (block - there).abs().sum().int()
                if total < best:
                    best, up, left = total, dy, dx
        move[k, by, bx, 0] = up
        move[k, by, bx, 1] = left
        sad[k, by, bx] = best
        tfl.atomic_add(cost, [k], best)
    return move, sad, cost


def filtered(p1, p0, q0, q1, alpha, beta, limit):
    edge = ((p0 - q0).abs() < alpha) & ((p1 - p0).abs() < beta) & ((q1 - q0).abs() < beta)
    step = torch.clamp((4 * (q0 - p0) + p1 - q1 + 4) >> 3, min=-limit, max=limit)
    step = torch.where(edge, step, 0)
    return torch.clamp(p0 + step, 0, 255), torch.clamp(q0 - step, 0, 255)


def deblock_ref(frame: Any, quantiser: Any, limits: Any, alpha: int, beta: int) -> Any:
    x = frame.int()
    for _ in range(2):  # edges that stand, then, turned, those that lie
        c = limits[quantiser.long()].int().repeat_interleave(8, 1)
        p1, p0, q0, q1 = x[..., 6:-2:8], x[..., 7:-1:8], x[..., 8::8], x[..., 9::8]
        low, high = filtered(p1, p0, q0, q1, alpha, beta, c[..., 1:])
        x = x.clone()
        x[..., 7:-1:8], x[..., 8::8] = low, high
        x, quantiser = x.mT, quantiser.mT
    return x.to(torch.uint8)


@stranger(
    lambda frames, h, w: (
        torch.randint(0, 40, (frames, h, w)).add(100).to(torch.uint8),
        torch.randint(0, 52, (frames, h // 8, w // 8)).to(torch.uint8),
        torch.arange(52).div(4).to(torch.int8),
        25,
        12,
    ),
    deblock_ref,
    {"frames": 2, "h": 24, "w": 40},
    {"frames": 24, "h": 1080, "w": 1920},
)
@tileflow.kernel
def deblock_edges(frame, quantiser, limits, alpha, beta):
    """List et al., 2003: the edges of blocks of 8 by 8 made smooth where steps are small, as far as a table allows."""
    f, h, w = frame.shape
    out = frame.clone()
    for tf, ty, te in tfl.tile([f, h, w // 8 - 1]):
        x = 8 * te.index + 8
        c = limits[quantiser[tf, ty.index // 8, te + 1]].int()
        p1, p0, q0, q1 = (out[tf, ty, x + k].int() for k in (-2, -1, 0, 1))
        p0, q0 = filtered(p1, p0, q0, q1, alpha, beta, c)
        out[tf, ty, x - 1] = p0
        out[tf, ty, x] = q0
    for tf, te, tx in tfl.tile([f, h // 8 - 1, w]):
        y = 8 * te.index + 8
        c = limits[quantiser[tf, te + 1, tx.index // 8]].int()
        p1, p0, q0, q1 = (out[tf, y + k, tx].int() for k in (-2, -1, 0, 1))
        p0, q0 = filtered(p1, p0, q0, q1, alpha, beta, c)
        out[tf, y - 1, tx] = p0
        out[tf, y, tx] = q0
    return out


def modes_ref(frame: Any, hadamard: Any) -> Any:
    f, h, w = frame.shape
    x = frame.float()
    block = x.view(f, h // 8, 8, w // 8, 8).transpose(2, 3)
    above = torch.full_like(block[..., 0], 128.0)
    above[:, 1:] = block[:, :-1, :, 7]
    left = torch.full_like(above, 128.0)
    left[:, :, 1:] = block[:, :, :-1, :, 7]
    mean = torch.floor((above.sum(-1) + left.sum(-1) + 8) / 16)
    guesses = [
        mean[..., None, None].expand_as(block),
        above[..., None, :].expand_as(block),
        left[..., :, None].expand_as(block),
        torch.floor((above[..., None, :] + left[..., :, None]) / 2),
    ]
    rest = torch.stack([block - guess for guess in guesses])
    cost = (hadamard @ rest @ hadamard.T).abs().sum((-1, -2))
    least, mode = cost.min(0)
    chosen = rest.gather(0, mode[None, ..., None, None].expand(1, *rest.shape[1:]))[0]
    return mode.to(torch.uint8), chosen.to(torch.int16), least.sum((1, 2))


def make_modes(frames: Any, h: Any, w: Any) -> Any:
    two = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    return pictures(frames, h, w), torch.kron(two, torch.kron(two, two))


@stranger(make_modes, modes_ref, {"frames": 2, "h": 24, "w": 40}, {"frames": 16, "h": 1080, "w": 1920})
@tileflow.kernel
def intra_modes(frame, hadamard):
    """Blocks of 8 by 8 from their neighbours: the flattest of four guesses by Hadamard's transform, what is left."""
    f, h, w = frame.shape
    rows, columns = h // 8, w // 8
    mode = torch.empty(f, rows, columns, dtype=torch.uint8, device=frame.device)
    left_over = torch.empty(f, rows, columns, 8, 8, dtype=torch.int16, device=frame.device)
    total = torch.zeros(f, device=frame.device)
    blocks = frame.view(f, rows, 8, columns, 8)
    for k, y in tfl.grid([f, rows]):
        for tb in tfl.tile(columns):
            block = blocks[k, y, :, tb, :].permute(1, 0, 2).float()
            above = torch.where(y > 0, blocks[k, y - 1, 7, tb, :].float(), 128.0)
            left = torch.where(tb.index[:, None] > 0, blocks[k, y, :, tb - 1, 7].T.float(), 128.0)
            mean = torch.floor((above.sum(1) + left.sum(1) + 8) / 16)
            flat = torch.floor((above[:, None, :] + left[:, :, None]) / 2)
            best = tfl.full([tb], float("inf"))
            which = tfl.zeros([tb], dtype=torch.int32)
            rest = tfl.zeros([tb, 8, 8])
            for i, guess in enumerate((mean[:, None, None], above[:, None, :], left[:, :, None], flat)):
                here = block - guess
                cost = (hadamard[:, :] @ here @ hadamard[:, :].T).abs().sum(2).sum(1)
                better = cost < best
                best = torch.where(better, cost, best)
                which = torch.where(better, i, which)
                rest = torch.where(better[:, None, None], here, rest)
            mode[k, y, tb] = which
            left_over[k, y, tb, :, :] = rest
            tfl.atomic_add(total, [k], best.sum())
    return mode, left_over, total


def denoise_ref(frame: Any, strength: float) -> Any:
    state, noise = frame[0].float(), torch.zeros(frame.shape[1:])
    out, moved = [frame[0]], [torch.zeros((), dtype=torch.int64)]
    for x in frame[1:].float():
        apart = x - state
        keep = torch.exp(-((apart / strength) ** 2)) * 0.9
        state = x - keep * apart
        noise = noise + (apart.square() - noise) * 0.1 * keep
        out.append(torch.round(state).to(torch.uint8))
        moved.append((keep < 0.1).sum())
    return torch.stack(out), torch.sqrt(noise).half(), torch.stack(moved).int()


@stranger(
    lambda t, h, w: (pictures(t, h, w), 15.0),
    denoise_ref,
    {"t": 7, "h": 11, "w": 21},
    {"t": 48, "h": 1080, "w": 1920},
)
@tileflow.kernel
def temporal_denoise(frame, strength):
    """A recursive filter over time that lets go where a pixel moved; the noise of each, and how many moved a frame."""
    t, h, w = frame.shape
    out = torch.empty_like(frame)
    noise = torch.empty(h, w, dtype=torch.float16, device=frame.device)
    moved = torch.zeros(t, dtype=torch.int32, device=frame.device)
    for ty, tx in tfl.tile([h, w]):
        state = frame[0, ty, tx].float()
        level = torch.zeros_like(state)
        out[0, ty, tx] = frame[0, ty, tx]
        for k in range(1, t):
            x = frame[k, ty, tx].float()
            apart = x - state
            keep = torch.exp(-((apart / strength) ** 2)) * 0.9
            state = x - keep * apart
            level = level + (apart.square() - level) * 0.1 * keep
            out[k, ty, tx] = torch.round(state).to(torch.uint8)
            tfl.atomic_add(moved, [k], (keep < 0.1).sum())
        noise[ty, tx] = torch.sqrt(level)
    return out, noise, moved


def cuts_ref(clip: Any, least: float) -> Any:
    luma = (77 * clip[:, 0].int() + 150 * clip[:, 1].int() + 29 * clip[:, 2].int()) >> 10
    counts = torch.stack([torch.bincount(x.flatten(), minlength=64) for x in luma]).int()
    a, b = counts.float(), counts[torch.arange(len(counts)).sub(1).clamp(min=0)].float()
    far = ((a - b) ** 2 / (a + b).clamp(min=1)).sum(1) / luma[0].numel()
    return counts, far, far > least, (counts.cumsum(1) < luma[0].numel() / 2).sum(1).to(torch.uint8)


def make_clip(t: Any, h: Any, w: Any) -> Any:
    return torch.randint(0, 256, (t, h, w, 3)).to(torch.uint8).permute(0, 3, 1, 2), 0.2


@stranger(make_clip, cuts_ref, {"t": 5, "h": 13, "w": 19}, {"t": 150, "h": 540, "w": 960})
@tileflow.kernel
def scene_cuts(clip, least):
    """Histograms of brightness of each frame, how far from that of the one before, whether it is a cut, the median."""
    t, _, h, w = clip.shape
    counts = torch.zeros(t, 64, dtype=torch.int32, device=clip.device)
    far = torch.empty(t, device=clip.device)
    cut = torch.empty(t, dtype=torch.bool, device=clip.device)
    median = torch.empty(t, dtype=torch.uint8, device=clip.device)
    for tk, ty, tx in tfl.tile([t, h, w]):
        red, green, blue = (clip[tk, c, ty, tx].int() for c in range(3))
        luma = (77 * red + 150 * green + 29 * blue) >> 10
        tfl.atomic_add(counts, [tk.index[:, None, None], luma], 1)
    for tk in tfl.tile(t):
        here, before = counts[tk, :].float(), counts[torch.clamp(tk.index - 1, min=0), :].float()
        far[tk] = apart = ((here - before) ** 2 / torch.clamp(here + before, min=1)).sum(1) / (h * w)
        cut[tk] = apart > least
        median[tk] = (torch.cumsum(counts[tk, :], 1) < h * w / 2).sum(1).to(torch.uint8)
    return counts, far, cut, median


def tone_mapped(word, white):
    p = [torch.pow(((word >> s) & 1023).float() / 1023, 1 / 78.84375) for s in (20, 10, 0)]
    q = [torch.clamp(x - 0.8359375, min=0) / (18.8515625 - 18.6875 * x) for x in p]
    r, g, b = (torch.pow(x, 1 / 0.1593017578125) * (10000 / white) for x in q)
    red = torch.clamp(1.6605 * r - 0.5876 * g - 0.0728 * b, min=0)
    green = torch.clamp(-0.1246 * r + 1.1329 * g - 0.0083 * b, min=0)
    blue = torch.clamp(-0.0182 * r - 0.1006 * g + 1.1187 * b, min=0)
    most = torch.maximum(torch.maximum(red, green), blue)
    red, green, blue = (torch.pow(torch.clamp(x / (1 + most), 0, 1), 1 / 2.4) for x in (red, green, blue))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue, blue, red, most


def hdr_ref(word: Any, white: float) -> Any:
    luma, blue, red, most = tone_mapped(word, white)
    f, h, w = word.shape
    both = torch.stack([(blue - luma) / 1.8556, (red - luma) / 1.5748], -1).view(f, h // 2, 2, w // 2, 2, 2)
    chroma = torch.round(128 + 224 * both.mean((2, 4)))
    return torch.round(16 + 219 * luma).to(torch.uint8), chroma.to(torch.uint8), most.amax((1, 2))


@stranger(
    lambda frames, h, w: (torch.randint(0, 1 << 30, (frames, h, w)).int(), 203.0),
    hdr_ref,
    {"frames": 2, "h": 10, "w": 22},
    {"frames": 3, "h": 2160, "w": 3840},
)
@tileflow.kernel
def hdr_to_sdr(word, white):
    """Packed PQ of 10 bits to 8 bits of the old gamut, with chroma at half size, and the brightest of each frame."""
    f, h, w = word.shape
    luma = torch.empty(f, h, w, dtype=torch.uint8, device=word.device)
    chroma = torch.empty(f, h // 2, w // 2, 2, dtype=torch.uint8, device=word.device)
    peak = torch.zeros(f, device=word.device)
    for tk, ty, tx in tfl.tile([f, h // 2, w // 2], block_size=[1, None, None]):
        cb = tfl.zeros([tk, ty, tx])
        cr = tfl.zeros([tk, ty, tx])
        for dy in range(2):
            for dx in range(2):
                y, x = 2 * ty.index + dy, 2 * tx.index + dx
                light, blue, red, most = tone_mapped(word[tk, y, x], white)
                luma[tk, y, x] = torch.round(16 + 219 * light).to(torch.uint8)
                cb += (blue - light) / 1.8556
                cr += (red - light) / 1.5748
                tfl.atomic_max(peak, [tk], most.amax(2).amax(1))
        chroma[tk, ty, tx, 0] = torch.round(128 + 56 * cb).to(torch.uint8)
        chroma[tk, ty, tx, 1] = torch.round(128 + 56 * cr).to(torch.uint8)
    return luma, chroma, peak
