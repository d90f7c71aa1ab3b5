"""What runs in the process that interprets: one kernel, called by several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def shifted(x: torch.Tensor, by: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.exp(x[tile]) + by
    return out


def wrong(threads: int, calls: int) -> list[str]:
    """What is wrong with so many calls, of forty sizes, one line a call; empty when all are right."""

    def call(number: int) -> str:
        x = torch.arange(1 + number % 40, dtype=torch.float32) / 40
        try:
            torch.testing.assert_close(shifted(x, float(number)), torch.exp(x) + number)
        except Exception as error:  # whatever Triton makes of it
            return f"call {number}: {type(error).__name__}: {error}"
        return ""

    with ThreadPoolExecutor(threads) as pool:
        return [line for line in pool.map(call, range(calls)) if line]
