"""SwiGLU with its two products, silu(x @ gate.T) * (x @ up.T), in one kernel: that of :mod:`tileflow.kernels.gated`."""

from __future__ import annotations

from tileflow.kernels import gated

inputs = gated.linear_inputs
reference = gated.linear_reference

gated_matmul = gated.gated_linear.alias("examples.gated_matmul:gated_matmul")
