"""Is a call's result right? Outputs and arguments, against a reference in higher precision.

An element passes where ``|out - ref| <= tolerance * (rms(ref) + |ref|)``: the RMS of the whole tensor, or of the
element's row (the last dimension) where that is larger, scales the absolute part, so that a sum near zero of large
terms is not held to its own size: the first rows of causal attention are means over few keys, the others over many.
``tolerance`` goes with the least precise floating-point type among the arguments and the output, whose rounding any
kernel may do once more inside. The smallest step of the output's type is allowed anyway. Integers and booleans must be
equal.

Hundreds of configs are checked against one reference, so nearly all of a check is a first pass of five operations on
each chunk, and one bitwise comparison of each argument that must not change. Only what does not pass it is looked at
with care, NaN by NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .inputs import clone, leaves, map_tensors, poisoned, same_bits, tensors
from .types import Status

if TYPE_CHECKING:
    import torch

# Four units of rounding for the short types; float32's allows for another order of long sums, not for TF32.
_TOLERANCE = {
    "float64": 1e-10, "float32": 1e-4, "float16": 4e-3, "bfloat16": 1.6e-2,
    "float8_e4m3fn": 0.13, "float8_e4m3fnuz": 0.13, "float8_e5m2": 0.25, "float8_e5m2fnuz": 0.25,
}  # fmt: skip
_CHUNK = 1 << 24  # elements compared at a time: the temporaries of a large output would not fit beside it


@dataclass(frozen=True, slots=True)
class Reference:
    """What a call on some arguments must give. ``result``, ``args``: the reference's, in its own precision.

    ``tolerance``: of the least precise floating-point argument. ``strays``: the share of a leaf's elements that may be
    off by more. ``scales``: of the leaves that were compared so far, by
    path: the RMS that each row is held to.
    """

    result: Any
    args: tuple[Any, ...]
    tolerance: float
    strays: float = 0.0
    scales: dict[str, torch.Tensor] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``max_err``: the largest error over its allowance, at most 1 passes; infinite for a wrong shape or a stray NaN.
    ``reason``: where and what, empty when all is right."""

    status: Status
    max_err: float
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK


def upcast(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in the precision of a reference: float64 for float32, float32 for the shorter types, else its own."""
    import torch

    if not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return clone(tensor)
    return tensor.to(torch.float64 if tensor.dtype == torch.float32 else torch.float32)


def make_reference(function: Callable[..., Any], args: Sequence[Any], strays: float = 0.0) -> Reference:
    """Run ``function`` on upcast copies of ``args``. ``strays``: see :class:`Reference`.

    A reference that insists on the dtypes it was written for (it multiplies by a weight it makes itself, say) gets
    copies in those; what it raises then comes through.
    """
    import torch

    tolerance = max((_tolerance(tensor) for _, tensor in leaves(tuple(args), "") if _is_float(tensor)), default=0.0)
    copies = map_tensors(upcast, tuple(args))
    try:
        result = function(*copies)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError):
        copies = map_tensors(clone, tuple(args))
        result = function(*copies)
    return Reference(result, _unless_changed(copies, args), tolerance, strays)


def _unless_changed(copies: tuple[Any, ...], args: Sequence[Any]) -> tuple[Any, ...]:
    """``copies``, with each tensor that still equals its original replaced by it, which takes no memory."""
    originals = iter(tensors(tuple(args)))

    def choose(copy: torch.Tensor) -> torch.Tensor:
        original = next(originals)
        return original if same_bits(copy, original.to(copy.dtype)) else copy

    return tuple(map_tensors(choose, copies))


def check_call(
    call: Callable[..., Any], args: Sequence[Any], reference: Reference, *, repeats: int = 1, scale: float = 1.0
) -> Verdict:
    """Run ``call`` on fresh copies of ``args`` with poisoned memory, ``repeats`` times, and compare each time.

    ``scale`` multiplies every tolerance. Repeating on the same inputs shows races. What ``call`` raises comes through.
    """
    worst = 0.0
    for _ in range(repeats):
        copies = map_tensors(clone, tuple(args))
        with poisoned():
            result = call(*copies)
        for got, expected, path in ((result, reference.result, "result"), (copies, reference.args, "args")):
            verdict = compare(
                got, expected, path=path, at_least=reference.tolerance, scale=scale, strays=reference.strays,
                scales=reference.scales,
            )  # fmt: skip
            if not verdict.ok:
                return verdict
            worst = max(worst, verdict.max_err)
    return Verdict(Status.OK, worst)


def compare(
    got: Any,
    expected: Any,
    *,
    path: str = "result",
    at_least: float = 0.0,
    scale: float = 1.0,
    strays: float = 0.0,
    scales: dict[str, torch.Tensor] | None = None,
) -> Verdict:
    """Compare nested results leaf by leaf; ``at_least``: the tolerance that short arguments allow anyway.

    ``strays``, ``scales``: as in :class:`Reference`; the latter are read and added to.
    """
    scales = {} if scales is None else scales
    ours, theirs = list(leaves(got, path)), list(leaves(expected, path))
    if [p for p, _ in ours] != [p for p, _ in theirs]:
        return _wrong(
            f"{path} must have the structure of the reference's, but has {len(ours)} leaves, not {len(theirs)}"
        )
    worst = 0.0
    for (where, left), (_, right) in zip(ours, theirs, strict=True):
        verdict = _compare_leaf(left, right, where, at_least, scale, strays, scales)
        if not verdict.ok:
            return verdict
        worst = max(worst, verdict.max_err)
    return Verdict(Status.OK, worst)


def _compare_leaf(
    got: Any, expected: Any, where: str, at_least: float, scale: float, strays: float, scales: dict[str, torch.Tensor]
) -> Verdict:
    import torch

    if not isinstance(got, torch.Tensor) or not isinstance(expected, torch.Tensor):
        if isinstance(got, torch.Tensor) or isinstance(expected, torch.Tensor):
            return _wrong(f"{where} is {type(got).__name__}, the reference's is {type(expected).__name__}")
        # Other leaves are Python's own: scalars, None, callables that the call was given.
        same = got == expected or (isinstance(got, float) and got != got and expected != expected)
        return Verdict(Status.OK, 0.0) if same else _wrong(f"{where} is {got!r}, the reference's {expected!r}")
    if got.shape != expected.shape:
        return _wrong(f"{where} has shape {tuple(got.shape)}, the reference's {tuple(expected.shape)}")
    if got.numel() == 0 or (got.dtype == expected.dtype and same_bits(got, expected.to(got.device))):
        return Verdict(Status.OK, 0.0)
    if not got.is_floating_point():
        return _compare_exact(got, expected, where, strays)
    return _compare_float(got, expected, where, max(_tolerance(got), at_least) * scale, strays, scales)


def _compare_exact(got: torch.Tensor, expected: torch.Tensor, where: str, strays: float) -> Verdict:
    wrong = got != expected.to(got.device)
    count = int(wrong.sum())
    if count <= strays * got.numel():
        return Verdict(Status.OK, float(count > 0))
    at = _first(wrong)
    return _wrong(
        f"{where}: {count} of {got.numel()} differ, first at {at}: {got[at].item()} not {expected[at].item()}"
    )


def _compare_float(
    got: torch.Tensor, expected: torch.Tensor, where: str, tolerance: float, strays: float,
    scales: dict[str, torch.Tensor],
) -> Verdict:  # fmt: skip
    import torch

    out, ref = _chunks(got), _chunks(expected.to(got.device))
    if where not in scales:
        scales[where] = _row_scales(ref)
    rms = torch.split(scales[where], len(out[0])) if len(scales[where]) > 1 else [scales[where]] * len(out)
    parts = list(zip(out, ref, rms, strict=True))
    worst = float(torch.stack([_worst(*part) for part in parts]).amax()) / tolerance  # NaN where anything is not finite
    if worst <= 1:
        return Verdict(Status.OK, worst)
    facts = torch.stack([_tally(*_judge(*part, tolerance)) for part in parts]).cpu()
    unlike, wrong, worst = int(facts[:, 0].sum()), int(facts[:, 1].sum()), float(facts[:, 2].max())
    if not unlike and wrong <= strays * got.numel():
        return Verdict(Status.OK, min(worst, 1.0))
    chunk = int((facts[:, 0] > 0).int().argmax() if unlike else facts[:, 2].argmax())
    special, ratio = _judge(*parts[chunk], tolerance)
    flat = int(special.int().argmax() if unlike else ratio.argmax()) + chunk * out[0].numel()
    at = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), got.shape))
    values = f"at {at}: {got[at].item():.6g} not {expected[at].item():.6g}"
    if unlike:
        reason = f"{where}: {unlike} of {got.numel()} not finite as the reference is, first {values}"
        return Verdict(Status.NONFINITE, float("inf"), reason)
    least = float(scales[where].min())
    reason = f"{where}: {wrong} of {got.numel()} off by more than {tolerance:g} of rms {least:.4g}, most {values}"
    return Verdict(Status.INCORRECT, worst, reason)


def _chunks(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Groups of rows; a tensor of one dimension, or with rows longer than a chunk, has rows of one element."""
    import torch

    width = tensor.shape[-1] if tensor.ndim > 1 and tensor.shape[-1] <= _CHUNK else 1
    return torch.split(tensor.reshape(-1, width), max(_CHUNK // width, 1))


def _row_scales(ref: Sequence[torch.Tensor]) -> torch.Tensor:
    """The RMS of the whole tensor, or that of each row where it is larger; shape (rows, 1), or (1, 1) for rows of one
    element."""
    import torch

    squares = [_finite_squares(part) for part in ref]
    whole = torch.stack([part.sum(0) for part in squares]).sum(0)
    rms = (whole[:1] / whole[1:].clamp(min=1)).sqrt()[None]
    if ref[0].shape[1] == 1:
        return rms
    each = torch.cat(squares)
    return (each[:, :1] / each[:, 1:].clamp(min=1)).sqrt().maximum(rms)


def _worst(got: torch.Tensor, expected: torch.Tensor, rms: torch.Tensor) -> torch.Tensor:
    """The largest ``|got - expected| / (rms + |expected|)`` of a chunk, in few passes over memory.

    NaN where anything is not finite, or the reference all zero.
    """
    import torch

    wide = _wide(expected)
    ref = expected.to(wide)
    allowed = ref.abs().add_(rms.to(wide))
    out = got.to(wide) if got.element_size() == 1 else got  # types of one byte promote to nothing
    return torch.sub(out, ref).to(wide).abs_().div_(allowed).amax().double()


def _wide(expected: torch.Tensor) -> torch.dtype:
    import torch

    return torch.float64 if expected.dtype == torch.float64 else torch.float32


def _finite_squares(ref: torch.Tensor) -> torch.Tensor:
    """(sum of squares, count) of the finite elements of each row; shape (rows, 2)."""
    import torch

    values = ref.double()
    finite = values.isfinite()
    return torch.stack((values.where(finite, 0).square().sum(1), finite.sum(1).double()), 1)


def _tally(unlike: torch.Tensor, ratio: torch.Tensor) -> torch.Tensor:
    """(count of ``unlike``, count of ratios above 1, largest ratio), still on the device."""
    import torch

    return torch.stack((unlike.sum(), (ratio > 1).sum(), ratio.max()))


def _judge(
    got: torch.Tensor, expected: torch.Tensor, rms: torch.Tensor, tolerance: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(elements that are special where the reference is not, or otherwise; error over allowance) of one chunk."""
    import torch

    wide = _wide(expected)
    out, ref = got.to(wide), expected.to(wide)
    # Past the output type's range the reference's own rounding to it is infinite, and so may the output be.
    special = out.isfinite() != ref.isfinite()
    rounded = ref.to(got.dtype).to(wide)
    same = (out == rounded) | (out.isnan() & rounded.isnan())
    both = out.isfinite() & ref.isfinite()
    unlike = (special | ~both) & ~same
    error = (out - ref).abs().where(both, 0)
    least = torch.finfo(got.dtype).smallest_normal * torch.finfo(got.dtype).eps  # the step between subnormal numbers
    allowed = tolerance * (rms.to(wide) + ref.abs()) + least
    return unlike, torch.where(error == 0, 0.0, error / allowed).double()


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in mask.nonzero()[0])


def _wrong(reason: str) -> Verdict:
    return Verdict(Status.INCORRECT, float("inf"), reason)


def _is_float(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _tolerance(tensor: torch.Tensor) -> float:
    return _TOLERANCE[str(tensor.dtype).removeprefix("torch.")]
