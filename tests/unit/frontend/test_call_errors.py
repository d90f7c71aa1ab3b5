"""Mistakes of a call and of a config, and those of ours: who is told what."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.mistakes.table import H200, V, meta

import tileflow
import tileflow.language as tfl
from tileflow.errors import (
    CallError,
    ConfigError,
    InternalError,
    KernelError,
    Location,
)
from tileflow.target import target

# ---- mistakes of a call -------------------------------------------------------------------------


@tileflow.kernel
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + y[tile]
    return out


@tileflow.kernel
def fixed(x: torch.Tensor, n: tfl.constexpr) -> torch.Tensor:
    for tile in tfl.tile(x.numel()):
        x[tile] = 1
    return x


@tileflow.kernel
def foreign(x: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.numel()):
        x[tile] = tfl.inline_triton("tl.exp({0})", (x[tile],), x[tile])
    return x


ROW = torch.ones(20)


@pytest.mark.parametrize(
    ("kernel", "args", "says"),
    [
        (add, (ROW,), "missing a required argument: 'y'"),
        (add, (ROW, ROW, ROW), "too many positional arguments"),
        (add, (1, 2), "no tensor\n  pass at least one tensor"),
        (add, (ROW, torch.empty(20, device="meta")), "are on one device, but got"),
        (add, (ROW.clone().requires_grad_(), ROW), "pair it with a backward by tileflow.differentiable"),
        (add, (ROW, object()), "but got y of type object"),
        (fixed, (ROW, [1]), "unhashable type: 'list'"),
        (fixed, (ROW, ROW), "annotate the parameter torch.Tensor"),
    ],
)
def test_a_call_that_cannot_be(kernel: Any, args: tuple[Any, ...], says: str) -> None:
    with pytest.raises(CallError) as caught:
        kernel(*args)
    assert says in str(caught.value) and caught.value.hint


def test_inline_triton_without_a_reference_has_no_meaning_as_python() -> None:
    with pytest.raises(CallError, match="give it one: reference="):
        foreign.run_eagerly(ROW)


@pytest.mark.parametrize("name", ["rand", "zeros", "tile", "register_block_size", "atomic_add"])
def test_the_language_outside_a_kernel(name: str) -> None:
    args = {"rand": ([3], 1), "atomic_add": (ROW, [0], 1)}.get(name, (3,))
    with pytest.raises(CallError, match=r"works inside a @tileflow\.kernel function only"):
        list(getattr(tfl, name)(*args))


def test_configs_that_cannot_be() -> None:
    lowered = add.lower((meta(20), meta(20)), H200)
    with pytest.raises(ConfigError, match=r"'blok'\n  the knobs are block:tile, "):
        lowered.emit(lowered.default.with_({"blok": 3}))
    with pytest.raises(ConfigError, match=r"block:tile must be one of \[.*\], but got 3"):
        lowered.emit(lowered.default.with_({"block:tile": 3}))


def test_a_dtype_that_the_target_lacks() -> None:
    @tileflow.kernel
    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(64, 64, device=x.device)
        for tile_m, tile_n in tfl.tile([64, 64]):
            out[tile_m, tile_n] = tfl.dot(x[tile_m, :], y[:, tile_n])
        return out

    args = meta(64, 96, dtype=torch.float8_e4m3fn), meta(96, 64, dtype=torch.float8_e4m3fn)
    lowered = product.lower(args, target("nvidia-a100"))
    with pytest.raises(ConfigError, match="float8_e4m3fn needs sm_89 or newer; nvidia-a100 is sm_80") as refused:
        lowered.emit(lowered.default)
    text = str(refused.value)  # no page of knobs, and nothing of loops, which could not help
    assert "but got any config" in text and "x.to(torch.float16)" in text and "tfl.tile" not in text.splitlines()[-1]


def test_a_kernel_without_source() -> None:
    names: dict[str, Any] = {"tfl": tfl}
    exec("def typed_in(x):\n    for tile in tfl.tile(4):\n        x[tile] = 0\n", names)
    with pytest.raises(KernelError, match=r"define it in a \.py file"):
        tileflow.kernel(names["typed_in"])


def test_a_recursive_function_that_ends() -> None:
    def power(value: Any, n: int) -> Any:
        return value * power(value, n - 1) if n > 0 else 1.0

    @tileflow.kernel
    def cubes(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            x[tile] = power(x[tile], 3) * count_down(2)
        return x

    assert cubes.lower((V,), H200).regions


def count_down(n: int) -> int:
    return 1 + count_down(n - 1) if n > 0 else 0


# ---- mistakes of ours ---------------------------------------------------------------------------


def test_an_internal_error_names_the_operation_and_asks_for_the_repro(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow.emit.table import TRITON

    def broken(emitter: Any, op: Any) -> None:
        raise KeyError("nothing")

    lowered = add.lower((meta(20), meta(20)), H200)
    monkeypatch.setitem(TRITON, "pointwise", broken)
    with pytest.raises(InternalError, match="the operation pointwise") as caught:
        lowered.emit(lowered.default)
    assert "kernel.repro" in caught.value.hint and "KeyError: 'nothing'" in str(caught.value)
    assert isinstance(caught.value.where, Location) and "x[tile] + y[tile]" in caught.value.where.text


def test_a_handler_that_breaks_is_an_internal_error_at_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow.frontend import torch_registry

    ours: dict[str, Any] = {"__name__": "tileflow.frontend.broken"}
    exec("def broken(tracer, x):\n    return {}[0]\n", ours)
    monkeypatch.setitem(torch_registry.METHODS, "exp", ours["broken"])

    @tileflow.kernel
    def exponentials(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            x[tile] = x[tile].exp()
        return x

    with pytest.raises(InternalError, match="KeyError: 0") as caught:
        exponentials.lower((V,), H200)
    assert isinstance(caught.value.where, Location) and ".exp()" in caught.value.where.text
