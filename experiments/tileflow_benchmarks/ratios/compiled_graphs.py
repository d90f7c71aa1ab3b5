"""Kernels inside graphs, checked: dynamic sizes, stores, gradients, CUDA graphs, programs that other processes load.

:mod:`.compiled_cost` runs these checks and records their results.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow import kernels

Tensor = torch.Tensor
EPS = 1e-5
_LOADS = """
import sys, torch, tileflow
tileflow.load_operators(sys.argv[1])
program = torch.export.load(sys.argv[1]).module()
x, w, wanted = torch.load(sys.argv[2])
torch.testing.assert_close(program(x, w), wanted)
"""


@tileflow.kernel
def norm(x: Tensor, weight: Tensor, eps: float = EPS) -> Tensor:
    m, _ = x.shape
    out = torch.empty_like(x)
    for tile_m in tfl.tile(m):
        row = x[tile_m, :].float()
        out[tile_m, :] = row * torch.rsqrt(torch.mean(row * row, dim=1, keepdim=True) + eps) * weight[:]
    return out


@tileflow.kernel
def accumulate(total: Tensor, x: Tensor, times: int) -> None:
    flat, other = total.view(-1), x.reshape(-1)
    for tile in tfl.tile(flat.size(0)):
        flat[tile] += other[tile] * times


class Doubled(torch.nn.Module):
    """A kernel between operators of torch's."""

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return ``relu(norm(2 x))``."""
        normed: Tensor = norm(x * 2, weight)
        return normed.relu()


def wanted(x: Tensor, weight: Tensor) -> Tensor:
    """Compute :class:`Doubled` with torch."""
    return F.rms_norm(x * 2, (x.size(1),), weight, EPS).relu()


def pair(device: str, m: int = 256, n: int = 512) -> tuple[Tensor, Tensor]:
    """Return random rows and weights."""
    return torch.randn(m, n, device=device), torch.rand(n, device=device) + 0.5


def dynamic(device: str) -> str:
    """Check that one graph serves all sizes."""
    torch.compiler.reset()
    x, weight = pair(device)
    torch._dynamo.mark_dynamic(x, 0)  # noqa: TID251  (documented, for all its name)
    fn = torch.compile(Doubled(), fullgraph=True, backend=_backend(device))
    torch.testing.assert_close(fn(x, weight), wanted(x, weight))
    with torch.compiler.set_stance("fail_on_recompile"):
        for m in (300, 1001, 2048):
            x = pair(device, m)[0]
            torch.testing.assert_close(fn(x, weight), wanted(x, weight))
    return "one graph for 256, 300, 1001 and 2048 rows"


def stores(device: str) -> str:
    """Check that a compiled function changes the tensors that its kernels store into."""
    torch.compiler.reset()

    def fn(total: Tensor, x: Tensor) -> Tensor:
        own = x.clone()
        accumulate(own, x, 2)
        accumulate(total, own, 5)
        return own + total

    total, x = pair(device, 64, 64)[0], pair(device, 64, 64)[0]
    before = total.clone()
    got = torch.compile(fn, fullgraph=True, backend=_backend(device))(total, x)
    torch.testing.assert_close(total, before + x * 15)
    torch.testing.assert_close(got, x * 3 + total)
    return "as outside of graphs"


def cuda_graphs(device: str) -> str:
    """Check that replays read what the inputs hold at that time."""
    torch.compiler.reset()
    mode = "reduce-overhead" if device == "cuda" else None
    fn = torch.compile(Doubled(), fullgraph=True, mode=mode, backend=_backend(device))
    with torch.no_grad():
        for _ in range(6):
            x, weight = pair(device)
            torch.testing.assert_close(fn(x, weight), wanted(x, weight))
    return "six calls"


def gradients(device: str) -> str:
    """Check that a differentiable function's kernels are in both graphs."""
    from examples.training import rms_norm

    torch.compiler.reset()
    x, weight = (t.requires_grad_() for t in pair(device))
    fn = torch.compile(lambda x, w: rms_norm(x, w, EPS), fullgraph=True, backend=_backend(device))
    grad = torch.randn_like(x)
    got = torch.autograd.grad(fn(x, weight), (x, weight), grad)
    known = torch.autograd.grad(F.rms_norm(x, (x.size(1),), weight, EPS), (x, weight), grad)
    torch.testing.assert_close(got, known, rtol=1e-3, atol=1e-3)
    return "as torch's"


def models(device: str) -> str:
    """Check the differentiable functions of ``tileflow.kernels``: results and gradients are as without a compiler."""
    rows, n = (2, 24, 64), (64,)
    labels = torch.arange(48, device=device).view(2, 24) % 40
    angles = torch.randn(1, 24, 16, device=device)
    heads = (1, 2, 24, 32)
    cases: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
        "rms_norm": (kernels.rms_norm, (rows, n)),
        "add_rms_norm": (kernels.add_rms_norm, (rows, rows, n)),
        "layer_norm": (kernels.layer_norm, (rows, n, n)),
        "swiglu": (kernels.swiglu, (rows, rows)),
        "geglu": (kernels.geglu, (rows, rows)),
        "gated_mlp": (kernels.gated_mlp, (rows, (96, 64), (96, 64), (64, 96))),
        "rope": (lambda q, k: kernels.rope(q, k, angles.cos(), angles.sin()), (heads, heads)),
        "attention": (lambda *qkv: kernels.attention(*qkv, causal=True, backend="tileflow"), (heads,) * 3),
        "cross_entropy": (lambda x: kernels.cross_entropy(x, labels), ((*rows[:2], 40),)),
        "linear_cross_entropy": (
            lambda x, w: kernels.linear_cross_entropy(x, w, labels, rows_of_chunk=16),
            (rows, (40, 64)),
        ),
    }
    for name, (function, shapes) in cases.items():
        torch.compiler.reset()
        leaves = [torch.randn(*shape, device=device, requires_grad=True) for shape in shapes]
        plain = _with_gradients(function, leaves)
        compiled = _with_gradients(torch.compile(function, fullgraph=True, backend=_backend(device)), leaves)
        torch.testing.assert_close(compiled, plain, rtol=1e-3, atol=1e-4, msg=f"{name}, compiled, gives something else")
    return ", ".join(cases)


def _with_gradients(function: Callable[..., Any], leaves: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What a function returns, and the gradients of its sum with weights of a seed."""
    found = function(*leaves)
    results: tuple[Tensor, ...] = found if isinstance(found, tuple) else (found,)
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(r.shape, generator=generator).to(r.device) for r in results]
    return *(r.detach() for r in results), *torch.autograd.grad(results, leaves, weights)


def launches(device: str) -> str:
    """Check what a compiled call launches: the kernel, and one of Inductor's on either side of it."""
    if device != "cuda":
        return "asked on a GPU only"
    torch.compiler.reset()
    x, weight = pair(device)
    fn = torch.compile(Doubled(), fullgraph=True)
    fn(x, weight)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        fn(x, weight)
        torch.cuda.synchronize()
    names = [event.key for event in profile.key_averages() if str(event.device_type).endswith("CUDA")]
    if len(names) != 3 or not any("norm_0" in name for name in names):
        raise AssertionError(f"three launches, but {names}")
    return ", ".join(names)


def exported(device: str) -> str:
    """Check that a saved program runs in a process that has traced nothing."""
    x, weight = pair(device)
    program = torch.export.export(Doubled(), (x, weight), dynamic_shapes=({0: torch.export.Dim("m", min=2)}, None))
    with tempfile.TemporaryDirectory() as folder:
        saved, values = Path(folder) / "model.pt2", Path(folder) / "values.pt"
        torch.export.save(program, saved, extra_files=tileflow.saved_operators(program))
        x = pair(device, 77)[0]
        torch.save((x, weight, wanted(x, weight)), values)
        command = [sys.executable, "-c", _LOADS, str(saved), str(values)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise AssertionError(done.stderr[-2000:])
    return "loaded by a fresh process, for other sizes"


def ahead_of_time(device: str) -> str:
    """Check a package of AOTInductor, which needs no Python of ours; in a process of its own, which may crash."""
    if device != "cuda":
        return "asked on a GPU only: Inductor builds C++ for a CPU"
    command = [sys.executable, "-X", "faulthandler", "-c", f"import {__name__} as checks; checks.packaged({device!r})"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        raise AssertionError(f"the process ended with {done.returncode}: {done.stderr[-2000:]}")
    return "compiled, loaded and run"


def packaged(device: str) -> None:
    """Compile, load and run a package. On an H200 (torch 2.11) loading it was a segmentation fault."""
    from torch._inductor import aoti_compile_and_package, aoti_load_package  # noqa: TID251  (as documented)

    x, weight = pair(device)
    program = torch.export.export(Doubled(), (x, weight))
    with tempfile.TemporaryDirectory() as folder:
        package = aoti_compile_and_package(program, package_path=str(Path(folder) / "packaged.pt2"))
        torch.testing.assert_close(aoti_load_package(package)(x, weight), wanted(x, weight))


CHECKS: tuple[Callable[[str], str], ...] = (
    dynamic,
    stores,
    cuda_graphs,
    gradients,
    models,
    launches,
    exported,
    ahead_of_time,
)


def checks(device: str) -> dict[str, Any]:
    """Run every check. Returns what each reports, or how it failed."""
    found: dict[str, Any] = {}
    for check in CHECKS:
        try:
            found[check.__name__] = check(device)
        except Exception:  # the others still run
            found[check.__name__] = {"error": traceback.format_exc()[-3000:]}
    return found


def _backend(device: str) -> str:
    return "inductor" if device == "cuda" else "aot_eager"
