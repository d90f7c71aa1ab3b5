"""A fuzzer of tables and bundles: what is read is refused with a TableError, or is a table whose launches are data.

Nothing else may come of a mutation: no other error, no hang, no memory, no line of a launcher that is not ours.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import resource
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.fakes import table_mutations as mutations
from tile_testing.fakes.drivers import FakeCuda
from tile_testing.fakes.signed_tables import parsed, small_table

from tileflow.errors import TableError, TileflowError
from tileflow.runtime import (
    Binary,
    Bundle,
    Table,
    launch,
    load_bundle,
    parse_table,
    table_text,
    write_bundle,
)
from tileflow.runtime.codec import decode, encode
from tileflow.runtime.table import Variant

SEED = 20261122
STRUCTURAL, BYTES, FILES = 3600, 1200, 300
QUICK = 600  # of the structural ones, in each run of the tests
SECONDS = 5.0  # of processor time that one mutation may take
MEMORY = 512 << 20  # that all of them may take beyond what the process had


# ---- what comes of it ---------------------------------------------------------------------------------------------


class Hang(BaseException):
    """A mutation took too much time. Not an Exception: what is tested must not catch it."""


@contextmanager
def limits() -> Iterator[None]:
    """Little memory beyond what there is; and the handler of the clock that :func:`within` sets."""

    def late(*_: Any) -> None:
        raise Hang

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    handler = signal.signal(signal.SIGVTALRM, late)  # processor time, as SIGALRM is pytest's
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, handler)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def variants_of(table: Table) -> Iterator[tuple[int, Variant]]:
    rows: list[Any] = [*table.entries, *table.portfolio, *([table.default] if table.default else [])]
    rows += [row for defaults in table.defaults.values() for row in defaults]
    for row in rows:
        for region in row.launches:
            yield from ((region.region, v) for v in region.variants)


def outcome(read: Callable[[], Table], original: Table, sources: list[str]) -> str:
    """``refused``, ``equal``, ``accepted``; another error in words."""
    try:
        with within(SECONDS):
            table = read()
            if table == original:
                return "equal"
            again = json.loads(json.dumps(encode(table)))
            assert decode(Table, again) == table, "what was read must be written and read again"
            for region, variant in variants_of(table):
                launch_once(region, variant)
            for text in sources:
                check_source(text)
            return "accepted"
    except TableError:
        return "refused"
    except Hang:
        return "hang"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    finally:
        sources.clear()


def launch_once(region: int, variant: Variant) -> None:
    """Generate the launcher and call it with plausible values: it launches on the stand-in, declines or says why."""
    binary = Binary(region, variant.target, "cubin", b"cubin", variant.launch_abi, variant.guards, variant.resources,
                    variant.mode)  # fmt: skip
    made: Any = launch.cuda_launcher(binary, "cpu", driver=FakeCuda([]), stream=lambda: "the stream")
    scale = torch.ones(64)

    def f(value: Any) -> Any:
        return value * scale

    frame = {"x": torch.zeros(64, 64, dtype=torch.bfloat16), "n": 64, "eps": 1e-5, "f": f}
    try:
        launched = made(frame, (0,), (64,))
        assert launched is True or (launched is False and made.explain(frame, (0,), (64,)))
    except TileflowError:
        return
    except RuntimeError as error:
        if "allocate memory" not in str(error):  # torch's own word for too much scratch memory
            raise


# ---- what a launcher may consist of -------------------------------------------------------------------------------

_NODES = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Try, ast.ExceptHandler, ast.Assign, ast.Expr, ast.If,
    ast.Return, ast.Raise, ast.Pass, ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Call, ast.Compare,
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.expr_context, ast.boolop, ast.operator, ast.unaryop,
    ast.cmpop,
)  # fmt: skip
_NAMES = re.compile(
    r"(v|s|m|c|map|home|own_)\d+|s\d+_ptr|c\d+_(at|by)|metadata|len|aligned_copy|dtype_\w+|own_\w+|g[xyz]|frame|begins?|ends?|begin_or_end|block_size|step|buffer|"
    r"status|stream|values|error|declines|missing|unfit|unpackable|in_inference_mode|count_write|otherwise|launch|bounds|cell_of|default_of|device_index|"
    r"current_stream|enqueue|function|success|recover|refused|on_device|scratch|min|max|"
    r"MISSING|UNPACKABLE|UNDEFINED|IndexError"
)
_METHODS = frozenset({"data_ptr", "stride", "get_device", "is_neg", "dim", "bit_length"})
_HIDDEN = frozenset({"__self__", "__globals__"})


@cache
def check_source(text: str) -> None:
    """Raises AssertionError for a launcher that holds more than the generator's own vocabulary."""
    for node in ast.walk(ast.parse(text)):
        assert isinstance(node, _NODES), ast.dump(node)
        if isinstance(node, ast.Name):
            assert _NAMES.fullmatch(node.id), node.id
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_") or node.attr in _HIDDEN, node.attr
        elif isinstance(node, ast.Call):
            called = node.func
            assert isinstance(called, ast.Name) or (isinstance(called, ast.Attribute) and called.attr in _METHODS)
        elif isinstance(node, ast.Constant):
            assert node.value is None or type(node.value) in (int, str, bool, bytes), node.value


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that launchers are compiled from, as they come."""
    seen: list[str] = []

    def spy(text: str, *rest: Any) -> Any:
        seen.append(text)
        return compile(text, *rest)

    monkeypatch.setattr(launch, "compile", spy, raising=False)
    return seen


def report(kind: str, counts: Counter[str]) -> None:
    """For the documentation: ``pytest -s`` shows it."""
    print(
        f"\n{kind}: {sum(counts.values())} mutations, " + ", ".join(f"{n} {what}" for what, n in counts.most_common())
    )


def count(kind: str, outcomes: list[tuple[str, str]]) -> Counter[str]:
    """How often each outcome came. Fails naming the mutations that came to neither of the allowed ones."""
    counts = Counter(result for _, result in outcomes)
    report(kind, counts)
    wrong = [(i, *o) for i, o in enumerate(outcomes) if o[1] not in ("refused", "equal", "accepted")]
    assert not wrong, wrong[:20]
    return counts


# ---- the tests ----------------------------------------------------------------------------------------------------


def test_what_is_mutated_is_a_table_and_launches(sources: list[str]) -> None:
    """The fuzzer would prove nothing on a table that is refused whatever is done to it."""
    table = small_table()
    assert parsed(json.loads(table_text(table))) == table
    for region, variant in variants_of(table):
        launch_once(region, variant)
    assert len(sources) == 2
    for text in sources:
        check_source(text)
    with pytest.raises(AssertionError):
        check_source(f"def launch(frame):\n    return {mutations.CODE}\n")


@pytest.mark.parametrize(
    ("seed", "many"), [(SEED, QUICK), pytest.param(SEED + 3, STRUCTURAL - QUICK, marks=pytest.mark.slow)]
)
def test_structural_mutations(sources: list[str], canary: Any, seed: int, many: int) -> None:
    """Findings 1 and 9: of 760 such mutations of a table 43 crashed, 10 hung, and one ran code."""
    original, rng = small_table(), random.Random(seed)
    data, outcomes = json.loads(table_text(original)), []
    with limits():
        for _ in range(many):
            name, changed = mutations.mutate_structure(data, rng)
            outcomes.append((name, outcome(lambda changed=changed: parsed(changed), original, sources)))
    counts = count("structure", outcomes)
    assert canary.fired == []
    assert counts["refused"] > many // 3 and counts["accepted"] > many // 10


def test_byte_mutations(sources: list[str], canary: Any) -> None:
    original, rng = small_table(), random.Random(SEED + 1)
    content, outcomes = table_text(original).encode(), []
    with limits():
        for _ in range(BYTES):
            name, changed = mutations.mutate_bytes(content, rng)
            outcomes.append((name, outcome(lambda changed=changed: parse_table(_text(changed)), original, sources)))
    counts = count("bytes", outcomes)
    assert canary.fired == []
    assert counts["refused"] > BYTES // 2 and counts["equal"] > BYTES // 20 and not counts["accepted"]


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise TableError("a table must be text", got=str(error)) from error


def test_file_mutations_of_a_bundle(tmp_path: Path, canary: Any) -> None:
    """Finding 9: FIFOs in place of files hung, loops of links crashed, a manifest led outside."""
    table, rng, outcomes = small_table(), random.Random(SEED + 2), []
    binaries = [Binary(r, v.target, "cubin", code, v.launch_abi, v.guards, v.resources, v.mode)
                for (r, v), code in zip(variants_of(table), (b"cubin", b"dynamic"), strict=True)]  # fmt: skip
    intact = write_bundle([table], binaries, tmp_path / "intact").path
    assert read_all(intact) == "equal"
    open_files = len(os.listdir("/proc/self/fd"))
    with limits():
        for i in range(FILES):
            bundle, outside = tmp_path / f"{i}", tmp_path / f"{i}.out"
            shutil.copytree(intact, bundle)
            outside.mkdir()
            name = mutations.mutate_files(bundle, outside, rng)
            outcomes.append((name, in_time(lambda bundle=bundle: read_all(bundle))))
            shutil.rmtree(bundle)
            shutil.rmtree(outside)
    counts = count("files", outcomes)
    assert canary.fired == [] and len(os.listdir("/proc/self/fd")) == open_files
    assert counts["refused"] > FILES // 2 and counts["equal"] > FILES // 50


def read_all(path: Path) -> str:
    """The outcome of loading a bundle and every binary of it."""
    try:
        bundle: Bundle = load_bundle(path)
        for table in bundle.tables:
            for region, variant in variants_of(table):
                bundle.binary(region, variant)
        return "equal" if bundle.tables == (small_table(),) else "accepted"
    except TableError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]


def in_time(read: Callable[[], str]) -> str:
    """In a thread of its own: what waits for a FIFO uses no processor time, and no signal of ours ends it."""
    result = ["hang"]
    thread = threading.Thread(target=lambda: result.__setitem__(0, read()), daemon=True)
    thread.start()
    thread.join(SECONDS)
    return result[0]
