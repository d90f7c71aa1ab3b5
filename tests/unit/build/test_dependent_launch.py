"""Kernels whose launches may begin while the one before them ends: what they wait for, and who compiles them so."""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import pytest
import triton

from examples.attention import attention
from examples.softmax import softmax
from tileflow.api import Kernel
from tileflow.build import compat, dependent_launch
from tileflow.build.compile import build, compile_source
from tileflow.emit.source import TritonSource
from tileflow.target import Target, target

H200, A100 = target("nvidia-h200"), target("nvidia-a100")
_PTX = """.visible .entry first(
	.param .u64 first_param_0
)
.reqntid 128
{
	.reg .b32 	%r<5>;
	ret;
}
"""


def source_of(kernel: Kernel, where: Target, **sizes: int) -> TritonSource:
    lowered = kernel.lower(kernel.inputs(**sizes, device="meta"), where)
    (source,) = lowered.emit(lowered.default)
    return source


def small(where: Target) -> TritonSource:
    return source_of(softmax, where, m=64, n=512)


def test_every_entry_waits_first() -> None:
    both = _PTX + ".func helper()\n{\n	ret;\n}\n" + _PTX.replace("first", "second")
    assert not dependent_launch.waits(both)
    text = dependent_launch.waiting(both)
    assert dependent_launch.waits(text)
    assert text.count("{\n\tgriddepcontrol.wait;\n\t.reg") == 2 and text.count(dependent_launch.WAIT) == 2
    assert not dependent_launch.waits(_PTX + dependent_launch.waiting(_PTX)), "one of two entries does not"
    assert not dependent_launch.waits("")


@pytest.mark.parametrize(
    "source",
    [small(H200), source_of(attention, H200, batch=1, heads=1, m=256, d=64)],
    ids=["triton", "gluon"],
)
def test_what_is_built_for_hopper_waits_before_all_else(source: TritonSource) -> None:
    compiled = compile_source(source, H200)
    (body,) = re.findall(r"\.entry[^{]*\{\n([^;]*;)", compiled.assembly)
    assert body.strip() == dependent_launch.WAIT
    assert compiled.pdl and build(source, H200).abi.pdl


@pytest.mark.parametrize("where", ["nvidia-a100", "amd-mi300x"])
def test_other_architectures_have_no_such_launches(where: str) -> None:
    assert not build(small(target(where)), target(where)).abi.pdl


def test_what_triton_keeps_of_other_programs_is_not_taken_for_ours() -> None:
    """The same source, compiled without the instruction before: its binary must not be launched as if it waited."""
    source = small(H200)
    with mock.patch.object(Target, "has_dependent_launches", False):
        assert not compile_source(source, H200).pdl
    compiled = compile_source(source, H200)
    assert compiled.pdl and dependent_launch.waits(compiled.assembly)


def test_what_others_compile_meanwhile_is_theirs() -> None:
    made = {"ptx": lambda source, metadata: _PTX}
    hook = dependent_launch.in_stages(None)
    stages = dict(made)
    hook(object(), stages, object(), "triton", 90)
    assert stages == made
    with dependent_launch.dependent(H200):
        hook(object(), stages, object(), "triton", 90)
    assert stages["ptx"](None, None) == dependent_launch.waiting(_PTX)


def test_a_programs_own_hook_is_asked_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def own(*args: Any) -> tuple[str, str]:
        asked.append(args)
        return "key", "hash"

    monkeypatch.setattr(triton.knobs.runtime, "add_stages_inspection_hook", own)
    with compat._quietly():
        ours = triton.knobs.runtime.add_stages_inspection_hook
        assert ours is not own and ours() == ("key", "hash")
        compile_source(small(A100), A100)
    assert triton.knobs.runtime.add_stages_inspection_hook is own and asked
    with compat._quietly():
        triton.knobs.runtime.add_stages_inspection_hook = None
    assert triton.knobs.runtime.add_stages_inspection_hook is None
