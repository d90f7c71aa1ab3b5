"""Modules with parameters and buffers, methods and objects, wherever a kernel may get them from."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch
import torch.nn.functional as F
from torch import nn

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


@helion.kernel(static_shapes=True)
def to_rows(x: torch.Tensor, f: Any) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = f(x[tile, :])
    return out


@helion.kernel(static_shapes=True)
def to_columns(x: torch.Tensor, f: Any, columns: int) -> torch.Tensor:
    out = torch.empty([x.size(0), columns], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = f(x[tile, :])
    return out


@helion.kernel(static_shapes=True)
def to_planes(x: torch.Tensor, f: Any) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :, :] = f(x[tile, :, :])
    return out


@helion.kernel(static_shapes=True)
def by_each(x: torch.Tensor, fs: list[Any]) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        value = x[tile, :]
        for f in fs:
            value = f(value)
        out[tile, :] = value
    return out


@helion.kernel(static_shapes=True)
def by_name(x: torch.Tensor, fs: Any) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = fs["second"](fs["first"](x[tile, :]))
    return out


@helion.kernel(static_shapes=True)
def of_weights(x: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
    """A module's tensors by index, as any others."""
    out = torch.empty([x.size(0), layer.weight.size(0)], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([x.size(0), layer.weight.size(0)]):
        out[tile_m, tile_n] = x[tile_m, :] @ layer.weight[tile_n, :].T + layer.bias[tile_n]
    return out


class Affine(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))
        self.register_buffer("shift", torch.randn(size))
        self._scale = 0.75
        self._mode = "plain"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled = x * self.weight * self._scale
        if self._mode == "plain":
            return scaled + self.shift
        return scaled


class Residual(nn.Module):
    """Modules in modules, in a list and by attribute."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Affine(size), nn.GELU(), Affine(size)])
        self.norm = nn.LayerNorm(size, eps=1e-3)
        self.scales = nn.ParameterList([torch.randn(size), torch.randn(size)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = x + layer(x) if i else layer(x)
        return self.norm(x) * self.scales[0] + self.scales[1]


class Gate:
    """A plain object with a tensor, a flag and a method that another one calls."""

    def __init__(self, gate: torch.Tensor, is_soft: bool) -> None:
        self.gate, self.is_soft = gate, is_soft

    def activate(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) if self.is_soft else torch.relu(x)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.activate(x) * self.gate


@dataclasses.dataclass(frozen=True)
class Bend:
    slope: float
    act: Callable[[torch.Tensor], torch.Tensor] = torch.relu

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x) * self.slope


def in_a_closure(f: Any) -> Callable[..., Any]:
    @helion.kernel(static_shapes=True)
    def applied(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in hl.tile(x.size(0)):
            out[tile, :] = f(x[tile, :])
        return out

    return applied


torch.manual_seed(3)
GLOBAL = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), Affine(16)).requires_grad_(False)


@helion.kernel(static_shapes=True)
def of_a_global(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = GLOBAL(x[tile, :])
    return out


def cases() -> Iterator[Case]:
    x, planes = torch.randn(6, 16), torch.randn(5, 6, 8)
    row_modules: dict[str, Any] = {
        "leaky_relu": nn.LeakyReLU(0.2), "gelu_by_tanh": nn.GELU("tanh"), "softplus": nn.Softplus(2.0),
        "layer_norm": nn.LayerNorm(16), "rms_norm": nn.RMSNorm(16, eps=1e-5), "softmax": nn.Softmax(dim=-1),
        "dropout_of_nothing": nn.Dropout(0.5).eval(), "identity": nn.Identity(), "affine": Affine(16),
        "residual": Residual(16), "nested": nn.Sequential(nn.Sequential(nn.Tanh(), Affine(16)), nn.ReLU6()),
        "batch_norm": nn.BatchNorm1d(16).eval(), "linear": nn.Linear(16, 16), "linear_alone": nn.Linear(16, 16, False),
    }  # fmt: skip
    row_modules["batch_norm"].running_mean.normal_()
    for name, module in row_modules.items():
        module.requires_grad_(False)
        yield f"module_{name}", to_rows, (x, module), lambda x, f: f(x)
    for name in ("residual", "affine", "layer_norm"):
        yield f"module_{name}_in_a_closure", in_a_closure(row_modules[name]), (x,), row_modules[name]
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), Affine(16))).requires_grad_(False)
    yield "traced_with_weights", to_rows, (x, traced), lambda x, f: f(x)
    yield "traced_in_a_closure", in_a_closure(traced), (x,), traced
    yield "module_of_a_global", of_a_global, (x,), GLOBAL
    narrow = nn.Linear(16, 8).requires_grad_(False)
    yield "linear_to_fewer", to_columns, (x, narrow, 8), lambda x, f, n: f(x)
    yield "weights_by_index", of_weights, (x, narrow), lambda x, f: f(x)
    for name, norm in {"group_norm": nn.GroupNorm(3, 6), "instance_norm": nn.InstanceNorm1d(6, affine=True)}.items():
        yield f"module_{name}", to_planes, (planes, norm.requires_grad_(False)), lambda x, f: f(x)
    both = [row_modules["affine"], nn.SELU()]
    yield "modules_in_a_list", by_each, (x, both), lambda x, fs: fs[1](fs[0](x))
    named = nn.ModuleDict({"first": both[0], "second": both[1]})
    yield "modules_by_name", by_name, (x, named), lambda x, fs: fs["second"](fs["first"](x))
    yield "modules_in_a_dictionary", by_name, (x, dict(named)), lambda x, fs: fs["second"](fs["first"](x))
    for is_soft in (True, False):
        yield f"object_with_a_tensor_{is_soft}", to_rows, (x, Gate(torch.randn(16), is_soft)), lambda x, f: f(x)
    yield "method_of_an_object", to_rows, (x, Gate(torch.randn(16), True).activate), lambda x, f: f(x)
    yield "method_of_a_module", to_rows, (x, row_modules["affine"].forward), lambda x, f: f(x)
    yield "record_that_is_called", to_rows, (x, Bend(1.5)), lambda x, f: f(x)
    yield "record_of_a_function", to_rows, (x, Bend(0.5, F.silu)), lambda x, f: f(x)
    for name, f in {"functional": F.silu, "builtin": torch.tanh, "library": F.hardswish}.items():
        yield f"function_{name}", to_rows, (x, f), lambda x, f: f(x)
        yield f"function_{name}_in_a_closure", in_a_closure(f), (x,), f
