"""Lowered: one kernel for one problem, one target and one shape mode, ready to emit any config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .build.compat import lanes_follow_rows
from .config import Choice, Config, ConfigSpace
from .default import default_config
from .default.any_size import copied_config, other_ways
from .emit.gluon.specialised import emit_specialised
from .emit.heading import Origin
from .emit.kernel import emit
from .emit.parameters import Divisible
from .emit.source import TritonSource
from .errors import ConfigError, Location
from .expr import Expr
from .frontend.lower import HostKnob, LoweredCall, lower_call, lower_launch
from .frontend.split import HostFunction
from .ir.analysis import traffic
from .ir.graph import KernelIR
from .ir.modes import SHAPE_MODES, ShapeMode
from .ir.traffic import Traffic
from .locks import cached_property
from .passes import along_memory, prepare, specialise
from .passes.lengthen import Reach, lengthen
from .passes.structural_choice import StructuralChoice
from .runtime.problem import Problem
from .space.build import build_space, space_of_each
from .space.knobs import SCHEDULE
from .space.schedules import interpretable
from .space.structure import structural_choice
from .target import Target

Hints = tuple[tuple[str, int], ...]
Alternative = tuple[Config, Mapping[int, Expr]]  # and of each launch that differs when it is the better one
VariantKey = tuple[str, Hints, StructuralChoice]  # of a region: its hash, its hints, and what was chosen of it
# which sizes and strides are assumed to be divisible by 16, in the order in which the variants are tried
DIVISIBLE: dict[str, tuple[Divisible, ...]] = {
    "static": ("all",),
    "dynamic": ("all", "inner", "boxes", "none"),
    "wide": ("all", "none"),
    "generic": ("none",),
    "generic_ones": ("none",),
}
_MOST_RETRACED = 256  # choices of host code's own knobs whose regions are kept


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """A launch of a call that is under way: the locals of host code, tensors on the meta device, and the arguments of
    ``tile``."""

    region: int
    frame: Mapping[str, Any]
    given: tuple[Any, ...]


@dataclass(eq=False)
class Lowered:
    """The regions of a call as prepared IR, and what follows from them.

    ``args``: the arguments that it was lowered from, tensors on the meta device where host code allows that. ``mode``:
    one of ``ir.modes``. ``reach``: how long the dimensions held in one piece may be, where not only as the example's.
    ``launch``: one launch alone, out of what it captured in a call that is under way. ``of_other_calls``: for variants
    that need not take the call that they are lowered from.
    """

    host: HostFunction
    args: tuple[Any, ...]
    problem: Problem
    target: Target
    mode: str
    reach: Reach | None = None
    launch: Launch | None = None
    of_other_calls: bool = False
    _call: LoweredCall = field(init=False, repr=False)
    _variants: dict[VariantKey, KernelIR] = field(init=False, repr=False, default_factory=dict)
    _retraced: dict[tuple[str, ...], LoweredCall] = field(init=False, repr=False, default_factory=dict)
    _asked: list[str] = field(init=False, repr=False, default_factory=list)  # the knobs that host code asked for so far

    def __post_init__(self) -> None:
        if self.launch is None:
            self._call = self._prepared(lower_call(self.host, self.args, self.mode, target=self.target))
        else:
            at = self.launch
            self._call = self._prepared(lower_launch(self.host, at.region, at.frame, at.given, self.mode, self.target))

    @property
    def shape_mode(self) -> ShapeMode:
        """The mode: what the lowering takes over from the example's sizes."""
        return SHAPE_MODES[self.mode]

    @property
    def regions(self) -> tuple[KernelIR, ...]:
        """The prepared IR of each launch, in order."""
        return self._call.regions

    @property
    def host_knobs(self) -> tuple[HostKnob, ...]:
        """The knobs that host code asks for, in the order in which it does."""
        return self._call.host_knobs

    @cached_property
    def space(self) -> ConfigSpace:
        """Every knob of the call and the constraints between them."""
        return self._space().of_other_calls if self.of_other_calls else self._space()

    def _space(self) -> ConfigSpace:
        space = build_space((*self.regions, *self._other_ways()), self._call.host_knobs, self.target)
        asked = [knob.name for knob in self._call.host_knobs if not knob.choices]
        if not asked or _has_config(space):
            return space
        for name in asked:
            found = self._space_of_each([name], space, {})
            if _has_config(found):
                return found
        return self._space_of_each(asked, space, {}) if len(asked) > 1 else found

    def _space_of_each(self, asked: Sequence[str], space: ConfigSpace, given: Mapping[str, Choice]) -> ConfigSpace:
        """The space in which each choice of the first of the block sizes ``asked`` has the constraints that it brings
        about; where it has no config, so has each choice of the next one. ``given``: those that are chosen."""
        first, *rest = asked
        ways = {}
        for choice in space.knob(first).choices:
            chosen = {**given, first: choice}
            call = lower_call(self.host, self.args, self.mode, chosen, target=self.target)
            way = build_space(self._prepared(call).regions, call.host_knobs, self.target)
            ways[int(choice)] = way if not rest or _has_config(way) else self._space_of_each(rest, way, chosen)
        return space_of_each(first, ways)

    def _other_ways(self) -> Iterator[KernelIR]:
        """What the regions become by each choice of the author's own knobs: the code that it selects may have loops,
        and so knobs, that the first choice's has not."""
        seen = {ir.hash for ir in self.regions}
        for knob in self._call.host_knobs:
            for choice in knob.choices[1:]:
                try:
                    call = lower_call(self.host, self.args, self.mode, {knob.name: choice}, target=self.target)
                except AssertionError:  # of host code, which does not accept it: emit says so
                    continue
                for ir in self._prepared(call).regions:
                    if ir.hash not in seen:
                        seen.add(ir.hash)
                        yield ir

    @cached_property
    def default(self) -> Config:
        """The default config. It is pipelined where it cannot be written warp-specialised: some regions have a loop
        or a box that shows what the copy engine reads past it, which only the emission finds out."""
        config = default_config(self.regions, self.space, self.target)
        if not any(SCHEDULE.matches(name) and choice != SCHEDULE.default for name, choice in config.items):
            return config
        try:
            self.emit(config)
        except ConfigError:
            return self.default_pipelined
        return config

    @cached_property
    def default_pipelined(self) -> Config:
        """The default where no launch is warp-specialised and none has clusters: what fits any sizes."""
        return default_config(self.regions, self.space, self.target, pipelined=True)

    @cached_property
    def default_unaligned(self) -> Config:
        """The same for the variants that assume nothing of where rows begin and end; as a rule no other."""
        return default_config(self.regions, self.space, self.target, pipelined=True, unaligned=True)

    @cached_property
    def default_copied(self) -> Alternative:
        """The same where launches copy what their products multiply, and where a call's sizes are worth it."""
        unaligned = self.default_unaligned
        return self._alternative(unaligned, lambda ir: copied_config(ir, unaligned.to_dict(), self.target))

    def other_ways(self, config: Config, is_copied: bool) -> tuple[Alternative, ...]:
        """The ways of the launches that ``config`` has warp-specialised, its own among them, in the order in which they
        are tried. ``is_copied``: of variants whose operands are all copied."""
        chosen, regions = config.to_dict(), self._of_several_schedules
        found = {ir.region: other_ways(ir, chosen, self.target, is_copied) for ir in regions}

        def of_number(n: int) -> Alternative:
            return self._alternative(config, lambda ir: dict(enumerate(found[ir.region])).get(n))

        return tuple(map(of_number, range(max(map(len, found.values()), default=0))))

    @property
    def _of_several_schedules(self) -> tuple[KernelIR, ...]:
        """The launches whose schedule is chosen, which all ways of a tunable may have."""
        names = {knob.name for knob in self.space.knobs}
        return tuple(ir for ir in self.regions if SCHEDULE.name(ir) in names)

    def _alternative(
        self, config: Config, find: Callable[[KernelIR], tuple[Mapping[str, Choice], Expr] | None]
    ) -> Alternative:
        """``config`` with what ``find`` gives of each region, and the conditions of those that are warp-specialised."""
        found = {ir.region: (ir, way) for ir in self._of_several_schedules if (way := find(ir)) is not None}
        changes = {name: choice for _, (choices, _) in found.values() for name, choice in choices.items()}
        schedules = {name: choice for name, choice in changes.items() if SCHEDULE.matches(name)}
        base = self.space.normalise(config.with_(schedules))  # what the other schedule does not have allows no clusters
        other = self.space.normalise(self.space.repair(base.with_(changes))) if changes else config
        specialised = [n for n, (ir, _) in found.items() if SCHEDULE.chosen(other, ir) != SCHEDULE.default]
        return other, {region: found[region][1][1] for region in specialised}

    @cached_property
    def traffic(self) -> Traffic:
        """Bytes that the whole call must move and arithmetic that it must do."""
        return traffic(self.regions)

    def interpretable(self, config: Config) -> Config:
        """What Triton's interpreter runs in place of ``config``: itself, unless a launch has a schedule of its own, or
        clusters."""
        return interpretable(self.space, config)

    def emit(self, config: Config, variants: Sequence[Divisible] | None = None) -> tuple[TritonSource, ...]:
        """The Triton source of each region under ``config``; in dynamic mode one variant with sizes divisible by 16,
        where the example's are, one with those of the inner dimensions alone, one for which rows begin at multiples of
        16 bytes where a box reads them, and one without; fewer where some are equal. ``variants``: these alone.

        Knobs that the other choices make idle are read as their defaults, whoever chose them: what is emitted is a
        function of the normalised config. Raises ConfigError where the config is not one of the space, where it or its
        normal form breaks a constraint, or host code asserts.
        """
        self.space.check(config)
        given, config = config, self.space.normalise(config)
        broken = self.space.violations(given)
        if not broken and config != given:
            broken = self.space.violations(config)
        if broken:
            raise ConfigError(
                "; ".join(c.reason for c in broken),
                got=self.space.asked_about(given, broken),
                where=next((c.where for c in broken if c.where is not None), None),
                hint=next((c.hint for c in broken if not c.repair and c.hint), "space.repair(config) mends it"),
            )
        sources: dict[str, TritonSource] = {}
        for ir in self.specialised_regions(config):
            for divisible in DIVISIBLE[self.mode] if variants is None else variants:
                if SCHEDULE.chosen(config, ir) == "warp_specialised":
                    source = emit_specialised(ir, config, self.target, divisible)
                else:
                    written = along_memory(ir) if lanes_follow_rows() else ir
                    source = emit(written, config, self.target, divisible, self._origin(ir.region))
                if divisible != "boxes" or any(arg.kind == "descriptor" for arg in source.args):
                    sources[source.hash] = source
        return tuple(sources.values())

    def specialised_regions(self, config: Config) -> tuple[KernelIR, ...]:
        """The regions that a valid, normalised ``config`` chooses, each with its structure and its masks in place, as
        written."""
        return tuple(self._variant(ir, config) for ir in self._regions_under(config))

    def _origin(self, region: int) -> Origin:
        """What a generated kernel says of the author's function."""
        code, launch = self.host.fn.__code__, self.host.regions[region]
        line = launch.loop.lineno
        text = launch.lines[line - 1].rstrip() if line <= len(launch.lines) else ""
        loop = Location(launch.file, line, launch.loop.col_offset, text)
        return Origin(self.problem.kernel, Path(code.co_filename).name, code.co_firstlineno, loop)

    def _regions_under(self, config: Config) -> tuple[KernelIR, ...]:
        """Host code may compute with the knobs that it asked for, so that it is run again for other choices of them."""
        if not self._call.host_knobs:
            return self.regions
        choices = config.to_dict()
        answers = tuple(repr(choices.get(name)) for name in self._asked)
        if answers in self._retraced:
            return self._retraced[answers].regions
        try:
            call = self._prepared(lower_call(self.host, self.args, self.mode, choices, target=self.target))
        except AssertionError as error:
            raise ConfigError(
                "host code must accept the config",
                got=f"AssertionError: {error}",
                where=str(config),
                hint="choose other values for its own knobs",
            ) from error
        asked = [k.name for k in call.host_knobs if k.name not in self._asked]
        if asked or len(self._retraced) == _MOST_RETRACED:
            self._asked += asked
            self._retraced.clear()  # its keys have no answer to these
        self._retraced[tuple(repr(choices.get(name)) for name in self._asked)] = call
        return call.regions

    def _variant(self, ir: KernelIR, config: Config) -> KernelIR:
        choice = structural_choice(ir, config)
        key = ir.hash, tuple(sorted(ir.hints.items())), choice
        if key not in self._variants:
            self._variants[key] = specialise(ir, choice)
        return self._variants[key]

    def _prepared(self, call: LoweredCall) -> LoweredCall:
        regions = tuple(prepare(ir) for ir in call.regions)
        if self.reach is not None:
            regions = tuple(lengthen(ir, self.reach) for ir in regions)
        return LoweredCall(regions, call.host_knobs)


def _has_config(space: ConfigSpace) -> bool:
    """Whether repairs lead to a valid config: host code may have made a size of the first choice of a block size that
    only another choice makes fit."""
    try:
        return space.is_valid(space.default)
    except ConfigError:
        return False
