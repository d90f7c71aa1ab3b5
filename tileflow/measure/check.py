"""Is a call's result right? Outputs and arguments, against a reference in higher precision.

An element passes where ``|out - ref| <= tolerance * (rms(ref) + |ref|)``: the RMS of the whole tensor, or of the
element's row (the last dimension) where that is larger, scales the absolute part, so that a sum near zero of large
terms is not held to its own size: the first rows of causal attention are means over few keys, the others over many.
``tolerance`` goes with the least precise floating-point type among the arguments and the output, whose rounding any
kernel may do once more inside. The smallest step of the output's type is allowed anyway. Integers and booleans must be
equal. Where the problem itself is more sensitive to rounding than that, its noise is measured, and says how many
elements of each output may be further off, and how far (:mod:`.noise`). What the author says overrides both
(:class:`tileflow.tolerances.Tolerances`).

Call and reference get copies of the arguments. Those of arguments that share memory share theirs likewise, so that
``k(x, x)`` is checked as it is called.

Hundreds of configs are checked against one reference, so nearly all of a check is a first pass of five operations on
each chunk, and one bitwise comparison of each argument that must not change. Only what does not pass it is looked at
with care, NaN by NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..tolerances import UNSAID, Tolerances
from .deadline import NoText, OutOfTime, deadline
from .deviation import by_chunk, chunks, flipped, judge, row_scales
from .deviation import worst as worst_of
from .inputs import as_reals, clone, copied, leaves, map_tensors, poisoned, same_bits, tensors
from .noise import DOUBT, MARGIN, MOST_SHARE, Measured, Noise
from .types import Status

if TYPE_CHECKING:
    import torch

    from .kernel import MeasurableKernel

# Four units of rounding for the short types; float32's allows for another order of long sums, not for TF32.
_TOLERANCE = {
    "float64": 1e-10,
    "float32": 1e-4,
    "float16": 4e-3,
    "bfloat16": 1.6e-2,
    "float8_e4m3fn": 0.13,
    "float8_e4m3fnuz": 0.13,
    "float8_e5m2": 0.25,
    "float8_e5m2fnuz": 0.25,
}
_LEAST_RTOL = 1e-12  # an author's absolute tolerance alone is one relative to almost nothing


@dataclass(frozen=True, slots=True)
class Reference:
    """What a call on some arguments must give. ``result``, ``args``: the reference's, in its own precision.

    ``tolerance``: of the least precise floating-point argument. ``author``: what overrides it. ``noise``: asked where
    an output is further off. ``scales``: of the leaves that were compared so far, by path: the RMS that each row is
    held to.
    """

    result: Any
    args: tuple[Any, ...]
    tolerance: float
    author: Tolerances = UNSAID
    noise: Noise | None = field(default=None, compare=False, repr=False)
    scales: dict[str, torch.Tensor] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Made:
    """What a reference gave: its result, and of each tensor among its arguments the copy that it changed, else None.

    ``is_wide``: it was given copies in higher precision.
    """

    result: Any
    changed: tuple[torch.Tensor | None, ...]
    is_wide: bool


Keep = Callable[[Callable[[], Made]], Made]
Limited = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """``max_err``: the largest error over its allowance, at most 1 passes; infinite for a wrong shape or a stray NaN.
    ``reason``: where and what, empty when all is right."""

    status: Status
    max_err: float
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the result passed."""
        return self.status is Status.OK


def upcast(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in the precision of a reference: float64 for float32, float32 for the shorter types, else its own."""
    import torch

    if not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return clone(tensor)
    return tensor.to(torch.float64 if tensor.dtype == torch.float32 else torch.float32)


def reference_of(
    kernel: MeasurableKernel,
    args: Sequence[Any],
    measured: Measured | None = None,
    keep: Keep | None = None,
    text_s: float = math.inf,
    limited: Limited | None = None,
) -> Reference:
    """What a call of ``kernel`` on ``args`` must give. ``measured``: what is known of the problem's noise, added to.
    ``keep``: as of :func:`make_reference`. ``limited``: ends what an author wrote in time. Raises NoText where nobody
    wrote a reference, and the kernel's own text as plain Python, which stands for one, has no result in ``text_s``
    seconds."""
    baseline = kernel.baseline
    return make_reference(
        kernel.reference if baseline is None else baseline,
        args,
        kernel.tolerances,
        meaning=kernel.run_eagerly,
        is_text=not kernel.has_reference,
        measured=measured,
        as_given=baseline is not None,
        keep=keep,
        limited=limited if kernel.has_reference else partial(_within, text_s),
    )


def _within(seconds: float, text: Callable[..., Any]) -> Callable[..., Any]:
    """``text`` as a phase of its own, which ends where its last call of torch has ended on the device."""
    if math.isinf(seconds):
        return text

    def limited(*args: Any) -> Any:
        import torch

        from ..build.serve import report

        report("text")
        try:
            with deadline(seconds):
                made = text(*args)
        except (OutOfTime, NotImplementedError) as error:  # torch's own: it has no such operation on this device
            raise NoText(f"the kernel's own text as plain Python: {error}") from error
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        report("prepare")
        return made

    return limited


def make_reference(
    function: Callable[..., Any],
    args: Sequence[Any],
    author: Tolerances = UNSAID,
    *,
    meaning: Callable[..., Any] | None = None,
    is_text: bool = False,
    measured: Measured | None = None,
    as_given: bool = False,
    keep: Keep | None = None,
    limited: Limited | None = None,
) -> Reference:
    """Run ``function`` on upcast copies of ``args``, or on copies ``as_given``. ``meaning``, ``is_text``,
    ``measured``: see :class:`.noise.Noise`. ``keep``: makes it, or knows what another process made of the same
    arguments. ``limited``: ends ``function`` in time where it makes the reference; noise has a limit of its own.

    A reference that insists on the dtypes it was written for (it multiplies by a weight it makes itself, say) gets
    copies in those; what it raises then comes through.
    """
    given = (leaf for _, leaf in leaves(as_reals(tuple(args)), "") if _is_float(leaf))
    tolerance = max(map(_tolerance, given), default=0.0)

    def make() -> Made:
        return _made(function if limited is None else limited(function), args, as_given)

    made = make() if keep is None else keep(make)
    noise = None
    if not author.given:
        copy = upcast if made.is_wide else clone
        known = Measured() if measured is None else measured
        noise = Noise(function, tuple(args), copy, meaning, is_text, known)
    changed = iter(made.changed)
    expected = map_tensors(lambda tensor: _or(next(changed), tensor), tuple(args))
    return Reference(made.result, tuple(expected), tolerance, author, noise)


def _or(changed: torch.Tensor | None, tensor: torch.Tensor) -> torch.Tensor:
    return tensor if changed is None else changed


def _made(function: Callable[..., Any], args: Sequence[Any], as_given: bool) -> Made:
    wide = None if as_given else _made_wide(function, args)
    if wide is not None and not any(bool(_beyond(x, args).any()) for x in _floats(wide)):
        return wide
    try:
        given = _made_as_given(function, args)
    except (RuntimeError, TypeError, ValueError):
        if wide is None:
            raise
        return wide  # no room for both, or higher precision alone, as of some of torch's operations on a CPU
    return given if wide is None else _within_range(wide, given, args)


def _made_as_given(function: Callable[..., Any], args: Sequence[Any]) -> Made:
    copies = copied(args)
    return Made(function(*copies), _changed(copies, args), False)


def _made_wide(function: Callable[..., Any], args: Sequence[Any]) -> Made | None:
    """What higher precision gives; None where the function, or the memory that arguments share, insists on its
    dtypes."""
    import torch

    try:
        copies = copied(args, upcast)
    except TypeError:  # views of one memory in several dtypes
        return None
    try:
        return Made(function(*copies), _changed(copies, args), True)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError):
        return None


def _floats(made: Made) -> list[torch.Tensor]:
    found = (*tensors(made.result), *(x for x in made.changed if x is not None))
    return [x for x in found if x.is_floating_point()]


def _beyond(values: torch.Tensor, args: Sequence[Any]) -> torch.Tensor:
    """Which of them are no numbers of the shortest floating-point type among the arguments."""
    import torch

    kinds = [x.dtype for x in tensors(tuple(args)) if x.is_floating_point()]
    most = min((torch.finfo(kind).max for kind in kinds), default=math.inf)
    return ~(values.to(torch.float64 if values.dtype == torch.float64 else torch.float32).abs() <= most)


def _within_range(wide: Made, given: Made, args: Sequence[Any]) -> Made:
    """``wide``, but what the arguments as they are give where that alone is a number of their type: a function that
    fills with ``torch.finfo(x.dtype).min`` goes by the type that it is given."""
    import torch

    others = iter(_floats(given))

    def merged(x: torch.Tensor | None) -> torch.Tensor | None:
        if x is None or not x.is_floating_point():
            return x
        other = next(others, None)
        if other is None or other.shape != x.shape:
            return x
        return torch.where(_beyond(x, args) & ~_beyond(other, args), other.to(x.dtype), x)

    return Made(map_tensors(merged, wide.result), tuple(map(merged, wide.changed)), True)


def _changed(copies: tuple[Any, ...], args: Sequence[Any]) -> tuple[torch.Tensor | None, ...]:
    """Of each tensor the copy, None where it still equals its original, which then takes no memory."""
    pairs = zip(tensors(tuple(copies)), tensors(tuple(args)), strict=True)
    return tuple(None if same_bits(copy, original.to(copy.dtype)) else copy for copy, original in pairs)


def check_call(
    call: Callable[..., Any], args: Sequence[Any], reference: Reference, *, repeats: int = 1, scale: float = 1.0
) -> Verdict:
    """Run ``call`` on fresh copies of ``args`` with poisoned memory, ``repeats`` times, and compare each time.

    ``scale`` multiplies every tolerance. Repeating on the same inputs shows races. What ``call`` raises comes through.
    """
    worst = 0.0
    for _ in range(repeats):
        copies = copied(args)
        with poisoned():
            result = call(*copies)
        for got, expected, path in ((result, reference.result, "result"), (copies, reference.args, "args")):
            verdict = compare_with(reference, got, expected, path, scale)
            if not verdict.ok:
                return verdict
            worst = max(worst, verdict.max_err)
    return Verdict(Status.OK, worst)


def compare(got: Any, expected: Any, *, path: str = "result") -> Verdict:
    """Compare nested results leaf by leaf, by the types of ``got`` alone."""
    return compare_with(Reference(expected, (), 0.0), got, expected, path)


def compare_with(reference: Reference, got: Any, expected: Any, path: str = "result", scale: float = 1.0) -> Verdict:
    """Compare nested results leaf by leaf with ``expected``, which is the result or the arguments of ``reference``, or
    a part of them, in whatever order dictionaries hold their items. ``scale`` multiplies every tolerance."""
    ours, theirs = (dict(leaves(as_reals(value), path)) for value in (got, expected))
    if ours.keys() != theirs.keys():
        more, missing = ([p for p in a if p not in b] for a, b in ((ours, theirs), (theirs, ours)))
        return _wrong(
            f"{path} must have the structure of the reference's, but has {_few(more)}, which the reference has not, "
            f"and lacks {_few(missing)}"
        )
    worst = 0.0
    for where, left in ours.items():
        verdict = _compare_leaf(left, theirs[where], where, reference, scale)
        if not verdict.ok:
            return verdict
        worst = max(worst, verdict.max_err)
    return Verdict(Status.OK, worst)


def _few(paths: Sequence[str], most: int = 3) -> str:
    """Some of the paths, and how many more there are."""
    more = [f"{len(paths) - most} more"] if len(paths) > most else []
    return ", ".join([*paths[:most], *more]) or "nothing"


def _compare_leaf(got: Any, expected: Any, where: str, reference: Reference, scale: float) -> Verdict:
    import torch

    if not isinstance(got, torch.Tensor) or not isinstance(expected, torch.Tensor):
        if isinstance(got, torch.Tensor) or isinstance(expected, torch.Tensor):
            return _wrong(f"{where} is {type(got).__name__}, the reference's is {type(expected).__name__}")
        # Other leaves are Python's own: scalars, None, callables that the call was given.
        same = got == expected or (isinstance(got, float) and got != got and expected != expected)
        return Verdict(Status.OK, 0.0) if same else _wrong(f"{where} is {got!r}, the reference's {expected!r}")
    if got.shape != expected.shape:
        return _wrong(f"{where} has shape {tuple(got.shape)}, the reference's {tuple(expected.shape)}")
    is_here = got.device == expected.device
    if got.numel() == 0 or (is_here and got.dtype == expected.dtype and same_bits(got, expected)):
        return Verdict(Status.OK, 0.0)
    if not got.is_floating_point():
        return _compare_exact(got, expected, where, reference)
    return _compare_float(got, expected, where, reference, scale)


def _compare_exact(got: torch.Tensor, expected: torch.Tensor, where: str, reference: Reference) -> Verdict:
    import torch

    pairs = zip(chunks(got), chunks(expected), strict=True)
    wrong = torch.cat([out != ref.to(got.device) for out, ref in pairs]).view(got.shape)
    count = int(wrong.sum())
    if count <= _strays(reference, got) or _is_noise(reference, where, got, count, 0.0, 1.0):
        return Verdict(Status.OK, float(count > 0))
    at = _first(wrong)
    return _wrong(
        f"{where}: {count} of {got.numel()} differ, first at {at}: {got[at].item()} not {expected[at].item()}"
    )


def _compare_float(
    got: torch.Tensor, expected: torch.Tensor, where: str, reference: Reference, scale: float
) -> Verdict:
    import torch

    out, ref = chunks(got), chunks(expected)
    tolerance, base = _bounds(got, ref, where, reference)
    tolerance *= scale
    bases = by_chunk(base, out)

    def part(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """One chunk of output, reference and bases, copied to the device where it lies in host memory."""
        return out[number], ref[number].to(got.device), bases[number].to(got.device)

    worst = float(torch.stack([worst_of(*part(n)) for n in range(len(out))]).amax()) / tolerance
    if worst <= 1:  # it is NaN where anything is not finite
        return Verdict(Status.OK, worst)
    facts = torch.stack([_tally(*judge(*part(n), tolerance)) for n in range(len(out))]).cpu()
    unlike, wrong, worst = int(facts[:, 0].sum()), int(facts[:, 1].sum()), float(facts[:, 2].max())
    if unlike <= _flips(reference, where, out, ref, unlike) and (
        wrong <= _strays(reference, got) or _is_noise(reference, where, got, wrong, worst, tolerance)
    ):
        return Verdict(Status.OK, min(worst, 1.0))
    chunk = int((facts[:, 0] > 0).int().argmax() if unlike else facts[:, 2].argmax())
    special, ratio = judge(*part(chunk), tolerance)
    flat = int(special.int().argmax() if unlike else ratio.argmax()) + chunk * out[0].numel()
    at = _place(flat, got.shape)
    values = f"at {at}: {got[at].item():.6g} not {expected[at].item():.6g}"
    if unlike:
        reason = f"{where}: {unlike} of {got.numel()} not finite as the reference is, first {values}"
        return Verdict(Status.NONFINITE, float("inf"), reason)
    least = float(base.min())
    reason = f"{where}: {wrong} of {got.numel()} off by more than {tolerance:g} of rms {least:.4g}, most {values}"
    return Verdict(Status.INCORRECT, worst, reason + _noise_text(reference, where, tolerance))


def _bounds(
    got: torch.Tensor, ref: Sequence[torch.Tensor], where: str, reference: Reference
) -> tuple[float, torch.Tensor]:
    """(the tolerance, what of it is allowed of an element that is 0): the author's, else the types'."""
    author = reference.author
    if author.atol is not None or author.rtol is not None:
        rtol = max(author.rtol or 0.0, _LEAST_RTOL)
        return rtol, ref[0].new_full((1, 1), (author.atol or 0.0) / rtol).double()
    if where not in reference.scales:
        reference.scales[where] = row_scales(ref)
    return max(_tolerance(got), reference.tolerance), reference.scales[where]


def _strays(reference: Reference, got: torch.Tensor) -> float:
    """How many elements the author lets differ."""
    return (reference.author.max_mismatch_ratio or 0.0) * got.numel()


def _is_noise(reference: Reference, where: str, got: torch.Tensor, wrong: int, worst: float, tolerance: float) -> bool:
    """Whether the problem's own rounding noise has as many elements as far off."""
    if reference.noise is None or wrong > MOST_SHARE * got.numel():
        return False
    spread = reference.noise.of(where)
    return wrong <= spread.beyond(DOUBT * tolerance) and worst * tolerance <= MARGIN * spread.worst


def _flips(
    reference: Reference, where: str, out: Sequence[torch.Tensor], ref: Sequence[torch.Tensor], unlike: int
) -> int:
    """How many elements may be infinite where the reference is finite, or the reverse, as the problem's own rounding
    noise has them; 0 where any of the ``unlike`` is a NaN, or a number where the reference is one."""
    if not unlike or reference.noise is None or unlike > MOST_SHARE * sum(part.numel() for part in out):
        return 0
    found = sum(int(flipped(a, b.to(a.device)).sum()) for a, b in zip(out, ref, strict=True))
    return reference.noise.of(where).flips if found == unlike else 0


def _noise_text(reference: Reference, where: str, tolerance: float) -> str:
    """What is known of the noise, for who reads why a result was refused."""
    if reference.noise is None or not reference.noise.measured.done:
        return ""
    spread = reference.noise.of(where)
    text = f"; by rounding alone {spread.beyond(DOUBT * tolerance)} elements may be, by {spread.worst:.3g}"
    return text + "".join(f"; no witness: {name}" for name in reference.noise.measured.missing)


def _tally(unlike: torch.Tensor, ratio: torch.Tensor) -> torch.Tensor:
    """(count of ``unlike``, count of ratios above 1, largest ratio), still on the device."""
    import torch

    return torch.stack((unlike.sum(), (ratio > 1).sum(), ratio.max()))


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in mask.nonzero()[0])


def _place(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The indices of the ``flat``-th element; torch's own function for it imports SymPy, for a second or more."""
    at = []
    for size in reversed(shape):
        flat, index = divmod(flat, size)
        at.append(index)
    return tuple(reversed(at))


def _wrong(reason: str) -> Verdict:
    return Verdict(Status.INCORRECT, float("inf"), reason)


def _is_float(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _tolerance(tensor: torch.Tensor) -> float:
    return _TOLERANCE[str(tensor.dtype).removeprefix("torch.")]
