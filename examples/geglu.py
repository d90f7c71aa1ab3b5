"""GEGLU's elementwise part, gelu(a) * b, and its gradients: the kernels of :mod:`tileflow.kernels.gated`."""

from __future__ import annotations

from tileflow.kernels import gated

inputs = gated.inputs
reference = gated.geglu_reference
bwd_inputs = gated.bwd_inputs
bwd_reference = gated.geglu_bwd_reference

geglu = gated.geglu.alias("examples.geglu:geglu")
geglu_bwd = gated.geglu_bwd.alias("examples.geglu:geglu_bwd")
