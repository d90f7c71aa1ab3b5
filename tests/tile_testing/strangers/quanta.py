"""Quanta: stabiliser tableaus, integrals of Gaussians, mean fields of electrons, open systems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def stabiliser_ref(x: Any, z: Any, sign: Any, gates: Any) -> Any:
    x, z, sign = x.clone(), z.clone(), sign.clone()
    for kind, a, b in gates.tolist():
        if kind == 0:
            sign ^= x[:, a] & z[:, a]
            x[:, a], z[:, a] = z[:, a].clone(), x[:, a].clone()
        elif kind == 1:
            sign ^= x[:, a] & z[:, a]
            z[:, a] ^= x[:, a]
        else:
            sign ^= x[:, a] & z[:, b] & ~(x[:, b] ^ z[:, a])
            x[:, b] ^= x[:, a]
            z[:, a] ^= z[:, b]
    return x, z, sign, (x[:, None] & z[None]).sum(2).add((z[:, None] & x[None]).sum(2)) % 2 == 1


def make_tableau(rows: int, qubits: int, gates: int) -> Any:
    kind, a = torch.randint(0, 3, (gates,)), torch.randint(0, qubits, (gates,))
    b = (a + torch.randint(1, qubits, (gates,))) % qubits
    bits = (torch.rand(rows, qubits) < 0.5, torch.rand(rows, qubits) < 0.5, torch.rand(rows) < 0.5)
    return *bits, torch.stack([kind, a, b], 1).int()


@stranger(
    make_tableau,
    stabiliser_ref,
    {"rows": 27, "qubits": 13, "gates": 40},
    {"rows": 2048, "qubits": 1024, "gates": 1024},
)
@tileflow.kernel
def stabiliser_gates(x, z, sign, gates):
    """Aaronson and Gottesman, 2004: Clifford gates on rows of bits, and which rows do not commute afterwards."""
    rows, qubits = x.shape
    nx, nz, ns = x.clone(), z.clone(), sign.clone()
    for r in tfl.tile(rows):
        for g in range(gates.size(0)):
            kind, a, b = gates[g, 0], gates[g, 1], gates[g, 2]
            xa, za = nx[r, a], nz[r, a]
            if kind == 0:
                ns[r] = ns[r] ^ (xa & za)
                nx[r, a], nz[r, a] = za, xa
            elif kind == 1:
                ns[r] = ns[r] ^ (xa & za)
                nz[r, a] = za ^ xa
            else:
                xb, zb = nx[r, b], nz[r, b]
                ns[r] = ns[r] ^ (xa & zb & ~(xb ^ za))
                nx[r, b] = xb ^ xa
                nz[r, a] = za ^ zb
    clash = torch.empty(rows, rows, dtype=torch.bool, device=x.device)
    for r, s in tfl.tile([rows, rows]):
        odd = torch.zeros([r, s], dtype=torch.bool)
        for q in tfl.tile(qubits):
            one = nx[r, q][:, None, :] & nz[s, q][None, :, :]
            other = nz[r, q][:, None, :] & nx[s, q][None, :, :]
            odd ^= (one ^ other).sum(2) % 2 == 1
        clash[r, s] = odd
    return nx, nz, ns, clash


@dataclass
class Basis:
    """Contracted s functions: where they are, how wide, and how much of each."""

    centre: torch.Tensor
    exponent: torch.Tensor
    weight: torch.Tensor


def integrals_ref(basis: Basis, charges: Any, nuclei: Any) -> Any:
    r, a, w = basis.centre, basis.exponent, basis.weight
    p = a[:, None, :, None] + a[None, :, None, :]
    mu = a[:, None, :, None] * a[None, :, None, :] / p
    d2 = (r[:, None] - r[None]).square().sum(-1)[:, :, None, None]
    k = torch.exp(-mu * d2) * w[:, None, :, None] * w[None, :, None, :]
    overlap = k * (math.pi / p) ** 1.5
    kinetic = mu * (3 - 2 * mu * d2) * overlap
    weighted = a[:, None, :, None, None] * r[:, None, None, None] + a[None, :, None, :, None] * r[None, :, None, None]
    centre = weighted / p[..., None]
    attraction = torch.zeros_like(overlap)
    for charge, at in zip(charges, nuclei, strict=True):
        t = p * (centre - at).square().sum(-1)
        root = t.clamp(min=1e-12).sqrt()
        boys = torch.where(t < 1e-10, 1 - t / 3, 0.5 * math.sqrt(math.pi) * torch.erf(root) / root)
        attraction -= charge * 2 * math.pi / p * k * boys
    return {"overlap": overlap.sum((2, 3)), "core": (kinetic + attraction).sum((2, 3))}


@stranger(
    lambda n, atoms: (
        Basis(torch.randn(3, n, dtype=torch.float64).T, torch.rand(n, 3, dtype=torch.float64) + 0.2,
              torch.randn(n, 3, dtype=torch.float64)),
        torch.randint(1, 9, (atoms,)).double(), torch.randn(atoms, 3, dtype=torch.float64),
    ),
    integrals_ref,
    {"n": 11, "atoms": 5},
    {"n": 1024, "atoms": 64},
)  # fmt: skip
@tileflow.kernel
def gaussian_integrals(basis: Basis, charges, nuclei):
    """Boys, 1950: overlaps, kinetic energies and attractions of contracted s functions."""

    def boys(t):
        root = t.clamp(min=1e-12).sqrt()
        return torch.where(t < 1e-10, 1 - t / 3, 0.5 * math.sqrt(math.pi) * torch.erf(root) / root)

    n, depth = basis.exponent.shape
    out = {name: basis.centre.new_empty(n, n) for name in ("overlap", "core")}
    for i, j in tfl.tile([n, n]):
        ri, rj = basis.centre[i, :][:, None, :], basis.centre[j, :][None, :, :]
        d2 = (ri - rj).square().sum(-1)
        sums = {name: torch.zeros([i, j], dtype=torch.float64) for name in out}
        for k in range(depth):
            for l in range(depth):  # noqa: E741
                a, b = basis.exponent[i, k][:, None], basis.exponent[j, l]
                p = a + b
                mu = a * b / p
                pair = basis.weight[i, k][:, None] * basis.weight[j, l] * torch.exp(-mu * d2)
                s = pair * (math.pi / p) ** 1.5
                sums["overlap"] += s
                sums["core"] += mu * (3 - 2 * mu * d2) * s
                middle = (a[..., None] * ri + b[..., None] * rj) / p[..., None]
                pull = torch.zeros_like(p)
                for c in range(charges.size(0)):
                    away = (middle - nuclei[c, :]).square().sum(-1)
                    pull = pull + charges[c] * boys(p * away)
                sums["core"] -= 2 * math.pi / p * pair * pull
        for name, value in sums.items():
            out[name][i, j] = value
    return out


def fock_ref(core: Any, eri: Any, density: Any) -> Any:
    j = torch.einsum("ijkl,kl->ij", eri, density)
    k = torch.einsum("ikjl,kl->ij", eri, density)
    fock = core + j - 0.5 * k
    return fock, 0.5 * (density * (core + fock)).sum()


@stranger(
    lambda n: (
        torch.randn(n, n, dtype=torch.float64), torch.randn(n, n, n, n, dtype=torch.float64) / n,
        torch.randn(n, n, dtype=torch.float64).T,
    ),
    fock_ref,
    {"n": 9},
    {"n": 96},
)  # fmt: skip
@tileflow.kernel
def mean_field(core, eri, density):
    """Roothaan, 1951: Coulomb and exchange matrices out of four-index integrals, and the energy that they give."""
    n = core.size(0)
    fock = torch.empty_like(core)
    energy = torch.zeros((), dtype=core.dtype, device=core.device)
    swapped = eri.swapaxes(1, 2)
    for i, j in tfl.tile(core.shape):
        coulomb = torch.zeros_like(core[i, j])
        exchange = torch.zeros_like(core[i, j])
        for k, l in tfl.tile([n, n]):  # noqa: E741
            d = density[k, l]
            coulomb += torch.tensordot(eri[i, j, k, l], d, dims=2)
            exchange += torch.tensordot(swapped[i, j, k, l], d, dims=([2, 3], [0, 1]))
        f = core[i, j] + coulomb - 0.5 * exchange
        fock[i, j] = f
        tfl.atomic_add(energy, [], 0.5 * (density[i, j] * (core[i, j] + f)).sum())
    return fock, energy


def lindblad_ref(rho: Any, h: Any, jump: Any, gamma: Any, dt: float, steps: int) -> Any:
    rho = torch.view_as_complex(rho.double())
    h, jump = torch.view_as_complex(h.double().contiguous()), torch.view_as_complex(jump.double().contiguous())
    gamma = gamma.double()[:, None, None]

    def slope(r: Any) -> Any:
        down = jump.mH
        back = down @ jump
        return -1j * (h @ r - r @ h) + gamma * (jump @ r @ down - 0.5 * (back @ r + r @ back))

    purity = []
    for _ in range(steps):
        k1 = slope(rho)
        k2 = slope(rho + dt / 2 * k1)
        k3 = slope(rho + dt / 2 * k2)
        k4 = slope(rho + dt * k3)
        rho = rho + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        purity.append((rho @ rho).diagonal(dim1=1, dim2=2).sum(1).real)
    return torch.view_as_real(rho).float(), torch.stack(purity, 1).float()


@stranger(
    lambda batch, n, steps: (
        torch.randn(batch, n, n, 2), torch.randn(2, n, n).movedim(0, -1), torch.randn(n, n, 2) / n,
        torch.rand(batch), 0.01, steps,
    ),
    lindblad_ref,
    {"batch": 3, "n": 8, "steps": 3},
    {"batch": 4096, "n": 16, "steps": 16},
)  # fmt: skip
@tileflow.kernel
def lindblad_steps(rho, h, jump, gamma, dt: float, steps: int):
    """Lindblad, 1976: density matrices that decay, by Runge and Kutta's steps on real and imaginary parts."""
    batch = rho.size(0)
    out = torch.empty_like(rho)
    purity = torch.empty(batch, steps, device=rho.device)
    for b in tfl.grid(batch):

        def times(a, b):
            return a[0] @ b[0] - a[1] @ b[1], a[0] @ b[1] + a[1] @ b[0]

        def plus(a, b, scale=1.0):
            return a[0] + scale * b[0], a[1] + scale * b[1]

        field = h[:, :, 0], h[:, :, 1]
        loss = jump[:, :, 0], jump[:, :, 1]
        gain = loss[0].T, -loss[1].mT
        back = times(gain, loss)
        rate = gamma[b]

        def slope(r):
            left, right = times(field, r), times(r, field)
            turn = left[1] - right[1], right[0] - left[0]
            jumps = times(times(loss, r), gain)
            kept = plus(times(back, r), times(r, back))
            return plus(turn, plus(jumps, kept, -0.5), rate)

        r = rho[b, :, :, 0], rho[b, :, :, 1]
        for s in range(steps):
            k1 = slope(r)
            k2 = slope(plus(r, k1, dt / 2))
            k3 = slope(plus(r, k2, dt / 2))
            k4 = slope(plus(r, k3, dt))
            for k, weight in ((k1, 1), (k2, 2), (k3, 2), (k4, 1)):
                r = plus(r, k, dt / 6 * weight)
            purity[b, s] = torch.trace(times(r, r)[0])
        out[b, :, :, :] = torch.stack(r, dim=-1)
    return out, purity
