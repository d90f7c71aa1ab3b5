"""Images: resampling, splats, gradients of convolutions, simulations on grids."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


@stranger(
    lambda b, h, w, oh, ow: (randn(b, h, w), oh, ow),
    lambda x, oh, ow: F.interpolate(x[:, None], (oh, ow), mode="bicubic", align_corners=False)[:, 0],
    {"b": 2, "h": 7, "w": 9, "oh": 11, "ow": 5},
    {"b": 96, "h": 512, "w": 512, "oh": 768, "ow": 768},
)
@tileflow.kernel
def resize_bicubic(x, oh: tfl.constexpr, ow: tfl.constexpr):
    b, h, w = x.shape
    out = torch.empty(b, oh, ow, device=x.device)

    def weights(t):
        a = -0.75

        def near(s):
            return ((a + 2) * s - (a + 3)) * s * s + 1

        def far(s):
            return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a

        return [far(t + 1), near(t), near(1 - t), far(2 - t)]

    for tb, ty, tx in tfl.tile([b, oh, ow]):
        fy = (ty.index + 0.5) * (h / oh) - 0.5
        fx = (tx.index + 0.5) * (w / ow) - 0.5
        y0, x0 = torch.floor(fy), torch.floor(fx)
        wy, wx = weights(fy - y0), weights(fx - x0)
        acc = tfl.zeros([tb, ty, tx])
        for i in range(4):
            yy = (y0.int() + (i - 1)).clamp(0, h - 1)
            row = tfl.zeros([tb, ty, tx])
            for j in range(4):
                xx = (x0.int() + (j - 1)).clamp(0, w - 1)
                row += x[tb, yy, xx] * wx[j][None, None, :]
            acc += row * wy[i][None, :, None]
        out[tb, ty, tx] = acc
    return out


@stranger(
    lambda b, c, h, w, oh, ow: (randn(b, c, h, w), torch.rand(b, oh, ow, 2) * 2.4 - 1.2),
    lambda x, g: F.grid_sample(x, g, align_corners=False),
    {"b": 2, "c": 3, "h": 7, "w": 9, "oh": 5, "ow": 6},
    {"b": 16, "c": 64, "h": 256, "w": 256, "oh": 256, "ow": 256},
)
@tileflow.kernel
def grid_sample(x, grid):
    b, c, h, w = x.shape
    _, oh, ow, _ = grid.shape
    out = torch.empty(b, c, oh, ow, device=x.device)
    for tb, ty, tx in tfl.tile([b, oh, ow], block_size=[1, None, None]):
        ib = tb.begin
        gx = ((grid[ib, ty, tx, 0] + 1) * w - 1) / 2
        gy = ((grid[ib, ty, tx, 1] + 1) * h - 1) / 2
        x0, y0 = torch.floor(gx), torch.floor(gy)
        fx, fy = gx - x0, gy - y0
        xi, yi = x0.to(torch.int32), y0.to(torch.int32)
        for tc in tfl.tile(c):
            # outside the image loads give zero
            a = x[ib, tc.index[:, None, None], yi[None], xi[None]]
            bb = x[ib, tc.index[:, None, None], yi[None], xi[None] + 1]
            cc = x[ib, tc.index[:, None, None], yi[None] + 1, xi[None]]
            d = x[ib, tc.index[:, None, None], yi[None] + 1, xi[None] + 1]
            out[ib, tc, ty, tx] = (a * (1 - fx) + bb * fx) * (1 - fy) + (cc * (1 - fx) + d * fx) * fy
    return out


def deform_ref(x: Any, off: Any, w: Any) -> Any:
    _b, _c, h, wd = x.shape
    w.size(0)
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(wd), indexing="ij")
    acc = 0
    for k in range(9):
        py = ys + k // 3 - 1 + off[:, 2 * k]
        px = xs + k % 3 - 1 + off[:, 2 * k + 1]
        g = torch.stack([(2 * px + 1) / wd - 1, (2 * py + 1) / h - 1], -1)
        s = F.grid_sample(x, g, align_corners=False)
        acc = acc + torch.einsum("bchw,oc->bohw", s, w[:, :, k // 3, k % 3])
    return acc


@stranger(
    lambda b, c, h, w, o: (randn(b, c, h, w), randn(b, 18, h, w), randn(o, c, 3, 3) * 0.2),
    deform_ref,
    {"b": 1, "c": 5, "h": 6, "w": 7, "o": 4},
    {"b": 8, "c": 256, "h": 64, "w": 64, "o": 256},
)
@tileflow.kernel
def deformable_conv(x, offset, weight):
    b, c, h, w = x.shape
    o = weight.size(0)
    out = torch.empty(b, o, h, w, device=x.device)
    flat = out.view(b, o, h * w)
    off = offset.view(b, 18, h * w)
    for tb, tp, to in tfl.tile([b, h * w, o], block_size=[1, None, None]):
        ib = tb.begin
        acc = tfl.zeros([to, tp])
        for k in tfl.static_range(9):
            py = (tp.index // w) + (k // 3 - 1) + off[ib, 2 * k, tp]
            px = (tp.index % w) + (k % 3 - 1) + off[ib, 2 * k + 1, tp]
            y0, x0 = torch.floor(py), torch.floor(px)
            fy, fx = (py - y0)[None, :], (px - x0)[None, :]
            yi, xi = y0.int()[None, :], x0.int()[None, :]
            for tc in tfl.tile(c):
                ci = tc.index[:, None]
                s = (x[ib, ci, yi, xi] * (1 - fx) + x[ib, ci, yi, xi + 1] * fx) * (1 - fy)
                s = s + (x[ib, ci, yi + 1, xi] * (1 - fx) + x[ib, ci, yi + 1, xi + 1] * fx) * fy
                acc = tfl.dot(weight[to, tc, k // 3, k % 3], s, acc=acc)
        flat[ib, to, tp] = acc
    return out


def dwb_ref(x: Any, g: Any) -> Any:
    w = torch.zeros(x.size(1), 1, 3, 3, device=x.device, requires_grad=True)
    with torch.enable_grad():
        y = F.conv2d(x.detach(), w, padding=1, groups=x.size(1))
        return torch.autograd.grad(y, w, g)[0][:, 0]


@stranger(
    lambda b, c, h, w: (randn(b, c, h, w), randn(b, c, h, w)),
    dwb_ref,
    {"b": 2, "c": 3, "h": 7, "w": 9},
    {"b": 32, "c": 256, "h": 56, "w": 56},
)
@tileflow.kernel
def depthwise_weight_grad(x, grad):
    b, c, h, w = x.shape
    out = torch.empty(c, 3, 3, device=x.device)
    for ic in tfl.grid(c):
        acc = [tfl.zeros([], dtype=torch.float32) for _ in range(9)]
        for tb, ty, tx in tfl.tile([b, h, w]):
            g = grad[tb, ic, ty, tx]
            for k in range(9):
                acc[k] = acc[k] + (g * x[tb, ic, ty + (k // 3 - 1), tx + (k % 3 - 1)]).sum()
        for k in range(9):
            out[ic, k // 3, k % 3] = acc[k]
    return out


def make_splat(h: Any, w: Any, n: Any) -> Any:
    inv = torch.rand(n, 3) * 0.3 + torch.tensor([0.3, 0.0, 0.3])
    inv[:, 1] = inv[:, 1] * 0.2
    return torch.rand(n, 2) * torch.tensor([float(w), float(h)]), inv, torch.rand(n), torch.rand(n, 3), h, w


def splat_ref(mean: Any, conic: Any, op: Any, color: Any, h: Any, w: Any) -> Any:
    y, x = torch.meshgrid(
        torch.arange(h, device=mean.device).float(), torch.arange(w, device=mean.device).float(), indexing="ij"
    )
    T = torch.ones(h, w, device=mean.device)
    out = torch.zeros(h, w, 3, device=mean.device)
    for i in range(mean.size(0)):
        dx, dy = x - mean[i, 0], y - mean[i, 1]
        a = (op[i] * torch.exp(-0.5 * (conic[i, 0] * dx * dx + conic[i, 2] * dy * dy) - conic[i, 1] * dx * dy)).clamp(
            max=0.99
        )
        a = torch.where((a >= 1 / 255) & (T >= 1e-4), a, 0)
        out += (a * T)[..., None] * color[i]
        T = T * (1 - a)
    return out, T


@stranger(make_splat, splat_ref, {"h": 11, "w": 13, "n": 17}, {"h": 1024, "w": 1024, "n": 512})
@tileflow.kernel
def gaussian_splat(mean, conic, opacity, color, h, w):
    n = mean.size(0)
    image = torch.empty(h, w, 3, device=mean.device)
    left = torch.empty(h, w, device=mean.device)
    for ty, tx in tfl.tile([h, w]):
        y, x = ty.index.float()[:, None], tx.index.float()[None, :]
        T = torch.ones([ty, tx])
        r, g, b = tfl.zeros([ty, tx]), tfl.zeros([ty, tx]), tfl.zeros([ty, tx])
        for i in range(n):
            dx, dy = x - mean[i, 0], y - mean[i, 1]
            power = -0.5 * (conic[i, 0] * dx * dx + conic[i, 2] * dy * dy) - conic[i, 1] * dx * dy
            alpha = torch.clamp(opacity[i] * torch.exp(power), max=0.99)
            alpha = torch.where((alpha >= 1 / 255) & (T >= 1e-4), alpha, 0.0)
            weight = alpha * T
            r, g, b = r + weight * color[i, 0], g + weight * color[i, 1], b + weight * color[i, 2]
            T = T * (1 - alpha)
        image[ty, tx, 0], image[ty, tx, 1], image[ty, tx, 2] = r, g, b
        left[ty, tx] = T
    return image, left


EX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
EY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WT = (4 / 9,) + (1 / 9,) * 4 + (1 / 36,) * 4


def lbm_ref(f: Any, tau: Any) -> Any:
    g = torch.stack([f[i].roll((EY[i], EX[i]), (0, 1)) for i in range(9)])
    rho = g.sum(0)
    ux = sum(EX[i] * g[i] for i in range(9)) / rho
    uy = sum(EY[i] * g[i] for i in range(9)) / rho
    out = []
    for i in range(9):
        cu = 3 * (EX[i] * ux + EY[i] * uy)
        out.append(g[i] - (g[i] - rho * WT[i] * (1 + cu + 0.5 * cu * cu - 1.5 * (ux * ux + uy * uy))) / tau)
    return torch.stack(out)


@stranger(lambda h, w: (torch.rand(9, h, w) + 0.5, 0.6), lbm_ref, {"h": 7, "w": 11}, {"h": 2048, "w": 2048})
@tileflow.kernel
def lattice_boltzmann(f, tau):
    _, h, w = f.shape
    out = torch.empty_like(f)
    for ty, tx in tfl.tile([h, w]):
        g = [f[i, (ty.index - EY[i]) % h, (tx.index - EX[i]) % w] for i in range(9)]
        rho = sum(g)
        ux = sum(EX[i] * g[i] for i in range(9)) / rho
        uy = sum(EY[i] * g[i] for i in range(9)) / rho
        usq = 1.5 * (ux * ux + uy * uy)
        for i in range(9):
            cu = 3 * (EX[i] * ux + EY[i] * uy)
            out[i, ty, tx] = g[i] - (g[i] - rho * WT[i] * (1 + cu + 0.5 * cu * cu - usq)) / tau
    return out


@stranger(
    lambda h, w: (torch.randint(0, 2, (h, w), dtype=torch.uint8),),
    lambda x: (lambda s: ((s == 3) | ((s == 2) & (x == 1))).to(torch.uint8))(
        sum(x.roll((a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0))
    ),
    {"h": 11, "w": 17},
    {"h": 8192, "w": 8192},
)
@tileflow.kernel
def life(x):
    h, w = x.shape
    out = torch.empty_like(x)
    for ty, tx in tfl.tile([h, w]):
        s = tfl.zeros([ty, tx], dtype=torch.uint8)
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if dy != 0 or dx != 0:
                    s += x[(ty.index + dy + h) % h, (tx.index + dx + w) % w]
        out[ty, tx] = (s == 3) | ((s == 2) & (x[ty, tx] == 1))
    return out
