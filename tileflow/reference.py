"""The language's reference page, made from the tables that the compiler itself reads.

``python -m tileflow.reference > docs/reference/language.md`` writes it; a test fails where the page is another. The
guide, docs/guides/kernels.md, says what the rules mean.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import language
from .compat.helion import language as helion
from .compat.helion.names import ADAPTED, RENAMED, SAME
from .emit.dtypes import compute_dtype
from .frontend.language_registry import PYTHON
from .frontend.operations import FAMILIES
from .frontend.torch_aliases import REMEDIES
from .frontend.torch_registry import FACTORIES, METHODS
from .ir.types import FLOAT_BITS, INT_BITS
from .language.atomics import DTYPES

_HEAD = """\
# Language reference

Made by `python -m tileflow.reference > docs/reference/language.md` from the tables that the compiler reads. How kernels
are written, and what the rules mean, is in [the guide](../guides/kernels.md)."""


def page() -> str:
    """The page's text."""
    return "\n\n".join((_HEAD, *_functions(), *_torch(), *_dtypes(), *_python(), *_refused(), *_helion())) + "\n"


# ---- tileflow.language --------------------------------------------------------------------------


def _functions() -> Iterator[str]:
    yield "## tileflow.language"
    modules = dict.fromkeys(_home(name) for name in language.__all__)
    for module in sorted(modules):
        own = [name for name in language.__all__ if _home(name) == module]
        yield _first_sentence(importlib.import_module(module))
        yield _table(("name", "what it is"), [(_called(n), _first_sentence(getattr(language, n))) for n in own])


def _home(name: str) -> str:
    return str(getattr(language, name).__module__)


def _called(name: str) -> str:
    found = getattr(language, name)
    return f"`tfl.{name}`" if isinstance(found, type) else f"`tfl.{name}{_signature(found)}`"


def _signature(function: Callable[..., Any]) -> str:
    """Parameters by their names and defaults, without their types."""
    empty = inspect.Parameter.empty
    own = inspect.signature(function)
    bare = [
        p.replace(annotation=empty, default=_Text(p.default) if p.default is not empty else empty)
        for p in own.parameters.values()
    ]
    return str(own.replace(parameters=bare, return_annotation=empty))


class _Text:
    """A default as it is written: ``repr`` of an object may hold its address."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return re.sub(r" at 0x[0-9a-f]+", "", repr(self.value))


def _first_sentence(documented: object) -> str:
    """The first sentence of a docstring, its code in single quotes of Markdown."""
    paragraph = (inspect.getdoc(documented) or "").split("\n\n")[0].replace("\n", " ")
    (sentence,) = re.findall(r"^.*?[.](?= [A-Z`])|^.*$", paragraph)[:1]
    return re.sub(r":\w+:`~?(.*?)`", r"`\1`", sentence).replace("``", "`").rstrip(".") + "."


# ---- torch --------------------------------------------------------------------------------------


def _torch() -> Iterator[str]:
    yield "## torch"
    yield (
        "Functions of `torch`, `torch.nn.functional`, `torch.special` and `torch.linalg`, methods of tensors, and\n"
        "operators, by these names:"
    )
    for family in FAMILIES:
        names = sorted(name for name, handler in METHODS.items() if handler.__module__ == family.__name__)
        if names:
            yield f"**{family.__name__.rpartition('.')[2]}** {_first_sentence(family)}"
            yield _names(names)
    yield "**made of sizes** Functions of `torch` that take no tile."
    yield _names(sorted(f"torch.{function.__name__}" for function in FACTORIES))


# ---- dtypes, Python, refusals -------------------------------------------------------------------


def _dtypes() -> Iterator[str]:
    yield "## Dtypes"
    bits = FLOAT_BITS | INT_BITS
    atomics = {dtype: [fn for fn, own in DTYPES.items() if dtype in own] for dtype in bits}
    rows = [(f"`{d}`", str(n), f"`{compute_dtype(d)}`", ", ".join(atomics[d])) for d, n in bits.items()]
    yield _table(("dtype", "bits", "computed and held in registers as", "atomics"), rows)


def _python() -> Iterator[str]:
    yield "## Python's own functions of tiles and scalars"
    yield _names(sorted(_python_name(function) for function in PYTHON))


def _python_name(function: Any) -> str:
    return f"math.{function.__name__}" if function.__module__ == "math" else str(function.__name__)


def _refused() -> Iterator[str]:
    yield "## What tiles do not have"
    yield "Each of these is refused with what to write. Whatever else is missing is refused with what is near it."
    yield _table(("torch", "write"), _hints(REMEDIES))


def _hints(table: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"`{name}`", hint) for name, hint in sorted(table.items())]


# ---- helion -------------------------------------------------------------------------------------


def _helion() -> Iterator[str]:
    yield "## tileflow.compat.helion.language"
    yield "The same functions as above, for kernels in that dialect ([its guide](../guides/helion.md)):"
    yield _names(name for name in SAME if name not in helion.missing())
    yield "With other arguments:"
    adapted = [(name, getattr(helion, name)) for name in sorted((*RENAMED, *ADAPTED))]
    yield _names(f"{name}{'' if isinstance(found, type) else _signature(found)}" for name, found in adapted)
    yield "Refused:"
    yield _table(("name", "write"), _hints(helion.REFUSED))


# ---- Markdown -----------------------------------------------------------------------------------


def _names(names: Iterable[str]) -> str:
    """Names in code, in lines that fit."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) + 3 > 120:
            lines.append("")
        lines[-1] += f" `{name}`" if lines[-1] else f"`{name}`"
    return "\n".join(lines)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = ([cell.replace("|", "\\|") for cell in line] for line in (head, ("---",) * len(head), *rows))
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


if __name__ == "__main__":
    print(page(), end="")
