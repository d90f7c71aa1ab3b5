"""The kernels that are served from a bundle to show that it serves any call.

Each has an example, from which its rows are built, and problems that nothing was built for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from tileflow.api import Kernel, load_kernel

if TYPE_CHECKING:
    from tileflow_experiments.portable import Order

Sizes = tuple[int, ...]

LAYOUTS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "strided": lambda x: x.repeat_interleave(3, dim=-1)[..., ::3],
    "unaligned": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A gallery kernel.

    ``names``: of its sizes. ``example``: what its rows are built from. ``unseen``: problems of other sizes, the second
    of them with views of ``layout`` in place of its tensors. ``options``: further keywords of its ``inputs``.
    """

    kernel: str
    names: str
    example: Sizes
    unseen: tuple[Sizes, Sizes, Sizes]
    options: Mapping[str, Any] = field(default_factory=dict)
    layout: str = "strided"

    @property
    def loaded(self) -> Kernel:
        """The kernel, imported."""
        return load_kernel(self.kernel)

    def problem(self, sizes: Sizes) -> dict[str, Any]:
        """Return the keyword arguments of the kernel's ``inputs`` for these sizes."""
        return {**dict(zip(self.names.split(), sizes, strict=True)), **self.options}

    def calls(self) -> tuple[GalleryProblem, ...]:
        """Return the example and the unseen problems."""
        layouts = ("plain", "plain", self.layout, "plain")
        found = zip((self.example, *self.unseen), layouts, strict=True)
        return tuple(GalleryProblem(self, sizes, layout) for sizes, layout in found)

    def orders(self, device_class: str) -> list[Order]:
        """Return the orders of a bundle's rows: the default for any call, and the example's own."""
        from tileflow_experiments.portable import Order

        example = tuple(self.problem(self.example).items())
        return [Order(self.kernel, example, device_class), Order(self.kernel, example, device_class, "static")]


@dataclass(frozen=True, slots=True)
class GalleryProblem:
    """One call of a gallery kernel."""

    shown: Shown
    sizes: Sizes
    layout: str

    @property
    def title(self) -> str:
        """The sizes and the layout as text."""
        sizes = " ".join(f"{n}={s}" for n, s in zip(self.shown.names.split(), self.sizes, strict=True))
        return f"{sizes} {self.layout}".removesuffix(" plain")

    def arguments(self, device: str) -> tuple[Any, ...]:
        """Return the call's arguments on ``device``, with every tensor replaced by a view of the layout."""
        made = self.shown.loaded.inputs(device=device, **self.shown.problem(self.sizes))
        view: Callable[[torch.Tensor], torch.Tensor] = LAYOUTS.get(self.layout, lambda x: x)
        return tuple(view(a) if isinstance(a, torch.Tensor) and a.ndim else a for a in made)


_ROWS = ((1024, 2048), ((509, 1021), (256, 768), (2048, 5120)))
# examples whose defaults are warp-specialised, and unseen problems of which the last is for their variants
_PRODUCTS = ((2304, 4352, 512), ((509, 1021, 333), (128, 256, 64), (1999, 4112, 1040)))
_HEADS = ((2048, 128, 8, 2), ((333, 64, 3, 1), (128, 128, 2, 1), (2001, 128, 8, 2)))
_ROPE = ((1024, 128, 32, 8, 1), ((509, 64, 6, 2, 3), (64, 128, 8, 8, 1), (2048, 128, 32, 8, 2)))
_FP32 = {"dtype": "float32"}


def _rows(*kernels: str, **options: Any) -> tuple[Shown, ...]:
    return tuple(Shown(f"examples.{kernel}", "m n", *_ROWS, options) for kernel in kernels)


def _products(*kernels: str, names: str = "m n k") -> tuple[Shown, ...]:
    return tuple(Shown(f"examples.{kernel}", names, *_PRODUCTS, layout="unaligned") for kernel in kernels)


_ADD = Shown("examples.vector_add:vector_add", "n", (1 << 20,), ((10007,), (2000,), (1 << 22,)), _FP32)
_CROSS_ENTROPY = (
    Shown("examples.cross_entropy:cross_entropy", "m v", (1024, 8192), ((509, 1021), (256, 768), (1024, 50_257))),
    Shown("examples.cross_entropy:cross_entropy_bwd", "m v", (1024, 8192), ((509, 1021), (256, 768), (1024, 50_257))),
)
_GROUPED = ((1024, 4096, 256, 8), ((509, 333, 129, 5), (128, 64, 64, 3), (4001, 1032, 520, 7)))
_BATCHED = ((256, 256, 128, 8), ((93, 61, 35, 3), (32, 64, 64, 2), (512, 512, 256, 16)))

# 28 kernels whose first calls are timed together: those that are benchmarked, and gradients
TIMED: tuple[Shown, ...] = (
    _ADD,
    *_rows("softmax:softmax", "layer_norm:layer_norm", "layer_norm:layer_norm_bwd", "rms_norm:rms_norm"),
    *_rows("rms_norm:rms_norm_bwd", "swiglu:swiglu", "geglu:geglu"),
    *_rows("kl_div:kl_div", "jsd:jsd", "welford:welford", **_FP32),
    *_CROSS_ENTROPY,
    Shown("examples.rope:rope", "s d h hk b", *_ROPE),
    *_products("matmul:matmul", "matmul:matmul_epilogue", "split_k:split_k_matmul", "fp8_matmul:fp8_matmul"),
    Shown("examples.attention:attention", "m d heads batch", *_HEADS, {"causal": True}),
    Shown("examples.attention:attention_backward", "m d heads batch", *_HEADS, {"causal": True}),
    Shown(
        "examples.int4_matmul:int4_matmul",
        "m n k",
        (4096, 1024, 512),
        ((61, 509, 334), (1, 256, 64), (1999, 4112, 2080)),
        layout="unaligned",
    ),
    Shown("examples.grouped_matmul:grouped_matmul_flat", "m n k groups", *_GROUPED, layout="unaligned"),
    # few agents: one within rounding of a cell's edge deposits its trail in the next cell
    Shown("examples.physarum:move", "agents size", (1 << 14, 512), ((1009, 257), (512, 128), (1 << 15, 1024)), _FP32),
    Shown("examples.physarum:diffuse", "h w", *_ROWS, _FP32),
    *_rows("softmax:softmax_bwd", "swiglu:swiglu_bwd", "geglu:geglu_bwd"),
    Shown("examples.bmm:bmm", "m n k b", *_BATCHED, layout="unaligned"),
)

OTHERS: tuple[Shown, ...] = (
    Shown(
        "examples.attention:attention_scored",
        "m n d heads batch",
        (2048, 2048, 128, 8, 2),
        ((333, 129, 128, 3, 1), (64, 128, 128, 2, 1), (1001, 1032, 128, 4, 2)),
    ),
    Shown(
        "examples.bmm:bmm_small",
        "m n k b",
        (48, 40, 72, 512),
        ((33, 65, 19, 7), (16, 16, 16, 64), (48, 40, 72, 4096)),
        layout="unaligned",
    ),
    Shown("examples.concat:concat", "m n k", *_PRODUCTS),
    *_rows("dropout:dropout", "dropout:dropout_bwd", "exp:exp", "exp:exp_bwd"),
    Shown(
        "examples.embedding:embedding",
        "m n rows",
        (1024, 2048, 512),
        ((509, 1021, 33), (128, 256, 64), (4096, 4096, 1000)),
    ),
    Shown("examples.grouped_matmul:grouped_matmul", "m n k groups", *_GROUPED, layout="unaligned"),
    Shown("examples.jagged:jagged_mean", "m n batch", (900, 512, 64), ((509, 333, 5), (128, 64, 3), (4096, 1024, 128))),
    *_rows("layer_norm:layer_norm_train", "rms_norm:rms_norm_train", "softmax:softmax_online"),
    *_rows("long_sum:long_sum", "long_sum:long_sum_looped", "long_sum:long_sum_split", **_FP32),
    Shown(
        "examples.matmul_layer_norm:matmul_layer_norm",
        "m k n",
        (1024, 512, 256),
        ((509, 333, 129), (128, 64, 64), (2048, 1024, 200)),
    ),
    *_products("mixed_matmul:mixed_matmul"),
    *_products("gated_matmul:gated_matmul"),
    Shown("examples.rope:rope_bwd", "s d h hk b", *_ROPE),
)

GALLERY = (*TIMED, *OTHERS)
