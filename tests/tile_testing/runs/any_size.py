"""Rows that are warp-specialised, each with calls of other sizes than it was tuned for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tile_testing.compiler_gallery import kernel
from tileflow.config import Config
from tileflow.lowered import Lowered
from tileflow.target import Target

Problem = Mapping[str, Any]

# What a row was tuned for, whose default is warp-specialised or has such a config beside it, and calls of other sizes:
# smaller than a tile, several tiles and a bit, rows that begin at 16 bytes and no more than that.
_PRODUCT = (
    {"m": 4224, "n": 4352, "k": 4096},
    ({"m": 5, "n": 16, "k": 8}, {"m": 333, "n": 520, "k": 200}, {"m": 1, "n": 264, "k": 64}),
)
_GATED = {"m": 4096, "n": 14336, "k": 4096}
_FP8 = {"m": 4224, "n": 4352, "k": 4096}, ({"m": 5, "n": 16, "k": 16}, {"m": 333, "n": 528, "k": 208})
_HEADS = {"batch": 4, "heads": 32, "m": 4096, "d": 128}
_SMALL_HEADS = {"batch": 1, "heads": 2, "d": 128}
_GROUPS = {"m": 16384, "n": 4096, "k": 1024, "groups": 8}
ROWS: dict[str, tuple[str, Problem, tuple[Problem, ...]]] = {
    "product": ("examples.matmul:matmul", *_PRODUCT),
    "epilogue": ("examples.matmul:matmul_epilogue", *_PRODUCT),
    "batched": ("examples.bmm:bmm", {**_PRODUCT[0], "b": 3}, ({"b": 5, "m": 37, "n": 136, "k": 72},)),
    "fp8": ("examples.fp8_matmul:fp8_matmul", *_FP8),
    "mixed": ("examples.mixed_matmul:mixed_matmul", {"m": 4096, "n": 8192, "k": 4096}, _PRODUCT[1]),
    "gated": ("examples.gated_matmul:gated_matmul", _GATED, _PRODUCT[1]),
    "gated_dealt": ("examples.gated_matmul:gated_matmul", {**_GATED, "m": 512}, _PRODUCT[1]),
    "residual": ("tileflow.kernels.residual:linear_add", {"m": 4096, "n": 4096, "k": 4096}, _PRODUCT[1]),
    "int4": (
        "examples.int4_matmul:int4_matmul",
        {"m": 4096, "n": 7168, "k": 8192},
        ({"m": 5, "n": 16, "k": 16}, {"m": 333, "n": 272, "k": 400}),
    ),
    "split_k": ("examples.split_k:split_k_matmul", *_PRODUCT),
    "normed": (
        "examples.matmul_layer_norm:matmul_layer_norm",
        {"m": 4096, "n": 256, "k": 4096},
        ({"m": 5, "n": 136, "k": 8}, {"m": 333, "n": 256, "k": 200}),
    ),
    "groups": (
        "examples.grouped_matmul:grouped_matmul",
        _GROUPS,
        ({"m": 1, "n": 8, "k": 8, "groups": 1}, {"m": 301, "n": 264, "k": 136, "groups": 5}),
    ),
    "groups_flat": (
        "examples.grouped_matmul:grouped_matmul_flat",
        _GROUPS,
        ({"m": 1, "n": 8, "k": 8, "groups": 8}, {"m": 301, "n": 264, "k": 136, "groups": 7}),
    ),
    "attention": (
        "examples.attention:attention",
        _HEADS,
        ({**_SMALL_HEADS, "m": 1}, {**_SMALL_HEADS, "m": 301}, {**_SMALL_HEADS, "m": 77, "d": 96}),
    ),
    "causal": (
        "examples.attention:attention",
        {**_HEADS, "causal": True, "with_lse": True},
        tuple({**_SMALL_HEADS, "m": m, "causal": True, "with_lse": True} for m in (1, 77, 301)),
    ),
    "narrow": (
        "examples.attention:attention",
        {**_HEADS, "d": 64},
        tuple({**_SMALL_HEADS, "m": m, "d": 64} for m in (1, 77, 301)),
    ),
    "narrow_causal": (
        "examples.attention:attention",
        {**_HEADS, "d": 64, "causal": True},
        tuple({**_SMALL_HEADS, "m": m, "d": 64, "causal": True} for m in (1, 77, 301)),
    ),
    "scored": (
        "examples.attention:attention_scored",
        {**_HEADS, "n": 4096},
        tuple({**_SMALL_HEADS, "m": m, "n": n} for m, n in ((1, 8), (77, 304))),
    ),
    "fused_gradients": (
        "examples.attention:attention_backward_fused",
        {**_HEADS, "causal": True},
        tuple({**_SMALL_HEADS, "m": m, "causal": True} for m in (2, 77, 301)),
    ),
    "gradients": (
        "examples.attention:attention_backward",
        {**_HEADS, "causal": True},
        tuple({**_SMALL_HEADS, "m": m, "causal": True} for m in (2, 77, 301)),
    ),
}


_OF_MORE_GROUPS = ("narrow", "narrow_causal")  # whose defaults fit the example's sizes alone


@lru_cache
def row(name: str, device: Target) -> tuple[Lowered, Config]:
    """A call in dynamic mode and its default, or where that is pipelined the nearest warp-specialised config."""
    reference, example, _ = ROWS[name]
    lowered = kernel(reference).lower(kernel(reference).inputs(device="meta", **example), device, "dynamic")
    if name in _OF_MORE_GROUPS:
        return lowered, lowered.space.adapt(kernel(reference).lower(lowered.args, device).default.to_dict())
    if "warp_specialised" in lowered.default.to_dict().values():
        return lowered, lowered.default
    return lowered, lowered.space.repair(lowered.default.with_({"schedule": "warp_specialised"}))
