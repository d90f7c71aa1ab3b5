"""Several hosts for real: raylets in network namespaces, a CPU-only head, a compile node, GPU nodes of two vendors.

Their nodes are started by scripts/ray_node, as an operator's are. Every host is lost once, and the trials are those of
an undisturbed sweep. Skips where no namespaces can be made.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tile_testing import ROOT
from tile_testing.fakes.cluster_fakes import GPU, MODELLED, OBJECT_STORE
from tile_testing.fakes.hosts import Host, network, why_not
from tile_testing.programs.sweep_alone import TRIALS
from tileflow_cluster.labels import DEVICE_CLASS, VENDOR
from tileflow_experiments import journal as journals
from tileflow_experiments.records import TrialRecord

from tileflow.runtime.table_files import load_table

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]
LIMIT_S = 300.0
PORT = 6379
STARTS = 4  # Ray gives its agents 15 s to start, which is too little on a busy machine; systemd would try again as well
RAY_NODE = ROOT / "scripts" / "ray_node"
HOSTS = ("head", "build", "nvidia", "amd", "both")
NVIDIA = {DEVICE_CLASS: GPU, VENDOR: "nvidia"}
AMD = {DEVICE_CLASS: MODELLED, VENDOR: "amd"}
CLASSES = {GPU: "nvidia", MODELLED: "amd"}


@dataclass(frozen=True)
class Node:
    """A raylet: its host, its CPUs, and the labels of its one GPU."""

    host: str
    cpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


NODES = {
    "head": Node("head"),
    "build": Node("build", cpus=2),
    "nvidia": Node("nvidia", labels=NVIDIA),
    "amd": Node("amd", labels=AMD),
    "both-nvidia": Node("both", labels=NVIDIA),
    "both-amd": Node("both", labels=AMD),
}
USUAL = ("head", "build", "nvidia", "amd")


@dataclass
class Cluster:
    """``folder``: Ray's, of a short name, since a socket's has at most 107 characters. ``running``: raylets by name;
    ``started``: how many there were of each name."""

    hosts: dict[str, Host]
    folder: Path
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)

    @property
    def address(self) -> str:
        return f"{self.hosts['head'].address}:{PORT}"

    def only(self, *names: str) -> None:
        """Let these raylets run and no others."""
        for name in [*self.running]:
            if name not in names:
                self.lose(NODES[name].host)
        for name in names:
            if name not in self.running:
                self._start(name)

    def lose(self, host: str) -> None:
        self.hosts[host].kill()
        for name in [*self.running]:
            if NODES[name].host == host:
                self.running.pop(name).wait(30)

    def environment(self, **more: str) -> dict[str, str]:
        """Without what keeps the tests' other Rays on loopback."""
        kept = {n: v for n, v in os.environ.items() if n not in ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_ADDRESS")}
        paths = os.pathsep.join([str(ROOT / "tests"), *(path for path in sys.path if path)])
        return kept | {"PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"} | more

    def _start(self, name: str) -> None:
        node, is_head = NODES[name], name == "head"
        self.started[name] += 1
        here, generation = self.hosts[node.host], f"{name}-{self.started[name]}"
        how = ["head", f"--port={PORT}", f"--temp-dir={self.folder}", "--include-dashboard=false"]
        command = [
            str(RAY_NODE),
            *(how if is_head else ["join", self.address]),
            f"--node-ip-address={here.address}",
            f"--object-store-memory={OBJECT_STORE}",
            f"--num-cpus={node.cpus}",
        ]
        seen = {
            "TILEFLOW_PYTHON": str(self._python()),
            "FAKE_LABELS": ",".join(f"{k}={v}" for k, v in node.labels.items()),
        }
        text = self.folder / f"{generation}.log"
        environment = self.environment(TILEFLOW_TEST_NODE=generation, **seen)
        for _ in range(STARTS):
            with text.open("w") as log:
                started = here.start(command, environment, stdout=log, stderr=subprocess.STDOUT)
            while started.poll() is None:
                if "Ray runtime started" in text.read_text():
                    self.running[name] = started
                    return
                time.sleep(0.1)
        raise AssertionError(text.read_text())

    def _python(self) -> Path:
        """This interpreter, but for what it says of the GPUs that it sees: one, with FAKE_LABELS."""
        path = self.folder / "python"
        asks = 'case "$*" in\n"-m tileflow_cluster.labels") echo "$FAKE_LABELS" ;;\n-c*visible_gpus*) echo 1 ;;\n'
        path.write_text(f'#!/bin/sh\n{asks}*) exec {sys.executable} "$@" ;;\nesac\n')
        path.chmod(0o755)
        return path


@dataclass
class Sweep:
    """A driver on the head's host, and what it left. ``folder``: that of its output and of its workers' scratch."""

    cluster: Cluster
    folder: Path
    device_s: float = 0.02

    def __post_init__(self) -> None:
        (self.folder / "scratch").mkdir(exist_ok=True)
        self.driver = self.start()

    def start(self, *how: str) -> subprocess.Popen[str]:
        environment = self.cluster.environment(
            RAY_ADDRESS=self.cluster.address, SCRATCH=str(self.folder / "scratch"), DEVICE_S=str(self.device_s)
        )
        command = [
            sys.executable,
            str(ROOT / "tests/tile_testing/programs/sweep_on_hosts.py"),
            str(self.folder / "out"),
            *how,
        ]
        host = self.cluster.hosts["head"]
        return host.start(command, environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def resume(self) -> None:
        self.driver = self.start("resume")

    def records(self) -> list[TrialRecord]:
        path = self.folder / "out" / "journal.jsonl"
        return list(journals.attempts(journals.read(path))) if path.exists() else []

    def await_trials(self, device_class: str, more: int = 4) -> None:
        """So many more of a class than there are now."""
        self._await(device_class, self._count(device_class) + more)

    def await_whole(self, device_class: str) -> None:
        self._await(device_class, TRIALS)

    def _await(self, device_class: str, wanted: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while self._count(device_class) < wanted:
            assert self.driver.poll() is None and time.monotonic() < deadline, self.driver.communicate()[1]
            time.sleep(0.2)

    def _count(self, device_class: str) -> int:
        return sum(r.completed and r.study.device_class == device_class for r in self.records())

    def ending(self) -> tuple[int, str]:
        _, said = self.driver.communicate(timeout=LIMIT_S)
        return self.driver.returncode, said

    def require_whole(self) -> list[TrialRecord]:
        """The trials are an undisturbed sweep's: each config once for each class, all measured, a row for each."""
        code, said = self.ending()
        assert code == 0, said
        settled = [r for r in self.records() if r.kind == "trial" and r.completed]
        found = Counter((r.study.device_class, r.config["x"]) for r in settled)
        assert found == {(name, x): 1 for name in CLASSES for x in range(TRIALS)}
        assert all(r.measured and r.status.value == "ok" for r in settled)
        (path,) = (self.folder / "out" / "tables").glob("*.json")
        assert {row.measured_on for row in load_table(path).entries} == set(CLASSES)
        return settled

    def cards(self) -> set[tuple[str, str]]:
        """(device class, raylet) of what was measured."""
        return {(r.study.device_class, r.result.gpu_uuid.split(":")[1]) for r in self.records() if r.completed}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if why := why_not():
        pytest.skip(why)
    with TemporaryDirectory(prefix="tf-", ignore_cleanup_errors=True) as folder, network(*HOSTS) as hosts:
        yield Cluster(hosts, Path(folder))


def test_each_class_is_measured_on_its_own_host(cluster: Cluster, tmp_path: Path) -> None:
    """Placement by label alone: both GPU nodes count one GPU for Ray. One host alone has CPUs to compile with."""
    cluster.only(*USUAL)
    settled = Sweep(cluster, tmp_path).require_whole()
    for record in settled:
        assert record.result.device is not None
        assert record.result.device.host == CLASSES[record.study.device_class]
    assert [path.name for path in (tmp_path / "scratch").glob("compiled-on-*")] == ["compiled-on-build"]


@pytest.mark.parametrize("host", ["build", *CLASSES.values()])
def test_a_lost_host_takes_no_trial_with_it(cluster: Cluster, tmp_path: Path, host: str) -> None:
    """Fault 10: all of its processes die at once; it comes back, and the sweep goes on without being told."""
    cluster.only(*USUAL)
    sweep = Sweep(cluster, tmp_path, device_s=0.2)
    sweep.await_trials(next((name for name, of in CLASSES.items() if of == host), GPU))
    cluster.lose(host)
    cluster.only(*USUAL)
    sweep.require_whole()
    raylets = {vendor: {name for of, name in sweep.cards() if of == each} for each, vendor in CLASSES.items()}
    assert {vendor: len(names) for vendor, names in raylets.items()} == {
        vendor: 1 + (vendor == host) for vendor in raylets
    }


def test_a_host_whose_cable_is_pulled_is_a_lost_one(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing dies, nothing answers: what it measures meanwhile is dropped, and counts once."""
    cluster.only(*USUAL)
    sweep = Sweep(cluster, tmp_path, device_s=0.4)
    sweep.await_trials(GPU)
    cluster.hosts["nvidia"].plug("down")
    sweep.await_whole(MODELLED)
    cluster.hosts["nvidia"].plug("up")
    cluster.lose("nvidia")  # what is left of it: a raylet that the head has given up
    cluster.only(*USUAL)
    sweep.require_whole()
    assert len({name for of, name in sweep.cards() if of == GPU}) == 2


def test_two_vendors_share_a_host(cluster: Cluster, tmp_path: Path) -> None:
    """Two raylets on it, each with the label and the GPU of its own vendor."""
    cluster.only("head", "build", "both-nvidia", "both-amd")
    sweep = Sweep(cluster, tmp_path)
    assert {r.result.device.host for r in sweep.require_whole() if r.result.device is not None} == {"both"}
    for device_class, raylet in sweep.cards():
        assert raylet.startswith(f"both-{CLASSES[device_class]}-")


def test_a_lost_head_ends_in_words_and_resumes_on_another_cluster(cluster: Cluster, tmp_path: Path) -> None:
    cluster.only(*USUAL)
    sweep = Sweep(cluster, tmp_path, device_s=0.4)
    sweep.await_trials(GPU)
    end_tree(cluster.running.pop("head").pid)
    code, said = sweep.ending()
    assert code == 3 and "the Ray cluster's head must answer" in said, said
    cluster.only()
    cluster.only(*USUAL)
    sweep.resume()
    sweep.require_whole()


def end_tree(pid: int) -> None:
    """The head's processes and not its driver's, which shares its host: those that descend from ``pid``."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    for each in found:
        subprocess.run(["kill", "-KILL", str(each)], check=False, capture_output=True)
