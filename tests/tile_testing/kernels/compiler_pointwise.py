"""Expressions over tiles ``a`` and ``b`` that torch and a kernel must agree on."""

from __future__ import annotations

_UNARY_FUNCTIONS = (
    "neg", "abs", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan",
    "erf", "tanh", "sigmoid", "relu", "floor", "ceil", "trunc", "round", "sign", "isnan", "isinf", "isfinite",
    "logical_not", "bitwise_not", "square", "negative", "absolute", "fix", "sinh", "cosh", "asin", "acos", "atan",
    "asinh", "acosh", "atanh", "log10", "erfc", "frac", "signbit", "sgn", "positive", "nan_to_num", "isposinf",
    "isneginf", "deg2rad", "rad2deg", "sinc", "special.erfcx", "special.ndtr", "special.entr", "lgamma", "digamma",
    "erfinv", "special.log_ndtr", "special.i0", "special.i0e", "special.i1", "special.i1e", "special.ndtri",
)  # fmt: skip
_ACTIVATIONS = (
    # at infinity torch's own gelu of float32 is NaN on some processors
    "F.gelu(a.clamp(-60, 60))", "F.gelu(a, approximate='tanh')", "F.silu(a)", "F.softplus(a)",
    "F.softplus(a, beta=2.0)", "F.leaky_relu(a)", "F.leaky_relu(a, 0.2)", "F.elu(a)", "F.elu(a, alpha=0.5)",
    "F.hardtanh(a)", "F.logsigmoid(a)", "F.relu(a)", "F.sigmoid(a)", "F.tanh(a)",
    "F.relu6(a)", "F.hardsigmoid(a)", "F.hardswish(a)", "F.mish(a)", "F.selu(a)", "F.celu(a)", "F.celu(a, alpha=2.0)",
    "F.softsign(a)", "F.tanhshrink(a)", "F.hardshrink(a)", "F.softshrink(a, 0.7)", "F.threshold(a, 0.5, 20)",
    "F.dropout(a, 0.0)", "F.dropout(a, 0.3, training=False)", "F.rrelu(a)",
)  # fmt: skip
_CASTS = ("a.float()", "a.double()", "a.bool()", "a.to(torch.float32)", "a.half()", "a.bfloat16()")

UNARY: tuple[str, ...] = (
    *(f"torch.{f}(a)" for f in _UNARY_FUNCTIONS),
    "-a", "abs(a)", "a.abs()", "a.exp()", "a.sigmoid()", "torch.special.expit(a)", "~a",
    "torch.clamp(a, -1, 1)", "torch.clamp(a, min=0)", "torch.clamp(a, max=0.5)", "a.clamp(min=-1.5, max=2)",
    "torch.clamp_min(a, 1)", "a.clamp_max(1)", "torch.where(a > 1, a, 0)", "torch.where(a > 1, 1.5, a)",
    "a.masked_fill(a == 3, 7)", "torch.zeros_like(a)", "torch.ones_like(a)", "torch.full_like(a, 3)",
    "torch.zeros_like(a, dtype=torch.float32)", "a ** 0", "a ** 1", "a ** 2", "a ** 5", "abs(a) ** 0.5",
    "abs(a) ** -0.5", "2 ** (a & 7)", "a ** 3", "a ** 2.0", "a * a + 1", "torch.round(a / 3, decimals=1)",
    "torch.round(a, decimals=-1)", "torch.round(a, decimals=400)", "torch.round(a, decimals=-400)",
    "1 / a", "2 - a", "a.logical_not()", "a.arctan()", "torch.logit(a, 0.1)", "a.copysign(-1.0)",
    "a.float_power(2)", "torch.ldexp(a, torch.full_like(a, 3))",
    "a // 3", "a // -3", "a % 3", "a % -3", "torch.fmod(a, 3)", "a // 0.1", "a % 0.1", "0.1 // a", "1 % a",
    "torch.remainder(a, -0.1)", "300 + a", "a - 300", "a * 300", "a & 300", "torch.where(a > 1, 300, a)", "a > 0.1",
    "a == 0.1", "a < 0.3", "a > 300", "a < -1", "torch.clamp(a, max=-2)", "torch.clamp(a, 2, 1)", "a ** 0.5",
    "a ** 1.7", "a ** -4.4", "a ** -1", "a ** -2", "a ** torch.inf", "a ** -torch.inf", "2.0 ** a", "(-2.0) ** a",
    "0.0 ** a", "torch.lerp(a, a + 1, 0.3)", "torch.addcmul(a, a, a, value=3)", "torch.addcdiv(a, a, a + 2, value=3)",
    "torch.logit(a)", "torch.ldexp(a, a)", "F.gelu(a)", "torch.frexp(a)[0]", "torch.frexp(a).exponent",
    "torch.nan_to_num(a, 1.0, 2.0, -3.0)", "a.to(device='cpu')", "a.to('cpu', torch.float32)", *_ACTIVATIONS, *_CASTS,
)  # fmt: skip

_SYMBOLS = ("+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^")
_BINARY_FUNCTIONS = (
    "add", "sub", "mul", "div", "minimum", "maximum", "fmod", "remainder", "floor_divide", "true_divide", "eq", "ne",
    "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
    "float_power", "atan2", "hypot", "copysign", "heaviside", "logaddexp", "logaddexp2", "xlogy", "isclose", "less",
    "greater_equal", "not_equal", "fmax", "fmin", "nextafter",
)  # fmt: skip

BINARY: tuple[str, ...] = (
    *(f"a {s} b" for s in _SYMBOLS),
    *(f"torch.{f}(a, b)" for f in _BINARY_FUNCTIONS),
    "torch.div(a, b, rounding_mode='floor')", "torch.div(a, b, rounding_mode='trunc')", "torch.add(a, b, alpha=2)",
    "torch.sub(a, b, alpha=3)", "a << (b & 3)", "a >> (b & 3)", "torch.rsub(a, b)",
    "torch.bitwise_left_shift(a, b & 3)", "a.eq(b)", "a.mul(b)", "a.type_as(b)",
    "torch.isclose(a, b, rtol=0.5, equal_nan=True)",
    "torch.special.xlog1py(a, b)", "a.masked_fill(a > b, 1)",
)  # fmt: skip

# between ints such a power is refused
POWERS = ("a ** abs(b)", "a ** b", "torch.pow(abs(a), b)", "abs(a) ** 1.7", "2.0 ** b", "a ** -3", "b ** 20")

# remainders: of a quotient beyond the dtype torch's own vector code makes NaN, and in float64 they are other numbers
MODULAR = ("%", "//", "fmod", "remainder", "floor_divide", "rounding_mode='floor'")
# sums of several terms: exact but for the rounding of the largest
SUMS = ("lerp", "addc", "alpha=", "logaddexp", "tanhshrink", "softshrink", "F.gelu", "cos(", "sin(", "tan(",
        "a * a + 1", "ndtr", "softplus", "mish", "a ** b", "pow", "gamma")  # fmt: skip

TERNARY: tuple[str, ...] = (
    "torch.where(a > b, a, b)", "torch.where(a != b, b, a * 2)", "torch.addcmul(a, a, b)", "torch.clamp(a, min=b)",
    "torch.addcmul(b, a, a)", "torch.addcmul(b, a, a, value=2)",
    "torch.addcmul(a, a, b, value=2)", "torch.addcdiv(a, a, b, value=0.5)", "torch.lerp(a, b, 0.25)",
    "torch.lerp(a, b, a)",
    "torch.clamp(b, max=a)", "torch.max(a, b)", "torch.min(a, b)", "(a > 0) & (b > 1)", "(a > 0) | ~(b > 1)",
    "a * (b > 1)",
)  # fmt: skip
