"""What device code may not do with tiles and captured tensors, and what to write instead: the errors, without a place.

They are those of what is traced (:mod:`.values`) and of plain Python over tiles (:mod:`.plain_python`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import MissingAttribute, TraceError, UnsupportedOp
from ..language.rules import (
    BLOCK_CHANGED,
    IMPLEMENTED,
    PART_CHANGED,
    instead_of_changing_a_block,
    instead_of_changing_a_part,
)
from .torch_aliases import instead_of
from .torch_registry import nearest, spelled

READ_BY_INDEX = "a captured tensor is read in a tile loop by indexing it"
_IN_HOST_CODE = frozenset({"H", "view_as", "contiguous"})  # what it takes of a tensor, and device code does not
_CHOICE = "use torch.where for a choice per element, or decide from sizes in host code"
NO_NUMBER: Mapping[str, str] = {
    "truth value": f"{_CHOICE}; in place of `x in (2, 3)`: (x == 2) | (x == 3)",
    "int": _CHOICE,
    "float": _CHOICE,
    "iteration": "reduce it: x.sum(0), x.amax(0); rows of a constant number: x.unbind(0); a tuple of one: (x,)",
    "length": "x.size(0) is how many rows it has",
}


def of_captured(name: str, path: str) -> MissingAttribute:
    """Of an attribute of the captured tensor at ``path`` that asks for its elements, as ``x.sum`` does."""
    if name.endswith("_") and not name.endswith("__"):
        return MissingAttribute(
            "device code changes a captured tensor by storing into it",
            got=f"{path}.{name}",
            hint=instead_of(name, path) or "x[tile] = value; a module that counts its calls: module.eval()",
        )
    load = f"load a tile first: {path}[...].{name}"
    if name in _IN_HOST_CODE:
        load = f"take the view before the loop, in host code, under a name; or {load}"
    return MissingAttribute(READ_BY_INDEX, got=f"{path}.{name}", hint=instead_of(name, path) or load)


def of_a_part(what: str) -> TraceError:
    """Of an operator that assigns, which in torch would change the tensor that a name is a part of."""
    return TraceError(PART_CHANGED, got=what, hint=instead_of_changing_a_part(what))


def of_a_block(name: str, path: str) -> TraceError:
    """Of a method in place of a name that has in registers what torch has a view of."""
    return TraceError(BLOCK_CHANGED, got=f".{name} of {path}[...]", hint=instead_of_changing_a_block(name))


def as_operand(text: str, path: str) -> TraceError:
    """Of a captured tensor that a function or an operator is given whole. ``text``: what it is."""
    return TraceError(READ_BY_INDEX, got=text, hint=f"load a tile first: {path}[...]")


def text_of(path: str, dtype: str, sizes: object) -> str:
    """What a captured tensor is, in an error."""
    return f"tensor {path}: {dtype}[{sizes}]"


def of_a_tile(name: str) -> MissingAttribute:
    """Of a method that a tile does not have."""
    return MissingAttribute(IMPLEMENTED, got=f".{name}", hint=nearest(name))


def not_a_number(what: str, type_: object, hint: str = "") -> TraceError:
    """Of a tile where Python asks for a number that it is not. ``what``: see :data:`NO_NUMBER`."""
    return TraceError(
        f"a tile has no Python {what} while the kernel is compiled",
        got=f"a tile of type {type_}",
        hint=hint + NO_NUMBER[what],
    )


def not_implemented(name: str) -> UnsupportedOp:
    """Of a function of torch's, by torch's own name for it, that device code does not have."""
    family, name = spelled(name)
    return UnsupportedOp(
        "a torch function in a tile loop must be one that tileflow implements",
        got=f"torch.{family}{name}",
        hint=nearest(name),
    )


def makes_a_tensor(name: str) -> TraceError:
    """Of a function of torch's that makes a tensor of no tile."""
    return TraceError(
        "device code makes tiles, of sizes and numbers",
        got=f"torch.{name}, which makes a tensor",
        hint="compute it from tfl.arange(n), or make the tensor in host code and index it",
    )
