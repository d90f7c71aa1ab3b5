"""Genomes of many people: relations by packed genotypes, words found in an index, proteins out of codons."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_genotypes(people: int, sites: int) -> Any:
    return torch.randint(0, 256, (sites, (people + 3) // 4), dtype=torch.uint8), people


def genotypes_ref(bed: Any, people: int) -> Any:
    code = torch.stack([(bed >> (2 * i)) & 3 for i in range(4)], -1).flatten(1)[:, :people].long()
    count = torch.tensor([2.0, 0.0, 1.0, 0.0], dtype=torch.float64)[code]
    known = code != 1
    freq = (count * known).sum(1) / (2 * known.sum(1)).clamp(min=1)
    scale = (2 * freq * (1 - freq)).clamp(min=1e-3).rsqrt()
    z = torch.where(known, (count - 2 * freq[:, None]) * scale[:, None], 0)
    shared = known.double().T @ known.double()
    return (z.T @ z / shared.clamp(min=1)).float(), shared.int(), freq.float()


@stranger(make_genotypes, genotypes_ref, {"people": 22, "sites": 50}, {"people": 4096, "sites": 16384})
@tileflow.kernel
def genotype_relations(bed, people: int):
    """Yang and others, 2011 (GCTA): how related people are, by standardised genotypes of two bits, some unknown."""
    sites = bed.size(0)
    freq = torch.empty(sites, device=bed.device)
    related = torch.empty(people, people, device=bed.device)
    shared = torch.empty(people, people, dtype=torch.int32, device=bed.device)

    def decode(site, person):
        byte = bed[site, person // 4]
        code = (byte >> (2 * (person % 4)).to(torch.uint8)) & 0b11
        known = code != 1
        count = torch.where(code == 0, 2.0, torch.where(code == 2, 1.0, 0.0))
        return count, known

    for ts in tfl.tile(sites):
        alleles = tfl.zeros([ts])
        total = tfl.zeros([ts], dtype=torch.int32)
        for tp in tfl.tile(people):
            count, known = decode(ts, tp.index)
            known = known & (tp.index < people)
            alleles += (count * known).sum(1)
            total += known.sum(1, dtype=torch.int32)
        freq[ts] = alleles / (2 * total).clamp(min=1)
    tfl.barrier()
    for ti, tj in tfl.tile([people, people]):
        acc = tfl.zeros([ti, tj])
        both = tfl.zeros([ti, tj])
        for ts in tfl.tile(sites):
            f = freq[ts]
            scale = (2 * f * (1 - f)).clamp(min=1e-3).rsqrt()
            (a, ka), (b, kb) = decode(ts, ti.index), decode(ts, tj.index)
            in_range = (ts.index < sites)[:, None]
            ka, kb = ka & in_range, kb & in_range
            za = torch.where(ka, (a - 2 * f[:, None]) * scale[:, None], 0.0)
            zb = torch.where(kb, (b - 2 * f[:, None]) * scale[:, None], 0.0)
            acc = acc + tfl.dot(za.T, zb)
            both = both + tfl.dot(ka.T.half(), kb.half())
        related[ti, tj] = acc / both.clamp(min=1)
        shared[ti, tj] = both.int()
    return related, shared, freq


def make_index(n: int, reads: int, length: int) -> Any:
    text = torch.randint(0, 4, (n,))
    ended = torch.cat([text, torch.tensor([-1])])
    if n < 5000:
        order = sorted(range(n + 1), key=lambda i: ended[i : i + 64].tolist())
        bwt = ended.roll(1)[torch.tensor(order)]
    else:  # of a text that takes long to sort, another that is as long
        bwt = ended.roll(n // 2)
    hits = F.one_hot(bwt + 1, 5)[:, 1:]
    occ = F.pad(hits.cumsum(0), (0, 0, 1, 0)).int()
    first = (1 + F.pad(hits.sum(0).cumsum(0), (1, 0))[:4]).int()
    at = torch.randint(0, n - length, (reads,))
    words = text[at[:, None] + torch.arange(length)].to(torch.uint8)
    words[::3, length // 2] = (words[::3, length // 2] + 1) % 4
    return occ, first, words


def index_ref(occ: Any, first: Any, words: Any) -> Any:
    reads, length = words.shape
    lo = torch.zeros(reads, dtype=torch.int32)
    hi = torch.full((reads,), len(occ) - 1, dtype=torch.int32)
    matched = torch.zeros(reads, dtype=torch.int32)
    alive = torch.ones(reads, dtype=torch.bool)
    for i in range(length - 1, -1, -1):
        c = words[:, i].long()
        a, b = first[c] + occ[lo.long(), c], first[c] + occ[hi.long(), c]
        alive = alive & (b > a)
        lo, hi = torch.where(alive, a, lo), torch.where(alive, b, hi)
        matched += alive
    return lo, hi - lo, matched.to(torch.int16)


@stranger(
    make_index,
    index_ref,
    {"n": 60, "reads": 19, "length": 7},
    {"n": 4_000_000, "reads": 1_000_000, "length": 50},
)
@tileflow.kernel
def backward_search(occ, first, words):
    """Ferragina and Manzini, 2000: the longest end of each read that the text holds, by its index, from the back."""
    reads, length = words.shape
    lowest = torch.empty(reads, dtype=torch.int32, device=words.device)
    width, matched = torch.empty_like(lowest), lowest.new_empty(reads, dtype=torch.int16)
    for t in tfl.tile(reads):
        lo, hi = tfl.zeros([t], dtype=torch.int32), tfl.full([t], len(occ) - 1, dtype=torch.int32)
        alive = torch.ones_like(lo, dtype=torch.bool)
        n = torch.zeros_like(lo, dtype=torch.int16)
        for i in reversed(range(length)):
            c = words[t, i]
            a, b = first[c] + occ[lo, c], first[c] + occ[hi, c]
            alive &= b > a
            lo, hi = lo.where(~alive, a), hi.where(~alive, b)
            n += alive
        lowest[t], width[t], matched[t] = lo, hi - lo, n
    return lowest, width, matched


CODONS = "KNKNTTTTRSRSIIMIQHQHPPPPRRRRLLLLEDEDAAAAGGGGVVVV*Y*YSSSS*CWCLFLF"


def codons_ref(bases: Any, offset: Any) -> Any:
    table = torch.tensor([ord(c) for c in CODONS], dtype=torch.uint8)
    k = bases.size(1) // 3 - 1
    code = bases.gather(1, offset[:, None].long() + torch.arange(3 * k)).unflatten(1, (k, 3)).long()
    amino = table[(code * torch.tensor([16, 4, 1])).sum(2)]
    stop = amino == ord("*")
    position = torch.where(stop, torch.arange(k), k).amin(1)
    return torch.where(torch.arange(k) < position[:, None], amino, ord("-")), position


@stranger(
    lambda rows, n: (torch.randint(0, 4, (rows, n), dtype=torch.uint8), torch.randint(0, 3, (rows,), dtype=torch.int8)),
    codons_ref,
    {"rows": 9, "n": 62},
    {"rows": 65536, "n": 3000},
)
@tileflow.kernel
def translate_codons(bases, offset):
    """Three bases to an amino acid's letter, from a frame of each row up to the first stop; gaps behind it."""
    rows, n = bases.shape
    k = n // 3 - 1
    table = torch.tensor(list(CODONS.encode("ascii")), dtype=torch.uint8, device=bases.device)
    amino = torch.full((rows, k), ord("-"), dtype=torch.uint8, device=bases.device)
    length = torch.empty(rows, dtype=torch.long, device=bases.device)
    for tr in tfl.tile(rows):
        position = tfl.full([tr], k, dtype=torch.int64)
        frame = offset[tr][:, None]
        for tk in tfl.tile(k):
            at = 3 * tk.index[None] + frame
            r = tr.index[:, None]
            code = (bases[r, at] << 4) + (bases[r, at + 1] << 2) + bases[r, at + 2]
            letters = table[code]
            seen = torch.where(letters == ord("*"), tk.index, k).amin(-1)
            position = torch.minimum(position, seen)
            amino[tr, tk] = torch.where(tk.index < position[:, None], letters, ord("-"))
        length[tr] = position
    return amino, length
