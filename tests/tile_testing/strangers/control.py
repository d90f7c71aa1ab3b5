"""Control and robots: sampled plans, Riccati's recursion, attitudes, elites, inverse kinematics, maps of costs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def cart_pole(x: Any, v: Any, angle: Any, turn: Any, force: Any, dt: float) -> Any:
    s, c = torch.sin(angle), torch.cos(angle)
    push = (force + 0.05 * turn * turn * s) / 1.1
    bend = (9.8 * s - c * push) / (0.5 * (4 / 3 - 0.1 * c * c / 1.1))
    slide = push - 0.05 * bend * c / 1.1
    return x + dt * v, v + dt * slide, angle + dt * turn, turn + dt * bend


def plan_ref(start: Any, plan: Any, noise: Any, temperature: float) -> Any:
    _b, _, steps = noise.shape
    x, v, angle, turn = (start[:, i, None].expand(noise.shape[:2]) for i in range(4))
    cost = torch.zeros(noise.shape[:2])
    for t in range(steps):
        force = (plan[:, None, t] + noise[:, :, t]).clamp(-10, 10)
        x, v, angle, turn = cart_pole(x, v, angle, turn, force, 0.02)
        cost = cost + x * x + 5 * (1 - torch.cos(angle)) + 0.001 * force * force
    weight = torch.softmax(-cost / temperature, 1)
    return plan + (weight[:, :, None] * noise).sum(1), cost.amin(1)


@stranger(
    lambda b, k, t: (randn(b, 4) * 0.1, randn(b, t), randn(b, k, t) * 2, 1.0),
    plan_ref,
    {"b": 3, "k": 21, "t": 7},
    {"b": 256, "k": 1024, "t": 64},
)
@tileflow.kernel
def path_integral_plan(start, plan, noise, temperature):
    """Williams et al., 2017: disturbed plans for a cart with a pole, averaged by how little each one costs."""
    b, k, steps = noise.shape
    new_plan = torch.empty_like(plan)
    best = torch.empty(b, device=plan.device)
    for i in tfl.grid(b):
        cost = tfl.zeros([k])
        x, v, angle, turn = (start[i, j] + tfl.zeros([k]) for j in range(4))
        for t in range(steps):
            force = torch.clamp(plan[i, t] + noise[i, :, t], -10, 10)
            x, v, angle, turn = cart_pole(x, v, angle, turn, force, 0.02)
            cost = cost + x * x + 5 * (1 - torch.cos(angle)) + 0.001 * force * force
        weight = torch.softmax(-cost / temperature, 0)
        best[i] = cost.amin()
        for tt in tfl.tile(steps):
            new_plan[i, tt] = plan[i, tt] + (weight[:, None] * noise[i, :, tt]).sum(0)
    return new_plan, best


def riccati_ref(a: Any, b: Any, q: Any, r: Any, steps: int) -> Any:
    a, b, q, r = a.double(), b.double(), q.double(), r.double()
    p = torch.diag_embed(q)
    for _ in range(steps):
        pb = p @ b[..., None]
        gain = (pb.mT @ a) / (r[:, None, None] + b[:, None, :] @ pb)
        p = torch.diag_embed(q) + a.mT @ p @ (a - b[..., None] @ gain)
    return p.float(), gain[:, 0].float()


@stranger(
    lambda m, n, steps: (randn(m, n, n) * 0.6 * n**-0.5, randn(m, n), torch.rand(m, n), torch.rand(m) + 0.5, steps),
    riccati_ref,
    {"m": 5, "n": 8, "steps": 4},
    {"m": 16384, "n": 16, "steps": 50},
)
@tileflow.kernel
def riccati_gains(a, b, q, r, steps):
    """Many small systems with one input each: costs to go and the gain of the first moment."""
    m, n, _ = a.shape
    cost = torch.empty_like(a)
    gains = torch.empty(m, n, device=a.device)
    for i in tfl.grid(m):
        move, push = a[i, :, :], b[i, :]
        own = torch.diag_embed(q[i, :])
        p = own
        gain = tfl.zeros([n])
        for _ in range(steps):
            pb = (p * push[None, :]).sum(1)
            gain = (pb[:, None] * move).sum(0) / (r[i] + (push * pb).sum())
            p = own + move.T @ (p @ (move - push[:, None] * gain[None, :]))
        cost[i, :, :] = p
        gains[i, :] = gain
    return cost, gains


def attitude_ref(gyro: Any, accel: Any, gain: float, dt: float) -> Any:
    q = torch.zeros(gyro.size(0), 4)
    q[:, 0] = 1
    out = []
    for t in range(gyro.size(1)):
        w, x, y, z = q.unbind(1)
        ax, ay, az = F.normalize(accel[:, t], dim=1).unbind(1)
        vx, vy, vz = 2 * (x * z - w * y), 2 * (w * x + y * z), w * w - x * x - y * y + z * z
        gx, gy, gz = gyro[:, t].unbind(1)
        gx, gy, gz = gx + gain * (ay * vz - az * vy), gy + gain * (az * vx - ax * vz), gz + gain * (ax * vy - ay * vx)
        rate = torch.stack(
            [-x * gx - y * gy - z * gz, w * gx + y * gz - z * gy, w * gy - x * gz + z * gx, w * gz + x * gy - y * gx], 1
        )
        q = F.normalize(q + 0.5 * dt * rate, dim=1)
        out.append(q)
    return torch.stack(out, 1)


@stranger(
    lambda b, t: (randn(b, t, 3), randn(b, t, 3) * 0.2 + torch.tensor([0.0, 0.0, 1.0]), 0.5, 0.01),
    attitude_ref,
    {"b": 21, "t": 9},
    {"b": 1 << 15, "t": 256},
)
@tileflow.kernel
def attitude_filter(gyro, accel, gain, dt):
    """Mahony, Hamel and Pflimlin, 2008: turns added up, and pulled to where the accelerometer finds down."""
    b, steps, _ = gyro.shape
    out = torch.empty(b, steps, 4, device=gyro.device)
    for i in tfl.tile(b):
        w = tfl.full([i], 1.0)
        x, y, z = tfl.zeros([i]), tfl.zeros([i]), tfl.zeros([i])
        for t in range(steps):
            ax, ay, az = accel[i, t, 0], accel[i, t, 1], accel[i, t, 2]
            size = torch.rsqrt(ax * ax + ay * ay + az * az)
            ax, ay, az = ax * size, ay * size, az * size
            vx, vy, vz = 2 * (x * z - w * y), 2 * (w * x + y * z), w * w - x * x - y * y + z * z
            gx = gyro[i, t, 0] + gain * (ay * vz - az * vy)
            gy = gyro[i, t, 1] + gain * (az * vx - ax * vz)
            gz = gyro[i, t, 2] + gain * (ax * vy - ay * vx)
            nw = w - 0.5 * dt * (x * gx + y * gy + z * gz)
            nx = x + 0.5 * dt * (w * gx + y * gz - z * gy)
            ny = y + 0.5 * dt * (w * gy - x * gz + z * gx)
            nz = z + 0.5 * dt * (w * gz + x * gy - y * gx)
            size = torch.rsqrt(nw * nw + nx * nx + ny * ny + nz * nz)
            w, x, y, z = nw * size, nx * size, ny * size, nz * size
            out[i, t, :] = torch.stack([w, x, y, z], 1)
    return out


def elites_ref(samples: Any, cost: Any, elites: int, mean: Any, std: Any, rate: float) -> Any:
    index = cost.topk(elites, 1, largest=False).indices
    best = samples.gather(1, index[..., None].expand(-1, -1, samples.size(2)))
    return torch.lerp(mean, best.mean(1), rate), torch.lerp(std, best.std(1), rate)


@stranger(
    lambda b, n, d, k: (randn(b, n, d), randn(b, n), k, randn(b, d), torch.rand(b, d), 0.7),
    elites_ref,
    {"b": 3, "n": 32, "d": 7, "k": 8},
    {"b": 1024, "n": 512, "d": 96, "k": 32},
)
@tileflow.kernel
def cross_entropy_plan(samples, cost, elites: tfl.constexpr, mean, std, rate):
    """Rubinstein's cross-entropy method: a Gaussian moves to the cheapest few of its samples."""
    b, _, _d = samples.shape
    new_mean, new_std = torch.empty_like(mean), torch.empty_like(std)
    for i in tfl.grid(b):
        _, index = torch.topk(cost[i, :], elites, dim=0, largest=False)
        best = samples[i, index, :]
        new_mean[i, :] = torch.lerp(mean[i, :], best.mean(0), rate)
        new_std[i, :] = torch.lerp(std[i, :], best.std(0), rate)
    return new_mean, new_std


def reach_ref(angles: Any, target: Any, damping: float, turns: int) -> Any:
    q = angles.double()
    t = target.double()
    for _ in range(turns):
        along = q.cumsum(1)
        dx, dy = torch.cos(along), torch.sin(along)
        jx, jy = -dy.flip(1).cumsum(1).flip(1), dx.flip(1).cumsum(1).flip(1)
        ex, ey = t[:, :1] - dx.sum(1, keepdim=True), t[:, 1:] - dy.sum(1, keepdim=True)
        a = (jx * jx).sum(1, keepdim=True) + damping
        b = (jx * jy).sum(1, keepdim=True)
        c = (jy * jy).sum(1, keepdim=True) + damping
        det = a * c - b * b
        q = q + jx * (c * ex - b * ey) / det + jy * (a * ey - b * ex) / det
    return q.float()


@stranger(
    lambda m, n, turns: (randn(m, n) * 0.3, randn(m, 2), 50.0, turns),
    reach_ref,
    {"m": 19, "n": 5, "turns": 3},
    {"m": 1 << 20, "n": 7, "turns": 10},
)
@tileflow.kernel
def damped_reach(angles, target, damping, turns):
    """Nakamura and Hanafusa, 1986: planar arms find their targets, by damped least squares."""
    out = torch.empty_like(angles)
    for t in tfl.tile(angles.size(0)):
        q = angles[t, :]
        for _ in range(turns):
            along = torch.cumsum(q, 1)
            dx, dy = torch.cos(along), torch.sin(along)
            jx, jy = -tfl.cumsum(dy, 1, reverse=True), tfl.cumsum(dx, 1, reverse=True)
            ex, ey = target[t, 0] - dx.sum(1), target[t, 1] - dy.sum(1)
            a, b, c = (jx * jx).sum(1) + damping, (jx * jy).sum(1), (jy * jy).sum(1) + damping
            det = a * c - b * b
            q = q + jx * ((c * ex - b * ey) / det)[:, None] + jy * ((a * ey - b * ex) / det)[:, None]
        out[t, :] = q
    return out


def inflated_ref(grid: Any, cost: Any, r: int) -> Any:
    h, w = grid.shape
    p = F.pad((grid == 254), (r, r, r, r))
    out = grid.int()
    for dy in range(-r, r + 1):
        for dx in range(-r, r + 1):
            near = p[r + dy : r + dy + h, r + dx : r + dx + w]
            out = torch.maximum(out, torch.where(near, cost[dy * dy + dx * dx].int(), 0))
    return out.to(torch.uint8)


def make_costs(h: int, w: int, r: int) -> Any:
    grid = torch.where(torch.rand(h, w) < 0.03, 254, torch.randint(0, 60, (h, w)))
    cost = 253 * torch.exp(-0.8 * (torch.arange(2 * r * r + 1).float().sqrt() - 1).clamp(min=0))
    return grid.to(torch.uint8), torch.where(torch.arange(2 * r * r + 1) <= r * r, cost, 0).to(torch.uint8), r


@stranger(make_costs, inflated_ref, {"h": 11, "w": 15, "r": 2}, {"h": 4096, "w": 4096, "r": 5})
@tileflow.kernel
def inflate_obstacles(grid, cost, r: tfl.constexpr):
    """A robot's map: cells near walls cost as a table of squared distances says, the most of all walls in reach."""
    h, w = grid.shape
    out = torch.empty_like(grid)
    for ty, tx in tfl.tile([h, w]):
        most = grid[ty, tx]
        for dy in range(-r, r + 1):
            for dx in range(-r, r + 1):
                if dy * dy + dx * dx <= r * r:
                    wall = grid[ty + dy, tx + dx] == 254
                    most = torch.maximum(most, torch.where(wall, cost[dy * dy + dx * dx], 0))
        out[ty, tx] = most
    return out
