"""Witnesses of gallery kernels with a mistake planted in the generated text, run by Triton's interpreter."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tileflow.api import Kernel, load_kernel
from tileflow.config import Config
from tileflow.errors import SpecError
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, reference_of
from tileflow.measure.failure import checked
from tileflow.measure.types import Outcome
from tileflow.measure.witnesses import Tools, find_witnesses
from tileflow.target import target

DEVICE = target("nvidia-h200")


@dataclass(frozen=True, slots=True)
class Shorter:
    """A mask one short: the number that the last match of ``pattern`` ends with, less one."""

    pattern: str

    def __call__(self, text: str) -> str:
        found = list(re.finditer(self.pattern + r"(\d+)", text))
        assert found, f"{self.pattern} is not in the generated text:\n{text}"
        begin, end = found[-1].span(1)
        return text[:begin] + str(int(text[begin:end]) - 1) + text[end:]


@dataclass(frozen=True, slots=True)
class Planted:
    """``small``: the problem at the interpreter's size. ``fault``: of the text of the default config, or of all."""

    kernel: str
    problem: Mapping[str, Any]
    small: Mapping[str, Any]
    fault: Shorter | None = None
    where: Literal["default", "all"] = "default"


def testimony(planted: Planted) -> str:
    """What the witnesses say where they disagree, else ``agree``."""
    kernel = load_kernel(planted.kernel)
    args = kernel.inputs(device="cpu", **planted.problem)
    lowered = kernel.lower(args, DEVICE)

    def build(config: Config) -> Callable[..., Any]:
        return _call(kernel, lowered, config, _fault(planted, lowered, config))

    def interpret(config: Config) -> Outcome:
        small = kernel.inputs(device="cpu", **planted.small)
        there = kernel.lower(small, DEVICE)
        mended = there.space.repair(there.space.adapt(config.to_dict()))
        call = _call(kernel, there, mended, _fault(planted, lowered, config))
        return checked(check_call(call, small, reference_of(kernel, small)))

    try:
        found = find_witnesses(lowered, Tools(build, interpret), kernel.tolerances, planted.kernel)
        expected = reference_of(kernel, args)
        reference = found.reference(args)
    except SpecError as error:
        return str(error)
    verdict = check_call(lambda *given: _result(kernel, given), args, reference)
    assert verdict.ok, verdict.reason  # of the reference itself, which there is room for here
    assert check_call(found.second.call, args, expected).ok
    return "agree"


def _result(kernel: Kernel, args: tuple[Any, ...]) -> Any:
    return kernel.reference(*args)


def _fault(planted: Planted, lowered: Lowered, config: Config) -> Shorter | None:
    return planted.fault if planted.where != "default" or config == lowered.default else None


def _call(kernel: Kernel, lowered: Lowered, config: Config, fault: Shorter | None) -> Callable[..., Any]:
    from tileflow.build.interpret import interpreter_launcher

    launchers: dict[int, list[Any]] = {}
    for source in lowered.emit(lowered.interpretable(config)):
        if fault is not None:
            source = dataclasses.replace(source, text=fault(source.code), lines=source.code_lines, comments=())
        launchers.setdefault(source.region, []).append(interpreter_launcher(source, kernel.scope, DEVICE))
    return kernel.bind(config, launchers)
