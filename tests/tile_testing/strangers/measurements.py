"""What instruments measured: pictures made even, volumes cut by a level, clouds in cells, series that are smoothed,
their risks, and curves through them."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def boxed(x: Any, radius: int) -> Any:
    return F.avg_pool2d(x, 2 * radius + 1, 1, radius, count_include_pad=False)


def guided_ref(guide: Any, x: Any, eps: float, radius: int) -> Any:
    i = guide.to(x.dtype).mean(1, keepdim=True) / 255
    mean, blurred = boxed(i, radius), boxed(x, radius)
    a = (boxed(i * x, radius) - mean * blurred) / (boxed(i * i, radius) - mean * mean + eps)
    b = blurred - a * mean
    return boxed(a, radius) * i + boxed(b, radius)


def make_guide(b: int, h: int, w: int, radius: int) -> Any:
    guide = torch.randint(0, 256, (b, 3, h, w)).to(torch.uint8).to(memory_format=torch.channels_last)
    return guide, randn(b, 1, h, w), 1e-2, radius


@stranger(make_guide, guided_ref, {"b": 2, "h": 7, "w": 19, "radius": 1}, {"b": 4, "h": 1080, "w": 1920, "radius": 4})
@tileflow.kernel
def guided_filter(guide, x, eps: float, radius: tfl.constexpr):
    """He et al., 2010: each window a line through a picture's brightness, then the mean of a pixel's lines."""
    batch, channels, h, w = guide.shape
    a, b, out = (torch.empty(batch, h, w, device=x.device) for _ in range(3))

    def bright(n, ty, tx):
        return sum(guide[n, c, ty, tx].float() for c in range(channels)) / (255.0 * channels)

    for n in tfl.grid(batch):
        for ty, tx in tfl.tile([h, w]):
            count = s = p = ss = sp = tfl.zeros([ty, tx])
            for dy in range(-radius, radius + 1):
                for dx in range(-radius, radius + 1):
                    y, z = ty.index + dy, tx.index + dx
                    inside = ((y >= 0) & (y < h))[:, None] & ((z >= 0) & (z < w))[None, :]
                    i, v = bright(n, ty + dy, tx + dx), x[n, 0, ty + dy, tx + dx].float()
                    count = count + inside
                    s, p, ss, sp = s + i, p + v, ss + i * i, sp + i * v
            mean, blurred = s / count, p / count
            slope = (sp / count - mean * blurred) / (ss / count - mean**2 + eps)
            a[n, ty, tx] = slope
            b[n, ty, tx] = blurred - slope * mean
    for n in tfl.grid(batch):
        for ty, tx in tfl.tile([h, w]):
            total_a, total_b, count = tfl.zeros([ty, tx]), tfl.zeros([ty, tx]), tfl.zeros([ty, tx])
            for dy in range(-radius, radius + 1):
                for dx in range(-radius, radius + 1):
                    y, z = ty.index + dy, tx.index + dx
                    count += ((y >= 0) & (y < h))[:, None] & ((z >= 0) & (z < w))[None, :]
                    total_a += a[n, ty + dy, tx + dx]
                    total_b += b[n, ty + dy, tx + dx]
            out[n, ty, tx] = total_a / count * bright(n, ty, tx) + total_b / count
    return out.unsqueeze(1)


def equal_ref(image: Any, rows: int, columns: int, limit: float) -> Any:
    h, w = image.shape
    th, tw = h // rows, w // columns
    parts = image.view(rows, th, columns, tw).transpose(1, 2).reshape(rows * columns, -1).long()
    counts = torch.stack([torch.bincount(x, minlength=256) for x in parts]).int()
    most = max(int(limit * th * tw / 256), 1)
    over = (counts - most).clamp(min=0).sum(1, keepdim=True)
    counts = counts.clamp(max=most) + over // 256
    table = (counts.cumsum(1) * 255.0 / (th * tw)).round().clamp(0, 255).view(rows, columns, 256)

    def near(n: int, size: int, count: int) -> Any:
        at = (torch.arange(n) + 0.5) / size - 0.5
        low = at.floor()
        return low.clamp(0, count - 1).long(), (low + 1).clamp(0, count - 1).long(), at - low

    y0, y1, fy = near(h, th, rows)
    x0, x1, fx = near(w, tw, columns)
    v = image.long()
    top = table[y0[:, None], x0, v] * (1 - fx) + table[y0[:, None], x1, v] * fx
    low = table[y1[:, None], x0, v] * (1 - fx) + table[y1[:, None], x1, v] * fx
    return (top * (1 - fy[:, None]) + low * fy[:, None]).round().to(torch.uint8)


@stranger(
    lambda h, w, rows, columns: ((torch.randn(h, w) * 20 + 99).clamp(0, 255).to(torch.uint8), rows, columns, 3.0),
    equal_ref,
    {"h": 12, "w": 30, "rows": 2, "columns": 3},
    {"h": 2160, "w": 3840, "rows": 8, "columns": 8},
)
@tileflow.kernel
def equalise_tiles(image, rows: int, columns: int, limit: float):
    """Contrast that is made even part by part, of limited slope, with blended tables (Zuiderveld, 1994)."""
    h, w = image.shape
    th, tw = h // rows, w // columns
    counts = torch.zeros(rows, columns, 256, dtype=torch.int32, device=image.device)
    table = torch.empty(rows, columns, 256, dtype=torch.float32, device=image.device)
    out = torch.empty_like(image)
    for ty, tx in tfl.tile([h, w]):
        tfl.atomic_add(counts, [(ty.index // th)[:, None], (tx.index // tw)[None, :], image[ty, tx].long()], 1)
    most = max(int(limit * th * tw / 256), 1)
    for r, c in tfl.grid([rows, columns]):
        n = counts[r, c, :]
        over = torch.clamp(n - most, min=0).sum()
        n = n.clamp(max=most) + over // 256
        table[r, c, :] = torch.clamp(torch.round(n.cumsum(0) * 255.0 / (th * tw)), 0, 255)
    for ty, tx in tfl.tile([h, w]):
        ay, ax = (ty.index + 0.5) / th - 0.5, (tx.index + 0.5) / tw - 0.5
        ly, lx = torch.floor(ay), torch.floor(ax)
        fy, fx = (ay - ly)[:, None], (ax - lx)[None, :]
        y0, y1 = (torch.clamp(ly + k, 0, rows - 1).long()[:, None] for k in (0, 1))
        x0, x1 = (torch.clamp(lx + k, 0, columns - 1).long()[None, :] for k in (0, 1))
        v = image[ty, tx].long()
        top = torch.lerp(table[y0, x0, v], table[y0, x1, v], fx)
        low = torch.lerp(table[y1, x0, v], table[y1, x1, v], fx)
        out[ty, tx] = torch.round(torch.lerp(top, low, fy)).to(torch.uint8)
    return out


CORNERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))


def cubes_ref(volume: Any, level: Any, table: Any) -> Any:
    x, y, z = (n - 1 for n in volume.shape)
    inside = volume > level
    case = sum(inside[i : i + x, j : j + y, k : k + z].long() << bit for bit, (i, j, k) in enumerate(CORNERS))
    counts = table[case]
    return counts, counts.sum(dtype=torch.int64), (counts > 0).any(-1)


@stranger(
    lambda x, y, z: (
        randn(x, y, z, dtype=torch.float16),
        torch.tensor(0.5),
        torch.randint(0, 6, (256,)).to(torch.uint8),
    ),
    cubes_ref,
    {"x": 5, "y": 7, "z": 19},
    {"x": 256, "y": 256, "z": 256},
)
@tileflow.kernel
def marching_cubes_counts(volume, level, table):
    """How many triangles each cube of a volume will have, all together, and which columns have any."""
    nx, ny, nz = (n - 1 for n in volume.shape)
    counts = torch.empty((nx, ny, nz), dtype=torch.uint8, device=volume.device)
    total = torch.zeros((), dtype=torch.int64, device=volume.device)
    some = torch.empty((nx, ny), dtype=torch.bool, device=volume.device)
    for tx, ty in tfl.tile([nx, ny]):
        found = tfl.zeros([tx, ty], dtype=torch.bool)
        for tz in tfl.tile(nz):
            case = 0
            for bit, (i, j, k) in enumerate(CORNERS):
                case = case | ((volume[tx + i, ty + j, tz + k] > level).int() << bit)
            n = table[case]
            counts[tx, ty, tz] = n
            found |= (n > 0).any(-1)
            tfl.atomic_add(total, [], n.sum(dtype=torch.int64))
        some[tx, ty] = found
    return counts, total, some


def cloud_ref(field: Any, at: Any, box: float) -> Any:
    n = field.size(0)
    u = at / box * n
    base = torch.floor(u + 0.5)
    d = u - base
    w = torch.stack([0.5 * (0.5 - d) ** 2, 0.75 - d**2, 0.5 * (0.5 + d) ** 2])  # place, particle, axis
    out = torch.zeros_like(at)
    for i in range(3):
        for j in range(3):
            for k in range(3):
                x, y, z = ((base + torch.tensor([i - 1, j - 1, k - 1])).long() % n).unbind(1)
                out += (w[i, :, 0] * w[j, :, 1] * w[k, :, 2])[:, None] * field[x, y, z]
    return out


@stranger(
    lambda n, count: (torch.randn(3, n, n, n).movedim(0, -1), torch.rand(count, 3) * 7.0, 7.0),
    cloud_ref,
    {"n": 5, "count": 37},
    {"n": 128, "count": 1 << 20},
)
@helion.kernel(static_shapes=True)
def triangular_cloud_forces(field: torch.Tensor, at: torch.Tensor, box: float) -> torch.Tensor:
    """Particle mesh: the force at each particle, out of the 27 nodes around it, in a box that goes on behind itself."""
    n = field.size(0)
    count = at.size(0)
    out = torch.empty_like(at)
    for tile in hl.tile(count):
        base, weights = [], []
        for axis in range(3):
            u = at[tile, axis] / box * n
            near = torch.floor(u + 0.5)
            d = u - near
            base.append(near.to(torch.int32))
            weights.append((0.5 * (0.5 - d) ** 2, 0.75 - d * d, 0.5 * (0.5 + d) ** 2))
        force = hl.zeros([tile, 3])
        for i in range(3):
            for j in range(3):
                for k in range(3):
                    x, y, z = (base[0] + i - 1 + n) % n, (base[1] + j - 1 + n) % n, (base[2] + k - 1 + n) % n
                    weight = weights[0][i] * weights[1][j] * weights[2][k]
                    force += weight[:, None] * field[x, y, z, :]
        out[tile, :] = force
    return out


def voxels_ref(points: Any, size: float, capacity: int) -> Any:
    cell = torch.floor(points.float() / size).int()
    _, inverse, counts = torch.unique(cell, dim=0, return_inverse=True, return_counts=True)
    return counts[inverse].int(), torch.tensor(len(counts))


@stranger(
    lambda n, capacity: (torch.randn(n, 3), 0.75, capacity),
    voxels_ref,
    {"n": 97, "capacity": 256},
    {"n": 1 << 20, "capacity": 1 << 21},
)
@tileflow.kernel
def voxel_counts(points, size, capacity):
    """How many points share a point's cell, by a table with open addresses; how many cells there are."""
    n = points.size(0)
    keys = torch.full((capacity,), -1, dtype=torch.int32, device=points.device)
    counts = torch.zeros(capacity, dtype=torch.int32, device=points.device)
    slots = torch.empty(n, dtype=torch.int32, device=points.device)
    cells = torch.zeros((), dtype=torch.int64, device=points.device)
    for t in tfl.tile(n):
        x, y, z = [torch.floor(points[t, axis] / size).int() + 512 for axis in range(3)]
        key = x | y << 10 | z << 20
        slot = ((key * 0x9E3779B1) & 0x7FFFFFFF) % capacity
        done = key < 0
        while (~done).any():
            old = tfl.atomic_cas(keys, [slot], torch.full_like(key, -1), key, extra_mask=~done)
            fresh = ~done & (old == -1)
            tfl.atomic_add(cells, [], fresh.sum())
            done = done | fresh | (old == key)
            slot = torch.where(done, slot, (slot + 1) % capacity)
        tfl.atomic_add(counts, [slot], 1)
        slots[t] = slot
    tfl.barrier()
    shared = torch.empty_like(slots)
    for t in tfl.tile(n):
        shared[t] = counts[slots[t]]
    return shared, cells


def savgol_ref(y: Any, taps: Any) -> Any:
    half = len(taps) // 2
    wide = F.pad(y[:, None], (half, half), mode="replicate")[:, 0].unfold(1, len(taps), 1)
    seen = ~wide.isnan()
    out = (torch.where(seen, wide, 0.0) * taps).sum(-1) / (seen * taps).sum(-1)
    return torch.where(seen.sum(-1) > half, out, torch.nan)


def make_savgol(rows: int, n: int, width: int) -> Any:
    y = torch.randn(rows, n).cumsum(1)
    k = torch.arange(width) - width // 2
    return y.masked_fill(torch.rand(rows, n) < 0.1, torch.nan), 1.0 - (k / (width // 2 + 1)) ** 2


@stranger(make_savgol, savgol_ref, {"rows": 1, "n": 61, "width": 7}, {"rows": 4096, "n": 8192, "width": 11})
@tileflow.kernel
def smooth_with_gaps(y, taps):
    """A weighted mean that passes over what is missing, and says nothing where most of a window is."""
    rows, n = y.shape
    width = taps.numel()
    out = torch.empty_like(y)
    for tr, t in tfl.tile((rows, n)):
        num, den, seen = 0, 0, 0
        for k in range(width):
            v = y[tr, (t.index + k - width // 2).clamp(0, n - 1)]
            ok = ~torch.isnan(v)
            num = num + torch.where(ok, v, 0) * taps[k]
            den = den + ok * taps[k]
            seen = seen + ok.int()
        out[tr, t] = torch.where(seen > width // 2, num / den, float("nan"))
    return out


class Belief(NamedTuple):
    x: Any
    v: Any
    xx: Any
    xv: Any
    vv: Any

    def ahead(self, dt, q):
        """With a constant speed that white noise changes."""
        xx = self.xx + 2 * dt * self.xv + dt * dt * self.vv + q * dt**3 / 3
        return Belief(self.x + dt * self.v, self.v, xx, self.xv + dt * self.vv + q * dt**2 / 2, self.vv + q * dt)

    def seeing(self, y, r):
        s = self.xx + r
        a, b, e = self.xx / s, self.xv / s, y - self.x
        return Belief(self.x + a * e, self.v + b * e, (1 - a) * self.xx, (1 - a) * self.xv, self.vv - b * self.xv)


def smoother_ref(y: Any, dt: float, q: float, r: float) -> Any:
    f = torch.tensor([[1.0, dt], [0.0, 1.0]], dtype=y.dtype)
    noise = q * torch.tensor([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]], dtype=y.dtype)
    x, p = torch.zeros(len(y), 2, dtype=y.dtype), 10.0 * torch.eye(2, dtype=y.dtype).expand(len(y), 2, 2)
    kept = []
    for t in range(y.size(1)):
        if t:
            x, p = x @ f.T, f @ p @ f.T + noise
        seen, before = ~y[:, t].isnan(), (x, p)
        gain = p[:, :, 0] / (p[:, :1, 0] + r)
        x1 = x + gain * (y[:, t].nan_to_num() - x[:, 0])[:, None]
        p1 = p - gain[:, :, None] * p[:, None, 0, :]
        x, p = torch.where(seen[:, None], x1, x), torch.where(seen[:, None, None], p1, p)
        kept.append((x, p, *before))
    out = [x]
    for t in reversed(range(y.size(1) - 1)):
        m, c = kept[t][:2]
        ahead_x, ahead_p = kept[t + 1][2:]
        gain = c @ f.T @ torch.linalg.inv(ahead_p)
        x = m + (gain @ (x - ahead_x)[:, :, None])[:, :, 0]
        out.append(x)
    return torch.stack(out[::-1], 1)


@stranger(
    lambda n, t: (torch.randn(n, t).cumsum(1).masked_fill(torch.rand(n, t) < 0.2, torch.nan), 0.5, 0.3, 1.5),
    smoother_ref,
    {"n": 13, "t": 21},
    {"n": 1 << 16, "t": 512},
)
@tileflow.kernel
def kalman_smoother(y, dt, q, r):
    """Rauch, Tung and Striebel, 1965: places and speeds given all that was seen, forwards and back again."""
    n, time = y.shape
    out = torch.empty(n, time, 2, device=y.device)
    kept = torch.empty(time, 5, n, device=y.device)
    for t in tfl.tile(n):
        nothing = tfl.zeros([t])
        now = Belief(nothing, nothing, nothing + 10, nothing, nothing + 10)
        for k in range(time):
            if k > 0:
                now = now.ahead(dt, q)
            seen = y[t, k].isnan().logical_not()
            then = now.seeing(torch.nan_to_num(y[t, k]), r)
            now = Belief(*[torch.where(seen, a, b) for a, b in zip(then, now, strict=True)])
            for i, part in enumerate(now):
                kept[k, i, t] = part
        x, v = now.x, now.v
        out[t, time - 1, 0] = x
        out[t, time - 1, 1] = v
        for k in reversed(range(time - 1)):
            m = Belief(*(kept[k, i, t] for i in range(5)))
            a = m.ahead(dt, q)
            det = a.xx * a.vv - a.xv**2
            c00, c01, c10, c11 = m.xx + dt * m.xv, m.xv, m.xv + dt * m.vv, m.vv
            ex, ev = (a.vv * (x - a.x) - a.xv * (v - a.v)) / det, (a.xx * (v - a.v) - a.xv * (x - a.x)) / det
            x, v = m.x + c00 * ex + c01 * ev, m.v + c10 * ex + c11 * ev
            out[t, k, 0] = x
            out[t, k, 1] = v
    return out


class Asymmetry(Enum):
    GJR = 1
    EGARCH = 2


def risk_ref(returns: Any, parameters: Any, first: Any, kind: Asymmetry) -> Any:
    omega, alpha, gamma, beta = parameters.unbind(1)
    var = first.expand(len(returns))
    out, total = [], 0.0
    for r in returns.unbind(1):
        out.append(var)
        total = total - 0.5 * (math.log(2 * math.pi) + var.log() + r * r / var)
        if kind is Asymmetry.GJR:
            var = omega + (alpha + gamma * (r < 0)) * r * r + beta * var
        else:
            z = r / var.sqrt()
            var = torch.exp(omega + alpha * (z.abs() - math.sqrt(2 / math.pi)) + gamma * z + beta * var.log())
    return torch.stack(out, 1).sqrt(), total


@stranger(
    lambda n, t, kind: (
        torch.randn(n, t) / 10,
        torch.rand(n, 4) * torch.tensor([0.01, 0.1, 0.1, 0.7]),
        torch.tensor(0.01, dtype=torch.float64),
        kind,
    ),
    risk_ref,
    {"n": 11, "t": 29, "kind": Asymmetry.EGARCH},
    {"n": 1 << 16, "t": 1024, "kind": Asymmetry.GJR},
)
@tileflow.kernel
def asymmetric_volatility(returns, parameters, first, kind: Asymmetry = Asymmetry.GJR):
    """Volatilities that losses raise more than gains do (Nelson, 1991; Glosten et al., 1993), and their likelihoods."""
    n, time = returns.shape
    out = torch.empty_like(returns)
    likelihood = torch.empty(n, device=returns.device)
    for t in tfl.tile(n):
        omega, alpha, gamma, beta = (parameters[t, i] for i in range(4))
        var = torch.full_like(omega, first)
        total = torch.zeros_like(omega)
        for k in tfl.grid(time):
            r = returns[t, k]
            out[t, k] = var.sqrt()
            total -= 0.5 * (math.log(2 * math.pi) + torch.log(var) + r * r / var)
            if kind is Asymmetry.GJR:
                var = omega + (alpha + gamma * (r < 0)) * r**2 + beta * var
            else:
                z = r / torch.sqrt(var)
                news = alpha * (abs(z) - math.sqrt(2 / math.pi)) + gamma * z
                var = (omega + news + beta * torch.log(var)).exp()
        likelihood[t] = total
    return out, likelihood


class NaturalSpline(torch.nn.Module):
    def __init__(self, knots: torch.Tensor, values: torch.Tensor, seconds: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("knots", knots)
        self.register_buffer("values", values)
        self.seconds = torch.nn.Parameter(seconds, requires_grad=False)
        self.extrapolate = True

    def piece(self, x, i):
        """Of the cubic between two knots: its value and its slope at ``x``."""
        low, high = self.knots[i], self.knots[i + 1]
        h = high - low
        a, b = (high - x) / h, (x - low) / h
        bend = ((a**3 - a) * self.seconds[i] + (b**3 - b) * self.seconds[i + 1]) * h**2 / 6
        value = a * self.values[i] + b * self.values[i + 1] + bend
        slope = (self.values[i + 1] - self.values[i]) / h
        bent = ((3 * b**2 - 1) * self.seconds[i + 1] - (3 * a**2 - 1) * self.seconds[i]) * h / 6
        return value, slope + bent

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return spline_values(self, x)


def spline_ref(spline: Any, x: Any) -> Any:
    i = (torch.searchsorted(spline.knots.to(x.dtype), x, right=True) - 1).clamp(0, len(spline.knots) - 2)
    return spline.piece(x, i)


def make_spline(knots: int, n: int) -> Any:
    at = torch.rand(knots).add(0.1).cumsum(0)
    return NaturalSpline(at, torch.randn(knots), torch.randn(knots)), torch.rand(n) * at[-1]


@stranger(make_spline, spline_ref, {"knots": 13, "n": 211}, {"knots": 128, "n": 1 << 22})
@tileflow.kernel
def spline_values(spline: NaturalSpline, x: torch.Tensor):
    """A curve through knots and its slope, by a module that knows its pieces."""
    value, slope = torch.empty_like(x), torch.empty_like(x)
    for t in tfl.tile(x.numel()):
        i = torch.searchsorted(spline.knots[:], x[t], right=True) - 1
        value[t], slope[t] = spline.piece(x[t], i.clamp(0, spline.knots.numel() - 2))
    return value, slope
