"""Mistakes that authors of kernels make. Each module enters its own into the table, which is whole once this package
is imported."""

from __future__ import annotations

from tile_testing.mistakes import control, loops, operations, places

MODULES = (control, loops, operations, places)
