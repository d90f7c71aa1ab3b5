"""What the dialect's example files import to run themselves: a device, dtypes, a comparison with timings."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from ...errors import CallError
from .config import Config
from .kernel import Kernel
from .timing import milliseconds

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HALF_DTYPE = torch.float16
LONG_INT_TYPE = torch.int64
PROJECT_ROOT = Path.cwd()
EXAMPLES_DIR = PROJECT_ROOT / "examples"

Subject = Callable[..., Any]


def get_nvidia_gpu_model() -> str:
    """The name of the current GPU; empty without one."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def is_cuda() -> bool:
    """Whether torch finds a GPU."""
    return torch.cuda.is_available()


def run_example(
    kernel_fn: Subject | Mapping[str, Subject],
    baseline_fn: Subject | Mapping[str, Subject],
    args: Sequence[Any],
    kernel_name: str = "helion",
    baseline_name: str = "torch",
    rtol: float = 1e-2,
    atol: float = 1e-1,
    max_mismatch_pct: float | None = None,
    bwd: bool = False,
    **options: Any,
) -> dict[str, float]:
    """Compare kernels, and further baselines, with the first baseline; on a GPU print how long each takes.

    ``max_mismatch_pct``: the share of elements that may differ. ``bwd``: also compare the gradients of the arguments
    that require them. Returns milliseconds by name, empty without a GPU. Raises AssertionError where results differ.
    """
    kernels = dict(kernel_fn) if isinstance(kernel_fn, Mapping) else {kernel_name: kernel_fn}
    baselines = dict(baseline_fn) if isinstance(baseline_fn, Mapping) else {baseline_name: baseline_fn}
    reference, *others = baselines
    wanted = _results(baselines[reference], args, bwd)
    everything = {**kernels, **{name: baselines[name] for name in others}}
    for name, function in everything.items():
        _compare(name, _results(function, args, bwd), wanted, rtol, atol, max_mismatch_pct or 0.0)
        print(f"{name}: agrees with {reference}", file=sys.stderr)
    if DEVICE.type != "cuda":
        return {}
    times = {n: milliseconds(f, args) for n, f in {**everything, reference: baselines[reference]}.items()}
    _print_times(times, reference)
    return times


def _results(function: Subject, args: Sequence[Any], bwd: bool) -> list[Any]:
    """The tensors that a call gives, and where asked for the gradients of one of all ones."""
    leaves: list[Any] = tree_flatten(function(*args))[0]
    if not bwd:
        return leaves
    roots = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    if not roots:
        raise CallError("a backward comparison has arguments that require grad", got="none")
    out = leaves[0]
    return [*leaves, *torch.autograd.grad(out, roots, torch.ones_like(out), allow_unused=True)]


def _compare(
    name: str, got: Sequence[Any], wanted: Sequence[Any], rtol: float, atol: float, share: float = 0.0
) -> None:
    assert len(got) == len(wanted), f"{name} gives {len(got)} results, not {len(wanted)}"
    for ours, theirs in zip(got, wanted, strict=True):
        if not isinstance(theirs, torch.Tensor):
            assert theirs is None or ours == theirs, f"{name} gives {ours!r}, not {theirs!r}"
        elif share:
            differ = (~torch.isclose(ours.float(), theirs.float(), rtol=rtol, atol=atol)).float().mean().item()
            assert differ <= share, f"{differ:.3%} of {name}'s elements differ"
        else:
            torch.testing.assert_close(ours.float(), theirs.float(), rtol=rtol, atol=atol)


def _print_times(times: Mapping[str, float], reference: str) -> None:
    print(f"{'implementation':<24}{'ms':>10}{'speedup':>10}", file=sys.stderr)
    for name, time in times.items():
        print(f"{name:<24}{time:>10.4f}{times[reference] / time:>9.2f}x", file=sys.stderr)


def import_path(path: str | Path) -> ModuleType:
    """The module in a file, imported once."""
    path = Path(path)
    name = f"{__name__}.{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def code_and_output(fn: Kernel, args: Sequence[Any], **config: Any) -> tuple[str, Any]:
    """The generated source under a config of these keys, and what a call gives under it."""
    bound = fn.bind(args)
    if config:
        bound.set_config(Config(**config))
    return bound.to_triton_code(), bound(*args)


def output_only(fn: Kernel, args: Sequence[Any], **config: Any) -> Any:
    """What a call gives under a config of these keys."""
    bound = fn.bind(args)
    if config:
        bound.set_config(Config(**config))
    return bound(*args)


def check_example(
    name: str,
    args: Sequence[Any],
    expected: Any,
    fn_name: str | None = None,
    skip_accuracy: bool = False,
    static_shapes: bool | None = None,
    atol: float = 1e-1,
    rtol: float = 1e-2,
    **config: Any,
) -> str:
    """Run a kernel of ``examples/<name>.py`` under a config and compare; returns the generated source."""
    kernel = getattr(import_path(EXAMPLES_DIR / f"{name}.py"), fn_name or name)
    if static_shapes is not None:
        kernel.settings.values["static_shapes"] = static_shapes
    code, result = code_and_output(kernel, args, **config)
    if not skip_accuracy:
        _compare(name, tree_flatten(result)[0], tree_flatten(expected)[0], rtol, atol)
    return code
