"""A module that takes its time, and does not bear to be imported twice."""

import time

import torch

if hasattr(torch, "tile_testing_was_here"):
    raise RuntimeError("planted: imported twice")
torch.tile_testing_was_here = True  # type: ignore[attr-defined]
time.sleep(2.0)
