"""Exported programs and their operators in processes that have traced nothing (they did not load before)."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.kernels import program_kernels as kernels

import tileflow
from tileflow import operators
from tileflow.errors import CallError
from tileflow.programs import FILE

Tensor = torch.Tensor


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    found: torch.export.ExportedProgram = kernels.program()
    return found


@pytest.fixture
def nothing_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators are registered once in a process: those of this test are another process's."""
    monkeypatch.setattr(operators, "_defined", {})


@pytest.mark.slow
def test_a_program_loads_in_a_process_without_a_compiler(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    file = tmp_path / "model.pt2"
    torch.export.save(program, file, extra_files=tileflow.saved_operators(program))
    command = [sys.executable, "-m", kernels.__name__, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_a_package_of_aotinductor_loads_in_a_process_without_a_compiler(
    program: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    """Its calls on a CPU are operators, which it names and does not hold."""
    from torch._inductor import aoti_compile_and_package  # noqa: TID251  (as documented)

    package = aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    with pytest.raises(CallError, match="a package of AOTInductor holds no operators: write the text"):
        tileflow.load_operators(package)
    beside = tmp_path / "operators.json"
    beside.write_text(tileflow.saved_operators(program)[FILE])
    command = [sys.executable, "-m", kernels.__name__, str(beside), str(package)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def declared(program: torch.export.ExportedProgram) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    whole = json.loads(tileflow.saved_operators(program)[FILE])
    return whole, whole["operators"]


def test_what_is_saved_of_a_program(program: torch.export.ExportedProgram) -> None:
    _, found = declared(program)
    assert [one["kernel"] for one in found] == [f"{kernels.__name__}:into", f"{kernels.__name__}:scaled"]
    assert found[0]["stored"] == [0]
    assert found[1]["template"] == ["tuple", [
        ["leaf", "Tensor", "x"], ["leaf", "Tensor", "y"], ["leaf", "float", "times"], ["dtype", "torch.float32"],
        ["tuple", [["leaf", "SymInt", "steps_0"], ["leaf", "SymInt", "steps_1"]]],
    ]]  # fmt: skip
    assert tileflow.load_operators(tileflow.saved_operators(program)) == tuple(one["name"] for one in found)


def test_a_program_without_kernels_has_none() -> None:
    class Plain(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    program = torch.export.export(Plain(), (torch.randn(4),))
    assert tileflow.load_operators(tileflow.saved_operators(program)) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kernel": f"{kernels.__name__}:mapped"}, "the one that it was exported with"),
        ({"kernel": f"{kernels.__name__}:gone"}, "kernels are here.*'gone'"),
        ({"kernel": "no_such_module_here:gone"}, "kernels are here.*no_such_module_here"),
        ({"stored": [1]}, "the one that it was exported with"),
        ({"template": ["tuple", [["set", 3]]]}, "what tileflow.saved_operators wrote"),
        ({"template": ["tuple", [["dtype", "torch.nn"]]]}, "what tileflow.saved_operators wrote"),
        ({"results": None}, "what tileflow.saved_operators wrote"),
    ],
)
def test_an_operator_that_is_another_one_here(
    change: dict[str, Any], said: str, program: torch.export.ExportedProgram
) -> None:
    whole, found = declared(program)
    found[0] |= change
    with pytest.raises(CallError, match=f"(?s){said}"):
        tileflow.load_operators({FILE: json.dumps(whole)})


def test_a_file_that_says_nothing_of_kernels(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    file = tmp_path / "model.pt2"
    torch.export.save(program, file)
    with pytest.raises(CallError, match="extra_files="):
        tileflow.load_operators(file)
    (tmp_path / "other.json").write_text('{"version": 9, "operators": []}')
    with pytest.raises(CallError, match="version 1"):
        tileflow.load_operators(tmp_path / "other.json")


def test_a_package_of_aotinductor_is_told_where_operators_go(tmp_path: Path) -> None:
    """It was told to save the program by torch.export.save."""
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/data/aotinductor/model/a.wrapper.so", b"")
    with pytest.raises(CallError, match=r"write the text of tileflow\.saved_operators\(program\) to a file"):
        tileflow.load_operators(tmp_path / "model.pt2")


@pytest.mark.parametrize("given", [None, 3, b"model.pt2", io.BytesIO(), {}, {"other.json": "{}"}])
def test_what_is_no_file_of_operators_is_refused_in_words(given: Any) -> None:
    with pytest.raises(CallError, match="loaded from a path, or from what"):
        tileflow.load_operators(given)


def test_a_file_of_operators_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary, cut = tmp_path / "binary", tmp_path / "cut.pt2"
    binary.write_bytes(b"\xff\xfe")
    with zipfile.ZipFile(cut, "w") as archive:
        archive.writestr(f"cut/extra/{FILE}", b"\xff\xfe")
    for file in (tmp_path / "none.pt2", tmp_path, binary, cut):
        with pytest.raises(CallError, match=f"(?s)must be readable.*at {file}"):
            tileflow.load_operators(file)


def test_operators_are_saved_of_programs_alone(program: torch.export.ExportedProgram) -> None:
    for given in (None, program.module()):
        with pytest.raises(CallError, match=r"what torch\.export\.export returned"):
            tileflow.saved_operators(given)


def test_kernels_that_no_other_process_finds() -> None:
    @tileflow.kernel
    def inner(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for tile in tileflow.language.tile(x.numel()):
            out[tile] = x[tile] + 1
        return out

    class Local(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return inner(x)

    class Mapped(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return kernels.mapped(x, torch.relu)

    for module, said in ((Local(), "modules that other processes import"), (Mapped(), "take tensors, numbers")):
        with pytest.raises(CallError, match=said):
            tileflow.saved_operators(torch.export.export(module, (torch.randn(8),)))


def test_an_operator_that_a_module_registers_is_saved_by_its_module() -> None:
    """A program with the linear loss in training was refused as one whose kernels nobody had traced."""
    import tileflow.kernels as ours

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(11, 16))

        def forward(self, x: Tensor, labels: Tensor) -> Tensor:
            return ours.linear_cross_entropy(x, self.weight, labels)

    program = torch.export.export(Loss(), (torch.randn(8, 16), torch.arange(8)))
    whole, (found,) = declared(program)
    assert found == {"name": "linear_cross_entropy_chunks", "module": "tileflow.kernels.linear_loss"}
    assert tileflow.load_operators({FILE: json.dumps(whole)}) == ("linear_cross_entropy_chunks",)
    for module, said in (("json", "registers no such operator"), ("no_such_module_here", "no_such_module_here")):
        wrong = whole | {"operators": [found | {"module": module}]}
        with pytest.raises(CallError, match=f"kernels are here.*{said}"):
            tileflow.load_operators({FILE: json.dumps(wrong)})


def test_a_kernel_is_the_same_while_torch_export_replaces_functions_of_pythons() -> None:
    """torch.export has its own ``max``, ``min`` and ``math.pow`` while it traces. Device code that says them was
    refused, and hashes that were read then, a row's and an operator's, were found by no other process."""

    class Limited(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            found.append((made.semantic_hash, made.identity))
            return made(x, 4)

    made, x = tileflow.kernel(kernels.limited.__wrapped__), torch.randn(8)
    found: list[tuple[str, str]] = []
    program = torch.export.export(Limited(), (x,))
    same = tileflow.kernel(kernels.limited.__wrapped__)
    assert {*found} == {(same.semantic_hash, same.identity)}
    assert declared(program)[1][0]["kernel"] == same.name
    torch.testing.assert_close(program.module()(x), x.clamp(min=0.5) * 4 * 8)


def test_a_loaded_operator_is_traced_as_the_kernel_s_own_call(
    program: torch.export.ExportedProgram, nothing_traced: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a compiler sees, and how it is differentiated, a file does not say: a call that is traced here has an
    operator of its own beside the loaded one."""
    with pytest.raises(CallError, match="were traced, or loaded, by the process that saves it"):
        tileflow.saved_operators(program)
    operator = operators.Operator(kernels.scaled, *template_of(kernels.scaled), frozenset())
    registered: list[str] = []
    monkeypatch.setattr(operators, "register_opaque", lambda name, *_: registered.append(name))
    monkeypatch.setattr(operators, "register_visible", lambda name, *_: registered.append(name))
    monkeypatch.setattr(torch.ops, operators.NAMESPACE, _Anything())
    for _ in range(2):
        operators.define(operator, loaded_as=operator.name)
        operators.define(operator)
    assert registered == [f"tileflow::{operator.name}", f"tileflow::{operator.name}_here"]


def template_of(kernel: Any) -> tuple[Any, Any]:
    from tileflow.runtime.argtree import Inner, Leaf, SequenceShell, flatten_call

    template, _ = flatten_call(kernel.host, (torch.zeros(2), torch.zeros(2), 1.0), {})
    return template, Inner(SequenceShell(tuple, 2), (Leaf(0, "Tensor", "result_0"), Leaf(1, "Tensor", "result_1")))


class _Anything:
    def __getattr__(self, name: str) -> Any:
        return _Anything()
