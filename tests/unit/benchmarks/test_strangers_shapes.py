"""Arguments of kernels of others: the same shapes wherever they are made."""

from __future__ import annotations

import torch
from tile_testing.strangers import ALL

from tileflow.runtime.argtree import tensors


def test_rows_of_random_lengths_are_sized_by_values() -> None:
    found = {
        name
        for name in ("document_means", "bond_yields", "points_in_rings", "adam_step")
        if ALL[name].is_sized_by_values
    }
    assert found == {"bond_yields", "points_in_rings"}


def test_shapes_strides_and_values_are_kept() -> None:
    one = ALL["points_in_rings"]
    for a, b in zip(tensors(one.arguments()), tensors(one.arguments_as_here("cpu", "small")), strict=True):
        assert a.stride() == b.stride() and torch.equal(a, b)
