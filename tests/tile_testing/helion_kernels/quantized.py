"""Operands of fewer bits."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True, config=helion.Config(block_sizes=[16, 16, 32]))
def bf16_int16_gemm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    n = w.size(1)
    out = torch.empty([m, n], dtype=torch.bfloat16, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], w[tile_k, tile_n].to(torch.bfloat16))
        out[tile_m, tile_n] = acc.to(torch.bfloat16)
    return out


@helion.kernel(static_shapes=False, config=helion.Config(block_sizes=[16, 16, 16]))
def int4_gemm(a: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    m, k = a.shape
    n = packed.size(1)
    out = torch.zeros(m, n, dtype=torch.bfloat16, device=a.device)
    block_k = hl.register_block_size(k // 2)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k // 2, block_size=block_k):
            begin = tile_k.begin * 2
            left = a[tile_m, begin : begin + block_k * 2]
            both = packed[tile_k, tile_n]
            low = ((both << 4) >> 4).to(torch.int8)
            high = (both >> 4).to(torch.int8)
            stacked = torch.stack([low.to(a.dtype), high.to(a.dtype)], dim=1)
            right = stacked.reshape(tile_k.block_size * 2, tile_n.block_size)
            acc = hl.dot(left, right, acc=acc)
        out[tile_m, tile_n] = acc.to(torch.bfloat16)
    return out


def unpacked(a: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    low, high = ((packed << 4) >> 4).to(torch.int8), (packed >> 4).to(torch.int8)
    whole = torch.stack([low, high], dim=1).reshape(-1, packed.size(1))
    return (a.float() @ whole.float()).to(torch.bfloat16)


@helion.kernel(config=helion.Config(block_sizes=[16, 16, 16]))
def int4_gemm_by_planes(a: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    m, _k = a.shape
    half, n = packed.shape
    even, odd = a[:, 0::2].contiguous(), a[:, 1::2].contiguous()
    out = torch.empty(m, n, dtype=torch.bfloat16, device=a.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(half):
            both = packed[tile_k, tile_n].to(torch.int32)
            low = ((both << 28) >> 28).to(a.dtype)
            high = (both >> 4).to(a.dtype)
            acc = hl.dot(even[tile_m, tile_k], low, acc=acc)
            acc = hl.dot(odd[tile_m, tile_k], high, acc=acc)
        out[tile_m, tile_n] = acc.to(torch.bfloat16)
    return out


@helion.kernel(static_shapes=True, config=helion.Config(block_sizes=[16, 16, 32]))
def fp8_gemm(x: torch.Tensor, y: torch.Tensor, scale_x: torch.Tensor, scale_y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    n = y.size(1)
    out = torch.empty([m, n], dtype=torch.float16, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = hl.dot(x[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        out[tile_m, tile_n] = (acc * scale_x[tile_m][:, None] * scale_y[tile_n][None, :]).to(torch.float16)
    return out


@helion.kernel(config=helion.Config(block_sizes=[4]))
def quantize_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = x.shape
    out = torch.empty([m, n], dtype=torch.int8, device=x.device)
    scales = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile in hl.tile(m):
        row = x[tile, :].float()
        scale = torch.clamp(torch.amax(torch.abs(row), dim=-1), min=1e-8) / 127.0
        out[tile, :] = torch.clamp(torch.round(row / scale[:, None]), min=-127, max=127).to(torch.int8)
        scales[tile] = scale
    return out, scales


def quantized_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(1).clamp(min=1e-8) / 127.0
    return (x / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale


def cases():
    a = torch.randn(17, 64).bfloat16()
    w = torch.randint(-50, 50, (64, 20), dtype=torch.int16)
    packed = torch.randint(-128, 128, (32, 20), dtype=torch.int8)
    x8, y8 = torch.randn(17, 64).to(torch.float8_e4m3fn), torch.randn(64, 20).to(torch.float8_e4m3fn)
    sx, sy = torch.rand(17), torch.rand(20)
    yield "bf16_int16_gemm", bf16_int16_gemm, (a, w), lambda x, y: (x.float() @ y.float()).bfloat16()
    yield "int4_gemm", int4_gemm, (a, packed), unpacked
    yield "int4_gemm_by_planes", int4_gemm_by_planes, (a, packed), unpacked
    yield (
        "fp8_gemm", fp8_gemm, (x8, y8, sx, sy),
        lambda x, y, s, t: ((x.float() @ y.float()) * s[:, None] * t[None, :]).half(),
    )  # fmt: skip
    yield "quantize_rows", quantize_rows, (torch.randn(9, 50),), quantized_rows
