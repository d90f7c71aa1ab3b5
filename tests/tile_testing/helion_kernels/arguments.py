"""Arguments that decide what code is generated: sizes of blocks, branches, dtypes, devices, an author's own search."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch
from helion.autotuner import PowerOfTwoFragment

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


class FirstFit:
    """What an author's own search may be: no class of the dialect's, one method."""

    def __init__(self, args: tuple[torch.Tensor, ...]) -> None:
        self.args = args

    def autotune(self, *, skip_cache: bool = False) -> helion.Config:
        return helion.Config(block_sizes=[8 if self.args[0].size(0) < 10 else 16])


@helion.kernel(static_shapes=False, key=lambda x: x.size(0), autotuner_fn=lambda bound, args: FirstFit(args))
def sized_by_a_search(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] + tile.block_size
    return out


def compiled_twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    bound = scaled_by_int.bind((x, 5))
    by_config = bound.compile_config(helion.Config(block_sizes=[8]), allow_print=False)
    return by_config(x, 5), bound.compile_config(bound.config_spec.default_config())(x, 5)


@helion.kernel
def scaled_by_int(x: torch.Tensor, n: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        if 3 < n < 7:
            out[tile] = x[tile] * 2
        else:
            out[tile] = -x[tile]
    return out


def both_branches(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return scaled_by_int(x, 5), scaled_by_int(x, 10), scaled_by_int(x, 4)


@helion.kernel
def pairs_turned(x: torch.Tensor, heads: int, width: int, interleaved: bool) -> torch.Tensor:
    hl.specialize((heads, width))
    rows = x.view(x.size(0), -1, width)
    out = rows.clone()
    half = width // 2
    for tile_r, tile_h, _ in hl.tile([x.size(0), heads, width], block_size=[1, None, width]):
        if interleaved:
            first = hl.arange(half) * 2
            second = first + 1
        else:
            first = hl.arange(half)
            second = first + half
        out[tile_r, tile_h, first] = -rows[tile_r, tile_h, second]
        out[tile_r, tile_h, second] = rows[tile_r, tile_h, first]
    return out.view_as(x)


def turned(x: torch.Tensor, heads: int, width: int, interleaved: bool) -> torch.Tensor:
    out = x.clone().view(x.size(0), -1, width)
    first = slice(0, None, 2) if interleaved else slice(0, width // 2)
    second = slice(1, None, 2) if interleaved else slice(width // 2, None)
    whole = x.view_as(out)[:, :heads]
    out[:, :heads, first], out[:, :heads, second] = -whole[..., second], whole[..., first]
    return out.view_as(x)


@helion.kernel
def counted(length: int, device: torch.device) -> torch.Tensor:
    out = torch.empty([length], dtype=torch.int32, device=device)
    for tile in hl.tile(length):
        out[tile] = tile.index * 2
    return out


@helion.kernel
def carried_sums(x: torch.Tensor, start: torch.Tensor, dtype: torch.dtype, step: hl.constexpr = "up") -> torch.Tensor:
    steps = hl.specialize(x.size(1))
    out = torch.empty(x.shape, dtype=dtype, device=x.device)
    for tile_b, tile_d in hl.tile([x.size(0), x.size(2)]):
        i = hl.arange(steps)
        lower = i[:, None] >= i[None, :] if step == "up" else i[:, None] <= i[None, :]
        kept = lower.to(torch.float32)[None, :, :].broadcast_to(tile_b, steps, steps)
        first = start[tile_b, tile_d]
        whole = first[:, None, :].broadcast_to(tile_b, steps, first.size(-1))
        out[tile_b, :, tile_d] = hl.dot(kept, x[tile_b, :, tile_d], acc=whole).to(dtype)
    return out


@helion.kernel
def total_at_once_or_in_parts(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    parts = hl.register_tunable("parts", PowerOfTwoFragment(1, 4))
    piece = helion.next_power_of_2(helion.cdiv(k, parts))
    out = (torch.empty if parts == 1 else torch.zeros)([m, w.size(1)], dtype=torch.float32, device=x.device)
    for tile_m, tile_n, tile_p in hl.tile([m, w.size(1), k], block_size=[None, None, piece]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(tile_p.begin, tile_p.end):
            acc = torch.addmm(acc, x[tile_m, tile_k], w[tile_k, tile_n])
        if parts == 1:
            out[tile_m, tile_n] = acc
        else:
            hl.atomic_add(out, [tile_m, tile_n], acc)
    return out


@helion.kernel
def plus(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


@helion.kernel
def combined_by_a_kernel(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        upward = hl.associative_scan(plus, x[tile, :], dim=1)
        out[tile, :] = upward + hl.reduce(plus, x[tile, :], dim=1, keep_dims=True)
    return out


def cases() -> Iterator[Case]:
    yield "search_small", sized_by_a_search, (torch.zeros(9),), lambda x: x + 8
    yield "search_large", sized_by_a_search, (torch.zeros(20),), lambda x: x + 16
    yield "compile_config", compiled_twice, (torch.randn(20),), lambda x: (2 * x, 2 * x)
    yield "int_selects_code", both_branches, (torch.randn(20),), lambda x: (2 * x, -x, 2 * x)
    for interleaved in (True, False):
        args = (torch.randn(3, 4 * 16), 3, 16, interleaved)
        yield f"block_of_an_argument_{interleaved}", pairs_turned, args, turned
    device = torch.device("cpu")
    yield "no_tensor", counted, (100, device), lambda n, _: 2 * torch.arange(n, dtype=torch.int32)
    x, start = torch.randn(3, 16, 20), torch.randn(3, 20)
    yield "dtype_argument", carried_sums, (x, start, torch.float16), lambda x, s, d: (x.cumsum(1) + s[:, None]).to(d)
    down = (x, start, torch.float32, "down")
    yield "text_argument", carried_sums, down, lambda x, s, d, _: x.flip(1).cumsum(1).flip(1) + s[:, None]
    yield "tunable_in_host_code", total_at_once_or_in_parts, (torch.randn(17, 32), torch.randn(32, 20)), torch.matmul
    yield "combine_is_a_kernel", combined_by_a_kernel, (torch.randn(5, 20),), lambda x: x.cumsum(1) + x.sum(1, True)
