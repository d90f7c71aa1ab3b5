"""Each row of the table of pointwise derivatives against torch's autograd."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tileflow.derive.rules import NONE, POINTWISE_RULES
from tileflow.ir.ops import POINTWISE

# what a function is defined for, where that is not every number
DOMAINS = {"log": (0.1, 9.0), "log2": (0.1, 9.0), "log1p": (-0.9, 9.0), "sqrt": (0.1, 9.0), "rsqrt": (0.1, 9.0)}
# torch has no derivative of a remainder for its divisor: it is that of x - floor(x / y) * y
BY_HAND = {
    ("remainder", 1): lambda x, y: -torch.floor(x / y),
    ("remainder_by_power", 1): lambda x, y: -torch.floor(x / y),
    ("fmod", 1): lambda x, y: -torch.trunc(x / y),
}
STEPS = ("floordiv", "truncdiv")  # torch has no derivative of the first: it is 0, as of the second
SPECIAL = [0.0, 1.0, -1.0, 2.0, -0.5, 3.0]


def ours(fn: str, operands: list[torch.Tensor], grad: torch.Tensor) -> list[torch.Tensor | None]:
    """The gradients as the rule's text computes them."""
    names = [f"x{i}" for i in range(len(operands))]
    out = POINTWISE[fn].evaluate(*operands)
    scope = {"torch": torch, "g": grad, "out": out, **dict(zip(names, operands, strict=True))}
    texts = [rule.format(*names, g="g", out="out") for rule in POINTWISE_RULES[fn]]
    return [None if text == NONE else eval(text, dict(scope)) for text in texts]


def check(fn: str, operands: list[torch.Tensor]) -> None:
    given = [x if x.dtype == torch.bool else x.clone().requires_grad_() for x in operands]
    out = POINTWISE[fn].evaluate(*(x.detach() for x in given) if fn in STEPS else given)
    grad = torch.linspace(-2, 3, out.numel(), dtype=out.dtype).reshape(out.shape)
    leaves = [x for x in given if x.requires_grad]
    theirs = iter(torch.autograd.grad(out, leaves, grad, allow_unused=True, materialize_grads=True)
                  if out.requires_grad else [torch.zeros_like(x) for x in leaves])  # fmt: skip
    for n, (operand, got) in enumerate(zip(given, ours(fn, operands, grad), strict=True)):
        wanted = next(theirs) if operand.requires_grad else None
        if (fn, n) in BY_HAND:
            wanted = grad * BY_HAND[fn, n](*operands)
        if wanted is None:
            assert got is None
        else:
            torch.testing.assert_close(torch.zeros_like(operand) if got is None else got, wanted, equal_nan=True)


def arity(fn: str) -> int:
    return len(POINTWISE_RULES[fn])


def domain(fn: str) -> tuple[float, float]:
    return DOMAINS.get(fn, (-4.0, 4.0))


def test_each_differentiable_function_has_a_rule() -> None:
    steps = {fn for fn, row in POINTWISE.items() if row.boolean or row.int_only}
    assert POINTWISE_RULES.keys() == POINTWISE.keys() - steps


@pytest.mark.parametrize("fn", POINTWISE_RULES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_rule_is_torchs(fn: str, data: st.DataObject) -> None:
    low, high = domain(fn)
    number = st.floats(low, high, allow_nan=False).map(lambda x: round(x, 3))
    rows = data.draw(st.lists(st.tuples(*[number] * arity(fn)), min_size=1, max_size=6))
    operands = [torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True)]
    if fn == "where":
        operands[0] = operands[0] > 0
    if fn == "pow":
        operands[0] = operands[0].abs()
    if fn in ("div", "floordiv", "truncdiv", "remainder", "remainder_by_power", "fmod", "reciprocal"):
        operands[-1] = torch.where(operands[-1].abs() < 0.1, 1.5, operands[-1])
    check(fn, operands)


@pytest.mark.parametrize("fn", ["relu", "abs", "sign", "maximum", "minimum", "pow", "round", "floor"])
def test_kinks_are_torchs(fn: str) -> None:
    """0 at relu's and abs', half to each of two equal ones; powers of 0 and by 0."""
    a = torch.tensor(SPECIAL, dtype=torch.float64)
    if arity(fn) == 1:
        check(fn, [a])
        return
    first, second = (x.reshape(-1) for x in torch.meshgrid(a, a, indexing="ij"))
    check(fn, [first.abs(), second] if fn == "pow" else [first, second])
