"""Torch's other spellings of one call: keywords for what is given by position, numpy's names, in-place forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NUMPY = {"axis": "dim", "keepdims": "keepdim"}
_FIRST = ("condition", "input", "self")
_NEXT = ("other", "mat1", "batch1", "mat", "mat2", "batch2", "vec", "vec2", "tensor1", "tensor2", "exponent")

# methods that a tile does not have, and what to write instead
REMEDIES = {
    "item": "a 0-d tile is a number of the kernel: use it as it is",
    "tolist": "a 0-d tile is a number of the kernel: use it as it is",
    "data_ptr": "index the tensor, or pass addresses to tfl.inline_triton",
    "cpu": "store the tile into a tensor", "cuda": "a kernel's tiles are on its device already",
    "numpy": "store the tile into a tensor", "backward": "pair the kernel with a backward: tileflow.differentiable",
    "requires_grad_": "pair the kernel with a backward: tileflow.differentiable",
    "randint": "tfl.randint(shape, low, high, seed)", "randint_like": "tfl.randint(shape, low, high, seed)",
    "bernoulli": "tfl.rand(shape, seed) < p", "multinomial": "tfl.rand and a cumulative sum",
    "nonzero": "a result's shape is known before the kernel runs: use torch.where with three arguments",
    "masked_select": "a result's shape is known before the kernel runs: use torch.where", "unique": "sort in host code",
    "scatter": "tfl.store(tensor, [index], tile)", "scatter_add": "tfl.atomic_add(tensor, [index], tile)",
    "index_add": "tfl.atomic_add(tensor, [index], tile)", "pad": "tfl.load(tensor, index, extra_mask=...)",
    "fill_": "tile = torch.full_like(tile, value)", "zero_": "tile = torch.zeros_like(tile)",
    "copy_": "tile = other",
    "scaled_dot_product_attention": "write the loop over keys: docs/guides/kernels.md has products",
    "one_hot": "index[:, None] == tfl.arange(n)[None, :]", "vdot": "torch.dot(a, b)",
    "conv1d": "a sum over the taps of shifted tiles: x[tile + k]",
    "cross_entropy": "torch.log_softmax(x, -1), and torch.gather or a comparison with the labels",
}  # fmt: skip


def canonical_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Operands by position, and torch's own names for numpy's."""
    if not kwargs:
        return args, {}
    named = {_NUMPY.get(name, name): value for name, value in kwargs.items()}
    first = tuple(named.pop(name) for name in _FIRST if name in named)
    rest = tuple(named.pop(name) for name in _NEXT if name in named) if len(args) + len(first) else ()
    return (*first, *args, *rest), named


def remedy(name: str, known: Mapping[str, Any]) -> str:
    """What to write for a torch function that the table lacks; empty where nothing is known."""
    if name in REMEDIES:
        return REMEDIES[name]
    if name.endswith("_") and name.rstrip("_") in known:
        return f"a tile is a value: assign it, x = x.{name.rstrip('_')}(...)"
    return ""
