"""Books of accounts: running balances, postings, lots, loans, bonds, debts that fall due and that cancel, digits."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_days(branches: Any, n: Any) -> Any:
    return (
        torch.randint(-90_000, 100_000, (branches, n)),
        torch.rand(branches, n) < 0.2,
        torch.randint(0, 50_000, (branches,)),
    )


def balances_ref(amount: Any, opens: Any, limit: Any) -> Any:
    balance = torch.empty_like(amount)
    held = torch.zeros_like(amount[:, 0])
    for i in range(amount.size(1)):
        held = torch.where(opens[:, i], 0, held) + amount[:, i]
        balance[:, i] = held
    over = balance < -limit[:, None]
    first = torch.where(over.any(1), over.int().argmax(1), -1)
    return balance, over.sum(1), first


def follow(a_new: Any, a: Any, b_new: Any, b: Any) -> Any:
    return a_new | b_new, torch.where(b_new, b, a + b)


@stranger(make_days, balances_ref, {"branches": 7, "n": 29}, {"branches": 16384, "n": 2048})
@tileflow.kernel
def running_balances(amount, opens, limit):
    """Cents in many branches' journals, sorted by account: the balance after each entry, and who overdraws first."""
    branches = amount.size(0)
    balance = torch.empty_like(amount)
    count = torch.empty(branches, dtype=torch.int64, device=amount.device)
    first = torch.empty(branches, dtype=torch.int64, device=amount.device)
    for t in tfl.tile(branches):
        _, held = tfl.associative_scan(follow, (opens[t, :], amount[t, :]), dim=1)
        balance[t, :] = held
        over = held < -limit[t][:, None]
        count[t] = over.sum(1)
        first[t] = torch.where(over.any(1), over.int().argmax(1), -1)
    return balance, count, first


def make_journal(accounts: Any, lines: Any, journals: Any) -> Any:
    account = torch.arange(accounts)
    return (
        torch.where(account > 0, (account - 1) // 3, -1).int(),
        torch.randint(0, accounts, (lines,)).int(),
        torch.randint(0, journals, (lines,)).to(torch.int16),
        torch.randint(-100_000, 100_000, (lines, 2)),
        journals,
    )


def trial_ref(parent: Any, account: Any, journal: Any, entry: Any, journals: int) -> Any:
    net = entry[:, 0] - entry[:, 1]
    total = torch.zeros(parent.numel(), dtype=torch.int64)
    for a, amount in zip(account.tolist(), net.tolist(), strict=True):
        while a >= 0:
            total[a] += amount
            a = int(parent[a])
    off = torch.zeros(journals, dtype=torch.int64).index_add(0, journal.long(), net)
    return total, off != 0


@stranger(
    make_journal,
    trial_ref,
    {"accounts": 23, "lines": 41, "journals": 5},
    {"accounts": 4096, "lines": 1 << 22, "journals": 8192},
    loops=True,
)
@tileflow.kernel
def trial_balance(parent, account, journal, entry, journals: int):
    """Pacioli, 1494: debits less credits of each account and of all above it, and the journals that do not balance."""
    lines = account.numel()
    total = torch.zeros(parent.numel(), dtype=torch.int64, device=entry.device)
    off = torch.zeros(journals, dtype=torch.int64, device=entry.device)
    wrong = torch.empty(journals, dtype=torch.bool, device=entry.device)
    for t in tfl.tile(lines):
        net = entry[t, 0] - entry[t, 1]
        tfl.atomic_add(total, [account[t]], net)
        tfl.atomic_add(off, [journal[t]], net)
    for t in tfl.tile(journals):
        wrong[t] = off[t] != 0
    rolled = torch.zeros_like(total)
    for i in tfl.grid(parent.numel()):
        at = i
        while at >= 0:
            tfl.atomic_add(rolled, [at], total[i])
            at = parent[at]
    return rolled, wrong


def make_lots(items: Any, lots: Any, sales: Any) -> Any:
    bought = torch.randint(1, 50, (items, lots)).int()
    sold = torch.randint(1, 20, (items, sales)).int()
    return bought, torch.randint(100, 900, (items, lots)).int(), sold


def fifo_ref(bought: Any, price: Any, sold: Any) -> Any:
    end, stop = bought.long().cumsum(1), sold.long().cumsum(1)
    low = torch.maximum((end - bought)[:, None, :], (stop - sold)[:, :, None])
    high = torch.minimum(end[:, None, :], stop[:, :, None])
    cost = ((high - low).clamp(min=0) * price[:, None, :]).sum(2)
    left = (end - torch.maximum(end - bought, stop[:, -1:])).clamp(min=0)
    return cost, left.int(), (left * price).sum(1)


@stranger(make_lots, fifo_ref, {"items": 5, "lots": 11, "sales": 13}, {"items": 65536, "lots": 32, "sales": 96})
@tileflow.kernel
def fifo_lots(bought, price, sold):
    """First in, first out: what each sale's goods had cost, what is left of each lot, and what that is worth."""
    items, sales = sold.shape
    lots = bought.size(1)
    cost = torch.empty(items, sales, dtype=torch.int64, device=sold.device)
    left = torch.empty(items, lots, dtype=torch.int32, device=sold.device)
    worth = torch.empty(items, dtype=torch.int64, device=sold.device)
    for t in tfl.tile(items):
        q, p = bought[t, :], price[t, :]
        end = torch.cumsum(q, 1)
        start = end - q
        stop = torch.cumsum(sold[t, :], 1)
        low = torch.maximum(start[:, None, :], (stop - sold[t, :])[:, :, None])
        high = torch.minimum(end[:, None, :], stop[:, :, None])
        cost[t, :] = (torch.clamp(high - low, min=0) * p[:, None, :]).sum(2)
        rest = torch.clamp(end - torch.maximum(start, stop[:, -1][:, None]), min=0)
        left[t, :] = rest
        worth[t] = (rest * p).sum(1)
    return cost, left, worth


def make_loans(n: Any, months: Any, extra: Any) -> Any:
    return (
        torch.randint(100_000, 50_000_000, (n,)).double(),
        torch.rand(n, dtype=torch.float64) * 0.01,
        torch.randint(1, months + 1, (n,)).int(),
        torch.randint(0, 90_000, (n,)).double() if extra else None,
        months,
    )


def loans_ref(debt: Any, rate: Any, term: Any, extra: Any, months: int) -> Any:
    pay = (debt * rate / (1 - (1 + rate) ** -term.double())).ceil()
    pay = pay if extra is None else pay + extra
    interest = torch.zeros_like(debt)
    last = torch.zeros_like(term)
    for month in range(months):
        fee = (debt * rate).round()
        open_ = debt > 0
        paid = torch.minimum(pay, debt + fee)
        interest = torch.where(open_, interest + fee, interest)
        debt = torch.where(open_, debt + fee - paid, debt)
        last = torch.where(open_ & (debt <= 0), month + 1, last)
    return interest.long(), last, pay.long()


@stranger(make_loans, loans_ref, {"n": 33, "months": 19, "extra": True}, {"n": 1 << 20, "months": 360, "extra": False})
@tileflow.kernel
def loan_schedules(debt, rate, term, extra, months: int):
    """Annuities in whole cents, interest rounded each month: all interest, and the month of the last payment."""
    n = debt.numel()
    interest = torch.empty(n, dtype=torch.int64, device=debt.device)
    last = torch.empty_like(term)
    payment = torch.empty_like(interest)
    for t in tfl.tile(n):
        owed, r = debt[t], rate[t]
        pay = torch.ceil(owed * r / (1 - (1 + r) ** -term[t].double()))
        if extra is not None:
            pay += extra[t]
        cost = tfl.zeros([t], dtype=torch.float64)
        end = tfl.zeros([t], dtype=torch.int32)
        for month in range(months):
            fee = torch.round(owed * r)
            running = owed > 0
            after = torch.clamp(owed + fee - pay, min=0)
            cost += torch.where(running, fee, 0)
            owed = torch.where(running, after, owed)
            end = torch.where(running & (owed <= 0), month + 1, end)
        interest[t] = cost
        last[t] = end
        payment[t] = pay
    return interest, last, payment


def make_bonds(n: Any) -> Any:
    count = torch.randint(1, 61, (n,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), count.cumsum(0)]).int()
    flows = 30 * n if offsets.is_meta else int(offsets[-1])
    cash = torch.rand(flows) * 4 + 1
    when = torch.rand(flows) * 30
    if not offsets.is_meta:
        cash[offsets[1:].long() - 1] += 100
    return offsets, cash, when, 60 + 50 * torch.rand(n)


def bonds_ref(offsets: Any, cash: Any, when: Any, price: Any) -> Any:
    at = torch.repeat_interleave(torch.arange(price.numel()), offsets.long().diff())
    y = torch.full_like(price, 0.05)
    for _ in range(8):
        value = cash * torch.exp(-y[at] * when)
        pv = torch.zeros_like(price).index_add(0, at, value)
        slope = torch.zeros_like(price).index_add(0, at, value * when)
        y = (y + ((pv - price) / slope).clamp(-0.05, 0.05)).clamp(-0.5, 2.0)
    value = cash * torch.exp(-y[at] * when)
    pv = torch.zeros_like(price).index_add(0, at, value)
    return y, torch.zeros_like(price).index_add(0, at, value * when) / pv


def present(cash, when, start, length, y, t):
    """Value and its slope of each bond of a tile at its yield."""
    value, slope = tfl.zeros([t]), tfl.zeros([t])
    for j in tfl.jagged_tile(length):
        at = start[:, None] + j.index[None, :]
        each = cash[at] * torch.exp(-y[:, None] * when[at])
        value += each.sum(1)
        slope += (each * when[at]).sum(1)
    return value, slope


@stranger(make_bonds, bonds_ref, {"n": 17}, {"n": 1 << 18})
@tileflow.kernel
def bond_yields(offsets, cash, when, price):
    """Macaulay, 1938: the yield at which each bond's payments are worth its price, by Newton, and its duration."""
    n = price.numel()
    out = torch.empty_like(price)
    duration = torch.empty_like(price)
    for t in tfl.tile(n):
        start = offsets[t]
        length = offsets[t + 1] - start
        y = tfl.full([t], 0.05)
        for _ in range(8):
            value, slope = present(cash, when, start, length, y, t)
            step = torch.clamp((value - price[t]) / slope, -0.05, 0.05)
            y = torch.clamp(y + step, -0.5, 2.0)
        value, slope = present(cash, when, start, length, y, t)
        out[t] = y
        duration[t] = slope / value
    return out, duration


def make_invoices(n: Any, customers: Any, currencies: Any) -> Any:
    table = torch.stack(
        [torch.randint(0, customers, (n,)), torch.randint(0, 400, (n,)), torch.randint(-500, 9000, (n,))], 1
    )
    rate = torch.rand(currencies, dtype=torch.float64) + 0.5 if currencies else None
    money = torch.randint(0, currencies, (n,)).to(torch.uint8) if currencies else None
    return table.int(), 300, (0, 30, 60, 90), customers, rate, money


def aged_ref(table: Any, today: int, edges: Any, customers: int, rate: Any, money: Any) -> Any:
    who, due, cents = (c.long() for c in table.unbind(1))
    bucket = torch.bucketize(today - due, torch.tensor(edges), right=True)
    value = cents.double() if rate is None else (cents * rate[money.long()]).round()
    out = torch.zeros(customers * 5, dtype=torch.float64).index_add(0, who * 5 + bucket, value)
    return out.view(customers, 5).long()


@stranger(
    make_invoices,
    aged_ref,
    {"n": 61, "customers": 7, "currencies": 3},
    {"n": 1 << 23, "customers": 50_000, "currencies": 0},
)
@tileflow.kernel
def aged_receivables(table, today: int, edges, customers: int, rate=None, money=None):
    """What each customer owes by how long it is overdue: not yet, up to 30 days, up to 60, up to 90, longer."""
    n = table.size(0)
    out = torch.zeros(customers, len(edges) + 1, dtype=torch.int64, device=table.device)
    for t in tfl.tile(n):
        who, due, cents = table[t, 0], table[t, 1], table[t, 2]
        bucket = sum([(today - due >= edge).int() for edge in edges])
        if rate is None:
            value = cents.long()
        else:
            value = torch.round(cents * rate[money[t]]).long()
        tfl.atomic_add(out, [who, bucket], value)
    return out


def netting_ref(owed: Any) -> Any:
    net = owed - owed.transpose(1, 2)
    pays = net.clamp(min=0)
    gross = owed.sum((1, 2))
    return pays, net.sum(2), 1 - pays.sum((1, 2)) / gross


@stranger(
    lambda days, n: (torch.rand(days, n, n) * 100,),
    netting_ref,
    {"days": 3, "n": 13},
    {"days": 512, "n": 384},
)
@tileflow.kernel
def bilateral_netting(owed):
    """A clearing house's days: each two members pay the difference, and how much less money moves."""
    days, n, _ = owed.shape
    pays = torch.empty_like(owed)
    position = torch.zeros(days, n, device=owed.device)
    sums = torch.zeros(days, 2, device=owed.device)
    saved = torch.empty(days, device=owed.device)
    for td, ti, tj in tfl.tile([days, n, n]):
        mine = owed[td, ti, tj]
        net = mine - owed[td, tj, ti].transpose(1, 2)
        pay = torch.clamp(net, min=0)
        pays[td, ti, tj] = pay
        tfl.atomic_add(position, [td, ti], net.sum(2))
        tfl.atomic_add(sums, [td, 0], pay.sum((1, 2)))
        tfl.atomic_add(sums, [td, 1], mine.sum((1, 2)))
    for td in tfl.tile(days):
        saved[td] = 1 - sums[td, 0] / sums[td, 1]
    return pays, position, saved


def benford_ref(cents: Any, kind: Any, kinds: int) -> Any:
    size = cents.abs()
    digits = [int(str(x)[0]) for x in size.tolist()]
    count = torch.zeros(kinds, 9, dtype=torch.int64)
    for k, d in zip(kind.tolist(), digits, strict=True):
        if d:
            count[k, d - 1] += 1
    expected = torch.log10(1 + 1 / torch.arange(1, 10, dtype=torch.float64))
    total = count.sum(1, keepdim=True)
    e = expected * total
    return count.int(), (((count - e) ** 2) / e.clamp(min=1e-9)).sum(1).float()


@stranger(
    lambda n, kinds: (
        torch.exp(torch.rand(n) * 16).long() * (torch.randint(0, 2, (n,)) * 2 - 1) * (torch.rand(n) < 0.9),
        torch.randint(0, kinds, (n,)).to(torch.uint8),
        kinds,
    ),
    benford_ref,
    {"n": 203, "kinds": 3},
    {"n": 1 << 24, "kinds": 200},
    loops=True,
)
@tileflow.kernel
def leading_digits(cents, kind, kinds: int):
    """Benford, 1938: how often amounts of each kind begin with each digit, and chi squared against his law."""
    n = cents.numel()
    count = torch.zeros(kinds, 9, dtype=torch.int32, device=cents.device)
    odd = torch.empty(kinds, device=cents.device)
    for t in tfl.tile(n):
        x = cents[t].abs()
        for ten in (10**8, 10**4, 100, 10):
            x = torch.where(x >= ten, x // ten, x)
        tfl.atomic_add(count, [kind[t], x - 1], 1, extra_mask=x > 0)
    for t in tfl.tile(kinds):
        c = count[t, :].float()
        law = torch.log10(1 + 1 / tfl.arange(1, 10).float())
        e = law * c.sum(1, keepdim=True)
        odd[t] = ((c - e) ** 2 / torch.clamp(e, min=1e-9)).sum(1)
    return count, odd
