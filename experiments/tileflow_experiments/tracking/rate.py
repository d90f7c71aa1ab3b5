"""How many trials a second MLflow takes: `python -m tileflow_experiments.tracking.rate URI [--trials 10000]`.

Writes a journal of made-up trials, each with the knobs of a matrix product, logs it, and reads all of it back through
MLflow's client. Without URI, into an sqlite file of its own.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from tileflow_cluster.trial import Build, DeviceIdentity, Phases, TrialResult

from tileflow.config import Config
from tileflow.cost import Launch
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import Measurement, Outcome, Status
from tileflow.runtime.abi import Resources

from ..journal_writer import Journal
from ..mlflow_log import replay
from ..records import StudyKey, TrialRecord

STUDY = StudyKey(
    "examples.matmul:matmul", (("dtype", "bfloat16"), ("k", 4096), ("m", 4096), ("n", 4096)), "nvidia-h200"
)
KNOBS: dict[str, tuple[Any, ...]] = {
    "block:tile_m": (16, 32, 64, 128, 256), "block:tile_n": (16, 32, 64, 128, 256), "block:tile_k": (16, 32, 64),
    "cutlass_name": (False, True), "flatten": (False, True), "grid": ("flat", "axes"), "group": (1, 2, 4, 8),
    "load:x#0.access": ("pointer", "descriptor"), "load:x#0.cache": ("", ".cg"), "load:x#0.eviction": ("", "first"),
    "load:y#0.access": ("pointer", "descriptor"), "load:y#0.cache": ("", ".cg"), "load:y#0.eviction": ("", "first"),
    "loop:tile_k.static": (False, True), "loop:tile_k.unroll": (1, 2, 4), "maxnreg": (0, 64, 128),
    "num_stages": (1, 2, 3, 4, 5), "num_warps": (2, 4, 8), "order": ("0,1", "1,0"), "persistent": (0, 1, 2),
    "store:out#0.access": ("pointer", "descriptor"), "store:out#0.subtile": (1, 2), "walk": ("interleaved", "blocked"),
}  # fmt: skip


def write_journal(path: Path, name: str, trials: int) -> None:
    """Write a journal of a sweep of one study, whose trials are all distinct."""
    draw = random.Random(0)
    journal = Journal.create(path, {"sweep_id": f"{name}-{uuid.uuid4().hex[:6]}", "spec": {"name": name}})
    begun = time.time() - trials
    configs = [Config.of({n: draw.choice(choices) for n, choices in KNOBS.items()}) for _ in range(trials)]
    journal.event(
        "study",
        study=STUDY.id,
        semantic_hash="c0ffee",
        space_fingerprint="",
        mode="static",
        default=configs[0].to_dict(),
    )
    for number, config in enumerate(configs):
        journal.add(_record(journal.header["sweep_id"], number, config, begun + number, draw))
    journal.event("closed", epoch=1, reason="")
    journal.close()


def _record(sweep_id: str, number: int, config: Config, at: float, draw: random.Random) -> TrialRecord:
    time_us = 100.0 + 900.0 * draw.random()
    used = Launch(Resources(128, 0, 65536, 256), 1)
    build = Build(
        f"{number:024x}",
        f"{number:032x}",
        (("triton", "3.7.1"),),
        0.4,
        "gpu-1",
        launches=(used,),
        traffic=Traffic(10**8, 10**11, "bfloat16"),
        roofline_us=90.0,
        modelled_us=120.0,
        occupancy=0.5,
    )
    times = Measurement(tuple(time_us + n for n in range(20)), time_us, time_us - 1, time_us + 1, 0.2)
    outcome = Outcome(Status.OK, times, max_err=0.25, load_s=0.01, verify_s=0.01, bench_s=0.05)
    device = DeviceIdentity(STUDY.device_class, "gpu-1", "GPU-1", (("torch", "2.13"),))
    result = TrialResult("", 1, 1, build, outcome, Phases(0.1, 0.2, 0.1), device)
    return TrialRecord("trial", sweep_id, "default", at, STUDY, "c0ffee", "static", config, result)


def read_back(uri: str, name: str) -> int:
    """Return how many of the sweep's trials MLflow's client finds whole, with parameters and metrics."""
    from mlflow.tracking import MlflowClient

    client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)
    experiment, token, found = client.get_experiment_by_name(name), None, 0
    while True:
        page = client.search_runs([experiment.experiment_id], max_results=1000, page_token=token)
        whole = (r for r in page if "tileflow.trial_id" in r.data.tags and "median_us" in r.data.metrics)
        found += sum(len(run.data.params) == len(KNOBS) + len(STUDY.problem) for run in whole)
        token = page.token
        if not token:
            return found


def main(arguments: list[str] | None = None) -> int:
    """Log a generated journal, print the rate, and return 0 where every trial was read back."""
    parser = argparse.ArgumentParser(description="How many trials a second MLflow takes.")
    parser.add_argument("uri", nargs="?", help="MLflow's tracking URI; an sqlite file of its own where not given")
    parser.add_argument("--trials", type=int, default=10_000)
    wanted = parser.parse_args(arguments)
    name = f"rate-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_journal(folder / "journal.jsonl", name, wanted.trials)
        uri = wanted.uri or f"sqlite:///{folder / 'mlflow.db'}"
        replay(_header_alone(folder), uri, artifacts=folder / "artifacts")  # imports, and the tables of a new store
        started, busy = time.monotonic(), time.process_time()
        state = replay(folder / "journal.jsonl", uri, artifacts=folder / "artifacts")
        took, busy = time.monotonic() - started, time.process_time() - busy
        found = read_back(uri, name)
        print(
            f"{wanted.trials / took:.0f} trials/s, {busy / wanted.trials * 1e3:.2f} ms of CPU a trial here; "
            f"{found} of {wanted.trials} read back, {len(state.set_aside)} set aside"
        )
    return 0 if found == wanted.trials else 1


def _header_alone(folder: Path) -> Path:
    (folder / "first").mkdir()
    path = folder / "first" / "journal.jsonl"
    with (folder / "journal.jsonl").open("rb") as file:
        path.write_bytes(file.readline())
    return path


if __name__ == "__main__":
    sys.exit(main())
