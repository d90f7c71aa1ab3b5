"""What is written for one thing and read as another: numbers of YAML, options of another command, kernels' names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from tile_testing.fakes.experiments_fakes import spec_data
from tileflow_cluster.pipeline import compile_stage
from tileflow_cluster.protocol import TrialRequest
from tileflow_experiments import cli, sweep
from tileflow_experiments.recorded import spec_of_calls
from tileflow_experiments.records import StudyKey
from tileflow_experiments.spec import SweepSpec, parse, read
from tileflow_experiments.tuning_task import prepare
from typer.testing import CliRunner

import tileflow
from tileflow.api import load_kernel
from tileflow.errors import SpecError
from tileflow.measure.interpret import InterpreterProcess, InterpretRequest
from tileflow.measure.types import Status
from tileflow.runtime.miss_file import line_of
from tileflow.runtime.miss_record import Miss
from tileflow.runtime.problem import Problem, ScalarSpec, TensorSpec

MODULE = """
import torch
import tileflow
import tileflow.language as tfl


def inputs(m, n, device, dtype=torch.float32):
    return torch.randn(m, n, device=device, dtype=dtype), torch.randn(m, n, device=device, dtype=dtype)


@tileflow.kernel(inputs=inputs)
def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * y[tile, :]
    return out


class Nested:
    multiply = multiply
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of kernels, of a name that no other test imported."""
    name = f"written_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SweepSpec]:
    """The sweeps that the command line asked for; none is run."""
    specs: list[SweepSpec] = []
    monkeypatch.setattr(sweep, "run", lambda spec, *rest: specs.append(spec) or "")
    monkeypatch.setattr(cli, "finish", lambda *rest: None)
    return specs


def invoke(*arguments: object) -> BaseException | None:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments]).exception


@pytest.mark.parametrize("number, base", [("010", 8), ("1:30", 60), ("-007", 8), ("0_10", 8), ("1:30.5", 60)])
def test_a_number_that_yaml_reads_to_another_base_is_refused_by_its_line(
    tmp_path: Path, number: str, base: int
) -> None:
    """``{m: 010}`` was a problem of 8 rows."""
    path = tmp_path / "spec.yaml"
    text = yaml.safe_dump(spec_data(), sort_keys=False)
    path.write_text(text.replace("n: 64", f"n: {number}"))
    line = next(i for i, line in enumerate(path.read_text().splitlines(), 1) if number in line)
    with pytest.raises(
        SpecError, match=f"decimal digits, but got {number}, which YAML reads to the base of {base}"
    ) as e:
        read(path)
    assert f"at line {line} in {path}" in str(e.value)


@pytest.mark.parametrize("number", ["0", "64", "-3", "0.5", "1_000", "0x10", "1.0e+3", "'010'"])
def test_numbers_that_all_read_alike_are_taken(tmp_path: Path, number: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(spec_data(), sort_keys=False).replace("n: 64", f"n: {number}"))
    assert dict(read(path).kernels[0].problems[0])["n"] == yaml.safe_load(number)


def test_a_problem_on_the_command_line_has_the_same_numbers(module: str, asked: list[SweepSpec]) -> None:
    place = ("--device-class", "nvidia-h200", "--out", "/nowhere/out")
    error = invoke("tune", f"{module}:multiply", "--problem", "m=010 n=64", *place)
    assert isinstance(error, SpecError) and "got 010" in str(error)
    assert invoke("tune", f"{module}:multiply", "--problem", "m=10 n=64", *place) is None
    assert dict(asked[0].kernels[0].problems[0])["m"] == 10


@pytest.mark.parametrize("option, value", [("--budget-s", "5"), ("--device-class", "nvidia-b200")])
def test_an_option_of_recorded_calls_beside_a_spec_is_refused(
    tmp_path: Path, asked: list[SweepSpec], option: str, value: str
) -> None:
    """They were passed over in silence: the sweep ran for the spec's budget, on the spec's devices."""
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(spec_data()))
    error = invoke("sweep", "run", path, "--out", tmp_path / "out", option, value)
    assert isinstance(error, SpecError) and option in str(error) and str(path) in str(error)
    assert not asked


@pytest.mark.parametrize(
    "name, sweep_name",
    [
        ("multiply", "tune-multiply"),
        ("Nested.multiply", "tune-Nested-multiply"),
        ("multiply.backward", "tune-multiply-backward"),
        ("multiply.backward(x+y)", "tune-multiply-backward-x-y"),
    ],
)
def test_every_kernel_that_can_be_loaded_can_be_tuned_by_name(
    module: str, asked: list[SweepSpec], monkeypatch: pytest.MonkeyPatch, name: str, sweep_name: str
) -> None:
    """A kernel in a class had no sweep's name, and a derived backward none of a kernel either."""
    monkeypatch.setattr(sweep, "check_spec", lambda spec: load_kernel(spec.kernels[0].kernel))
    place = ("--device-class", "nvidia-h200", "--out", "/nowhere/out")
    assert invoke("tune", f"{module}:{name}", "--problem", "m=64 n=64", *place) is None
    assert (asked[0].name, asked[0].kernels[0].kernel) == (sweep_name, f"{module}:{name}")


@pytest.mark.parametrize(
    "ref", ["a:b.backward()", "a:b(x)", "a:b.backward(x", "a:b.backward(x,y)", "a:", ":b", "a:b c"]
)
def test_what_names_no_kernel_is_refused(ref: str) -> None:
    with pytest.raises(SpecError, match="a kernel must be module:qualname"):
        parse(spec_data(kernels=[{"kernel": ref, "problems": [{"n": 1}]}]))


@pytest.mark.parametrize("name, value", [("seed", 3), ("device", "cpu")])
def test_what_tileflow_gives_is_no_keyword_of_a_problem(name: str, value: Any) -> None:
    """A check passed with ``seed``, and each trial then failed, since workers give one too."""
    with pytest.raises(SpecError, match=f"must not name {name}, which tileflow gives") as caught:
        parse(spec_data(kernels=[{"kernel": "a:b", "problems": [{"n": 1, name: value}]}]))
    assert f"kernels[0].problems[0].{name}" in str(caught.value)


def test_a_kernel_that_is_misspelt_is_answered_with_the_nearest_name(module: str) -> None:
    with pytest.raises(SpecError, match=r"did you mean multiply\?"):
        load_kernel(f"{module}:multply")
    with pytest.raises(SpecError, match=f"the module is .*{module}.py"):
        load_kernel(f"{module}:zzzzzzz")


def test_gradients_of_some_parameters_are_swept_as_they_were_recorded(module: str, tmp_path: Path) -> None:
    """One such call, as of any layer with a frozen weight, refused the sweep of all others."""
    import torch

    multiply = load_kernel(f"{module}:multiply")
    trained = tileflow.differentiable(multiply)
    x, y = torch.randn(8, 4, requires_grad=True), torch.randn(8, 4)
    with tileflow.interpret(), tileflow.record(tmp_path / "calls.jsonl"):
        trained(x, y).sum().backward()
    spec = spec_of_calls(tmp_path / "calls.jsonl", ["nvidia-h200"])
    assert [k.kernel for k in spec.kernels] == [f"{module}:multiply", f"{module}:multiply.backward(x)"]
    sweep.check_spec(spec)


@pytest.mark.parametrize("name", ["multiply", "multiply.backward", "multiply.backward(x)", "multiply.backward(y)"])
def test_trials_of_a_derived_gradient_run_its_own_host_code(module: str, name: str) -> None:
    """They ran the forward's, which takes no gradient: each config was a compile error."""
    task = prepare(StudyKey(f"{module}:{name}", (("m", 8), ("n", 16)), "nvidia-h200"), "static")
    request = TrialRequest("r", task.kernel, task.key.problem, "nvidia-h200", task.default)
    build, binaries = compile_stage(request)
    assert build.rejected is None and len(build.launches) == len(binaries) == 1


def test_the_check_of_a_derived_gradient_runs_its_own_host_code(module: str) -> None:
    task = prepare(StudyKey(f"{module}:multiply.backward(x)", (("m", 8), ("n", 16)), "nvidia-h200"), "static")
    request = InterpretRequest(
        kernel=task.kernel.reference, problem=task.key.problem, config=task.default, target_name="nvidia-h200",
        mode="static", sys_path=task.kernel.sys_path, seed=0, loader=task.kernel.loader,
    )  # fmt: skip
    with InterpreterProcess() as process:
        checked = process.check(request)
    assert checked.status is Status.OK, checked.error_digest


def test_a_call_that_no_spec_can_hold_is_left_out_and_the_others_are_swept(
    module: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tensor = TensorSpec("float32", (8, 4), (4, 1))
    good = Problem(f"{module}:multiply", (("x", tensor), ("y", tensor)))
    odd = Problem(f"{module}:multiply", (("x", tensor), ("y", ScalarSpec("enum", "Colour.RED"))))
    hours = "2026-11-22T09:30:00Z", "2026-11-22T09:31:07Z"
    lines = [
        line_of(Miss(name, problem, None, "recorded", 1, *hours))
        for name, problem in ((good.kernel, good), (good.kernel, odd), ("no kernel:at all", good))
    ]
    (tmp_path / "calls.jsonl").write_bytes(b"".join(lines))
    with caplog.at_level(logging.WARNING):
        spec = spec_of_calls(tmp_path / "calls.jsonl", ["nvidia-h200"])
    assert [len(k.problems) for k in spec.kernels] == [1]
    assert caplog.text.count("left out, 1 calls of") == 2
