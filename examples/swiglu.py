"""SwiGLU's elementwise part, silu(a) * b, and its gradients: the kernels of :mod:`tileflow.kernels.gated`."""

from __future__ import annotations

from tileflow.kernels import gated

inputs = gated.inputs
reference = gated.swiglu_reference
bwd_inputs = gated.bwd_inputs
bwd_reference = gated.swiglu_bwd_reference

swiglu = gated.swiglu.alias("examples.swiglu:swiglu")
swiglu_bwd = gated.swiglu_bwd.alias("examples.swiglu:swiglu_bwd")
