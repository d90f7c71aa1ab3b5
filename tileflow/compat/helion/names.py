"""The names of the dialect's language: tileflow's own, those whose parameters have other names, and those with a
definition of theirs."""

from __future__ import annotations

SAME = (
    "StackTensor", "Tile", "barrier", "device_print", "grid", "inline_asm_elementwise",
    "register_block_size", "specialize", "static_range", "tile",
)  # fmt: skip
RENAMED = (  # the same, but for what their parameters are called
    "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor",
    "cumprod", "cumsum", "dot", "inline_triton", "jagged_tile", "join", "register_tunable", "split",
    "stacktensor_like",
)  # fmt: skip
ADAPTED = (
    "arange", "associative_scan", "breakpoint", "constexpr", "dot_scaled", "float4_e2m1fn_x2_to_float32", "full",
    "load", "pdl_launch_dependents", "pdl_wait", "rand", "rand4x", "randint", "reduce", "register_reduction_dim",
    "store", "subscript", "tile_begin", "tile_block_size", "tile_end", "tile_id", "tile_index", "triton_kernel",
    "zeros",
)  # fmt: skip
