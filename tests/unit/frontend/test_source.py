"""Source positions, and the hash of what a function means."""

from __future__ import annotations

import ast
import enum
import functools
import linecache
import math
import types
from collections.abc import Callable
from typing import Any

import pytest

from tileflow.errors import KernelError, Location
from tileflow.frontend.meaning import code_hash, semantic_hash, serialise
from tileflow.frontend.source import function_source, location

GOLDEN = "f433343cf4d72aee4dfb0db7b23bc6f84d05caca5f5cbcd5aa79f81a558c17cf"


def define(text: str, **names: Any) -> Callable[..., Any]:
    """The function ``f`` of a file with this text."""
    file = f"<{abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names["f"]  # type: ignore[no-any-return]


def hash_of(text: str, **names: Any) -> str:
    return semantic_hash(define(text, **names))


# ----------------------------------------------------------------------------------------------- positions


def decorated(fn: Any) -> Any:
    return fn


@decorated
@functools.partial(lambda f, n: f, n=3)
def example(x: int) -> int:
    """A docstring."""
    return x + 1  # é


def test_a_function_keeps_its_place_and_loses_its_decorators() -> None:
    source = function_source(example)
    assert (source.tree.name, source.tree.decorator_list, source.file) == ("example", [], __file__)
    (returned,) = (n for n in ast.walk(source.tree) if isinstance(n, ast.Return))
    where = location(source, returned)
    assert where == Location(__file__, example.__code__.co_firstlineno + 4, 4, "    return x + 1  # é")
    assert where.caret() == "    return x + 1  # é\n    ^"


def test_the_tree_is_a_copy() -> None:
    function_source(example).tree.body.clear()
    assert function_source(example).tree.body


def test_columns_count_characters() -> None:
    f = define('def f(n):\n    return "éé" + n\n')
    source = function_source(f)
    (name,) = (n for n in ast.walk(source.tree) if isinstance(n, ast.Name))
    assert location(source, name).column == 18


# fmt: off
PAIR = (lambda x: x + 1, lambda x: x + 2)
SAME = (lambda x: x, lambda x: x)
NESTED = lambda x: lambda y: x * y  # noqa: E731
SPREAD = [
    lambda x, s=(
        1
    ): x + s, lambda x: (x -
        5),
]
# fmt: on


def test_lambdas_on_one_line_are_told_apart() -> None:
    found = [ast.unparse(function_source(fn).tree.body[0]) for fn in (*PAIR, *SAME, NESTED, NESTED(1), *SPREAD)]  # type: ignore[no-untyped-call]
    assert found == [
        "return x + 1",
        "return x + 2",
        "return x",
        "return x",
        "return lambda y: x * y",
        "return x * y",
        "return x + s",
        "return x - 5",
    ]
    columns = [function_source(fn).tree.col_offset for fn in SAME]
    assert columns[0] < columns[1]


def test_lambdas_without_columns_are_an_error_if_ambiguous() -> None:
    def blind(fn: types.FunctionType) -> types.FunctionType:
        lines = bytes([0x80 | 13 << 3 | 0, 0]) * len(fn.__code__.co_code)  # a table of lines only
        return types.FunctionType(fn.__code__.replace(co_linetable=lines), fn.__globals__)

    assert function_source(blind(NESTED(1).__class__ and define("f = lambda x: x")))  # type: ignore[arg-type]
    with pytest.raises(KernelError, match="recognisable by its position") as caught:
        function_source(blind(PAIR[0]))  # type: ignore[arg-type]
    assert "a line of its own" in str(caught.value)


def test_functions_of_one_name_are_told_apart() -> None:
    def first() -> Any:
        def f() -> int:
            return 1

        return f

    def second() -> Any:
        def f() -> int:
            return 2

        return f

    assert [ast.unparse(function_source(g()).tree.body[0]) for g in (first, second)] == ["return 1", "return 2"]


def test_what_has_no_source_says_so() -> None:
    names: dict[str, Any] = {}
    exec("def f(): return 1\ng = lambda: 2", names)
    for fn in names["f"], names["g"]:
        with pytest.raises(KernelError, match="must be readable") as caught:
            function_source(fn)
        assert caught.value.hint
    with pytest.raises(KernelError, match="plain Python function"):
        function_source(len)


def test_a_file_that_changed_is_noticed() -> None:
    f = define("def f(n):\n    return n\n")
    linecache.cache[f.__code__.co_filename] = (1, None, ["\n", "def f(n): return 3\n"], f.__code__.co_filename)
    with pytest.raises(KernelError, match="must stand in its file"):
        function_source(f)


# ---------------------------------------------------------------------------------------------- the hash

FIXED = '''
SIZES = (1, 2.5, "three", None, True, b"4", 1j, -7, 10**40)

def helper(x, *, scale=0.5):
    return x * scale if x is not None and 0 <= x < 3 else [y for y in (x, *SIZES) if y]

def f(x: int, /, n: "str" = 3, *rest, flag=False, **more) -> float:
    """Documentation."""
    total: float = 0.0
    later: int
    with open(n) as file, file:
        total += math.sqrt(helper(x)) @ x[1:, ::2, None, ...]
    try:
        assert total, f"{total!r:>{n}}" "and" f"{n=}"
    except (ValueError, TypeError) as error:
        raise RuntimeError from error
    else:
        del rest
    while not flag:
        for i, (a, *b) in enumerate(x):
            if (m := i) == 2:
                break
            continue
        else:
            pass
    match x:
        case [1, *_] | None if n:
            pass
        case {"k": 2, **kw}:
            pass
        case int(real=3) as whole:
            return whole
    def inner(q=SIZES):
        nonlocal total
        yield {q: lambda *a, k=1: ~a[0] << k}
    return {**more}, {1, 2}, inner, f
'''


def test_golden() -> None:
    """The same on Python 3.11, 3.12 and 3.13: a change here orphans every table in the world."""
    assert hash_of(FIXED, math=math) == GOLDEN, serialise(define(FIXED, math=math))


BASE = "import math\nK = 2\ndef g(x):\n    return x + K\ndef f(x, n=1):\n    return g(x) * math.pi\n"


@pytest.mark.parametrize(
    "text",
    [
        BASE.replace("K = 2", "\n\nK = 2  # elsewhere"),
        BASE.replace("    return g", '    "doc"\n    return   g'),
        BASE.replace("x + K", "(x +\n        K)"),
        BASE.replace("def f(x, n=1)", "def f(x: int, n: 'int' = 1) -> float"),
        BASE.replace("K = 2", "K = 1 + 1"),
        BASE.replace("    return g", "    y: int\n    pass\n    return g"),
        BASE.replace("def g", "def unrelated(): return 1\ndef g"),
        BASE.replace("K = 2", "D = 1\nK = 2").replace("n=1", "n=D"),
        BASE.replace("def f", "@(lambda fn: fn)\ndef f"),
    ],
)
def test_what_means_the_same_hashes_the_same(text: str) -> None:
    assert hash_of(text) == hash_of(BASE)


@pytest.mark.parametrize(
    "text",
    [
        BASE.replace("K = 2", "K = 3"),
        BASE.replace("K = 2", "K = 2.0"),
        BASE.replace("K = 2", "K = True"),
        BASE.replace("K = 2", "K = '2'"),
        BASE.replace("K = 2", "K = (2,)"),
        BASE.replace("x + K", "x - K"),
        BASE.replace("n=1", "n=2"),
        BASE.replace("(x, n=1)", "(x, *, n=1)"),
        BASE.replace("math.pi", "math.e"),
        BASE.replace("g(x) *", "g(x) if n else"),
        BASE.replace("import math", "import cmath as math"),
        BASE.replace("return g", "x = 0\n    return g"),
    ],
)
def test_what_means_another_thing_hashes_differently(text: str) -> None:
    assert hash_of(text) != hash_of(BASE)


def test_closures_cells_and_modules_of_the_user_are_followed() -> None:
    def make(scale: float, fn: Any) -> Callable[..., Any]:
        return lambda x: fn(x) * scale

    hashes = {semantic_hash(make(s, fn)) for s in (1, 2) for fn in (PAIR[0], PAIR[1], math.sqrt, math.exp)}
    assert len(hashes) == 8
    assert semantic_hash(make(1, PAIR[0])) == semantic_hash(make(1, PAIR[0]))

    user = types.ModuleType("user_module")
    text = "def f(x):\n    return user.sub.act(x) + user.EPS\n"
    user.sub, user.EPS = types.ModuleType("user_module.sub"), 1e-5  # type: ignore[attr-defined]
    user.sub.act = PAIR[0]  # type: ignore[attr-defined]
    one = hash_of(text, user=user)
    user.sub.act = PAIR[1]  # type: ignore[attr-defined]
    two = hash_of(text, user=user)
    user.EPS = 1e-6  # type: ignore[attr-defined]
    assert len({one, two, hash_of(text, user=user)}) == 3


class Mode(enum.IntEnum):
    FAST = 1
    SAFE = 2


def test_values_of_every_kind_are_told_apart() -> None:
    cached = functools.lru_cache(PAIR[0])
    values: list[Any] = [0, -1, 0.0, -0.0, math.nan, "", b"", None, ..., (), [], {}, frozenset(), {1: 2}, {2: 1}]
    values += [Mode.FAST, Mode.SAFE, int, Mode, len, math, str.join, PAIR[0], PAIR[1], functools.partial(pow, 2)]
    values += [functools.partial(pow, 3), functools.partial(PAIR[0], x=3), [1].append, object()]
    hashes = [hash_of("def f():\n    return v\n", v=v) for v in values]
    assert len(set(hashes)) == len(values)
    assert hash_of("def f():\n    return v\n", v=cached) == hash_of("def f():\n    return v\n", v=PAIR[0])
    assert hash_of("def f():\n    return v\n", v={1: 2, 3: 4}) == hash_of("def f():\n    return v\n", v={3: 4, 1: 2})


def test_recursive_values_and_functions_end() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert hash_of("def f():\n    return v, f, g\ndef g():\n    return f\n", v=loop)


def test_torch_dtypes_count_and_tensors_do_not() -> None:
    torch = pytest.importorskip("torch")
    text = "def f(x):\n    return x.to(v)\n"
    assert hash_of(text, v=torch.float16) != hash_of(text, v=torch.bfloat16)
    tensors = [torch.zeros(3), torch.ones(2, dtype=torch.int8), torch.nn.Parameter(torch.ones(1))]
    assert len({hash_of(text, v=t) for t in tensors}) == 1


def test_callables_as_arguments() -> None:
    torch = pytest.importorskip("torch")

    def epilogue(scale: float, bias: Any) -> Callable[..., Any]:
        return lambda x: x * scale + bias

    one, other = torch.ones(3), torch.zeros(4)
    assert code_hash(epilogue(2.0, one)) == code_hash(epilogue(2.0, other))
    assert code_hash(epilogue(2.0, one)) != code_hash(epilogue(3.0, one))
    assert code_hash(torch.relu) != code_hash(torch.sigmoid)
    assert code_hash(functools.partial(torch.add, alpha=2)) != code_hash(functools.partial(torch.add, alpha=3))
    assert code_hash(torch.nn.functional.gelu) != code_hash(torch.nn.functional.silu)


def test_a_reachable_function_without_source_is_an_error() -> None:
    names: dict[str, Any] = {}
    exec("def hidden(): return 1", names)
    with pytest.raises(KernelError, match="must be readable"):
        hash_of("def f():\n    return hidden()\n", hidden=names["hidden"])
