"""Key invariants: variables whose metadata is the same in every call with one key.

A launch checks its guards against what it captured, for host code may do anything between the call and the launch.
Where host code only reads shapes and allocates, calls with equal keys come to their launches with equal metadata, so
that guards which held once hold again. ``tileflow.frontend.infer_invariants`` finds out.
"""

from __future__ import annotations

from ..expr import Expr
from ..lazy_dataclass import dataclass
from .paths import Path, Symbol

# torch's settings that a kernel can see besides its arguments; :mod:`.ambient` reads them
DEFAULT_DTYPE = "default_dtype"
AUTOCAST = "autocast"
DETERMINISTIC = "deterministic"
FLOAT32_PRECISION = "float32_precision"
# what host code may see that calls what nobody knows; the default device is no part of it, for launches check devices
OF_ANY_HOST_CODE = frozenset({DEFAULT_DTYPE, AUTOCAST, DETERMINISTIC})


@dataclass(frozen=True, slots=True)
class DeviceReads:
    """``names``: the free names that device code of a kernel reads; ``attributes``: those it asks for, of anything.

    ``handed``: free names of host code that hold, or lead to, what it may hand to device code.
    """

    names: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    handed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KeyInvariants:
    """The key invariants of one region. ``arguments``: parameters that reach it as they were passed. ``made``: other
    variables that are functions of the key: numbers, and tensors but for their memory. ``bounds``: whether its tile
    loop's are, too. ``names``: all variables that have a value there, whatever it is. ``fresh``: tensors that host code
    allocated in this very call, which nothing else has seen."""

    arguments: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()
    bounds: bool = False
    names: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()

    def holds(self, path: Path) -> bool:
        """Whether the metadata of the tensor at ``path`` is the same in every call; of a view as of its base."""
        is_own = not path.steps or path.steps[0][0] == "view"
        return is_own and (path.root in self.arguments or path.root in self.made)

    def decides(self, condition: Expr) -> bool:
        """Whether the condition, over launch symbols, comes out the same in every call with the key."""
        return all(map(self._is_fixed, map(Symbol.parse, condition.symbols())))

    def chooses(self, guards: Expr) -> bool:
        """Whether a variant with these guards accepts all calls with the key or none: fresh memory of torch's is
        aligned."""
        return all(self._is_fixed(s) or self._is_fresh(s) for s in map(Symbol.parse, guards.symbols()))

    def _is_fresh(self, symbol: Symbol) -> bool:
        own = symbol.path is not None and not symbol.path.steps and self.holds(symbol.path)
        return symbol.field == "align" and own

    def _is_fixed(self, symbol: Symbol) -> bool:
        if symbol.path is None:
            return self.bounds
        match symbol.field:
            case "align":
                return not symbol.path.steps and symbol.path.root in self.arguments
            case "digest":
                return self.holds(symbol.path)
            case "value":
                return not symbol.path.steps and symbol.path.root in self.made
            case "apart" | "in_step":  # of memory no key tells
                return False
        return self.holds(symbol.path)
