"""Automata: tables of states, shifted bits, brackets, grammars, suffixes, numerals, palindromes, words of a lexicon."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_machine(b: Any, n: Any, states: Any, classes: Any) -> Any:
    return (
        torch.randint(0, 256, (b, n), dtype=torch.uint8),
        torch.randint(0, n + 1, (b,)).to(torch.int16),
        torch.randint(0, states, (states, classes if classes else 256)).to(torch.uint8),
        torch.rand(states) < 0.3,
        torch.randint(0, classes, (256,)).to(torch.uint8) if classes else None,
    )


def machine_ref(text: Any, length: Any, table: Any, final: Any, kind: Any) -> Any:
    state = torch.zeros(text.size(0), dtype=torch.long)
    longest = torch.full_like(length, -1)
    for i in range(text.size(1)):
        byte = text[:, i].long()
        on = i < length
        state = torch.where(on, table[state, byte if kind is None else kind[byte].long()].long(), state)
        longest = torch.where(on & final[state], i + 1, longest)
    return state.to(torch.uint8), longest


@stranger(
    make_machine,
    machine_ref,
    {"b": 13, "n": 17, "states": 5, "classes": 4},
    {"b": 1 << 17, "n": 512, "states": 64, "classes": 0},
)
@tileflow.kernel
def run_machine(text, length, table, final, kind=None):
    """A finite automaton over texts of many lengths: where it ends, and the longest prefix that it accepts."""
    b, n = text.shape
    end = torch.empty(b, dtype=torch.uint8, device=text.device)
    longest = torch.empty_like(length)
    for t in tfl.tile(b):
        state = tfl.zeros([t], dtype=torch.uint8)
        accepted = tfl.full([t], -1, dtype=torch.int16)
        for i in range(n):
            letter = text[t, i]
            if kind is not None:
                letter = kind[letter]
            on = i < length[t]
            state = torch.where(on, table[state, letter], state)
            accepted = torch.where(on & final[state], i + 1, accepted)
        end[t] = state
        longest[t] = accepted
    return end, longest


def make_patterns(texts: Any, n: Any, patterns: Any) -> Any:
    mask = torch.randint(0, 1 << 40, (patterns, 16)) & torch.randint(0, 1 << 40, (patterns, 16))
    mask = mask | torch.randint(0, 1 << 40, (patterns, 16)) | 1
    return (
        torch.randint(0, 16, (n, texts), dtype=torch.uint8),
        mask,
        torch.randint(3, 9, (patterns,)).to(torch.uint8),
        2,
    )


def fuzzy_ref(text: Any, mask: Any, length: Any, errors: int) -> Any:
    n, texts = text.shape
    count = torch.zeros(texts, mask.size(0), errors + 1, dtype=torch.int32)
    for p in range(mask.size(0)):
        goal = 1 << (int(length[p]) - 1)
        rows = [torch.full((texts,), (1 << k) - 1, dtype=torch.int64) for k in range(errors + 1)]
        for i in range(n):
            m = mask[p, text[i].long()]
            before = rows[0]
            rows[0] = ((before << 1) | 1) & m
            for k in range(1, errors + 1):
                old = rows[k]
                rows[k] = (((old << 1) | 1) & m) | before | ((before | rows[k - 1]) << 1) | 1
                before = old
            for k in range(errors + 1):
                count[:, p, k] += ((rows[k] & goal) != 0).int()
    return count


@stranger(
    make_patterns,
    fuzzy_ref,
    {"texts": 7, "n": 11, "patterns": 3},
    {"texts": 16384, "n": 1000, "patterns": 64},
    loops=True,
)
@tileflow.kernel
def fuzzy_matches(text, mask, length, errors: tfl.constexpr):
    """Wu and Manber, 1992: how often each pattern is met with at most so many errors, a bit for each of its letters."""
    n, texts = text.shape
    patterns = mask.size(0)
    count = torch.empty(texts, patterns, errors + 1, dtype=torch.int32, device=text.device)
    for tt, tp in tfl.tile([texts, patterns]):
        goal = (1 << (length[tp].long() - 1))[None, :]
        rows = [tfl.full([tt, tp], (1 << k) - 1, dtype=torch.int64) for k in range(errors + 1)]
        sums = [tfl.zeros([tt, tp], dtype=torch.int32) for _ in range(errors + 1)]
        for i in range(n):
            m = mask[tp, text[i, tt]].T
            before = rows[0]
            rows[0] = ((before << 1) | 1) & m
            for k in tfl.static_range(1, errors + 1):
                old = rows[k]
                rows[k] = (((old << 1) | 1) & m) | before | ((before | rows[k - 1]) << 1) | 1
                before = old
            for k, row in enumerate(rows):
                sums[k] += (row & goal) != 0
        for k in range(errors + 1):
            count[tt, tp, k] = sums[k]
    return count


def brackets_ref(text: Any) -> Any:
    b, n = text.shape
    match = torch.full((b, n), -1, dtype=torch.int16)
    deepest = torch.zeros(b, dtype=torch.int32)
    for r in range(b):
        stack: list[int] = []
        for i, c in enumerate(text[r].tolist()):
            if c == 40:
                stack.append(i)
                deepest[r] = max(int(deepest[r]), len(stack))
            elif c == 41 and stack:
                j = stack.pop()
                match[r, i], match[r, j] = j, i
    return match, deepest


def make_brackets(b: Any, n: Any) -> Any:
    kind = torch.where(torch.rand(b, n) < 0.5, 40, 97).to(torch.uint8)
    half = n // 2  # as many close behind as open before, in another order
    closed = torch.where(kind[:, :half] == 40, 41, 97).to(torch.uint8)
    front = kind[:, :half]
    return (torch.cat([front, closed.flip(1)], 1),)


@stranger(make_brackets, brackets_ref, {"b": 5, "n": 14}, {"b": 16384, "n": 1024}, loops=True)
@tileflow.kernel
def match_brackets(text):
    """The partner of each bracket: brackets sorted by depth, in their order, lie pair by pair."""
    b, n = text.shape
    match = torch.full((b, n), -1, dtype=torch.int16, device=text.device)
    deepest = torch.empty(b, dtype=torch.int32, device=text.device)
    for t in tfl.tile(b):
        c = text[t, :]
        opens, closes = c == 40, c == 41
        depth = torch.cumsum(opens.int() - closes.int(), 1) + closes.int()
        inside = opens | closes
        key = torch.where(inside, depth, n).int()
        order = torch.argsort(key, dim=1, stable=True)
        there = torch.gather(inside, 1, order)
        pair = order.reshape(t, n // 2, 2)
        both = there.reshape(t, n // 2, 2)
        partner = torch.flip(pair, [2]).reshape(t, n)
        tfl.store(match, [t.index[:, None], order], partner, extra_mask=both.reshape(t, n))
        deepest[t] = torch.where(inside, depth, 0).amax(1)
    return match, deepest


def make_sentences(b: Any, n: Any, rules: Any, words: Any) -> Any:
    return (
        torch.randint(0, words, (b, n)).to(torch.uint8),
        torch.randint(0, 1 << 16, (words,)).int() & torch.randint(0, 1 << 16, (words,)).int(),
        torch.randint(0, 16, (rules, 3)).to(torch.uint8),
    )


def parse_ref(word: Any, leaf: Any, rule: Any) -> Any:
    b, n = word.shape
    chart = torch.zeros(b, n, n, dtype=torch.int32)
    chart[:, range(n), range(n)] = leaf[word.long()]
    for span in range(1, n):
        for i in range(n - span):
            found = torch.zeros(b, dtype=torch.int32)
            for k in range(i, i + span):
                left, right = chart[:, i, k], chart[:, k + 1, i + span]
                for a, x, y in rule.tolist():
                    found |= (left >> x & 1) * (right >> y & 1) << a
            chart[:, i, i + span] = found
    return chart


@stranger(
    make_sentences,
    parse_ref,
    {"b": 5, "n": 6, "rules": 9, "words": 12},
    {"b": 16384, "n": 24, "rules": 60, "words": 4096},
    loops=True,
)
@tileflow.kernel
def parse_chart(word, leaf, rule):
    """Cocke, Younger and Kasami: which of sixteen symbols each stretch of a sentence can be, as bits."""
    b, n = word.shape
    chart = torch.zeros(b, n, n, dtype=torch.int32, device=word.device)
    for t in tfl.tile(b):
        for i in range(n):
            chart[t, i, i] = leaf[word[t, i]]
        for span in range(1, n):
            for i in range(n - span):
                found = tfl.zeros([t], dtype=torch.int32)
                for k in range(i, i + span):
                    left, right = chart[t, i, k], chart[t, k + 1, i + span]
                    for r in range(rule.size(0)):
                        made = (left >> rule[r, 1]) & (right >> rule[r, 2]) & 1
                        found |= made << rule[r, 0]
                chart[t, i, i + span] = found
    return chart


def suffixes_ref(text: Any) -> Any:
    b, n = text.shape
    out = torch.empty(b, n, dtype=torch.int32)
    for r in range(b):
        row = text[r].tolist()
        out[r] = torch.tensor(sorted(range(n), key=lambda i: row[i:]))
    return out


@stranger(
    lambda b, n: (torch.randint(0, 3, (b, n), dtype=torch.uint8),),
    suffixes_ref,
    {"b": 3, "n": 13},
    {"b": 4096, "n": 1000},
)
@tileflow.kernel
def suffix_order(text):
    """Manber and Myers, 1990: suffixes in order, by ranks of prefixes that double in length."""
    b, n = text.shape
    out = torch.empty(b, n, dtype=torch.int32, device=text.device)
    rank = torch.empty(b, n, dtype=torch.int32, device=text.device)
    for t in tfl.tile(b):
        rank[t, :] = text[t, :].int()
        reach = 1
        while reach < 2 * n:
            place = tfl.arange(n)[None, :]
            ahead = tfl.load(rank, [t.index[:, None], place + reach // 2], other=-1) if reach > 1 else place * 0
            key = rank[t, :] * (n + 256) + ahead + 1
            value, order = torch.sort(key, dim=1)
            new = (value != torch.roll(value, 1, 1)) & (tfl.arange(n) > 0)
            rank[t.index[:, None], order] = torch.cumsum(new.int(), 1).int()
            out[t, :] = order
            reach *= 2
    return out


def make_numerals(n: Any, width: Any) -> Any:
    value = torch.randint(-99_999, 100_000, (n,))
    value = torch.where(torch.rand(n) < 0.1, 0, value)
    if value.is_meta:
        return (torch.empty(n, width, dtype=torch.uint8),)
    rows = [f"{v / 100:>{width}.2f}".encode() for v in value.tolist()]
    rows[1] = b"x" * width
    return (torch.tensor([list(r) for r in rows], dtype=torch.uint8),)


def numerals_ref(text: Any) -> Any:
    out = []
    for row in text.tolist():
        try:
            out.append(float(bytes(row)))
        except ValueError:
            out.append(float("nan"))
    return torch.tensor(out, dtype=torch.float64), sum(x != x for x in out)


def joined(a_scale, a, b_scale, b):
    return a_scale * b_scale, a * b_scale + b


@stranger(
    make_numerals,
    lambda text: (numerals_ref(text)[0], torch.tensor(numerals_ref(text)[1], dtype=torch.int32)),
    {"n": 37, "width": 11},
    {"n": 1 << 22, "width": 16},
    loops=True,
)
@tileflow.kernel
def parse_numerals(text):
    """A column of decimal numbers of one width as doubles, NaN where a field is none, and how many are none."""
    n = text.size(0)
    out = torch.empty(n, dtype=torch.float64, device=text.device)
    bad = torch.zeros((), dtype=torch.int32, device=text.device)
    for t in tfl.tile(n):
        c = text[t, :]
        digit = (c >= 48) & (c <= 57)
        point, minus, blank = c == 46, c == 45, c == 32
        scale = torch.where(digit, 10, 1).long()
        value = torch.where(digit, c.long() - 48, 0)
        _, sums = tfl.associative_scan(joined, (scale, value), dim=1)
        behind = torch.cumsum(point.int(), 1)
        places = (digit & (behind > 0)).sum(1)
        tens = torch.cumprod(torch.where(digit & (behind > 0), 10.0, 1.0).double(), 1)[:, -1]
        number = sums[:, -1].double() / tens
        fine = (digit | point | minus | blank).all(1) & (point.sum(1) <= 1) & digit.any(1) & (places >= 0)
        number = torch.where(minus.any(1), -number, number)
        out[t] = torch.where(fine, number, float("nan"))
        tfl.atomic_add(bad, [], (~fine).sum())
    return out, bad


def palindromes_ref(text: Any) -> Any:
    row, n = text.tolist(), text.numel()
    out = torch.zeros(2 * n - 1, dtype=torch.int32)
    for centre in range(2 * n - 1):
        i, j = centre // 2, (centre + 1) // 2
        while i >= 0 and j < n and row[i] == row[j]:
            i, j = i - 1, j + 1
        out[centre] = j - i - 1
    return out, out.max()


@stranger(
    lambda n: (torch.randint(0, 2, (n,), dtype=torch.uint8),),
    palindromes_ref,
    {"n": 23},
    {"n": 1 << 20},
    loops=True,
)
@tileflow.kernel
def palindromes(text):
    """The longest palindrome around each letter and each gap, letter by letter outwards."""
    n = text.numel()
    out = torch.empty(2 * n - 1, dtype=torch.int32, device=text.device)
    longest = torch.zeros((), dtype=torch.int32, device=text.device)
    for centre in tfl.grid(2 * n - 1):
        i = centre // 2
        j = (centre + 1) // 2
        while i >= 0 and j < n and text[i] == text[j]:
            i -= 1
            j += 1
        out[centre] = j - i - 1
        tfl.atomic_max(longest, [], j - i - 1)
    return out, longest


def make_lexicon(b: Any, n: Any, most: Any, slots: Any) -> Any:
    return (
        torch.randint(97, 101, (b, n), dtype=torch.uint8),
        randn(slots).abs().neg().to(torch.bfloat16),
        most,
    )


def hashed_ref(text: Any, most: int) -> Any:
    """By the end and the length of a word its hash."""
    b, n = text.shape
    out = torch.zeros(b, n, most, dtype=torch.int64)
    for length in range(1, most + 1):
        for end in range(length - 1, n):
            h = torch.full((b,), 2166136261, dtype=torch.int64)
            for i in range(length):
                h = ((h ^ text[:, end - i].long()) * 16777619) & 0xFFFFFFFF
            out[:, end, length - 1] = h
    return out


def lexicon_ref(text: Any, score: Any, most: int) -> Any:
    b, n = text.shape
    h = hashed_ref(text, most) % score.numel()
    best = torch.zeros(b, n + 1)
    back = torch.zeros(b, n, dtype=torch.uint8)
    for end in range(n):
        tries = torch.stack([best[:, end - k] + score[h[:, end, k]].float() for k in range(min(most, end + 1))], 1)
        best[:, end + 1], at = tries.max(1)
        back[:, end] = at + 1
    return best[:, -1], back


@stranger(
    make_lexicon,
    lexicon_ref,
    {"b": 9, "n": 11, "most": 3, "slots": 97},
    {"b": 65536, "n": 128, "most": 8, "slots": 65521},
)
@tileflow.kernel
def unigram_cuts(text, score, most: int):
    """Kudo, 2018: the likeliest way to cut a text into words, whose scores a hash of their letters finds."""
    b, n = text.shape
    best = torch.zeros(b, n + 1, device=text.device)
    back = torch.empty(b, n, dtype=torch.uint8, device=text.device)
    final = torch.empty(b, device=text.device)
    for t in tfl.tile(b):
        for end in range(n):
            h = tfl.full([t], 2166136261, dtype=torch.int64)
            top = tfl.full([t], float("-inf"))
            cut = tfl.zeros([t], dtype=torch.uint8)
            for k in range(min(most, end + 1)):
                h = ((h ^ text[t, end - k]) * 16777619) & 0xFFFFFFFF
                value = best[t, end - k] + score[h % score.numel()]
                better = value > top
                top = torch.where(better, value, top)
                cut = torch.where(better, k + 1, cut)
            best[t, end + 1] = top
            back[t, end] = cut
        final[t] = best[t, n]
    return final, back
