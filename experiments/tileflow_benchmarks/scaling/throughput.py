"""How many configs a second a sweep measures, and how that scales: the same sweep over 1, 2, 4 ... GPUs of one host.

``python -m tileflow_benchmarks.scaling.throughput configs/throughput.yaml --gpus 1 2 4 --cores 16 --out FOLDER``
searches with each number of GPUs in a process of its own, bound to that many times ``--cores`` cores with a compile
worker on each, and prints a row for each as soon as it has ended. Only the search counts: workers are ready before it
begins. ``--model`` replaces the GPUs by the cost model, which leaves what the cores can compile. ``--simulated``
replaces compilers and GPUs by stages that only take their time; ``--profile`` then shows where the driver spends its
own.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

from tileflow_cluster.labels import DEVICE_CLASS, labels_for
from tileflow_cluster.protocol import Evaluator
from tileflow_cluster.stages import Stages
from tileflow_experiments import journal, spec, sweep
from tileflow_experiments.work import Tools

from tileflow.errors import ClusterError
from tileflow.measure.types import Outcome, Status

from .simulated_stages import Pace, SimulatedStages

COLUMNS = {
    "s": "{elapsed_s:.1f}",
    "tried": "{tried}",
    "/s": "{per_s:.2f}",
    "/s a GPU": "{each:.2f}",
    "efficiency": "{efficiency:.0%}",
    "GPU workers idle": "{device_idle:.0%}",
    "compile workers idle": "{compile_idle:.0%}",
    "driver: ask, rank, hear s": "{ask_s:.1f}, {rank_s:.1f}, {hear_s:.1f}",
}


Devices = Literal["gpus", "model", "simulated"]


def search(
    wanted: spec.SweepSpec, devices: Devices, gpus: int, cores: int, out: Path, stages: Stages
) -> dict[str, Any]:
    """Run ``wanted`` over a Ray of this process with that many GPUs and compile workers. Returns its search's counters.

    ``devices``: the GPUs that this process sees, simulated ones, or the cost model. Raises ClusterError where they are
    not there.
    """
    from tileflow_cluster.devices import visible_gpus
    from tileflow_cluster.local import local_ray
    from tileflow_cluster.ray_evaluator import RayEvaluator

    match devices:
        case "gpus":
            labels = labels_for(visible_gpus())
        case "simulated":
            labels = {DEVICE_CLASS: wanted.device_classes[0]}
        case "model":
            gpus, labels = 0, {}

    def evaluator(wanted: spec.SweepSpec) -> Evaluator:
        made = RayEvaluator(stages, wanted.device_classes, must_measure=devices != "model")
        made.await_workers()
        return made

    def unchecked(request: object) -> Outcome:
        return Outcome(Status.OK, measured=False)

    with local_ray(cores, gpus, labels):
        sweep.run(wanted, out, Tools(evaluator, check=unchecked))
    events = journal.events(journal.read(out / "journal.jsonl"), "counters")
    return next(dict(event) for event in events if event["phase"] == "search")


def main() -> int:
    """Search with each number of GPUs in a process of its own, and print a row for each. Returns the exit code."""
    asked = _arguments()
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if asked.one:
        _one(asked)
        return 0
    print("| GPUs |", " | ".join(COLUMNS), "|\n|" + "---:|" * (len(COLUMNS) + 1), flush=True)
    alone = None
    for gpus in asked.gpus:
        visible = {"CUDA_VISIBLE_DEVICES": "" if asked.devices == "model" else ",".join(map(str, range(gpus)))}
        command = [sys.executable, "-m", "tileflow_benchmarks.scaling.throughput", *sys.argv[1:], "--one", str(gpus)]
        with (asked.out / f"{gpus}.log").open("w") as log:
            done = subprocess.run(command, env=os.environ | visible, stdout=log, stderr=log, timeout=asked.limit_s)
        if done.returncode:
            print((asked.out / f"{gpus}.log").read_text()[-3000:], file=sys.stderr)
            return done.returncode
        found = json.loads((asked.out / f"{gpus}.json").read_text())
        tried = found["measured"] + found["modelled"]
        per_s = tried / found["elapsed_s"]
        alone = alone or per_s / gpus
        found |= {"tried": tried, "per_s": per_s, "each": per_s / gpus, "efficiency": per_s / gpus / alone}
        print(f"| {gpus} |", " | ".join(text.format(**found) for text in COLUMNS.values()), "|", flush=True)
    return 0


def _one(asked: argparse.Namespace) -> None:
    """Search with ``asked.one`` GPUs; write its counters, and the driver's profile where asked."""
    sys.path.insert(0, os.getcwd())
    cores = asked.one * asked.cores
    # The driver and the GPUs' workers need cores too: one GPU has no more of them than several.
    if asked.devices != "simulated":
        free = sorted(os.sched_getaffinity(0))
        if len(free) < cores:
            raise ClusterError("each GPU must have its cores", got=f"{len(free)} for {cores}", hint="--cores")
        os.sched_setaffinity(0, free[:cores])
    data: dict[str, Any] = spec.read(asked.spec).to_json()
    if asked.seconds:
        data["budget"] = {"seconds": asked.seconds}
    if asked.devices == "simulated":
        stages: Stages = SimulatedStages(Pace(compile_s=asked.compile_s))
    else:
        from tileflow_cluster.pipeline import TileflowStages

        stages = TileflowStages()
    profile = cProfile.Profile() if asked.profile else None
    if profile is not None:
        profile.enable()
    folder = asked.out / str(asked.one)
    found = search(spec.parse(data), asked.devices, asked.one, cores, folder, stages)
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("cumulative").print_stats(80)
    (asked.out / f"{asked.one}.json").write_text(json.dumps(found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trials a second with several numbers of GPUs.")
    parser.add_argument("spec", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1], help="efficiency is relative to the first")
    parser.add_argument("--cores", type=int, default=16, help="and compile workers for each GPU")
    parser.add_argument("--seconds", type=float, help="of each study, instead of the spec's budget")
    parser.add_argument("--limit-s", type=float, default=300.0, help="for each number of GPUs, after which all ends")
    parser.set_defaults(devices="gpus")
    instead = parser.add_mutually_exclusive_group()
    for flags, devices, meaning in (
        (("--model",), "model", "the cost model instead of GPUs"),
        (("--simulated", "--rehearse"), "simulated", "without compilers and GPUs"),
    ):
        instead.add_argument(*flags, dest="devices", action="store_const", const=devices, help=meaning)
    parser.add_argument("--compile-s", type=float, default=Pace().compile_s, help="the median of a simulated compile")
    parser.add_argument("--profile", action="store_true", help="print the driver's profile to the log")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.out = asked.out.absolute()
    asked.out.mkdir(parents=True, exist_ok=True)
    return asked


if __name__ == "__main__":
    sys.exit(main())
