"""The check: what passes, what is caught, on CPU tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tileflow.measure.check import check_call, compare, make_reference
from tileflow.measure.inputs import Restorer, clone, copied, poisoned
from tileflow.measure.types import Status
from tileflow.tolerances import Tolerances

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def rows(dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[torch.Tensor]:
    return (torch.randn(17, 33, generator=torch.Generator().manual_seed(seed)).to(dtype),)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_right_result_in_its_own_precision_passes(dtype: torch.dtype) -> None:
    args = rows(dtype)
    verdict = check_call(lambda x: softmax(x.float()).to(dtype), args, make_reference(softmax, args))
    assert verdict.ok and 0 < verdict.max_err < 0.9


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_wrong_factor_is_caught_in_every_precision(dtype: torch.dtype) -> None:
    args = rows(dtype)
    verdict = check_call(lambda x: (softmax(x.float()) * 1.6).to(dtype), args, make_reference(softmax, args))
    assert verdict.status is Status.INCORRECT and verdict.max_err > 1
    assert "result" in verdict.reason


def test_one_wrong_element_is_caught_and_named() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        out = softmax(x)
        out[3, 5] += 0.01
        return out

    args = rows()
    verdict = check_call(call, args, make_reference(softmax, args))
    assert verdict.status is Status.INCORRECT and "1 of 561" in verdict.reason and "(3, 5)" in verdict.reason


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_unwritten_output_is_caught(dtype: torch.dtype) -> None:
    args = rows(dtype)

    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        out[:-1] = softmax(x.float())[:-1].to(dtype)
        return out

    verdict = check_call(call, args, make_reference(softmax, args))
    assert verdict.status is Status.NONFINITE and "33 of 561" in verdict.reason and "(16, 0)" in verdict.reason


def test_an_unwritten_integer_output_is_caught() -> None:
    args = rows()
    reference = make_reference(lambda x: torch.zeros(4, dtype=torch.int64), args)
    assert check_call(lambda x: torch.empty(4, dtype=torch.int64), args, reference).status is Status.INCORRECT


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nonfinite_values_are_caught_unless_the_reference_has_them(bad: float) -> None:
    args = rows()

    def call(x: torch.Tensor) -> torch.Tensor:
        out = x.clone()
        out[0, 0] = bad
        return out

    assert check_call(call, args, make_reference(lambda x: x, args)).status is Status.NONFINITE
    assert check_call(call, args, make_reference(call, args)).ok
    assert check_call(lambda x: x, args, make_reference(call, args)).status is Status.NONFINITE


def test_an_infinity_of_the_wrong_sign_is_caught() -> None:
    inf = torch.tensor([float("inf")])
    assert not compare(-inf, inf.double()).ok and compare(inf, inf.double()).ok


def test_overflow_of_the_output_type_may_be_infinite() -> None:
    big = torch.tensor([1e6, 1.0])
    assert compare(big.half(), big.double()).ok
    assert not compare(torch.tensor([1.0, float("inf")]).half(), big.double()).ok


def test_changed_arguments_are_compared() -> None:
    args = rows()
    in_place = make_reference(lambda x: x.mul_(2), args)
    assert check_call(lambda x: x.mul_(2), args, in_place).ok
    verdict = check_call(lambda x: x * 2, args, in_place)
    assert verdict.status is Status.INCORRECT and verdict.reason.startswith("args[0]")
    verdict = check_call(lambda x: x.mul_(2), args, make_reference(lambda x: x * 2, args))
    assert verdict.status is Status.INCORRECT and verdict.reason.startswith("args[0]")
    assert torch.equal(args[0], rows()[0])


def test_a_race_shows_in_repeats() -> None:
    args, runs = rows(), iter(range(10))

    def call(x: torch.Tensor) -> torch.Tensor:
        return softmax(x) + (0.5 if next(runs) == 3 else 0)

    reference = make_reference(softmax, args)
    assert check_call(call, args, reference, repeats=3).ok
    assert not check_call(call, args, reference, repeats=3).ok


def test_structure_shape_and_type_must_agree() -> None:
    x = torch.zeros(3)
    assert "structure" in compare((x, x), x).reason
    assert "shape" in compare(x, torch.zeros(4)).reason
    assert "result[0] is float" in compare((1.0,), (x,)).reason
    assert compare({"a": [x, None, 2]}, {"a": [x, None, 2]}).ok
    assert not compare({"a": [x, None, 2]}, {"a": [x, None, 3]}).ok


def test_dictionaries_are_equal_in_any_order_and_what_one_lacks_is_named() -> None:
    x, y = torch.zeros(3), torch.ones(3)
    assert compare({"a": x, "b": y}, {"b": y, "a": x}).ok
    assert not compare({"a": x, "b": y}, {"b": x, "a": y}).ok
    assert compare({2: x, "a b": y}, {"a b": y, 2: x}).ok and not compare({1: x}, {2: x}).ok
    named = compare({"sums": x, "b": y}, {"total": x, "b": y}).reason
    assert "result['sums']" in named and "lacks result['total']" in named and "result['b']" not in named
    assert "lacks nothing" in compare([x] * 9, [x] * 2).reason and "4 more" in compare([x] * 9, [x] * 2).reason


def test_cancellation_is_judged_by_the_whole_tensors_scale() -> None:
    reference = torch.tensor([1000.0, 0.0], dtype=torch.float64)
    assert compare(torch.tensor([1000.0, 0.01]), reference).ok
    assert not compare(torch.tensor([1000.0, 1.0]), reference).ok


def test_a_float32_output_of_bfloat16_arguments_has_their_tolerance() -> None:
    args = rows(torch.bfloat16)
    reference = make_reference(lambda x: x.sum(-1), args)
    assert check_call(lambda x: x.sum(-1).float(), args, reference).ok
    exact = rows(torch.float32)
    assert not check_call(lambda x: x.sum(-1).bfloat16().float(), exact, make_reference(lambda x: x.sum(-1), exact)).ok


def test_a_reference_that_insists_on_its_dtypes_gets_them() -> None:
    args = rows(torch.bfloat16)
    weight = torch.ones(33, 8).bfloat16()
    reference = make_reference(lambda x: x @ weight, args)
    assert reference.result.dtype == torch.bfloat16
    with pytest.raises(IndexError):
        make_reference(lambda x: x[100], args)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(FLOATS), st.floats(1e-6, 1e6), st.integers(0, 1000))
def test_rounding_once_more_always_passes(dtype: torch.dtype, size: float, seed: int) -> None:
    x = torch.randn(64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * size
    if size < 1e2 and (dtype in (torch.float32, torch.bfloat16) or size > 1e-2):
        assert compare(x.to(dtype), x).ok


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("out", [None, torch.float32])
def test_a_fill_by_the_arguments_type_is_what_their_own_type_gives(dtype: torch.dtype, out: torch.dtype | None) -> None:
    """Copies in higher precision have another smallest number: a float32 output would hold it as an infinity."""

    def function(x: torch.Tensor) -> torch.Tensor:
        made = torch.full_like(x, torch.finfo(x.dtype).min, dtype=out)
        made[3:] = softmax(x.float() if out else x)[3:]
        return made

    args = rows(dtype)
    reference = make_reference(function, args)
    assert check_call(function, args, reference).ok
    if dtype != torch.float16:  # whose largest number may be any result's
        assert check_call(lambda x: function(x) + 0.5, args, reference).status is Status.INCORRECT
    kept = reference.result[3:].to(torch.float64)
    assert (kept - softmax(args[0].double())[3:]).abs().max() < 1e-6  # the others stay in higher precision


def test_a_sum_beyond_the_arguments_type_stays_that_in_the_reference() -> None:
    args = (torch.full((2, 9), 60000.0, dtype=torch.float16),)
    reference = make_reference(lambda x: x.float().sum(1), args)
    assert reference.result.tolist() == [540000.0] * 2
    verdict = check_call(lambda x: x.float().sum(1).clamp(max=60000.0), args, reference)
    assert verdict.status is Status.INCORRECT


def test_poisoning_ends_with_its_block() -> None:
    with poisoned():
        assert torch.empty(1000).isnan().all() and torch.empty_like(torch.ones(5)).isnan().all()
    assert not torch.are_deterministic_algorithms_enabled()


def test_clones_keep_strides() -> None:
    x = torch.randn(8, 6)[:, ::2].t()
    copy = clone(x)
    assert torch.equal(copy, x) and copy.stride() == x.stride()


def test_a_copy_is_as_aligned_as_its_original_and_so_are_views_of_it() -> None:
    """What was lowered for a call is checked on copies of its arguments: a row that begins at a multiple of 16 bytes in
    the original alone would be refused there."""
    memory = torch.arange(40, dtype=torch.float16)
    for behind in (0, 1, 7):
        x = memory[behind + (-memory.data_ptr() % 16) // 2 :][:14].view(2, 7)
        for one in (x, x.t(), x[:1].expand(3, 7), x[:, ::2]):
            copy = clone(one)
            assert torch.equal(copy, one) and copy.stride() == one.stride()
            assert copy.data_ptr() % 16 == one.data_ptr() % 16 == 2 * behind
        assert clone(x)[1].data_ptr() % 16 == x[1].data_ptr() % 16


def test_the_restorer_keeps_only_what_changed() -> None:
    x, y, mask = torch.randn(10), torch.tensor([float("nan"), 1.0]), torch.ones(3, dtype=torch.bool)
    before: list[Any] = [t.clone() for t in (x, y, mask)]
    restorer = Restorer((x, [y, {"mask": mask}], 3))
    x.zero_()
    assert restorer.observe() == 40
    restorer.restore()
    assert torch.equal(x, before[0])
    y.zero_()
    restorer.restore()
    assert torch.equal(y, torch.zeros(2))


def test_tensors_are_compared_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileflow.measure import deviation

    reference = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    whole = compare(reference.float(), reference).max_err
    monkeypatch.setattr(deviation, "CHUNK", 12)
    assert compare(reference.float(), reference).max_err == pytest.approx(whole)
    out = reference.float()
    out[5, 2] += 1
    assert "1 of 35" in compare(out, reference).reason and "(5, 2)" in compare(out, reference).reason
    out[6, 1] = float("nan")
    verdict = compare(out, reference)
    assert verdict.status is Status.NONFINITE and "(6, 1)" in verdict.reason


def test_a_reference_keeps_copies_only_of_what_it_changed() -> None:
    x, y = torch.randn(9), torch.randn(9)
    reference = make_reference(lambda x, y: x.add_(y), (x, y))
    assert reference.args[1] is y and reference.args[0] is not x
    assert reference.args[0].dtype == torch.float64


def test_a_row_of_large_elements_is_held_to_its_own_size() -> None:
    """As the first rows of causal attention are; elsewhere the same error is one."""
    expected = torch.full((1000, 64), 0.01)
    expected[0] = torch.linspace(-2, 2, 64)
    off = expected.bfloat16()
    off[0, 32] += 0.015
    assert compare(off, expected).ok
    off = expected.bfloat16()
    off[1, 32] += 0.015
    assert compare(off, expected).status is Status.INCORRECT


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_a_share_of_the_elements_may_stray(dtype: torch.dtype) -> None:
    args = (torch.arange(1000, dtype=dtype),)

    def call(x: torch.Tensor) -> torch.Tensor:
        out = x.clone()
        out[:10] += 100
        return out

    assert check_call(call, args, make_reference(lambda x: x.clone(), args, Tolerances(max_mismatch_ratio=0.01))).ok
    verdict = check_call(call, args, make_reference(lambda x: x.clone(), args, Tolerances(max_mismatch_ratio=0.009)))
    assert verdict.status is Status.INCORRECT and "10 of 1000" in verdict.reason


def test_a_reference_of_higher_precision_alone_stays_where_its_results_are_infinite() -> None:
    """Masked elements are beyond every type's range, so that the function is asked in the arguments' own type too."""

    def masked(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float64:
            raise RuntimeError('"masked" not implemented for this dtype')
        return x.masked_fill(x > 0, float("-inf"))

    assert make_reference(masked, (torch.tensor([-1.0, 1.0]),)).result.tolist() == [-1.0, float("-inf")]


@pytest.mark.parametrize("of", [lambda x: x, torch.conj], ids=["as it is", "conjugate"])
def test_complex_results_are_judged_as_pairs_of_reals(of: Any) -> None:
    """They were held to equality, to which no rounding keeps."""
    x = torch.randn(100, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    reference = make_reference(lambda x: of(x * 2).exp(), (x,))
    assert check_call(lambda x: of(x * 2).exp() * (1 + 1e-7), (x,), reference).ok
    assert not check_call(lambda x: of(x * 2).exp() + 0.1j, (x,), reference).ok
    assert compare(of(x), of(x)).max_err == 0


def adds_twice(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x + 1)
    out.add_(x)  # what was stored, where the two are one


def loads_once(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(2 * x.clone() + 1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_arguments_that_share_memory_are_checked_as_they_lie(dtype: torch.dtype) -> None:
    def in_float32(call: Any) -> Any:
        def called(x: torch.Tensor, out: torch.Tensor) -> None:
            shares = x.data_ptr() == out.data_ptr()
            wide = x.float()
            call(wide, given := wide if shares else torch.empty_like(wide))
            out.copy_(given.to(dtype))

        return called

    one, (apart,) = rows(dtype)[0], rows(dtype)
    together = make_reference(adds_twice, (one, one))
    assert check_call(in_float32(adds_twice), (one, one), together).ok
    assert check_call(in_float32(loads_once), (one, one), together).status is Status.INCORRECT
    assert check_call(in_float32(loads_once), (one, apart.clone()), make_reference(adds_twice, (one, apart))).ok


def test_a_view_and_its_base_are_checked_as_they_lie() -> None:
    def shifts(base: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        view.mul_(2)
        return base + 1

    base = torch.randn(40, dtype=torch.float16)
    reference = make_reference(shifts, (base, base[7:]))
    assert check_call(shifts, (base, base[7:]), reference).ok
    assert not check_call(lambda base, view: (base + 1, view.mul_(2))[0], (base, base[7:]), reference).ok


def test_copies_lie_to_each_other_and_to_alignment_as_their_originals_do() -> None:
    base = torch.arange(1000.0)
    given = (base[1:9], base[4:20:2], {"all": base[:30].view(5, 6).t(), "same": base[1:9]}, torch.arange(3.0))
    for copy in (clone, torch.Tensor.double):
        a, b, held, alone = copied(given, copy)
        assert [a.tolist(), b.tolist(), held["all"].tolist()] == [x.tolist() for x in (*given[:2], given[2]["all"])]
        assert b.data_ptr() - a.data_ptr() == 3 * a.element_size() and held["all"].stride() == (1, 6)
        assert alone.untyped_storage().data_ptr() != a.untyped_storage().data_ptr()
        a.fill_(-1.0)
        assert held["same"].eq(-1).all() and held["all"][3, 1] == 9 and b[0] == -1 and base[1] == 1
    aligned = base[4 - base.data_ptr() % 16 // 4 :]
    assert [x.data_ptr() % 16 for x in copied((aligned[:9], aligned[2:]))] == [0, 8]


def test_views_of_one_memory_in_two_dtypes_are_checked_in_those() -> None:
    def signs(bits: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        bits.bitwise_and_(0x7FFF)
        return x.float().sum()

    x = torch.randn(64, dtype=torch.float16)
    args = (x.view(torch.int16), x)
    reference = make_reference(signs, args)
    assert reference.result == x.abs().float().sum() and check_call(signs, args, reference).ok
    assert not check_call(lambda bits, x: (x.float().sum(), bits.bitwise_and_(0x7FFF))[0], args, reference).ok
