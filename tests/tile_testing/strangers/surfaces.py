"""Surfaces and pictures: meshes that are made finer, pyramids of pictures, errors that are handed on, brushes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_mesh(side: int) -> Any:
    """A torus of quads cut in two: vertices, triangles, and each corner's edge."""
    i, j = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    at = lambda a, b: (a % side) * side + b % side  # noqa: E731
    first = torch.stack([at(i, j), at(i + 1, j), at(i + 1, j + 1)], -1).view(-1, 3)
    second = torch.stack([at(i, j), at(i + 1, j + 1), at(i, j + 1)], -1).view(-1, 3)
    faces = torch.cat([first, second])
    pairs = torch.stack([faces, faces.roll(-1, 1)], -1).sort(-1).values
    _, edges = torch.unique(pairs.view(-1, 2), dim=0, return_inverse=True)
    return torch.randn(side * side, 3), faces.int(), edges.view(-1, 3).int(), int(edges.max()) + 1


def mesh_ref(points: Any, faces: Any, edges: Any, count: int) -> Any:
    n = len(points)
    p, f, e = points.double(), faces.long(), edges.long()
    ends = torch.zeros(count, 2, dtype=torch.int64)
    sides = torch.zeros(count, 3, dtype=torch.float64)
    near, valence = torch.zeros_like(p), torch.zeros(n, dtype=torch.float64)
    for c in range(3):
        a, b, far = f[:, c], f[:, (c + 1) % 3], f[:, (c + 2) % 3]
        ends[e[:, c]] = torch.stack([a, b], 1).sort(1).values
        sides.index_add_(0, e[:, c], p[far] / 8)
        near.index_add_(0, a, p[b])
        valence.index_add_(0, a, torch.ones(len(a), dtype=torch.float64))
    middle = sides + 3 / 8 * (p[ends[:, 0]] + p[ends[:, 1]])
    beta = torch.where(valence == 3, 3 / 16, 3 / (8 * valence))
    moved = p * (1 - valence * beta)[:, None] + near * beta[:, None]
    a, b, c = (f[:, i] for i in range(3))
    x, y, z = (n + e[:, i] for i in range(3))
    split = torch.stack([torch.stack(t, 1) for t in ((a, x, z), (b, y, x), (c, z, y), (x, y, z))], 1)
    return torch.cat([moved, middle]).float(), split.flatten(0, 1).int()


@stranger(make_mesh, mesh_ref, {"side": 4}, {"side": 1024})
@tileflow.kernel
def subdivide_mesh(points, faces, edges, count: int):
    """Loop, 1987: a closed mesh with each triangle in four, by sums along its edges and about its vertices."""
    n, triangles = points.size(0), faces.size(0)
    device = points.device
    near, valence = torch.zeros_like(points), torch.zeros(n, dtype=torch.int32, device=device)
    middle = torch.zeros(count, 3, device=device)
    finer = torch.empty(4 * triangles, 3, dtype=torch.int32, device=device)
    for t in tfl.tile(triangles):
        corner = [faces[t, i] for i in range(3)]
        edge = [edges[t, i] for i in range(3)]
        place = [points[v, :] for v in corner]
        for i in range(3):
            after, far = (i + 1) % 3, (i + 2) % 3
            tfl.atomic_add(middle, [edge[i], slice(None)], (place[i] + place[after]) * (3 / 16) + place[far] / 8)
            tfl.atomic_add(near, [corner[i], slice(None)], place[after])
            tfl.atomic_add(valence, [corner[i]], 1)
        a, b, c = corner
        x, y, z = (n + one for one in edge)
        for k, triangle in enumerate(((a, x, z), (b, y, x), (c, z, y), (x, y, z))):
            for i, vertex in enumerate(triangle):
                finer[4 * t.index + k, i] = vertex
    out = torch.empty(n + count, 3, device=device)
    for t in tfl.tile(n):
        k = valence[t].float()
        beta = torch.where(valence[t] == 3, 3 / 16, 3 / (8 * k))[:, None]
        out[t, :] = points[t, :] * (1 - k[:, None] * beta) + near[t, :] * beta
    edge_part = out[n:]
    for t in tfl.tile(count):
        edge_part[t, :] = middle[t, :]
    return out, finer


def make_texture(size: int, samples: int) -> Any:
    uv = torch.rand(2, samples)
    return torch.randint(0, 256, (4, size, size), dtype=torch.uint8), uv, torch.rand(samples) * 6 - 0.5


def mipmap_ref(texture: Any, uv: Any, level: Any) -> Any:
    pyramid = [texture.double() / 255]
    while pyramid[-1].size(-1) > 1:
        pyramid.append(F.avg_pool2d(pyramid[-1], 2))
    top = len(pyramid) - 1
    level = level.clamp(0, top).double()
    low = level.floor().long()
    out = torch.zeros(uv.size(1), texture.size(0), dtype=torch.float64)
    for n, image in enumerate(pyramid):
        size = image.size(-1)
        x, y = uv.double() * size - 0.5
        x0, y0 = x.floor().long(), y.floor().long()
        fx, fy = x - x0, y - y0
        found = 0
        for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
            weight = (fx if dx else 1 - fx) * (fy if dy else 1 - fy)
            found = found + image[:, (y0 + dy) % size, (x0 + dx) % size].T * weight[:, None]
        weight = torch.where(low == n, 1 - (level - low), 0) + torch.where(
            (low + 1).clamp(max=top) == n, level - low, 0
        )
        out += found * weight[:, None]
    return out.half()


@stranger(make_texture, mipmap_ref, {"size": 16, "samples": 53}, {"size": 4096, "samples": 1 << 22})
@tileflow.kernel
def trilinear_mipmaps(texture, uv, level):
    """Williams, 1983: a picture halved until one texel is left, all levels in one row of memory, and read between."""
    channels, size, _ = texture.shape
    offsets, sizes = [0], [size]
    while sizes[-1] > 1:
        offsets.append(offsets[-1] + sizes[-1] ** 2)
        sizes.append(sizes[-1] // 2)
    pyramid = torch.empty(channels, offsets[-1] + 1, device=texture.device)
    for c, y, x in tfl.tile([channels, size, size]):
        pyramid[c, y.index[:, None] * size + x.index[None, :]] = texture[c, y, x].float() / 255
    for before, after, wide, narrow in zip(offsets[:-1], offsets[1:], sizes[:-1], sizes[1:], strict=True):
        source = pyramid[:, before : before + wide * wide].view(channels, narrow, 2, narrow, 2)
        target = pyramid[:, after : after + narrow * narrow].view(channels, narrow, narrow)
        for c, y, x in tfl.tile([channels, narrow, narrow]):
            target[c, y, x] = source[c, y, :, x, :].sum((2, 4)) / 4
    starts = torch.tensor(offsets, device=texture.device)
    out = torch.empty(uv.size(1), channels, dtype=torch.float16, device=texture.device)
    top = len(sizes) - 1
    for t in tfl.tile(uv.size(1)):
        lod = level[t].clamp(0, top)
        low = lod.floor().int()

        def sampled(which, t=t):
            width = (size >> which).clamp(min=1)
            x, y = (uv[i, t] * width - 0.5 for i in range(2))
            x0, y0 = x.floor(), y.floor()
            found = torch.zeros(channels, t)
            for dx in range(2):
                for dy in range(2):
                    column = (x0.int() + dx + width) % width
                    row = (y0.int() + dy + width) % width
                    weight = (1 - (x - x0 - dx).abs()) * (1 - (y - y0 - dy).abs())
                    found += pyramid[:, starts[which] + row * width + column] * weight
            return found

        one, two = sampled(low), sampled((low + 1).clamp(max=top))
        out[t, :] = torch.lerp(one, two, lod - low).T.half()
    return out


def dither_ref(images: Any, levels: int) -> Any:
    x = images.double()
    n, h, w = x.shape
    out = torch.empty(n, h, w, dtype=torch.uint8)
    carried = torch.zeros(n, w + 2, dtype=torch.float64)
    for y in range(h):
        ahead, lost = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
        below = torch.zeros(n, w + 2, dtype=torch.float64)
        for c in range(w):
            value = x[:, y, c] + carried[:, c + 1] + ahead
            q = (value * (levels - 1)).round().clamp(0, levels - 1)
            out[:, y, c] = q
            error = value - q / (levels - 1)
            ahead, lost = error * 7 / 16, lost + error.abs()
            below[:, c] += error * 3 / 16
            below[:, c + 1] += error * 5 / 16
            below[:, c + 2] += error * 1 / 16
        carried = below
    return out, lost


@stranger(
    lambda n, h, w, levels: (torch.rand(n, h, w, dtype=torch.float64), levels),
    dither_ref,
    {"n": 11, "h": 7, "w": 9, "levels": 4},
    {"n": 1 << 13, "h": 64, "w": 64, "levels": 2},
)
@tileflow.kernel
def diffuse_errors(images, levels: int):
    """Floyd and Steinberg, 1976: few levels for many, what each pixel loses goes to four that come after it."""
    n, h, w = images.shape
    out = torch.empty(n, h, w, dtype=torch.uint8, device=images.device)
    work = images.clone()
    rest = torch.zeros(n, dtype=torch.float64, device=images.device)
    for t in tfl.tile(n):
        for y in range(h):
            for x in range(w):
                value = work[t, y, x]
                q = (value * (levels - 1)).round().clamp(0, levels - 1)
                out[t, y, x] = q.to(torch.uint8)
                error = value - q / (levels - 1)
                if x + 1 < w:
                    work[t, y, x + 1] += error * 7 / 16
                if y + 1 < h:
                    if x > 0:
                        work[t, y + 1, x - 1] += error * 3 / 16
                    work[t, y + 1, x] += error * 5 / 16
                    if x + 1 < w:
                        work[t, y + 1, x + 1] += error * 1 / 16
                else:
                    rest[t] += error.abs()
    return out, rest


def brush_ref(image: Any, radius: int) -> Any:
    channels, h, w = image.shape
    x = F.pad(image.float()[None].double(), (radius,) * 4, mode="replicate")[0]
    grey = x.mean(0)
    best, found = (
        torch.full((h, w), float("inf"), dtype=torch.float64),
        torch.zeros(channels, h, w, dtype=torch.float64),
    )
    which = torch.zeros(h, w, dtype=torch.uint8)
    for n, (dy, dx) in enumerate(((0, 0), (0, radius), (radius, 0), (radius, radius))):

        def part(y: Any, dy: int = dy, dx: int = dx) -> Any:
            cut = y[..., dy : dy + h + radius, dx : dx + w + radius]
            return cut.unfold(-2, radius + 1, 1).unfold(-2, radius + 1, 1).flatten(-2)

        spread = part(grey).var(-1, correction=0)
        better = spread < best - 1e-9
        found, best = torch.where(better, part(x).mean(-1), found), torch.where(better, spread, best)
        which[better] = n
    return found.bfloat16()


@stranger(
    lambda h, w, radius: (torch.rand(h, w, 3).bfloat16().permute(2, 0, 1), radius),
    brush_ref,
    {"h": 13, "w": 17, "radius": 2},
    {"h": 2160, "w": 3840, "radius": 4},
)
@tileflow.kernel
def kuwahara_filter(image, radius: int):
    """Kuwahara and others, 1976: each pixel takes the mean of that one of four quarters which varies least."""
    channels, h, w = image.shape
    out = torch.empty(channels, h, w, dtype=image.dtype, device=image.device)
    area = (radius + 1) ** 2
    for y, x in tfl.tile([h, w]):
        best = tfl.full([y, x], float("inf"))
        chosen = [tfl.zeros([y, x]) for _ in range(channels)]
        for dy in (-radius, 0):
            for dx in (-radius, 0):
                sums = [tfl.zeros([y, x]) for _ in range(channels)]
                grey, squares = tfl.zeros([y, x]), tfl.zeros([y, x])
                for i in range(radius + 1):
                    row = (y.index + dy + i).clamp(0, h - 1)
                    for j in range(radius + 1):
                        column = (x.index + dx + j).clamp(0, w - 1)
                        pixel = [image[c, row, column].float() for c in range(channels)]
                        for c in range(channels):
                            sums[c] += pixel[c]
                        mean = sum(pixel) / channels
                        grey += mean
                        squares += mean * mean
                spread = squares / area - (grey / area) ** 2
                better = spread < best
                best = torch.where(better, spread, best)
                chosen = [torch.where(better, s / area, old) for s, old in zip(sums, chosen, strict=True)]
        for c, value in enumerate(chosen):
            out[c, y, x] = value.to(out.dtype)
    return out
