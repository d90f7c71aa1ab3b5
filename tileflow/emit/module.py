"""What stands beside a kernel in its module: imports, constants, helper functions."""

from __future__ import annotations

# a constant, and its text: whether the kernel runs in Triton's interpreter
INTERPRETED = "INTERPRETED", "tl.constexpr(triton.knobs.runtime.interpret)"


class ModuleText:
    """Grows while a kernel's lines are written."""

    def __init__(self) -> None:
        self._imports: dict[str, None] = {}
        self._constants: dict[str, str] = {}
        self._helpers: dict[str, str] = {}

    def imports(self, line: str) -> None:
        """A line of imports that the module needs besides the family's own."""
        self._imports[line] = None

    def constant(self, name: str, text: str) -> str:
        """A constant of the module; its name."""
        self._constants[name] = text
        return name

    def helper(self, name: str, text: str) -> str:
        """A function beside the kernel, ``text`` being what follows its name; equal ones are one. Its name."""
        if text not in self._helpers:
            taken = self._helpers.values()
            self._helpers[text] = name if name not in taken else f"{name}{len(taken)}"
        return self._helpers[text]

    @property
    def names(self) -> frozenset[str]:
        """The names of the constants and the helpers."""
        return frozenset(self._constants) | frozenset(self._helpers.values())

    def text(self, header: str, decorator: str) -> str:
        """All of it, after the family's own imports ``header``; ``decorator``: of each helper."""
        imports = "".join(f"{line}\n" for line in self._imports)
        constants = "".join(f"\n{name} = {text}\n" for name, text in self._constants.items())
        helpers = "".join(f"\n\n{decorator}\ndef {helper}{text}" for text, helper in self._helpers.items())
        return f"{header}{imports}{constants}{helpers}"
