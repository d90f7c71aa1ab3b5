"""The kernels of ``examples/`` and the problems that the tests of the compiler run them on: one line a kernel.

A problem is a row of ``PROBLEMS``, cut to as many sizes as the kernel's ``inputs`` take, each brought to what the
kernel allows by its ``fit``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import examples
from tileflow.api import Kernel, load_kernel

LAYOUTS = ("transposed", "strided", "offset", "broadcast")  # those besides "plain", in tests/interpreter/interpreted.py
FLOATS = ("float32", "bfloat16", "float16")

PROBLEMS: dict[str, tuple[tuple[int, ...], ...]] = {
    # run by the interpreter: one element; primes; one past a block; a block
    "odd": ((1, 1, 1, 1, 1), (7, 131, 19, 3, 5), (33, 65, 129, 2, 3), (16, 64, 32, 4, 2)),
    # run eagerly with blocks of one
    "tiny": ((3, 5, 2, 2, 1),),
    # run with each layout
    "layout": ((5, 67, 33, 3, 2),),
    # no size is a power of two, so that masks show; divisible by 16, so that the dynamic mode has two variants
    "example": ((4000, 2992, 1008, 48, 16),),
    # smaller blocks, which assemble faster
    "compiled": ((1000, 752, 240, 48, 16),),
    # the smallest, odd ones, one a row, one long row, and what no device holds at once
    "space": (
        (1, 1, 1, 1, 1), (7, 131, 19, 3, 5), (1, 1 << 17, 64, 8, 2), (1 << 20, 3, 1, 1, 1), (4096, 4096, 4096, 64, 8),
        (100_000, 30_000, 5_000, 100, 10),
    ),
    # a dynamic variant for the first serves the second: within the same power of two, which sizes a row's registers
    "elsewhere": ((37, 90, 70, 5, 3), (21, 117, 101, 7, 4)),
    "empty": ((0, 67, 33, 3, 2),),
}  # fmt: skip


def even(n: int) -> int:
    return n + n % 2


def pow2(n: int) -> int:
    """The next power of two."""
    return 1 << max(n - 1, 0).bit_length()


def between(least: int, most: int) -> Callable[[int], int]:
    return lambda n: min(max(n, least), most)


def up_to(most: int) -> Callable[[int], int]:
    return lambda n: min(n, most)


def even_up_to(most: int) -> Callable[[int], int]:
    return lambda n: min(even(n), most)


def multiple(of: int) -> Callable[[int], int]:
    """The next multiple; of 0 it is 0."""
    return lambda n: -(-n // of) * of


@dataclass(frozen=True, slots=True)
class Gallery:
    """How a kernel is tried.

    ``sizes``: the names of the sizes that ``inputs`` takes, apart by spaces. ``fit``: for a size that cannot be any,
    the nearest that it can be (``even``, ``pow2``, ``up_to(128)``, ``multiple(16)``, or a function of yours).
    ``problems``: rows of ``PROBLEMS`` replaced altogether; ``"empty": ()`` where nothing may be empty. ``options``:
    further keywords of ``inputs``, taken in turn by a test's cases. ``dtypes``, ``layouts``: those that make sense.
    ``refused``: the architectures that lack what it needs.
    """

    sizes: str
    fit: Mapping[str, Callable[[int], int]] = field(default_factory=dict)
    problems: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    options: tuple[Mapping[str, Any], ...] = ({},)
    dtypes: tuple[str, ...] = FLOATS
    layouts: tuple[str, ...] = LAYOUTS
    refused: tuple[str, ...] = ()

    def rows(self, row: str) -> tuple[tuple[int, ...], ...]:
        """The problems of a row of ``PROBLEMS``, as sizes in the order of ``self.sizes``."""
        if row in self.problems:
            return self.problems[row]
        names = self.sizes.split()
        return tuple(
            tuple(self.fit.get(name, int)(size) for name, size in zip(names, sizes, strict=False))
            for sizes in PROBLEMS[row]
        )


def head_size(n: int) -> int:
    """A head's dimension: products take at least 16, and the interpreter's time goes with it."""
    return min(multiple(16)(max(n, 1)), 32)


_CAUSAL: tuple[Mapping[str, Any], ...] = ({"causal": True}, {"causal": False})
_HEADS = {"d": head_size, "heads": up_to(2), "batch": up_to(2)}
_WHOLE_ROW = between(3, 1 << 14)  # in registers; of rows of one or two the gradient is zero
_ROPE = {"d": even_up_to(128), "h": up_to(4), "hk": up_to(2), "b": up_to(2)}

GALLERY: dict[str, Gallery] = {
    "examples.attention:attention": Gallery(
        "m d heads batch",
        _HEADS,
        options=({"causal": True, "with_lse": True}, *_CAUSAL),
        layouts=("strided", "broadcast"),
    ),
    # of one key the gradient is zero
    "examples.attention:attention_backward": Gallery(
        "m d heads batch",
        {**_HEADS, "m": lambda n: n + (n == 1)},
        options=_CAUSAL,
        dtypes=FLOATS[:2],
        layouts=("strided", "broadcast"),
    ),
    "examples.attention:attention_backward_fused": Gallery(
        "m d heads batch",
        {**_HEADS, "m": lambda n: n + (n == 1)},
        options=_CAUSAL,
        dtypes=FLOATS[:2],
        layouts=("strided", "broadcast"),
    ),
    "examples.attention:attention_scored": Gallery("m n d heads batch", _HEADS, layouts=("strided", "broadcast")),
    "examples.bmm:bmm": Gallery("m n k b", dtypes=FLOATS[:2], layouts=LAYOUTS[:2]),
    "examples.bmm:bmm_small": Gallery("m n k b", dtypes=FLOATS[:2], layouts=LAYOUTS[:2]),
    "examples.concat:concat": Gallery("m n k"),
    "examples.cross_entropy:cross_entropy": Gallery("m v"),
    "examples.cross_entropy:cross_entropy_bwd": Gallery("m v"),
    "examples.dropout:dropout": Gallery("m n"),
    "examples.dropout:dropout_bwd": Gallery("m n"),
    "examples.embedding:embedding": Gallery("m n rows"),
    "examples.exp:exp": Gallery("m n"),
    "examples.exp:exp_bwd": Gallery("m n"),
    "examples.fp8_matmul:fp8_matmul": Gallery("m n k", dtypes=("bfloat16",), layouts=LAYOUTS[:2], refused=("sm_80",)),
    "examples.gated_matmul:gated_matmul": Gallery(
        "m n k", options=({"activation": "silu"}, {"activation": "gelu"}), dtypes=FLOATS[:2], layouts=LAYOUTS[:2]
    ),
    "examples.geglu:geglu": Gallery("m n"),
    "examples.geglu:geglu_bwd": Gallery("m n"),
    "examples.grouped_matmul:grouped_matmul": Gallery("m n k groups", dtypes=FLOATS[:2], layouts=LAYOUTS[:2]),
    "examples.grouped_matmul:grouped_matmul_flat": Gallery("m n k groups", dtypes=FLOATS[:2], layouts=LAYOUTS[:2]),
    "examples.int4_matmul:int4_matmul": Gallery("m n k", {"k": even}, dtypes=FLOATS[:2], layouts=LAYOUTS[:2]),
    "examples.jagged:jagged_mean": Gallery("m n batch", {"batch": up_to(5)}, dtypes=FLOATS[:2], layouts=LAYOUTS[:2]),
    "examples.jsd:jsd": Gallery("m n", options=({"beta": 0.5}, {"beta": 0.0}, {"beta": 0.1}, {"beta": 1.0})),
    "examples.kl_div:kl_div": Gallery("m n", options=({}, {"log_target": True})),
    "examples.layer_norm:layer_norm": Gallery("m n"),
    "examples.layer_norm:layer_norm_bwd": Gallery("m n", {"n": _WHOLE_ROW}),
    "examples.layer_norm:layer_norm_train": Gallery("m n"),
    "examples.long_sum:long_sum": Gallery("m n"),
    "examples.long_sum:long_sum_looped": Gallery("m n"),
    "examples.long_sum:long_sum_split": Gallery("m n"),
    "examples.matmul:matmul": Gallery("m n k"),
    "examples.matmul:matmul_epilogue": Gallery("m n k"),
    "examples.matmul_layer_norm:matmul_layer_norm": Gallery(
        "m k n", {"n": up_to(256)}, dtypes=FLOATS[:2], layouts=LAYOUTS[:2]
    ),
    "examples.mixed_matmul:mixed_matmul": Gallery("m n k", dtypes=FLOATS[:2], layouts=LAYOUTS[:2]),
    "examples.physarum:diffuse": Gallery("h w", dtypes=FLOATS[:1], problems={"empty": ()}),
    # a float16 has no place for the position of an agent
    "examples.physarum:move": Gallery("agents size", dtypes=FLOATS[:1], layouts=("strided", "offset")),
    "examples.rms_norm:rms_norm": Gallery("m n"),
    "examples.rms_norm:rms_norm_bwd": Gallery("m n", {"n": _WHOLE_ROW}),
    "examples.rms_norm:rms_norm_train": Gallery("m n"),
    "examples.rope:rope": Gallery("s d h hk b", fit=_ROPE),
    "examples.rope:rope_bwd": Gallery("s d h hk b", fit=_ROPE),
    "examples.softmax:softmax": Gallery("m n"),
    "examples.softmax:softmax_bwd": Gallery("m n"),
    "examples.softmax:softmax_online": Gallery("m n"),
    "examples.split_k:split_k_matmul": Gallery("m n k", dtypes=FLOATS[:2], layouts=LAYOUTS[:2]),
    "examples.swiglu:swiglu": Gallery("m n"),
    "examples.swiglu:swiglu_bwd": Gallery("m n"),
    "examples.vector_add:vector_add": Gallery("n"),
    "examples.welford:welford": Gallery("m n"),
}


def discovered() -> set[str]:
    """Every kernel that ``examples/`` defines, but those of serving, which serving_gallery.py has."""
    found = set()
    for module in pkgutil.iter_modules(examples.__path__, "examples."):
        if module.name.startswith("examples.serving_"):
            continue
        names = vars(importlib.import_module(module.name)).values()
        found |= {k.name for k in names if isinstance(k, Kernel) and k.name.startswith(f"{module.name}:")}
    return found


def kernel(name: str) -> Kernel:
    return load_kernel(name)


def problem(name: str, sizes: tuple[int, ...], dtype: str = "bfloat16", option: int = 0) -> dict[str, Any]:
    """The keywords of the kernel's ``inputs``. ``option``: which of its ``options``, counted round and round."""
    it = GALLERY[name]
    names = it.sizes.split()
    assert len(sizes) == len(names), f"{name} is made of {names}, not of {sizes}"
    dtype = dtype if dtype in it.dtypes else it.dtypes[0]
    return {**dict(zip(names, sizes, strict=True)), "dtype": dtype, **it.options[option % len(it.options)]}


def meta(name: str, sizes: tuple[int, ...], dtype: str = "bfloat16", option: int = 0) -> tuple[Any, ...]:
    """The kernel's arguments on the meta device."""
    return kernel(name).inputs(device="meta", **problem(name, sizes, dtype, option))
