"""TrialRecord: one attempt at a trial, and the one place that flattens it for the journal, Parquet and MLflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tileflow_cluster.protocol import Mode, ProblemItems, problem_key
from tileflow_cluster.trial import Build, DeviceIdentity, Phases, TrialResult

from tileflow.config import Config
from tileflow.cost import Launch
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import DeviceFacts, Measurement, Outcome, Status
from tileflow.runtime.abi import Resources
from tileflow.runtime.recorded import RECORDED, problem_of

RecordKind = Literal["trial", "remeasure"]
RECORD_KINDS: tuple[RecordKind, ...] = ("trial", "remeasure")

# who proposed a config that the strategy did not: the zero-search default, another problem's or table's winner, a
# config that is tried for a portfolio's sake
DEFAULT, TRANSFER, PORTFOLIO = "default", "transfer", "portfolio"


@dataclass(frozen=True, slots=True)
class StudyKey:
    """The identity of a study: a kernel (``module:qualname``), a problem, a device class."""

    kernel: str
    problem: ProblemItems
    device_class: str

    @staticmethod
    def of(data: Mapping[str, Any]) -> StudyKey:
        """Return the study of a trial's line."""
        return StudyKey(data["kernel"], _pairs(data["problem"]), data["device_class"])

    @property
    def title(self) -> str:
        """The study as text: ``examples.softmax:softmax dtype=bfloat16 m=1024 n=2048 on nvidia-h200``."""
        return f"{self.kernel} {self.shown} on {self.device_class}"

    @property
    def shown(self) -> str:
        """The problem as text: the keywords that make it, or the metadata of a recorded call's arguments."""
        text = dict(self.problem).get(RECORDED)
        return problem_of(text).key if isinstance(text, str) else " ".join(f"{n}={v}" for n, v in self.problem)

    @property
    def id(self) -> str:
        """The canonical text, for journal events and MLflow's tags."""
        return f"{self.kernel} {problem_key(self.problem)} {self.device_class}"


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One attempt: what was asked, and the evaluator's result as it came.

    ``kind``: a ``trial`` of the search, or a ``remeasure``: the time of a candidate in the race at its end.
    ``seed_source``: who proposed the config (:meth:`.study.Study.source`). ``started_at``: seconds since 1970.
    """

    kind: RecordKind
    sweep_id: str
    seed_source: str
    started_at: float
    study: StudyKey
    semantic_hash: str
    mode: Mode
    config: Config
    result: TrialResult

    @property
    def trial_id(self) -> str:
        """The trial's id, empty for an attempt that was lost before its source was known."""
        return self.result.trial_id

    @property
    def status(self) -> Status:
        """How the attempt ended."""
        return self.result.outcome.status

    @property
    def is_of_default(self) -> bool:
        """Whether it tried the zero-search default."""
        return self.seed_source == DEFAULT

    @property
    def measured(self) -> bool:
        """Whether its time was measured and not modelled."""
        return self.result.outcome.measured

    @property
    def completed(self) -> bool:
        """Whether the attempt is a verdict on the config, which ends its trial."""
        return self.result.blames_config

    @property
    def measurement(self) -> Measurement | None:
        """The times of a good trial; None for every other."""
        return self.result.measurement if self.status is Status.OK else None

    @property
    def time_us(self) -> float | None:
        """The median of a good trial in microseconds; None for every other."""
        outcome = self.result.outcome  # read directly: asked some ten times a trial
        times = outcome.measurement
        return times.median_us if times is not None and outcome.status is Status.OK else None

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds of each phase of the attempt; those from ``prepare_s`` on are parts of ``device_s``."""
        outcome, phases = self.result.outcome, self.result.phases
        return {
            "queue_s": phases.queue_s,
            "compile_s": self.result.build.compile_s if self.result.build is not None else 0.0,
            "built_s": phases.built_s,
            "device_s": phases.device_s,
            "prepare_s": outcome.prepare_s,
            "load_s": outcome.load_s,
            "verify_s": outcome.verify_s,
            "bench_s": outcome.bench_s,
        }

    def columns(self) -> dict[str, Any]:
        """Return every field of docs/reference/journal.md, in its order; None or an empty value where it has none."""
        result, outcome = self.result, self.result.outcome
        build = result.build if result.build is not None else Build("")
        used, times, card = build.most_used, outcome.measurement, outcome.device
        return {
            "kind": self.kind,
            "sweep_id": self.sweep_id,
            "trial_id": build.trial_id,
            "attempt": result.attempt,
            "lease_epoch": result.epoch,
            "seed_source": self.seed_source,
            "kernel": self.study.kernel,
            "semantic_hash": self.semantic_hash,
            "problem": dict(self.study.problem),
            "device_class": self.study.device_class,
            "mode": self.mode,
            "config": self.config.to_dict(),
            "status": outcome.status.value,
            "measured": outcome.measured,
            "started_at": self.started_at,
            "source_hash": build.source_hash,
            "gpu_uuid": result.gpu_uuid,
            "host": result.device.host if result.device is not None else build.host,
            "compiled_by": dict(build.compiled_by),
            "launched_by": dict(result.device.launched_by) if result.device is not None else {},
            "error_class": outcome.error_class,
            "error_digest": outcome.error_digest,
            "retried": result.retried,
            "blocklisted": result.blocklisted,
            **self.seconds,
            "samples_us": times.samples_us if times else (),
            "median_us": times.median_us if times else None,
            "p20_us": times.p20_us if times else None,
            "p80_us": times.p80_us if times else None,
            "ci95_us": times.ci95_us if times else None,
            "max_err": outcome.max_err,
            "reference": outcome.reference,
            "registers": used.registers if used else None,
            "spills": used.spills if used else None,
            "shared_bytes": used.shared if used else None,
            "occupancy": build.occupancy,
            "traffic_bytes": build.traffic.bytes if build.traffic else None,
            "flops": build.traffic.flops if build.traffic else None,
            "roofline_us": build.roofline_us,
            "roofline_frac": result.roofline_frac,
            "modelled_us": build.modelled_us,
            "sm_clock_mhz": card.sm_clock_mhz,
            "temp_c": card.temp_c,
            "power_w": card.power_w,
            "throttled": card.throttled,
            "mem_clock_mhz": card.mem_clock_mhz,
            "throttle_reasons": card.throttle_reasons,
            "foreign_processes": card.foreign_processes,
            "canary_ratio": card.canary_ratio,
            "noise_retries": card.noise_retries,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the journal line. Empty columns are left out, except the problem and the config."""
        kept = ("problem", "config")
        return {n: v for n, v in self.columns().items() if v or v == 0 or n in kept}  # a zero, and False, say something

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TrialRecord:
        """Read :meth:`to_json` back, of this version's lines and of earlier ones'; columns of a later version are
        ignored.

        A line keeps the most that any launch of a call uses, so one launch is read back. An attempt that was lost
        before its source was known belongs to no trial; the id that earlier versions made up for it is ignored. Raises
        KeyError, TypeError, ValueError and InternalError for other data.
        """
        build = _build(data) if "trial_id" in data and not _made_up(data) else None
        on = None
        if "gpu_uuid" in data or "launched_by" in data:
            launched_by = _pairs(data.get("launched_by", {}))
            on = DeviceIdentity(data["device_class"], data.get("host", ""), data.get("gpu_uuid", ""), launched_by)
        return TrialRecord(
            kind=data["kind"],
            sweep_id=data["sweep_id"],
            seed_source=data["seed_source"],
            started_at=data["started_at"],
            study=StudyKey.of(data),
            semantic_hash=data["semantic_hash"],
            mode=data["mode"],
            config=Config.of(data["config"]),
            result=TrialResult(
                request_id="",
                attempt=data["attempt"],
                epoch=data["lease_epoch"],
                build=build,
                outcome=_outcome(data),
                phases=Phases(*(data.get(name, 0.0) for name in ("queue_s", "built_s", "device_s"))),
                device=on,
                retried=data.get("retried", False),
                blocklisted=data.get("blocklisted", ""),
            ),
        )


# By how a reference was made, which a journal has.
_CHECKED_AGAINST = {
    "": "eager",
    "cpu": "eager on the CPU",
    "witnesses": "default config + second config + interpreter where there is a small size",
}


def how_they_ended(records: Iterable[TrialRecord]) -> str:
    """Return the number of trials by status, and what was said most often: why no config works."""
    ended = [record.result.outcome for record in records]
    counts = ", ".join(f"{n} {status}" for status, n in Counter(o.status.value for o in ended).most_common())
    digests = Counter(o.error_digest.splitlines()[0] for o in ended if o.error_digest)
    said = f"; most often: {digests.most_common(1)[0][0]}" if digests else ""
    return f"{counts or 'none was tried'}{said}"


def checked_against(outcome: Outcome) -> str:
    """What a measured config's results were held against; empty for a modelled one's."""
    return _CHECKED_AGAINST.get(outcome.reference, outcome.reference) if outcome.measured else ""


_CARD = (
    "sm_clock_mhz",
    "temp_c",
    "power_w",
    "throttled",
    "mem_clock_mhz",
    "foreign_processes",
    "canary_ratio",
    "noise_retries",
)


_UNKNOWN_CARD = DeviceFacts()


def _made_up(data: Mapping[str, Any]) -> bool:
    """Whether the trial id is one that earlier versions gave to what was lost before its source was known."""
    lost = Status(data["status"]).is_infrastructure and (data.get("retried") or not data.get("blocklisted"))
    return bool(data["kind"] == "trial" and lost and "source_hash" not in data)


def _build(data: Mapping[str, Any]) -> Build:
    launches: tuple[Launch, ...] = ()
    if "registers" in data:
        launches = (Launch(Resources(data["registers"], data["spills"], data["shared_bytes"], threads=0), 0),)
    roofline_us = data.get("roofline_us")
    if roofline_us is None and "roofline_frac" in data:  # the first version of the format kept only the share
        roofline_us = data["roofline_frac"] * data["median_us"]
    return Build(
        trial_id=data["trial_id"],
        source_hash=data.get("source_hash", ""),
        compiled_by=_pairs(data.get("compiled_by", {})),
        compile_s=data.get("compile_s", 0.0),
        host=data.get("host", ""),
        launches=launches,
        traffic=Traffic(data["traffic_bytes"], data["flops"], "") if "traffic_bytes" in data else None,
        roofline_us=roofline_us,
        modelled_us=data.get("modelled_us"),
        occupancy=data.get("occupancy"),
    )


def _outcome(data: Mapping[str, Any]) -> Outcome:
    times = None
    if "median_us" in data:
        middle = (data[name] for name in ("median_us", "p20_us", "p80_us", "ci95_us"))
        times = Measurement(tuple(data.get("samples_us", ())), *middle)
    card: dict[str, Any] = {name: data[name] for name in _CARD if name in data}
    if "throttle_reasons" in data:
        card["throttle_reasons"] = tuple(data["throttle_reasons"])
    return Outcome(
        status=Status(data["status"]),
        measurement=times,
        error_class=data.get("error_class", ""),
        error_digest=data.get("error_digest", ""),
        max_err=data.get("max_err"),
        **{name: data.get(name, 0.0) for name in ("prepare_s", "load_s", "verify_s", "bench_s")},
        device=DeviceFacts(**card) if card else _UNKNOWN_CARD,
        measured=data["measured"],
        reference=data.get("reference", ""),
    )


def _pairs(data: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(data.items()))


_NOTHING = TrialResult("", 1, 1, None, Outcome(Status.CANCELLED))
COLUMNS = tuple(TrialRecord("trial", "", "", 0.0, StudyKey("", (), ""), "", "static", Config(()), _NOTHING).columns())
