"""What is said of a knob once, wherever it stands: its name, its choices, its default, and why it is there."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Generic, TypeVar

from ..config import Choice, Config, Knob, Role
from ..errors import ConfigError
from ..expr import TRUE, Expr
from ..ir.graph import KernelIR
from ..target import Target
from .names import suffixed

C = TypeVar("C", int, str, bool)
_MOST_LISTED = 5  # choices; of more, the first two and the last


@dataclass(frozen=True, slots=True)
class KnobDef(Generic[C]):
    """A definition. The search space binds it to a site, the emission asks for a choice by it.

    ``word``: in the knob's name. ``choices``: in their natural order; empty where each kernel has its own, which
    ``shown`` describes. ``amd``: those on AMD's devices, where they are others. ``where``, ``why``: for people.
    """

    word: str
    choices: tuple[C, ...]
    _: KW_ONLY
    default: C
    where: str
    why: str
    amd: tuple[C, ...] = ()
    shown: str = ""
    role: Role = "launch"

    @property
    def pattern(self) -> str:
        """The names of such knobs, for people."""
        raise NotImplementedError

    def matches(self, name: str) -> bool:
        """Whether this is the definition of the knob of that name."""
        raise NotImplementedError

    def on(self, target: Target) -> tuple[C, ...]:
        """The choices on a device."""
        return self.amd if self.amd and target.vendor == "amd" else self.choices

    def read(self, choice: Choice) -> C:
        """``choice`` as one of the definition's. Raises ConfigError for one of another type."""
        if type(choice) is not type(self.default):
            raise ConfigError(f"the knob {self.pattern} takes choices like {self.default!r}", got=repr(choice))
        return choice

    def encoded(self, choice: C) -> int:
        """The number that stands for a choice in Exprs, whichever of the choices a knob offers."""
        return int(choice) if isinstance(choice, int) else self._numbered.index(choice)

    @property
    def _numbered(self) -> tuple[C, ...]:
        return self.choices + tuple(choice for choice in self.amd if choice not in self.choices)

    @property
    def row(self) -> str:
        """Its line in the tables of docs/reference/knobs.md."""
        return f"| `{self.pattern}` | {self.shown or self._spelled()} | {self.where} | {self.why} |"

    def _spelled(self) -> str:
        """The choices, those of AMD's devices behind them, the default first."""
        text = _listed(self.choices)
        if self.choices[0] != self.default:
            text = f"{self.default}, of {self.choices[0]} ... {self.choices[-1]}"
        if not self.amd:
            return text
        more = [c for c in self.amd if c not in self.choices]
        return f"{text}, on AMD {_listed(tuple(more))}" if more else f"{text} (AMD {self.amd[-1]})"

    def _bound(self, name: str, site: str, active: Expr, choices: tuple[Choice, ...], default: Choice) -> Knob:
        known = {*self.choices, *self.amd}
        if known and not known.issuperset(choices):
            raise ConfigError(
                f"the knob {name} offers choices of its definition",
                got=choices,
                hint=f"{self.pattern} has {sorted(known, key=str)}",
            )
        return Knob(name, site, choices, self.role, default, active, self._numbered)


@dataclass(frozen=True, slots=True)
class LaunchKnob(KnobDef[C]):
    """One of each launch: ``num_warps``; that of the second launch is ``num_warps@1``."""

    @property
    def pattern(self) -> str:
        """The name of the knob in the first launch."""
        return self.word

    def matches(self, name: str) -> bool:
        """Whether ``name`` is this knob's, of any launch."""
        return name.partition("@")[0] == self.word

    def name(self, ir: KernelIR) -> str:
        """The knob's name in the launch of ``ir``."""
        return suffixed(ir, self.word)

    def symbol(self, ir: KernelIR) -> Expr:
        """The symbol of the knob's choice in Exprs."""
        return Expr.sym(self.name(ir))

    def of(self, ir: KernelIR, active: Expr = TRUE, choices: tuple[C, ...] = ()) -> Knob:
        """The knob of a region. Of choices that each kernel has for itself the first is the default."""
        default = self.default if self.choices else choices[0]
        site = "launch" if self.role == "launch" else "grid"
        return self._bound(self.name(ir), site, active, choices or self.choices, default)

    def chosen(self, config: Config, ir: KernelIR) -> C:
        """The choice for a region; the default where the region has no such knob."""
        return self.read(config.get(self.name(ir), self.default))


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteKnob(KnobDef[C]):
    """One of each site of a kind, which the names begin with."""

    kind: str = ""

    @property
    def pattern(self) -> str:
        """The names of such knobs, with the site's left open."""
        return f"{self.kind}:<{self.kind}>.{self.word}"

    def matches(self, name: str) -> bool:
        """Whether ``name`` is of a site of this kind and ends in this knob's word."""
        return name.startswith(f"{self.kind}:") and name.rpartition(".")[2] == self.word

    def name(self, site: str) -> str:
        """The knob's name at ``site``."""
        return f"{site}.{self.word}"

    def symbol(self, site: str) -> Expr:
        """The symbol of the knob's choice in Exprs."""
        return Expr.sym(self.name(site))

    def at(self, site: str, active: Expr = TRUE, choices: tuple[C, ...] = ()) -> Knob:
        """The knob of a site."""
        return self._bound(self.name(site), site, active, choices or self.choices, self.default)

    def chosen(self, config: Config, site: str) -> C:
        """The choice for a site; the default where the site has no such knob."""
        return self.read(config.get(self.name(site), self.default))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopKnob(SiteKnob[C]):
    """One of each loop: ``loop:tile_k.unroll``."""

    role: Role = "loop"
    kind: str = "loop"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadKnob(SiteKnob[C]):
    """One of each load: ``load:x#0.eviction``."""

    role: Role = "access"
    kind: str = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKnob(SiteKnob[C]):
    """One of each store: ``store:out#0.subtile``."""

    role: Role = "access"
    kind: str = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicKnob(SiteKnob[C]):
    """One of each atomic: ``atomic:counts#0.histogram``."""

    role: Role = "loop"
    kind: str = "atomic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductKnob(SiteKnob[C]):
    """One of each product, whose site has no kind in its own name: ``product:dot#0.transposed``."""

    role: Role = "loop"
    kind: str = "product"

    def name(self, site: str) -> str:
        """The knob's name at ``site``, with the kind in front."""
        return f"{self.kind}:{site}.{self.word}"


@dataclass(frozen=True, slots=True)
class SizeKnob(KnobDef[C]):
    """One whose name is a symbol of sizes in the kernel, which says what its choices are: ``block:tile_m``."""

    @property
    def pattern(self) -> str:
        """The names of such knobs, with the size's left open."""
        return f"{self.word}:<name>"

    def matches(self, name: str) -> bool:
        """Whether ``name`` begins with this knob's word."""
        return name.startswith(f"{self.word}:")

    def symbol_of(self, name: str) -> str:
        """The symbol of what the author calls ``name``."""
        return f"{self.word}:{name}"

    def own_name(self, symbol: str) -> str:
        """What the author calls it."""
        return symbol.removeprefix(f"{self.word}:")

    def named(self, name: str, choices: tuple[Choice, ...], default: Choice) -> Knob:
        """The knob of a symbol."""
        if not self.matches(name):
            raise ConfigError(f"the name of such a knob begins with {self.word}:", got=repr(name))
        return self._bound(name, name, TRUE, choices, default)


def _listed(choices: tuple[Choice, ...]) -> str:
    """``1, 2, 4`` or ``1, 2 ... 32``; "none" for the empty word, and words for bools."""
    words = [_word(choice) for choice in choices]
    return f"{words[0]}, {words[1]} ... {words[-1]}" if len(words) > _MOST_LISTED else ", ".join(words)


def _word(choice: Choice) -> str:
    return ("yes" if choice else "no") if isinstance(choice, bool) else str(choice) or "none"
