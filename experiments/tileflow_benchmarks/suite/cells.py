"""The cells of the benchmark: kernels of the gallery at commonly compared sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tileflow.runtime.problem import Scalar

Bound = Literal["memory", "matrix"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One kernel at one problem. ``bound``: which roofline it is compared with."""

    kernel: str
    problem: tuple[tuple[str, Scalar], ...]
    bound: Bound

    @property
    def title(self) -> str:
        """The cell as text: ``softmax m=8192 n=8192 bfloat16``."""
        values = [str(v) if isinstance(v, str) else f"{k}={v}" for k, v in self.problem]
        return f"{self.name} {' '.join(values)}"

    @property
    def name(self) -> str:
        """The kernel without its module: ``softmax``."""
        return self.kernel.rpartition(":")[2]


def _cells(kernel: str, bound: Bound, dtype: str, names: str, *sizes: tuple[Scalar, ...]) -> list[Cell]:
    keys = names.split()
    return [Cell(kernel, (*zip(keys, size, strict=True), ("dtype", dtype)), bound) for size in sizes]


_BF16, _FP32 = "bfloat16", "float32"
_ROWS = ((4096, 5120), (8192, 8192), (4096, 15872))
_PRODUCTS = ((4096, 4096, 4096), (8192, 8192, 8192), (1024, 12288, 1024), (64, 8192, 8192))
_FULL = (4, 32, 4096, 128, False)
_CAUSAL = (4, 32, 4096, 128, True)

SUITE: tuple[Cell, ...] = (
    *_cells("examples.vector_add:vector_add", "memory", _FP32, "n", (1 << 24,), (1 << 28,)),
    *_cells("examples.softmax:softmax", "memory", _BF16, "m n", (4096, 12672), (8192, 8192), (8192, 131072)),
    *_cells("examples.softmax:softmax", "memory", _FP32, "m n", (16384, 32768)),
    *_cells("examples.layer_norm:layer_norm", "memory", _BF16, "m n", *_ROWS),
    *_cells("examples.layer_norm:layer_norm_bwd", "memory", _BF16, "m n", *_ROWS),
    *_cells("examples.rms_norm:rms_norm", "memory", _BF16, "m n", (32768, 4096), (8192, 8192), (2048, 16384)),
    *_cells("examples.rms_norm:rms_norm_bwd", "memory", _BF16, "m n", (32768, 1024), (8192, 8192), (32768, 8192)),
    *_cells("examples.cross_entropy:cross_entropy", "memory", _BF16, "m v", (8192, 128256)),
    *_cells("examples.cross_entropy:cross_entropy", "memory", _FP32, "m v", (8192, 131072)),
    *_cells("examples.kl_div:kl_div", "memory", _FP32, "m n", (4096, 32768), (4096, 131072)),
    *_cells("examples.jsd:jsd", "memory", _FP32, "m n", (8192, 32768)),
    *_cells("examples.swiglu:swiglu", "memory", _BF16, "m n", (32768, 11008)),
    *_cells("examples.geglu:geglu", "memory", _BF16, "m n", (32768, 11008)),
    *_cells("examples.rope:rope", "memory", _BF16, "b h hk s d", (1, 32, 8, 8192, 128)),
    *_cells("examples.welford:welford", "memory", _FP32, "m n", (262144, 1024)),
    *_cells("examples.welford:welford", "memory", _BF16, "m n", (262144, 4096)),
    *_cells("examples.matmul:matmul", "matrix", _BF16, "m n k", *_PRODUCTS),
    *_cells("examples.matmul:matmul_epilogue", "matrix", _BF16, "m n k", (8192, 4096, 4096)),
    *_cells("examples.matmul:matmul_epilogue", "matrix", _BF16, "m n k epilogue", (8192, 4096, 4096, "leaky_relu")),
    *_cells("examples.split_k:split_k_matmul", "matrix", _BF16, "m n k", (64, 8192, 8192)),
    *_cells("examples.fp8_matmul:fp8_matmul", "matrix", _BF16, "m n k", *_PRODUCTS[:2], _PRODUCTS[3]),
    *_cells("examples.attention:attention", "matrix", _BF16, "batch heads m d causal", _FULL, _CAUSAL),
    *_cells("examples.attention:attention", "matrix", _BF16, "batch heads m d causal", (4, 48, 8192, 64, False)),
    *_cells("examples.attention:attention_backward_fused", "matrix", _BF16, "batch heads m d causal", _CAUSAL),
    *_cells("examples.int4_matmul:int4_matmul", "matrix", _BF16, "m n k", *((m, 8192, 7168) for m in (1, 64, 4096))),
    *_cells("examples.grouped_matmul:grouped_matmul_flat", "matrix", _BF16, "groups m n k", (8, 16384, 14336, 4096)),
    *_cells("examples.physarum:move", "memory", _FP32, "agents size", (1 << 20, 4096), (1 << 24, 4096)),
    *_cells("examples.physarum:diffuse", "memory", _FP32, "h w", (4096, 4096)),
)


def in_turn(cells: Sequence[Cell]) -> list[Cell]:
    """Return the first cell of every kernel, then the second of each, and so on; products first, which take longest to
    set up.

    A run that ends early then has something of every kernel.
    """
    seen: dict[str, int] = {}
    ranked = []
    for cell in cells:
        nth = seen[cell.kernel] = seen.get(cell.kernel, -1) + 1
        ranked.append(((nth, cell.bound != "matrix"), cell))
    return [cell for _, cell in sorted(ranked, key=lambda pair: pair[0])]
