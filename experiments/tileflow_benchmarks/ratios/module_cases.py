"""The cases that :mod:`.modules` compares: kernels of :mod:`.module_chains` and :mod:`.module_windows` beside torch."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from tileflow.api import Kernel

Args = tuple[Any, ...]
Sizes = Mapping[str, int]
DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class ModuleCase:
    """A kernel and torch's own on the same arguments.

    ``module``: "chains" or "windows". ``make``: arguments of the given sizes, of torch's default dtype and device.
    ``small``: sizes with tails, which plain Python takes.
    """

    module: str
    kernel: str
    torch: Callable[..., Any]
    make: Callable[..., Args]
    sizes: Sizes
    small: Sizes
    dtype: str

    @property
    def name(self) -> str:
        """The kernel, the dtype and the sizes as text."""
        return f"{self.module} {self.kernel} {self.dtype} {'x'.join(map(str, self.sizes.values()))}"

    @property
    def loaded(self) -> Kernel:
        """The kernel, imported."""
        module = importlib.import_module(f"tileflow_benchmarks.ratios.module_{self.module}")
        found: Kernel = getattr(module, self.kernel)
        return found

    def args(self, device: str, is_small: bool = False) -> Args:
        """Return the arguments of one call, the same numbers each time."""
        torch.manual_seed(0)
        sizes = self.small if is_small else self.sizes
        made = [a.to(device) if isinstance(a, torch.Tensor) else a for a in self._made(device, sizes)]
        dtype: torch.dtype = getattr(torch, self.dtype)
        return tuple(a.to(dtype) if isinstance(a, torch.Tensor) else a for a in made)

    def _made(self, device: str, sizes: Sizes) -> Args:
        with torch.device(device):
            return self.make(**sizes)


# ---- chains ----------------------------------------------------------------------------------------------------------


def _weight(n: int, k: int) -> torch.Tensor:
    return torch.randn(n, k) / math.sqrt(k)


def _biased(m: int, n: int, k: int) -> Args:
    return torch.randn(m, k), _weight(n, k), torch.randn(n)


def _of_groups(m: int, n: int, k: int, groups: int) -> Args:
    return *_biased(m, n, k), torch.randn(n), torch.randn(n), groups


def _two_layers(m: int, n: int, k: int, h: int) -> Args:
    return torch.randn(m, k), _weight(h, k), torch.randn(h), _weight(n, h), torch.randn(n)


def _normed(m: int, n: int, k: int) -> Args:
    return torch.randn(m, k), _weight(n, k), torch.randn(n), torch.rand(n) + 0.5, torch.randn(n), torch.randn(n)


def _mish(x: Any, w: Any, b: Any) -> Any:
    y = F.linear(x, w, b) * 2.0
    total = torch.logsumexp(torch.clamp(y + y, -10.0, 10.0), 1)
    return total * F.mish(total)


def _swish(x: Any, w: Any, b: Any) -> Any:
    y = F.linear(x, w)
    return torch.sigmoid(y) * y + b


def _scaled(x: Any, w: Any, b: Any) -> Any:
    y = F.linear(x, w, b)
    return y * 0.5 + y


def _instance(x: Any, w: Any, b: Any, r: Any) -> Any:
    y = F.linear(x, w, b)
    return (F.layer_norm(y, (y.size(1),)) + r) * r


def _pooled_sum(x: Any, w: Any, b: Any) -> Any:
    return F.max_pool1d(F.linear(x, w, b)[:, None], 2)[:, 0].sum(1) * 0.5


def _pooled_max(x: Any, w: Any, b: Any) -> Any:
    return (F.gelu(F.avg_pool1d(F.linear(x, w, b)[:, None], 16)[:, 0]) * 2.0).amax(1)


def _leaky(x: Any, w: Any, b: Any, gamma: Any, beta: Any, groups: int) -> Any:
    y = F.leaky_relu(F.group_norm(F.linear(x, w, b), groups, gamma, beta), 0.01)
    return y + y


_SMALL = {"m": 19, "n": 48, "k": 37}
_IN_GROUPS = {"m": 19, "n": 48, "k": 37, "groups": 4}


def _chain(kernel: str, reference: Callable[..., Any], make: Callable[..., Args], sizes: Sizes,
           small: Sizes = _SMALL) -> list[ModuleCase]:  # fmt: skip
    return [ModuleCase("chains", kernel, reference, make, sizes, small, dtype) for dtype in DTYPES]


def _mnk(m: int, n: int, k: int, **more: int) -> Sizes:
    return {"m": m, "n": n, "k": k, **more}


CHAINS = (
    *_chain("bias_relu", lambda x, w, b: F.relu(F.linear(x, w, b)), _biased, _mnk(1024, 8192, 8192)),
    *_chain("divide_leaky_relu", lambda x, w, b: F.leaky_relu(F.linear(x, w, b) / 1.7, 0.01), _biased,
            _mnk(777, 1111, 2048)),
    *_chain("swish_bias", _swish, _biased, _mnk(16384, 1024, 1024)),
    *_chain("scaled_residual", _scaled, _biased, _mnk(16384, 4096, 512)),
    *_chain("minimum_subtract", lambda x, w, b, c: torch.minimum(F.linear(x, w, b), c) - c,
            lambda m, n, k: (*_biased(m, n, k), torch.randn(1)), _mnk(128, 4096, 4096)),
    *_chain("batch_norm_scale", lambda x, w, mean, var, gamma, beta:
            F.batch_norm(F.linear(x, w), mean, var, gamma, beta) * 1.5, _normed, _mnk(4096, 2048, 1024)),
    *_chain("swiglu", lambda x, gate, up: F.silu(F.linear(x, gate)) * F.linear(x, up),
            lambda m, n, k: (torch.randn(m, k), _weight(n, k), _weight(n, k)), _mnk(2048, 4096, 2048)),
    *_chain("mlp", lambda x, w1, b1, w2, b2: F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), _two_layers,
            _mnk(1024, 1000, 2048, h=4096), _SMALL | {"h": 40}),
    *_chain("gelu_softmax", lambda x, w, b: torch.softmax(F.gelu(F.linear(x, w, b)), 1), _biased,
            _mnk(1024, 8192, 4096)),
    *_chain("layer_norm_silu", lambda x, w, gamma, beta:
            F.silu(F.layer_norm(F.linear(x, w), (w.size(0),), gamma, beta)),
            lambda m, n, k: (torch.randn(m, k), _weight(n, k), torch.randn(n), torch.randn(n)), _mnk(8192, 512, 1024)),
    *_chain("hardswish_rms_norm", lambda x, w, gamma:
            F.rms_norm(F.hardswish(F.linear(x, w)), (w.size(0),), gamma, 1e-5),
            lambda m, n, k: (torch.randn(m, k), _weight(n, k), torch.randn(n)), _mnk(4096, 1111, 777)),
    *_chain("instance_norm_residual", _instance, lambda m, n, k: (*_biased(m, n, k), torch.randn(m, n)),
            _mnk(1024, 8192, 2048)),
    *_chain("sigmoid_sum", lambda x, w, b: torch.sigmoid(F.linear(x, w, b)).sum(1), _biased, _mnk(128, 8192, 8192)),
    *_chain("sigmoid_logsumexp", lambda x, w, b: torch.logsumexp(torch.sigmoid(F.linear(x, w, b)), 1), _biased,
            _mnk(16384, 1024, 2048)),
    *_chain("clamp_logsumexp_mish", _mish, _biased, _mnk(1024, 8192, 4096)),
    *_chain("max_pool_sum", _pooled_sum, _biased, _mnk(128, 4096, 4096)),
    *_chain("avg_pool_gelu_max", _pooled_max, _biased, _mnk(1024, 4096, 4096)),
    *_chain("group_norm_hardtanh", lambda x, w, b, gamma, beta, groups:
            F.hardtanh(F.group_norm(F.linear(x, w, b), groups, gamma, beta), -2.0, 2.0), _of_groups,
            _mnk(1024, 8192, 4096, groups=16), _IN_GROUPS),
    *_chain("group_norm_leaky_relu_sum", _leaky, _of_groups, _mnk(1024, 8192, 4096, groups=64), _IN_GROUPS),
    *_chain("group_norm_min", lambda x, w, b, gamma, beta, groups:
            F.group_norm(F.linear(x, w, b), groups, gamma, beta).amin(1), _of_groups,
            _mnk(1024, 4096, 2048, groups=32), _IN_GROUPS),
)  # fmt: skip


# ---- windows ---------------------------------------------------------------------------------------------------------


def _window(kernel: str, reference: Callable[..., Any], make: Callable[..., Args], sizes: Sizes, small: Sizes,
            dtypes: tuple[str, ...] = DTYPES) -> list[ModuleCase]:  # fmt: skip
    return [ModuleCase("windows", kernel, reference, make, sizes, small, dtype) for dtype in dtypes]


def _pool(kernel: str, axes: int, reference: Callable[..., Any], rest: Sizes, windows: tuple[int, int, int],
          small: Sizes) -> list[ModuleCase]:  # fmt: skip
    """Cases of one pooling: a width, a step and padding for all dimensions."""

    def by_torch(x: Any, width: int, step: int, room: int) -> Any:
        return reference(x[:, None], width, step, room)[:, 0]

    def make(width: int, step: int, room: int, **sizes: int) -> Args:
        return torch.randn(*sizes.values()), width, step, room

    window = dict(zip(("width", "step", "room"), windows, strict=True))
    assert len(rest) == axes + 1
    return _window(kernel, by_torch, make, {**rest, **window}, {**small, **window})


def _convolved(x: Any, w: Any, bias: Any) -> Any:
    return F.conv1d(F.pad(x, (w.size(1) - 1, 0)), w[:, None], bias, groups=w.size(0))


def _five(x: Any) -> Any:
    y = F.pad(x, (1, 1, 1, 1))
    return x + 0.1 * (y[:, :-2, 1:-1] + y[:, 2:, 1:-1] + y[:, 1:-1, :-2] + y[:, 1:-1, 2:] - 4 * x)


def _of_three(b: int, n: int, c: int) -> Args:
    return (torch.randn(b, n, c),)


_LINE, _PLANE, _SOLID = {"b": 3, "x": 37}, {"b": 2, "y": 13, "x": 19}, {"b": 2, "z": 9, "y": 7, "x": 11}
_PLANES = {"b": 256, "y": 512, "x": 512}
_THREE, _ODD, _FEW = {"b": 64, "n": 1024, "c": 512}, {"b": 128, "n": 777, "c": 333}, {"b": 3, "n": 21, "c": 13}

WINDOWS = (
    *_pool("avg_pool_1d", 1, F.avg_pool1d, {"b": 4096, "x": 8192}, (4, 2, 1), _LINE),
    *_pool("max_pool_1d", 1, F.max_pool1d, {"b": 4096, "x": 8191}, (8, 3, 4), _LINE),
    *_pool("avg_pool_2d", 2, F.avg_pool2d, _PLANES, (3, 2, 1), _PLANE),
    *_pool("max_pool_2d", 2, F.max_pool2d, {"b": 512, "y": 255, "x": 257}, (3, 2, 1), _PLANE),
    *_pool("avg_pool_3d", 3, F.avg_pool3d, {"b": 64, "z": 64, "y": 128, "x": 128}, (3, 2, 1), _SOLID),
    *_pool("max_pool_3d", 3, F.max_pool3d, {"b": 64, "z": 64, "y": 128, "x": 128}, (2, 2, 0), _SOLID),
    *_window("five_points", _five, lambda b, y, x: (torch.randn(b, y, x),), _PLANES, _PLANE),
    *_window("nine_points", lambda x, w: F.conv2d(x[:, None], w[None, None], padding=1)[:, 0],
             lambda b, y, x: (torch.randn(b, y, x), torch.randn(3, 3)), _PLANES, _PLANE),
    *_window("causal_convolution", _convolved,
             lambda b, c, x, width: (torch.randn(b, c, x), torch.randn(c, width), torch.randn(c)),
             {"b": 8, "c": 2048, "x": 4096, "width": 4}, {"b": 2, "c": 5, "x": 23, "width": 4}),
    *_window("middle_sum", lambda x: x.sum(1), _of_three, _THREE, _FEW),
    *_window("middle_mean", lambda x: x.mean(1), _of_three, _ODD, _FEW),
    *_window("middle_max", lambda x: x.amax(1), _of_three, _THREE, _FEW),
    *_window("middle_argmax", lambda x: x.argmax(1), _of_three, _THREE, _FEW, ("float32",)),
    *_window("middle_softmax", lambda x: torch.softmax(x, 1), _of_three, _THREE, _FEW),
    *_window("middle_cumsum", lambda x: torch.cumsum(x, 1), _of_three, _THREE, _FEW),
)  # fmt: skip

CASES = (*CHAINS, *WINDOWS)
