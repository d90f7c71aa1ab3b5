"""The names of the dialect's language: those that are tileflow's own, and those with a definition of theirs."""

from __future__ import annotations

SAME = (
    "StackTensor", "Tile", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xchg", "atomic_xor", "barrier", "breakpoint", "cumprod", "cumsum", "device_print", "dot", "grid",
    "inline_asm_elementwise", "inline_triton", "jagged_tile", "join", "register_block_size", "register_tunable",
    "specialize", "split", "stacktensor_like", "static_range", "tile",
)  # fmt: skip
ADAPTED = (
    "arange", "associative_scan", "constexpr", "dot_scaled", "float4_e2m1fn_x2_to_float32", "full", "load",
    "pdl_launch_dependents", "pdl_wait", "rand", "rand4x", "randint", "reduce", "register_reduction_dim", "store",
    "subscript", "tile_begin", "tile_block_size", "tile_end", "tile_id", "tile_index", "triton_kernel", "zeros",
)  # fmt: skip
