"""What is benchmarked: kernels of the gallery at the sizes that people compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileflow.runtime.problem import Scalar

Bound = Literal["memory", "matrix"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One kernel at one problem. ``bound``: which roofline it is held against."""

    kernel: str
    problem: tuple[tuple[str, Scalar], ...]
    bound: Bound

    @property
    def title(self) -> str:
        """``softmax m=8192 n=8192 bfloat16``."""
        values = [str(v) if k == "dtype" else f"{k}={v}" for k, v in self.problem]
        return f"{self.kernel.rpartition(':')[2]} {' '.join(values)}"


def _cells(kernel: str, bound: Bound, dtype: str, names: str, *sizes: tuple[int, ...]) -> list[Cell]:
    keys = names.split()
    return [Cell(kernel, (*zip(keys, size, strict=True), ("dtype", dtype)), bound) for size in sizes]


_ROWS = ((4096, 5120), (8192, 8192), (4096, 15872))
_PRODUCTS = ((4096, 4096, 4096), (8192, 8192, 8192), (1024, 12288, 1024), (64, 8192, 8192))

SUITE: tuple[Cell, ...] = (
    *_cells("examples.vector_add:vector_add", "memory", "float32", "n", (1 << 24,), (1 << 28,)),
    *_cells("examples.softmax:softmax", "memory", "bfloat16", "m n", (4096, 12672), (8192, 8192), (8192, 131072)),
    *_cells("examples.softmax:softmax", "memory", "float32", "m n", (16384, 32768)),
    *_cells("examples.layer_norm:layer_norm", "memory", "bfloat16", "m n", *_ROWS),
    *_cells("examples.rms_norm:rms_norm", "memory", "bfloat16", "m n", (32768, 4096), (8192, 8192), (2048, 16384)),
    *_cells("examples.matmul:matmul", "matrix", "bfloat16", "m n k", *_PRODUCTS),
    *_cells("examples.matmul:matmul_epilogue", "matrix", "bfloat16", "m n k", (8192, 4096, 4096)),
)
