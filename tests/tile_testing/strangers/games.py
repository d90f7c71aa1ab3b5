"""Games: ratings, boards of bits, descents of search trees, hands of cards, puzzles, regrets."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_seasons(b: Any, teams: Any, matches: Any) -> Any:
    home = torch.randint(0, teams, (b, matches))
    away = (home + torch.randint(1, teams, (b, matches))) % teams
    return (
        1500 + 100 * randn(b, teams),
        home.to(torch.uint8),
        away.to(torch.uint8),
        torch.randint(0, 3, (b, matches)) * 0.5,
        20.0,
        60.0,
    )


def seasons_ref(rating: Any, home: Any, away: Any, score: Any, k: float, advantage: float) -> Any:
    r = rating.clone()
    surprise = torch.zeros_like(r[:, 0])
    for i in range(home.size(1)):
        h, a = home[:, i, None].long(), away[:, i, None].long()
        rh, ra = r.gather(1, h), r.gather(1, a)
        expected = 1 / (1 + 10 ** ((ra - rh - advantage) / 400))
        d = score[:, i, None] - expected
        r = r.scatter(1, h, rh + k * d).scatter(1, a, ra - k * d)
        surprise = surprise + d[:, 0].square()
    return r, surprise / home.size(1)


@stranger(
    make_seasons,
    seasons_ref,
    {"b": 19, "teams": 5, "matches": 13},
    {"b": 1 << 16, "teams": 20, "matches": 190},
)
@tileflow.kernel
def elo_seasons(rating, home, away, score, k, advantage):
    """Elo, 1978: ratings after each match of many simulated seasons, and Brier's score of what was expected."""
    b, matches = home.shape
    after = rating.clone()
    brier = torch.empty(b, device=rating.device)
    for t in tfl.tile(b):
        surprise = tfl.zeros([t])
        for i in range(matches):
            h, a = home[t, i], away[t, i]
            rh, ra = after[t.index, h], after[t.index, a]
            expected = 1 / (1 + 10 ** ((ra - rh - advantage) / 400))
            d = score[t, i] - expected
            after[t.index, h] = rh + k * d
            after[t.index, a] = ra - k * d
            surprise += d * d
        brier[t] = surprise / matches
    return after, brier


NOT_A, NOT_H = 0xFEFEFEFEFEFEFEFE - (1 << 64), 0x7F7F7F7F7F7F7F7F
WAYS = ((8, -1), (-8, -1), (1, NOT_A), (-1, NOT_H), (9, NOT_A), (7, NOT_H), (-7, NOT_A), (-9, NOT_H))


def moved_ref(x: Any, by: int, mask: int) -> Any:
    if by > 0:
        return (x << by) & mask
    return (x >> -by) & ((1 << (64 + by)) - 1) & mask


def othello_ref(own: Any, other: Any) -> Any:
    empty = ~(own | other)
    moves = torch.zeros_like(own)
    for by, mask in WAYS:
        run = moved_ref(own, by, mask) & other
        for _ in range(5):
            run = run | moved_ref(run, by, mask) & other
        moves |= moved_ref(run, by, mask) & empty
    count = torch.zeros_like(own)
    for i in range(64):
        count += (moves >> i) & 1
    return moves, count.to(torch.int8)


def make_boards(n: Any) -> Any:
    a, b, c = torch.randint(-(1 << 62), 1 << 62, (3, n)) * 2 + torch.randint(0, 2, (3, n))
    return a & b, ~a & (b | c)


@stranger(make_boards, othello_ref, {"n": 67}, {"n": 1 << 23})
@tileflow.kernel
def othello_moves(own, other):
    """Legal moves of boards of bits, by fills in eight directions, and how many there are."""
    n = own.numel()
    moves = torch.empty_like(own)
    count = torch.empty(n, dtype=torch.int8, device=own.device)

    def moved(x, by, mask):
        if by > 0:
            return (x << by) & mask
        return (x >> -by) & ((1 << (64 + by)) - 1) & mask

    for t in tfl.tile(n):
        mine, theirs = own[t], other[t]
        empty = ~(mine | theirs)
        found = tfl.zeros([t], dtype=torch.int64)
        for by, mask in WAYS:
            run = moved(mine, by, mask) & theirs
            for _ in range(5):
                run |= moved(run, by, mask) & theirs
            found |= moved(run, by, mask) & empty
        moves[t] = found
        x = found - ((found >> 1) & 0x5555555555555555)
        x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
        x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
        count[t] = (x * 0x0101010101010101) >> 56
    return moves, count


def make_trees(games: Any, nodes: Any, actions: Any, depth: Any) -> Any:
    child = torch.randint(1, nodes, (games, nodes, actions))
    child = torch.where(torch.rand(games, nodes, actions) < 0.1, -1, child)
    return (
        child.int(),
        torch.randint(0, 50, (games, nodes, actions)).int(),
        randn(games, nodes, actions).tanh(),
        torch.softmax(randn(games, nodes, actions), -1),
        1.5,
        depth,
    )


def trees_ref(child: Any, visits: Any, value: Any, prior: Any, c: float, depth: int) -> Any:
    games = child.size(0)
    i = torch.arange(games)
    node = torch.zeros(games, dtype=torch.int64)
    path = torch.full((games, depth), -1, dtype=torch.int32)
    for d in range(depth):
        on = node >= 0
        at = node.clamp(min=0)
        n = visits[i, at].double()
        bonus = c * prior[i, at].double() * torch.sqrt(n.sum(1, keepdim=True)) / (1 + n)
        best = (value[i, at].double() + bonus).argmax(1)
        path[:, d] = torch.where(on, best, -1).int()
        node = torch.where(on, child[i, at, best].long(), -1)
    return path, node.int()


@stranger(
    make_trees,
    trees_ref,
    {"games": 7, "nodes": 9, "actions": 11, "depth": 4},
    {"games": 16384, "nodes": 32, "actions": 64, "depth": 8},
)
@tileflow.kernel
def tree_descent(child, visits, value, prior, c, depth):
    """Silver et al., 2017: from each root down to a leaf, by the best of value and what is left to explore."""
    games = child.size(0)
    path = torch.full((games, depth), -1, dtype=torch.int32, device=child.device)
    leaf = torch.empty(games, dtype=torch.int32, device=child.device)
    for g in tfl.grid(games):
        node = 0
        for d in range(depth):
            if node >= 0:
                n = visits[g, node, :].double()
                explore = c * prior[g, node, :].double() * torch.sqrt(n.sum()) / (1 + n)
                best = torch.argmax(value[g, node, :].double() + explore)
                path[g, d] = best
                node = child[g, node, best]
        leaf[g] = node
    return path, leaf


def hands_ref(cards: Any) -> Any:
    n = cards.size(0)
    rank, suit = cards.long() // 4, cards.long() % 4
    have = torch.zeros(n, 13, dtype=torch.int64).scatter_add_(1, rank, torch.ones_like(rank))
    kinds = torch.arange(13)
    weight = 1 << kinds
    mask = ((have > 0) * weight).sum(1)
    flush = torch.zeros(n, dtype=torch.int64)
    for s in range(4):
        mine = torch.zeros(n, 13, dtype=torch.int64).scatter_add_(1, rank, (suit == s).long())
        flush = torch.where(mine.sum(1) >= 5, ((mine > 0) * weight).sum(1), flush)

    def straight(m):
        ext = (m << 1) | (m >> 12 & 1)
        top = torch.full_like(m, -1)
        for k in range(10):
            top = torch.where(((ext >> k) & 31) == 31, k, top)
        return top

    def highest(m, count):
        kept = torch.zeros_like(m)
        for k in range(12, -1, -1):
            take = ((m >> k) & 1 == 1) & (count > 0)
            kept = torch.where(take, kept | 1 << k, kept)
            count = count - take.long()
        return kept

    four = torch.where(have == 4, kinds, -1).amax(1)
    three = torch.where(have == 3, kinds, -1).amax(1)
    pairs = torch.where(have >= 2, kinds, -1).sort(1, descending=True).values
    second = torch.where(pairs[:, 0] == three, pairs[:, 1], pairs[:, 0])
    ones = torch.ones_like(mask)
    s, sf = straight(mask), straight(flush)
    found = highest(mask, ones * 5)

    def without(m, k):
        return m & ~(ones << k.clamp(min=0))

    rest = without(mask, pairs[:, 0])
    one = 1 << 26 | pairs[:, 0] << 13 | highest(rest, ones * 3)
    found = torch.where(pairs[:, 0] >= 0, one, found)
    two = 2 << 26 | pairs[:, 0] << 17 | pairs[:, 1] << 13 | highest(without(rest, pairs[:, 1]), ones)
    found = torch.where(pairs[:, 1] >= 0, two, found)
    found = torch.where(three >= 0, 3 << 26 | three << 13 | highest(without(mask, three), ones * 2), found)
    found = torch.where(s >= 0, 4 << 26 | s, found)
    found = torch.where(flush > 0, 5 << 26 | highest(flush, ones * 5), found)
    found = torch.where((three >= 0) & (second >= 0), 6 << 26 | three << 4 | second, found)
    found = torch.where(four >= 0, 7 << 26 | four << 13 | highest(without(mask, four), ones), found)
    return torch.where(sf >= 0, 8 << 26 | sf, found).int()


def make_hands(n: Any) -> Any:
    first = torch.randint(0, 52, (n, 1))
    step = torch.randint(1, 52, (n, 1))  # seven apart on a circle of 53 are different; some are often of one suit
    found = (first + step * torch.arange(7)) % 53
    return (torch.where(found == 52, (first + step * 7) % 53, found).to(torch.uint8),)


@stranger(make_hands, hands_ref, {"n": 301}, {"n": 1 << 21})
@tileflow.kernel
def poker_hands(cards):
    """What each hand of seven cards is worth: an int by which the better of two hands is the greater."""
    n = cards.size(0)
    out = torch.empty(n, dtype=torch.int32, device=cards.device)

    def straight(m):
        with_low_ace = (m << 1) | (m >> 12)
        top = m * 0 - 1
        for k in range(10):
            top = torch.where((with_low_ace >> k) & 31 == 31, k, top)
        return top

    def highest(m, count):
        kept = torch.zeros_like(m)
        left = kept + count
        for k in reversed(range(13)):
            take = ((m >> k) & 1 == 1) & (left > 0)
            kept = torch.where(take, kept | (1 << k), kept)
            left = left - take.int()
        return kept

    for t in tfl.tile(n):
        mask = tfl.zeros([t], dtype=torch.int32)
        suits = [tfl.zeros([t], dtype=torch.int32) for _ in range(4)]
        have = [tfl.zeros([t], dtype=torch.int32) for _ in range(13)]
        for i in range(7):
            card = cards[t, i].int()
            rank, suit = card // 4, card % 4
            bit = 1 << rank
            mask = mask | bit
            for s in range(4):
                suits[s] = torch.where(suit == s, suits[s] | bit, suits[s])
            for r in range(13):
                have[r] = have[r] + (rank == r).int()
        flush = tfl.zeros([t], dtype=torch.int32)
        for s in range(4):
            size = tfl.zeros([t], dtype=torch.int32)
            for r in range(13):
                size += (suits[s] >> r) & 1
            flush = torch.where(size >= 5, suits[s], flush)
        four, three, pair, second = (tfl.full([t], -1, dtype=torch.int32) for _ in range(4))
        for r in range(13):
            four = torch.where(have[r] == 4, r, four)
            three = torch.where(have[r] == 3, r, three)
            second = torch.where(have[r] >= 2, pair, second)
            pair = torch.where(have[r] >= 2, r, pair)
        score = highest(mask, 5)
        rest = mask & ~(1 << torch.clamp(pair, min=0))
        score = torch.where(pair >= 0, (1 << 26) | (pair << 13) | highest(rest, 3), score)
        rest = rest & ~(1 << torch.clamp(second, min=0))
        score = torch.where(second >= 0, (2 << 26) | (pair << 17) | (second << 13) | highest(rest, 1), score)
        rest = mask & ~(1 << torch.clamp(three, min=0))
        score = torch.where(three >= 0, (3 << 26) | (three << 13) | highest(rest, 2), score)
        run = straight(mask)
        score = torch.where(run >= 0, (4 << 26) | run, score)
        score = torch.where(flush > 0, (5 << 26) | highest(flush, 5), score)
        full = torch.where(pair == three, second, pair)
        score = torch.where((three >= 0) & (full >= 0), (6 << 26) | (three << 4) | full, score)
        rest = mask & ~(1 << torch.clamp(four, min=0))
        score = torch.where(four >= 0, (7 << 26) | (four << 13) | highest(rest, 1), score)
        run = straight(flush)
        out[t] = torch.where(run >= 0, (8 << 26) | run, score)
    return out


def make_puzzles(b: Any, turns: Any) -> Any:
    i = torch.arange(9)
    grid = (3 * (i % 3) + i // 3)[:, None] + i  # a valid square, of digits renamed in each puzzle
    digits = torch.rand(b, 9).argsort(1)
    bits = (1 << digits)[:, grid % 9]
    given = torch.rand(b, 9, 9) < 0.45
    return torch.where(given, bits, 511).to(torch.int16), turns


def puzzles_ref(grid: Any, turns: int) -> Any:
    x = grid.int()
    for _ in range(turns):
        sure = torch.where((x & (x - 1)) == 0, x, 0)
        rows = sure.sum(2, keepdim=True)
        columns = sure.sum(1, keepdim=True)
        boxes = sure.view(-1, 3, 3, 3, 3).sum((2, 4), keepdim=True).expand(-1, 3, 3, 3, 3).reshape(x.shape)
        x = torch.where(sure > 0, x, x & ~(rows | columns | boxes).int())
    return x.to(torch.int16), ((x & (x - 1)) == 0).sum((1, 2)).to(torch.int16)


@stranger(make_puzzles, puzzles_ref, {"b": 21, "turns": 3}, {"b": 1 << 19, "turns": 8})
@tileflow.kernel
def sudoku_singles(grid, turns):
    """Candidates of each cell as bits: digits that are settled leave their row, column and box, again and again."""
    b = grid.size(0)
    out = torch.empty_like(grid)
    solved = torch.empty(b, dtype=torch.int16, device=grid.device)
    for t in tfl.tile(b):
        x = grid[t, :, :]
        for _ in range(turns):
            sure = torch.where(x & (x - 1) == 0, x, 0)
            rows = sure.sum(2, keepdim=True)
            columns = sure.sum(1, keepdim=True)
            boxes = sure.reshape(t, 3, 3, 3, 3).sum((2, 4), keepdim=True)
            boxes = boxes.expand(t, 3, 3, 3, 3).reshape(t, 9, 9)
            gone = (rows | columns | boxes).to(torch.int16)
            x = torch.where(sure > 0, x, x & ~gone)
        out[t, :, :] = x
        solved[t] = (x & (x - 1) == 0).sum((1, 2))
    return out, solved


def regret_ref(payoff: Any, turns: int) -> Any:
    b, n, m = payoff.shape
    one, two = torch.zeros(b, n, dtype=payoff.dtype), torch.zeros(b, m, dtype=payoff.dtype)
    mean_one, mean_two = torch.zeros_like(one), torch.zeros_like(two)

    def matched(r):
        p = r.clamp(min=0)
        total = p.sum(1, keepdim=True)
        return torch.where(total > 0, p / total.clamp(min=1e-20), 1 / r.size(1))

    for _ in range(turns):
        x, y = matched(one), matched(two)
        u = torch.einsum("bnm,bm->bn", payoff, y)
        v = -torch.einsum("bnm,bn->bm", payoff, x)
        one = (one + u - (u * x).sum(1, keepdim=True)).clamp(min=0)
        two = (two + v - (v * y).sum(1, keepdim=True)).clamp(min=0)
        mean_one, mean_two = mean_one + x / turns, mean_two + y / turns
    gap = torch.einsum("bnm,bm->bn", payoff, mean_two).amax(1) - torch.einsum("bnm,bn->bm", payoff, mean_one).amin(1)
    return mean_one, mean_two, gap


@stranger(
    lambda b, n, m, turns: (randn(b, n, m), turns),
    regret_ref,
    {"b": 9, "n": 7, "m": 11, "turns": 4},
    {"b": 16384, "n": 32, "m": 32, "turns": 32},
)
@tileflow.kernel
def regret_matching(payoff, turns):
    """Tammelin, 2014: two players of many matrix games who learn by regrets that stay positive, and what is left."""
    b, n, m = payoff.shape
    first = torch.empty(b, n, device=payoff.device)
    second = torch.empty(b, m, device=payoff.device)
    gap = torch.empty(b, device=payoff.device)

    def matched(regret):
        total = regret.sum(1, keepdim=True)
        return torch.where(total > 0, regret / total, 1 / regret.size(1))

    for t in tfl.tile(b):
        a = payoff[t, :, :]
        one, mean_one = tfl.zeros([t, n]), tfl.zeros([t, n])
        two, mean_two = tfl.zeros([t, m]), tfl.zeros([t, m])
        for _ in range(turns):
            x, y = matched(one), matched(two)
            u = (a * y[:, None, :]).sum(2)
            v = -(a * x[:, :, None]).sum(1)
            one = torch.relu(one + u - (u * x).sum(1, keepdim=True))
            two = torch.relu(two + v - (v * y).sum(1, keepdim=True))
            mean_one += x / turns
            mean_two += y / turns
        first[t, :] = mean_one
        second[t, :] = mean_two
        best = (a * mean_two[:, None, :]).sum(2).amax(1)
        worst = (a * mean_one[:, :, None]).sum(1).amin(1)
        gap[t] = best - worst
    return first, second, gap
