"""What stands for a reference that there is no room for: three witnesses, none of whom may disagree."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from examples.softmax import softmax
from tileflow.config import Config, ConfigSpace, Knob
from tileflow.emit.source import TritonSource
from tileflow.errors import OutOfResources, SpecError
from tileflow.expr import TRUE, Expr
from tileflow.measure import witnesses
from tileflow.measure.check import check_call
from tileflow.measure.interpret import InterpretRequest
from tileflow.measure.request import Limits, MeasureRequest
from tileflow.measure.types import Outcome, Status
from tileflow.measure.witnesses import Tools, find_witnesses, others
from tileflow.tolerances import UNSAID

ONE = Expr.of(1)
SPACE = ConfigSpace((
    Knob("block", "block:tile", (16, 32, 64), "block", 32),
    Knob("access", "load:x#0", ("pointer", "descriptor"), "access", "pointer"),
    Knob("warps", "launch", (4, 8), "launch", 4),
))  # fmt: skip
X = torch.linspace(-2, 2, 257)

Call = Callable[..., Any]


class Lowered:
    def __init__(self, space: ConfigSpace = SPACE) -> None:
        self.space, self.default = space, space.default

    def emit(self, config: Config) -> tuple[TritonSource, ...]:
        blocks = tuple((name, config[name]) for name in ("block",) if name in config.to_dict())
        text = f"access {config.to_dict().get('access')}\n"
        options = (("num_warps", config["warps"]),)
        return (TritonSource("k", 0, text, (), blocks, options, (ONE, ONE, ONE), TRUE),)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def last_lost(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:-1] * 2, x[-1:] * 0])


def right(config: Config) -> Outcome:
    return Outcome(Status.OK)


def found(build: Callable[[Config], Call], interpret: Callable[[Config], Outcome] = right) -> Any:
    return find_witnesses(Lowered(), Tools(build, interpret), UNSAID, "m:kernel {'n': 257}")


def is_default(config: Config) -> bool:
    return config == SPACE.default


def test_what_all_agree_on_is_the_reference() -> None:
    asked: list[Config] = []

    def interpret(config: Config) -> Outcome:
        asked.append(config)
        return Outcome(Status.OK)

    witnesses = found(lambda config: doubled, interpret)
    reference = witnesses.reference((X,))
    assert torch.equal(reference.result, X * 2) and len(asked) == 2 and is_default(asked[0])
    assert check_call(doubled, (X,), reference).ok
    assert check_call(last_lost, (X,), reference).status is Status.INCORRECT


@pytest.mark.parametrize("faulty", [True, False])
def test_a_fault_of_one_config_is_found_by_the_other(faulty: bool) -> None:
    witnesses = found(lambda config: last_lost if is_default(config) is faulty else doubled)
    with pytest.raises(SpecError) as raised:
        witnesses.reference((X,))
    text = str(raised.value)
    assert "default config (access=pointer" in text and "second config (access=descriptor" in text
    assert "incorrect, result: 1 of 257 off" in text
    assert "interpreter at a small size: default config ok, second config ok" in text


@pytest.mark.parametrize("status", [Status.INCORRECT, Status.NONFINITE, Status.COMPILE_ERROR])
def test_the_interpreter_may_not_find_one_wrong(status: Status) -> None:
    """A mistake in the kernel's own text is the same under all configs."""

    def interpret(config: Config) -> Outcome:
        return Outcome(Status.OK if is_default(config) else status, error_digest="planted: at n=33")

    with pytest.raises(SpecError, match=f"second config {status.value}, planted: at n=33"):
        found(lambda config: last_lost, interpret).reference((X,))


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.INVALID_STATIC, Status.BENCH_TIMEOUT])
def test_an_interpreter_that_has_no_small_size_is_no_objection(status: Status) -> None:
    """A call that is tuned where it stands has one size: no kernel whose own text is slow had a row."""
    silent = Outcome(status, error_digest="no small size")
    assert torch.equal(found(lambda config: doubled, lambda config: silent).reference((X,)).result, X * 2)
    faulty = found(lambda config: doubled if is_default(config) else last_lost, lambda config: silent)
    with pytest.raises(SpecError, match=r"second config .*incorrect"):
        faulty.reference((X,))


def test_inputs_that_are_changed_are_compared_too() -> None:
    def scribbling(x: torch.Tensor) -> torch.Tensor:
        out = x * 2
        x[3] = 7
        return out

    with pytest.raises(SpecError, match=r"incorrect, args\[0\]: 1 of 257 off"):
        found(lambda config: doubled if is_default(config) else scribbling).reference((X,))


def test_the_noise_is_that_of_the_default_config() -> None:
    """Differences of large numbers: right results are further apart than the type's tolerance."""
    big = (X * 1e5).contiguous()

    def near(order: int) -> Call:
        def cancelled(x: torch.Tensor) -> torch.Tensor:
            return x + 1.0 - x if order else x.double().add(1.0).sub(x.double()).float()

        return cancelled

    witnesses = found(lambda config: near(not is_default(config)))
    reference = witnesses.reference((big,))
    assert not check_call(lambda x: near(1)(x) * 1.5, (big,), reference).ok


def test_what_does_not_build_is_no_witness() -> None:
    def build(config: Config) -> Call:
        if config["access"] == "descriptor":
            raise OutOfResources("shared memory must suffice", got=1 << 20)
        return doubled

    assert found(build).second.config["access"] == "pointer"


def test_launch_options_alone_make_no_second_witness() -> None:
    launch_only = ConfigSpace((Knob("warps", "launch", (4, 8), "launch", 4),))
    with pytest.raises(SpecError, match=r"second config: none (.|\n)*interpreter: default config ok"):
        find_witnesses(Lowered(launch_only), Tools(lambda config: doubled, right), UNSAID, "")


def test_others_differ_most_first() -> None:
    first, *_ = others(SPACE, SPACE.default)
    assert first.to_dict() == {"block": 16, "access": "descriptor", "warps": 8}


def test_interpreters_end_before_the_preparation_that_asks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 s, as a search of a second gives a problem, two interpreters and two builds of 3 s leave some."""
    clock = [0.0]
    asked: list[float] = []

    def checked(request: InterpretRequest) -> Outcome:  # it ends at its limit
        asked.append(request.limit_s)
        clock[0] += request.limit_s
        return Outcome(Status.BENCH_TIMEOUT)

    def built(*_: Any) -> Any:
        clock[0] += 3.0

    monkeypatch.setattr(witnesses, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(witnesses, "check_interpreted", checked)
    monkeypatch.setattr(witnesses, "shared", lambda key, make: make())
    monkeypatch.setattr(witnesses, "identity", lambda: SimpleNamespace(device_class="nvidia-h200"))
    monkeypatch.setattr(witnesses, "launcher_for", lambda *_: None)
    monkeypatch.setattr("tileflow.build.compile.build", built)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    limits = Limits().within(1.0)
    request = MeasureRequest("examples.softmax:softmax", {"m": 4096, "n": 4096}, (), limits=limits)
    kernel = SimpleNamespace(
        lower=softmax.lower, inputs=softmax.inputs, small=softmax.small, scope=None, tolerances=UNSAID,
        bind=lambda *_: doubled,
    )  # fmt: skip
    found = witnesses.witnesses_on_device(kernel, request)
    assert found.second.config != found.first.config and len(asked) == 2
    assert limits.prepare == 20 and clock[0] < 0.8 * limits.prepare
