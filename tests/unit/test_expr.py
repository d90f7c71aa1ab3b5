"""Expr: whatever form it is kept in, printed in or stored in, its value is that of the arithmetic it was built from."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileflow.expr import FALSE, TRUE, Expr, all_of, any_of
from tileflow.expr_reader import read_expr

NAMES = ("x.shape.0", "block:m", "n")
Plain = tuple["str | int", ...]  # an uncanonised expression: ("const", 3), ("sym", name) or (op, left[, right])

ints = st.integers(-40, 40)
environments = st.fixed_dictionaries(dict.fromkeys(NAMES, ints))
leaves = st.one_of(st.tuples(st.just("const"), ints), st.tuples(st.just("sym"), st.sampled_from(NAMES)))
POLYNOMIAL = ("add", "sub", "mul")
PARTIAL = ("floordiv", "mod", "cdiv")  # of a non-zero divisor only
OTHERS = ("min", "max", "eq", "ne", "lt", "le", "and", "or")


def trees(ops: tuple[str, ...], unary: tuple[str, ...] = ()) -> st.SearchStrategy[Plain]:
    def extend(inner: st.SearchStrategy[Plain]) -> st.SearchStrategy[Plain]:
        binary = st.tuples(st.sampled_from(ops), inner, inner)
        return st.one_of(binary, st.tuples(st.sampled_from(unary), inner)) if unary else binary

    return st.recursive(leaves, extend, max_leaves=10)


anything = trees(POLYNOMIAL + PARTIAL + OTHERS, ("not", "next_pow2", "neg"))
polynomials = trees(POLYNOMIAL)


def build(tree: Plain) -> Expr:
    match tree:
        case ("const", value):
            return Expr.of(value)
        case ("sym", name):
            return Expr.sym(name)
        case ("neg", a):
            return -build(a)
        case ("not", a):
            return build(a).not_()
        case ("next_pow2", a):
            return build(a).next_pow2()
        case (op, a, b):
            left, right = build(a), build(b)
            if op in PARTIAL:
                right = right * right + 1
            return {
                "add": lambda: left + right,
                "sub": lambda: left - right,
                "mul": lambda: left * right,
                "floordiv": lambda: left // right,
                "mod": lambda: left % right,
                "cdiv": lambda: left.cdiv(right),
                "min": lambda: left.min(right),
                "max": lambda: left.max(right),
                "eq": lambda: left.eq(right),
                "ne": lambda: left.ne(right),
                "lt": lambda: left.lt(right),
                "le": lambda: left.le(right),
                "and": lambda: left.and_(right),
                "or": lambda: left.or_(right),
            }[op]()
    raise AssertionError(tree)


def value(tree: Plain, env: Mapping[str, int]) -> int:
    """The meaning, by Python's own integers."""
    match tree:
        case ("const", number):
            return number
        case ("sym", name):
            return env[name]
        case ("neg", a):
            return -value(a, env)
        case ("not", a):
            return int(value(a, env) == 0)
        case ("next_pow2", a):
            power = 1
            while power < value(a, env):
                power *= 2
            return power
        case (op, a, b):
            left, right = value(a, env), value(b, env)
            if op in PARTIAL:
                right = right * right + 1
            return int(
                {
                    "add": lambda: left + right,
                    "sub": lambda: left - right,
                    "mul": lambda: left * right,
                    "floordiv": lambda: left // right,
                    "mod": lambda: left % right,
                    "cdiv": lambda: (left + right - 1) // right,
                    "min": lambda: min(left, right),
                    "max": lambda: max(left, right),
                    "eq": lambda: left == right,
                    "ne": lambda: left != right,
                    "lt": lambda: left < right,
                    "le": lambda: left <= right,
                    "and": lambda: left != 0 and right != 0,
                    "or": lambda: left != 0 or right != 0,
                }[op]()
            )
    raise AssertionError(tree)


@given(anything, environments)
def test_every_form_has_the_value_of_the_arithmetic(tree: Plain, env: dict[str, int]) -> None:
    expr, expected = build(tree), value(tree, env)
    assert expr.evaluate(env) == expected
    assert expr.symbols() <= env.keys()
    assert read_expr(expr.to_json()) == expr
    assert pickle.loads(pickle.dumps(expr)) == expr
    assert expr.substitute(env) == Expr.of(expected)
    partly = expr.substitute({"n": env["n"]})
    assert "n" not in partly.symbols() and partly.evaluate(env) == expected


@given(anything, environments)
def test_python_text_agrees_with_evaluate(tree: Plain, env: dict[str, int]) -> None:
    expr = build(tree)
    spelled = {name: f"v{i}" for i, name in enumerate(NAMES)}
    text = expr.python(spelled.__getitem__)
    scope = {spelled[name]: number for name, number in env.items()}
    assert eval(text, {"__builtins__": {"min": min, "max": max}}, scope) == expr.evaluate(env)
    assert expr.compiled()(env) == expr.evaluate(env)


@given(polynomials, polynomials, polynomials)
def test_equal_polynomials_are_equal_values(x: Plain, y: Plain, z: Plain) -> None:
    a, b, c = build(x), build(y), build(z)
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a - a == Expr.of(0)
    assert hash((a + b) * c) == hash(c * b + c * a)


@given(polynomials, st.lists(environments, min_size=5, max_size=5))
def test_a_polynomial_known_to_be_constant_is_one(tree: Plain, envs: list[dict[str, int]]) -> None:
    constant = build(tree).constant
    if constant is not None:
        assert {value(tree, env) for env in envs} == {constant}


def test_identities_that_spare_the_masks_hold() -> None:
    n, block = Expr.sym("n"), Expr.sym("block")
    assert n // 1 == n == n.cdiv(1)
    assert n % 1 == Expr.of(0)
    assert n.min(n) == n
    assert n.max(block) == block.max(n)
    assert n.eq(n) == n.le(n) == TRUE
    assert n.lt(n) == n.ne(n) == FALSE


def test_what_a_division_leaves_of_multiples_is_known() -> None:
    """A number of elements is a block's size, however its author counts it."""
    n, block = Expr.sym("n"), Expr.sym("block:b")
    assert (2 * block).cdiv(2) == (2 * block + 1) // 2 == block
    assert (2 * block - 1) // 2 == block - 1 and (2 * block - 1).cdiv(2) == block
    assert (6 * n - 4 * block + 3) // 2 == 3 * n - 2 * block + 1
    assert (4 * n * block + 6) % 4 == Expr.of(2)
    assert (3 * n) // 2 != n and (n // 2) * 2 != n


def test_conjunctions_of_truths_fold_and_of_numbers_are_truths() -> None:
    x = Expr.sym("x")
    positive = Expr.of(0).lt(x)
    assert all_of([]) == TRUE and any_of([]) == FALSE
    assert all_of([positive, 1]) == positive == any_of([0, positive])
    assert all_of([positive, 0]) == FALSE and any_of([positive, 3]) == TRUE
    assert x.and_(1).evaluate({"x": 5}) == 1
    assert x.or_(x).evaluate({"x": 5}) == 1


@pytest.mark.parametrize(("number", "power"), [(-3, 1), (0, 1), (1, 1), (2, 2), (3, 4), (4096, 4096), (4097, 8192)])
def test_next_pow2(number: int, power: int) -> None:
    assert Expr.sym("n").next_pow2().evaluate({"n": number}) == power
    assert Expr.of(number).next_pow2().constant == power


def test_a_missing_symbol_is_named() -> None:
    with pytest.raises(KeyError, match="block:m"):
        (Expr.sym("block:m") + 1).evaluate({"m": 1})


def test_the_json_form_is_stable() -> None:
    """It stands in tables: a change orphans every one of them."""
    m, block = Expr.sym("x.shape.0"), Expr.sym("block:m")
    expr = m.cdiv(block) * 2 + block - 3
    assert expr.to_json() == [
        "sum",
        ["prod", 2, ["cdiv", {"sym": "x.shape.0"}, {"sym": "block:m"}]],
        {"sym": "block:m"},
        -3,
    ]
