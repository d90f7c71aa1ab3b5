"""Generated programs mean in functional form what they meant: loops, branches, early exits, unbound names."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tile_testing.plain_rewrites import Plain, Twice, define, helper, outcome

from tileflow.errors import SplitError
from tileflow.frontend.rewrite import rewrite_function

NAMES = ("a", "b", "c", "d")


class Programs:
    """Draws the text of a function of ``a`` and ``b``; ``c`` and ``d`` may be read before they are bound."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.fresh = 0

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def name(self, scope: tuple[str, ...]) -> str:
        return str(self.pick(*NAMES, *scope))

    def expression(self, scope: tuple[str, ...], depth: int = 2) -> str:
        if depth == 0 or self.draw(st.integers(0, 3)) == 0:
            return self.name(scope) if self.draw(st.booleans()) else str(self.draw(st.integers(-2, 5)))
        e = [self.expression(scope, depth - 1) for _ in range(3)]
        return str(
            self.pick(
                f"({e[0]} + {e[1]})",
                f"({e[0]} * {e[1]} % 7)",
                f"({e[0]} - {e[1]})",
                f"({e[0]} if {e[1]} else {e[2]})",
                f"({e[0]} and {e[1]})",
                f"({e[0]} or {e[1]} or {e[2]})",
                f"(not {e[0]})",
                f"({e[0]} < {e[1]} <= {e[2]})",
                f"h({e[0]}, k={e[1]})",
                f"(lambda q: q + {e[0]})({e[1]})",
                f"sum([q + {e[0]} for q in range(3) if q != {e[1]}])",
            )
        )

    def block(self, scope: tuple[str, ...], depth: int, loop: bool, indent: str) -> list[str]:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, 4))):
            lines += self.statement(scope, depth, loop, indent)
        return lines

    def statement(self, scope: tuple[str, ...], depth: int, loop: bool, indent: str) -> list[str]:
        e = self.expression(scope)
        deeper = indent + "    "
        kinds = ["assign", "assign", "augment", "log", "pair"]
        kinds += ["if", "if", "for", "for", "while", "return"] if depth else []
        kinds += ["break", "continue"] if loop else []
        match self.pick(*kinds):
            case "assign":
                return [f"{indent}{self.pick(*NAMES)} = {e}"]
            case "pair":
                return [f"{indent}{self.pick(*NAMES)}, {self.pick(*NAMES)} = {e}, {self.expression(scope)}"]
            case "augment":
                return [f"{indent}{self.pick(*NAMES)} {self.pick('+=', '-=')} {e}"]
            case "log":
                return [f"{indent}log({e})"]
            case "if":
                lines = [f"{indent}if {e}:", *self.block(scope, depth - 1, loop, deeper)]
                if self.draw(st.booleans()):
                    lines += [f"{indent}else:", *self.block(scope, depth - 1, loop, deeper)]
                return lines
            case "for":
                self.fresh += 1
                i = f"i{self.fresh}"
                head = self.pick(f"for {i} in range(3):", f"for {i}, {self.pick('c', 'j')} in enumerate(range(2, 5)):")
                lines = [indent + head, *self.block((*scope, i), depth - 1, True, deeper)]
                if self.draw(st.integers(0, 4)) == 0:
                    lines += [f"{indent}else:", *self.block(scope, depth - 1, loop, deeper)]
                return lines
            case "while":
                self.fresh += 1
                w = f"w{self.fresh}"
                start = [f"{indent}{w} = 0", f"{indent}while {w} < 3 and ({e}):", f"{deeper}{w} += 1"]
                return [*start, *self.block((*scope, w), depth - 1, True, deeper)]
            case "return":
                return [f"{indent}if {e}:", f"{deeper}return {self.expression(scope)}"]
            case exit:
                if self.draw(st.booleans()):
                    return [f"{indent}if {e}:", f"{deeper}{exit}"]
                return [f"{indent}{exit}"]


@st.composite
def programs(draw: Any) -> str:
    body = Programs(draw).block((), 3, False, "    ")
    return "\n".join(["def f(a, b, log):", *body, "    return a, b, c, d"]) + "\n"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.tuples(st.integers(-2, 4), st.integers(-2, 4)))
def test_generated_programs_keep_their_meaning(text: str, args: tuple[int, int]) -> None:
    f = define(text, "<generated>", h=helper)
    try:
        rewritten = rewrite_function(f)
    except SplitError as error:
        assert "has no value after its loop" in error.constraint
        return
    logs: tuple[list[Any], list[Any]] = ([], [])
    assert outcome(rewritten, Plain(), *args, logs[1].append) == outcome(f, *args, logs[0].append)
    assert logs[0] == logs[1]
    assert outcome(rewritten, Twice(), *args, logs[1].append) == outcome(f, *args, logs[0].append)
