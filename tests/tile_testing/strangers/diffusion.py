"""What makes images and films: codes of books, norms of pictures, turns in three directions, noise that is foretold."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def codes_ref(x: Any, book: Any) -> Any:
    n, _ = x.shape
    wide, codes = x.double(), []
    for part in wide.split(4096):
        codes.append((book.double().square().sum(1) - 2 * part @ book.double().T).argmin(1))
    code = torch.cat(codes)
    near = book[code]
    loss = (near.double() - wide).square().mean()
    counts = torch.bincount(code, minlength=book.size(0)).int()
    sums = torch.zeros(book.shape, dtype=torch.float64).index_add(0, code, wide)
    share = counts.double() / n
    return near, code, loss, counts, sums, (-share * (share + 1e-10).log()).sum().exp()


def make_codes(n: int, k: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    book = randn(k, d)
    return (book[torch.randint(0, k, (n,))] + 0.3 * randn(n, d)).to(dtype), book.to(dtype)


@stranger(
    make_codes,
    codes_ref,
    {"n": 53, "k": 29, "d": 20},
    {"n": 1 << 15, "k": 8192, "d": 256, "dtype": torch.bfloat16},
)
@tileflow.kernel
def quantise_codes(x, book):
    """Van den Oord and others, 2017 (VQ-VAE, its appendix): nearest codes, the loss, what averages of codes need."""
    n, d = x.shape
    k = book.size(0)
    near = torch.empty_like(x)
    codes = torch.empty(n, dtype=torch.int64, device=x.device)
    loss = torch.zeros((), device=x.device)
    counts = torch.zeros(k, dtype=torch.int32, device=x.device)
    sums = torch.zeros(k, d, device=x.device)
    perplexity = torch.empty((), device=x.device)
    for t in tfl.tile(n):
        z = x[t, :]
        size = book[:, :].float().square().sum(1)
        code = (size - 2 * tfl.dot(z, book[:, :].T)).argmin(1)
        q = book[code, :]
        codes[t] = code
        near[t, :] = q
        tfl.atomic_add(loss, [], (q.float() - z.float()).square().sum() / (n * d))
        tfl.atomic_add(counts, [code], 1)
        tfl.atomic_add(sums, [code, slice(None)], z.float())
    for _ in tfl.grid(1):
        share = counts[:] / n
        perplexity[()] = torch.exp(-(share * torch.log(share + 1e-10)).sum())
    return near, codes, loss, counts, sums, perplexity


def pictures_norm_ref(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
    return F.silu(F.group_norm(x.movedim(-1, 1), groups, weight, bias, eps)).movedim(1, -1)


@stranger(
    lambda n, h, w, c, groups, dtype=torch.float32: (
        randn(n, h, w, c, dtype=dtype) + 1, randn(c, dtype=dtype), randn(c, dtype=dtype), groups, 1e-5,
    ),
    pictures_norm_ref,
    {"n": 3, "h": 7, "w": 5, "c": 18, "groups": 6},
    {"n": 8, "h": 128, "w": 128, "c": 320, "groups": 32, "dtype": torch.bfloat16},
)  # fmt: skip
@tileflow.kernel
def group_norm_silu_last(x, weight, bias, groups: int, eps: float):
    """Wu and He, 2018, as in Rombach and others, 2022: channels in groups, of pictures with channels last."""
    n, h, w, c = x.shape
    out = torch.empty_like(x)
    grouped, result = (a.view(n, h * w, groups, c // groups) for a in (x, out))
    scale, shift = weight.view(groups, c // groups), bias.view(groups, c // groups)
    for tn, tg in tfl.tile([n, groups]):
        v = grouped[tn, :, tg, :].float()
        var, mean = torch.var_mean(v, dim=(1, 3), correction=0, keepdim=True)
        y = (v - mean) * torch.rsqrt(var + eps) * scale[tg, :] + shift[tg, :]
        result[tn, :, tg, :] = F.silu(y)
    return out


def film_rotary_ref(q: Any, k: Any, wq: Any, wk: Any, grid: Any, dims: Any, eps: float) -> None:
    frames, height, width = grid
    where = torch.stack(torch.meshgrid(*[torch.arange(s).double() for s in grid], indexing="ij"), -1).view(-1, 3)
    turns = []
    for axis, d in enumerate(dims):
        turns.append(where[:, axis, None] / 10000.0 ** (torch.arange(0, d, 2) / d))
    angle = torch.cat(turns, 1)
    turn = torch.polar(torch.ones_like(angle), angle)
    for x, weight in ((q, wq), (k, wk)):
        wide = x.double()
        normed = wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt() * weight
        seen = normed[:, : frames * height * width]
        pairs = torch.view_as_complex(seen.unflatten(-1, (-1, 2)).contiguous()) * turn[:, None]
        normed[:, : frames * height * width] = torch.view_as_real(pairs).flatten(-2)
        x.copy_(normed)


def make_film(b: int, grid: Any, text: int, heads: int, dims: Any, dtype: torch.dtype = torch.float32) -> Any:
    s, d = grid[0] * grid[1] * grid[2] + text, sum(dims)
    weights = [1 + 0.1 * randn(d, dtype=dtype) for _ in range(2)]
    return randn(b, s, heads, d, dtype=dtype), randn(b, s, heads, d, dtype=dtype), *weights, grid, dims, 1e-6


@stranger(
    make_film,
    film_rotary_ref,
    {"b": 2, "grid": (2, 3, 5), "text": 3, "heads": 3, "dims": (4, 6, 6)},
    {"b": 1, "grid": (9, 30, 52), "text": 256, "heads": 24, "dims": (16, 56, 56), "dtype": torch.bfloat16},
)
@tileflow.kernel
def film_rotary(q, k, wq, wk, grid: tuple[int, ...], dims: tfl.constexpr, eps: float) -> None:
    """Kong and others, 2024 (HunyuanVideo): queries and keys of films normed and turned in place, words only normed."""
    b, s, heads, _ = q.shape
    frames, height, width = grid
    for tb, ts, th in tfl.tile([b, s, heads]):
        i = ts.index
        where = (i // (height * width), i // width % height, i % width)
        turns = []
        for place, d in zip(where, dims, strict=True):
            turns.append(place[:, None] * 10000.0 ** (-tfl.arange(0, d, 2) / d))
        angle = torch.cat(turns, 1)
        angle = torch.where((i < frames * height * width)[:, None], angle, 0.0)[:, None, :]
        cos, sin = torch.cos(angle), torch.sin(angle)
        for x, weight in ((q, wq), (k, wk)):
            v = x[tb, ts, th, :].float()
            v = v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + eps) * weight[:]
            even, odd = v[..., 0::2], v[..., 1::2]
            x[tb, ts, th, :] = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def foretold_ref(image: Any, noise: Any, guess: Any, kept: Any, step: Any, gamma: float, buckets: int) -> Any:
    a = kept[step].view(-1, 1, 1, 1)
    clean = image.double() / 127.5 - 1
    goal = a.sqrt() * noise - (1 - a).sqrt() * clean
    snr = a / (1 - a)
    weight = snr.clamp(max=gamma) / (snr + 1)
    off = guess.double() - goal
    loss = (weight * off.square()).mean((1, 2, 3))
    bucket = step * buckets // kept.numel()
    zero = torch.zeros(buckets, dtype=torch.float64)
    grad = 2 * weight * off / off.numel()
    return loss, grad.to(guess.dtype), zero.index_add(0, bucket, loss), torch.bincount(bucket, minlength=buckets)


def make_foretold(b: int, c: int, h: int, w: int, dtype: torch.dtype = torch.float32) -> Any:
    kept = torch.cumprod(1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000).double() ** 2, 0)
    image = torch.randint(0, 256, (b, c, h, w)).to(torch.uint8)
    return image, randn(b, c, h, w), randn(b, c, h, w, dtype=dtype), kept, torch.randint(0, 1000, (b,)), 5.0, 7


@stranger(
    make_foretold,
    foretold_ref,
    {"b": 5, "c": 3, "h": 7, "w": 11},
    {"b": 32, "c": 3, "h": 512, "w": 512, "dtype": torch.bfloat16},
)
@tileflow.kernel
def snr_weighted_loss(image, noise, guess, kept, step, gamma: float, buckets: int):
    """Salimans and Ho, 2022, and Hang and others, 2023 (min-SNR): the loss of a foretold v, its gradient, by steps."""
    b, c, h, w = image.shape
    loss = torch.empty(b, device=image.device)
    grad = torch.empty_like(guess)
    by_step = torch.zeros(buckets, device=image.device)
    count = torch.zeros(buckets, dtype=torch.int64, device=image.device)
    for tb in tfl.tile(b):
        t = step[tb]
        a = kept[t]
        snr = a / (1 - a)
        weight = (torch.clamp(snr, max=gamma) / (snr + 1)).float()[:, None, None, None]
        keep, lose = torch.sqrt(a).float()[:, None, None, None], torch.sqrt(1 - a).float()[:, None, None, None]
        clean = image[tb, :, :, :].float() / 127.5 - 1
        off = guess[tb, :, :, :].float() - (keep * noise[tb, :, :, :] - lose * clean)
        one = (weight * off.square()).mean((1, 2, 3))
        loss[tb] = one
        grad[tb, :, :, :] = 2 * weight * off / (b * c * h * w)
        bucket = t * buckets // kept.numel()
        tfl.atomic_add(by_step, [bucket], one)
        tfl.atomic_add(count, [bucket], 1)
    return loss, grad, by_step, count


def last_layer_ref(x: Any, shift: Any, scale: Any, weight: Any, bias: Any, h: int, w: int, p: int) -> Any:
    normed = F.layer_norm(x, (x.size(2),), eps=1e-6)
    tokens = F.linear(normed * (1 + scale[:, None]) + shift[:, None], weight, bias)
    return F.fold(tokens.unflatten(2, (p * p, -1)).movedim(3, 2).flatten(2).mT, (h * p, w * p), p, stride=p)


def make_last_layer(b: int, h: int, w: int, p: int, c: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    weight = (d**-0.5 * torch.randn(p * p * c, d)).to(dtype)
    x, shift, scale = randn(b, h * w, d, dtype=dtype), randn(b, d, dtype=dtype), randn(b, d, dtype=dtype)
    return x, shift, 0.1 * scale, weight, randn(p * p * c, dtype=dtype), h, w, p


@stranger(
    make_last_layer,
    last_layer_ref,
    {"b": 3, "h": 5, "w": 3, "p": 2, "c": 3, "d": 36},
    {"b": 64, "h": 32, "w": 32, "p": 2, "c": 8, "d": 1152, "dtype": torch.bfloat16},
)
@tileflow.kernel
def last_layer_image(x, shift, scale, weight, bias, h: int, w: int, p: int):
    """Peebles and Xie, 2022 (DiT's last layer): a norm that is modulated, a product, and patches laid out as images."""
    b, _, d = x.shape
    c = weight.size(0) // (p * p)
    out = torch.empty(b, c, h * p, w * p, dtype=x.dtype, device=x.device)
    tokens = x.view(b, h, w, d)
    patches = out.view(b, c, h, p, w, p).permute(0, 2, 4, 3, 5, 1)
    for tb, ty, tx in tfl.tile([b, h, w]):
        z = F.layer_norm(tokens[tb, ty, tx, :], (d,), eps=1e-6)
        z = z * (1 + scale[tb, :][:, None, None, :]) + shift[tb, :][:, None, None, :]
        y = F.linear(z, weight[:, :], bias[:])
        patches[tb, ty, tx, :, :, :] = y.view(tb, ty, tx, p, p, c)
    return out
