"""What torch's functions and the language's own mean while device code is traced: one module a family.

A family fills the registries (``torch_registry``, ``language_registry``) as it is imported. This package imports all
of them, so that whoever reads a registry finds it complete, by whatever module of it the package came to be imported.
"""

from __future__ import annotations

from . import (
    activations,
    atomics,
    constants,
    einsum,
    escapes,
    factories,
    language_functions,
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
    views,
)

FAMILIES = (
    activations,
    atomics,
    constants,
    einsum,
    escapes,
    factories,
    language_functions,
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
    views,
)
