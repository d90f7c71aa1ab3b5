"""Vision: boxes, windows, rays, points."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_ball(b, s, n, k):
    return torch.rand(b, s, 3), torch.rand(b, n, 3), 0.3, k


def ball_ref(centres, points, radius, k):
    d2 = ((centres[:, :, None] - points[:, None]) ** 2).sum(-1)
    n = points.size(1)
    index = torch.where(d2 < radius**2, torch.arange(n), n).sort(-1).values[..., :k]
    first = index[..., :1]
    index = torch.where(index == n, first, index)
    return torch.where(index == n, 0, index)


@stranger(make_ball, ball_ref, {"b": 2, "s": 7, "n": 37, "k": 4}, {"b": 16, "s": 512, "n": 4096, "k": 32})
@tileflow.kernel
def ball_query(centres, points, radius: float, k: int):
    """PointNet++: the first k points near each centre, the first of them again where there are fewer."""
    b, s, _ = centres.shape
    n = points.size(1)
    out = torch.zeros(b, s, k, dtype=torch.int64, device=points.device)
    for tb, ts in tfl.tile([b, s], block_size=[1, None]):
        i = tb.begin
        count = tfl.zeros([ts], dtype=torch.int32)
        first = tfl.full([ts], n, dtype=torch.int32)
        for tp in tfl.tile(n):
            gap = centres[i, ts, :][:, None, :] - points[i, tp, :][None, :, :]
            hit = (gap * gap).sum(-1) < radius**2
            place = count[:, None] + hit.int().cumsum(1) - 1
            tfl.store(out, [i, ts.index[:, None], place], tp.index[None, :], extra_mask=hit & (place < k))
            first = torch.minimum(first, torch.where(hit, tp.index[None, :], n).amin(1))
            count += hit.sum(1)
        for j in range(k):
            out[i, ts, j] = torch.where(count > j, out[i, ts, j], torch.where(count > 0, first, 0))
    return out


def make_roi(n, c, h, w, k, dtype=torch.float32):
    lo = torch.rand(k, 2) * torch.tensor([w, h]) * 8
    box = torch.cat([lo, lo + torch.rand(k, 2) * torch.tensor([w, h]) * 8], 1)
    return randn(n, c, h, w, dtype=dtype), torch.cat([torch.randint(0, n, (k, 1)).float(), box], 1), (7, 5)


def roi_ref(x, rois, size, scale=0.125, samples=2):
    out = torch.empty(rois.size(0), x.size(1), *size)
    h, w = x.shape[2:]
    for k, (b, x1, y1, x2, y2) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (v * scale - 0.5 for v in (x1, y1, x2, y2))
        ys = y1 + (torch.arange(size[0] * samples) + 0.5) * (y2 - y1) / size[0] / samples
        xs = x1 + (torch.arange(size[1] * samples) + 0.5) * (x2 - x1) / size[1] / samples
        gy, gx = torch.meshgrid(ys, xs, indexing="ij")
        inside = (gy >= -1) & (gy <= h) & (gx >= -1) & (gx <= w)
        gy, gx = gy.clamp(0, h - 1), gx.clamp(0, w - 1)
        y0, x0 = gy.floor().long(), gx.floor().long()
        y9, x9 = (y0 + 1).clamp(max=h - 1), (x0 + 1).clamp(max=w - 1)
        fy, fx = gy - y0, gx - x0
        im = x[int(b)].float()
        v = (
            im[:, y0, x0] * (1 - fy) * (1 - fx)
            + im[:, y0, x9] * (1 - fy) * fx
            + im[:, y9, x0] * fy * (1 - fx)
            + im[:, y9, x9] * fy * fx
        ) * inside
        out[k] = F.avg_pool2d(v[None], samples)[0]
    return out.to(x.dtype)


@stranger(
    make_roi, roi_ref, {"n": 2, "c": 5, "h": 9, "w": 11, "k": 3}, {"n": 2, "c": 256, "h": 200, "w": 272, "k": 1024}
)
@tileflow.kernel
def roi_align(x, rois, size: tuple[int, int], scale: float = 0.125, samples: int = 2):
    """Mask R-CNN, arXiv:1703.06870."""
    _, c, h, w = x.shape
    ph, pw = size
    out = torch.empty(rois.size(0), c, ph, pw, dtype=x.dtype, device=x.device)

    def bilinear(image, tc, y, x0):
        inside = (y >= -1) & (y <= h) & (x0 >= -1) & (x0 <= w)
        y, xx = y.clamp(0, h - 1), x0.clamp(0, w - 1)
        top, left = y.floor().int(), xx.floor().int()
        bottom, right = (top + 1).clamp(max=h - 1), (left + 1).clamp(max=w - 1)
        fy, fx = y - top, xx - left
        upper = x[image, tc, top, left] * (1 - fx) + x[image, tc, top, right] * fx
        lower = x[image, tc, bottom, left] * (1 - fx) + x[image, tc, bottom, right] * fx
        return torch.where(inside, upper * (1 - fy) + lower * fy, 0.0)

    for k, i, j in tfl.grid([rois.size(0), ph, pw]):
        image = rois[k, 0].int()
        x1, y1, x2, y2 = [rois[k, 1 + e] * scale - 0.5 for e in range(4)]
        bin_h, bin_w = (y2 - y1) / ph, (x2 - x1) / pw
        for tc in tfl.tile(c):
            total = tfl.zeros([tc])
            for sy in range(samples):
                for sx in range(samples):
                    yy = y1 + (i + (sy + 0.5) / samples) * bin_h
                    xx = x1 + (j + (sx + 0.5) / samples) * bin_w
                    total += bilinear(image, tc, yy, xx)
            out[k, tc, i, j] = total / (samples * samples)
    return out


def make_swin(b, hw, heads, d, win, dtype=torch.float32):
    c = heads * d
    return randn(b, hw, hw, 3 * c, dtype=dtype), randn((2 * win - 1) ** 2, heads), heads, win, win // 2


def swin_ref(qkv, table, heads, win, shift):
    b, h, w, c3 = qkv.shape
    c = c3 // 3
    x = torch.roll(qkv.float(), (-shift, -shift), (1, 2))

    def part(t):
        return t.view(b, h // win, win, w // win, win, -1).permute(0, 1, 3, 2, 4, 5).reshape(-1, win * win, t.size(-1))

    q, k, v = part(x).view(-1, win * win, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
    yy, xx = torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij")
    yy, xx = yy.flatten(), xx.flatten()
    rel = (yy[:, None] - yy + win - 1) * (2 * win - 1) + xx[:, None] - xx + win - 1

    def zone(n):
        i = torch.arange(n)
        return torch.where(i < n - win, 0, torch.where(i < n - shift, 1, 2))

    z = part((zone(h)[:, None] * 3 + zone(w)).view(1, h, w, 1).expand(b, -1, -1, -1))[..., 0]
    s = (
        q @ k.mT / math.sqrt(c // heads)
        + table[rel].permute(2, 0, 1)
        + torch.where(z[:, None, :, None] == z[:, None, None, :], 0.0, -100.0)
    )
    o = (
        (s.softmax(-1) @ v)
        .transpose(1, 2)
        .reshape(b, h // win, w // win, win, win, c)
        .permute(0, 1, 3, 2, 4, 5)
        .reshape(b, h, w, c)
    )
    return torch.roll(o, (shift, shift), (1, 2)).to(qkv.dtype)


@stranger(
    make_swin,
    swin_ref,
    {"b": 2, "hw": 8, "heads": 2, "d": 16, "win": 4},
    {"b": 64, "hw": 56, "heads": 3, "d": 32, "win": 7, "dtype": torch.bfloat16},
)
@tileflow.kernel
def swin_attention(qkv, table, heads: int, win: int, shift: int):
    """Shifted windows, arXiv:2103.14030: partition, relative bias, mask and reverse in one kernel."""
    b, h, w, c3 = qkv.shape
    d = c3 // 3 // heads
    x = qkv.view(b, h, w, 3, heads, d)
    out = torch.empty(b, h, w, heads, d, dtype=qkv.dtype, device=qkv.device)
    for ib, ih, wy, wx in tfl.grid([b, heads, h // win, w // win]):
        inner = tfl.arange(win * win)
        dy, dx = inner // win, inner % win
        row, col = wy * win + dy, wx * win + dx
        src_row, src_col = (row + shift) % h, (col + shift) % w
        q = x[ib, src_row, src_col, 0, ih, :]
        k = x[ib, src_row, src_col, 1, ih, :]
        v = x[ib, src_row, src_col, 2, ih, :]
        relative = (dy[:, None] - dy[None, :] + win - 1) * (2 * win - 1) + dx[:, None] - dx[None, :] + win - 1
        scores = q @ k.T / math.sqrt(d) + table[relative, ih]
        zone_y = torch.where(row < h - win, 0, torch.where(row < h - shift, 1, 2))
        zone_x = torch.where(col < w - win, 0, torch.where(col < w - shift, 1, 2))
        zone = zone_y * 3 + zone_x
        scores = scores.masked_fill(zone[:, None] != zone[None, :], -100.0)
        p = torch.softmax(scores, dim=-1)
        out[ib, src_row, src_col, ih, :] = p.to(v.dtype) @ v
    return out.view(b, h, w, heads * d)


def make_yolo(b, a, c, g, dtype=torch.float32):
    return randn(b, a * (5 + c), g, g, dtype=dtype), torch.rand(a, 2) * 50, 32


def yolo_ref(x, anchors, stride):
    b, _, gy, gx = x.shape
    a = anchors.size(0)
    p = x.float().view(b, a, -1, gy, gx).permute(0, 1, 3, 4, 2)
    y, xx = torch.meshgrid(torch.arange(gy), torch.arange(gx), indexing="ij")
    s = p.sigmoid()
    xy = (s[..., :2] * 2 - 0.5 + torch.stack([xx, y], -1)) * stride
    wh = (s[..., 2:4] * 2) ** 2 * anchors[:, None, None]
    score, cls = (s[..., 5:] * s[..., 4:5]).max(-1)
    boxes = torch.cat([xy - wh / 2, xy + wh / 2], -1)
    return boxes.reshape(b, -1, 4), score.reshape(b, -1), cls.reshape(b, -1)


@stranger(make_yolo, yolo_ref, {"b": 2, "a": 3, "c": 4, "g": 5}, {"b": 32, "a": 3, "c": 80, "g": 80})
@helion.kernel(static_shapes=True)
def yolo_decode(x: torch.Tensor, anchors: torch.Tensor, stride: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    b, _, gh, gw = x.size()
    na = anchors.size(0)
    pred = x.view(b, na, -1, gh, gw)
    boxes = torch.empty([b, na, gh, gw, 4], dtype=torch.float32, device=x.device)
    score = torch.empty([b, na, gh, gw], dtype=torch.float32, device=x.device)
    label = torch.empty([b, na, gh, gw], dtype=torch.int64, device=x.device)
    for ib, ia in hl.grid([b, na]):
        for ty, tx in hl.tile([gh, gw]):
            p = torch.sigmoid(pred[ib, ia, :, ty, tx].float())
            cx = (p[0] * 2 - 0.5 + tx.index[None, :]) * stride
            cy = (p[1] * 2 - 0.5 + ty.index[:, None]) * stride
            w = (p[2] * 2) ** 2 * anchors[ia, 0]
            h = (p[3] * 2) ** 2 * anchors[ia, 1]
            boxes[ib, ia, ty, tx, :] = torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], dim=-1)
            best, which = torch.max(p[5:] * p[4], dim=0)
            score[ib, ia, ty, tx] = best
            label[ib, ia, ty, tx] = which
    return boxes.view(b, -1, 4), score.view(b, -1), label.view(b, -1)


def make_nerf(r, s, dtype=torch.float32):
    z = torch.rand(r, s).sort(-1).values * 4 + 2
    return torch.rand(r, s, 3).to(dtype), (randn(r, s) * 3).to(dtype), z, randn(r, 3)


def nerf_ref(rgb, density, z, direction, white=True):
    far = torch.cat([z.diff(dim=-1), torch.full_like(z[:, :1], 1e10)], -1) * direction.norm(dim=-1, keepdim=True)
    alpha = 1 - torch.exp(-torch.relu(density.float()) * far)
    trans = torch.cat([torch.ones_like(alpha[:, :1]), (1 - alpha + 1e-10).cumprod(-1)[:, :-1]], -1)
    w = alpha * trans
    image, acc, depth = (w[..., None] * rgb.float()).sum(1), w.sum(1), (w * z).sum(1)
    return image + (1 - acc[:, None]) if white else image, depth, 1 / torch.clamp(depth / acc, min=1e-10), w


@stranger(make_nerf, nerf_ref, {"r": 13, "s": 21}, {"r": 65536, "s": 192})
@tileflow.kernel
def volume_render(rgb, density, z, direction, white: bool = True):
    """arXiv:2003.08934."""
    r, s, _ = rgb.shape
    image = torch.empty(r, 3, device=rgb.device)
    depth, disparity = torch.empty(r, device=rgb.device), torch.empty(r, device=rgb.device)
    weights = torch.empty(r, s, device=rgb.device)
    for tr in tfl.tile(r):
        t = z[tr, :]
        gap = torch.cat([t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 1e10)], dim=-1)
        gap = gap * torch.norm(direction[tr, :], dim=-1, keepdim=True)
        alpha = 1 - torch.exp(-F.relu(density[tr, :]) * gap)
        trans = torch.cumprod(1 - alpha + 1e-10, dim=-1)
        trans = torch.cat([torch.ones_like(trans[:, :1]), trans[:, :-1]], dim=-1)
        w = alpha * trans
        weights[tr, :] = w
        acc, d = w.sum(-1), (w * t).sum(-1)
        colour = (w[..., None] * rgb[tr, :, :]).sum(-2)
        image[tr, :] = colour + (1 - acc[..., None]) if white else colour
        depth[tr] = d
        disparity[tr] = 1 / torch.clamp(d / acc, min=1e-10)
    return image, depth, disparity, weights


def make_march(r, g):
    o = torch.rand(r, 3)
    return o, F.normalize(randn(r, 3), dim=-1), torch.rand(g, g, g) < 0.3, 24, 8


def march_ref(origin, direction, grid, steps, most):
    g = grid.size(0)
    t = (torch.arange(steps) + 0.5) / steps
    p = origin[:, None] + direction[:, None] * t[:, None]
    cell = (p * g).floor().long()
    inside = ((cell >= 0) & (cell < g)).all(-1)
    c = cell.clamp(0, g - 1)
    hit = inside & grid[c[..., 0], c[..., 1], c[..., 2]]
    place = hit.cumsum(1) - 1
    out = torch.full((origin.size(0), most + 1), -1.0, dtype=origin.dtype)
    out.scatter_(1, torch.where(hit & (place < most), place, most), t.to(out.dtype).expand(origin.size(0), -1))
    return out[:, :most].clone(), hit.sum(1).clamp(max=most).int()


@stranger(make_march, march_ref, {"r": 13, "g": 4}, {"r": 1 << 18, "g": 128})
@tileflow.kernel
def occupancy_march(origin, direction, grid, steps: int, most: int):
    """Samples of rays in occupied cells, the first few of each (nerfacc)."""
    r, g = origin.size(0), grid.size(0)
    out = torch.full([r, most], -1.0, device=origin.device)
    count = torch.empty(r, dtype=torch.int32, device=origin.device)
    for tr in tfl.tile(r):
        found = torch.zeros(tr, dtype=torch.int32)
        for step in range(steps):
            t = (step + 0.5) / steps
            cell = [torch.floor((origin[tr, a] + direction[tr, a] * t) * g).int() for a in range(3)]
            inside = True
            for c in cell:
                inside = inside & (c >= 0) & (c < g)
            hit = inside & grid[cell[0], cell[1], cell[2]] & (found < most)
            tfl.store(out, [tr.index, found], t, extra_mask=hit)
            found = found + hit.int()
        count[tr] = found
    return out, count
