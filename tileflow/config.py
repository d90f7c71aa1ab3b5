"""Knob, Constraint, Config, ConfigSpace: what may be chosen, what must hold, and one choice.

A knob belongs to a named site (``block:tile_m``, ``reduce:amax#0``, ``load:x#0.eviction``), so that a config
survives unrelated edits of the kernel. A Config is a frozen value and its own identity.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from .errors import ConfigError, Location
from .expr import TRUE, Expr, all_of
from .lazy_dataclass import dataclass
from .locks import cached_property

if TYPE_CHECKING:
    from .sampler import Sampler

Choice = int | str | bool
Role = Literal["block", "order", "group", "grid", "reduction", "launch", "access", "loop", "tunable"]
Direction = Literal["down", "up"]
_MOST_STEPS = 256  # of a repair
_NO_LIMITS: Mapping[str, int] = MappingProxyType({})
_CHECKS_AT_ONCE = 32
_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Knob:
    """One choice. ``choices`` are in their natural order, so that neighbours are small steps; ``default`` is one.

    ``active``: an Expr over knobs, its own choice among them; where it is false that choice changes nothing and is
    normalised to the default, so that two configs that give the same binary are one. ``numbered``: of a knob that
    offers some choices of its definition, all of these, so that Exprs know each by one number everywhere.
    """

    name: str
    site: str
    choices: tuple[Choice, ...]
    role: Role
    default: Choice
    active: Expr = TRUE
    numbered: tuple[Choice, ...] = ()

    def __post_init__(self) -> None:
        if len({(type(c), c) for c in self.choices}) != len(self.choices):
            raise ConfigError(f"the choices of knob {self.name} must be distinct", got=self.choices)
        if not self.allows(self.default):
            raise ConfigError(f"the default of knob {self.name} must be one of {self.choices}", got=repr(self.default))

    @property
    def ordered(self) -> bool:
        """The choices are numbers, so that the next one is a small step."""
        return all(type(c) is int for c in self.choices)

    def allows(self, choice: Choice) -> bool:
        """``choice`` is one of the choices; ``True`` is not 1 here, since the two spell different configs."""
        for known in self.choices:  # noqa: SIM110 (asked for each knob of each config: three times as quick)
            if known == choice and type(known) is type(choice):
                return True
        return False

    def encode(self, choice: Choice) -> int:
        """A choice as an int, for Exprs: ints and bools are themselves, strings their position among all that the
        knob's definition has."""
        return int(choice) if isinstance(choice, int) else (self.numbered or self.choices).index(choice)


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a config must satisfy. ``check`` is an Expr over encoded knobs and ``target.*``; true (non-zero) is good.

    ``repair``: (knob, direction) pairs tried in turn, one step each, until ``check`` holds.
    ``reason``: why, in words, for people. ``where``: the author's line that asks for it, where it is one's.
    ``of_example``: it asks no more than that a variant takes the call that it is lowered from.
    ``hint``: what the author writes instead where no knob mends it; empty where that is what holds for most.
    """

    name: str
    check: Expr
    repair: tuple[tuple[str, Direction], ...]
    reason: str
    where: Location | None = field(default=None, compare=False)
    of_example: bool = False
    hint: str = field(default="", compare=False)

    def broken(self, env: Mapping[str, int]) -> str:
        """What is wrong under ``env``, with both numbers where one is to be at most the other."""
        if self.check.op != "le":
            return self.reason
        needed, most = (side.evaluate(env) for side in self.check.args)
        return f"{self.reason} ({needed} are needed, {most} are there)"


_WHOLE_DIMENSIONS = (
    "no knob that could mend it has a choice left: give a dimension that the kernel takes whole a loop, "
    "for t in tfl.tile(n), or a smaller constant; or choose other values by hand"
)


@dataclass(frozen=True)  # without slots, for its key is kept
class Config:
    """A frozen choice for every knob: sorted (name, choice) pairs."""

    items: tuple[tuple[str, Choice], ...]

    @staticmethod
    def of(values: Mapping[str, Choice]) -> Config:
        """The config with these choices, sorted by knob."""
        return Config(tuple(sorted(values.items())))

    def __getitem__(self, knob: str) -> Choice:
        for name, choice in self.items:
            if name == knob:
                return choice
        raise ConfigError("a config must name every knob that is asked of it", got=knob, hint=f"it has {self}")

    def __contains__(self, knob: object) -> bool:
        return any(name == knob for name, _ in self.items)

    def __iter__(self) -> Iterator[str]:
        """The names of its knobs, as of a mapping."""
        return (name for name, _ in self.items)

    def get(self, knob: str, default: Choice) -> Choice:
        """The choice of ``knob``; ``default`` where the config does not name it."""
        return next((choice for name, choice in self.items if name == knob), default)

    def with_(self, changes: Mapping[str, Choice]) -> Config:
        """This config with other choices for the knobs in ``changes``, and those that it lacked added."""
        return Config.of(dict(self.items) | dict(changes))

    def to_dict(self) -> dict[str, Choice]:
        """The choices by knob, for JSON and for printing."""
        return dict(self.items)

    @cached_property
    def key(self) -> str:
        """The config's identity: 16 hex digits of the SHA-256 of its canonical JSON."""
        return hashlib.sha256(_encode(self.items).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return ", ".join(f"{name}={choice}" for name, choice in self.items)


_Function = Callable[[Mapping[str, int]], int]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A space's Exprs as functions: a search asks them some hundred times a trial."""

    checks: tuple[_Function, ...]
    valid: _Function  # all of them
    actives: tuple[tuple[Knob, _Function], ...]
    texts: tuple[tuple[str, Mapping[Choice, int]], ...]  # the knobs that have texts, and what each choice is encoded as

    @staticmethod
    def of(space: ConfigSpace) -> _Compiled:
        conditional = (k for k in space.knobs if k.active != TRUE)
        texts = (k for k in space.knobs if any(isinstance(c, str) for c in k.choices))
        return _Compiled(
            tuple(c.check.compiled() for c in space.constraints),
            _all_compiled(tuple(c.check for c in space.constraints)),
            tuple((k, k.active.compiled()) for k in conditional),
            tuple((k.name, {c: k.encode(c) for c in k.choices}) for k in texts),
        )


def _all_compiled(checks: Sequence[Expr]) -> _Function:
    """Whether every one is true: in order, up to the first that is not. Not one Expr, whose size has a limit."""
    groups = [all_of(checks[i : i + _CHECKS_AT_ONCE]).compiled() for i in range(0, len(checks), _CHECKS_AT_ONCE)]
    return lambda env: all(group(env) for group in groups)


@dataclass(frozen=True, slots=True)
class ConfigSpace:
    """Knobs and the constraints between them. ``environment`` holds the ``target.*`` values that constraints name."""

    knobs: tuple[Knob, ...]
    constraints: tuple[Constraint, ...] = ()
    environment: tuple[tuple[str, int], ...] = ()
    _by_name: dict[str, Knob] = field(init=False, repr=False, compare=False, hash=False)
    _compiled: list[_Compiled] = field(init=False, default_factory=list, repr=False, compare=False, hash=False)
    _sampler: list[Sampler] = field(init=False, default_factory=list, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        by_name = {k.name: k for k in self.knobs}
        if len(by_name) != len(self.knobs):
            raise ConfigError("knob names must be distinct", got=sorted(k.name for k in self.knobs))
        object.__setattr__(self, "_by_name", by_name)

    def __reduce__(self) -> tuple[Any, ...]:  # functions stay at home
        return type(self), (self.knobs, self.constraints, self.environment)

    @property
    def of_other_calls(self) -> ConfigSpace:
        """The same for variants that need not take the call that they are lowered from."""
        return replace(self, constraints=tuple(c for c in self.constraints if not c.of_example))

    @property
    def fingerprint(self) -> str:
        """Changes when a knob, a choice, a default or a constraint does: 16 hex digits."""
        data: list[Any] = [(k.name, k.choices, k.default, k.role, k.active.to_json()) for k in self.knobs]
        data += [(c.name, c.check.to_json()) for c in self.constraints]
        return hashlib.sha256(json.dumps([data, self.environment]).encode()).hexdigest()[:16]

    @property
    def size(self) -> int:
        """The number of combinations, constraints not counted."""
        result = 1
        for knob in self.knobs:
            result *= len(knob.choices)
        return result

    def knob(self, name: str) -> Knob:
        """The knob of that name. Raises ConfigError, which lists the knobs, where there is none."""
        try:
            return self._by_name[name]
        except KeyError:
            raise ConfigError(
                "a config may only name knobs of this kernel's space",
                got=repr(name),
                hint="the knobs are " + ", ".join(self._by_name),
            ) from None

    @property
    def default(self) -> Config:
        """Every knob at its default, repaired."""
        return self.repair(Config.of({k.name: k.default for k in self.knobs}))

    def check(self, config: Config) -> None:
        """Raises ConfigError where ``config`` lacks a knob, names another, or has an illegal value."""
        for name, choice in config.items:
            knob = self.knob(name)
            if not knob.allows(choice):
                raise ConfigError(f"knob {name} must be one of {list(knob.choices)}", got=repr(choice))
        missing = self._by_name.keys() - config.to_dict().keys()
        if missing:
            raise ConfigError(
                "a config must choose every knob",
                got=f"none for {sorted(missing)}",
                hint="complete(...) fills the defaults in",
            )

    def complete(self, values: Mapping[str, Choice]) -> Config:
        """A config from some of the knobs, the others at their defaults. Raises ConfigError."""
        config = Config.of({k.name: k.default for k in self.knobs} | dict(values))
        self.check(config)
        return config

    def violations(self, config: Config) -> list[Constraint]:
        """The constraints that ``config`` breaks."""
        env = self._environment(config)
        checks = self._functions().checks
        return [c for c, check in zip(self.constraints, checks, strict=True) if not check(env)]

    def is_valid(self, config: Config) -> bool:
        """Whether ``config`` satisfies every constraint of the space."""
        return bool(self._functions().valid(self._environment(config)))

    def repair(self, config: Config, most: Mapping[str, int] = _NO_LIMITS) -> Config:
        """A valid, normalised config near ``config``: broken constraints step their own knobs until all hold. No step
        leads back, so that of two constraints that want opposite things of one knob the first tries its next knob.
        ``most``: numbers of knobs that a step exceeds only where no other is left.

        Raises ConfigError when the constraints' repairs do not lead to a valid config.
        """
        config, limits = self.normalise(config), (most, _NO_LIMITS) if most else (most,)
        seen = {config}
        for _ in range(_MOST_STEPS):
            broken = self.violations(config)
            if not broken:
                return config
            steps = (self._step(config, constraint, seen, most) for most in limits for constraint in broken)
            stepped = next(filter(None, steps), None)
            if stepped is None:
                break
            config = stepped
            seen.add(config)
        violations, env = self.violations(config), self._environment(config)
        raise ConfigError(
            "; ".join(c.broken(env) for c in violations),
            got=self.asked_about(config, violations),
            where=next((c.where for c in violations if c.where is not None), None),
            hint=next((c.hint for c in violations if c.hint), _WHOLE_DIMENSIONS),
        )

    def asked_about(self, config: Config, broken: Iterable[Constraint]) -> str:
        """The choices that broken constraints ask about, of the hundred or so that a config may have."""
        asked = {name for c in broken for name in (*c.check.symbols(), *(knob for knob, _ in c.repair))}
        return ", ".join(f"{name}={choice}" for name, choice in config.items if name in asked) or "any config"

    def _step(
        self, config: Config, constraint: Constraint, seen: set[Config], most: Mapping[str, int]
    ) -> Config | None:
        """The first step that leads to a config not ``seen``: not to ``config`` either, where the knob is inactive."""
        for name, direction in constraint.repair:
            knob = self.knob(name)
            position = knob.choices.index(config[name]) + (1 if direction == "up" else -1)
            if 0 <= position < len(knob.choices) and not _exceeds(knob.choices[position], most.get(name)):
                stepped = self.normalise(config.with_({name: knob.choices[position]}))
                if stepped not in seen:
                    return stepped
        return None

    def normalise(self, config: Config) -> Config:
        """``config`` with every inactive knob at its default: the identity of what it builds.

        A knob that returns to its default may idle others; knobs only ever move to their defaults, so this ends.
        """
        values = config.to_dict()
        return Config.of(values) if self._idle(values, self._environment(config)) else config

    def _idle(self, values: dict[str, Choice], env: dict[str, int]) -> bool:
        """Put every inactive knob of ``values`` to its default, in ``env`` too; whether there was one."""
        actives = self._functions().actives
        changed = False
        while idle := [k for k, active in actives if values[k.name] != k.default and not active(env)]:
            changed = True
            for knob in idle:
                values[knob.name] = knob.default
                env[knob.name] = knob.default if isinstance(knob.default, int) else knob.encode(knob.default)
        return changed

    def adapt(self, values: Mapping[str, Choice]) -> Config:
        """The valid config of this space that is nearest to ``values``, chosen for another shape or device.

        Numbers move to the nearest choice; unknown knobs and other illegal choices give way to the default.
        Raises ConfigError where no repair is left.
        """
        chosen = {k.name: _nearest(k, values.get(k.name, k.default)) for k in self.knobs}
        return self.repair(Config.of(chosen))

    def sample(self, rng: random.Random, tries: int = 64) -> Config:
        """A valid, normalised config: uniform over the choices, bad draws rejected; the last of ``tries`` is repaired.

        Raises ConfigError where no repair is left.
        """
        if not self._sampler:
            from .sampler import Sampler

            self._sampler.append(Sampler(self))
        items, valid = self._sampler[0].draw(rng, tries)
        return Config(items) if valid else self.repair(Config(items))

    def neighbours(self, config: Config) -> Iterator[Config]:
        """The valid, normalised configs one knob away, each once: a step for numbers, else any other choice."""
        seen = {self.normalise(config)}
        for knob in self.knobs:
            position = knob.choices.index(config[knob.name])
            steps = (position - 1, position + 1) if knob.ordered else range(len(knob.choices))
            for step in steps:
                if step != position and 0 <= step < len(knob.choices):
                    changed = self.normalise(config.with_({knob.name: knob.choices[step]}))
                    if changed not in seen and self.is_valid(changed):
                        seen.add(changed)
                        yield changed

    def enumerate(self) -> Iterator[Config]:
        """Every valid, normalised config once, in a fixed order: the first knob varies slowest."""
        names = [k.name for k in self.knobs]
        for choices in itertools.product(*(k.choices for k in self.knobs)):
            config = Config.of(dict(zip(names, choices, strict=True)))
            if self.normalise(config) == config and self.is_valid(config):
                yield config

    def _functions(self) -> _Compiled:
        if not self._compiled:
            self._compiled.append(_Compiled.of(self))
        return self._compiled[0]

    def _environment(self, config: Config) -> dict[str, int]:
        """What Exprs read: numbers and bools are themselves, texts their position."""
        values = dict(config.items)
        if values.keys() != self._by_name.keys():
            self.check(config)
        try:
            return self._encoded(values)
        except KeyError:
            self.check(config)
            raise

    def _encoded(self, values: Mapping[str, Choice]) -> dict[str, int]:
        """Raises KeyError for a text that is none of its knob's choices."""
        env: dict[str, Any] = dict(values)
        for name, encoded in self._functions().texts:
            env[name] = encoded[env[name]]
        env.update(self.environment)
        return env


def _exceeds(choice: Choice, most: int | None) -> bool:
    return most is not None and isinstance(choice, int) and choice > most


def _nearest(knob: Knob, choice: Choice) -> Choice:
    if knob.allows(choice):
        return choice
    if not knob.ordered or type(choice) is not int:
        return knob.default
    return min(knob.choices, key=lambda c: abs(int(c) - choice))
