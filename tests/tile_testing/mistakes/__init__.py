"""Mistakes that authors of kernels make. Each module enters its own into the table, which is whole once this package
is imported."""

from __future__ import annotations

from tile_testing.mistakes import (
    basics,
    carried,
    conditions,
    dtypes,
    exceptions,
    functions,
    host_code,
    jagged,
    loops,
    operations,
    places,
    products,
    python_loops,
    shapes,
    tile_loops,
)

MODULES = (
    basics,
    tile_loops,
    python_loops,
    jagged,
    conditions,
    carried,
    functions,
    loops,
    operations,
    dtypes,
    products,
    shapes,
    places,
    host_code,
    exceptions,
)
