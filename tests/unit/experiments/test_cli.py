"""The command line: bad input ends with exit code 2, one message, nothing written."""

from __future__ import annotations

import errno
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import spec_data, sweep_spec, tools
from tileflow_cluster.protocol import TrialRequest
from tileflow_experiments import cli, mlflow_log, sweep
from tileflow_experiments.strict_yaml import read_yaml
from tileflow_experiments.work import Tools

from tileflow.api import load_kernel
from tileflow.errors import InternalError, SpecError
from tileflow.measure.types import Outcome, Status

if TYPE_CHECKING:
    pass


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
        patch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)
        sweep.run(sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}), folder, tools())
    return folder


def call(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["tileflow", *map(str, arguments)])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    return int(ending.value.code or 0)


def write(path: Path, data: Any) -> Path:
    path.write_text(yaml.safe_dump(data))
    return path


EXAMPLE = {"kernel": "examples.softmax:softmax", "problems": [{"m": 64, "n": 64}]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (spec_data(colour="red"), "at colour"),
        (spec_data(budget={"trials": "many"}), "at budget.trials"),
        (spec_data(kernels=[{"kernel": "no.such.module:k", "problems": [{"m": 1}]}]), "at kernels[0].kernel"),
        (spec_data(kernels=[EXAMPLE], strategy={"name": "bayes"}), "at strategy.name"),
    ],
)
def test_a_bad_spec_writes_nothing(
    data: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write(tmp_path / "s.yaml", data)
    assert call("sweep", "run", spec, "--out", tmp_path / "out", monkeypatch=monkeypatch) == 2
    said = capsys.readouterr()
    assert said.err.startswith("SpecError: ") and message in said.err and "Traceback" not in said.err
    assert not said.out and not (tmp_path / "out").exists()


def test_a_sweep_needs_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write(tmp_path / "s.yaml", spec_data())
    assert call("sweep", "run", spec, monkeypatch=monkeypatch) == 2
    assert "must have a folder" in capsys.readouterr().err
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert call("sweep", "run", spec, "--out", "here", monkeypatch=monkeypatch) == 2
    assert "throwaway" in capsys.readouterr().err


@pytest.mark.parametrize("lacks", ["the spec", "the kernel's module", "a seed"])
def test_a_job_that_lacks_a_file_says_where_its_files_come_from(
    lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told to run from the folder that the module is in: it did, and the job's copy of it had no such file."""
    data = spec_data() | {"kernels": [{"kernel": "examples.softmax:softmax", "problems": [{"m": 4, "n": 8}]}]}
    if lacks == "the kernel's module":
        data["kernels"] = [{"kernel": "left_out:kernel", "problems": [{"n": 1}]}]
    if lacks == "a seed":
        data["seeds"] = [str(tmp_path / "none.json")]
    spec = tmp_path / "none.yaml" if lacks == "the spec" else write(tmp_path / "s.yaml", data)
    for is_job in (False, True):
        if is_job:
            monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
        assert call("sweep", "run", spec, "--out", tmp_path / "out", monkeypatch=monkeypatch) == 2
        said = capsys.readouterr().err
        assert ("--working-dir" in said) == is_job and ("none" in said or "left_out" in said)


@pytest.mark.parametrize("command", ["resume", "status", "export"])
def test_a_folder_without_a_sweep(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("sweep", command, tmp_path, monkeypatch=monkeypatch) == 2
    assert not list(tmp_path.iterdir())


def test_an_option_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("sweep", "run", "x.yaml", "--colour", "red", monkeypatch=monkeypatch) == 2


@pytest.mark.parametrize("problem", ["", "m", "m=", "=3"])
def test_tune_names_a_bad_problem(
    problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--problem", problem, "--device-class", fakes.GPU, "--out", tmp_path / "out"]
    assert call("tune", "a:b", *options, monkeypatch=monkeypatch) == 2
    assert "key=value" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_key_that_is_given_twice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last one was taken, and the other dropped without a word."""
    show = ("show", "examples.softmax:softmax", "--problem")
    for arguments, option in (((*show, "m=4 m=5"), "--problem"), ((*show, "m=4 n=64", "--config", "zz"), "--config")):
        assert call(*arguments, monkeypatch=monkeypatch) == 2
        assert f"{option} must be key=value pairs, each key once" in capsys.readouterr().err
    for number, text in enumerate(["name: a\nname: b", "kernels:\n  - {kernel: a:b, problems: [{m: 1, n: 2, m: 3}]}"]):
        (tmp_path / f"{number}.yaml").write_text(text)
        assert (
            call("sweep", "run", tmp_path / f"{number}.yaml", "--out", tmp_path / "out", monkeypatch=monkeypatch) == 2
        )
        said = capsys.readouterr().err
        assert "each of its keys once" in said and "at line 2 in " in said
    merged = "a: &a {m: 1}\nb: {<<: *a, m: 2}\nc: {<<: *a}"
    assert read_yaml(merged) == {"a": {"m": 1}, "b": {"m": 2}, "c": {"m": 1}}


def test_a_place_that_takes_no_files_is_one_message(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "file").touch()
    (tmp_path / "problems.yaml").write_text("kernels: [{kernel: examples.softmax:softmax, problems: [{m: 4, n: 64}]}]")
    build = ["--problems", tmp_path / "problems.yaml", "--devices", "nvidia-h200"]
    for command in (
        ("table", "merge", out / "tables", "--out", file),
        ("trials", "export", out, "--out", file, "--format", "t4"),
        ("bundle", "build", file, *build),
        ("bundle", "build", file / "below", *build),
        ("bundle", "prune", tmp_path / ("x" * 300), "--keep", "1"),
    ):
        assert call(*command, monkeypatch=monkeypatch) == 2, command
        said = capsys.readouterr().err
        assert "Error: " in said and "Traceback" not in said and len(said.splitlines()) > 2  # place and next step
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "problems.yaml"]


def test_names_between_commas_may_have_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--devices "nvidia-h200, nvidia-h100-sxm"` knew no ' nvidia-h100-sxm', and `--devices ""` no ''."""
    asked: list[Any] = []
    monkeypatch.setattr(
        "tileflow_experiments.offline.orders", lambda wanted, _, devices: asked.append((wanted, devices))
    )
    monkeypatch.setattr("tileflow_experiments.offline.build_bundle", lambda *_: 1 / 0)
    (tmp_path / "problems.yaml").write_text("kernels: [{kernel: examples.softmax:softmax, problems: [{m: 4, n: 64}]}]")
    build = "bundle", "build", tmp_path / "made", "--problems", tmp_path / "problems.yaml"
    names = "--kernels", " examples.softmax:softmax ,examples.softmax:softmax"
    with pytest.raises(ZeroDivisionError):
        call(*build, *names, "--devices", "nvidia-h200, nvidia-h100-sxm,", monkeypatch=monkeypatch)
    ((kernels, devices),) = asked
    assert [kernel.kernel for kernel in kernels] == ["examples.softmax:softmax"]
    assert devices == ["nvidia-h200", "nvidia-h100-sxm"]
    assert call(*build, "--devices", " , ", monkeypatch=monkeypatch) == 2
    assert "a bundle must be for a device class, but got ' , '" in capsys.readouterr().err


def test_a_disk_that_is_full_says_what_to_do(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The system's words were all that was said: "OSError: [Errno 28] No space left on device: ..."."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tileflow.runtime.files.os.fsync", full)
    for command in (
        ("table", "merge", out / "tables", "--out", tmp_path / "merged"),
        ("trials", "export", out, "--out", tmp_path / "trials", "--format", "t4"),
    ):
        assert call(*command, monkeypatch=monkeypatch) == 2
        constraint, place, step = capsys.readouterr().err.strip().splitlines()[-3:]
        assert "must be readable and writable, but got No space left on device" in constraint
        assert str(command[-1] if command[0] == "table" else tmp_path / "trials") in place and "make room" in step


def test_a_config_that_cannot_be_is_refused_before_anything_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show = ("show", "examples.softmax:softmax", "--problem")
    assert call(*show, "m=64 n=64", "--config", "num_warps=3", monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "num_warps must be one of" in shown.err
    assert call(*show, "m=99999999999999999999 n=64", monkeypatch=monkeypatch) == 2
    assert "frame #" not in capsys.readouterr().err  # torch's own frames of C++


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../x:y", "named module:qualname"), (".a:b", "named module:qualname"), ("a\x00:b", "named module:qualname"),
        ("raising_module:k", "ValueError: at import"), ("leaving_module:k", "SystemExit: 3"),
    ],
)  # fmt: skip
def test_a_kernel_that_cannot_be_imported_is_one_message(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_module.py").write_text("raise ValueError('at import')")
    (tmp_path / "leaving_module.py").write_text("import sys; sys.exit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SpecError, match=message):
        load_kernel(name)


@pytest.mark.parametrize(
    "command",
    [
        ("sweep", "status", ""),
        ("sweep", "run", "spec.yaml", "--out", ""),
        ("tune", "a:b", "--device-class", "nvidia-h200", "--problem", "n=1", "--out", ""),
        ("table", "show", ""),
        ("table", "merge", "tables", "", "--out", "x"),
        ("bundle", "build", "", "--devices", "nvidia-h200"),
        ("trials", "export", "", "--format", "t4", "--out", "x"),
    ],
)
def test_an_empty_path_is_not_the_folder_that_the_command_runs_in(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--out "$OUT"` without that variable wrote a sweep into the current folder."""
    monkeypatch.chdir(tmp_path)
    assert call(*command, monkeypatch=monkeypatch) == 2
    assert "a path must be named" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_who_reads_the_first_line_alone_gets_no_traceback(out: Path) -> None:
    program = f"import sys; from tileflow.runtime.show import main; sys.exit(main({str(out / 'tables')!r}))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shown:
        assert shown.stdout is not None and shown.stderr is not None
        shown.stdout.close()
        assert (shown.stderr.read(), shown.wait()) == (b"", 0)


def test_status_and_tables_of_a_sweep(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("sweep", "status", out, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "fakes:kernel n=64 on amd-mi300x: 32 trials, best 10.00 us (modelled)" in said and "finished" in said
    assert call("table", "show", out / "tables", monkeypatch=monkeypatch) == 0
    assert "10.00 us (measured, default 23.00 us)  [1 dynamic, 1 static]  inert=0, x=6, y=2" in capsys.readouterr().out
    assert call("table", "validate", out / "bundle", monkeypatch=monkeypatch) == 0
    assert "1 tables, 4 rows, 6 binaries: valid" in capsys.readouterr().out


@pytest.mark.parametrize("field", ["sweep_id", "spec", "created_at", "tileflow"])
@pytest.mark.parametrize("command", [("sweep", "status"), ("sweep", "log"), ("trials", "export")])
def test_a_header_that_lacks_a_field_is_one_message(
    out: Path,
    field: str,
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was a KeyError of the command's."""
    first, *rest = (out / "journal.jsonl").read_text().splitlines(keepends=True)
    header = {name: value for name, value in json.loads(first).items() if name != field}
    (tmp_path / "journal.jsonl").write_text("".join([json.dumps(header) + "\n", *rest]))
    more = ("--format", "t4", "--out", tmp_path / "t4") if command[0] == "trials" else ()
    assert call(*command, tmp_path, *more, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert f"none of {field}" in said and str(tmp_path / "journal.jsonl") in said


def test_a_table_that_was_tampered_with(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.json"
    data = json.loads((out / "tables/fakes-kernel.json").read_text())
    path.write_text(json.dumps(data))
    assert call("table", "validate", path, monkeypatch=monkeypatch) == 0
    data["entries"][0]["best_us"] = 0.5
    path.write_text(json.dumps(data))
    assert call("table", "validate", path, monkeypatch=monkeypatch) == 2


def test_a_binary_that_was_tampered_with(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    shutil.copytree(out / "bundle", tmp_path / "bundle")
    next((tmp_path / "bundle/snapshots").glob("*/binaries/*")).write_bytes(b"other code")
    for command in (("table", "validate"), ("bundle", "verify")):
        assert call(*command, tmp_path / "bundle", monkeypatch=monkeypatch) == 2


def test_rows_of_a_bundle_are_withdrawn_and_brought_back(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    def say(*arguments: object) -> str:
        assert call("bundle", *arguments, monkeypatch=monkeypatch) == 0
        return capsys.readouterr().out

    mine = shutil.copytree(out / "bundle", tmp_path / "bundle")
    assert "1 tables, 4 rows, 6 binaries (" in say("verify", mine)
    assert f"  {fakes.GPU}  any size of x=float32[1]\n" in say("show", mine)
    (first,) = say("snapshots", mine).splitlines()
    assert "1 tables, 3 rows" in say(
        "withdraw", mine, fakes.KERNEL, "--device", fakes.GPU, "--problem", "x=float32[64]"
    )
    assert "1 tables, 2 rows, 3 binaries (" in say("withdraw", mine, fakes.KERNEL, "--device", fakes.GPU)
    assert "1 tables, 4 rows, 6 binaries (" in say("replace", mine, out / "bundle", "--merge")
    assert "0 tables" in say("withdraw", mine, fakes.KERNEL)
    assert "1 tables, 4 rows" in say("replace", mine, out / "bundle")
    assert "0 tables" in say("switch", mine)
    assert len(say("snapshots", mine).splitlines()) == 5
    assert "4 rows" in say("switch", mine, first.split()[1][:12])
    assert len(say("prune", mine, "--keep", 1).splitlines()) == 4
    assert say("snapshots", mine).splitlines() == [first]
    assert call("bundle", "withdraw", mine, "no:kernel", monkeypatch=monkeypatch) == cli.BAD_INPUT
    assert f"it has {fakes.KERNEL}" in capsys.readouterr().err


def test_the_runtime_shows_tables_without_the_command_line(out: Path) -> None:
    code = (
        "import sys; from tileflow.runtime.show import main\n"
        f"assert main({str(out / 'bundle')!r}) == 0 and main('nowhere') == 2\n"
        "assert not {'typer', 'torch', 'yaml', 'tileflow_experiments'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "10.00 us (measured" in done.stdout, done.stderr
    module = [sys.executable, "-m", "tileflow.runtime.show", str(out / "tables")]
    assert "10.00 us (measured" in subprocess.run(module, capture_output=True, text=True, check=True).stdout


def raise_for_64(request: TrialRequest, outcome: Outcome) -> Outcome:
    if request.problem == (("n", 64),):
        raise InternalError("the reference must not raise RuntimeError", got="cuDNN error")
    return outcome


@pytest.fixture
def broken_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line's sweeps meet a kernel whose reference raises for n=64."""
    monkeypatch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
    monkeypatch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)
    monkeypatch.setattr(cli, "tools", lambda: tools(raise_for_64))
    monkeypatch.setattr(sweep, "check_spec", lambda wanted: None)


@pytest.mark.usefixtures("broken_tools")
def test_a_study_that_was_stopped_is_named_and_ends_the_command_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write(tmp_path / "s.yaml", spec_data(device_classes=[fakes.GPU]))
    out = tmp_path / "an out"
    assert call("sweep", "run", spec, "--out", out, monkeypatch=monkeypatch) == cli.STOPPED
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"stopped before its end (1 of 2 tuning tasks: fakes:kernel n=64 on {fakes.GPU}): see ")
    assert shlex.split(last.split("`")[1]) == ["tileflow", "sweep", "resume", str(out)], "it can be copied into a shell"
    assert call("sweep", "status", out, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert f'{{"n":64}} {fakes.GPU}: stopped: InternalError: the reference must not' in said


@pytest.mark.usefixtures("broken_tools")
def test_tuning_one_problem_ends_with_what_its_author_must_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--problem", "n=64", "--device-class", fakes.GPU, "--out", tmp_path / "command"]
    assert call("tune", fakes.KERNEL, *options, monkeypatch=monkeypatch) == cli.BAD_INPUT
    assert "InternalError: the reference must not raise" in capsys.readouterr().err


def found_wrong(request: object) -> Outcome:
    return Outcome(Status.INCORRECT, error_digest="result has shape (64, 8), the reference's (8, 64)")


@pytest.mark.parametrize(
    "device, made, how",
    [
        (fakes.MODELLED, replace(tools(), check=found_wrong), "2 ok; 2 found wrong in the interpreter"),
        (fakes.GPU, tools(lambda request, outcome: found_wrong(request)), "2 incorrect"),
    ],
)
def test_a_search_without_a_row_is_named_and_ends_the_command_with_5(
    device: str,
    made: Tools,
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    broken_tools: None,
) -> None:
    """It ended with 0 and "done", and production found no row of the kernel."""
    monkeypatch.setattr(cli, "tools", lambda: made)
    kernels = [{"kernel": fakes.KERNEL, "problems": [{"n": 64}]}]
    spec = write(tmp_path / "s.yaml", spec_data(device_classes=[device], kernels=kernels, budget={"trials": 2}))
    assert call("sweep", "run", spec, "--out", tmp_path / "out", monkeypatch=monkeypatch) == cli.WITHOUT_A_ROW == 5
    said = capsys.readouterr()
    last = said.err.splitlines()[-1]
    assert last.startswith(f"1 of 1 tuning tasks have no row: {fakes.KERNEL} n=64 on {device}; ")
    assert f"no config works: {how}" in said.out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, tileflow_experiments.cli\n"
        "print([m for m in ('torch', 'ray', 'mlflow', 'pyarrow', 'optuna', 'triton') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
