"""The linear loss in programs of torch.export."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import tileflow.kernels as ours


class _LinearLoss(torch.nn.Module):
    def __init__(self, rows_of_chunk: int | None) -> None:
        super().__init__()
        self.weight, self.rows_of_chunk = torch.nn.Parameter(torch.randn(37, 9)), rows_of_chunk

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return ours.linear_cross_entropy(x, self.weight, labels, rows_of_chunk=self.rows_of_chunk)


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("rows_of_chunk", [None, 4])
@pytest.mark.parametrize("limits", [{}, {"min": 2, "max": 9}, {"min": 5, "max": 8}, {"min": 6, "max": 8}])
def test_a_linear_loss_is_exported_for_any_number_of_rows(
    limits: dict[str, int], rows_of_chunk: int | None, needs_grad: bool
) -> None:
    """Without gradients the graph held as many chunks as the example had, and torch refused others' rows."""
    model = _LinearLoss(rows_of_chunk).requires_grad_(needs_grad)
    rows = {0: torch.export.Dim("rows", **limits)}
    example = torch.randn(7, 9), torch.arange(7)
    program = torch.export.export(model, example, dynamic_shapes=(rows, rows))
    x, labels = torch.randn(8, 9), torch.arange(8)
    torch.testing.assert_close(program.module()(x, labels), F.cross_entropy(x @ model.weight.T, labels))


def test_a_linear_loss_of_known_rows_is_exported_chunk_by_chunk() -> None:
    """Its kernels stay what a compiler of the graph sees."""
    example = torch.randn(9, 9), torch.arange(9)
    program = torch.export.export(_LinearLoss(4).requires_grad_(False), example)
    graphs = [part.graph for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule)]
    called = [str(node.target) for graph in graphs for node in graph.nodes if node.op == "call_function"]
    assert sum("cross_entropy_forward" in name for name in called) == 3
    assert not any("linear_cross_entropy_chunks" in name for name in called)
