"""A program's calls, recorded and searched for."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing import ROOT
from tileflow_experiments import sweep
from tileflow_experiments.recorded import spec_of_calls
from tileflow_experiments.spec import parse
from tileflow_experiments.tuning_task import prepare

import tileflow
import tileflow.language as tfl
from tileflow.api import load_kernel
from tileflow.errors import CallError, SpecError
from tileflow.runtime import Problem, TensorSpec, miss_file, miss_record, recording
from tileflow.runtime.describe import describe
from tileflow.runtime.overlap import is_apart
from tileflow.runtime.recorded import MOST_KEPT, RECORDED, arguments, memory_of, text_of, values_of

MODULE = """
import torch
import tileflow
import tileflow.language as tfl

@tileflow.kernel
def rows(x: torch.Tensor, which: torch.Tensor, scale: float, flip: bool = False) -> torch.Tensor:
    out = torch.empty(which.size(0), x.size(1), dtype=x.dtype, device=x.device)
    for tile, column in tfl.tile([which.size(0), x.size(1)]):
        out[tile, column] = x[which[tile], column] * scale
    return out

@tileflow.kernel
def listed(xs: list[torch.Tensor]) -> torch.Tensor:
    out = torch.empty_like(xs[0])
    for tile in tfl.tile(out.size(0)):
        out[tile] = xs[0][tile]
    return out

@tileflow.kernel
def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + y[tile]
    return out
"""
GPU = "nvidia-h200"
MOST = 2**63 - 1


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "recorded_kernels.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("recorded_kernels", None)
    return __import__("recorded_kernels")


def test_a_programs_calls_are_a_sweep(
    program: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_GATHER_S", 60.0)  # a slow machine would write a first call by itself
    x, which = torch.randn(20, 12).t(), torch.tensor([3, 1, 11], dtype=torch.int32)
    with tileflow.interpret(), tileflow.record(tmp_path / "calls"):
        for _ in range(9):
            program.rows(x, which, 2.0)
        program.rows(x[:, :8], which, scale=2.0, flip=True)
        program.listed([x[0]])
    program.rows.describe(x, which, 2.0)  # counted no more
    (file,) = (tmp_path / "calls").iterdir()
    assert [json.loads(line)["calls"] for line in file.read_text().splitlines()] == [9, 1, 1]
    with pytest.raises(SpecError, match="--device-class"):
        spec_of_calls(tmp_path / "calls")
    spec = spec_of_calls(tmp_path / "calls", (GPU,), seconds=10)
    assert "left out, 1 calls of recorded_kernels:listed" in caplog.text
    (kernel,) = spec.kernels
    assert kernel.calls == (9, 1) and parse(spec.to_json()) == spec
    often, seldom = (spec.budget_of(kernel.kernel, problem).seconds for problem in kernel.problems)
    assert often is not None and seldom is not None and often + seldom == pytest.approx(20) and often > 4 * seldom
    made = load_kernel(kernel.kernel).inputs(seed=1, **dict(kernel.problems[0]))
    assert made[0].stride() == x.stride() and made[0].shape == x.shape and made[1].dtype == torch.int32
    assert made[1].tolist() == [3, 1, 11] and made[2:] == (2.0, False)
    assert "x=float32[12x20]" in sweep.study_keys(spec)[0].title


def test_a_study_of_a_recorded_call_has_the_calls_own_key(program: Any, tmp_path: Path) -> None:
    """So that its row serves the call."""
    x, which = torch.randn(20, 12).t(), torch.tensor([3, 1, 11])
    with tileflow.interpret(), tileflow.record(tmp_path / "calls.jsonl"):
        program.rows(x, which, 2.0)
    (key,) = sweep.study_keys(spec_of_calls(tmp_path / "calls.jsonl", (GPU,)))
    assert prepare(key, "static").problem == program.rows.describe(x, which, 2.0)


def test_the_page_on_security_says_what_is_kept() -> None:
    """It said that recordings hold no values, while token ids were in them."""
    assert values_of({"ids": torch.arange(MOST_KEPT)})["ids"] == {"data": [*range(MOST_KEPT)]}
    text = (ROOT / "docs/guides/security.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("| recordings |"))
    assert "values of integers and booleans" in row and f"up to {MOST_KEPT} elements" in row


@pytest.mark.parametrize(
    ("tensor", "kept"),
    [
        (torch.arange(1000), {"low": 0, "high": 999, "ascending": True}),
        (torch.arange(1000).flip(0) + 5, {"low": 5, "high": 1004, "ascending": False}),
        (torch.arange(1000) < 250, {"share": 0.25}),
        (torch.tensor([[1, 2], [0, 3]]).t(), {"data": [1, 0, 2, 3]}),
        (torch.tensor([True, False]), {"data": [True, False]}),
        (torch.arange(3)[:, None].expand(3, 2), {"data": [0, 0, 1, 1, 2, 2]}),
        (torch.tensor([False, True])[None].expand(2, 2), {"data": [False, True, False, True]}),
        (torch.tensor(7).expand(3), {"data": [7, 7, 7]}),
        (torch.arange(5).unfold(0, 2, 1), {"data": [0, 1, 1, 2, 2, 3, 3, 4]}),
        (torch.arange(600).view(20, 30)[1:, 1:], {"low": 31, "high": 599, "ascending": True}),
        (torch.arange(20)[:, None].expand(20, 20), {"low": 0, "high": 19, "ascending": True}),
        (torch.full((300,), MOST), {"low": MOST, "high": MOST, "ascending": True}),
        (torch.tensor([MOST, -MOST - 1] * 200), {"low": -MOST - 1, "high": MOST, "ascending": False}),
        (torch.tensor([3, 2**64 - 1], dtype=torch.uint64), {"data": [3, 2**64 - 1]}),
        (torch.tensor([3, 2**64 - 1] * 200, dtype=torch.uint64), {"low": 3, "high": 2**64 - 1, "ascending": False}),
        (torch.full((300,), 2**63, dtype=torch.uint64), {"low": 2**63, "high": 2**63, "ascending": True}),
    ],
)
def test_integers_and_masks_are_made_again(tensor: torch.Tensor, kept: dict[str, Any]) -> None:
    values = values_of({"x": tensor, "y": torch.randn(3)})
    assert values == {"x": kept}
    signature = inspect.Signature([inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    problem = describe("m:f", signature, (tensor,), {}, lambda function: "")
    (made,) = arguments(text_of(problem, values), signature, "cpu")
    assert (made.shape, made.stride(), made.dtype) == (tensor.shape, tensor.stride(), tensor.dtype)
    if "data" in kept:
        assert torch.equal(made, tensor)
    elif "share" in kept:
        assert abs(float(made.float().mean()) - 0.25) < 0.1
    else:
        numbers = made.reshape(-1).tolist()
        assert kept["low"] <= min(numbers) and max(numbers) <= kept["high"]
        assert not kept["ascending"] or (numbers == sorted(numbers) and numbers[-1] == kept["high"])


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("int64", {"data": [1]}),
        ("int64", {"data": "abc"}),
        ("int64", {"data": [1.5, 2, 3]}),
        ("uint8", {"data": [1, 2, 256]}),
        ("int64", {"low": 5, "high": 3, "ascending": True}),
        ("uint64", {"low": -1, "high": 3, "ascending": False}),
        ("bool", {"share": 2.0}),
        ("float32", {"data": [1, 2, 3]}),
        ("int64", 3),
        ("float99", {}),
        ("save", {}),
    ],
)
def test_values_that_are_not_the_tensors_are_refused(dtype: str, values: Any) -> None:
    """They were found out where the arguments were made, by whatever went wrong there."""
    signature = inspect.Signature([inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    problem = Problem("m:f", (("x", TensorSpec(dtype, (3,), (1,))),))
    for device in ("meta", "cpu"):
        with pytest.raises(SpecError, match="a recorded tensor must have"):
            arguments(text_of(problem, {"x": values}), signature, device)


def test_misses_are_a_sweep_as_well(program: Any, tmp_path: Path) -> None:
    """Their lines have no values: an index is zero, which every index may be."""
    problem = program.rows.describe(torch.randn(20, 12), torch.tensor([3, 1, 11]), 2.0)
    line = miss_record.Miss(problem.kernel, problem, GPU, "no table", 5, "2026-11-22T09:30:00Z", "2026-11-22T09:30:00Z")
    (tmp_path / "misses.jsonl").write_bytes(miss_file.line_of(line))
    spec = spec_of_calls(tmp_path / "misses.jsonl")
    assert spec.device_classes == (GPU,) and spec.kernels[0].calls == (5,)
    made = load_kernel(problem.kernel).inputs(**dict(spec.kernels[0].problems[0]))
    assert made[1].tolist() == [0, 0, 0]


def made_again(path: Path, device: str = "cpu") -> list[tuple[torch.Tensor, ...]]:
    """Arguments of a recorded file's problems."""
    (kernel,) = spec_of_calls(path, (GPU,)).kernels
    return [load_kernel(kernel.kernel).inputs(device=device, **dict(problem)) for problem in kernel.problems]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("logs_misses", [False, True])
def test_arguments_that_share_memory_share_it_again(
    program: Any, tmp_path: Path, device: str, logs_misses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were made apart, and another variant of a kernel was searched for than the one that serves the call."""
    x = torch.randn(64)
    calls = [(x[:20], x[:20]), (x[:24], x[:24].detach()), (x[1:41], x[8:48]), (torch.randn(5), torch.randn(5))]
    file = tmp_path / "calls.jsonl"
    if logs_misses:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        miss_record.clear_misses()
        miss_file.record_misses(file)
        for call in calls:
            [*program.added.plan(call, {})]
        miss_file.record_misses(None)
    else:
        with tileflow.record(file):
            for call in calls:
                for recorder in recording.recorders:
                    recorder.called(program.added, call, {})
    made = {a.numel(): (a, b) for a, b in made_again(file, device)}
    for a, b in calls:
        again, other = made[a.numel()]
        assert is_apart(again, other) == (a.numel() == 5)
        if a.numel() != 5:
            assert other.data_ptr() - again.data_ptr() == b.data_ptr() - a.data_ptr()
            assert again.data_ptr() % 16 == a.data_ptr() % 16
        if a.numel() == 40 and device == "cpu":
            again.fill_(3.0)
            assert other.tolist()[:33] == [3.0] * 33 and 3.0 not in other.tolist()[33:]


def test_of_calls_that_share_memory_and_others_the_commoner_are_searched(program: Any, tmp_path: Path) -> None:
    x, y = torch.randn(20), torch.randn(20)
    for shared, apart in ((3, 2), (2, 3)):
        with tileflow.interpret(), tileflow.record(tmp_path / f"{shared}.jsonl"):
            for other in [x] * shared + [y] * apart:
                program.added(x, other)
        assert sorted(call.calls for call in miss_file.read_misses(tmp_path / f"{shared}.jsonl")) == [2, 3]
        ((again, other),) = made_again(tmp_path / f"{shared}.jsonl")
        assert is_apart(again, other) == (apart > shared)


def test_integers_in_shared_memory_are_as_they_were(program: Any) -> None:
    """Those of a part of a larger tensor too, and those beside floats."""
    memory = torch.arange(600, dtype=torch.int32)
    memory[100:110] = 3
    call = {"x": memory, "y": memory[100:110], "z": memory.view(torch.float32)}
    signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in call])
    problem = describe("m:f", signature, (*call.values(),), {}, lambda function: "")
    x, y, z = arguments(text_of(problem, values_of(call), memory_of(call)), signature, "cpu")
    assert y.tolist() == [3] * 10 and y.data_ptr() == x[100:].data_ptr() and z.data_ptr() == x.data_ptr()
    assert int(x.min()) >= 0 and int(x.max()) <= 599


@pytest.mark.parametrize(
    "memory",
    [
        3,
        [3],
        [{"x": 0}],
        [{"x": 0, "y": "0"}],
        [{"x": 0, "y": 12}],
        [{"x": 0, "y": 80}],
        [{"x": 16, "y": 32}],
        [{"x": 0, "z": 0}],
        [{"x": 0, "n": 0}],
        [{"x": 0, "y": 0}, {"x": 0, "y": 0}],
    ],
)
def test_memory_that_is_not_the_calls_is_refused(memory: Any) -> None:
    signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in "xyn"])
    problem = describe("m:f", signature, (torch.ones(20), torch.ones(20), 3), {}, lambda function: "")
    for device in ("meta", "cpu"):
        with pytest.raises(SpecError, match="share memory must"):
            arguments(text_of(problem, {}, memory), signature, device)


def test_what_an_interpreter_cannot_be_given_is_no_check(program: Any) -> None:
    problem = program.rows.describe(torch.empty(2000, 1000), torch.tensor([3]), 2.0)
    small = program.rows.small({RECORDED: text_of(problem, {})})
    with pytest.raises(ValueError, match="an interpreter is given"):
        program.rows.inputs(**small)


def test_the_environment_records_a_whole_process(tmp_path: Path) -> None:
    (tmp_path / "recorded_kernels.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import torch, recorded_kernels
        for _ in range(3):
            recorded_kernels.rows(torch.randn(4, 4), torch.tensor([0]), 1.0)
    """))  # fmt: skip
    roots = os.environ.get("PYTHONPATH", "")
    environment = os.environ | {
        "TILEFLOW_RECORD": "calls", "TILEFLOW_INTERPRET": "1", "PYTHONPATH": f"{tmp_path}{os.pathsep}{roots}",
    }  # fmt: skip
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, check=True)
    (found,) = miss_file.read_misses(tmp_path / "calls")
    assert (found.kernel, found.calls, found.values) == ("recorded_kernels:rows", 3, '{"which": {"data": [0]}}')


FORKS = """
import multiprocessing, os, sys, torch, tileflow, recorded_kernels

def call(rows):
    for _ in range(rows):
        recorded_kernels.rows(torch.randn(rows, 4), torch.tensor([0]), 1.0)

def fork(method):
    if method == "os.fork":
        if os.fork() == 0:
            call(3)
            sys.exit()
        os.wait()
    else:
        worker = multiprocessing.get_context(method).Process(target=call, args=(3,))
        worker.start()
        worker.join()
        idle = multiprocessing.get_context(method).Process(target=call, args=(0,))
        idle.start()
        idle.join()

if __name__ == "__main__":
    call(2)
    if sys.argv[2] == "inside":
        with tileflow.record("block"):
            call(5)
            fork(sys.argv[1])
    else:
        fork(sys.argv[1])
    call(2)
"""


@pytest.mark.parametrize("method", ["os.fork", "fork", "spawn", "forkserver"])
def test_a_process_that_was_forked_writes_its_own_calls(tmp_path: Path, method: str) -> None:
    """Those of multiprocessing's workers were lost, and those before an os.fork written twice."""
    run = forking(tmp_path, method, "outside", TILEFLOW_RECORD="calls")
    assert run == {2: 4, 3: 3}


@pytest.mark.parametrize("method", ["os.fork", "fork"])
def test_a_process_that_was_forked_inside_a_block_writes_its_own_calls(tmp_path: Path, method: str) -> None:
    forking(tmp_path, method, "inside")
    assert calls_in(tmp_path / "block") == {5: 5, 3: 3} and len([*(tmp_path / "block").iterdir()]) == 2


def forking(folder: Path, method: str, where: str, **environment: str) -> dict[int, int]:
    (folder / "recorded_kernels.py").write_text(MODULE)
    (folder / "program.py").write_text(FORKS)
    roots = f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = os.environ | {"TILEFLOW_INTERPRET": "1", "PYTHONPATH": roots} | environment
    subprocess.run([sys.executable, "program.py", method, where], cwd=folder, env=environment, check=True)
    return calls_in(folder / "calls") if (folder / "calls").exists() else {}


def calls_in(path: Path) -> dict[int, int]:
    """How many calls there were by the rows of their first tensor."""
    return {call.problem.sizes["x.shape.0"]: call.calls for call in miss_file.read_misses(path)}


def test_a_place_that_takes_no_calls_is_refused_before_they_are_made(program: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.jsonl").mkdir()
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "none" / "calls.jsonl", Path("/dev/full")):
        with pytest.raises(SpecError), tileflow.record(place):
            pytest.fail("the block must not begin")


def test_a_disk_that_is_full_loses_no_calls(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A block that raises raises that; the rest of a line that the disk did not take is no part of the next one."""
    x, which = torch.randn(20, 12), torch.tensor([3])
    write, room = os.write, [0]

    def full(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[: room.pop(0)] if room else b"")

    def called() -> None:
        for rows in (x, x[:9], x[:9], x[:5], x[:5], x[:5]):
            program.rows(rows, which, 2.0)

    for error, matching in ((ZeroDivisionError, "division"), (SpecError, "can be appended to")):
        room[:] = [1000, 100]
        monkeypatch.setattr(recording, "_GATHER_S", 3600.0)  # all is written at the end
        with pytest.raises(error, match=matching), tileflow.interpret(), tileflow.record(tmp_path / "a.jsonl") as calls:
            called()
            monkeypatch.setattr(os, "write", full)
            if error is ZeroDivisionError:
                print(1 / 0)
        monkeypatch.undo()
    assert "calls are lost" in caplog.text
    assert calls_in(tmp_path / "a.jsonl") == {5: 6}
    calls.write(tmp_path / "a.jsonl")
    assert calls_in(tmp_path / "a.jsonl") == {5: 6, 9: 2, 20: 1}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_a_process_that_is_killed_has_written_what_it_called(tmp_path: Path) -> None:
    """Nothing runs at its end; it wrote none of its calls."""
    (tmp_path / "recorded_kernels.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import os, signal, time, torch, recorded_kernels
        from pathlib import Path
        from tileflow.runtime import recording
        recording._GATHER_S = 0.01
        for rows in (4, 4, 9):
            recorded_kernels.rows(torch.randn(rows, 4), torch.tensor([0]), 1.0)
        def written():
            return sum(b'"calls":' in line for file in Path("calls").glob("*.jsonl") for line in open(file, "rb"))
        until = time.monotonic() + 60
        while written() < 2 and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    """))  # fmt: skip
    roots = os.environ.get("PYTHONPATH", "")
    environment = os.environ | {
        "TILEFLOW_RECORD": "calls", "TILEFLOW_INTERPRET": "1", "PYTHONPATH": f"{tmp_path}{os.pathsep}{roots}",
    }  # fmt: skip
    ended = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment)
    assert ended.returncode == -signal.SIGKILL
    found = calls_in(tmp_path / "calls")
    assert found.keys() == {4, 9} and found[9] == 1 and found[4] in (1, 2)


def test_lines_of_a_long_program_are_few(program: Any, tmp_path: Path) -> None:
    """A problem is due again when it was called as often as its lines say; their sum is what was called."""
    recorder = recording.Recorder(tmp_path / "calls.jsonl")
    recorder.stop()  # what its thread does, the test does
    args = torch.randn(20, 12), torch.tensor([3]), 2.0
    for _ in range(100):
        recorder.called(program.rows, args, {})
        recorder._append_due()
    assert recorder.calls == 100 - 64
    assert len((tmp_path / "calls.jsonl").read_text().splitlines()) == 7
    recorder.write()
    assert calls_in(tmp_path / "calls.jsonl") == {20: 100}
    recorder.write()
    assert calls_in(tmp_path / "calls.jsonl") == {20: 100}


def test_a_call_that_no_table_can_hold_leaves_the_others_readable(
    program: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with tileflow.interpret(), tileflow.record(tmp_path / "calls"):
        program.rows(torch.randn(20, 12), torch.tensor([3]), 2.0)
        with suppress(CallError):
            program.rows(torch.randn(9, 12), torch.tensor([3]), 2**70)
    assert calls_in(tmp_path / "calls") == {20: 1} and "1 calls of recorded_kernels:rows are not rec" in caplog.text


def test_counts_must_be_of_the_problems() -> None:
    with pytest.raises(SpecError, match="a count for each problem"):
        parse({
            "name": "n", "kernels": [{"kernel": "a:b", "problems": [{"n": 1}], "calls": [1, 2]}],
            "device_classes": [GPU], "strategy": {"name": "random"}, "budget": {"trials": 1},
        })  # fmt: skip


def test_a_folder_without_calls_says_so(tmp_path: Path) -> None:
    """Of an empty one, not of calls on a CPU."""
    with pytest.raises(SpecError, match="needs calls, but got none"):
        spec_of_calls(tmp_path, ["nvidia-h200"])


def test_inputs_that_are_no_tuple_are_refused() -> None:
    """A tensor would be taken apart into its rows."""

    @tileflow.kernel(inputs=lambda n, device: torch.empty(n, device=device))
    def copied(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.numel()):
            out[tile] = x[tile]
        return out

    with pytest.raises(SpecError, match=r"returns a tuple of the kernel's arguments.*got a Tensor"):
        copied.inputs(n=4)


@pytest.mark.parametrize(
    ("keyword", "text", "made"),
    [
        ("layout", "half", "half"),
        ("kind", "int", "int"),
        ("layout", "float16", torch.float16),
        ("dtype", "half", torch.float16),
        ("out_dtype", "long", torch.int64),
    ],
)
def test_a_problem_s_text_is_a_type_where_it_says_so(keyword: str, text: str, made: Any) -> None:
    """A layout called half became torch.float16."""

    def inputs(n: int, device: str, **options: Any) -> tuple[torch.Tensor]:
        assert options == {keyword: made}
        return (torch.empty(n, device=device),)

    @tileflow.kernel(inputs=inputs)
    def copied(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.numel()):
            out[tile] = x[tile]
        return out

    copied.inputs(n=4, **{keyword: text})
