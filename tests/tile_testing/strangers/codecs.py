"""Codecs: colours of video and textures, raw pictures, filters of PNG, range coding, signs of gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def nv12_ref(luma: Any, chroma: Any, mean: Any, scale: Any) -> Any:
    y = (luma.double() - 16) * (255 / 219)
    c = (chroma.double() - 128) * (255 / 224)
    u, v = (c[..., i].repeat_interleave(2, 1).repeat_interleave(2, 2) for i in range(2))
    rgb = torch.stack([y + 1.5748 * v, y - 0.1873 * u - 0.4681 * v, y + 1.8556 * u], 1).clamp(0, 255) / 255
    return ((rgb - mean[:, None, None]) * scale[:, None, None]).half()


@stranger(
    lambda b, h, w: (
        torch.randint(0, 256, (b, h, w), dtype=torch.uint8),
        torch.randint(0, 256, (b, h // 2, w // 2, 2), dtype=torch.uint8),
        torch.tensor([0.485, 0.456, 0.406]),
        torch.tensor([4.4, 4.5, 4.4]),
    ),
    nv12_ref,
    {"b": 2, "h": 6, "w": 14},
    {"b": 32, "h": 1080, "w": 1920},
)
@tileflow.kernel
def nv12_to_input(luma, chroma, mean, scale):
    """A decoder's pictures (BT.709, one colour for four pixels) as a network's planes."""
    b, h, w = luma.shape
    out = torch.empty(b, 3, h, w, dtype=torch.float16, device=luma.device)
    for tb, ty, tx in tfl.tile([b, h, w]):
        y = (luma[tb, ty, tx].float() - 16) * (255 / 219)
        u = (chroma[tb, ty.index // 2, tx.index // 2, 0].float() - 128) * (255 / 224)
        v = (chroma[tb, ty.index // 2, tx.index // 2, 1].float() - 128) * (255 / 224)
        rgb = [y + 1.5748 * v, y - 0.1873 * u - 0.4681 * v, y + 1.8556 * u]
        for i, c in enumerate(rgb):
            out[tb, i, ty, tx] = (c.clamp(0, 255) / 255 - mean[i]) * scale[i]
    return out


def bc1_ref(blocks: Any, width: Any) -> Any:
    ends = blocks[:, 0].long() & 0xFFFFFFFF
    c = torch.stack([ends & 0xFFFF, ends >> 16], 1)
    rgb = torch.stack([(c >> 11) * 255 // 31, ((c >> 5) & 63) * 255 // 63, (c & 31) * 255 // 31], -1)
    a, b = rgb[:, 0], rgb[:, 1]
    four = (c[:, :1] > c[:, 1:]).expand(-1, 3)
    black = torch.zeros_like(a)
    palette = torch.stack(
        [a, b, torch.where(four, (2 * a + b) // 3, (a + b) // 2), torch.where(four, (a + 2 * b) // 3, black)], 1
    )
    alpha = torch.where(four[:, :1], torch.tensor([255, 255, 255, 255]), torch.tensor([255, 255, 255, 0]))
    palette = torch.cat([palette, alpha[..., None]], -1).to(torch.uint8)
    code = (blocks[:, 1, None] >> (2 * torch.arange(16))) & 3
    texels = palette[torch.arange(blocks.size(0))[:, None], code.long()]
    return texels.view(-1, width // 4, 4, 4, 4).transpose(1, 2).reshape(-1, width, 4)


@stranger(
    lambda h, w: (torch.randint(-(1 << 31), 1 << 31, (h * w // 16, 2)).int(), w),
    bc1_ref,
    {"h": 12, "w": 20},
    {"h": 8192, "w": 8192},
)
@tileflow.kernel
def bc1_decode(blocks, width: int):
    """Textures of S3's first kind: sixteen texels in eight bytes, out of two colours and what is between."""
    across = width // 4
    height = blocks.size(0) // across * 4
    out = torch.empty(height, width, 4, dtype=torch.uint8, device=blocks.device)
    for ty, tx in tfl.tile([height, width]):
        i, j = ty.index[:, None], tx.index[None, :]
        block = (i // 4) * across + j // 4
        ends = blocks[block, 0]
        code = (blocks[block, 1] >> (2 * ((i % 4) * 4 + j % 4))) & 3
        first, second = ends & 0xFFFF, (ends >> 16) & 0xFFFF
        four = first > second
        for c, (shift, top) in enumerate(((11, 31), (5, 63), (0, 31))):
            a = ((first >> shift) & top) * 255 // top
            b = ((second >> shift) & top) * 255 // top
            third = torch.where(four, (2 * a + b) // 3, (a + b) // 2)
            fourth = torch.where(four, (a + 2 * b) // 3, 0)
            colour = torch.where(code == 0, a, torch.where(code == 1, b, torch.where(code == 2, third, fourth)))
            out[ty, tx, c] = colour.to(torch.uint8)
        out[ty, tx, 3] = torch.where(four | (code < 3), 255, 0)
    return out


def bayer_ref(raw: Any, black: Any, white: Any, gains: Any) -> Any:
    x = ((raw.to(torch.int32) - black) / (white - black)).clamp(0, 1)
    h, w = x.shape
    i, j = torch.arange(h)[:, None] % 2, torch.arange(w)[None] % 2
    where = [((i == 0) & (j == 0)), (i != j), ((i == 1) & (j == 1))]
    ring = torch.tensor([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]], dtype=x.dtype)[None, None]

    def spread(z: Any) -> Any:
        return F.conv2d(F.pad(z[None, None], (1, 1, 1, 1)), ring)[0, 0]

    planes = [spread(x * m) / spread(m.to(x.dtype)) for m in where]
    return (torch.stack(planes) * gains[:, None, None]).clamp(0, 1).to(torch.float16)


@stranger(
    lambda h, w: (torch.randint(0, 4096, (h, w)).to(torch.int16), 64, 4095, torch.tensor([1.9, 1.0, 1.6])),
    bayer_ref,
    {"h": 9, "w": 14},
    {"h": 8192, "w": 8192},
)
@tileflow.kernel
def demosaic(raw, black: int, white: int, gains):
    """A sensor's RGGB mosaic as three planes: each colour a weighted mean of those of the nine places that have it."""
    h, w = raw.shape
    out = torch.empty(3, h, w, dtype=torch.float16, device=raw.device)
    for ty, tx in tfl.tile([h, w]):
        total = [tfl.zeros([ty, tx]) for _ in range(3)]
        norm = [tfl.zeros([ty, tx]) for _ in range(3)]
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                i, j = (ty.index + dy)[:, None], (tx.index + dx)[None, :]
                value = ((raw[ty + dy, tx + dx].float() - black) / (white - black)).clamp(0, 1)
                inside = (i >= 0) & (i < h) & (j >= 0) & (j < w)
                weight = (2 - abs(dy)) * (2 - abs(dx)) * inside.float()
                red, blue = (i % 2 == 0) & (j % 2 == 0), (i % 2 == 1) & (j % 2 == 1)
                for c, mine in enumerate((red, ~(red | blue), blue)):
                    total[c] += torch.where(mine, weight * value, 0.0)
                    norm[c] += torch.where(mine, weight, 0.0)
        for c in range(3):
            out[c, ty, tx] = (total[c] / norm[c] * gains[c]).clamp(0, 1)
    return out


def paeth_ref(raw: Any) -> Any:
    b, h, w = raw.shape
    out = torch.zeros(b, h + 1, w + 1, dtype=torch.int32)
    for y in range(h):
        for x in range(w):
            left, up, corner = out[:, y + 1, x], out[:, y, x + 1], out[:, y, x]
            p = left + up - corner
            pa, pb, pc = (p - left).abs(), (p - up).abs(), (p - corner).abs()
            best = torch.where((pa <= pb) & (pa <= pc), left, torch.where(pb <= pc, up, corner))
            out[:, y + 1, x + 1] = (raw[:, y, x] + best) & 255
    return out[:, 1:, 1:].to(torch.uint8)


@stranger(
    lambda b, h, w: (torch.randint(0, 256, (b, h, w), dtype=torch.uint8),),
    paeth_ref,
    {"b": 7, "h": 3, "w": 5},
    {"b": 65536, "h": 24, "w": 24},
)
@tileflow.kernel
def paeth_unfilter(raw):
    """PNG's fourth filter undone, in many small pictures: each byte leans on three that were found before it."""
    b, h, w = raw.shape
    out = torch.empty_like(raw)
    for t in tfl.tile(b):
        for y in range(h):
            left = tfl.zeros([t], dtype=torch.int32)
            corner = tfl.zeros([t], dtype=torch.int32)
            for x in range(w):
                up = tfl.load(out, [t, y - 1, x]).int() if y > 0 else tfl.zeros([t], dtype=torch.int32)
                p = left + up - corner
                pa, pb, pc = (p - left).abs(), (p - up).abs(), (p - corner).abs()
                best = torch.where((pa <= pb) & (pa <= pc), left, torch.where(pb <= pc, up, corner))
                left = (raw[t, y, x].int() + best) & 255
                out[t, y, x] = left.to(torch.uint8)
                corner = up
    return out


def make_rans(b: Any, n: Any) -> Any:
    share = torch.tensor([900, 700, 600, 500, 400, 300, 200, 150, 100, 80, 60, 50, 30, 16, 8, 2], dtype=torch.int32)
    start = (share.cumsum(0) - share).int()
    owner = torch.repeat_interleave(torch.arange(16), share.long(), output_size=4096).to(torch.uint8)
    words = torch.randint(0, 65536, (b, n), dtype=torch.int32).to(torch.uint16)
    return torch.randint(1 << 16, 1 << 31, (b,)), words, owner, share, start, n


def rans_ref(state: Any, words: Any, owner: Any, share: Any, start: Any, n: Any) -> Any:
    x, at = state.clone(), torch.zeros_like(state)
    wide = words.int()
    rows, out = torch.arange(x.numel()), []
    for _ in range(n):
        slot = x & 4095
        symbol = owner[slot].long()
        x = share[symbol] * (x >> 12) + slot - start[symbol]
        short = x < 65536
        x = torch.where(short, (x << 16) | wide[rows, at.clamp(max=n - 1)], x)
        at = at + short
        out.append(symbol)
    return torch.stack(out, 1).to(torch.uint8), x


@stranger(make_rans, rans_ref, {"b": 7, "n": 13}, {"b": 65536, "n": 1024})
@tileflow.kernel
def rans_decode(state, words, owner, share, start, n: int):
    """Duda, 2013, arXiv:1311.2540: many streams of symbols, each with a state that takes in words as it runs low."""
    b = state.numel()
    out = torch.empty(b, n, dtype=torch.uint8, device=state.device)
    final = torch.empty_like(state)
    for t in tfl.tile(b):
        x = state[t]
        at = tfl.zeros([t], dtype=torch.int32)
        for i in range(n):
            slot = x & 4095
            symbol = owner[slot].int()
            x = share[symbol] * (x >> 12) + slot - start[symbol]
            short = x < 65536
            x = torch.where(short, (x << 16) | words[t.index, at].long(), x)
            at = at + short.int()
            out[t, i] = symbol.to(torch.uint8)
        final[t] = x
    return out, final


def signs_ref(grad: Any, error: Any) -> Any:
    x = grad + error
    scale = x.abs().mean(1)
    positive = x >= 0
    bits = (positive.unflatten(1, (-1, 32)).long() << torch.arange(32)).sum(-1).int()
    return bits, scale, x - torch.where(positive, scale[:, None], -scale[:, None])


@stranger(lambda b, n: (randn(b, n), randn(b, n)), signs_ref, {"b": 5, "n": 96}, {"b": 16384, "n": 4096})
@helion.kernel(static_shapes=True)
def sign_compress(grad: torch.Tensor, error: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Seide et al., 2014: a bit for each gradient and one scale for each bucket; what is lost is added next time."""
    b, n = grad.size()
    words = n // 32
    bits = torch.empty([b, words], dtype=torch.int32, device=grad.device)
    scale = torch.empty([b], dtype=torch.float32, device=grad.device)
    left = torch.empty_like(error)
    for tile in hl.tile(b):
        x = grad[tile, :] + error[tile, :]
        mean = x.abs().mean(-1)
        positive = x >= 0
        groups = positive.to(torch.int32).reshape(tile, words, 32)
        bits[tile, :] = (groups << hl.arange(32)).sum(-1).to(torch.int32)
        scale[tile] = mean
        left[tile, :] = x - torch.where(positive, mean[:, None], -mean[:, None])
    return bits, scale, left
