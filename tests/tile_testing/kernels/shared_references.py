"""A reference that one process makes and others of its host take."""

from __future__ import annotations

import torch

from tileflow.measure.check import Made
from tileflow.measure.host_share import shared


def made(n: int) -> Made:
    return Made({"out": torch.arange(float(n))}, (None, torch.ones(n)), True)


def offer(name: str, n: int) -> None:
    shared(name, lambda: made(n))
