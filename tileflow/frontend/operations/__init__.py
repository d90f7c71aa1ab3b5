"""What torch's functions and the language's own mean while device code is traced: one module a family.

A family fills the registries (``torch_registry``, ``language_registry``, ``syntax_registry``) as it is imported. This
package imports all of them; whoever traces imports the package (:mod:`..lower`), so that the registries are complete.
"""

from __future__ import annotations

from . import (
    activations,
    atomics,
    brackets,
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
    stacks,
    statistics,
    tables,
    tile_index,
    views,
)

FAMILIES = (
    activations,
    atomics,
    brackets,
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
    stacks,
    statistics,
    tables,
    tile_index,
    views,
)
