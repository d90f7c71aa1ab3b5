"""Rows that begin with masked elements: an online maximum is -inf until the first other one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F

import tileflow
from examples.cross_entropy import cross_entropy
from examples.softmax import softmax_online


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with tileflow.interpret():
        yield


def masked() -> torch.Tensor:
    x = torch.randn(3, 700)
    x[:, :690] = float("-inf")
    return x


def test_softmax() -> None:
    x = masked()
    torch.testing.assert_close(softmax_online(x), x.softmax(dim=1))


def test_cross_entropy() -> None:
    x, labels = masked(), torch.tensor([699, 698, -100])
    torch.testing.assert_close(cross_entropy(x, labels)[0], F.cross_entropy(x, labels))
