"""What torch's functions and the language's own mean while device code is traced: one module a family.

A family fills the tables (``torch_table``, ``device_table``) as it is imported. This package imports all of them, so
that whoever reads a table finds it complete, by whatever module of it the package came to be imported.
"""

from __future__ import annotations

from . import (
    activations,
    atomics,
    device_functions,
    einsum,
    escapes,
    factories,
    matmul,
    norms,
    packing,
    pointwise,
    pooling,
    random_numbers,
    reductions,
    reshape,
    scaled,
    scans,
    slices,
    sorting,
    special,
    statistics,
    tile_index,
    torch_ops,
    views,
)

FAMILIES = (
    activations,
    atomics,
    device_functions,
    einsum,
    escapes,
    factories,
    matmul,
    norms,
    packing,
    pointwise,
    pooling,
    random_numbers,
    reductions,
    reshape,
    scaled,
    scans,
    slices,
    sorting,
    special,
    statistics,
    tile_index,
    torch_ops,
    views,
)
