"""TrialRecord: one attempt at a trial, as a journal line and a Parquet row hold it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tileflow_cluster.protocol import Mode, ProblemItems, TrialRequest, TrialResult, problem_key

from tileflow.config import Choice, Config
from tileflow.measure.types import Status

RecordKind = Literal["trial", "remeasure"]


@dataclass(frozen=True, slots=True)
class StudyKey:
    """What one search is about: a kernel (``module:qualname``), a problem, a device class."""

    kernel: str
    problem: ProblemItems
    device_class: str

    @property
    def title(self) -> str:
        """For people: ``examples.softmax:softmax dtype=bfloat16 m=1024 n=2048 on nvidia-h200``."""
        sizes = " ".join(f"{name}={value}" for name, value in self.problem)
        return f"{self.kernel} {sizes} on {self.device_class}"

    @property
    def id(self) -> str:
        """Canonical text, for journal events and MLflow's tags."""
        return f"{self.kernel} {problem_key(self.problem)} {self.device_class}"


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One attempt. Times ending in ``_s`` are seconds, in ``_us`` microseconds, ``started_at`` seconds since 1970.

    ``kind``: a ``trial`` of the search, or a ``remeasure``: what an entrant of the contest at its end took.
    ``seed_source``: who proposed the config (``default``, ``transfer``, or the strategy's name). ``retried``:
    infrastructure failed, another attempt follows. ``error_digest``: the first 2000 characters of the message.
    ``blocklisted``: why the config will not run again. ``queue_s``: waiting for a compile worker; ``built_s``: waiting,
    built, for a device; ``device_s``: with a device worker, of which ``prepare_s`` (inputs and references), ``load_s``,
    ``verify_s`` and ``bench_s`` are parts. ``registers``: the most a region uses; ``spills`` and ``shared_bytes``
    likewise. ``measured``: False for the cost model's time.
    """

    kind: RecordKind
    sweep_id: str
    trial_id: str
    attempt: int
    lease_epoch: int
    seed_source: str
    kernel: str
    semantic_hash: str
    problem: ProblemItems
    device_class: str
    mode: Mode
    config: Config
    status: Status
    measured: bool
    started_at: float
    source_hash: str = ""
    gpu_uuid: str = ""
    host: str = ""
    compiled_by: tuple[tuple[str, str], ...] = ()
    launched_by: tuple[tuple[str, str], ...] = ()
    error_class: str = ""
    error_digest: str = ""
    retried: bool = False
    blocklisted: str = ""
    queue_s: float = 0.0
    compile_s: float = 0.0
    built_s: float = 0.0
    device_s: float = 0.0
    prepare_s: float = 0.0
    load_s: float = 0.0
    verify_s: float = 0.0
    bench_s: float = 0.0
    samples_us: tuple[float, ...] = ()
    median_us: float | None = None
    p20_us: float | None = None
    p80_us: float | None = None
    ci95_us: float | None = None
    max_err: float | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    traffic_bytes: int | None = None
    flops: int | None = None
    roofline_frac: float | None = None
    modelled_us: float | None = None
    sm_clock_mhz: int | None = None
    temp_c: int | None = None
    power_w: float | None = None
    throttled: bool | None = None

    @property
    def study(self) -> StudyKey:
        return StudyKey(self.kernel, self.problem, self.device_class)

    @property
    def settled(self) -> bool:
        """The attempt says something about the config: it ends its trial."""
        return not self.retried and (bool(self.blocklisted) or not self.status.is_infrastructure)

    @property
    def time_us(self) -> float | None:
        """The median of a good trial; None for every other."""
        return self.median_us if self.status is Status.OK else None

    def to_json(self) -> dict[str, Any]:
        """The journal line: mappings as objects, fields that hold nothing left out."""
        data: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None or value in ("", ()):
                continue
            data[field.name] = dict(value) if field.name in _MAPPINGS else value
        return data | {"config": self.config.to_dict(), "problem": dict(self.problem), "status": self.status.value}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TrialRecord:
        """Reads :meth:`to_json` back; fields of a later version are passed over."""
        known = {field.name for field in dataclasses.fields(TrialRecord)}
        values = {name: value for name, value in data.items() if name in known}
        for name in _MAPPINGS:
            values[name] = tuple(sorted(values.get(name, {}).items()))
        config: dict[str, Choice] = data["config"]
        values |= {
            "problem": tuple(sorted(data["problem"].items())),
            "config": Config.of(config),
            "status": Status(data["status"]),
            "samples_us": tuple(data.get("samples_us", ())),
        }
        return TrialRecord(**values)


_MAPPINGS = ("compiled_by", "launched_by")


def record(
    request: TrialRequest, result: TrialResult, *, kind: RecordKind, sweep_id: str, seed_source: str, started_at: float
) -> TrialRecord:
    """The record of one result of ``request``."""
    outcome, measurement, device = result.outcome, result.outcome.measurement, result.outcome.device
    return TrialRecord(
        kind=kind,
        sweep_id=sweep_id,
        trial_id=result.trial_id,
        attempt=result.attempt,
        lease_epoch=result.epoch,
        seed_source=seed_source,
        kernel=request.kernel.name,
        semantic_hash=request.kernel.semantic_hash,
        source_hash=result.source_hash,
        problem=request.problem,
        device_class=request.device_class,
        mode=request.mode,
        config=request.config,
        status=outcome.status,
        measured=outcome.measured,
        started_at=started_at,
        gpu_uuid=result.gpu_uuid or device.gpu_uuid,
        host=result.host,
        compiled_by=result.compiled_by,
        launched_by=result.launched_by,
        error_class=outcome.error_class,
        error_digest=outcome.error_digest,
        retried=result.retried,
        blocklisted=result.blocklisted,
        queue_s=result.queue_s,
        compile_s=result.compile_s,
        built_s=result.built_s,
        device_s=result.device_s,
        prepare_s=outcome.prepare_s,
        load_s=outcome.load_s,
        verify_s=outcome.verify_s,
        bench_s=outcome.bench_s,
        samples_us=measurement.samples_us if measurement else (),
        median_us=measurement.median_us if measurement else None,
        p20_us=measurement.p20_us if measurement else None,
        p80_us=measurement.p80_us if measurement else None,
        ci95_us=measurement.ci95_us if measurement else None,
        max_err=outcome.max_err,
        registers=max((r.registers for r in result.resources), default=None),
        spills=max((r.spills for r in result.resources), default=None),
        shared_bytes=max((r.shared for r in result.resources), default=None),
        occupancy=result.occupancy,
        traffic_bytes=result.traffic_bytes,
        flops=result.flops,
        roofline_frac=result.roofline_frac,
        modelled_us=result.modelled_us,
        sm_clock_mhz=device.sm_clock_mhz,
        temp_c=device.temp_c,
        power_w=device.power_w,
        throttled=device.throttled,
    )
