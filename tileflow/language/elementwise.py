"""Which of torch's functions take tiles element by element, and which give each of them dimensions of its own."""

from __future__ import annotations

# Functions of several tiles whose dimensions are their own: products, rows that indices name, tables, parameters of
# channels, what one tile says of another. The operands of every other function meet per element, as far as they do.
_OF_THEIR_OWN = frozenset(
    {"matmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "outer", "ger", "addmm", "addmv", "addr", "baddbmm", "addbmm",
     "linear", "bilinear", "einsum", "tensordot", "cdist", "kron", "multi_dot", "chain_matmul", "cross", "vecdot",
     "cosine_similarity", "pairwise_distance", "scaled_dot_product_attention", "trapezoid", "trapz",
     "cumulative_trapezoid", "gather", "take", "take_along_dim", "index_select", "embedding", "repeat_interleave",
     "getitem", "setitem", "searchsorted", "bucketize", "isin", "quantile", "nanquantile", "vander", "pad", "prelu",
     "topk", "kthvalue", "batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm", "reshape_as", "view_as",
     "type_as", "to", "type", "result_type", "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack",
     "column_stack", "row_stack"}
)  # fmt: skip
_FAMILIES = ("linalg.", "linalg_", "special.", "special_")


def meets_by_loops(name: str) -> bool:
    """Whether the operands of torch's function of that name, or of the operator that Python calls so, meet per element:
    a tile's dimension of one opposite the same tile's of another."""
    plain = name.strip("_")
    for family in _FAMILIES:
        plain = plain.removeprefix(family)
    return plain not in _OF_THEIR_OWN and not (name.startswith("__") and plain[1:] in _OF_THEIR_OWN)  # __rmatmul__
