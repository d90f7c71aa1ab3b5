"""The dialect's kernels, settings, names, errors and test support."""

from __future__ import annotations

import copy
import gc
import importlib
import inspect
import logging
import pickle
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tile_testing.kernels import compat_kernels

import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl
from tileflow import api, errors
from tileflow.compat.helion import _testing, autotuner, language
from tileflow.compat.helion.names import ADAPTED, RENAMED, SAME
from tileflow.compat.helion.translate import to_native
from tileflow.compat.helion.wording import in_the_dialect

META = torch.empty(256, 512, device="meta")


# ---- kernels ------------------------------------------------------------------------------------


def with_config(*configs: helion.Config, **options: Any) -> helion.Kernel:
    made = helion.kernel(compat_kernels.matmul.fn, configs=list(configs), **options)
    assert isinstance(made, helion.Kernel)
    return made


def test_the_config_decides_what_is_generated() -> None:
    kernel = with_config(helion.Config(block_sizes=[32, 64, 16], num_warps=8))
    bound = kernel.bind((META, META.T))
    assert bound.to_triton_code() != compat_kernels.matmul.bind((META, META.T)).to_triton_code()
    assert (
        bound.to_triton_code(helion.Config(block_sizes=[16, 16, 16], pid_type="persistent_blocked")).count("tl.range")
        == 2
    )
    (source,) = bound.lowered.emit(to_native(kernel.configs[0], bound.lowered))
    assert dict(source.constexprs) == {"BLOCK_TILE_M": 32, "BLOCK_TILE_N": 64, "BLOCK_TILE_K": 16}
    bound.set_config({"block_sizes": [16, 16, 16]})
    assert bound.to_code() == bound.to_triton_code(helion.Config(block_sizes=[16, 16, 16]))


def test_the_default_config_is_said_in_their_words() -> None:
    bound = compat_kernels.matmul.bind((META, META.T))
    spoken = bound.config_spec.default_config()
    assert len(spoken.block_sizes) == 3 and spoken.num_warps in (1, 2, 4, 8)
    assert to_native(spoken, bound.lowered) == bound.lowered.default


@pytest.mark.parametrize(("precision", "expected"), [(None, "tf32"), ("tf32", "tf32"), ("ieee", "ieee")])
def test_the_precision_of_products_is_the_setting_and_not_the_process(precision: str | None, expected: str) -> None:
    before = torch.get_float32_matmul_precision()
    code = with_config(dot_precision=precision).bind((META, META.T)).to_triton_code()
    # all bits of float32, in parts where the matrix units take no float32, by warps of their own or by Triton
    written = [f"input_precision='{p}'" for p in ("ieee", "tf32x3", "bf16x6")] + ["low_part("]
    assert any(text in code for text in (written if expected == "ieee" else [f"input_precision='{expected}'"]))
    assert torch.get_float32_matmul_precision() == before


def test_the_dialects_precision_holds_whichever_interface_torch_was_set_by() -> None:
    """14.7: every call of the dialect ended in torch's own RuntimeError."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        code = with_config(dot_precision="ieee").bind((META, META.T)).to_triton_code()
        assert (
            "input_precision='tf32'" not in code
            and "low_part(" in code  # which products of all bits are split by
            and torch.backends.cuda.matmul.fp32_precision == "tf32"
        )
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")


def test_shapes_are_symbols_where_the_decorator_says_so() -> None:
    assert "tl.range(0, 512, " in with_config().bind((META, META.T)).to_triton_code()
    assert "tl.range(0, k, " in with_config(static_shapes=False).bind((META, META.T)).to_triton_code()


def test_on_a_cpu_a_kernel_is_plain_python_with_the_configs_blocks(caplog: pytest.LogCaptureFixture) -> None:
    x, y = torch.randn(9, 12, requires_grad=True), torch.randn(12, 7)
    kernel = with_config(helion.Config(block_sizes=[16, 16, 16]))
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        got = kernel(x, y)
    torch.testing.assert_close(got, (x @ y).detach())
    assert not got.requires_grad and "plain Python" in caplog.text
    torch.testing.assert_close(kernel.bind((x, y))(x, y), got)
    with helion_interpreted():
        torch.testing.assert_close(kernel(x.detach(), y), got)


def helion_interpreted() -> Any:
    return importlib.import_module("tileflow").interpret()


def test_the_decorator_in_its_forms() -> None:
    fn = compat_kernels.matmul.fn
    decorators = (helion.kernel, helion.kernel(), helion.jit(static_shapes=True), helion.experimental.aot_kernel())
    configured = helion.kernel(compat_kernels.matmul, config={"block_sizes": [16, 16, 16]})
    for made in (*(decorate(fn) for decorate in decorators), configured):
        assert made.fn is fn and made.__name__ == "matmul" and list(made.signature.parameters) == ["x", "y"]
    with pytest.raises(errors.ConfigError, match="not both"):
        helion.kernel(fn, config=helion.Config(), configs=[helion.Config()])
    with pytest.raises(errors.ConfigError, match="static_shape"):
        helion.kernel(fn, static_shape=True)
    with pytest.raises(errors.ConfigError, match="dot_precision"):
        helion.kernel(fn, dot_precision="bf16")


def test_settings_without_a_meaning_are_noted_and_searching_ones_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        helion.Settings(
            autotune_effort="none", autotune_log_level=0, ignore_warnings=[helion.exc.WrongDevice], fast_math=True
        )
        helion.Settings(fast_math=True)
    assert len(caplog.records) == 1 and "fast_math" in caplog.text


def test_a_setting_of_searches_that_nobody_knows_is_said_with_what_is_near(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        helion.Settings(autotune_baseline_rtoll=1e-3, autotune_effort="quick", autotune_precompile_jobs=4)
    assert len(caplog.records) == 1
    assert "autotune_baseline_rtoll: no setting that is known here; autotune_baseline_rtol is one" in caplog.text


def test_a_filter_of_configs_is_asked_for_those_that_are_timed() -> None:
    few, many = (helion.Config(block_sizes=[size]) for size in (4, 8))
    moved = helion.Settings(autotune_config_filter=lambda c: helion.Config(**c, num_warps=8) if c == many else None)
    assert moved.allowed([few, many]) == [helion.Config(block_sizes=[8], num_warps=8)]
    assert helion.Settings().allowed([few, many]) == [few, many]
    with pytest.raises(errors.ConfigError, match="none of 2"):
        helion.Settings(autotune_config_filter=lambda c: None).allowed([few, many])
    with pytest.raises(errors.ConfigError, match="autotune_config_filter is a function"):
        helion.Settings(autotune_config_filter=[few])


def test_a_search_says_which_settings_it_does_not_go_by(caplog: pytest.LogCaptureFixture) -> None:
    kernel = helion.kernel(doubled, autotune_config_overrides={"num_warps": 8}, autotune_seed_configs=[])
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        kernel.bind((torch.randn(5),)).settings.say_what_a_search_leaves_out()
    assert [r.getMessage().split(":")[1].strip() for r in caplog.records] == ["autotune_config_overrides"]


def test_of_several_configs_the_first_runs_and_timing_them_needs_a_gpu(caplog: pytest.LogCaptureFixture) -> None:
    kernel = with_config(*(helion.Config(block_sizes=[b, b, b]) for b in (16, 32)))
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        bound = kernel.bind((META, META.T))
    assert "2 configs" in caplog.text and "BLOCK_TILE_M=16" not in bound.to_triton_code()
    with pytest.raises(errors.CallError, match="GPU"):
        kernel.autotune((META, META.T))
    assert kernel.autotune((META, META.T), force=False).block_sizes == [16, 16, 16]


def test_a_sweep_finds_the_kernel_by_its_name() -> None:
    found = api.load_kernel("tile_testing.kernels.compat_kernels:matmul")
    assert isinstance(found, api.Kernel) and found is compat_kernels.matmul.__tileflow_kernel__


def test_index_tiles_of_one_loop_are_flagged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        rows = torch.empty(512, dtype=torch.int64, device="meta")
        assert compat_kernels.pairs.bind((META, rows)).lowered.regions
        assert compat_kernels.matmul.bind((META, META.T)).lowered.regions
    (record,) = caplog.records
    assert "compat_kernels.py:" in record.getMessage() and "element by element" in record.getMessage()


# ---- names --------------------------------------------------------------------------------------

DOCUMENTED = {*SAME, *RENAMED, *ADAPTED, *language.REFUSED}
NOT_YET: set[str] = set()


def test_every_documented_name_of_the_language_is_there_or_listed_as_missing() -> None:
    """A name that appears in tileflow's language leaves the list: then this test asks for it to be struck out."""
    assert set(language.missing()) == NOT_YET
    for name in DOCUMENTED - NOT_YET:
        assert callable(getattr(language, name)), name
    with pytest.raises(AttributeError):
        language.no_such_name  # noqa: B018


@helion.kernel(static_shapes=True)
def numbered_in_the_kernel(ends: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([ends.size(0), 64], device=ends.device)
    for row in hl.tile(ends.size(0), block_size=1):
        for tile in hl.tile(ends[row.begin]):
            out[row, tile] = hl.rand([row, tile], seed=1)
    return out


def test_random_numbers_of_a_loop_of_unknown_length_are_refused_in_the_dialects_words() -> None:
    with pytest.raises(errors.TraceError, match=r"hl\.rand\(shape, seed, offsets=numbers\)"):
        numbered_in_the_kernel.bind((torch.empty(3, dtype=torch.int32, device="meta"),)).to_triton_code()


THEIR_PARAMETERS = {
    "atomic_add": ("target", "index", "value", "sem"),
    "atomic_cas": ("target", "index", "expected", "value", "sem"),
    "cumprod": ("input_tensor", "dim", "reverse"),
    "cumsum": ("input_tensor", "dim", "reverse"),
    "dot": ("mat1", "mat2", "acc", "out_dtype"),
    "inline_triton": ("triton_source", "args", "output_like"),
    "jagged_tile": ("parent",),
    "join": ("tensor0", "tensor1"),
    "register_tunable": ("name", "fragment"),
    "split": ("tensor",),
    "stacktensor_like": ("tensor_like", "dev_ptrs"),
}


@pytest.mark.parametrize("name", RENAMED)
def test_parameters_have_the_dialects_names_in_tileflows_order(name: str) -> None:
    """The frontend takes what was given by the dialect's name by its position."""
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (tfl, language))
    like = "atomic_add" if name.startswith("atomic") and name != "atomic_cas" else name
    assert tuple(theirs)[: len(THEIR_PARAMETERS[like])] == THEIR_PARAMETERS[like]
    assert [(p.kind, p.default) for p in theirs.values()] == [(p.kind, p.default) for p in ours.values()]


THEIR_NAMES_OF_THE_OTHERS = {  # bounds are given by position alone there
    "arange": (),
    "associative_scan": ("combine_fn", "input_tensor", "dim", "reverse"),
    "device_print": ("prefix",),
    "dot_scaled": (
        "mat1", "mat1_scale", "mat1_format", "mat2", "mat2_scale", "mat2_format", "acc", "out_dtype",
    ),
    "full": ("shape", "value", "dtype"),
    "grid": ("step",),
    "inline_asm_elementwise": ("asm", "constraints", "args", "dtype", "is_pure", "pack"),
    "load": ("tensor", "index", "extra_mask", "eviction_policy"),
    "rand": ("shape", "seed", "device"),
    "randint": ("shape", "low", "high", "seed", "device"),
    "reduce": ("combine_fn", "input_tensor", "dim", "other", "keep_dims"),
    "register_reduction_dim": ("size",),
    "specialize": ("value",),
    "static_range": ("step",),
    "store": ("tensor", "index", "value", "extra_mask"),
    "subscript": ("tensor", "index"),
    "tile": ("block_size",),
    "tile_begin": ("tile",),
    "tile_block_size": ("tile",),
    "tile_end": ("tile",),
    "tile_id": ("tile",),
    "tile_index": ("tile",),
    "triton_kernel": ("triton_source_or_fn", "args", "output_like"),
    "zeros": ("shape", "dtype"),
}  # fmt: skip


@pytest.mark.parametrize("name", THEIR_NAMES_OF_THE_OTHERS)
def test_the_dialects_other_functions_have_its_parameters(name: str) -> None:
    assert set(THEIR_NAMES_OF_THE_OTHERS[name]) <= inspect.signature(getattr(language, name)).parameters.keys()


@pytest.mark.parametrize("name", sorted(language.REFUSED))
def test_what_is_refused_says_what_to_do(name: str) -> None:
    with pytest.raises(errors.UnsupportedOp, match=f"hl.{name}"):
        getattr(language, name)(1, 2)


def test_a_load_that_unpacks_is_refused_with_the_load_and_the_function_that_unpacks() -> None:
    with pytest.raises(errors.UnsupportedOp, match="float4_e2m1fn_x2_to_float32"):
        hl.load_float4_e2m1fn_x16_to_float16(META, 1)


def test_exceptions_catch_what_they_did() -> None:
    with pytest.raises(helion.exc.BaseError):
        compat_kernels.matmul.bind((META,) * 2).to_triton_code()
    assert issubclass(helion.exc.ShapeMismatch, helion.exc.Base)
    assert helion.exc.IndexOffsetOutOfRangeForInt32 is helion.exc.InvalidSliceType is errors.TraceError
    assert issubclass(helion.exc.TensorOperationsInHostCall, helion.exc.BaseWarning)
    wrong = {
        n
        for n, c in vars(helion.exc).items()
        if isinstance(c, type) and not issubclass(c, (errors.TileflowError, UserWarning))
    }
    assert wrong == set()


def test_fragments_are_their_choices_with_the_default_first() -> None:
    assert list(autotuner.PowerOfTwoFragment(1, 8)) == [1, 2, 4, 8]
    assert list(autotuner.PowerOfTwoFragment(2, 16, 8)) == [8, 2, 4, 16]
    assert list(autotuner.IntegerFragment(1, 4, 3)) == [3, 1, 2, 4]
    assert autotuner.EnumFragment(choices=("a", "b")).default() == "a"
    assert list(autotuner.BooleanFragment()) == [False, True]
    for wrong in ((3, 8), (1, 6), (2, 8, 1)):
        with pytest.raises(helion.exc.InvalidConfig):
            autotuner.PowerOfTwoFragment(*wrong)


@given(st.integers(-3, 5000))
def test_arithmetic_of_sizes(n: int) -> None:
    assert helion.cdiv(n, 7) == -(-n // 7)
    power = helion.next_power_of_2(n)
    assert power >= n and power & (power - 1) == 0 and (power == 1 or power // 2 < n)


def test_the_support_of_example_files_compares(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = torch.randn(9, 12), torch.randn(12, 7)
    _testing.run_example({"ours": compat_kernels.matmul}, {"torch": torch.matmul, "at": lambda a, b: a @ b}, (x, y))
    assert capsys.readouterr().err.split("\n")[:2] == ["ours: agrees with torch", "at: agrees with torch"]
    with pytest.raises(AssertionError):
        _testing.run_example(compat_kernels.matmul, lambda a, b: a @ b + 1, (x, y))
    _testing.run_example(compat_kernels.matmul, lambda a, b: a @ b + 1, (x, y), max_mismatch_pct=1.0)
    code, result = _testing.code_and_output(compat_kernels.matmul, (x, y), block_sizes=[16, 16, 16])
    assert "tl.dot" in code
    torch.testing.assert_close(result, x @ y)
    with pytest.raises(errors.CallError, match="grad"):
        _testing.run_example(torch.matmul, torch.matmul, (x, y), bwd=True)


def test_installed_it_is_what_is_imported() -> None:
    program = (
        "import tileflow.compat.helion as ours; ours.install()\n"
        "import helion, helion.language as hl, helion._testing, helion.runtime.config\n"
        "from helion.autotuner import PowerOfTwoFragment\n"
        "from helion.autotuner.config_fragment import EnumFragment\n"
        "from helion.runtime.settings import RefMode\n"
        "from helion.exc import InvalidConfig\n"
        "import tileflow.language as tfl\n"
        "print(helion is ours, hl.tile is tfl.tile, helion.language is hl)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True"] * 3


ALIASES = {"default": "tf32", "high": "tf32x3", "highest": "ieee"}


@pytest.mark.parametrize("alias", ALIASES)
def test_a_precision_by_its_other_name_is_the_same_product(alias: str) -> None:
    def code(precision: str) -> str:
        return str(with_config(dot_precision=precision).bind((META, META.T)).to_triton_code())

    assert helion.Settings(dot_precision=alias).precision == ALIASES[alias]
    assert code(alias) == code(ALIASES[alias])


@helion.kernel(static_shapes=True)
def carries_none(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        carry = None
        for inner in hl.tile(x.size(0)):
            carry = x[inner].sum()
        out[tile] = carry
    return out


def test_errors_of_the_dialects_kernels_name_its_functions() -> None:
    """Issue 14: hints spoke of ``tfl.`` to the dialect's users."""
    with pytest.raises(errors.TraceError) as caught:
        carries_none.bind((torch.empty(64, device="meta"),)).to_triton_code()
    assert "hl.zeros([tile])" in caught.value.hint and "hl.zeros([tile])" in str(caught.value)
    assert "tfl." not in str(caught.value)
    with pytest.raises(errors.SplitError) as refused:
        helion.kernel(_reads_what_a_loop_made)
    assert "tfl." not in str(refused.value)
    assert in_the_dialect("tfl.zeros, tfl.nothing_there") == "hl.zeros, tileflow.language.nothing_there"


def _reads_what_a_loop_made(x: torch.Tensor) -> torch.Tensor:
    for tile in hl.tile(x.size(0)):
        found = x[tile]
    return found


def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] * 2
    return out


def test_a_call_keeps_none_of_its_tensors_alive() -> None:
    """As plain Python each kind of call kept the first one's."""
    for options in ({}, {"config": helion.Config(block_sizes=[4])}, {"ref_mode": helion.RefMode.EAGER}):
        kernel, given = helion.kernel(doubled, **options), torch.zeros(5)
        alive = weakref.ref(given)
        kernel(given)
        del given
        gc.collect()
        assert alive() is None, options


@pytest.mark.parametrize(
    "fragment",
    [autotuner.PowerOfTwoFragment(1, 8), autotuner.IntegerFragment(1, 5, 3), autotuner.EnumFragment("ab"),
     autotuner.BooleanFragment()],
)  # fmt: skip
def test_fragments_are_copied_and_pickled(fragment: autotuner.ConfigSpecFragment) -> None:
    """A kernel of a script that named one in a global could not be tuned: it travels by value."""
    for made in (pickle.loads(pickle.dumps(fragment)), copy.deepcopy(fragment), copy.copy(fragment)):
        assert made == fragment and type(made) is type(fragment)


def test_a_kernel_is_pickled_by_its_name_and_copied_as_itself() -> None:
    kernel = compat_kernels.matmul
    assert pickle.loads(pickle.dumps(kernel)) is kernel and copy.copy(kernel) is kernel
    with pytest.raises(errors.SpecError, match="at the top of a module"):
        pickle.dumps(helion.kernel(doubled_in_a_function()))


def doubled_in_a_function() -> Any:
    def inner(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in hl.tile(x.size()):
            out[tile] = x[tile] * 2
        return out

    return inner


def test_a_kernel_that_no_module_has_travels_by_value() -> None:
    kernel, x = helion.kernel(doubled_in_a_function(), config=helion.Config(block_sizes=[4])), torch.randn(5)
    made, arguments = kernel.by_value()
    again = made(*arguments)
    assert again.configs == kernel.configs and torch.equal(again(x), x * 2)


@pytest.mark.parametrize(
    "wrong",
    [{"settings": {"static_shapes": False}}, {"ref_mode": "eager"}, {"autotuner_fn": 3}, {"autotune_baseline_fn": "f"}],
)
def test_a_setting_of_another_kind_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.ConfigError, match=f"{next(iter(wrong))} (are|is) a"):
        helion.kernel(doubled, **wrong)


@pytest.mark.parametrize("bounds", [("a", 2), (8, 2), (1.0, 2)])
@pytest.mark.parametrize("kind", [autotuner.PowerOfTwoFragment, autotuner.IntegerFragment])
def test_bounds_that_are_none_are_refused(kind: Any, bounds: Any) -> None:
    with pytest.raises(errors.ConfigError, match="two ints, the lower one first"):
        kind(*bounds)


def test_arguments_that_the_kernel_does_not_take_are_refused_with_its_name() -> None:
    kernel, x = helion.kernel(doubled), torch.randn(5)
    for wrong in (lambda: kernel(), lambda: kernel(x, x), lambda: kernel.bind(()), lambda: kernel.bind((x, x))):
        with pytest.raises(errors.CallError, match="doubled must be called as"):
            wrong()
    with pytest.raises(errors.CallError, match="bound to a tuple"):
        kernel.bind(x)  # type: ignore[arg-type]


def test_several_configs_are_timed_on_a_gpu_alone() -> None:
    kernel = helion.kernel(doubled, configs=[helion.Config(block_sizes=[size]) for size in (4, 8)])
    with pytest.raises(errors.CallError, match="timed on a GPU"):
        kernel.autotune((torch.randn(5),), device_class="nvidia-h200")


def test_tensors_on_two_devices_are_refused_with_what_to_do() -> None:
    def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in hl.tile(x.size(0)):
            out[tile] = x[tile] + y[tile]
        return out

    with pytest.raises(errors.CallError, match=r"on one device, but got (.|\n)*x\.to\(device\)"):
        helion.kernel(added).bind((torch.randn(5), torch.empty(5, device="meta")))
