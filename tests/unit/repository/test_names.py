"""The public names: what users and the other layers import. Adding one is a line here; losing one breaks them."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

PUBLIC = {
    "tileflow": {
        "Config",
        "Kernel",
        "Target",
        "derive_backward",
        "differentiable",
        "interpret",
        "kernel",
        "load_kernel",
        "load_operators",
        "record",
        "saved_operators",
        "tune",
    },
    "tileflow.autograd": {"BackwardContext", "Differentiable", "differentiable"},
    "tileflow.integrations.transformers": {"Report", "Skipped", "apply", "unapply"},
    "tileflow.kernels": {
        "Attention",
        "CrossEntropyLoss",
        "GeGLU",
        "LayerNorm",
        "LinearCrossEntropyLoss",
        "RMSNorm",
        "RotaryEmbedding",
        "SwiGLU",
        "add_layer_norm",
        "add_rms_norm",
        "attention",
        "attention_backend",
        "cross_entropy",
        "gated_linear",
        "gated_mlp",
        "geglu",
        "layer_norm",
        "linear_add",
        "linear_cross_entropy",
        "rms_norm",
        "rope",
        "swiglu",
    },
    "tileflow.language": {
        "StackTensor",
        "stacktensor_like",
        "Tile",
        "arange",
        "associative_scan",
        "atomic_add",
        "atomic_and",
        "atomic_cas",
        "atomic_max",
        "atomic_min",
        "atomic_or",
        "atomic_xchg",
        "atomic_xor",
        "barrier",
        "constexpr",
        "cumprod",
        "cumsum",
        "device_print",
        "dot",
        "dot_scaled",
        "full",
        "grid",
        "inline_asm_elementwise",
        "inline_triton",
        "jagged_tile",
        "join",
        "load",
        "positions",
        "rand",
        "rand4x",
        "rand_at",
        "randint",
        "randint_at",
        "reduce",
        "register_block_size",
        "register_tunable",
        "specialize",
        "split",
        "static_range",
        "store",
        "tile",
        "triton_kernel",
        "zeros",
    },
    "tileflow.errors": {
        "BuildError",
        "BuildTimeout",
        "CallError",
        "ClusterError",
        "ConfigError",
        "GradientError",
        "HostDataError",
        "InternalError",
        "KernelError",
        "LaunchError",
        "Location",
        "MissError",
        "MissingAttribute",
        "OtherFiles",
        "OutOfResources",
        "ShapeError",
        "SlowProblem",
        "SpecError",
        "SplitError",
        "TableError",
        "TileflowError",
        "TraceError",
        "UnsupportedOp",
        "VariantError",
    },
    "tileflow.config": {"Choice", "Config", "ConfigSpace", "Constraint", "Direction", "Knob", "Role"},
    "tileflow.expr": {
        "CHAINS",
        "DIVISIONS",
        "FALSE",
        "MAX_INT",
        "MIN_INT",
        "OPERANDS",
        "TRUE",
        "Expr",
        "ExprLike",
        "all_of",
        "any_of",
        "is_knob",
        "operation",
    },
    "tileflow.target": {
        "ANY_TARGET",
        "CATALOGUE",
        "DeviceProperties",
        "Target",
        "Vendor",
        "classify",
        "described",
        "described_here",
        "find",
        "normalise_arch",
        "nvidia_arch",
        "runs_on",
        "same_architecture",
        "target",
        "vendor_of",
    },
    "tileflow.runtime.abi": {
        "ArgKind",
        "Binary",
        "Combination",
        "Copies",
        "LaunchAbi",
        "LaunchArg",
        "Resources",
        "TensorMap",
    },
    "tileflow.runtime.problem": {"ArgSpec", "CallableSpec", "Problem", "Scalar", "ScalarSpec", "TensorSpec"},
    "tileflow.emit.source": {"TritonSource"},
    "tileflow.measure.types": {"DeviceFacts", "Measurement", "Outcome", "RankedResult", "Status", "require_finite"},
    "tileflow_search": {"STRATEGIES", "Result", "Strategy", "make"},
}


def public_names(module_name: str) -> set[str]:
    """``__all__``, else what the module itself defines at its top without a leading underscore."""
    module = importlib.import_module(module_name)
    if hasattr(module, "__all__"):
        return set(module.__all__)
    names: set[str] = set()
    for node in ast.parse(inspect.getsource(module)).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("module_name", PUBLIC)
def test_public_names_are_pinned(module_name: str) -> None:
    assert public_names(module_name) == PUBLIC[module_name]


def test_strategies_are_pinned() -> None:
    from tileflow_search import STRATEGIES

    assert list(STRATEGIES) == [
        "default", "random", "exhaustive", "tpe", "cma-es", "evolution", "pattern", "local",
    ]  # fmt: skip
