"""Small kernels, each for one cause, and what torch computes: runs under the ``PYTHONPATH`` of whatever version.

    python -P cases.py RESULT

Each case is run in a process of its own (a fault is one of its outcomes) and in both meanings that need no GPU: as
Python over tiles, and as Triton text in Triton's interpreter. Mistakes are looked for where a kernel is lowered.
It imports nothing of :mod:`tileflow_benchmarks`, and of ``tileflow`` only what versions since 1d0fe62 have.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import json
import math
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.errors import TileflowError
from tileflow.target import target

SECONDS = 60
MEANINGS = ("eager", "interpreter")
CASES: list[tuple[str, str, bool, Callable[[], Any]]] = []  # finding, cause, whether it is a mistake, what runs
_meaning = ""


def case(finding: str, cause: str, *, mistake: bool = False) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a case: a function that returns what was got and what is wanted. A ``mistake`` is right where it is
    refused."""

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        CASES.append((finding, cause, mistake, function))
        return function

    return register


def run(function: Callable[..., Any], *args: Any) -> Any:
    """Call ``function`` as a kernel, in the meaning that is tried."""
    kernel: Any = function if hasattr(function, "run_eagerly") else tileflow.kernel(function)
    if _meaning == "eager":
        return kernel.run_eagerly(*args)
    lowered = kernel.lower(args, target("nvidia-h200"))
    return kernel.compile(lowered, lowered.default, "cpu")(*args)


def rows(change: Callable[[Any], Any], x: torch.Tensor, *others: torch.Tensor) -> Any:
    """Run ``change`` over the rows of ``x``."""

    def kernel(x, *others):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = change(x[tile, :])
        return out

    return run(kernel, x)


def each(change: Callable[..., Any], x: torch.Tensor) -> tuple[Any, Any]:
    """What ``change`` gives of the elements of ``x`` in a kernel, and in torch."""
    wanted = change(x)

    def kernel(x):
        out = torch.empty(x.shape, dtype=wanted.dtype)
        for tile in tfl.tile(x.size(0)):
            out[tile] = change(x[tile])
        return out

    return run(kernel, x), wanted


# ---- 1: what torch's implicit dim means -------------------------------------------------------------------------

for _name in ("softmax", "softmin", "log_softmax"):

    @case("1", f"`F.{_name}` of rows without `dim`, where torch's is 1")
    def _(name: str = _name) -> Any:
        x = torch.randn(4, 40)
        return rows(lambda v: getattr(F, name)(v), x), getattr(F, name)(x, 1)

    @case("1", f"`F.{_name}` of a tile without `dim`, where torch's is the tile's", mistake=True)
    def _(name: str = _name) -> Any:
        return each(lambda v: getattr(F, name)(v), torch.randn(40))


@case("1", "`x.sum()` of a tile: the block size decides", mistake=True)
def _() -> Any:
    def kernel(x):
        out = x.new_zeros(1)
        for tile in tfl.tile(x.size(0)):
            out[0] = x[tile, :].sum()
        return out

    return run(kernel, torch.randn(100, 8)), None


# ---- 2: views, sizes of 1 and of 0 ------------------------------------------------------------------------------


@case("2", "a store through one view, a load through the other")
def _() -> Any:
    def kernel(x):
        t, n = x.shape
        alias, out = x.view(t, n), torch.empty_like(x)
        for tile in tfl.tile(n):
            for i in tfl.grid(t):
                x[i, tile] = x[i, tile] + 1
                out[i, tile] = alias[i, tile]
        return out

    x = torch.randn(5, 40)
    return run(kernel, x.clone()), x + 1


@case("2", "a dimension of size 1 that is indexed as one of another size")
def _() -> Any:
    def kernel(x, mask):
        out = torch.empty_like(x)
        for b, h, tile in tfl.tile(x.shape, block_size=[1, 1, None]):
            out[b.begin, h.begin, tile] = x[b.begin, h.begin, tile] * mask[b.begin, h.begin, tile]
        return out

    x, mask = torch.randn(3, 2, 20), torch.randn(1, 1, 20)
    return run(kernel, x, mask), x * mask


@case("2", "a dimension of size 1 under a tile")
def _() -> Any:
    def kernel(x, y):
        out = torch.empty_like(x)
        for m, n in tfl.tile(x.shape):
            out[m, n] = x[m, n] + y[m, n]
        return out

    x, y = torch.randn(20, 40), torch.randn(1, 40)
    return run(kernel, x, y), x + y


@case("2", "a sum over no elements")
def _() -> Any:
    def kernel(x):
        out = x.new_empty(x.size(0))
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile, :].sum(1)
        return out

    return run(kernel, torch.randn(5, 0)), torch.zeros(5)


@case("2", "an extremum over no elements", mistake=True)
def _() -> Any:
    def kernel(x):
        out = x.new_empty(x.size(0))
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile, :].amax(1)
        return out

    return run(kernel, torch.randn(5, 0)), None


# ---- 3: what is read again at each call --------------------------------------------------------------------------

FLAG = True


def _helper(v: Any) -> Any:
    return v + 1


def _tells_apart(kernel: Any, x: torch.Tensor, change: Callable[[], Any], back: Callable[[], Any]) -> Any:
    """Whether a call has another key, or another code, after ``change``; what a GPU would run follows from these."""
    before = kernel.lower((x,), target("nvidia-h200"))
    texts = [[s.text for s in before.emit(before.default)]]
    keys = [(kernel.describe(x).key, kernel.semantic_hash)]
    change()
    try:
        keys.append((kernel.describe(x).key, kernel.semantic_hash))
        after = kernel.lower((x,), target("nvidia-h200"))
        texts.append([s.text for s in after.emit(after.default)])
    finally:
        back()
    return torch.tensor(keys[0] != keys[1] or texts[0] == texts[1]), torch.tensor(True)


def _set(name: str, value: Any) -> None:
    globals()[name] = value


@case("3", "a global bool that changes: another key")
def _() -> Any:
    @tileflow.kernel
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * 2 if FLAG else x[tile] * 3
        return out

    return _tells_apart(kernel, torch.randn(9), lambda: _set("FLAG", False), lambda: _set("FLAG", True))


@case("3", "a global function that is rebound: another key")
def _() -> Any:
    @tileflow.kernel
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = _helper(x[tile])
        return out

    before = _helper
    return _tells_apart(
        kernel, torch.randn(9), lambda: _set("_helper", lambda v: v + 2), lambda: _set("_helper", before)
    )


@case("3", "an int in a tuple that changes")
def _() -> Any:
    @tileflow.kernel
    def kernel(x, pair):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * pair[0] + pair[1]
        return out

    x = torch.randn(9)
    run(kernel, x, (2, 3))
    return run(kernel, x, (4, 5)), x * 4 + 5


# ---- 4: host views that start anywhere ----------------------------------------------------------------------------


@case("4", "`x[:, 1:]` in host code")
def _() -> Any:
    def kernel(x):
        y, out = x[:, 1:], torch.empty_like(x[:, 1:])
        for tile in tfl.tile(y.size(0)):
            out[tile, :] = y[tile, :] * 2
        return out

    x = torch.randn(5, 21)
    return run(kernel, x), x[:, 1:] * 2


@case("4", "`for row in x` in host code")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for row, result in zip(x, out):  # noqa: B905
            for tile in tfl.tile(row.size(0)):
                result[tile] = row[tile] * 2
        return out

    x = torch.randn(3, 7)
    return run(kernel, x), x * 2


@case("4", "`qkv.chunk(3, -1)` in host code")
def _() -> Any:
    def kernel(qkv):
        q, k, v = qkv.chunk(3, -1)
        out = torch.empty_like(q)
        for tile in tfl.tile(q.size(0)):
            out[tile, :] = q[tile, :] * k[tile, :] + v[tile, :]
        return out

    qkv = torch.randn(5, 21)
    q, k, v = qkv.chunk(3, -1)
    return run(kernel, qkv), q * k + v


# ---- 5: arithmetic ------------------------------------------------------------------------------------------------

_EDGES = torch.tensor([0.5, -0.5, 7.0, -7.0, 3.3, math.inf, -math.inf, math.nan, 0.0])
_ARITHMETIC: dict[str, tuple[Callable[[Any], Any], torch.Tensor]] = {
    "`x // 0.1`": (lambda v: v // 0.1, _EDGES),
    "`x % 0.3`": (lambda v: v % 0.3, _EDGES),
    "`x % -0.3`": (lambda v: v % -0.3, _EDGES),
    "`remainder` by inf": (lambda v: torch.remainder(v, math.inf), _EDGES),
    "`fmod` by inf": (lambda v: torch.fmod(v, math.inf), _EDGES),
    "`fmod`": (lambda v: torch.fmod(v, -2.5), _EDGES),
    "`acosh`": (lambda v: torch.acosh(v), torch.tensor([-6000.0, 1.0, 2.0, 1e20])),
    "`pow` of -inf": (lambda v: torch.pow(v, -4.4), torch.tensor([-math.inf, math.inf, 0.0, 2.0])),
    "uint8 `~x`": (lambda v: ~v, torch.arange(0, 250, 7, dtype=torch.uint8)),
    "uint8 `x // -3`": (lambda v: v // -3, torch.arange(0, 250, 7, dtype=torch.uint8)),
    "uint8 `x % -3`": (lambda v: v % -3, torch.arange(0, 250, 7, dtype=torch.uint8)),
    "int8 `clamp(min=1) * 3 >> 1`": (
        lambda v: torch.clamp(v, min=1) * 3 >> 1,
        torch.arange(-100, 100, 7, dtype=torch.int8),
    ),
}  # fmt: skip
for _name, (_change, _x) in _ARITHMETIC.items():

    @case("5", f"{_name}")
    def _(change: Callable[[Any], Any] = _change, x: torch.Tensor = _x) -> Any:
        return each(change, x)


@case("5", "uint8 `300 + x`: torch wraps or refuses")
def _() -> Any:
    x = torch.arange(0, 250, 7, dtype=torch.uint8)
    try:
        300 + x
    except RuntimeError:
        each(lambda v: 300 + v, x)
    return each(lambda v: 300 + v, x)


# ---- 6: running sums, float64 --------------------------------------------------------------------------------------


@case("6", "a running sum that is read in the loop and stored after it")
def _() -> Any:
    def kernel(x):
        out, totals = torch.empty_like(x), x.new_empty(x.size(0))
        for m in tfl.tile(x.size(0)):
            carry = tfl.zeros([m])
            for n in tfl.tile(x.size(1)):
                out[m, n] = x[m, n] - carry[:, None]
                carry = carry + x[m, n].sum(1)
            totals[m] = carry
        return totals

    x = torch.randn(6, 100)
    return run(kernel, x), x.sum(1)


@case("6", "a float64 tile with a float argument")
def _() -> Any:
    def kernel(x, scale):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * scale
        return out

    x = torch.randn(9, dtype=torch.float64)
    return run(kernel, x, 0.1), x * 0.1


# ---- 7: launches without an effect, settings of torch ---------------------------------------------------------------


@case("7", "a launch without an effect", mistake=True)
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            x[tile] * 2
        return out

    return run(kernel, torch.randn(9)), None


@case("7", 'a call after `fp32_precision = "tf32"`')
def _() -> Any:
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    return each(lambda v: v * 2, torch.randn(9))


# ---- refused, and people write it ------------------------------------------------------------------------------------

REFUSED = "refused"


def _sums(make: Callable[[Any], Any]) -> Any:
    def kernel(x):
        out = x.new_empty(x.size(0))
        for m in tfl.tile(x.size(0)):
            acc = make(m)
            for n in tfl.tile(x.size(1)):
                acc = acc + x[m, n].sum(1)
            out[m] = acc
        return out

    x = torch.randn(6, 50)
    return run(kernel, x), x.sum(1)


for _name in ("zeros", "ones", "full"):

    @case(REFUSED, f"`torch.{_name}([tile])` in device code")
    def _(name: str = _name) -> Any:
        value = {"zeros": 0.0, "ones": 1.0, "full": 2.0}[name]
        make = {"full": lambda m: torch.full([m], 2.0)}.get(name, lambda m: getattr(torch, name)([m]))
        got, wanted = _sums(make)
        return got, wanted + value


@case(REFUSED, "tuples of tensors, iterated")
def _() -> Any:
    def kernel(tensors):
        out = torch.empty_like(tensors[0])
        for tile in tfl.tile(out.size(0)):
            total = tfl.zeros([tile])
            for t in tensors:
                total = total + t[tile]
            out[tile] = total
        return out

    xs = tuple(torch.randn(9) for _ in range(3))
    return run(kernel, xs), sum(xs)


@case(REFUSED, "tuples of tensors, zipped")
def _() -> Any:
    def kernel(tensors, others):
        out = torch.empty_like(tensors[0])
        for tile in tfl.tile(out.size(0)):
            total = tfl.zeros([tile])
            for n, (t, o) in enumerate(zip(tensors, others)):  # noqa: B905
                total = total + t[tile] * o[tile] * n
            out[tile] = total
        return out

    xs, ys = (tuple(torch.randn(9) for _ in range(3)) for _ in range(2))
    return run(kernel, xs, ys), sum(x * y * n for n, (x, y) in enumerate(zip(xs, ys, strict=True)))


@case(REFUSED, "`torch.rand_like`: numbers in [0, 1)")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = torch.rand_like(x[tile])
        return out

    got = run(kernel, torch.randn(200))
    return torch.tensor([bool((got >= 0).all()), bool((got < 1).all()), len(got.unique()) > 150]), torch.ones(
        3, dtype=torch.bool
    )


@case(REFUSED, "broadcasting by a tile's identity")
def _() -> Any:
    def kernel(a, b):
        out = torch.empty_like(a)
        for m, n in tfl.tile(a.shape):
            out[m, n] = a[m, n] + b[m]
        return out

    a, b = torch.randn(20, 40), torch.randn(20)
    return run(kernel, a, b), a + b[:, None]


@case(REFUSED, "`arange(tile.begin, ...)`")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0), block_size=8):
            out[tile] = x[tile] + torch.arange(tile.begin, tile.begin + tile.block_size)
        return out

    x = torch.randn(24)
    return run(kernel, x), x + torch.arange(24)


@case(REFUSED, "a whole tensor stored")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = 3.0
        return out

    return run(kernel, torch.randn(5, 6)), torch.full((5, 6), 3.0)


@case(REFUSED, "a bare 0-d tensor")
def _() -> Any:
    def kernel(x, scale):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * scale
        return out

    x, scale = torch.randn(9), torch.tensor(3.0)
    return run(kernel, x, scale), x * 3


@case(REFUSED, "an nn.Module as an argument")
def _() -> Any:
    def kernel(x, module):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = module(x[tile])
        return out

    x, module = torch.randn(9), torch.nn.LeakyReLU(0.3)
    return run(kernel, x, module), module(x)


@case(REFUSED, "a bound method as an argument")
def _() -> Any:
    class Scale:
        factor = 3.0

        def times(self, v: Any) -> Any:
            return v * self.factor

    def kernel(x, change):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = change(x[tile])
        return out

    x = torch.randn(9)
    return run(kernel, x, Scale().times), x * 3


_BY_ROWS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "`F.group_norm`": (lambda v: F.group_norm(v, 2), (6, 8)),
    "`v.reshape(t, b // 2, 2)`": (lambda v: v.reshape(v.shape[0], 4, 2).sum(2).repeat_interleave(2, 1), (6, 8)),
    "`chunk` of a width that is no power of two": (lambda v: torch.cat(v.chunk(3, 1)[::-1], 1), (6, 9)),
    "`cat` of a width that is no power of two": (lambda v: torch.cat([v[:, 2:], v[:, :2]], 1), (6, 7)),
    "`repeat_interleave`": (lambda v: v[:, :3].repeat_interleave(2, 1), (6, 6)),
}
for _name, (_change, _shape) in _BY_ROWS.items():

    @case(REFUSED, _name)
    def _(change: Callable[[Any], Any] = _change, shape: tuple[int, ...] = _shape) -> Any:
        x = torch.randn(shape)
        return rows(change, x), change(x)


@case(REFUSED, "`F.glu` of a width that is no power of two")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x[:, :3])
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = F.glu(x[tile, :], 1)
        return out

    x = torch.randn(6, 6)
    return run(kernel, x), F.glu(x, 1)


@case(REFUSED, "a fill value of masked loads")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = tfl.load(x, [tile], extra_mask=tile.index < 4, other=7.0)
        return out

    x = torch.randn(9)
    return run(kernel, x), torch.where(torch.arange(9) < 4, x, 7.0)


@case(REFUSED, "`while` on a device value")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for i in tfl.grid(x.size(0)):
            v = x[i]
            while v > 1:
                v = v / 2
            out[i] = v
        return out

    x = torch.tensor([0.5, 3.0, 20.0])
    return run(kernel, x), torch.tensor([0.5, 0.75, 0.625])


@case(REFUSED, "a looped scan without a hand-written carry")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = torch.cumsum(x[tile, :], 1)
        return out

    x = torch.randn(3, 300)
    return run(kernel, x), x.cumsum(1)


@case(REFUSED, "`print` under the interpreter")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            print("a tile", x[tile])
            out[tile] = x[tile]
        return out

    x = torch.randn(9)
    return run(kernel, x), x


# ---- mistakes that were accepted ------------------------------------------------------------

MISTAKES = "mistakes"


def _mistake(cause: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    return case(MISTAKES, cause, mistake=True)


@_mistake("an empty loop")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for _tile in tfl.tile(x.size(0)):
            pass
        return out

    return run(kernel, torch.randn(9)), None


@_mistake("a tile of a tile")
def _() -> Any:
    def kernel(x):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            for inner in tfl.tile(tile):
                out[inner] = x[inner]
        return out

    return run(kernel, torch.randn(9)), None


@_mistake("`tile(192, 128)`: the end before the begin")
def _() -> Any:
    def kernel(x):
        out = torch.zeros_like(x)
        for tile in tfl.tile(192, 128):
            out[tile] = x[tile]
        return out

    return run(kernel, torch.randn(192)), None


@_mistake("control flow that leaves a tensor in two shapes")
def _() -> Any:
    def kernel(x, flag):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            v = x[tile, :]
            if flag[0] > 0:
                v = v.sum(1)
            out[tile, :] = v
        return out

    return run(kernel, torch.randn(4, 4), torch.ones(1)), None


@_mistake("`.to` of a string that names a dtype")
def _() -> Any:
    return rows(lambda v: v.to("float16").float(), torch.randn(4, 4)), None


@_mistake("softmax of ints")
def _() -> Any:
    return rows(lambda v: torch.softmax(v, 1), torch.randint(9, (4, 4))), None


@_mistake("a mask of floats")
def _() -> Any:
    return rows(lambda v: torch.where(v, v, 0.0), torch.randn(4, 4)), None


# ---- running them ------------------------------------------------------------


def outcome(mistake: bool, function: Callable[[], Any], meaning: str) -> tuple[str, str]:
    """``right``, ``wrong``, ``refused`` (by an error of ours) or ``raised`` (by another), and why."""
    global _meaning
    _meaning = meaning
    torch.manual_seed(0)
    try:
        got, wanted = function()
    except TileflowError as error:
        return "right" if mistake else "refused", str(error).splitlines()[0]
    except Exception as error:
        return "raised", f"{type(error).__name__}: {error}".splitlines()[0]
    if mistake:
        return "wrong", "accepted"
    try:
        torch.testing.assert_close(got, wanted, equal_nan=True)
    except AssertionError as error:
        return "wrong", str(error).splitlines()[0]
    return "right", ""


def apart(mistake: bool, function: Callable[[], Any], meaning: str) -> tuple[str, str]:
    """The outcome from a process of its own; ``crashed`` where it ends early, ``hung`` after SECONDS."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(SECONDS)
            os.write(write, json.dumps(outcome(mistake, function, meaning)).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    if said:
        found: tuple[str, str] = tuple(json.loads(said))
        return found
    signalled = os.WIFSIGNALED(status)
    return ("hung", "") if signalled and os.WTERMSIG(status) == signal.SIGALRM else ("crashed", f"status {status}")


def main() -> None:
    """Run each case in both meanings, a mistake where it is lowered alone; write its outcome in each."""
    torch.set_num_threads(1)
    found = []
    for finding, cause, mistake, function in CASES:
        meanings = MEANINGS[1:] if mistake else MEANINGS
        outcomes = {m: apart(mistake, function, m) for m in meanings}
        found.append({"finding": finding, "cause": cause, "mistake": mistake, "outcomes": outcomes})
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
