"""What ten thousand trials take of one scheduler's process: memory, processor time, then a resume and an export.

``python -m tileflow_benchmarks.scaling.soak configs/throughput.yaml --trials 10000`` searches on a simulated cluster
(:mod:`.simulated_cluster`) with a real journal. Memory is what the process holds above its figure before the first
trial, with everything imported and every kernel lowered. Resuming is reading the journal and telling the strategies.
Exporting is writing all files of the sweep's folder.

``--ray`` searches on a real local Ray instead, whose workers take no time, and says what a trial takes of this process:
the processor time of all of its threads, most of which are Ray's.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tileflow_cluster.labels import DEVICE_CLASS
from tileflow_cluster.local import local_ray  # before anything else that imports Ray, which it tells to stay local
from tileflow_cluster.ray_evaluator import RayEvaluator
from tileflow_experiments import spec as specs
from tileflow_experiments.driver import Driver
from tileflow_experiments.journal_writer import Journal
from tileflow_experiments.open_studies import open_studies, study_keys
from tileflow_experiments.outputs import Outputs, write_outputs
from tileflow_experiments.tuning_task import TuningTask, prepare
from tileflow_search.registry import warm_up

import tileflow

from .simulated_cluster import RayCost, SimulatedCluster
from .simulated_stages import Pace, SimulatedStages

AIMS = {"memory_mb": 100.0, "driver_ms": 1.0, "resume_s": 3.0, "export_s": 3.0}


def resident_mb() -> float:
    """Return the process's resident memory in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def soak(
    wanted: specs.SweepSpec, tasks: Sequence[TuningTask], trials: int, gpus: int, per_s: float, folder: Path
) -> dict[str, float]:
    """Run the trials, a resume and an export. Returns the figures of :data:`AIMS`, and how many trials were
    completed."""
    budget = replace(wanted.budget, trials=math.ceil(trials / len(tasks)), seconds=None)
    wanted = replace(wanted, budget=budget)
    outputs = Outputs(folder)
    cluster = SimulatedCluster(wanted.device_classes[0], gpus, per_s, Pace().compile_s, RayCost())
    journal = Journal.create(
        outputs.journal,
        {
            "sweep_id": "soak",
            "spec": wanted.to_json(),
            "created_at": time.time(),
            "tileflow": tileflow.__version__,
        },
    )
    studies = open_studies(wanted, journal, tasks)
    before = resident_mb()
    driver = Driver("soak", studies, cluster, journal, seed=wanted.strategy.seed)
    cluster.start()
    driver.search()
    journal.close()
    done = sum(len(study.completed) for study in studies)
    found = {
        "trials": done,
        "memory_mb": resident_mb() - before,
        "driver_ms": 1e3 * (cluster.driver_s + cluster.ray_s) / done,
        "journal_mb": outputs.journal.stat().st_size / 2**20,
    }
    del driver, studies, cluster
    with _timed(found, "resume_s"):
        journal = Journal.resume(outputs.journal)
        studies = open_studies(wanted, journal, tasks)
    assert sum(len(study.completed) for study in studies) == done
    journal.close()
    del studies
    with _timed(found, "export_s"):
        write_outputs(outputs, tasks)
    return found


def on_ray(wanted: specs.SweepSpec, tasks: Sequence[TuningTask], trials: int, folder: Path) -> dict[str, float]:
    """Run the trials over a Ray of this process with two workers of each kind. Returns milliseconds a trial: of this
    thread, and of all threads."""
    budget = replace(wanted.budget, trials=math.ceil(trials / len(tasks)), seconds=None)
    wanted = replace(wanted, budget=budget)
    at_once = Pace(compile_s=1e-9, prepare_s=0.0, load_s=0.0, verify_s=0.0, bench_s=0.0)
    with local_ray(2, 2, {DEVICE_CLASS: wanted.device_classes[0]}):
        evaluator = RayEvaluator(SimulatedStages(at_once), wanted.device_classes, must_measure=True)
        evaluator.await_workers()
        journal = Journal.create(folder / "journal.jsonl", {"sweep_id": "soak", "spec": wanted.to_json()})
        studies = open_studies(wanted, journal, tasks)
        driver = Driver("soak", studies, evaluator, journal, seed=wanted.strategy.seed)
        thread, process = time.thread_time(), time.process_time()
        driver.search()
        thread_s, process_s = time.thread_time() - thread, time.process_time() - process
        journal.close()
        evaluator.close()
    done = sum(len(study.completed) for study in studies)
    return {"trials": done, "thread_ms": 1e3 * thread_s / done, "driver_ms": 1e3 * process_s / done}


@contextmanager
def _timed(found: dict[str, float], name: str) -> Iterator[None]:
    """Record the block's processor time in this process: what it would take on a core of its own."""
    began = time.process_time()
    yield
    found[name] = time.process_time() - began


def main() -> int:
    """Run the soak and print its figures beside their aims. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Ten thousand trials through one scheduler.")
    parser.add_argument("spec", type=Path)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--gpus", type=int, default=16)
    parser.add_argument("--per-s", type=float, default=30.0)
    parser.add_argument("--strategy", default="random")
    parser.add_argument("--ray", action="store_true", help="over a real Ray, whose workers take no time")
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    asked = parser.parse_args()
    sys.path.insert(0, "")
    wanted = specs.read(asked.spec)
    wanted = replace(wanted, strategy=replace(wanted.strategy, name=asked.strategy))
    warm_up(asked.strategy)
    tasks = [prepare(key, "static") for key in study_keys(wanted)]
    with tempfile.TemporaryDirectory() as folder:
        if asked.ray:
            found = on_ray(wanted, tasks, asked.trials, Path(folder))
        else:
            found = soak(wanted, tasks, asked.trials, asked.gpus, asked.per_s, Path(folder))
    for name, value in found.items():
        aim = f" (aim: {AIMS[name]:g})" if name in AIMS else ""
        print(f"{name}: {value:.2f}{aim}")
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
