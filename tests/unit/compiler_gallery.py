"""The kernels of ``examples/`` and the sizes that their problems are made of, for the tests of the compiler."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import examples
from tileflow.api import Kernel, load_kernel

# kernel: the sizes that its ``inputs`` take, in order
SIZES: dict[str, tuple[str, ...]] = {
    "examples.layer_norm:layer_norm": ("m", "n"),
    "examples.matmul:matmul": ("m", "n", "k"),
    "examples.matmul:matmul_epilogue": ("m", "n", "k"),
    "examples.rms_norm:rms_norm": ("m", "n"),
    "examples.softmax:softmax": ("m", "n"),
    "examples.softmax:softmax_online": ("m", "n"),
    "examples.vector_add:vector_add": ("n",),
}


def discovered() -> set[str]:
    """Every kernel that ``examples/`` defines."""
    found = set()
    for module in pkgutil.iter_modules(examples.__path__, "examples."):
        names = vars(importlib.import_module(module.name)).values()
        found |= {k.name for k in names if isinstance(k, Kernel) and k.name.startswith(f"{module.name}:")}
    return found


def kernel(name: str) -> Kernel:
    return load_kernel(name)


def problem(name: str, sizes: tuple[int, ...], dtype: str = "bfloat16") -> dict[str, Any]:
    """The keywords of the kernel's ``inputs``; the first of ``sizes`` for the first size, and so on."""
    return {**dict(zip(SIZES[name], sizes, strict=False)), "dtype": dtype}


def meta(name: str, sizes: tuple[int, ...], dtype: str = "bfloat16") -> tuple[Any, ...]:
    """The kernel's arguments on the meta device."""
    return kernel(name).inputs(device="meta", **problem(name, sizes, dtype))
