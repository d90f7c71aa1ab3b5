"""Estimates: abilities from answers, scored ensembles, product keys, splines, slots, classes, unfolded spectra."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_answers(people: Any, items: Any, points: Any) -> Any:
    answer = torch.randint(0, 2, (people, items))
    answer = torch.where(torch.rand(people, items) < 0.05, 255, answer).to(torch.uint8)
    return answer, torch.rand(items) * 1.5 + 0.3, randn(items), torch.linspace(-4, 4, points)


def answers_ref(answer: Any, slope: Any, place: Any, node: Any) -> Any:
    z = slope[:, None] * (node - place[:, None])
    right, wrong = torch.nn.functional.logsigmoid(z), torch.nn.functional.logsigmoid(-z)
    yes, no = (answer == 1).to(z.dtype), (answer == 0).to(z.dtype)
    each = yes @ right + no @ wrong - node * node / 2
    chance = torch.softmax(each, 1)
    return chance @ node, yes.T @ chance, torch.logsumexp(each, 1)


@stranger(
    make_answers,
    answers_ref,
    {"people": 45, "items": 21, "points": 16},
    {"people": 400_000, "items": 200, "points": 41},
)
@tileflow.kernel
def item_responses(answer, slope, place, node):
    """Bock and Aitkin, 1981: what answers (255 for none) say about each person, and how many at a node were right."""
    people, items = answer.shape
    points = node.numel()
    ability = torch.empty(people, device=node.device)
    right = torch.zeros(items, points, device=node.device)
    evidence = torch.empty(people, device=node.device)
    for t in tfl.tile(people):
        each = tfl.zeros([t, points]) - node[:] ** 2 / 2
        for ti in tfl.tile(items):
            z = slope[ti][:, None] * (node[:] - place[ti][:, None])
            given = answer[t, ti]
            each += (given == 1).float() @ torch.nn.functional.logsigmoid(z)
            each += (given == 0).float() @ torch.nn.functional.logsigmoid(-z)
        chance = torch.softmax(each, 1)
        ability[t] = (chance * node[:]).sum(1)
        evidence[t] = torch.logsumexp(each, 1)
        for ti in tfl.tile(items):
            tfl.atomic_add(right, [ti, slice(None)], (answer[t, ti] == 1).float().T @ chance)
    return ability, right, evidence


def ensemble_ref(member: Any, seen: Any) -> Any:
    m = member.size(0)
    x = member.float().sort(0).values
    weight = (2 * torch.arange(m) - m + 1) / (m * (m - 1))
    crps = (x - seen).abs().mean(0) - (weight[:, None, None] * x).sum(0)
    rank = (x < seen).sum(0)
    return crps, torch.bincount(rank.flatten(), minlength=m + 1).int(), x.std(0).mean(1)


@stranger(
    lambda m, lat, lon: (randn(m, lon, lat, dtype=torch.float16).transpose(1, 2), randn(lat, lon)),
    ensemble_ref,
    {"m": 7, "lat": 9, "lon": 13},
    {"m": 51, "lat": 721, "lon": 1440},
)
@tileflow.kernel
def ensemble_scores(member, seen):
    """Ferro, 2014: the fair ranked probability score of a forecast's members, ranks of what came, spreads."""
    m, lat, lon = member.shape
    crps = torch.empty(lat, lon, device=seen.device)
    ranks = torch.zeros(m + 1, dtype=torch.int32, device=seen.device)
    spread = torch.zeros(lat, device=seen.device)
    for ty, tx in tfl.tile([lat, lon]):
        x, _ = torch.sort(member[:, ty, tx].float(), 0)
        y = seen[ty, tx]
        weight = (2 * tfl.arange(m) - m + 1) / (m * (m - 1))
        crps[ty, tx] = (x - y).abs().mean(0) - (weight[:, None, None] * x).sum(0)
        tfl.atomic_add(ranks, [(x < y).sum(0)], 1)
        tfl.atomic_add(spread, [ty], x.std(0).sum(1) / lon)
    return crps, ranks, spread


def keys_ref(query: Any, key: Any, value: Any, top: int) -> Any:
    b, heads, _, _ = query.shape
    n = key.size(2)
    out, hits = torch.zeros(b, value.size(1)), torch.zeros(n * n, dtype=torch.int64)
    for h in range(heads):
        (s1, i1), (s2, i2) = (torch.topk(query[:, h, k].float() @ key[h, k].float().T, top) for k in range(2))
        score, pair = torch.topk((s1[:, :, None] + s2[:, None, :]).flatten(1), top)
        place = i1.gather(1, pair // top) * n + i2.gather(1, pair % top)
        hits += torch.bincount(place.flatten(), minlength=n * n)
        out += torch.einsum("bk,bkd->bd", torch.softmax(score, 1), value[place].float())
    return out.to(value.dtype), hits.int()


@stranger(
    lambda b, heads, n, d, wide, top: (
        randn(b, heads, 2, d).bfloat16(),
        randn(heads, 2, n, d).mul(d**-0.5).bfloat16(),
        randn(n * n, wide).bfloat16(),
        top,
    ),
    keys_ref,
    {"b": 13, "heads": 2, "n": 8, "d": 16, "wide": 24, "top": 4},
    {"b": 8192, "heads": 4, "n": 256, "d": 128, "wide": 768, "top": 16},
)
@tileflow.kernel
def product_keys(query, key, value, top: tfl.constexpr):
    """Lample et al., 2019: the best of n * n values by the best of two times n keys, mixed by a softmax; their use."""
    b, heads, _, _ = query.shape
    n = key.size(2)
    out = torch.empty(b, value.size(1), dtype=value.dtype, device=value.device)
    hits = torch.zeros(n * n, dtype=torch.int32, device=value.device)
    share = torch.empty(b, heads, top, device=value.device)
    places = torch.empty(b, heads, top, dtype=torch.int32, device=value.device)
    for t, th in tfl.tile([b, heads], block_size=[None, 1]):
        h = th.begin
        s1, i1 = torch.topk(tfl.dot(query[t, h, 0, :], key[h, 0, :, :].T), top, dim=1)
        s2, i2 = torch.topk(tfl.dot(query[t, h, 1, :], key[h, 1, :, :].T), top, dim=1)
        score, pair = torch.topk((s1[:, :, None] + s2[:, None, :]).flatten(1), top, dim=1)
        place = torch.gather(i1, 1, pair // top) * n + torch.gather(i2, 1, pair % top)
        tfl.atomic_add(hits, [place], 1)
        share[t, h, :] = torch.softmax(score, 1)
        places[t, h, :] = place
    for t, tc in tfl.tile([b, value.size(1)]):
        total = tfl.zeros([t, tc])
        for h in range(heads):
            for k in range(top):
                total += share[t, h, k][:, None] * value[places[t, h, k], tc]
        out[t, tc] = total
    return out, hits


def bases(x, knots):
    """Of the four cubic B-splines at each x, and of the first one's number."""
    u = torch.clamp((x + 1) * (knots / 2), 0, knots - 1e-4)
    cell = torch.floor(u)
    f = u - cell
    g = 1 - f
    return cell.int(), (g**3 / 6, (4 - 6 * f**2 + 3 * f**3) / 6, (4 - 6 * g**2 + 3 * g**3) / 6, f**3 / 6)


def spline_ref(x: Any, coefficient: Any, base: Any) -> Any:
    knots = coefficient.size(1) - 3
    cell, parts = bases(x.float(), knots)
    basis = torch.zeros(*x.shape, knots + 3)
    for k, part in enumerate(parts):
        basis.scatter_(2, (cell.long() + k)[..., None], part[..., None])
    out = torch.einsum("big,igo->bo", basis, coefficient.float())
    return (out + torch.nn.functional.silu(x.float()) @ base.float()).to(x.dtype)


@stranger(
    lambda b, i, knots, o: (
        (torch.rand(b, i) * 2 - 1).half(),
        randn(i, knots + 3, o).mul(0.1).half(),
        randn(i, o).mul(0.1).half(),
    ),
    spline_ref,
    {"b": 21, "i": 10, "knots": 5, "o": 18},
    {"b": 8192, "i": 784, "knots": 5, "o": 512},
)
@tileflow.kernel
def spline_layer(x, coefficient, base):
    """Liu et al., 2024 (Kolmogorov-Arnold): a spline between each input and output, as products with eight bases."""
    b, inputs = x.shape
    bins, outputs = coefficient.shape[1:]
    out = torch.empty(b, outputs, dtype=x.dtype, device=x.device)
    for tb, to in tfl.tile([b, outputs]):
        acc = tfl.zeros([tb, to])
        for ti in tfl.tile(inputs):
            here = x[tb, ti].float()
            cell, parts = bases(here, bins - 3)
            for g in range(bins):
                basis = tfl.zeros([tb, ti])
                for k in range(4):
                    basis = torch.where(cell + k == g, parts[k], basis)
                acc = tfl.dot(basis.half(), coefficient[ti, g, to], acc=acc)
            acc = tfl.dot(torch.nn.functional.silu(here).half(), base[ti, to], acc=acc)
        out[tb, to] = acc
    return out


def slots_ref(slot: Any, k: Any, v: Any) -> Any:
    d = k.size(2)
    share = torch.softmax(torch.einsum("bnd,bsd->bns", k.float(), slot.float()) * d**-0.5, 2) + 1e-8
    mean = torch.einsum("bns,bnd->bsd", share, v.float()) / share.sum(1)[:, :, None]
    return mean.to(v.dtype), share.argmax(2).to(torch.uint8)


@stranger(
    lambda b, n, s, d: (randn(b, s, d).bfloat16(), randn(b, n, d).bfloat16(), randn(b, d, n).bfloat16().mT),
    slots_ref,
    {"b": 3, "n": 37, "s": 7, "d": 16},
    {"b": 128, "n": 4096, "s": 11, "d": 64},
)
@tileflow.kernel
def slot_means(slot, k, v):
    """Locatello et al., 2020: slots compete for each place of a picture; each takes the mean of what it won."""
    b, n, d = k.shape
    slots = slot.size(1)
    out = torch.empty_like(slot)
    owner = torch.empty(b, n, dtype=torch.uint8, device=k.device)
    for i in tfl.grid(b):
        query = slot[i, :, :]
        total = tfl.zeros([slots, d])
        weight = tfl.zeros([slots])
        for tn in tfl.tile(n):
            share = torch.softmax(tfl.dot(k[i, tn, :], query.T) * d**-0.5, 1) + 1e-8
            owner[i, tn] = torch.argmax(share, 1).to(torch.uint8)
            total += share.T.to(v.dtype) @ v[i, tn, :]
            weight += share.sum(0)
        out[i, :, :] = total / weight[:, None]
    return out, owner


def scatter_ref(x: Any, scale: Any, label: Any, classes: int) -> Any:
    y = x.float() * scale[:, None]
    count = torch.bincount(label.long(), minlength=classes)
    total = torch.zeros(classes, x.size(1), dtype=y.dtype).index_add(0, label.long(), y)
    return total / count.clamp(min=1)[:, None], y.T @ y / len(y), count.int()


@stranger(
    lambda n, d, classes: (
        randn(n, d).to(torch.float8_e4m3fn),
        torch.rand(n) + 0.5,
        torch.randint(0, classes, (n,)).to(torch.int16),
        classes,
    ),
    scatter_ref,
    {"n": 75, "d": 16, "classes": 5},
    {"n": 1_500_000, "d": 128, "classes": 1000},
)
@tileflow.kernel
def class_scatter(x, scale, label, classes):
    """Fisher, 1936: means of classes and second moments of many short rows, kept as 8-bit floats with a scale each."""
    n, d = x.shape
    mean = torch.zeros(classes, d, device=x.device)
    moment = torch.zeros(d, d, device=x.device)
    count = torch.zeros(classes, dtype=torch.int32, device=x.device)
    for t in tfl.tile(n):
        y = x[t, :].float() * scale[t][:, None]
        who = label[t].int()
        tfl.atomic_add(mean, [who, slice(None)], y)
        tfl.atomic_add(count, [who], 1)
        tfl.atomic_add(moment, [slice(None), slice(None)], y.T @ y / n)
    for t in tfl.tile(classes):
        mean[t, :] = mean[t, :] / torch.clamp(count[t], min=1)[:, None]
    return mean, moment, count


def make_spectra(toys: Any, seen: Any, true: Any, turns: Any) -> Any:
    i, j = torch.arange(seen)[:, None] / seen, torch.arange(true) / true
    response = 0.9 * torch.softmax(-((i - j) ** 2) * 200, 0)
    return torch.floor(torch.rand(toys, seen) * 400), response, torch.full((true,), 100.0), turns


def spectra_ref(data: Any, response: Any, prior: Any, turns: int) -> Any:
    found = prior.expand(data.size(0), -1)
    for _ in range(turns):
        found = found / response.sum(0) * ((data / (found @ response.T)) @ response)
    folded = found @ response.T
    return found, ((data - folded) ** 2 / folded).sum(1), found.mean(0)


@stranger(
    make_spectra,
    spectra_ref,
    {"toys": 21, "seen": 13, "true": 9, "turns": 3},
    {"toys": 100_000, "seen": 120, "true": 80, "turns": 4},
)
@tileflow.kernel
def unfold_spectra(data, response, prior, turns):
    """D'Agostini, 1995: spectra as they were before the detector, by Bayes' theorem, over and over, for many toys."""
    toys, true = data.size(0), response.size(1)
    out = torch.empty(toys, true, device=data.device)
    chi2 = torch.empty(toys, device=data.device)
    mean = torch.zeros(true, device=data.device)
    for t in tfl.tile(toys):
        r = response[:, :]
        seen = data[t, :]
        efficiency = r.sum(0)
        found = tfl.zeros([t, true]) + prior[:]
        for _ in range(turns):
            found = found / efficiency * ((seen / (found @ r.T)) @ r)
        folded = found @ r.T
        out[t, :] = found
        chi2[t] = ((seen - folded) ** 2 / folded).sum(1)
        tfl.atomic_add(mean, [slice(None)], found.sum(0) / toys)
    return out, chi2, mean
