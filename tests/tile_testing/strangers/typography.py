"""Type and layers of pictures: distances to outlines, coverage, blending, breaks of lines, kerning, fields."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_outlines(glyphs: Any, points: Any, size: Any) -> Any:
    cuts = torch.randint(0, points - 4 * glyphs + 1, (glyphs - 1,)).sort().values
    offsets = torch.cat([torch.zeros(1), cuts, torch.full((1,), points - 4 * glyphs)]) + 4 * torch.arange(glyphs + 1)
    turn = torch.arange(points) * 0.71
    radius = size * (0.2 + 0.25 * torch.rand(points))
    outline = torch.stack([size / 2 + radius * torch.cos(turn), size / 2 + radius * torch.sin(turn)], 1)
    return outline, offsets.int(), size, 4.0


def distances_ref(outline: Any, offsets: Any, size: int, spread: float) -> Any:
    out = []
    y, x = torch.meshgrid(*[torch.arange(size, dtype=outline.dtype) + 0.5] * 2, indexing="ij")
    for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        p = outline[a:b]
        q = p.roll(-1, 0)
        px, py, dx, dy = (v[:, None, None] for v in (p[:, 0], p[:, 1], q[:, 0] - p[:, 0], q[:, 1] - p[:, 1]))
        along = (((x - px) * dx + (y - py) * dy) / (dx * dx + dy * dy + 1e-12)).clamp(0, 1)
        least = ((x - px - along * dx) ** 2 + (y - py - along * dy) ** 2).amin(0)
        side = dx * (y - py) - dy * (x - px)
        up, down = (py <= y) & (py + dy > y) & (side > 0), (py > y) & (py + dy <= y) & (side < 0)
        winding = up.int().sum(0) - down.int().sum(0)
        out.append(torch.where(winding != 0, least.sqrt(), -least.sqrt()))
    return ((torch.stack(out) / (2 * spread) + 0.5).clamp(0, 1)).half()


@stranger(
    make_outlines,
    distances_ref,
    {"glyphs": 3, "points": 29, "size": 13},
    {"glyphs": 1500, "points": 60_000, "size": 64},
    loops=True,
)
@tileflow.kernel
def glyph_distances(outline, offsets, size: int, spread: float):
    """Green, 2007: for each pixel of a glyph's box how far its outline is, inside above a half and outside below."""
    glyphs = offsets.size(0) - 1
    out = torch.empty(glyphs, size, size, dtype=torch.float16, device=outline.device)
    for g in tfl.grid(glyphs):
        for ty, tx in tfl.tile([size, size]):
            y = ty.index[:, None] + 0.5
            x = tx.index[None, :] + 0.5
            least = tfl.full([ty, tx], 1e30)
            winding = tfl.zeros([ty, tx], dtype=torch.int32)
            begin, end = offsets[g], offsets[g + 1]
            for i in range(begin, end):
                following = i + 1 if i + 1 < end else begin
                px, py = outline[i, 0], outline[i, 1]
                qx, qy = outline[following, 0], outline[following, 1]
                dx, dy = qx - px, qy - py
                along = (((x - px) * dx + (y - py) * dy) / (dx * dx + dy * dy + 1e-12)).clamp(0, 1)
                least = torch.minimum(least, (x - px - along * dx) ** 2 + (y - py - along * dy) ** 2)
                side = dx * (y - py) - dy * (x - px)
                winding += ((py <= y) & (qy > y) & (side > 0)).int()
                winding -= ((py > y) & (qy <= y) & (side < 0)).int()
            distance = torch.where(winding != 0, torch.sqrt(least), -torch.sqrt(least))
            out[g, ty, tx] = (distance / (2 * spread) + 0.5).clamp(0, 1)
    return out


def make_edges(n: Any, h: Any, w: Any) -> Any:
    x, y = 1 + torch.rand(n) * (w - 4), torch.rand(n) * (h - 1)
    length = torch.rand(n) * 12
    dx = (torch.rand(n) * 2 - 1) * length
    there_x, there_y = (x + dx).clamp(1, w - 3), (y + length + 0.01).clamp(max=h - 0.01)
    swap = torch.rand(n) < 0.5
    ends = torch.stack([x, y, there_x, there_y], 1), torch.stack([there_x, there_y, x, y], 1)
    return torch.where(swap[:, None], ends[0], ends[1]), h, w


def coverage_ref(edges: Any, h: int, w: int) -> Any:
    x0, y0, x1, y1 = edges.unbind(1)
    sign = torch.where(y0 < y1, 1.0, -1.0).to(edges.dtype)
    low, high = torch.minimum(y0, y1), torch.maximum(y0, y1)
    slope = (x1 - x0) / torch.where(y1 == y0, 1e-6, y1 - y0)
    area = torch.zeros(h * w, dtype=edges.dtype)
    for row in range(h):
        top, bottom = low.clamp(min=row), high.clamp(max=row + 1)
        inside = bottom > top
        x = (x0 + ((top + bottom) / 2 - y0) * slope)[inside]
        deep = (sign * (bottom - top))[inside]
        column = x.floor()
        right = deep * (x - column)
        area.index_add_(0, row * w + column.long(), deep - right)
        area.index_add_(0, row * w + column.long() + 1, right)
    return area.view(h, w).cumsum(1).abs().clamp(max=1)


@stranger(make_edges, coverage_ref, {"n": 17, "h": 11, "w": 23}, {"n": 400_000, "h": 2160, "w": 3840}, loops=True)
@tileflow.kernel
def fill_coverage(edges, h: int, w: int):
    """Outlines to grey: each edge leaves a signed area in the rows that it crosses, which sums along rows fill."""
    area = torch.zeros(h, w, device=edges.device)
    out = torch.empty(h, w, device=edges.device)
    for t in tfl.tile(edges.size(0)):
        x0, y0, x1, y1 = edges[t, :].unbind(1)
        sign = torch.where(y0 < y1, 1.0, -1.0)
        low, high = torch.minimum(y0, y1), torch.maximum(y0, y1)
        slope = (x1 - x0) / torch.where(y1 == y0, 1e-6, y1 - y0)
        first = low.int()
        for r in tfl.jagged_tile(high.int() - first + 1):
            row = first[:, None] + r.index[None, :]
            top, bottom = torch.maximum(low[:, None], row.float()), torch.minimum(high[:, None], row + 1.0)
            x = x0[:, None] + ((top + bottom) / 2 - y0[:, None]) * slope[:, None]
            deep = sign[:, None] * torch.clamp(bottom - top, min=0)
            column = torch.floor(x)
            right = deep * (x - column)
            tfl.atomic_add(area, [row, column.int()], deep - right)
            tfl.atomic_add(area, [row, column.int() + 1], right)
    for t in tfl.tile(h):
        out[t, :] = torch.cumsum(area[t, :], 1).abs().clamp(max=1)
    return out


def blended(mode: Any, a: Any, b: Any) -> Any:
    """Compositing's modes of the W3C: normal, multiply, screen, overlay, soft light, difference, colour dodge."""
    soft = torch.where(
        b <= 0.5,
        a - (1 - 2 * b) * a * (1 - a),
        a + (2 * b - 1) * (torch.where(a <= 0.25, ((16 * a - 12) * a + 4) * a, a.clamp(min=0).sqrt()) - a),
    )
    overlay = torch.where(a <= 0.5, 2 * a * b, 1 - 2 * (1 - a) * (1 - b))
    dodge = torch.where(a == 0, 0.0, (a / (1 - b).clamp(min=1e-6)).clamp(max=1))
    return (b, a * b, a + b - a * b, overlay, soft, (a - b).abs(), dodge)[mode]


def layers_ref(base: Any, layers: Any, mode: Any, opacity: Any) -> Any:
    state = base.to(opacity.dtype) / 255
    for k, m in enumerate(mode.tolist()):
        x = layers[k].to(opacity.dtype) / 255
        alpha = x[3] * opacity[k]
        state = state + alpha * (blended(m, state, x[:3]) - state)
    return (state * 255).half(), (0.2126 * state[0] + 0.7152 * state[1] + 0.0722 * state[2]).mean()


@stranger(
    lambda n, h, w: (
        torch.randint(0, 256, (h, w, 3)).to(torch.uint8).permute(2, 0, 1),
        torch.randint(0, 256, (n, h, w, 4)).to(torch.uint8).permute(0, 3, 1, 2),
        (torch.arange(n) % 7).int(),
        torch.rand(n),
    ),
    layers_ref,
    {"n": 9, "h": 7, "w": 19},
    {"n": 12, "h": 2160, "w": 3840},
)
@tileflow.kernel
def blend_layers(base, layers, mode, opacity):
    """Layers upon a picture, each by its own mode and opacity; how bright it is in the end."""
    n, _, h, w = layers.shape
    out = torch.empty(3, h, w, dtype=torch.float16, device=base.device)
    bright = torch.zeros((), device=base.device)
    for ty, tx in tfl.tile([h, w]):
        state = [base[c, ty, tx].float() / 255 for c in range(3)]
        for k in range(n):
            kind = mode[k]
            alpha = layers[k, 3, ty, tx].float() / 255 * opacity[k]
            for c in range(3):
                a, b = state[c], layers[k, c, ty, tx].float() / 255
                if kind == 0:
                    new = blended(0, a, b)
                elif kind == 1:
                    new = blended(1, a, b)
                elif kind == 2:
                    new = blended(2, a, b)
                elif kind == 3:
                    new = blended(3, a, b)
                elif kind == 4:
                    new = blended(4, a, b)
                elif kind == 5:
                    new = blended(5, a, b)
                else:
                    new = blended(6, a, b)
                state[c] = a + alpha * (new - a)
        for c in range(3):
            out[c, ty, tx] = state[c] * 255
        luma = 0.2126 * state[0] + 0.7152 * state[1] + 0.0722 * state[2]
        tfl.atomic_add(bright, [], luma.sum() / (h * w))
    return out, bright


def make_paragraphs(paragraphs: Any, words: Any, line: Any) -> Any:
    return torch.randint(2, 11, (paragraphs, words)).to(torch.uint8), torch.randint(2, words + 1, (paragraphs,)), line


def breaks_ref(width: Any, words: Any, line: int) -> Any:
    p, n = width.shape
    window = line // 3 + 1
    end = width.int().cumsum(1) + torch.arange(n)
    best, before = torch.zeros(p, n + 1, dtype=torch.int32), torch.zeros(p, n, dtype=torch.int32)
    for j in range(n):
        found = torch.full((p,), 1 << 30, dtype=torch.int32)
        for i in range(j, max(j - window, -1), -1):  # a line of words i to j
            space = line - (end[:, j] - (end[:, i - 1] + 1 if i else 0))
            cost = best[:, i] + torch.where(words == j + 1, 0, space**3)
            better = (space >= 0) & (cost < found)
            found = torch.where(better, cost, found).int()
            before[:, j] = torch.where(better, i, before[:, j])
        best[:, j + 1] = found
    starts = torch.zeros(p, n, dtype=torch.bool)
    at, lines = words.long() - 1, torch.zeros(p, dtype=torch.int32)
    rows = torch.arange(p)
    while (at >= 0).any():
        i = before[rows, at.clamp(min=0)].long()
        starts[rows[at >= 0], i[at >= 0]] = True
        lines += (at >= 0).int()
        at = torch.where(at >= 0, i - 1, at)
    return best.gather(1, words[:, None])[:, 0], starts, lines


@stranger(
    make_paragraphs,
    breaks_ref,
    {"paragraphs": 5, "words": 23, "line": 30},
    {"paragraphs": 20_000, "words": 256, "line": 80},
)
@tileflow.kernel
def break_lines(width, words, line: int):
    """Knuth and Plass, 1981, with cubes of what is left: the breaks of a paragraph that cost least in all."""
    p, n = width.shape
    window = line // 3 + 1
    end = torch.empty(p, n, dtype=torch.int32, device=width.device)
    best = torch.zeros(p, n + 1, dtype=torch.int32, device=width.device)
    before = torch.empty(p, n, dtype=torch.int32, device=width.device)
    cost = torch.empty(p, dtype=torch.int32, device=width.device)
    starts = torch.zeros(p, n, dtype=torch.bool, device=width.device)
    lines = torch.empty(p, dtype=torch.int32, device=width.device)
    for t in tfl.tile(p):
        count = words[t].int()
        end[t, :] = torch.cumsum(width[t, :].int(), 1) + tfl.arange(n)
        for j in range(n):
            first = j - tfl.arange(window)
            there = first >= 0
            begin = torch.where(first > 0, tfl.load(end, [t, first - 1], extra_mask=first > 0) + 1, 0)
            space = line - (end[t, j][:, None] - begin)
            total = tfl.load(best, [t, first], extra_mask=there) + torch.where(count[:, None] == j + 1, 0, space**3)
            total = torch.where(there & (space >= 0), total, 1 << 30)
            place = torch.argmin(total, 1)
            best[t, j + 1] = total.amin(1)
            before[t, j] = j - place
        cost[t] = best[t.index, count]
        at = count - 1
        number = tfl.zeros([t], dtype=torch.int32)
        for _ in range(count.amax()):
            go = at >= 0
            i = tfl.load(before, [t.index, at], extra_mask=go)
            tfl.store(starts, [t.index, i], True, extra_mask=go)
            number += go.int()
            at = torch.where(go, i - 1, at)
        lines[t] = number
    return cost, starts, lines


def make_runs(runs: Any, length: Any, glyphs: Any, pairs: Any) -> Any:
    key = torch.randint(0, glyphs * glyphs, (pairs,)).int().sort().values
    kern = (key * 7919 % 121 - 60).to(torch.int16)
    text = torch.randint(0, glyphs, (runs, length)).to(torch.int16)
    return (
        text,
        torch.randint(0, length + 1, (runs,)).int(),
        torch.rand(runs) < 0.3,
        torch.randint(200, 900, (glyphs,)).to(torch.int16),
        key,
        kern,
    )


def runs_ref(text: Any, length: Any, leftward: Any, advance: Any, key: Any, kern: Any) -> Any:
    runs, n = text.shape
    glyph = text.long()
    following = torch.cat([glyph[:, 1:], torch.zeros(runs, 1, dtype=torch.long)], 1)
    pair = glyph * advance.numel() + following
    place = torch.searchsorted(key.long(), pair).clamp(max=key.numel() - 1)
    inside = torch.arange(n) < length[:, None]
    paired = (key[place] == pair) & (torch.arange(n) + 1 < length[:, None])
    step = torch.where(inside, advance[glyph].int() + torch.where(paired, kern[place].int(), 0), 0)
    total = step.sum(1)
    x = step.cumsum(1) - step
    return torch.where(leftward[:, None], total[:, None] - x - step, x).int(), total.int(), paired.sum(1).int()


@stranger(
    make_runs,
    runs_ref,
    {"runs": 7, "length": 19, "glyphs": 11, "pairs": 40},
    {"runs": 32768, "length": 200, "glyphs": 3000, "pairs": 60_000},
)
@tileflow.kernel
def kern_runs(text, length, leftward, advance, key, kern):
    """Where the glyphs of runs stand: widths, corrections of pairs by a sorted table, sums along the run either way."""
    runs, n = text.shape
    glyphs, pairs = advance.size(0), key.size(0)
    x = torch.empty(runs, n, dtype=torch.int32, device=text.device)
    width = torch.empty(runs, dtype=torch.int32, device=text.device)
    kerned = torch.empty(runs, dtype=torch.int32, device=text.device)
    for t in tfl.tile(runs):
        place = tfl.arange(n)[None, :]
        inside = place < length[t][:, None]
        glyph = text[t, :].int()
        followed = place + 1 < length[t][:, None]
        following = tfl.load(text, [t, tfl.arange(n) + 1], extra_mask=followed).int()
        pair = glyph * glyphs + following
        low = torch.zeros_like(pair)
        high = torch.full_like(pair, pairs)
        for _ in range(pairs.bit_length()):
            middle = (low + high) // 2
            less = (low < high) & (key[middle] < pair)
            high = torch.where((low < high) & ~less, middle, high)
            low = torch.where(less, middle + 1, low)
        paired = (low < pairs) & (key[low] == pair) & followed
        step = advance[glyph].int() + torch.where(paired, kern[low].int(), 0)
        step = torch.where(inside, step, 0)
        total = step.sum(1)
        end = torch.cumsum(step, 1)
        x[t, :] = torch.where(leftward[t][:, None], total[:, None] - end, end - step)
        width[t] = total
        kerned[t] = paired.sum(1)
    return x, width, kerned


def make_text(quads: Any, size: Any, h: Any, w: Any) -> Any:
    corner = torch.stack([torch.rand(quads) * (w - 17), torch.rand(quads) * (h - 17)], 1)
    return (
        torch.randint(0, 256, (h, w, 3)).to(torch.uint8),
        corner,
        0.3 + torch.rand(quads) * 0.6,
        torch.rand(quads, 3),
        torch.rand(3),
        size,
        4.0,
    )


def text_ref(atlas: Any, corner: Any, scale: Any, ink: Any, paper: Any, size: int, reach: float) -> Any:
    h, w, _ = atlas.shape
    field = atlas.to(scale.dtype) / 255
    out = torch.empty(scale.numel(), size, size, 3, dtype=torch.float16)
    pixel = torch.arange(size) + 0.5
    y = (corner[:, 1, None] + pixel * scale[:, None] - 0.5).clamp(0, h - 1)
    y0 = y.floor().long()
    y1, fy = (y0 + 1).clamp(max=h - 1), y - y0
    for c in range(3):
        x = (corner[:, 0, None] + (pixel + (c - 1) / 3) * scale[:, None] - 0.5).clamp(0, w - 1)
        x0 = x.floor().long()
        x1, fx = (x0 + 1).clamp(max=w - 1), x - x0
        rows = [
            torch.lerp(field[at[:, :, None], x0[:, None]], field[at[:, :, None], x1[:, None]], fx[:, None, :, None])
            for at in (y0, y1)
        ]
        median = torch.lerp(rows[0], rows[1], fy[:, :, None, None]).median(3).values
        cover = ((median - 0.5) * (reach / scale)[:, None, None] + 0.5).clamp(0, 1)
        out[..., c] = torch.lerp(paper[c] ** 2.2, ink[:, c, None, None] ** 2.2, cover) ** (1 / 2.2)
    return out


@stranger(
    make_text, text_ref, {"quads": 5, "size": 7, "h": 32, "w": 40}, {"quads": 20_000, "size": 24, "h": 1024, "w": 1024}
)
@tileflow.kernel
def field_text(atlas, corner, scale, ink, paper, size: int, reach: float):
    """Chlumsky, 2015: text out of three distances a texel, their median made sharp for each stripe of a pixel."""
    h, w, _ = atlas.shape
    quads = scale.size(0)
    out = torch.empty(quads, size, size, 3, dtype=torch.float16, device=atlas.device)
    for q in tfl.grid(quads):
        for ty, tx in tfl.tile([size, size]):
            y = (corner[q, 1] + (ty.index + 0.5) * scale[q] - 0.5).clamp(0, h - 1)
            y0 = torch.floor(y).int()
            fy = (y - y0)[:, None]
            y1 = torch.clamp(y0 + 1, max=h - 1)
            for c in range(3):
                x = (corner[q, 0] + (tx.index + 0.5 + (c - 1) / 3) * scale[q] - 0.5).clamp(0, w - 1)
                x0 = torch.floor(x).int()
                fx = (x - x0)[None, :]
                x1 = torch.clamp(x0 + 1, max=w - 1)
                field = []
                for k in range(3):
                    top = torch.lerp(atlas[y0, x0, k].float(), atlas[y0, x1, k].float(), fx)
                    low = torch.lerp(atlas[y1, x0, k].float(), atlas[y1, x1, k].float(), fx)
                    field.append(torch.lerp(top, low, fy) / 255)
                r, g, b = field
                median = torch.maximum(torch.minimum(r, g), torch.minimum(torch.maximum(r, g), b))
                cover = ((median - 0.5) * (reach / scale[q]) + 0.5).clamp(0, 1)
                mixed = torch.lerp(paper[c] ** 2.2, ink[q, c] ** 2.2, cover)
                out[q, ty, tx, c] = mixed ** (1 / 2.2)
    return out
