"""The kernels of ``helion_kernels``, which import ``helion``: each called and compared with torch."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from tile_testing.runs.placing import place
from tileflow.compat.helion import install

install()
KERNELS = Path(__file__).parents[1] / "helion_kernels"
TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 3e-2}
COARSE = {"fp8_attention": 0.2}  # weights rounded to fp8 in the kernel
TENSOR_FLOAT = 5e-2  # what products of float32 operands lose on a GPU, by the dialect's default

# closures and globals of kernels that hold tensors, which stay on the CPU
UNMOVED = frozenset({
    "module_residual_in_a_closure", "module_affine_in_a_closure", "module_layer_norm_in_a_closure",
    "traced_in_a_closure", "module_of_a_global",
})  # fmt: skip

Case = tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


def cases() -> dict[str, Case]:
    """Every case by its name, its arguments made from a fixed seed."""
    found: dict[str, Case] = {}
    for path in sorted(KERNELS.glob("*.py")):
        name = f"helion_kernels_{path.stem}"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            found |= {case: (call, args, wanted) for case, call, args, wanted in sys.modules[name].cases()}
    return found


def check(name: str, device: str = "cpu") -> str:
    """What is wrong with a case whose arguments are on ``device``; empty where nothing is."""
    call, args, wanted = cases()[name]
    near = COARSE.get(name, 0.0 if device == "cpu" else TENSOR_FLOAT)
    try:
        got, expected = (tree_flatten(f(*place(args, on)))[0] for f, on in ((call, device), (wanted, "cpu")))
    except Exception as error:  # the test shows it, and the other cases run
        return f"{type(error).__name__}: {error}"
    if len(got) != len(expected):
        return f"{len(got)} results, not {len(expected)}"
    found = (_difference(a.cpu(), b, near) for a, b in zip(got, expected, strict=True) if b is not None)
    return "\n".join(filter(None, found))


def check_all(names: Sequence[str]) -> list[str]:
    return [check(name) for name in names]


def _difference(got: torch.Tensor, wanted: torch.Tensor, coarse: float) -> str:
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    near = max(coarse, TOLERANCE[wanted.dtype]) if wanted.dtype in TOLERANCE else 0.0
    wrong = ~torch.isclose(got.double(), wanted.double(), rtol=near, atol=near, equal_nan=True)
    if not wrong.any():
        return ""
    at = tuple(map(int, wrong.nonzero()[0]))
    return f"at {at}: {got[at].item()}, not {wanted[at].item()}; {int(wrong.sum())} of {wrong.numel()} differ"
