"""What ``scripts/demo`` runs: a Ray of its own, the demo's sweep as a job on it, then lookups in a fresh process.

Every server listens on loopback only. All processes carry a mark in their environment, by which the demo finds those
that are left and stops them by process id.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .tracking import state as states

AS_DEVICE = "nvidia-h200"
SPEC = "configs/demo.yaml"
MARK = "TILEFLOW_DEMO"
START_S = 90.0
STOP_S = 15.0
# What of the repository a job needs; tileflow itself is installed.
JOB_FOLDERS = ("examples", "configs")
# A shape for each kernel that was not tuned, between two that were.
UNSEEN: Mapping[str, Mapping[str, int]] = {
    "examples.softmax:softmax": {"m": 50, "n": 7000},
    "examples.rms_norm:rms_norm": {"m": 50, "n": 7000},
    "examples.matmul:matmul": {"m": 200, "n": 200, "k": 200},
}


def run(out: Path) -> int:
    """Run the whole demo. Returns an exit code."""
    if (out / "journal.jsonl").exists():
        print(f"{out} holds a sweep already; name another folder: scripts/demo OUT", file=sys.stderr)
        return 2
    started = time.monotonic()
    with _ray_on_loopback() as (dashboard, environment), tempfile.TemporaryDirectory() as working:
        for name in JOB_FOLDERS:
            shutil.copytree(name, Path(working) / name, ignore=shutil.ignore_patterns("__pycache__"))
        submission = f"demo-{secrets.token_hex(4)}"
        ray = _tool("ray")
        sweep = [sys.executable, "-m", "tileflow_experiments.cli", "sweep", "run", SPEC, "--out", str(out)]
        options = ["--address", dashboard, "--submission-id", submission, "--working-dir", working]
        print(f"submitting {SPEC} to {dashboard} as {submission}", flush=True)
        try:
            code = subprocess.run([ray, "job", "submit", *options, "--", *sweep], env=environment).returncode
        except KeyboardInterrupt:
            subprocess.run([ray, "job", "stop", "--address", dashboard, submission], env=environment)
            code = 130
    if code:
        return code
    print("\nA fresh process looks its calls up in the tables:", flush=True)
    fresh = os.environ | {"TRITON_INTERPRET": "1"}
    code = subprocess.run(
        [sys.executable, "-m", "tileflow_experiments.demo", "dispatch", str(out)], env=fresh
    ).returncode
    print(
        f"\n{time.monotonic() - started:.0f} s in all. The report is {out / 'report.md'}. MLflow shows the trials with:"
    )
    server = [_tool("mlflow"), "server", "--host", "127.0.0.1", "--port", "5000", "--workers", "1"]
    server += ["--backend-store-uri", f"sqlite:///{out / 'mlflow.db'}"]
    print(f"  MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false {shlex.join(server)}")
    logged = states.read(out)
    if logged is not None:
        print(f"at http://127.0.0.1:5000/{logged.page}")
    return code


def dispatch(out: Path) -> int:
    """Run the demo's kernels on the CPU as the tables say, check them against torch, print which row each call used.

    Returns an exit code.
    """
    import torch

    from tileflow import runtime
    from tileflow.api import load_kernel
    from tileflow.errors import TableError
    from tileflow.measure.check import compare

    from .spec import read

    torch.set_num_threads(1)
    spec = read(Path(SPEC))
    runtime.load(out / "tables", as_device=AS_DEVICE)
    wrong = 0
    for entry in spec.kernels:
        kernel = load_kernel(entry.kernel)
        tuned: dict[str, Any] = dict(entry.problems[0])
        for problem in (tuned, {**tuned, **UNSEEN[entry.kernel]}):
            args = kernel.inputs(device="cpu", **problem)
            hit = runtime.lookup(kernel.name, kernel.semantic_hash, kernel.describe(*args))
            verdict = compare(kernel(*args), kernel.reference(*args), path="out")
            wrong += not verdict.ok
            row = "no row" if hit is None else f"step {hit.step}: {hit.reason}"
            right = "as torch" if verdict.ok else f"WRONG: {verdict.reason}"
            print(f"  {entry.kernel} {_sizes(problem)}: {right}; {row}\n    {'' if hit is None else hit.config}")
    kernel = load_kernel(spec.kernels[0].kernel)
    args = kernel.inputs(device="cpu", **dict[str, Any](spec.kernels[0].problems[0]))
    try:
        with _table_of_another_version(out) as path:
            runtime.clear()
            runtime.load(path, as_device=AS_DEVICE, strict=True)
            runtime.lookup(kernel.name, kernel.semantic_hash, kernel.describe(*args))
    except TableError as error:
        print(f"  a table of another kernel version is refused: {error}")
    else:
        print("  a table of another kernel version was NOT refused")
        wrong += 1
    return int(wrong > 0)


@contextmanager
def _table_of_another_version(out: Path) -> Iterator[Path]:
    from tileflow.runtime import dump_table, load_table

    table = load_table(sorted((out / "tables").glob("*softmax*.json"))[0])
    other = dataclasses.replace(table, kernel=dataclasses.replace(table.kernel, semantic_hash="0" * 64))
    with tempfile.TemporaryDirectory() as folder:
        dump_table(other, Path(folder) / "other.json")
        yield Path(folder) / "other.json"


def _sizes(problem: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in problem.items())


def _tool(name: str) -> str:
    """Return the path of the command beside this Python, or of the one on the path."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else str(shutil.which(name) or name)


# ---- a Ray that leaves nothing behind -------------------------------------------------------------------------------


@contextmanager
def _ray_on_loopback() -> Iterator[tuple[str, dict[str, str]]]:
    """Start a one-node Ray; gives its dashboard's URL and the environment to talk to it in."""
    mark = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="tf-", ignore_cleanup_errors=True) as scratch:
        environment = os.environ | {
            MARK: mark,
            "RAY_AUTH_MODE": "disabled",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": scratch,
        }
        environment.pop("RAY_ADDRESS", None)
        gcs, board, agent, client = _free_ports(4)
        command = [
            _tool("ray"),
            "start",
            "--head",
            "--block",
            "--node-ip-address=127.0.0.1",
            f"--port={gcs}",
            "--include-dashboard=true",
            "--dashboard-host=127.0.0.1",
            f"--dashboard-port={board}",
            f"--dashboard-agent-listen-port={agent}",
            f"--ray-client-server-port={client}",
            f"--object-store-memory={200 << 20}",
            f"--temp-dir={scratch}",
        ]
        labels = subprocess.run(
            [sys.executable, "-m", "tileflow_cluster.labels"], capture_output=True, text=True, check=True
        ).stdout.strip()
        if labels:
            command.append(f"--labels={labels}")
        print(f"GPUs of this machine: {labels}" if labels else "no GPU here: times are the cost model's", flush=True)
        with (Path(scratch) / "ray.log").open("w") as output:
            head = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            url = f"http://127.0.0.1:{board}"
            _wait_for(f"{url}/api/version", head, Path(scratch) / "ray.log")
            yield url, environment
        finally:
            head.send_signal(signal.SIGTERM)
            _stop_marked(mark, head)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _wait_for(url: str, head: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and head.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise SystemExit(f"Ray did not start:\n{log.read_text()[-2000:]}")


def _stop_marked(mark: str, head: subprocess.Popen[bytes]) -> None:
    """Wait for what the demo started to end; kill by id what has not ended in time."""
    deadline = time.monotonic() + STOP_S
    while _marked(mark) and time.monotonic() < deadline:
        head.poll()
        time.sleep(0.2)
    for process in _marked(mark):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    head.wait()


def _marked(mark: str) -> list[int]:
    """Return the ids of the live processes that inherited ``mark``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    what, folder = sys.argv[1:]
    sys.exit({"run": run, "dispatch": dispatch}[what](Path(folder).absolute()))
