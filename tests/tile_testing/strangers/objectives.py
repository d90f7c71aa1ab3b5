"""Objectives over all pairs or all classes, with their gradients in the same kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_arc(b, d, c, dtype=torch.float32):
    return randn(b, d, dtype=dtype), randn(c, d, dtype=dtype), torch.randint(0, c, (b,))


def arc_ref(x, w, label, scale=30.0, margin=0.5):
    cos = F.normalize(x.float()) @ F.normalize(w.float()).T
    own = torch.arange(w.size(0)) == label[:, None]
    turned = torch.cos(torch.acos(cos.clamp(-1 + 1e-7, 1 - 1e-7)) + margin)
    return F.cross_entropy(scale * torch.where(own, turned, cos), label)


@stranger(make_arc, arc_ref, {"b": 13, "d": 16, "c": 37}, {"b": 1024, "d": 512, "c": 100000, "dtype": torch.bfloat16})
@tileflow.kernel
def arc_face(x, w, label, scale: float = 30.0, margin: float = 0.5):
    """arXiv:1801.07698: an angle is added to the own class's, then cross-entropy."""
    b, c = x.size(0), w.size(0)
    loss = torch.zeros((), device=x.device)
    cos_m, sin_m = math.cos(margin), math.sin(margin)
    for rows in tfl.tile(b):
        xn = F.normalize(x[rows, :], dim=1)
        target = label[rows]
        best, total, own = tfl.full([rows], float("-inf")), tfl.zeros([rows]), tfl.zeros([rows])
        for classes in tfl.tile(c):
            wn = F.normalize(w[classes, :], dim=1)
            cos = (xn @ wn.T).float().clamp(-1 + 1e-7, 1 - 1e-7)
            turned = cos * cos_m - torch.sqrt(1 - cos * cos) * sin_m
            is_own = classes.index[None, :] == target[:, None]
            logits = scale * torch.where(is_own, turned, cos)
            own += torch.where(is_own, logits, 0).sum(1)
            new = torch.maximum(best, logits.max(1).values)
            total = total * (best - new).exp() + (logits - new[:, None]).exp().sum(1)
            best = new
        tfl.atomic_add(loss, [], (best + total.log() - own).sum() / b)
    return loss


def make_kd(b, v, dtype=torch.float32):
    return (
        randn(b, v, dtype=dtype),
        randn(b, v, dtype=dtype),
        torch.randint(-1, v, (b,)).masked_fill(torch.rand(b) < 0.2, -100),
    )


def kd_ref(student, teacher, label, *, temperature=2.0, alpha=0.5, ignore_index=-100):
    with torch.enable_grad():
        s = student.float().detach().requires_grad_()
        keep = label >= 0
        kl = F.kl_div(
            torch.log_softmax(s / temperature, 1), torch.softmax(teacher.float() / temperature, 1), reduction="none"
        ).sum(1)
        ce = F.cross_entropy(s, label.clamp(min=0), reduction="none")
        loss = torch.where(keep, alpha * temperature**2 * kl + (1 - alpha) * ce, 0.0)
        loss.sum().backward()
    return loss.detach(), s.grad.to(student.dtype)


@stranger(make_kd, kd_ref, {"b": 13, "v": 37}, {"b": 4096, "v": 32000, "dtype": torch.bfloat16})
@tileflow.kernel
def distillation(student, teacher, label, *, temperature: float = 2.0, alpha: float = 0.5, ignore_index: int = -100):
    b, v = student.shape
    loss = torch.empty(b, device=student.device)
    grad = torch.empty_like(student)
    for tb in tfl.tile(b):
        s, t = student[tb, :].float(), teacher[tb, :].float()
        keep = (label[tb] != ignore_index) & (label[tb] >= 0)
        log_p, log_q = F.log_softmax(s / temperature, dim=-1), F.log_softmax(t / temperature, dim=-1)
        q = log_q.exp()
        kl = torch.sum(q * (log_q - log_p), dim=-1)
        log_s = F.log_softmax(s, dim=-1)
        hit = tfl.arange(v)[None, :] == label[tb][:, None]
        ce = -torch.where(hit, log_s, 0.0).sum(-1)
        loss[tb] = torch.where(keep, alpha * temperature**2 * kl + (1 - alpha) * ce, 0.0)
        g = alpha * temperature * (log_p.exp() - q) + (1 - alpha) * (log_s.exp() - hit.float())
        grad[tb, :] = torch.where(keep[:, None], g, 0.0)
    return loss, grad


def make_barlow(b, d, dtype=torch.float32):
    return randn(b, d, dtype=dtype), randn(b, d, dtype=dtype), 5e-3


def barlow_ref(za, zb, lam):
    na = (za - za.mean(0)) / za.std(0)
    nb = (zb - zb.mean(0)) / zb.std(0)
    c = na.T @ nb / za.size(0)
    on = (c.diagonal() - 1).pow(2).sum()
    return on + lam * (c.pow(2).sum() - c.diagonal().pow(2).sum()), c


@stranger(make_barlow, barlow_ref, {"b": 37, "d": 21}, {"b": 2048, "d": 8192})
@helion.kernel(static_shapes=True, dot_precision="ieee")
def barlow_twins(za: torch.Tensor, zb: torch.Tensor, lam: float) -> tuple[torch.Tensor, torch.Tensor]:
    b, d = za.shape
    stats = torch.empty([4, d], dtype=torch.float32, device=za.device)
    c = torch.empty([d, d], dtype=torch.float32, device=za.device)
    loss = torch.zeros([], dtype=torch.float32, device=za.device)
    for tile_d in hl.tile(d):
        for i, z in enumerate((za, zb)):
            column = z[:, tile_d].to(torch.float32)
            stats[2 * i, tile_d] = column.mean(0)
            stats[2 * i + 1, tile_d] = 1 / column.std(0)
    for tile_i, tile_j in hl.tile([d, d]):
        acc = hl.zeros([tile_i, tile_j], dtype=torch.float32)
        for tile_b in hl.tile(b):
            left = (za[tile_b, tile_i] - stats[0, tile_i]) * stats[1, tile_i]
            right = (zb[tile_b, tile_j] - stats[2, tile_j]) * stats[3, tile_j]
            acc = torch.addmm(acc, left.T, right)
        acc = acc / b
        c[tile_i, tile_j] = acc
        diagonal = tile_i.index[:, None] == tile_j.index[None, :]
        each = torch.where(diagonal, (acc - 1) ** 2, lam * acc * acc)
        hl.atomic_add(loss, [], each.sum())
    return loss, c


def make_sig(n, d, dtype=torch.float32):
    return (
        F.normalize(randn(n, d)).to(dtype),
        F.normalize(randn(n, d)).to(dtype),
        torch.tensor(2.3),
        torch.tensor(-10.0),
    )


def sig_ref(image, text, t, bias):
    with torch.enable_grad():
        t, bias, image = (
            t.detach().requires_grad_(),
            bias.detach().requires_grad_(),
            image.detach().float().requires_grad_(),
        )
        z = image @ text.float().T * t.exp() + bias
        loss = -F.logsigmoid(z * (2 * torch.eye(z.size(0)) - 1)).sum() / z.size(0)
        loss.backward()
    return loss.detach(), image.grad, t.grad, bias.grad


@stranger(make_sig, sig_ref, {"n": 37, "d": 16}, {"n": 8192, "d": 768, "dtype": torch.bfloat16})
@tileflow.kernel
def siglip(image, text, t, bias):
    """Sigmoid loss of pairs and its gradients (arXiv:2303.15343)."""
    n, d = image.shape
    loss, dt, db = (torch.zeros((), device=image.device) for _ in range(3))
    dimage = torch.empty(n, d, device=image.device)
    for rows in tfl.tile(n):
        scale = t[()].exp()
        mine = image[rows, :]
        grad = tfl.zeros([rows, d])
        total, gt, gb = tfl.zeros([rows]), tfl.zeros([rows]), tfl.zeros([rows])
        for columns in tfl.tile(n):
            other = text[columns, :]
            dots = (mine @ other.T).float()
            sign = torch.where(rows.index[:, None] == columns.index[None, :], 1.0, -1.0)
            z = sign * (dots * scale + bias[()])
            total -= F.logsigmoid(z).sum(1)
            dz = -sign * torch.sigmoid(-z) / n
            gt += (dz * dots * scale).sum(1)
            gb += dz.sum(1)
            grad += (dz * scale).to(other.dtype) @ other
        dimage[rows, :] = grad
        tfl.atomic_add(loss, [], total.sum() / n)
        tfl.atomic_add(dt, [], gt.sum())
        tfl.atomic_add(db, [], gb.sum())
    return loss, dimage, dt, db


@dataclass(frozen=True)
class PPOConfig:
    clip: float = 0.2
    value_clip: float | None = 0.2
    entropy: float = 0.01


def make_ppo(b, a):
    return (
        randn(b, a),
        torch.randint(0, a, (b,)),
        -torch.rand(b) * 2,
        randn(b),
        randn(b),
        randn(b),
        randn(b),
        PPOConfig(),
    )


def ppo_ref(logits, action, old, adv, value, old_value, ret, cfg):
    logp = torch.log_softmax(logits, 1)
    new = logp.gather(1, action[:, None])[:, 0]
    ratio = (new - old).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    pg = torch.maximum(-adv * ratio, -adv * ratio.clamp(1 - cfg.clip, 1 + cfg.clip)).mean()
    vc = old_value + (value - old_value).clamp(-cfg.value_clip, cfg.value_clip)
    vl = 0.5 * torch.maximum((value - ret) ** 2, (vc - ret) ** 2).mean()
    ent = -(logp.exp() * logp).sum(1).mean()
    frac = ((ratio - 1).abs() > cfg.clip).float().mean()
    return {"policy": pg, "value": vl, "entropy": ent, "clipped": frac}


@stranger(make_ppo, ppo_ref, {"b": 37, "a": 6}, {"b": 1 << 18, "a": 18})
@tileflow.kernel
def ppo_losses(logits, action, old, advantage, value, old_value, returns, cfg: PPOConfig):
    b = logits.size(0)
    stats = torch.zeros(2, device=logits.device)
    losses = {k: torch.zeros((), device=logits.device) for k in ("policy", "value", "entropy", "clipped")}
    for t in tfl.tile(b):
        tfl.atomic_add(stats, [0], advantage[t].sum())
        tfl.atomic_add(stats, [1], (advantage[t] ** 2).sum())
    for t in tfl.tile(b):
        mean = stats[0] / b
        std = torch.sqrt((stats[1] - b * mean**2) / (b - 1))
        logp = F.log_softmax(logits[t, :], dim=-1)
        new = logp.gather(1, action[t][:, None]).squeeze(1)
        ratio = torch.exp(new - old[t])
        adv = (advantage[t] - mean) / (std + 1e-8)
        policy = torch.maximum(-adv * ratio, -adv * torch.clamp(ratio, 1 - cfg.clip, 1 + cfg.clip))
        error = (value[t] - returns[t]) ** 2
        if cfg.value_clip is not None:
            near = old_value[t] + torch.clamp(value[t] - old_value[t], -cfg.value_clip, cfg.value_clip)
            error = torch.maximum(error, (near - returns[t]) ** 2)
        parts = {
            "policy": policy,
            "value": 0.5 * error,
            "entropy": -(logp.exp() * logp).sum(-1),
            "clipped": ((ratio - 1).abs() > cfg.clip).float(),
        }
        for name, part in parts.items():
            tfl.atomic_add(losses[name], [], part.sum() / b)
    return losses
