"""Assembly, Triton's own text and functions, printing: eager, interpreted, compiled for each device, and refused."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
from tile_testing.kernels import escape_kernels as kernels
from tile_testing.kernels import path_of
from tile_testing.kernels.escape_kernels import CASES, N, V
from tile_testing.runs.compiled import TARGETS
from tile_testing.runs.interpreted import Call, run_eagerly

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.errors import CallError, ConfigError, TraceError
from tileflow.target import target

Interpreter = Callable[..., Any]
KERNELS = path_of("escape_kernels")
ASSEMBLY = ("reverse_bytes", "two_results")
H200 = target("nvidia-h200")
OWN = print, breakpoint  # while this module is read: Ray puts its own there once another test has started it


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_interpreted(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""


@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("name", [*CASES, "prints", "without_a_reference", "for_amd"])
def test_compiles_where_it_may(name: str, device: str) -> None:
    """Assembly is a vendor's: on the other's devices no config is valid, and the reason says why."""
    args = CASES[name].args if name in CASES else (N,)
    vendor = "amd" if name == "for_amd" else "nvidia" if name in (*ASSEMBLY, "without_a_reference") else ""
    lowered = getattr(kernels, name).lower(args, target(device))
    if vendor and vendor != target(device).vendor:
        with pytest.raises(ConfigError, match=f"the inline assembly is {vendor}'s"):
            lowered.emit(lowered.default)
        return
    (source,) = lowered.emit(lowered.default)
    assert build(source, target(device)).code


def test_impure_assembly_stays() -> None:
    @tileflow.kernel
    def unread(x: torch.Tensor, pure: bool) -> None:
        for tile in tfl.tile(x.size(0)):
            tfl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x[tile]], torch.int32, is_pure=pure)
            x[tile] = 0

    for pure in (True, False):
        lowered = unread.lower((N, pure), H200)
        assert ("mov.b32" in lowered.emit(lowered.default)[0].text) is not pure


def test_without_a_reference_python_says_what_is_missing(interpreter: Interpreter) -> None:
    with pytest.raises(CallError, match="reference="):
        kernels.without_a_reference.run_eagerly(N.clone())
    (said,) = interpreter("runs.interpreted:run_all", [Call(KERNELS, "without_a_reference", (N.clone(),))])
    assert "needs a GPU: give it a reference=" in said


def test_a_triton_function_keeps_its_own_constants() -> None:
    """Two functions of one name are two in the module, and each brings what it calls."""
    lowered = kernels.calls_triton.lower((V,), H200)
    text = lowered.emit(lowered.default)[0].text
    assert text.count("def activated_") == 1 and text.count("def scaled_") == 1 and "x * factor * 0.5" in text


def test_prints(interpreter: Interpreter, capfd: pytest.CaptureFixture[str]) -> None:
    kernels.prints.run_eagerly(N[:3])
    assert "values  tensor([     0,  65537, 131074], dtype=torch.int32)\nid and size 0 3" in capfd.readouterr().out
    lowered = kernels.prints.lower((N,), H200)
    text = lowered.emit(lowered.default)[0].text
    assert "tl.device_print('values '," in text and "tl.device_print('id and size'," in text
    (got,) = interpreter("runs.interpreted:run_all", [Call(KERNELS, "prints", (N,))])
    assert torch.equal(got, N)


def _another(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("device code runs no builtin while it is recorded")


def _another_stop(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("nor does it stop")


@pytest.mark.parametrize("held", ["python's own", "the other"])
def test_a_builtin_that_a_library_replaced_keeps_its_meaning(monkeypatch: pytest.MonkeyPatch, held: str) -> None:
    """Ray puts its own ``print`` into the process of a driver, debuggers their own ``breakpoint``."""
    show, stop = OWN if held == "python's own" else (_another, _another_stop)
    monkeypatch.setattr(builtins, "print", _another)
    monkeypatch.setattr(builtins, "breakpoint", _another_stop)

    @tileflow.kernel
    def shows(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            show("size", x.size(0))
            x[tile] += 1

    @tileflow.kernel
    def stops_itself(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            stop()
            x[tile] += 1

    lowered = shows.lower((N,), H200)
    assert "tl.device_print('size'," in lowered.emit(lowered.default)[0].text
    with pytest.raises(TraceError, match=r"tileflow\.interpret\(\)"):
        stops_itself.lower((N,), H200)


TABLE = {"a": 1}


@triton.jit
def reads_a_table(x):
    return x + TABLE["a"]


def mistakes() -> list[tuple[Any, str]]:  # noqa: C901
    @tileflow.kernel
    def stops(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            breakpoint()
            x[tile] = 0

    @tileflow.kernel
    def formats(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            print(f"x = {x[tile]}")

    @tileflow.kernel
    def two_texts(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            print("a", x[tile], "b", x[tile])

    @tileflow.kernel
    def no_such_placeholder(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = tfl.inline_triton("{0} + {1}", (x[tile],), x[tile])

    @tileflow.kernel
    def no_expression(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = tfl.inline_triton("y = {0}", (x[tile],), x[tile])

    @tileflow.kernel
    def no_python(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = tfl.inline_triton("{0} +", (x[tile],), x[tile])

    @tileflow.kernel
    def called_directly(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = kernels.scaled(x[tile], 2)

    @tileflow.kernel
    def unwritable(x: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            x[tile] = tfl.triton_kernel(reads_a_table, (x[tile],), x[tile])

    return [
        (stops, r"tileflow\.interpret\(\)"), (formats, "device_print"), (two_texts, "one text, then"),
        (no_such_placeholder, r"\{1\}"), (no_expression, "ends with an expression"), (no_python, "is Python text"),
        (called_directly, r"tfl\.triton_kernel"), (unwritable, "TABLE = .* in reads_a_table"),
    ]  # fmt: skip


@pytest.mark.parametrize(("kernel", "says"), mistakes(), ids=lambda k: getattr(k, "__name__", ""))
def test_mistakes_are_named_with_their_place(kernel: Any, says: str) -> None:
    with pytest.raises(TraceError, match=says) as raised:
        kernel.lower((N,), H200)
    assert "test_escapes.py:" in str(raised.value)
