"""Mistakes that authors of kernels make. Each module enters its own into the table, which is whole once this package
is imported."""

from __future__ import annotations

from tile_testing.mistakes import (
    basics,
    carried,
    control,
    exceptions,
    functions,
    loops,
    operations,
    places,
    products,
    shapes,
)

MODULES = (basics, control, carried, functions, loops, operations, products, shapes, places, exceptions)
