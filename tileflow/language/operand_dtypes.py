"""The dtypes that torch's functions take: kernels refuse what torch refuses, compiled and as plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from ..errors import Location, TraceError
from ..lazy_dataclass import dataclass

_HALF = frozenset({"float16", "bfloat16"})
_TO_FLOATS, _TO_ONE = "convert with .float()", "convert with .to(x.dtype)"
_TO_NUMBERS = "convert with .int() or .float()"
# torch's own names of functions that it has under another one too
_NAMES = {"log_sigmoid": "logsigmoid", "linalg_vector_norm": "vector_norm", "linalg_vecdot": "vecdot"}


@dataclass(frozen=True, slots=True)
class Operand:
    """A tile, or a scalar with a dtype, that a function is given; a number of Python's is none."""

    dtype: str
    has_dims: bool

    @property
    def is_floating(self) -> bool:
        """Whether it holds floats."""
        return self.dtype.startswith(("float", "bfloat"))


Operands = Sequence[Operand]


@dataclass(frozen=True, slots=True)
class _Rule:
    """What functions take, what to do for other operands, and whether some are taken."""

    constraint: str
    hint: str
    takes: Callable[[Operands], bool]
    functions: frozenset[str]


def check_dtypes(name: str, operands: Iterable[Operand], where: Location | None = None) -> None:
    """Raises TraceError for operands of torch's function ``name`` whose dtypes torch refuses."""
    rules = _rules_of(name)
    if not rules:
        return
    name, given = _NAMES.get(name, name), tuple(operands)
    for rule in rules:
        if given and not rule.takes(given):
            got = ", ".join(x.dtype for x in given)
            raise TraceError(f"torch.{name} takes {rule.constraint}, as in torch", got=got, where=where, hint=rule.hint)


@cache
def _rules_of(name: str) -> tuple[_Rule, ...]:
    return tuple(rule for rule in _RULES if _NAMES.get(name, name) in rule.functions)


def _are_bools(operands: Operands) -> bool:
    return all(x.dtype == "bool" for x in operands)


def _are_alike(operands: Operands) -> bool:
    return len({x.dtype for x in operands}) == 1


def _is_of_bytes(operands: Operands) -> bool:
    """Whether it is a product in 8 bits, to which torch has no like."""
    return operands[0].dtype.startswith("float8")


def _are_ends_alike(operands: Operands) -> bool:
    """Of ``lerp``: a weight without dimensions counts as a number."""
    return _are_alike([*operands[:2], *(x for x in operands[2:] if x.has_dims)])


def _are_parameters(operands: Operands) -> bool:
    """Whether those behind a norm's input fit it."""
    x, *parameters = operands
    given = {p.dtype for p in parameters}
    return given <= {x.dtype} or (x.dtype in _HALF and given == {"float32"})


def _accumulates(operands: Operands) -> bool:
    """Whether products of the second operand and the third can be added to the first."""
    return len(operands) < 3 or operands[0].is_floating or not (operands[0].dtype == "bool" or operands[1].is_floating)


_RULES = (
    _Rule("floats", _TO_FLOATS, lambda given: any(x.is_floating for x in given), frozenset({
        "binary_cross_entropy", "celu", "dist", "elu", "frac", "gelu", "glu", "group_norm", "hardshrink", "hardsigmoid",
        "hardswish", "hypot", "layer_norm", "leaky_relu", "lerp", "logaddexp", "logaddexp2", "logcumsumexp",
        "logsigmoid", "mish", "mse_loss", "nanmean", "norm", "normalize", "prelu", "rms_norm",
        "scaled_dot_product_attention", "selu", "silu", "smooth_l1_loss", "softplus", "softshrink", "vecdot",
        "vector_norm",
    })),
    _Rule("a floating input", _TO_FLOATS, lambda given: given[0].is_floating, frozenset({
        "batch_norm", "huber_loss", "instance_norm", "soft_margin_loss",
    })),
    _Rule("floats alone", _TO_FLOATS, lambda given: all(x.is_floating for x in given), frozenset({
        "binary_cross_entropy_with_logits", "cdist", "kl_div",
    })),
    _Rule("numbers", _TO_NUMBERS, lambda given: not _are_bools(given), frozenset({
        "abs", "absolute", "addmm", "addmv", "argmax", "argmin", "baddbmm", "bmm", "ceil", "cross",
        "cumulative_trapezoid", "dot", "fix", "floor", "hardtanh", "inner", "linear", "matmul", "mm", "mv", "positive",
        "relu", "relu6", "round", "softsign", "trace", "trapezoid", "trapz", "trunc", "vdot",
    })),
    _Rule("numbers", _TO_NUMBERS, lambda given: len(given) < 2 or not _are_bools(given), frozenset({
        "bitwise_left_shift", "bitwise_right_shift", "fmod", "remainder",  # of a mask and a number too
    })),
    _Rule("numbers", _TO_NUMBERS, lambda given: len(given) < 3 or not _are_bools(given), frozenset({"clamp"})),
    _Rule("operands of one dtype", _TO_ONE, lambda given: _are_alike(given[:2]), frozenset({
        "cross", "heaviside", "inner", "isclose", "prelu", "vecdot",
    })),
    _Rule("operands of one dtype", _TO_ONE, lambda given: _are_alike(given[:3]), frozenset({
        "binary_cross_entropy", "scaled_dot_product_attention",
    })),
    _Rule("operands of one dtype", _TO_ONE, _are_ends_alike, frozenset({"lerp"})),
    _Rule("parameters of its input's dtype, or in float32 beside a half type", _TO_ONE, _are_parameters, frozenset({
        "batch_norm", "group_norm", "instance_norm", "layer_norm",
    })),
    _Rule("a bias of its operands' dtype", _TO_ONE, lambda given: _are_alike(given) or _is_of_bytes(given), frozenset({
        "linear",
    })),
    _Rule("an accumulator that holds the products", "convert it with .to(...)", _accumulates, frozenset({
        "addmm", "addmv", "baddbmm",
    })),
    _Rule("a mask of bools", "mask != 0", lambda given: {x.dtype for x in given[1:2]} <= {"bool"}, frozenset({
        "masked_fill",
    })),
)  # fmt: skip
