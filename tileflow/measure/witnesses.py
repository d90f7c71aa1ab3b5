"""What a call must give where there is room for no reference: the default config's output, with two witnesses for it.

The second witness is a config of another text: other blocks, other accesses, another structure. It must give what the
default config gives, within the tolerance of the types and the problem's own noise, which is measured by the default
config on inputs moved by an ulp. The third is Triton's interpreter, which runs both configs at a small size, where
there is room for the reference. A mistake in the kernel's text, or one that both configs share, is found there; one of
the full size alone (an overflow, a tail) by the other config, unless it has the same mistake.

The interpreter may have nothing to say: a call that is tuned where it stands has one size, and authors refuse sizes
that are made up. Where one of the three says otherwise, or there is no second config, the problem has no reference: a
SpecError that names all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from ..config import Choice, Config, ConfigSpace
from ..emit.source import TritonSource
from ..errors import ConfigError, SpecError, TileflowError
from ..runtime.launch import Launcher, launcher_for
from ..target import target
from ..tolerances import Tolerances
from .check import Reference, Verdict, check_call, make_reference
from .device import identity
from .failure import failed
from .host_share import shared
from .inputs import poisoned
from .interpret import InterpretRequest, check_interpreted
from .noise import Measured
from .request import MeasureRequest
from .types import Outcome, Status

CANDIDATES = 16  # for the second config: most spaces give one at once
INTERPRETED_S = 30.0  # at most, for one config
INTERPRETER_SHARE = 0.25  # at most, of what a problem's preparation has left: two configs are built and run in it too
_SILENT = (Status.CANCELLED, Status.INVALID_STATIC, Status.BENCH_TIMEOUT)  # of an interpreter: no size or time for it
_SEED = 0
_HINT = "take smaller sizes, or give the kernel a reference= or baseline= that needs less memory"

Call = Callable[..., Any]


class Emitting(Protocol):
    """What is asked of a lowered kernel (:class:`tileflow.lowered.Lowered`, which lies above this package)."""

    @property
    def space(self) -> ConfigSpace:
        """Every knob of the call."""

    @property
    def default(self) -> Config:
        """The default config."""

    def emit(self, config: Config) -> tuple[TritonSource, ...]:
        """The source of each launch. Raises ConfigError for a config that has none."""


@dataclass(frozen=True, slots=True)
class Tools:
    """``build``: a config as a call. ``interpret``: whether a config is right at a small size."""

    build: Callable[[Config], Call]
    interpret: Callable[[Config], Outcome]


@dataclass(frozen=True, slots=True)
class Witness:
    """A config, its call, and what the interpreter said of it."""

    config: Config
    call: Call
    interpreted: Outcome

    def __str__(self) -> str:
        said = self.interpreted
        return said.status.value if said.status is Status.OK else f"{said.status.value}, {said.error_digest}"


@dataclass(frozen=True, slots=True)
class Witnesses:
    """The witnesses of one problem, for the arguments of any seed."""

    first: Witness
    second: Witness
    where: str
    author: Tolerances

    def reference(self, args: Sequence[Any], measured: Measured | None = None) -> Reference:
        """What a call on ``args`` must give. ``measured``: as of :func:`.check.make_reference`.

        Raises SpecError where the witnesses disagree.
        """
        reference = make_reference(_poisoned(self.first.call), args, self.author, measured=measured, as_given=True)
        try:
            verdict = check_call(self.second.call, args, reference)
        except TileflowError as error:
            verdict = Verdict(Status.INCORRECT, float("inf"), f"{type(error).__name__}: {error}")
        interpreted = (self.first.interpreted, self.second.interpreted)
        if verdict.ok and all(outcome.status in (Status.OK, *_SILENT) for outcome in interpreted):
            return reference
        raise SpecError(
            "the witnesses of a problem without room for a reference must agree",
            got=self._testimony(verdict),
            where=self.where,
            hint=_HINT,
        )

    def _testimony(self, verdict: Verdict) -> str:
        agreed = "gives the same" if verdict.ok else f"{verdict.status.value}, {verdict.reason}"
        return (
            f"default config ({self.first.config}): what it gives is the reference; "
            f"second config ({self.second.config}): {agreed}; "
            f"interpreter at a small size: default config {self.first}, second config {self.second}"
        )


def find_witnesses(lowered: Emitting, tools: Tools, author: Tolerances, where: str) -> Witnesses:
    """Build the default config, and another one that compiles: of some, the one whose launches have the fewest texts in
    common with the default's. Raises SpecError where there is none, and what building the default config raises."""
    first = _witness(lowered.default, tools)
    refused = "no other config has another text"
    for config in _unlike(lowered):
        try:
            return Witnesses(first, _witness(config, tools), where, author)
        except TileflowError as error:
            refused = f"{config}: {error}"
    raise SpecError(
        "a problem without room for a reference must have a second config as a witness",
        got=f"default config ({first.config}); second config: none ({refused}); interpreter: default config {first}",
        where=where,
        hint=_HINT,
    )


def _unlike(lowered: Emitting) -> list[Config]:
    """Configs under which at least one launch has a text or blocks that it has not under the default config, those
    under which most have first."""
    plain = _texts(lowered, lowered.default)
    shared: list[tuple[int, Config]] = []
    for config in others(lowered.space, lowered.default):
        try:
            texts = _texts(lowered, config)
        except ConfigError:
            continue
        if texts != plain:
            shared.append((len(texts & plain), config))
    return [config for _, config in sorted(shared, key=lambda pair: pair[0])]


def _texts(lowered: Emitting, config: Config) -> set[tuple[Any, ...]]:
    """The launches' texts and their constants; launch options alone do not tell witnesses apart."""
    return {(source.region, source.code, source.constexprs) for source in lowered.emit(config)}


def others(space: ConfigSpace, config: Config) -> Iterator[Config]:
    """Valid configs that differ from ``config``: in every knob that has a neighbouring choice, then in all but the
    launch's options, then random ones."""
    rng = random.Random(_SEED)
    seen = {config}
    for number in range(CANDIDATES):
        try:
            found = _neighbour(space, config, number == 0) if number < 2 else space.sample(rng)
        except ConfigError:  # no repair leads from there to a valid config
            continue
        if found not in seen:
            seen.add(found)
            yield found


def _neighbour(space: ConfigSpace, config: Config, with_launch: bool) -> Config:
    """Sizes by their next smaller choice, which asks less of the device, where there is one; the rest by another."""
    changed: dict[str, Choice] = {}
    for knob in space.knobs:
        if len(knob.choices) > 1 and (with_launch or knob.role != "launch"):
            at = knob.choices.index(config[knob.name])
            changed[knob.name] = knob.choices[at - 1 if at else 1]
    return space.repair(config.with_(changed))


def witnesses_on_device(kernel: Any, request: MeasureRequest) -> Witnesses:
    """The witnesses of a request's problem, built here for this process's device. ``kernel``: that of the problem's
    arguments. Raises as :func:`find_witnesses` does."""
    import torch

    from ..build.compile import build

    device = target(identity().device_class)
    lowered = kernel.lower(kernel.inputs(device="meta", **dict(request.problem)), device)

    def built(config: Config) -> Call:
        launchers: dict[int, list[Launcher]] = {}
        for source in lowered.emit(config):
            launcher = launcher_for(build(source, device), torch.cuda.current_device(), kernel.scope)
            launchers.setdefault(source.region, []).append(launcher)
        return cast(Call, kernel.bind(config, launchers))

    def interpreted(config: Config) -> Outcome:
        left_s = request.limits.prepare - (time.monotonic() - started)
        return silent or _at_small_size(request, config, device.name, left_s * INTERPRETER_SHARE)

    started = time.monotonic()
    silent = _no_small_size(kernel, request)
    tools = Tools(built, interpreted)
    return find_witnesses(lowered, tools, kernel.tolerances, f"{request.kernel} {dict(request.problem)}")


def _no_small_size(kernel: Any, request: MeasureRequest) -> Outcome | None:
    """Why an interpreter need not be asked: it would start to find that the smallest call is too large for it."""
    try:
        kernel.inputs(device="meta", **kernel.small(dict(request.problem)))
    except ValueError as error:
        return failed(Status.CANCELLED, f"no small size: {error}")
    except Exception:  # an author's own, at sizes that are made up: others are tried
        return None
    return None


def _at_small_size(request: MeasureRequest, config: Config, device_class: str, limit_s: float) -> Outcome:
    """What the interpreter says of a config in ``limit_s`` seconds, asked once a host."""
    asked = InterpretRequest(
        request.kernel,
        request.problem,
        config,
        device_class,
        sys_path=request.sys_path,
        seed=request.seeds[0],
        limit_s=min(limit_s, INTERPRETED_S),
        loader=request.loader,
    )
    return shared(repr(replace(asked, limit_s=INTERPRETED_S)), lambda: check_interpreted(asked))


def _witness(config: Config, tools: Tools) -> Witness:
    return Witness(config, tools.build(config), replace(tools.interpret(config), measured=False))


def _poisoned(call: Call) -> Call:
    def poisoned_call(*args: Any) -> Any:
        with poisoned():
            return call(*args)

    return poisoned_call
