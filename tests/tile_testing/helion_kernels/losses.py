"""Losses of rows of logits."""

from __future__ import annotations

import helion
import helion.language as hl
import torch
import torch.nn.functional as F


@helion.kernel(config=helion.Config(block_sizes=[2]), ignore_warnings=[helion.exc.TensorOperationInWrapper])
def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    n, v = logits.shape
    losses = torch.zeros([n], dtype=logits.dtype, device=logits.device)
    flat = logits.view(-1)
    for tile in hl.tile(n):
        chosen = hl.load(flat, [tile.index * v + labels[tile]])
        row = logits[tile, :]
        highest = torch.amax(row, dim=-1, keepdim=True)
        total = torch.sum(torch.exp(row - highest), dim=-1, keepdim=True)
        losses[tile] = (highest + torch.log(total)).squeeze(-1) - chosen
    return losses.mean()


@helion.kernel(config=helion.Config(block_sizes=[32, 4]))
def kl_div(
    pred: torch.Tensor, true: torch.Tensor, log_target: bool = False, reduction: str = "batchmean", eps: float = 1e-10
) -> torch.Tensor:
    rows, columns = pred.shape
    if reduction == "none":
        loss = torch.zeros_like(pred)
    else:
        loss = torch.zeros([rows], dtype=torch.float32, device=pred.device)
    block_n = hl.register_block_size(columns)
    block_m = hl.register_block_size(rows)
    for tile_m in hl.tile(rows, block_size=block_m):
        total = hl.zeros([tile_m, block_n], dtype=torch.float32)
        for tile_n in hl.tile(columns, block_size=block_n):
            part = hl.zeros([block_m, block_n], dtype=torch.float32)
            p, t = pred[tile_m, tile_n], true[tile_m, tile_n]
            if log_target:
                part += torch.exp(t) * (t - p)
            else:
                part += t * (torch.log(torch.clamp(t, min=eps)) - p)
            if reduction == "none":
                loss[tile_m, tile_n] = part
            else:
                total += part
        if reduction != "none":
            loss[tile_m] = total.sum(dim=-1)
    if reduction == "batchmean":
        return torch.sum(loss) / rows
    if reduction == "sum":
        return torch.sum(loss, dim=0)
    return loss


@helion.kernel(config=helion.Config(block_sizes=[2, 64]))
def kl_div_backward(
    grad: torch.Tensor, true: torch.Tensor, log_target: hl.constexpr, reduction: hl.constexpr
) -> torch.Tensor:
    rows, columns = true.shape
    out = torch.empty_like(true)
    spread = grad.expand(true.shape)
    for tile_m in hl.tile(rows):
        for tile_n in hl.tile(columns):
            g, t = spread[tile_m, tile_n], true[tile_m, tile_n]
            if reduction == "batchmean":
                divisor = rows
            elif reduction == "mean":
                divisor = rows * columns
            else:
                divisor = 1.0
            if log_target:
                out[tile_m, tile_n] = -g * torch.exp(t) / divisor
            else:
                out[tile_m, tile_n] = -g * t / divisor
    return out


@helion.kernel(config=helion.Config(block_sizes=[2, 64]))
def jsd(p_log: torch.Tensor, q_log: torch.Tensor, beta: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = p_log.shape
    loss = torch.zeros([rows], dtype=torch.float32, device=p_log.device)
    grad = torch.empty_like(p_log)
    for tile_m in hl.tile(rows):
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(columns):
            x, y = p_log[tile_m, tile_n], q_log[tile_m, tile_n]
            if beta == 0.0:
                part = torch.exp(y) * (y - x)
                slope = -torch.exp(y)
            else:
                p, q = torch.exp(x), torch.exp(y)
                log_m = torch.log(beta * q + (1 - beta) * p)
                part = beta * q * (y - log_m) + (1 - beta) * p * (x - log_m)
                slope = (1 - beta) * p * (x - log_m)
            total += part.sum(1)
            grad[tile_m, tile_n] = slope / rows
        loss[tile_m] = total
    return loss.sum() / rows, grad


def jensen_shannon(p_log: torch.Tensor, q_log: torch.Tensor, beta: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    x = p_log.detach().requires_grad_()
    if beta == 0.0:
        loss = F.kl_div(x, q_log, reduction="batchmean", log_target=True)
    else:
        p, q = x.exp(), q_log.exp()
        log_m = torch.log(beta * q + (1 - beta) * p)
        loss = (beta * q * (q_log - log_m) + (1 - beta) * p * (x - log_m)).sum() / x.size(0)
    (grad,) = torch.autograd.grad(loss, x)
    return loss.detach(), grad


@helion.kernel(config=helion.Config(block_sizes=[4, 32]))
def grpo_like_loss(logits: torch.Tensor, chosen: torch.Tensor, advantages: torch.Tensor, temperature: float):
    batch, length, vocabulary = logits.shape
    out = torch.empty([batch, length], dtype=torch.float32, device=logits.device)
    for tile_b, tile_t in hl.tile([batch, length], block_size=[1, None]):
        highest = hl.full([tile_b, tile_t], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_b, tile_t], dtype=torch.float32)
        picked = hl.zeros([tile_b, tile_t], dtype=torch.float32)
        for tile_v in hl.tile(vocabulary):
            part = logits[tile_b, tile_t, tile_v].to(torch.float32) / temperature
            higher = torch.maximum(highest, part.amax(-1))
            total = total * torch.exp(highest - higher) + torch.exp(part - higher[:, :, None]).sum(-1)
            highest = higher
            here = tile_v.index[None, None, :] == chosen[tile_b, tile_t][:, :, None]
            picked = picked + torch.where(here, part, 0.0).sum(-1)
        out[tile_b, tile_t] = -(picked - highest - torch.log(total)) * advantages[tile_b][:, None]
    return out


def policy_loss(logits, chosen, advantages, temperature):
    log_p = torch.log_softmax(logits.float() / temperature, -1)
    return -log_p.gather(2, chosen[:, :, None]).squeeze(2) * advantages[:, None]


def cases():
    logits, labels = torch.randn(7, 100), torch.randint(0, 100, (7,))
    p, q = torch.randn(9, 100).log_softmax(1), torch.randn(9, 100).softmax(1)
    yield "cross_entropy", cross_entropy, (logits, labels), F.cross_entropy
    yield "kl_div", kl_div, (p, q), lambda a, b: F.kl_div(a, b, reduction="batchmean")
    yield (
        "kl_div_log_target", kl_div, (p, q.log(), True, "sum"),
        lambda a, b, *_: F.kl_div(a, b, reduction="sum", log_target=True),
    )  # fmt: skip
    yield (
        "kl_div_none", kl_div, (p, q, False, "none"), lambda a, b, *_: F.kl_div(a, b, reduction="none"),
    )  # fmt: skip
    yield (
        "kl_div_backward", kl_div_backward, (torch.tensor(2.0), q, False, "batchmean"),
        lambda g, t, *_: -g * t / t.size(0),
    )  # fmt: skip
    yield "jsd", jsd, (p, q.log()), jensen_shannon
    tokens, actions, advantages = torch.randn(2, 5, 70), torch.randint(0, 70, (2, 5)), torch.randn(2)
    yield "policy_loss", grpo_like_loss, (tokens, actions, advantages, 0.7), policy_loss
