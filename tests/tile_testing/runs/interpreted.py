"""What runs in the process that interprets: kernels under configs, against what they must give."""

from __future__ import annotations

import importlib.util
import pickle
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from tile_testing.compiler_gallery import kernel, problem
from tile_testing.held_dtypes import asserted
from tileflow import lowered as lowering
from tileflow.api import Kernel
from tileflow.build.serve import resolve
from tileflow.config import Choice, Config
from tileflow.errors import TileflowError
from tileflow.ir.analysis import tile_length
from tileflow.ir.attributes import LoopAttrs
from tileflow.ir.graph import Block, KernelIR
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference, reference_of
from tileflow.target import target

MOST_STEPS = 500  # operations over all programs and iterations: each costs the interpreter 0.1 to 1 ms


def answer(function: str, args: bytes) -> bytes:
    """``function(*args)``, pickled both ways."""
    return pickle.dumps(resolve(function)(*pickle.loads(args)))


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a gallery kernel. ``seeds``: of random configs, besides the default one. ``option``: see Gallery."""

    kernel: str
    sizes: tuple[int, ...]
    dtype: str = "float32"
    mode: str = "static"
    layout: str = "plain"
    seeds: tuple[int, ...] = ()
    option: int = 0


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "transposed": lambda x: x.t().contiguous().t() if x.ndim == 2 else x,
    "strided": lambda x: x.repeat_interleave(3, dim=-1)[..., ::3],
    "offset": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
    "broadcast": lambda x: x[:1].expand(x.shape),
}


def arguments(case: Case, device: str = "cpu") -> tuple[Any, ...]:
    made = kernel(case.kernel).inputs(device=device, **problem(case.kernel, case.sizes, case.dtype, case.option))
    return tuple(LAYOUTS[case.layout](a) if isinstance(a, torch.Tensor) and a.ndim else a for a in made)


def steps(lowered: Lowered, config: Config) -> int:
    """At most so many operations are run."""
    numbers = {name: c for name, c in config.items if isinstance(c, int)}

    def count(ir: KernelIR, name: str) -> int:
        return -(-max(tile_length(ir, name), 1) // ir.tiles[name].block.evaluate(numbers))

    def visit(ir: KernelIR, block: Block) -> int:
        inner = [(count(ir, LoopAttrs.of(op).tile) if op.kind == "for" else 1, op.regions) for op in block.ops]
        return len(block.ops) + sum(times * visit(ir, region) for times, regions in inner for region in regions)

    return sum(prod(count(ir, name) for name in ir.grid) * visit(ir, ir.body) for ir in lowered.regions)


def cheap_sample(lowered: Lowered, seed: int) -> Config:
    """A random config that the interpreter runs in well under a second."""
    rng = random.Random(seed)
    configs = [lowered.interpretable(lowered.space.sample(rng)) for _ in range(20)]
    return next((c for c in configs if steps(lowered, c) <= MOST_STEPS), min(configs, key=lambda c: steps(lowered, c)))


def check(case: Case) -> list[str]:
    """What is wrong, one line a config; empty when all is right."""
    subject = kernel(case.kernel)
    args = arguments(case)
    reference = make_reference(subject.reference, args)
    lowered = subject.lower(args, target("nvidia-h200"), mode=case.mode)
    wrong = []
    for config in (lowered.interpretable(lowered.default), *(cheap_sample(lowered, seed) for seed in case.seeds)):
        try:
            verdict = check_call(subject.compile(lowered, config, "cpu"), args, reference)
        except TileflowError:
            raise
        except Exception as error:  # whatever numpy or Triton makes of a wrong source
            wrong.append(f"{case} under {config}: {type(error).__name__}: {error}")
            continue
        if not verdict.ok:
            wrong.append(f"{case} under {config}: {verdict.reason}")
    return wrong


def check_all(cases: Sequence[Case]) -> list[str]:
    return [line for case in cases for line in check(case)]


def check_problems(name: str, problems: Sequence[dict[str, Any]]) -> list[str]:
    """What is wrong with a kernel's problems, each under the default config and a random one, the shape modes in turn;
    one line each."""
    subject = kernel(name)
    wrong = []
    for number, given in enumerate(problems):
        args = subject.inputs(**given)
        reference = reference_of(subject, args)
        lowered = subject.lower(args, target("nvidia-h200"), mode=("static", "dynamic")[number % 2])
        for config in (lowered.interpretable(lowered.default), cheap_sample(lowered, number)):
            verdict = check_call(subject.compile(lowered, config, "cpu"), args, reference)
            wrong += [] if verdict.ok else [f"{given} under {config}: {verdict.reason}"]
    return wrong


def check_elsewhere(lowered_for: Case, called_with: Case) -> str:
    """A dynamic variant lowered for one problem, called with another: what is wrong, or an empty string."""
    subject = kernel(lowered_for.kernel)
    lowered = subject.lower(arguments(lowered_for), target("nvidia-h200"), mode="dynamic")
    args = arguments(called_with)
    reference = make_reference(subject.reference, args)
    return check_call(subject.compile(lowered, lowered.interpretable(lowered.default), "cpu"), args, reference).reason


def load_module(path: str) -> Any:
    """The module that a test wrote to ``path``, under a name of its own."""
    name = path.removesuffix(".py").replace("/", "_")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@dataclass(frozen=True, slots=True)
class Call:
    """Kernel ``name`` of the module at ``path`` under the default config with ``config``'s changes."""

    path: str
    name: str
    args: tuple[Any, ...]
    config: tuple[tuple[str, Choice], ...] = ()
    mode: str = "static"


def run(call: Call) -> Any:
    """What the kernel returns. Its text asserts the dtypes that the emitter believes in."""
    subject = getattr(load_module(call.path), call.name)
    assert isinstance(subject, Kernel)
    lowered = subject.lower(call.args, target("nvidia-h200"), mode=call.mode)
    config = lowered.interpretable(lowered.space.repair(lowered.default.with_(dict(call.config))))
    with asserted():
        compiled = subject.compile(lowered, config, "cpu")
    return compiled(*call.args)


def run_all(calls: Sequence[Call]) -> list[Any]:
    """The results, or for what raised its text."""
    results: list[Any] = []
    for call in calls:
        try:
            results.append(run(call))
        except Exception as error:  # one wrong kernel must not hide the others
            results.append(f"{type(error).__name__}: {error}")
    return results


TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 1.6e-2}


def close(got: Any, wanted: torch.Tensor, times: float = 1) -> str:
    """What differs by more than rounding, ``times`` as much; empty where nothing does."""
    if isinstance(got, str):
        return got
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{got.dtype}{list(got.shape)} not {wanted.dtype}{list(wanted.shape)}"
    tolerance = TOLERANCE.get(wanted.dtype, 0.0) * times
    same = torch.isclose(got.double(), wanted.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    if same.all():
        return ""
    at = tuple(map(int, (~same).nonzero()[0]))
    return f"at {at}: {got[at].item()} not {wanted[at].item()}, {int((~same).sum())} of {same.numel()}"


def run_cases(path: str, names: Sequence[tuple[str, str]]) -> list[str]:
    """What is wrong with each (case, mode) of a module with ``CASES``: under its own config, and a random one."""
    module = load_module(path)
    results = []
    for number, (name, mode) in enumerate(names):
        case = module.CASES[name]
        kernel = name if hasattr(module, name) else case.kernel.__name__  # one kernel may have several cases
        lowered = case.kernel.lower(case.args, target("nvidia-h200"), mode=mode)
        found = []
        for config in (case.config, cheap_sample(lowered, number).items):
            args = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in case.args)
            (got,) = run_all([Call(path, kernel, args, config, mode)])
            wrong = close(got, case.wanted(*case.args))
            found += [f"{wrong} under {dict(config)}"] if wrong else []
        results.append("\n".join(found))
    return results


def run_cases_turned(path: str, names: Sequence[tuple[str, str]]) -> list[str]:
    """The same by the text for a Triton whose lanes follow a tile's first dimensions."""
    known, lowering.lanes_follow_rows = lowering.lanes_follow_rows, lambda: True
    try:
        return run_cases(path, names)
    finally:
        lowering.lanes_follow_rows = known


def run_eagerly(case: Any) -> str:
    """What is wrong with a case of such a module as plain Python over tiles, under its own config."""
    args = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in case.args)
    return close(case.kernel.run_eagerly(*args, config=dict(case.config)), case.wanted(*case.args))


def run_file(path: str) -> str:
    """What goes wrong when the file is run; kernels that it calls are interpreted."""
    try:
        load_module(path)
    except Exception as error:  # the test shows it
        return f"{type(error).__name__}: {error}"
    return ""
