"""Torch's other spellings of one call: keywords for what is given by position, numpy's names, in-place forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..language.rules import instead_of_in_place

_NUMPY = {"axis": "dim", "keepdims": "keepdim"}
_FIRST = ("condition", "input", "self")
_NEXT = ("other", "mat1", "batch1", "mat", "mat2", "batch2", "vec", "vec2", "tensor1", "tensor2", "exponent", "end")

_PUT = "into a tensor: tensor[index, :] = tile; of a tile in registers torch.where(mask, value, tile)"
_ADDED = (
    "into a tensor: tfl.atomic_add(tensor, [index], tile), atomic_max; in registers "
    "torch.where(index[:, None] == tfl.arange(n), tile[:, None], 0).sum(0)"
)

_TAPS = "a sum over the taps of shifted tiles: x[tile + k]"
_HOST = "call it in host code, before or after the tile loop"
_SORTED = "torch.sort(x, dim), and the elements of it: [:, k], torch.where and a sum"
_REAL = "tiles are real: load the real and the imaginary parts, torch.view_as_real(x) of host code"

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
    **dict.fromkeys(("scatter", "index_copy", "index_put", "put"), _PUT),
    **dict.fromkeys(("scatter_add", "index_add", "scatter_reduce", "index_reduce", "bincount", "histc"), _ADDED),
    "index_fill": "torch.where(mask, value, tile), with a mask of tfl.arange(n) == index",
    "masked_scatter": "a result's shape is known before the kernel runs: use torch.where",
    "take": "table[index], of a tensor; of a tile in registers tile.flatten()[index]",
    "fill_": "tile = torch.full_like(tile, value)", "zero_": "tile = torch.zeros_like(tile)",
    "copy_": "tile = other",
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"), _TAPS),
    **dict.fromkeys(("inverse", "inv", "pinv", "pinverse", "det", "logdet", "slogdet", "solve", "lstsq", "cholesky",
                     "qr", "svd", "eig", "eigh", "lu", "matrix_exp", "matrix_power", "randperm", "normal", "unfold",
                     "fold", "interpolate", "grid_sample", "stft", "istft"), _HOST),
    **dict.fromkeys(("nanquantile", "mode"), _SORTED),
    **dict.fromkeys(("complex", "view_as_complex", "view_as_real", "real", "imag", "conj", "polar", "angle"), _REAL),
    "kron": "(a[:, None, :, None] * b[None, :, None, :]).reshape(m * p, n * q)",
    "chain_matmul": "a @ b @ c", "multi_dot": "a @ b @ c", "bilinear": "torch.einsum",
    "addr": "x + torch.outer(a, b)", "addbmm": "x + torch.bmm(a, b).sum(0)",
    "diagflat": "torch.diag_embed(x.flatten())",
    "allclose": "torch.isclose(a, b).all()", "equal": "(a == b).all()",
    "logspace": "torch.pow(10.0, torch.linspace(start, end, n))",
    "nll_loss": "torch.gather(log_probabilities, 1, labels[:, None])[:, 0], with a minus",
    "stride": "a tile in registers has no strides: those of the tensor, tensor.stride(0)",
    "cross_entropy": "torch.log_softmax(x, -1), and torch.gather or a comparison with the labels",
}  # fmt: skip


_LANES = "read it by tiles of ints, a lane of each for a lane of the result: {x}[tile.index[:, None], index]"
_ADD_TO = "tfl.atomic_add({x}, [index, tile], value)"

# functions of a whole tensor, here the captured {x}: how its elements are read and written by an index
OF_TENSORS = {
    "gather": _LANES, "take_along_dim": _LANES,
    "index_select": "read it by a tile of ints: {x}[index, :], {x}[:, index]",
    "take": "read a view that host code makes by a tile of ints: flat = {x}.view(-1), then flat[index]",
    "masked_select": "a result's shape is known before the kernel runs: load a tile of {x}, and use torch.where",
    **dict.fromkeys(("scatter", "index_copy", "index_put", "put"), "{x}[index, tile] = value"),
    **dict.fromkeys(("scatter_add", "index_add"), _ADD_TO),
    **dict.fromkeys(("scatter_reduce", "index_reduce"), f"{_ADD_TO}, atomic_max, atomic_min"),
    **dict.fromkeys(("masked_fill", "masked_scatter"), "{x}[tile] = torch.where(mask, value, {x}[tile])"),
    **dict.fromkeys(("fill", "zero"), "{x}[tile] = 0"), "copy": "{x}[tile] = value",
    "index_fill": "{x}[index, :] = value",
}  # fmt: skip


def canonical_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Operands by position, and torch's own names for numpy's."""
    if not kwargs:
        return args, {}
    named = {_NUMPY.get(name, name): value for name, value in kwargs.items()}
    # of a method, x.where(condition=c, other=y), the tile comes before the condition
    first = tuple(named.pop(name) for name in _FIRST if name in named and not (args and name == "condition"))
    rest = tuple(named.pop(name) for name in _NEXT if name in named) if len(args) + len(first) else ()
    return (*first, *args, *rest), named


def remedy(name: str, known: Mapping[str, Any]) -> str:
    """What to write for a torch function that the table lacks; empty where nothing is known."""
    plain = name.rstrip("_")
    if name in REMEDIES:
        return REMEDIES[name]
    if name != plain and plain in known:
        return instead_of_in_place(plain)
    return REMEDIES.get(plain, "")


def instead_of(name: str, tensor: str) -> str:
    """What to write for a function of the captured tensor of this name; empty where nothing is known."""
    return OF_TENSORS.get(name.rstrip("_"), "").format(x=tensor)
