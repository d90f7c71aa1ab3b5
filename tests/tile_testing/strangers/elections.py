"""Elections and contests: ballots in pairs and in rounds, seats by quotients, skills after games."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def schulze_ref(ranks: Any) -> Any:
    n = ranks.size(1)
    wins = torch.stack([(ranks[:, i : i + 1] < ranks).sum(0) for i in range(n)]).int()
    paths = torch.where(wins > wins.T, wins, 0)
    for k in range(n):
        paths = torch.maximum(paths, torch.minimum(paths[:, k : k + 1], paths[k]))
    paths.fill_diagonal_(0)
    return paths, (paths >= paths.T).all(1)


@stranger(
    lambda voters, n: (torch.rand(n, voters).argsort(0).to(torch.int8).T,),
    schulze_ref,
    {"voters": 203, "n": 21},
    {"voters": 1 << 18, "n": 96},
)
@tileflow.kernel
def schulze_paths(ranks):
    """Schulze, 2003: who beats whom by the widest path of won pairs; a winner is beaten by nobody."""
    voters, n = ranks.shape
    wins = torch.zeros(n, n, dtype=torch.int32, device=ranks.device)
    for v, i in tfl.tile([voters, n]):
        mine = ranks[v, i]
        for j in tfl.tile(n):
            better = mine[:, :, None] < ranks[v, j][:, None, :]
            tfl.atomic_add(wins, [i, j], better.sum(0))
    paths = torch.empty_like(wins)
    for i, j in tfl.tile(wins.shape):
        paths[i, j] = torch.where(wins[i, j] > wins.T[i, j], wins[i, j], 0)
    for k in range(n):
        through = torch.empty_like(paths)
        for i, j in tfl.tile([n, n]):
            through[i, j] = torch.maximum(paths[i, j], torch.minimum(paths[i, k][:, None], paths[k, j]))
        paths = through
    winner = torch.empty(n, dtype=torch.bool, device=ranks.device)
    for i in tfl.tile(n):
        off = i.index[:, None] != tfl.arange(n)
        strengths = torch.where(off, paths[i, :], 0)
        winner[i] = (strengths >= torch.where(off, paths[:, i].T, 0)).all(dim=-1)
        paths[i, i] = torch.where(i.index[:, None] == i.index, 0, paths[i, i])
    return paths, winner


def runoff_ref(ballots: Any, weight: Any, candidates: int) -> Any:
    alive = torch.ones(candidates, dtype=torch.bool)
    history, order = [], []
    for _ in range(candidates - 1):
        open_ = alive[ballots.long()]
        first = ballots.gather(1, open_.int().argmax(1, keepdim=True)).long()[:, 0]
        votes = torch.zeros(candidates, dtype=torch.float64).index_add_(0, first, weight)
        history.append(votes)
        out = torch.where(alive, votes, torch.inf).argmin()
        alive[out] = False
        order.append(out)
    return torch.stack(history), torch.stack(order), alive


@stranger(
    lambda voters, candidates: (
        torch.rand(voters, candidates).argsort(1).to(torch.int16),
        torch.randint(1, 9, (voters,)).double(),
        candidates,
    ),
    runoff_ref,
    {"voters": 301, "candidates": 7},
    {"voters": 1 << 20, "candidates": 12},
)
@tileflow.kernel
def runoff_rounds(ballots, weight, candidates: int):
    """Ranked ballots in rounds: the last of each round leaves, and its ballots go to whom they name next."""
    alive = torch.ones(candidates, dtype=torch.bool, device=ballots.device)
    history = torch.zeros(candidates - 1, candidates, dtype=torch.float64, device=ballots.device)
    order = torch.empty(candidates - 1, dtype=torch.int64, device=ballots.device)
    for turn in range(candidates - 1):
        votes = history[turn]
        for v in tfl.tile(ballots.size(0)):
            names = ballots[v, :]
            still = alive[names]
            place = still.int().argmax(dim=1, keepdim=True)
            first = torch.take_along_dim(names, place, dim=1).squeeze(1)
            tfl.atomic_add(votes, [first], weight[v])
        for _ in tfl.grid(1):
            kept = alive[:]
            out = votes[:].masked_fill(~kept, float("inf")).argmin()
            order[turn] = out
            alive[out] = False
    return history, order, alive


def seats_ref(votes: Any, seats: Any, first: float) -> Any:
    won = torch.zeros(votes.shape, dtype=torch.int32)
    for d in range(len(votes)):
        for _ in range(int(seats[d])):
            quotient = votes[d].double() / torch.where(won[d] == 0, first, 2.0 * won[d] + 1)
            won[d, quotient.argmax()] += 1
    spread = votes.double() / votes.double().sum(1, keepdim=True) - won / won.sum(1, keepdim=True).clamp(min=1)
    return won, spread.square().sum(1).sqrt().float()


@stranger(
    lambda districts, parties: (
        torch.randint(1, 1 << 20, (districts, parties)) * 7 + torch.arange(parties),
        torch.randint(0, 14, (districts,), dtype=torch.uint8),
        1.4,
    ),
    seats_ref,
    {"districts": 19, "parties": 6},
    {"districts": 1 << 16, "parties": 10},
    loops=True,
)
@tileflow.kernel
def apportion_seats(votes, seats, first: float):
    """Sainte-Laguë's method with a first divisor of its own, seat by seat, and how unequal each district came out."""
    districts, parties = votes.shape
    won = torch.empty(districts, parties, dtype=torch.int32, device=votes.device)
    unequal = torch.empty(districts, device=votes.device)
    for d in tfl.tile(districts):
        mine = votes[d, :].double()
        left = seats[d].int()
        held = torch.zeros([d, parties], dtype=torch.int32)
        while (left > 0).any():
            divisor = torch.where(held == 0, first, 2.0 * held + 1)
            best = (mine / divisor).argmax(1)
            gets = torch.nn.functional.one_hot(best, parties) * (left > 0)[:, None]
            held += gets
            left = left - 1
        won[d, :] = held
        share = mine / mine.sum(1, keepdim=True) - held / held.sum(1, keepdim=True).clamp(min=1)
        unequal[d] = torch.linalg.vector_norm(share, dim=1)
    return won, unequal


class Outcome(Enum):
    WIN = "win"
    DRAW = "draw"


@dataclass
class Skills:
    mean: torch.Tensor
    deviation: torch.Tensor


def skills_ref(skills: Skills, pairs: Any, beta: float, chance: float, outcome: Outcome) -> Any:
    mu, sigma = skills.mean.double(), skills.deviation.double()
    a, b = pairs.long().T
    c = (2 * beta**2 + sigma[a].square() + sigma[b].square()).sqrt()
    margin = 2**0.5 * beta * 2**0.5 * torch.erfinv(torch.tensor(chance, dtype=torch.float64)) / c
    t = (mu[a] - mu[b]) / c
    pdf = lambda x: torch.exp(-x * x / 2) / (2 * torch.pi) ** 0.5  # noqa: E731
    cdf = torch.special.ndtr
    if outcome is Outcome.WIN:
        v = pdf(t - margin) / cdf(t - margin)
        w = v * (v + t - margin)
    else:
        mass = cdf(margin - t) - cdf(-margin - t)
        v = (pdf(-margin - t) - pdf(margin - t)) / mass
        w = v * v + ((margin - t) * pdf(margin - t) + (margin + t) * pdf(margin + t)) / mass
    moved, shrunk = torch.zeros_like(mu), torch.zeros_like(mu)
    for who, sign in ((a, 1), (b, -1)):
        moved.index_add_(0, who, sign * sigma[who].square() / c * v)
        shrunk.index_add_(0, who, sigma[who].square() / c**2 * w)
    new = Skills((mu + moved).float(), (sigma * (1 - shrunk).clamp(min=1e-4).sqrt()).float())
    return new.mean, new.deviation


@stranger(
    lambda players, games, outcome: (
        Skills(25 + 4 * torch.randn(players), 2 + torch.rand(players)),
        torch.stack([torch.randint(0, players // 2, (games,)), torch.randint(players // 2, players, (games,))], 1)
        .int(),
        25 / 6, 0.1, outcome,
    ),
    skills_ref,
    {"players": 31, "games": 23, "outcome": Outcome.DRAW},
    {"players": 1 << 18, "games": 1 << 18, "outcome": Outcome.WIN},
)  # fmt: skip
@tileflow.kernel
def skill_updates(skills: Skills, pairs, beta: float, chance: float, outcome: Outcome):
    """Herbrich and others, 2006: two players' skills after a game, as moments of a normal that is cut."""

    def density(x):
        return torch.exp(-0.5 * x * x) * 0.3989422804014327

    below = torch.special.ndtr
    moved, shrunk = torch.zeros_like(skills.mean), torch.zeros_like(skills.mean)
    for g in tfl.tile(pairs.size(0)):
        a, b = pairs[g, 0], pairs[g, 1]
        va, vb = skills.deviation[a] ** 2, skills.deviation[b] ** 2
        c = torch.sqrt(2 * beta**2 + va + vb)
        margin = 2 * beta * torch.special.erfinv(torch.full_like(c, chance)) / c
        t = (skills.mean[a] - skills.mean[b]) / c
        if outcome is Outcome.WIN:
            v = density(t - margin) / below(t - margin)
            w = v * (v + t - margin)
        else:
            low, high = -margin - t, margin - t
            mass = below(high) - below(low)
            v = (density(low) - density(high)) / mass
            w = v.square() + (high * density(high) - low * density(low)) / mass
        for who, sign, variance in ((a, 1, va), (b, -1, vb)):
            tfl.atomic_add(moved, [who], sign * variance / c * v)
            tfl.atomic_add(shrunk, [who], variance / c**2 * w)
    new = Skills(torch.empty_like(moved), torch.empty_like(moved))
    for p in tfl.tile(moved.size(0)):
        new.mean[p] = skills.mean[p] + moved[p]
        new.deviation[p] = skills.deviation[p] * (1 - shrunk[p]).clamp(min=1e-4).sqrt()
    return new.mean, new.deviation
