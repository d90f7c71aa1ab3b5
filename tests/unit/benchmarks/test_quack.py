"""Quack's functions are called with what they take, in their order: stand-ins in torch have the same signatures."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from tileflow_benchmarks.suite.cells import SUITE

from tileflow.api import load_kernel
from tileflow.measure.check import check_call, make_reference

Tensor = torch.Tensor


def rmsnorm_fwd(x: Tensor, weight: Tensor, bias: Any = None, *, eps: float = 1e-6) -> tuple[Tensor, Tensor, None]:
    rms = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (x.float() * rms * weight.float()).to(x.dtype), x, None


def rmsnorm_bwd(x: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor, None, None]:
    normal = x.float() * rstd[:, None]
    scaled = dout.float() * weight.float()
    dx = (scaled - normal * (scaled * normal).mean(-1, keepdim=True)) * rstd[:, None]
    return dx.to(x.dtype), (dout.float() * normal).sum(0).to(weight.dtype), None, None


def layernorm_fwd(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-6) -> Tensor:
    assert weight.dtype == bias.dtype == torch.float32
    return torch.nn.functional.layer_norm(x.float(), x.shape[-1:], weight, bias, eps).to(x.dtype)


def layernorm_bwd(x: Tensor, weight: Tensor, dout: Tensor, rstd: Tensor, mean: Tensor) -> tuple[Tensor, ...]:
    normal = (x.float() - mean[:, None]) * rstd[:, None]
    scaled = dout.float() * weight.float()
    centred = scaled - scaled.mean(-1, keepdim=True) - normal * (scaled * normal).mean(-1, keepdim=True)
    sums = ((dout.float() * normal).sum(0), dout.float().sum(0))
    return ((centred * rstd[:, None]).to(x.dtype), *(s.to(weight.dtype) for s in sums))


def cross_entropy_fwd(x: Tensor, target: Tensor, *, ignore_index: int, return_lse: bool) -> tuple[Tensor, Tensor]:
    assert return_lse
    rows = torch.nn.functional.cross_entropy(x.float(), target, ignore_index=ignore_index, reduction="none")
    return rows, torch.logsumexp(x.float(), dim=1)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = {
        "quack": {},
        "quack.softmax": {"softmax_fwd": lambda x: torch.softmax(x.float(), -1).to(x.dtype)},
        "quack.rmsnorm": {f.__name__: f for f in (rmsnorm_fwd, rmsnorm_bwd, layernorm_fwd, layernorm_bwd)},
        "quack.cross_entropy": {"cross_entropy_fwd": cross_entropy_fwd},
    }
    for name, functions in made.items():
        module = ModuleType(name)
        module.__dict__.update(functions)
        monkeypatch.setitem(sys.modules, name, module)
        if "." in name:
            setattr(sys.modules["quack"], name.rpartition(".")[2], module)
    monkeypatch.delitem(sys.modules, "tileflow_benchmarks.suite.quack_peer", raising=False)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0")
    from tileflow_benchmarks.suite import quack_peer

    yield quack_peer.peer()
    sys.modules.pop("tileflow_benchmarks.suite.quack_peer", None)


def test_its_results_are_the_references(peer: Any) -> None:
    tried = set()
    for cell in {c.kernel: c for c in SUITE}.values():
        kernel = load_kernel(cell.kernel)
        args = kernel.inputs(**kernel.small(dict(cell.problem)))
        opponent = peer.make(cell, args)
        if opponent is not None:
            verdict = check_call(opponent.call, opponent.args or args, make_reference(kernel.reference, args))
            assert verdict.ok, (cell.kernel, verdict.reason)
            tried.add(cell.kernel.rpartition(":")[2])
    assert tried == {"softmax", "rms_norm", "rms_norm_bwd", "layer_norm", "layer_norm_bwd", "cross_entropy"}
