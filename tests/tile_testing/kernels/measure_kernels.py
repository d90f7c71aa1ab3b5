"""Kernels as measuring sees them, written by hand: vector add, right and with planted mistakes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tile_testing.fakes import build_sources
from tileflow.build.serve import report
from tileflow.config import Config
from tileflow.emit.source import TritonSource
from tileflow.errors import ConfigError, SpecError
from tileflow.measure.failure import NO_ROOM, no_time
from tileflow.measure.request import MeasureRequest
from tileflow.measure.types import Measurement, Outcome, Status
from tileflow.runtime.launch import Launcher
from tileflow.target import Target
from tileflow.tolerances import UNSAID


def load(reference: str) -> Any:
    """This module's loader: ``measure_kernels:add`` and so on, as ``tileflow.api:load_kernel`` would."""
    return globals()[reference.partition(":")[2]]


@dataclass(frozen=True)
class Lowered:
    sources: Mapping[str, TritonSource]

    def interpretable(self, config: Config) -> Config:
        return config

    def emit(self, config: Config) -> tuple[TritonSource, ...]:
        variant = str(config["variant"])
        if variant not in self.sources:
            raise ConfigError("variant must be known", got=variant)
        return (self.sources[variant],)


VARIANTS = {
    "right": build_sources.vector_add(256),
    "wrong": build_sources.add_with("* scale +", "* scale -"),
    "unmasked_tail": build_sources.add_with("m = i < n", "m = i < n - 1"),
    "nan": build_sources.add_with("* scale +", "/ (scale - scale) * 0.0 +"),
    "out_of_bounds": build_sources.add_with("tl.store(out + i", "tl.store(out + i + 0x4000000000"),
    "endless": build_sources.add_with(
        "    m = i < n\n",
        "    m = i < n\n    while tl.load(x) == tl.load(x):\n        tl.store(out + i, 0.0, mask=m)\n",
    ),
}


class Add:
    """``out = x * scale + y`` over ``n`` elements."""

    scope, baseline, tolerances, has_reference = None, None, UNSAID, True

    def inputs(self, *, device: str = "cpu", seed: int = 0, n: int = 1000) -> tuple[Any, ...]:
        generator = torch.Generator(device).manual_seed(seed)
        x, y = (torch.randn(n, generator=generator, device=device) for _ in range(2))
        return x, y, 1.5

    def reference(self, x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
        return x * scale + y

    def run_eagerly(self, *args: Any, config: Any = None) -> Any:
        return self.reference(*args)

    def small(self, problem: dict[str, Any]) -> dict[str, Any]:
        return {"n": min(problem.get("n", 1000), 1000)}

    def lower(self, args: tuple[Any, ...], target: Target, mode: str = "static") -> Lowered:
        return Lowered(VARIANTS)

    def kind(self, *args: Any) -> Any:
        return self

    def bind(self, config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> Callable[..., Any]:
        def call(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
            out = torch.empty_like(x)
            frame = {"x": x, "y": y, "out": out, "scale": scale}
            assert any(launcher(frame, (0,), (x.shape[0],)) for launcher in launchers[0])
            return out

        return call


class Accumulate(Add):
    """``x *= scale; x += y`` in place: what a call changes must be restored, or it runs away."""

    def reference(self, x: torch.Tensor, y: torch.Tensor, scale: float) -> None:
        x.mul_(scale).add_(y)

    def bind(self, config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> Callable[..., Any]:
        def call(x: torch.Tensor, y: torch.Tensor, scale: float) -> None:
            assert any(
                launcher({"x": x, "y": y, "out": x, "scale": scale}, (0,), (x.shape[0],)) for launcher in launchers[0]
            )

        return call


class Broken(Add):
    def inputs(self, *, device: str = "cpu", seed: int = 0, n: int = 1000) -> tuple[Any, ...]:
        raise ValueError("planted: the author's inputs fail")


class Sleeps(Add):
    """Its reference asks the device for something, and never returns."""

    def reference(self, x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
        while True:
            x.mul_(scale)
            time.sleep(0.05)


class Chunked(Add):
    """Its author asserts that ``n`` is a multiple of 128, which no size that tileflow makes up at first is."""

    def small(self, problem: dict[str, Any]) -> dict[str, Any]:
        return {"n": 64}

    def reference(self, x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
        assert len(x) % 128 == 0, "planted: whole chunks only"
        return super().reference(x, y, scale)


add, accumulate, broken, sleeps, chunked = Add(), Accumulate(), Broken(), Sleeps(), Chunked()


# what happens where references that have no room on the card are made on the CPU
_ON_CPU: dict[str, Callable[[], Any]] = {
    "no_room_on_this_host": lambda: None,
    "witnesses_disagree": lambda: None,
    "reference_ends_the_process_on_the_cpu": lambda: os.kill(os.getpid(), 9),  # as a host without memory does
    "reference_never_returns_on_the_cpu": lambda: time.sleep(30),
}


def stand_in(request: MeasureRequest, device_index: int) -> Outcome:
    """In the place of ``measure.child.run``, without a device: the config says what happens."""
    report("device")
    report("prepare")
    what = request.candidates[0].config.get("what", "ok")
    if what == "slow_inputs" or (what == "slow_reference" and request.reference_on != "witnesses"):
        time.sleep(30)
    if what == "slow_text" and request.reference_on != "witnesses":
        return no_time("planted: the text")
    if what == "endless_text" and request.reference_on != "witnesses":
        report("text")
        time.sleep(30)
    if what == "no_room" or (what == "no_room_for_reference" and request.reference_on == "device"):
        return Outcome(Status.OOM, error_class=NO_ROOM, error_digest="planted: 300 GiB")
    if what in _ON_CPU:
        if request.reference_on == "cpu":
            _ON_CPU[what]()
        if request.reference_on != "witnesses":
            found = f"planted: no room on the {request.reference_on}"
            return Outcome(Status.OOM, error_class=NO_ROOM, error_digest=found)
        if what == "witnesses_disagree":
            raise SpecError("the witnesses must agree", got="planted")
    if what == "author":
        raise ConfigError("planted", got=what)
    report("check")
    if what == "noisy":
        report("noise")
        time.sleep(0.6)
        report("check")
    if what == "hang":
        time.sleep(30)
    if what == "segfault":
        os.kill(os.getpid(), 11)
    status = Status(what) if what in tuple(Status) else Status.OK
    reference = "" if request.reference_on == "device" else request.reference_on
    times = Measurement((1.0,), 1.0, 1.0, 1.0, 0.0)
    return Outcome(status, times, error_digest=f"process {os.getpid()}", reference=reference)


def is_broken(device_index: int) -> bool:
    """In the place of ``measure.child.is_healthy``: an author's function broke the device's context."""
    return False


def bfloat16_dot_error() -> float:
    """The relative error of a bfloat16 product through the interpreter."""
    from tileflow.build.interpret import interpreter_launcher

    x, y = torch.randn(64, 128).bfloat16(), torch.randn(128, 64).bfloat16()
    out = torch.empty(64, 64, dtype=torch.bfloat16)
    interpreter_launcher(build_sources.dot())({"x": x, "y": y, "out": out}, (), ())
    exact = x.double() @ y.double()
    return float((out.double() - exact).norm() / exact.norm())
