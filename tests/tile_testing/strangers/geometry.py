"""Space and robots: matching of clouds, arms, triangles, fused depths, skins, samples of points, normals."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_clouds(n: Any) -> Any:
    turn = torch.linalg.matrix_exp(torch.tensor([[0, -0.1, 0.05], [0.1, 0, -0.02], [-0.05, 0.02, 0]]))
    return randn(n, 3), randn(n, 3), F.normalize(randn(n, 3), dim=1), turn, torch.tensor([0.1, -0.2, 0.05]), 0.5


def icp_ref(source: Any, target: Any, normal: Any, turn: Any, shift: Any, width: Any) -> Any:
    p = source @ turn.T + shift
    r = ((p - target) * normal).sum(1)
    w = torch.where(r.abs() <= width, 1.0, width / r.abs())[:, None]
    jac = torch.cat([torch.linalg.cross(p, normal), normal], 1)
    return (jac * w).T @ jac, (jac * w).T @ -r, (w[:, 0] * r * r).sum()


@stranger(make_clouds, icp_ref, {"n": 77}, {"n": 1 << 23})
@tileflow.kernel
def match_planes(source, target, normal, turn, shift, width: float):
    """Chen and Medioni, 1992: normal equations of the distances from points to planes, with Huber's weights."""
    a = torch.zeros(6, 6, device=source.device)
    b = torch.zeros(6, device=source.device)
    cost = torch.zeros((), device=source.device)
    for t in tfl.tile(source.size(0)):
        x, y, z = source[t, 0], source[t, 1], source[t, 2]
        p = [turn[i, 0] * x + turn[i, 1] * y + turn[i, 2] * z + shift[i] for i in range(3)]
        n = [normal[t, i] for i in range(3)]
        r = sum((p[i] - target[t, i]) * n[i] for i in range(3))
        size = r.abs()
        w = torch.where(size <= width, 1.0, width / size)
        cross = [p[1] * n[2] - p[2] * n[1], p[2] * n[0] - p[0] * n[2], p[0] * n[1] - p[1] * n[0]]
        jac = cross + n
        for i in range(6):
            for j in range(6):
                tfl.atomic_add(a, [i, j], (w * jac[i] * jac[j]).sum())
            tfl.atomic_add(b, [i], -(w * jac[i] * r).sum())
        tfl.atomic_add(cost, [], (w * r * r).sum())
    return a, b, cost


def arm_ref(angles: Any, links: Any) -> Any:
    b, n = angles.shape
    pose = torch.eye(4, dtype=angles.dtype).expand(b, 4, 4)
    places = []
    for j in range(n):
        c, s = angles[:, j].cos(), angles[:, j].sin()
        ca, sa = links[j, 0].cos(), links[j, 0].sin()
        o, i = torch.zeros_like(c), torch.ones_like(c)
        rows = [c, -s * ca, s * sa, links[j, 1] * c, s, c * ca, -c * sa, links[j, 1] * s]
        rows += [o, i * sa, i * ca, i * links[j, 2], o, o, o, i]
        pose = pose @ torch.stack(rows, 1).view(b, 4, 4)
        places.append(pose[:, :3, 3])
    return pose[:, :3].contiguous(), torch.stack(places, 1)


@stranger(lambda b, n: (torch.rand(b, n) * 6 - 3, torch.rand(n, 3)), arm_ref, {"b": 13, "n": 3}, {"b": 1 << 21, "n": 7})
@tileflow.kernel
def forward_kinematics(angles, links):
    """Denavit and Hartenberg, 1955: where the joints of many postures of one arm are."""
    b, n = angles.shape
    pose = torch.empty(b, 3, 4, device=angles.device)
    places = torch.empty(b, n, 3, device=angles.device)
    for t in tfl.tile(b):
        one = torch.ones_like(angles[t, 0])
        m = [[one if i == j else 0.0 * one for j in range(4)] for i in range(3)]
        for j in range(n):
            c, s = torch.cos(angles[t, j]), torch.sin(angles[t, j])
            ca, sa = torch.cos(links[j, 0]), torch.sin(links[j, 0])
            length, offset = links[j, 1], links[j, 2]
            new = []
            for x, y, z, w in m:
                u = x * c + y * s
                v = y * c - x * s
                new.append([u, v * ca + z * sa, z * ca - v * sa, u * length + z * offset + w])
            m = new
            for i in range(3):
                places[t, j, i] = m[i][3]
        for i in range(3):
            for k in range(4):
                pose[t, i, k] = m[i][k]
    return pose, places


def make_rays(r: Any, m: Any) -> Any:
    corner = torch.rand(m, 1, 3) * 2 - 1
    return randn(r, 3) * 0.1, F.normalize(randn(r, 3), dim=1), corner + 0.3 * randn(m, 3, 3)


def rays_ref(origin: Any, direction: Any, triangles: Any) -> Any:
    a, e, f = triangles[:, 0], triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    depth = []
    for o, d in zip(origin.split(2048), direction.split(2048), strict=True):
        h = torch.linalg.cross(d[:, None], f[None])
        det = (e * h).sum(-1)
        s = o[:, None] - a
        u = (s * h).sum(-1) / det
        q = torch.linalg.cross(s, e[None].expand_as(s))
        v, t = (d[:, None] * q).sum(-1) / det, (f * q).sum(-1) / det
        hit = (det.abs() > 1e-6) & (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 1e-4)
        depth.append(torch.where(hit, t, float("inf")).amin(1))
    return torch.cat(depth)


@stranger(make_rays, rays_ref, {"r": 13, "m": 37}, {"r": 1 << 16, "m": 2048})
@tileflow.kernel
def cast_rays(origin, direction, triangles):
    """Moller and Trumbore, 1997: the nearest triangle that each ray meets, infinite where it meets none."""
    r, m = origin.size(0), triangles.size(0)
    depth = torch.empty(r, device=origin.device)

    def cross(a, b):
        return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]

    def dot(a, b):
        return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]

    for tr in tfl.tile(r):
        o = [origin[tr, i][:, None] for i in range(3)]
        d = [direction[tr, i][:, None] for i in range(3)]
        best = tfl.full([tr], float("inf"))
        for tm in tfl.tile(m):
            a = [triangles[tm, 0, i] for i in range(3)]
            e = [triangles[tm, 1, i] - a[i] for i in range(3)]
            f = [triangles[tm, 2, i] - a[i] for i in range(3)]
            h = cross(d, f)
            det = dot(e, h)
            s = [o[i] - a[i] for i in range(3)]
            u = dot(s, h) / det
            q = cross(s, e)
            v = dot(d, q) / det
            t = dot(f, q) / det
            hit = (det.abs() > 1e-6) & (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 1e-4)
            best = torch.minimum(best, torch.where(hit, t, float("inf")).amin(1))
        depth[tr] = best
    return depth


def make_volume(g: Any, h: Any, w: Any) -> Any:
    y, x = torch.arange(h)[:, None] / h, torch.arange(w)[None] / w
    pose = torch.tensor([[1.0, 0, 0, -1], [0, 1, 0, -1], [0, 0, 1, 1]])
    camera = torch.tensor([w * 0.9, h * 0.9, w / 2, h / 2])
    return (
        torch.rand(g, g, g) * 2 - 1, torch.randint(0, 4, (g, g, g)).float(), 2 + 0.3 * torch.sin(5 * x + 3 * y),
        camera, pose, 2.0 / g, 0.1,
    )  # fmt: skip


def volume_ref(field: Any, weight: Any, depth: Any, camera: Any, pose: Any, size: Any, band: Any) -> Any:
    g = field.size(0)
    h, w = depth.shape
    out, seen = [], []
    p = (torch.arange(g) + 0.5) * size
    for k in range(g):
        world = torch.stack([p[None].expand(g, g), p[:, None].expand(g, g), p[k].expand(g, g)]).to(field.dtype)
        x, y, z = torch.einsum("ij,jab->iab", pose[:, :3], world) + pose[:, 3, None, None]
        u, v = camera[0] * x / z + camera[2], camera[1] * y / z + camera[3]
        u0, v0 = u.floor().long(), v.floor().long()
        inside = (z > 0.1) & (u0 >= 0) & (v0 >= 0) & (u0 < w - 1) & (v0 < h - 1)
        a, b = u0.clamp(0, w - 2), v0.clamp(0, h - 2)
        fu, fv = u - u0, v - v0
        d = (1 - fv) * ((1 - fu) * depth[b, a] + fu * depth[b, a + 1])
        d = d + fv * ((1 - fu) * depth[b + 1, a] + fu * depth[b + 1, a + 1])
        far = ((d - z) / band).clamp(max=1)
        fresh = torch.where(inside & (far > -1), (1 + far).clamp(max=1), 0.0)
        total = weight[k] + fresh
        out.append(torch.where(fresh > 0, (field[k] * weight[k] + far * fresh) / total.clamp(min=1e-6), field[k]))
        seen.append(total.clamp(max=64))
    return torch.stack(out), torch.stack(seen)


@stranger(make_volume, volume_ref, {"g": 9, "h": 12, "w": 16}, {"g": 384, "h": 480, "w": 640})
@tileflow.kernel
def fuse_depth(field, weight, depth, camera, pose, size: float, band: float):
    """Curless and Levoy, 1996: a picture of depths averaged into signed distances; weights fade behind the surface."""
    g = field.size(0)
    h, w = depth.shape
    out, seen = torch.empty_like(field), torch.empty_like(weight)
    for tz, ty, tx in tfl.tile([g, g, g]):
        px = ((tx.index + 0.5) * size)[None, None, :]
        py = ((ty.index + 0.5) * size)[None, :, None]
        pz = ((tz.index + 0.5) * size)[:, None, None]
        x, y, z = [pose[i, 0] * px + pose[i, 1] * py + pose[i, 2] * pz + pose[i, 3] for i in range(3)]
        u = camera[0] * x / z + camera[2]
        v = camera[1] * y / z + camera[3]
        u0, v0 = torch.floor(u).int(), torch.floor(v).int()
        inside = (z > 0.1) & (u0 >= 0) & (v0 >= 0) & (u0 < w - 1) & (v0 < h - 1)
        fu, fv = u - u0, v - v0
        top = (1 - fu) * depth[v0, u0] + fu * depth[v0, u0 + 1]
        bottom = (1 - fu) * depth[v0 + 1, u0] + fu * depth[v0 + 1, u0 + 1]
        d = (1 - fv) * top + fv * bottom
        far = ((d - z) / band).clamp(max=1)
        fresh = torch.where(inside & (far > -1), (1 + far).clamp(max=1), 0.0)
        old, before = field[tz, ty, tx], weight[tz, ty, tx]
        total = before + fresh
        out[tz, ty, tx] = torch.where(fresh > 0, (old * before + far * fresh) / total.clamp(min=1e-6), old)
        seen[tz, ty, tx] = total.clamp(max=64)
    return out, seen


def make_skin(b: Any, v: Any, j: Any, dtype: Any = torch.float32) -> Any:
    return (
        randn(v, 3),
        torch.randint(0, j, (v, 4)).int(),
        torch.softmax(randn(v, 4), 1),
        randn(b, j, 3, 4, dtype=dtype),
    )


def skin_ref(rest: Any, joint: Any, weight: Any, bones: Any) -> Any:
    p = F.pad(rest, (0, 1), value=1.0)
    out = torch.zeros(bones.size(0), rest.size(0), 3, dtype=rest.dtype)
    for k in range(4):
        out += weight[:, k, None] * torch.einsum("bvij,vj->bvi", bones[:, joint[:, k].long()].to(rest.dtype), p)
    return out


@stranger(make_skin, skin_ref, {"b": 3, "v": 21, "j": 5}, {"b": 1024, "v": 10475, "j": 55})
@tileflow.kernel
def blend_skin(rest, joint, weight, bones):
    """Each vertex of a body follows four of its bones, in a batch of postures."""
    b = bones.size(0)
    v = rest.size(0)
    out = torch.empty(b, v, 3, device=rest.device)
    for tb, tv in tfl.tile([b, v]):
        x, y, z = rest[tv, 0], rest[tv, 1], rest[tv, 2]
        for i in range(3):
            total = tfl.zeros([tb, tv])
            for k in range(4):
                one = joint[tv, k]
                moved = bones[tb, one, i, 0] * x + bones[tb, one, i, 1] * y + bones[tb, one, i, 2] * z
                total += weight[tv, k] * (moved + bones[tb, one, i, 3])
            out[tb, tv, i] = total
    return out


def farthest_ref(points: Any, m: Any) -> Any:
    b, n, _ = points.shape
    rows = torch.arange(b)
    least = torch.full((b, n), 1e20, dtype=points.dtype)
    last = torch.zeros(b, dtype=torch.int64)
    chosen = []
    for _ in range(m):
        chosen.append(last.int())
        least = torch.minimum(least, ((points - points[rows, last][:, None]) ** 2).sum(-1))
        last = torch.where(least == least.amax(1, keepdim=True), torch.arange(n), n).amin(1)
    return torch.stack(chosen, 1)


@stranger(
    lambda b, n, m: (torch.randint(0, 1000, (b, n, 3)).float(), m),
    farthest_ref,
    {"b": 3, "n": 29, "m": 7},
    {"b": 256, "n": 4096, "m": 512},
)
@tileflow.kernel
def farthest_points(points, m: int):
    """PointNet++, arXiv:1706.02413: each next sample is the point farthest from those before it."""
    b, n, _ = points.shape
    chosen = torch.empty(b, m, dtype=torch.int32, device=points.device)
    for ib in tfl.grid(b):
        x, y, z = points[ib, :, 0], points[ib, :, 1], points[ib, :, 2]
        least = tfl.full([n], 1e20)
        last = 0
        for i in range(m):
            chosen[ib, i] = last
            dx, dy, dz = x - points[ib, last, 0], y - points[ib, last, 1], z - points[ib, last, 2]
            least = torch.minimum(least, dx * dx + dy * dy + dz * dz)
            last = torch.argmax(least, dim=0)
    return chosen


def normals_ref(depth: Any, fx: Any, fy: Any) -> Any:
    _b, h, w = depth.shape
    u, v = (torch.arange(w) - w / 2) / fx, (torch.arange(h) - h / 2)[:, None] / fy
    p = torch.stack([u * depth, v * depth, depth], -1)
    right, down = p[:, 1:-1, 2:] - p[:, 1:-1, :-2], p[:, 2:, 1:-1] - p[:, :-2, 1:-1]
    n = F.normalize(torch.linalg.cross(down, right), dim=-1)
    return F.pad(n, (0, 0, 1, 1, 1, 1))


@stranger(
    lambda b, h, w: (torch.rand(b, h, w) + 2, w * 0.8, h * 0.8),
    normals_ref,
    {"b": 2, "h": 9, "w": 13},
    {"b": 32, "h": 720, "w": 1280},
)
@helion.kernel()
def depth_normals(depth: torch.Tensor, fx: float, fy: float) -> torch.Tensor:
    """Normals of the surface in a picture of depths, zero along the border."""
    b, h, w = depth.shape
    out = torch.empty([b, h, w, 3], dtype=torch.float32, device=depth.device)
    for tb, ty, tx in hl.tile([b, h, w]):
        u = ((tx.index - w / 2) / fx)[None, None, :]
        v = ((ty.index - h / 2) / fy)[None, :, None]
        west, east = depth[tb, ty, tx.index - 1], depth[tb, ty, tx.index + 1]
        north, south = depth[tb, ty.index - 1, tx], depth[tb, ty.index + 1, tx]
        rx, ry, rz = u * (east - west) + (east + west) / fx, v * (east - west), east - west
        dx, dy, dz = u * (south - north), v * (south - north) + (south + north) / fy, south - north
        nx, ny, nz = dy * rz - dz * ry, dz * rx - dx * rz, dx * ry - dy * rx
        length = torch.sqrt(nx * nx + ny * ny + nz * nz).clamp(min=1e-12)
        rows = ((ty.index > 0) & (ty.index < h - 1))[None, :, None]
        inner = rows & ((tx.index > 0) & (tx.index < w - 1))[None, None, :]
        out[tb, ty, tx, 0] = torch.where(inner, nx / length, 0.0)
        out[tb, ty, tx, 1] = torch.where(inner, ny / length, 0.0)
        out[tb, ty, tx, 2] = torch.where(inner, nz / length, 0.0)
    return out
