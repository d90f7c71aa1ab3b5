"""How far apart are right results of one problem? Measured, by computing it again with other roundings.

Where many small roundings meet a sensitive problem (a recurrence, a difference of large sums), a right result may
have elements that are further from the reference than the type's tolerance. Witnesses show how many, and how far:

- the kernel's own text as plain Python, in the kernel's own precisions, against the same text over the same blocks in
  higher precision; at two block sizes. A mistake in the text is in both of a pair, so it is no noise.
  Of a text that no author wrote a reference beside, and that has no answer in time over such blocks, over those of the
  reference, which it is.
- the reference, its inputs moved by an ulp of float32, in which kernels compute, against itself (floating-point outputs
  only: an index of the largest input must not move). Where the text has no answer in time, by an ulp of their own type,
  which is more than most kernels round.

- for integers and booleans that a call returns, the reference with each result of its arithmetic moved by an ulp of
  float32 (Monte Carlo arithmetic; Parker, 1997), against itself: kernels contract products and sums, and divide
  approximately, so that what is rounded or compared afterwards falls to the other side here and there. Nothing that is
  loaded moves, nor what a comparison says of it.

What may differ follows, for each output: as many elements as all witnesses together have beyond :data:`DOUBT`
tolerances, at most :data:`MOST_SHARE` of them, by up to :data:`MARGIN` times what the worst witness shows. An output
that no witness shows to be sensitive is held to the type's tolerance. Nothing is measured before a config's result is
off by more than that, so right kernels of ordinary problems pay nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .deadline import OutOfTime, deadline
from .deviation import by_chunk, chunks, flipped, row_scales, wide_dtype
from .inputs import as_reals, clone, copied, leaves
from .jitter import jitter

if TYPE_CHECKING:
    import torch

    from ..config import Choice

MARGIN = 2.0
DOUBT = 0.5
MOST_SHARE = 0.25
WITNESS_S = 4.0  # that one of them may take
BLOCKS = (32, 128)  # of the kernel's text
MOVES = 2  # of the inputs
_STEPS = 4  # bins of distances for each factor of two
_FINEST = -40 * _STEPS  # 2**-40 and whatever is below share a bin
_BINS = 60 * _STEPS

Call = Callable[..., Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spread:
    """The distances between witnesses in one output, ``|a - b| / (rms + |b|)``: how many elements are at least so far
    apart, by bins, and the largest distance. Integers and booleans that differ are infinitely far apart. ``flips``:
    elements that are infinite in one alone, as the depth of a ray that just meets a sphere, or just misses it."""

    counts: tuple[int, ...] = (0,) * _BINS
    worst: float = 0.0
    flips: int = 0

    def beyond(self, distance: float) -> int:
        """How many elements are further apart than ``distance``, rounded down to a bin."""
        first = max(math.floor(_STEPS * math.log2(distance)) - _FINEST, 0) if distance > 0 else 0
        return sum(self.counts[first:])

    def __add__(self, other: Spread) -> Spread:
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Spread(counts, max(self.worst, other.worst), self.flips + other.flips)


@dataclass(slots=True)
class Measured:
    """What the witnesses of one problem and seed showed, by the path of an output. ``missing``: those that there were
    none of, and why. ``done``: they were asked. ``slow``: the problem's witnesses that had no answer in time with any
    seed. Those are not asked again, since whoever measures waits for them. It outlives the tensors that it was found
    with."""

    spreads: dict[str, Spread] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    done: bool = False
    slow: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Noise:
    """A problem's rounding noise, measured when it is first asked for.

    ``function``: the reference. ``widen``: a copy of an argument in the precision that the reference was given.
    ``meaning``: the kernel's own text as Python, under a config of block sizes; None where there is none. ``is_text``:
    whether the reference is that text, over larger blocks. ``measured``: kept by whoever makes this.
    """

    function: Call
    args: tuple[Any, ...]
    widen: Callable[[torch.Tensor], torch.Tensor]
    meaning: Call | None = None
    is_text: bool = False
    measured: Measured = field(default_factory=Measured)

    def of(self, path: str) -> Spread:
        """The spread of the output at ``path``."""
        if not self.measured.done:
            self._measure()
        return self.measured.spreads.get(path, Spread())

    def _measure(self) -> None:
        from ..build.serve import report

        report("noise")  # it is the problem's time, not the config's
        self.measured.done = True
        blocks = BLOCKS if self.meaning is not None else ()
        answers = [self._ask(f"the kernel's text over blocks of {b}", partial(self._rounded, b)) for b in blocks]
        if self.is_text and not any(answers):
            its = partial(self._apart, self.function)
            answers.append(self._ask("the kernel's text over the reference's blocks", its))
        still = self._made("the reference once more", partial(self._outputs, self.function, self.widen))
        if still is not None:
            self._measure_moves(still, has_text=any(answers))
        report("check")

    def _measure_moves(self, still: Mapping[str, Any], *, has_text: bool) -> None:
        """``still``: the reference's outputs, made once for all that are moved: each has the witnesses' time alone."""
        for seed in range(MOVES):
            self._ask("inputs moved by an ulp of float32", partial(self._moved, still, seed, "float32"))
            if not has_text:
                self._ask("inputs moved by an ulp of their own types", partial(self._moved, still, seed, ""))
            if _discrete(still):
                self._ask("arithmetic moved by an ulp of float32", partial(self._jittered, still, seed))

    def _ask(self, name: str, witness: Callable[[], dict[str, Spread]]) -> bool:
        """Count what a witness shows; False where it shows nothing, which is noted."""
        spreads, found = self._made(name, witness), self.measured.spreads
        for path, spread in (spreads or {}).items():
            found[path] = found.get(path, Spread()) + spread
        return spreads is not None

    def _made(self, name: str, function: Callable[[], T]) -> T | None:
        """What it gives in time, else None, which is noted: the author's functions under other roundings may fail."""
        if name in self.measured.slow:
            self.measured.missing.append(f"{name}: took too long with another seed")
            return None
        try:
            with deadline(WITNESS_S):
                return function()
        except Exception as error:
            if isinstance(error, OutOfTime):
                self.measured.slow.add(name)
            self.measured.missing.append(f"{name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
            return None

    def _moved(self, still: Mapping[str, Any], seed: int, of: str) -> dict[str, Spread]:
        """``still``: the reference's outputs. ``of``: the type whose ulp it is, else each input's own."""
        return _spreads(self._outputs(self.function, _Mover(seed, self.widen, of)), still, exact=False)

    def _jittered(self, still: Mapping[str, Any], seed: int) -> dict[str, Spread]:
        discrete = _discrete(still)
        with jitter(seed):
            moved = self._outputs(self.function, self.widen)
        return _spreads({path: moved.get(path) for path in discrete}, discrete, exact=True)

    def _rounded(self, block: int) -> dict[str, Spread]:
        def text(*args: Any) -> Any:
            assert self.meaning is not None
            return self.meaning(*args, config=_EveryBlock(block))

        return self._apart(text)

    def _apart(self, text: Call) -> dict[str, Spread]:
        """How far the arguments' own precisions are from the reference's."""
        return _spreads(self._outputs(text, clone), self._outputs(text, self.widen), exact=True)

    def _outputs(self, function: Call, copy: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
        """What a call on copies gives, and what it makes of them, by path."""
        copies = copied(self.args, copy)
        result = as_reals(function(*copies))
        return dict(leaves(result, "result")) | dict(leaves(copies, "args"))


def _discrete(outputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The integers and booleans that a call returned."""
    import torch

    return {
        path: value
        for path, value in outputs.items()
        if path.startswith("result") and isinstance(value, torch.Tensor) and not value.is_floating_point()
    }


class _Mover:
    """Copies floating-point tensors, each element an ulp away, up or down: of the type ``of``, else of its own, and of
    the copy's where that is coarser."""

    def __init__(self, seed: int, widen: Callable[[torch.Tensor], torch.Tensor], of: str) -> None:
        self._seed, self._widen, self._of = seed, widen, of

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        import torch

        copy = self._widen(tensor)
        if not tensor.is_floating_point() or not tensor.numel():
            return copy
        self._seed += MOVES
        generator = torch.Generator(tensor.device).manual_seed(self._seed)
        signs = torch.randint(0, 2, copy.shape, generator=generator, device=tensor.device, dtype=torch.int8)
        ulp = max(torch.finfo(getattr(torch, self._of) if self._of else tensor.dtype).eps, torch.finfo(copy.dtype).eps)
        moved = copy.double() * (1 + (2 * signs - 1) * ulp)
        return moved.to(copy.dtype)


class _EveryBlock(Mapping[str, "Choice"]):
    """A config that gives each loop blocks of ``size`` and names no knob."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __getitem__(self, knob: str) -> int:
        if not knob.startswith("block:") or knob == "block:None":
            raise KeyError(knob)
        return self._size

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True


def _spreads(left: Mapping[str, Any], right: Mapping[str, Any], *, exact: bool) -> dict[str, Spread]:
    """The spread of every output that both have in one shape; of integers and booleans where they are ``exact``."""
    import torch

    found = {}
    for path in left.keys() & right.keys():
        one, other = left[path], right[path]
        if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
            continue
        if one.shape != other.shape or not one.numel():
            continue
        if one.is_floating_point() and other.is_floating_point():
            found[path] = _float_spread(one, other)
        elif exact and not one.is_floating_point():
            differ = int((one != other).sum())
            found[path] = Spread((0,) * (_BINS - 1) + (differ,), float("inf") if differ else 0.0)
    return found


def _float_spread(one: torch.Tensor, other: torch.Tensor) -> Spread:
    """Elements that are not finite in both have no distance. Infinite in one alone, they flip; no noise excuses NaN."""
    import torch

    left, right = chunks(one), chunks(other)
    counts = torch.zeros(_BINS, dtype=torch.int64)
    worst, flips = 0.0, 0
    for out, ref, base in zip(left, right, by_chunk(row_scales(right), right), strict=True):
        wide = wide_dtype(ref)
        flips += int(flipped(out, ref).sum())
        distance = (out.to(wide) - ref.to(wide)).abs() / (base.to(wide) + ref.to(wide).abs())
        distance = distance[distance.isfinite() & (distance > 0)].double()
        if distance.numel():
            worst = max(worst, float(distance.amax()))
            bins = (distance.log2() * _STEPS).floor().long() - _FINEST
            counts += torch.bincount(bins.clamp(0, _BINS - 1), minlength=_BINS).cpu()
    return Spread(tuple(counts.tolist()), worst, flips)
