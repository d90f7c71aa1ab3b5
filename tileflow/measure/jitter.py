"""Arithmetic whose results are an ulp of float32 away from what they are: what another order of roundings may do."""

from __future__ import annotations

from functools import cache
from typing import Any

# Names of torch's functions and methods. What picks, moves or compares numbers rounds nothing.
_NAMES = """
    add sub subtract rsub mul multiply div divide truediv true_divide pow square sqrt rsqrt reciprocal
    exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sigmoid erf softplus silu gelu addcmul addcdiv lerp fma
    sum mean var std logsumexp softmax log_softmax cumsum matmul mm bmm addmm baddbmm dot einsum
"""
_FORMS = ("{}", "{}_", "__{}__", "__r{}__", "__i{}__")
_ROUNDS = frozenset(form.format(name) for name in _NAMES.split() for form in _FORMS)


def jitter(seed: int) -> Any:
    """A context in which floating-point results of arithmetic move up or down by an ulp of float32, each by chance."""
    return _mode()(seed)


@cache
def _mode() -> Any:
    """Made late, because it needs torch."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Jitter(TorchFunctionMode):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self._seed = seed
            self._generators: dict[torch.device, torch.Generator] = {}

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            is_rounded = getattr(func, "__name__", "") in _ROUNDS and isinstance(result, torch.Tensor)
            return self._moved(result) if is_rounded and result.is_floating_point() else result

        def _moved(self, result: torch.Tensor) -> torch.Tensor:
            generator = self._generators.get(result.device)
            if generator is None:
                generator = self._generators[result.device] = torch.Generator(result.device).manual_seed(self._seed)
            signs = torch.randint(0, 2, result.shape, generator=generator, device=result.device, dtype=torch.int8)
            ulp = max(torch.finfo(torch.float32).eps, torch.finfo(result.dtype).eps)
            return result.mul_(1 + (2 * signs - 1) * ulp) if result.numel() else result

    return Jitter
