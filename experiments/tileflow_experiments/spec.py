"""The sweep spec: one YAML file, read strictly into frozen values.

    name: demo
    kernels:
      - kernel: examples.softmax:softmax
        problems:
          - {m: 1024, n: 2048, dtype: bfloat16}
    device_classes: [nvidia-h200, amd-mi300x]
    strategy: {name: random, seed: 0}
    budget: {trials: 40}

Reading has two halves: :func:`parse` needs nothing but the file, :func:`.spec_check.check` imports the kernels and asks
them and the strategies' registry. Both raise SpecError with the field's path (``kernels[0].problems[1].dtype``), the
value and the remedy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar, cast

from tileflow.errors import SpecError
from tileflow.runtime.recorded import RECORDED
from tileflow.target import CATALOGUE, described_here, find

from .ray_job import with_files
from .spec_nodes import MOST_SIZE, Node, Parameter
from .strict_yaml import read_yaml

Mode = Literal["static", "dynamic"]

MODES: tuple[Mode, ...] = ("static", "dynamic")
DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)
# What a kernel's `inputs` is given beside the problem.
GIVEN = {
    "device": "remove it: device_classes says where trials run",
    "seed": "remove it: strategy.seed is that of the sweep, and torch's generator is seeded before inputs= is called",
}
MOST_SEED = 2**32 - 1  # of numpy, and so of Optuna's samplers
MOST_NAME = 128  # characters; half of what MLflow's stores hold of an experiment's name
MOST_TRIALS = 10**9
MOST_PRIORITY = 100
MOST_SCHEDULERS = 256
WAIT_SECONDS = 3600.0
LEAST_SHARE = 0.2  # of the budget, for a problem that is rarely called
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel and its problems. ``kernel``: ``module:qualname``.

    ``problems``: keyword arguments of the kernel's ``inputs`` function. ``calls``: how often each problem is called,
    which divides the budget; equally where empty.
    """

    kernel: str
    problems: tuple[tuple[tuple[str, Parameter], ...], ...]
    calls: tuple[int, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return plain data that :func:`parse` reads back; ``calls`` is left out where empty."""
        data: dict[str, object] = {"kernel": self.kernel, "problems": [dict(p) for p in self.problems]}
        return data | {"calls": list(self.calls)} if self.calls else data


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """The search strategy. ``name``: in tileflow_search's registry. ``seed``: of everything random in the sweep."""

    name: str
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of each (kernel, problem, device class).

    Exactly one is given: a number of distinct trials, a wall-clock time, or the time that GPUs work for it.
    ``wait_seconds``: for how long a device class whose last node has left may have none before its searches stop.
    """

    trials: int | None = None
    seconds: float | None = None
    wait_seconds: float = WAIT_SECONDS
    gpu_seconds: float | None = None

    def times(self, share: float) -> Budget:
        """Return the budget times ``share``, at least one trial."""
        if self.trials is not None:
            return replace(self, trials=max(round(self.trials * share), 1))
        if self.gpu_seconds is not None:
            return replace(self, gpu_seconds=self.gpu_seconds * share)
        assert self.seconds is not None
        return replace(self, seconds=self.seconds * share)

    @property
    def amount(self) -> float:
        """The amount in its own unit, to compare budgets of one sweep."""
        return self.trials or self.seconds or self.gpu_seconds or 0.0

    def __str__(self) -> str:
        if self.trials is not None:
            return f"{self.trials} trials"
        return f"{self.seconds:g} s" if self.seconds is not None else f"{self.gpu_seconds:g} GPU-seconds"


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A sweep.

    ``seeds``: tables, journals and files of trials; their best configs for the same kernels are tried first, after the
    default config. ``priority``: its weight when a cluster is shared with other sweeps. ``modes``: the search runs in
    the first; the winners' binaries are exported in all, and where ``dynamic`` is among them also defaults that take
    any size. ``output``: an absolute folder, or None where the command line names it. ``gpu_seconds``: the most that
    GPUs may work for all searches together; their own budgets hold as well. ``schedulers``: the most processes that
    search, each some of the kernels. ``part``: of the sweep's share of a cluster, what one scheduler is given; never
    written in a file.
    """

    name: str
    kernels: tuple[KernelSpec, ...]
    device_classes: tuple[str, ...]
    strategy: StrategySpec
    budget: Budget
    seeds: tuple[Path, ...] = ()
    modes: tuple[Mode, ...] = MODES
    output: Path | None = None
    priority: int = 1
    schedulers: int = 1
    gpu_seconds: float | None = None
    part: float = 1.0

    def budget_of(self, kernel: str, problem: tuple[tuple[str, Parameter | None], ...]) -> Budget:
        """Return the budget of one search: :attr:`budget`, divided by how often problems are called where that is
        known."""
        calls: dict[object, int] = {
            (k.kernel, p): n for k in self.kernels for p, n in zip(k.problems, k.calls, strict=False)
        }
        mine = calls.get((kernel, problem))
        if mine is None:
            return self.budget
        mean = sum(calls.values()) / len(calls)
        return self.budget.times(LEAST_SHARE + (1 - LEAST_SHARE) * mine / mean)

    def to_json(self) -> dict[str, object]:
        """Return what the journal's header keeps; :func:`parse` reads it back."""
        budget: dict[str, object] = {
            "trials": self.budget.trials,
            "seconds": self.budget.seconds,
            "gpu_seconds": self.budget.gpu_seconds,
        }
        budget = {name: value for name, value in budget.items() if value is not None}
        if self.budget.wait_seconds != WAIT_SECONDS:
            budget["wait_seconds"] = self.budget.wait_seconds
        data: dict[str, object] = {
            "name": self.name,
            "kernels": [kernel.to_json() for kernel in self.kernels],
            "device_classes": list(self.device_classes),
            "strategy": {"name": self.strategy.name, "seed": self.strategy.seed},
            "budget": budget,
            "seeds": [str(path) for path in self.seeds],
            "modes": list(self.modes),
        }
        if self.priority != 1:
            data["priority"] = self.priority
        if self.schedulers != 1:
            data["schedulers"] = self.schedulers
        if self.gpu_seconds is not None:
            data["gpu_seconds"] = self.gpu_seconds
        return data if self.output is None else data | {"output": str(self.output)}


def read(path: Path) -> SweepSpec:
    """Return the spec in the YAML file ``path``. Raises SpecError."""
    return _read(path, parse)


def read_kernels(path: Path) -> tuple[KernelSpec, ...]:
    """Return the ``kernels`` in the YAML file ``path``, of a sweep's spec or alone. Raises SpecError."""
    return _read(path, parse_kernels)


def _read(path: Path, parse_data: Callable[[object], T]) -> T:
    import yaml

    try:
        return parse_data(read_yaml(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SpecError(
            "the sweep spec must be a readable file",
            got=error.strerror,
            where=str(path),
            hint=with_files("name a YAML file; docs/reference/sweeps.md says what is in it"),
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # malformed dates and numbers, and deep nesting
        raise SpecError(
            "the sweep spec must be YAML",
            got=str(error)[:500],
            where=str(path),
            hint="mend the text there; docs/reference/sweeps.md says what is in a spec",
        ) from None
    except SpecError as error:
        where = f"{error.where} in {path}"
        raise SpecError(error.constraint, got=error.got, where=where, hint=error.hint) from None


def parse_kernels(data: object) -> tuple[KernelSpec, ...]:
    """Return the ``kernels`` of plain data; other fields of a sweep's spec are not read. Raises SpecError."""
    if isinstance(data, list):
        raise SpecError(
            "a file of kernels has the key kernels",
            got="a list",
            where="the top",
            hint="write `kernels:` above the list",
        )
    fields = Node(data, "").mapping(required=("kernels",), optional=_OTHER_FIELDS)
    return _distinct(fields["kernels"], _kernel, lambda k: k.kernel)


_OTHER_FIELDS = (
    "name",
    "device_classes",
    "strategy",
    "budget",
    "seeds",
    "modes",
    "output",
    "priority",
    "schedulers",
    "gpu_seconds",
)


def parse(data: object) -> SweepSpec:
    """Return the spec in plain data, checked without importing a kernel. Raises SpecError."""
    root = Node(data, "")
    fields = root.mapping(
        required=("name", "kernels", "device_classes", "strategy", "budget"),
        optional=("seeds", "modes", "output", "priority", "schedulers", "gpu_seconds"),
    )
    return SweepSpec(
        name=_name(fields["name"]),
        kernels=_searched_apart(fields["kernels"]),
        device_classes=_distinct(fields["device_classes"], _device_class, str),
        strategy=_strategy(fields["strategy"]),
        budget=_budget(fields["budget"]),
        seeds=tuple(_absolute(node) for node in fields["seeds"].sequence(empty=True)) if "seeds" in fields else (),
        modes=_distinct(fields["modes"], _mode, str) if "modes" in fields else MODES,
        output=_absolute(fields["output"]) if "output" in fields else None,
        priority=fields["priority"].integer(least=1, most=MOST_PRIORITY) if "priority" in fields else 1,
        gpu_seconds=fields["gpu_seconds"].seconds() if "gpu_seconds" in fields else None,
        schedulers=fields["schedulers"].integer(1, MOST_SCHEDULERS) if "schedulers" in fields else 1,
    )


# ---- fields ---------------------------------------------------------------------------------------------------------


def _name(node: Node) -> str:
    name = node.text()
    if not name.replace("-", "").replace("_", "").isalnum():
        raise node.error("a sweep's name must be letters, digits, '-' and '_'", "it names the MLflow experiment")
    if len(name) > MOST_NAME:
        raise node.error(
            f"a sweep's name must have at most {MOST_NAME} characters, but this one has {len(name)}",
            "it names the MLflow experiment, and is part of more names on a cluster",
        )
    return name


def _kernel(node: Node) -> KernelSpec:
    fields = node.mapping(required=("kernel", "problems"), optional=("calls",))
    ref = fields["kernel"].text()
    module = ref.partition(":")[0]
    if not _names_kernel(ref):
        raise fields["kernel"].error(
            "a kernel must be module:qualname",
            "for example examples.softmax:softmax, or examples.softmax:softmax.backward(x) for a derived gradient",
        )
    if module == "__main__":
        raise fields["kernel"].error("a kernel must live in an importable module", "move it out of __main__")
    problems = _distinct(fields["problems"], _problem, repr)
    calls = tuple(n.integer(1, MOST_SIZE) for n in fields["calls"].sequence()) if "calls" in fields else ()
    if calls and len(calls) != len(problems):
        raise fields["calls"].error("calls must be a count for each problem", f"there are {len(problems)} problems")
    return KernelSpec(ref, problems, calls)


def _searched_apart(node: Node) -> tuple[KernelSpec, ...]:
    """Read the kernels of a sweep. Raises SpecError for two problems of one that are equal as Python's values: searches
    and their results are kept by them, in mappings."""
    kernels = _distinct(node, _kernel, lambda k: k.kernel)
    for i, kernel in enumerate(kernels):
        known: dict[object, int] = {}
        for j, problem in enumerate(kernel.problems):
            if known.setdefault(problem, j) != j:
                raise SpecError(
                    "two problems of a sweep must differ by more than how a number is written",
                    got=f"{dict(kernel.problems[known[problem]])} and {dict(problem)}",
                    where=f"{node.path}[{i}].problems[{j}]",
                    hint="1, 1.0 and true are one value here, and so are 0.0 and -0.0: sweep one of them by itself",
                )
    return kernels


def _names_kernel(ref: str) -> bool:
    """Whether ``ref`` is as ``tileflow.api.load_kernel`` takes it: ``module:qualname``, where ``.backward(x+y)`` may
    end the qualname of a derived backward for some parameters."""
    path, colon, qualname = ref.partition(":")
    if qualname.endswith(")"):
        qualname, _, wanted = qualname[:-1].partition("(")
        if not qualname.endswith(".backward") or not all(name.isidentifier() for name in wanted.split("+")):
            return False
    return bool(colon) and all(part.isidentifier() for part in f"{path}.{qualname}".split("."))


def _problem(node: Node) -> tuple[tuple[str, Parameter], ...]:
    fields = node.entries()
    for name, what in GIVEN.items():
        if name in fields:
            raise fields[name].error(f"a problem must not name {name}, which tileflow gives", what)
    if "dtype" in fields and RECORDED not in fields:  # a recorded call's text has its own
        fields["dtype"].one_of(DTYPES, "a dtype")
    return tuple((key, child.parameter()) for key, child in sorted(fields.items()))


def _strategy(node: Node) -> StrategySpec:
    fields = node.mapping(required=("name",), optional=("seed",))
    return StrategySpec(
        fields["name"].text(), fields["seed"].integer(least=0, most=MOST_SEED) if "seed" in fields else 0
    )


def _budget(node: Node) -> Budget:
    fields = node.mapping(optional=("trials", "seconds", "gpu_seconds", "wait_seconds"))
    wait = fields.pop("wait_seconds").seconds() if "wait_seconds" in fields else WAIT_SECONDS
    if len(fields) != 1:
        raise node.error("a budget must be one of trials, seconds and gpu_seconds", "for example budget: {trials: 100}")
    if "trials" in fields:
        return Budget(trials=fields["trials"].integer(least=1, most=MOST_TRIALS), wait_seconds=wait)
    if "gpu_seconds" in fields:
        return Budget(gpu_seconds=fields["gpu_seconds"].seconds(), wait_seconds=wait)
    return Budget(seconds=fields["seconds"].seconds(), wait_seconds=wait)


def _device_class(node: Node) -> str:
    """Read a device class: a name of the catalogue, or a description by figures."""
    if isinstance(node.value, str) and find(node.value) is not None:
        return node.value
    return node.one_of(
        (*CATALOGUE, *described_here()),
        "a device class",
        "; for a card that the catalogue lacks, `python -m tileflow_cluster.labels` on its host prints the class",
    )


def _mode(node: Node) -> Mode:
    return cast(Mode, node.one_of(MODES, "a shape mode"))


def _absolute(node: Node) -> Path:
    text = node.text()
    if "\0" in text:
        raise node.error("a path must have no zero character", "no file is named so")
    if not os.path.isabs(text):
        raise node.error(
            "a path in a sweep spec must be absolute",
            f"a job runs in a throwaway copy of its folder; did you mean {os.path.abspath(os.path.expanduser(text))}?",
        )
    return Path(text)


def _distinct(node: Node, read_one: Callable[[Node], T], identity: Callable[[T], str]) -> tuple[T, ...]:
    seen: dict[str, T] = {}
    for child in node.sequence():
        value = read_one(child)
        if identity(value) in seen:
            raise child.error("the entries of a list must be distinct", "remove the second one")
        seen[identity(value)] = value
    return tuple(seen.values())
