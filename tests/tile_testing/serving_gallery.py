"""The serving kernels of ``examples/`` and small odd problems of theirs: one line a kernel."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import examples
from tileflow.api import Kernel

_FP8, _INT8 = {"out_dtype": "float8_e4m3fn"}, {"out_dtype": "int8"}
_CACHE = {"cache_dtype": "float8_e4m3fn"}

SERVING: dict[str, tuple[dict[str, Any], ...]] = {
    "examples.serving_lora:lora_expand": (
        {"tokens": 13, "n": 20, "rank": 8, "adapters": 3}, {"tokens": 3, "n": 17, "rank": 8, "adapters": 5},
    ),
    "examples.serving_lora:lora_shrink": (
        {"tokens": 21, "k": 150, "rank": 16, "adapters": 3}, {"tokens": 3, "k": 33, "rank": 8, "adapters": 5},
    ),
    "examples.serving_moe:fused_moe": (
        {"m": 13, "n": 20, "hidden": 24, "experts": 3}, {"m": 5, "n": 16, "hidden": 20, "experts": 7, "k": 3},
    ),
    "examples.serving_moe:route": ({"m": 7, "experts": 20, "k": 4}, {"m": 3, "experts": 8, "k": 1}),
    "examples.serving_norm_quant:add_rms_norm_quant": ({"m": 7, "n": 67, **_FP8}, {"m": 3, "n": 131, **_INT8}),
    "examples.serving_norm_quant:add_rms_norm_quant_grouped": (
        {"m": 5, "n": 384, **_FP8}, {"m": 3, "n": 128, **_INT8}
    ),
    "examples.serving_paged_attention:paged_attention": (
        {"batch": 2, "h": 4, "hk": 2, "d": 16, "n": 520}, {"batch": 3, "h": 2, "hk": 2, "d": 16, "n": 40, **_CACHE},
    ),
    "examples.serving_rope_cache:rope_cache_write": (
        {"tokens": 7, "h": 6, "hk": 2, "d": 10}, {"tokens": 5, "h": 2, "hk": 2, "d": 16, **_CACHE},
    ),
    "examples.serving_sampling:sample_top_k_top_p": (
        {"m": 3, "v": 131}, {"m": 2, "v": 67, "k": 5, "dtype": "bfloat16"},
    ),
    "examples.serving_silu_quant:silu_mul_quant": ({"m": 7, "n": 67, **_FP8}, {"m": 3, "n": 131, **_INT8}),
    "examples.serving_silu_quant:silu_mul_quant_grouped": ({"m": 5, "n": 384, **_FP8}, {"m": 3, "n": 128, **_INT8}),
}  # fmt: skip


def discovered() -> set[str]:
    """Every kernel that ``examples/serving_*.py`` define."""
    found = set()
    for module in pkgutil.iter_modules(examples.__path__, "examples."):
        if module.name.startswith("examples.serving_"):
            names = vars(importlib.import_module(module.name)).values()
            found |= {k.name for k in names if isinstance(k, Kernel) and k.name.startswith(f"{module.name}:")}
    return found
