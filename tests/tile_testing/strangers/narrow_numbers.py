"""Numbers of six, four and two bits: microscaling, scales that are numbers of eight bits, codes that a stream hides."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_six_bits(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Any:
    return (randn(rows, columns, dtype=dtype) * torch.exp(3 * torch.randn(rows, 1)).to(dtype),)


def six_bits_ref(x: Any) -> Any:
    blocks = x.float().unflatten(1, (-1, 32))
    top = blocks.abs().amax(2)
    exponent = torch.where(top > 0, (top.view(torch.int32) >> 23) - 127 - 2, -127).clamp(-127, 127)
    small = torch.ldexp(blocks, -exponent[:, :, None])
    size = small.abs().clamp(max=7.5)
    step = torch.where(size < 2, 0.125, torch.where(size < 4, 0.25, 0.5))
    size = torch.round(size / step) * step
    code = torch.where(size < 2, size * 8, torch.where(size < 4, 8 + size * 4, 16 + size * 2)).int()
    code = (code | torch.where(small < 0, 32, 0)).unflatten(2, (-1, 4))
    word = code[..., 0] | code[..., 1] << 6 | code[..., 2] << 12 | code[..., 3] << 18
    packed = torch.stack([word & 255, word >> 8 & 255, word >> 16], -1).flatten(1)
    return packed.to(torch.uint8), (exponent + 127).to(torch.uint8)


@stranger(
    make_six_bits,
    six_bits_ref,
    {"rows": 13, "columns": 96},
    {"rows": 8192, "columns": 8192, "dtype": torch.bfloat16},
)
@tileflow.kernel
def mxfp6_pack(x):
    """OCP's microscaling formats, 2023, e2m3: an exponent for 32 numbers of six bits, four of them in three bytes."""
    rows, columns = x.shape
    blocks = columns // 32
    grouped = x.view(rows, blocks, 32)
    packed = torch.empty(rows, blocks, 8, 3, dtype=torch.uint8, device=x.device)
    scale = torch.empty(rows, blocks, dtype=torch.uint8, device=x.device)
    for tr, tb in tfl.tile([rows, blocks]):
        values = grouped[tr, tb, :].float()
        top = values.abs().amax(2)
        exponent = torch.where(top > 0, (top.view(torch.int32) >> 23) - 129, -127).clamp(-127, 127)
        scale[tr, tb] = exponent + 127
        small = torch.ldexp(values, -exponent[:, :, None])
        size = small.abs().clamp(max=7.5)
        step = torch.where(size < 2, 0.125, torch.where(size < 4, 0.25, 0.5))
        size = torch.round(size / step) * step
        code = torch.where(size < 2, size * 8, torch.where(size < 4, 8 + size * 4, 16 + size * 2)).int()
        code = code | torch.where(small < 0, 32, 0)
        a, b, c, d = code.reshape(tr, tb, 8, 4).unbind(-1)
        word = a | (b << 6) | (c << 12) | (d << 18)
        packed[tr, tb, :, 0] = word & 255
        packed[tr, tb, :, 1] = (word >> 8) & 255
        packed[tr, tb, :, 2] = word >> 16
    return packed.view(rows, blocks * 24), scale


def normal_floats() -> torch.Tensor:
    even = torch.linspace(0.9677083, 0.5, 9)[:-1]
    positive = torch.special.ndtri(even)
    negative = -torch.special.ndtri(torch.linspace(0.9677083, 0.5, 8)[:-1])
    return torch.cat([positive, negative, torch.zeros(1)]).sort().values / positive.max()


def make_double(rows: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> Any:
    n = rows * columns
    book = torch.cat([-torch.logspace(-6, 0, 128).flip(0), torch.logspace(-6, 0, 128)])
    return (
        torch.randint(0, 256, (n // 2,), dtype=torch.uint8),
        torch.randint(0, 256, (n // 64,), dtype=torch.uint8),
        torch.rand(n // 64 // 256 + 1),
        normal_floats(),
        book,
        0.05,
        rows,
        dtype,
    )


def double_ref(packed: Any, scale: Any, top: Any, code: Any, book: Any, mean: float, rows: int, dtype: Any) -> Any:
    each = torch.arange(scale.numel()) // 256
    size = book[scale.long()] * top[each] + mean
    values = torch.stack([code[(packed >> 4).long()], code[(packed & 15).long()]], -1)
    return (values.view(-1, 64) * size[:, None]).view(rows, -1).to(dtype)


@stranger(
    make_double,
    double_ref,
    {"rows": 24, "columns": 192, "dtype": torch.float32},
    {"rows": 4096, "columns": 14336},
)
@tileflow.kernel
def double_dequantise(packed, scale, top, code, book, mean: float, rows: int, dtype: torch.dtype):
    """Dettmers and others, 2023 (QLoRA): NF4 whose scales are numbers of eight bits, with scales of their own."""
    n = packed.numel()
    out = torch.empty(n, 2, dtype=dtype, device=packed.device)
    for tile in tfl.tile(n):
        block = tile.index // 32
        size = book[scale[block].int()] * top[block // 256] + mean
        byte = packed[tile].int()
        out[tile, 0] = code[byte >> 4] * size
        out[tile, 1] = code[byte & 15] * size
    return out.view(rows, 2 * n // rows)


def make_stream(rows: int, columns: int, b: int, dtype: torch.dtype = torch.float32) -> Any:
    words = torch.randint(-(1 << 31), 1 << 31, (rows, columns // 256, 16)).int()
    return (
        words,
        torch.rand(rows) / 100,
        torch.where(torch.rand(columns) < 0.5, -1.0, 1.0),
        randn(b, columns, dtype=dtype),
    )


def stream_ref(words: Any, scale: Any, sign: Any, x: Any) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    signed = x.to(wide) * sign.to(wide)
    out = torch.empty(x.size(0), words.size(0), dtype=wide)
    unsigned = words.long() & 0xFFFFFFFF
    ahead = unsigned.roll(-1, 2)
    bit = 2 * torch.arange(256)
    for rows in range(0, words.size(0), 256):
        part = slice(rows, rows + 256)
        both = unsigned[part, :, bit >> 5] << 32 | ahead[part, :, bit >> 5]
        state = both >> (48 - (bit & 31)) & 0xFFFF
        mixed = (state * 34038481 + 76625530) & 0xFFFFFFFF
        total = (mixed & 255) + (mixed >> 8 & 255) + (mixed >> 16 & 255) + (mixed >> 24)
        weight = ((total - 510).to(wide) / 147.8).flatten(1) * scale[part, None].to(wide)
        out[:, part] = signed @ weight.T
    return out.to(x.dtype)


@stranger(
    make_stream,
    stream_ref,
    {"rows": 19, "columns": 512, "b": 2},
    {"rows": 8192, "columns": 8192, "b": 4, "dtype": torch.float16},
)
@tileflow.kernel
def trellis_linear(words, scale, sign, x):
    """Tseng and others, 2024 (QTIP): each weight is a hash of sixteen bits of a ring of them, moved on by two."""
    rows, blocks, _ = words.shape
    b = x.size(0)
    flat = x.view(b, blocks, 256)
    signs = sign.view(blocks, 256)
    out = torch.empty(b, rows, dtype=x.dtype, device=x.device)
    for tr in tfl.tile(rows):
        acc = tfl.zeros([b, tr])
        for n in range(blocks):
            bit = 2 * tfl.arange(256)
            word, shift = bit // 32, bit % 32
            high = words[tr, n, word].long() & 0xFFFFFFFF
            low = words[tr, n, (word + 1) % 16].long() & 0xFFFFFFFF
            state = (((high << 32) | low) >> (48 - shift)) & 0xFFFF
            mixed = state * 34038481 + 76625530
            total = (mixed & 255) + ((mixed >> 8) & 255) + ((mixed >> 16) & 255) + ((mixed >> 24) & 255)
            weight = (total - 510).to(x.dtype) / 147.8
            acc += (flat[:, n, :] * signs[n, :]).to(x.dtype) @ weight.T
        out[:, tr] = acc * scale[tr]
    return out
