"""What kernels of model servers do: pages, packed numbers, scales of groups, sequences of several lengths."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]
LOW = float("-inf")


@helion.kernel(static_shapes=True)
def wide_scores(q: torch.Tensor, k: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    batches, m, _ = q.shape
    out = torch.empty([batches, m, k.size(1)], dtype=dtype, device=q.device)
    for tile_b, tile_m in hl.tile([batches, m]):
        for tile_n in hl.tile(k.size(1)):
            keys = k[tile_b, tile_n, :].transpose(1, 2)
            out[tile_b, tile_m, tile_n] = torch.bmm(q[tile_b, tile_m, :], keys, torch.float32).to(dtype)
    return out


@helion.kernel(static_shapes=True)
def wide_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), w.size(1)], dtype=torch.float32, device=x.device)
    for tile_m, tile_n in hl.tile(out.size()):
        acc = hl.zeros([tile_m, tile_n])
        for tile_k in hl.tile(x.size(1)):
            acc += torch.mm(x[tile_m, tile_k], w[tile_k, tile_n], out_dtype=torch.float32)
        out[tile_m, tile_n] = acc
    return out


@helion.kernel
def group_scales(x: torch.Tensor, top: torch.Tensor | None, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows, width = x.shape
    hl.specialize((width, size))
    groups = width // size
    out, scales = torch.empty_like(x), torch.empty([rows, groups], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(rows, block_size=1):
        row = (tile_m.begin + hl.arange(tile_m.block_size))[:, None, None]
        for tile_g, tile_n in hl.tile([groups, size], block_size=[None, size]):
            column = (tile_g.index[:, None] * size + tile_n.index[None, :])[None, :, :]
            inside = (tile_g.index < groups)[None, :, None]
            part = hl.load(x, [row, column], extra_mask=inside)
            most = torch.amax(torch.abs(part), dim=-1)
            if top is not None:
                most = most.clamp(max=hl.load(top, []))
            hl.store(out, [row, column], part / most[:, :, None], extra_mask=inside)
            scales[tile_m, tile_g] = most
    return out, scales


def by_groups(x: torch.Tensor, top: torch.Tensor | None, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    groups = x.view(len(x), -1, size)
    most = groups.abs().amax(-1)
    most = most if top is None else most.clamp(max=top)
    return (groups / most[:, :, None]).view_as(x), most


@helion.kernel
def two_exponents_a_word(x: torch.Tensor, size: int) -> torch.Tensor:
    rows, width = x.shape
    hl.specialize(size)
    groups = width // size
    words = hl.specialize((groups + 1) // 2)
    out = torch.empty_strided((rows, words), (1, rows), dtype=torch.int32, device=x.device)
    parts = x.view(rows, groups, size)
    for tile_m, tile_w, tile_n in hl.tile([rows, words, size], block_size=[1, None, size]):
        word = hl.zeros([tile_m, tile_w], dtype=torch.int32)
        at = [tile_w.index * 2, tile_w.index * 2 + 1]
        inside = [i < groups for i in at]
        for n in hl.static_range(2):
            part = hl.load(parts, [tile_m, at[n], tile_n], extra_mask=inside[n][None, :, None])
            exponent = torch.ceil(torch.log2(torch.clamp(torch.amax(torch.abs(part), dim=-1), min=1e-10)))
            byte = torch.where(inside[n][None, :], exponent.to(torch.int32) + 127, 0)
            word = word | byte << (n * 8)
        out[tile_m, tile_w] = word
    return out


def exponents(x: torch.Tensor, size: int) -> torch.Tensor:
    found = torch.ceil(torch.log2(x.view(len(x), -1, size).abs().amax(-1))).int() + 127
    found = torch.nn.functional.pad(found, (0, found.size(1) % 2))
    return found[:, ::2] | found[:, 1::2] << 8


@helion.kernel
def top_of_pages(x: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, page: int) -> torch.Tensor:
    hl.specialize(page)
    rows = hl.specialize(x.size(1))
    out = torch.empty([lengths.size(0), 2, rows], dtype=x.dtype, device=x.device)
    for tile_s, tile_p in hl.tile((lengths.size(0), 2), block_size=[1, 1]):
        length = lengths[tile_s.begin]
        half = helion.cdiv(length, 2)
        begin = half * tile_p.begin
        end = torch.minimum(begin + half, length)
        best = hl.zeros([rows], dtype=torch.float32) + LOW
        if end > begin:
            for tile in hl.tile(begin, end, block_size=None):
                i = tile.begin + hl.arange(tile.block_size)
                inside = i < end
                block = hl.load(table, [tile_s.begin, i // page], extra_mask=inside)
                at = block * page + i % page
                part = hl.load(x, [at, hl.arange(rows)], extra_mask=inside[:, None])
                best = torch.maximum(best, torch.amax(torch.where(inside[:, None], part, LOW), dim=0))
        hl.store(out, [tile_s.begin, tile_p.begin, hl.arange(rows)], best)
    return out


def of_pages(x: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, page: int) -> torch.Tensor:
    out = torch.full([len(lengths), 2, x.size(1)], LOW)
    for s, length in enumerate(lengths.tolist()):
        whole = x.view(-1, page, x.size(1))[table[s].long()].flatten(0, 1)[:length]
        for p, part in enumerate(whole.split(-(-length // 2))):
            out[s, p] = part.amax(0)
    return out


@helion.kernel(static_shapes=False)
def sums_of_sequences(x: torch.Tensor, ends: torch.Tensor, several: hl.constexpr, scale: float) -> torch.Tensor:
    total = x.size(0)
    count = ends.size(0) - 1 if several else 1
    out = torch.empty_like(x)
    for sequence in hl.grid(count):
        if several:
            begin = ends[sequence].long()
            end = ends[sequence + 1].long()
            last = torch.minimum(begin + 3, end - 1)
        else:
            begin = sequence * total
            end = begin + total
            last = min(begin + 3, end - 1)
        fourth = hl.load(x, [last], extra_mask=last < end)
        before = hl.zeros([], dtype=torch.float32)
        for tile in hl.tile(begin, end):
            part = torch.cumsum(x[tile], dim=0) + before
            before = before + torch.sum(x[tile])
            out[tile] = part * scale + fourth
    return out


def of_sequences(x: torch.Tensor, ends: torch.Tensor, several: bool, scale: float) -> torch.Tensor:
    parts = x.split((ends[1:] - ends[:-1]).tolist()) if several else [x]
    return torch.cat([part.cumsum(0) * scale + part[min(3, len(part) - 1)] for part in parts])


@helion.kernel
def fours(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), w.size(1)], dtype=torch.float32, device=x.device)
    for tile_m, tile_n in hl.tile(out.size()):
        acc = hl.zeros([tile_m, tile_n])
        for tile_k in hl.tile(w.size(0)):
            low, high = hl.float4_e2m1fn_x2_to_float32(w[tile_k, tile_n])
            acc = acc + (x[tile_m, tile_k].unsqueeze(2) * (low + 2 * high).unsqueeze(0)).sum(dim=1)
        out[tile_m, tile_n] = acc
    return out


def fours_of_their_type(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return fours(x, w.view(torch.float4_e2m1fn_x2))


def of_fours(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    upward = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.cat([upward, -upward])
    return x @ (values[(w & 15).long()] + 2 * values[(w >> 4).long()])


@helion.kernel
def jagged_totals(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([offsets.size(0) - 1], dtype=x.dtype, device=x.device)
    for tile in hl.tile(out.size(0)):
        begin = offsets[tile]
        acc = hl.zeros([tile], dtype=x.dtype)
        for inner in hl.vtile(offsets[tile.index + 1] - begin):
            acc += hl.load(x, [begin[:, None] + inner.index[None, :]]).sum(dim=1)
        out[tile] = acc
    return out


@helion.kernel
def beside_the_first(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([*x.shape, 2], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile(x.size()):
        first = hl.load(x, [0, 0])
        total = torch.reshape(torch.sum(x[tile_m, tile_n], dim=1), [tile_m, 1])
        out[tile_m, tile_n, :] = hl.join(x[tile_m, tile_n] + 0 * total, first)
    return out


def cases() -> Iterator[Case]:
    f = torch.randn
    half, keys = f(2, 17, 32).half(), f(2, 19, 32).half()
    scores = (half, keys, torch.float32)
    yield "bmm_out_dtype", wide_scores, scores, lambda q, k, _: torch.bmm(q.float(), k.float().transpose(1, 2))
    yield "mm_out_dtype", wide_product, (half[0], keys[0].T), lambda x, w: x.float() @ w.float()
    yield "group_scales", group_scales, (f(3, 48), None, 16), by_groups
    yield "group_scales_bounded", group_scales, (f(3, 48), torch.tensor(1.5), 16), by_groups
    yield "packed_exponents", two_exponents_a_word, (f(5, 24), 8), exponents
    table = torch.tensor([[3, 0, 5, 1, 2, 4], [2, 4, 1, 0, 3, 5]], dtype=torch.int32)
    lengths = torch.tensor([11, 24], dtype=torch.int32)
    yield "pages_in_parts", top_of_pages, (f(24, 8), table, lengths, 4), of_pages
    for several in (True, False):
        args = (f(34), torch.tensor([0, 20, 34]), several, 0.5)
        yield f"sequences_{several}", sums_of_sequences, args, of_sequences
    packed = torch.randint(0, 256, (12, 16), dtype=torch.uint8)
    yield "four_bit_bytes", fours, (f(5, 12), packed), of_fours
    yield "four_bit_type", fours_of_their_type, (f(5, 12), packed), of_fours
    offsets = torch.tensor([0, 3, 11, 20])
    yield "vtile", jagged_totals, (f(20), offsets), lambda x, o: torch.stack([p.sum() for p in x.split([3, 8, 9])])
    yield "join_with_a_scalar", beside_the_first, (f(9, 20),), lambda x: torch.stack([x, x[0, 0].expand(9, 20)], -1)
