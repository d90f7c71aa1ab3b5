"""What Python raised while device code was recorded, as errors with the user's place.

Device code runs as Python once, on stand-ins. An exception whose last frame is the user's (or a library's that the
user called) is a mistake there; one that our own code did not mean to raise is ours.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from types import TracebackType

from ..errors import InternalError, Location, MissingAttribute, TileflowError, TraceError
from ..runtime.libraries import is_kernel_text
from .code_locations import code_location
from .counted_turns import WRITTEN_OUT

_PACKAGE = __name__.partition(".")[0]
REPORT = "please report this with the kernel, or with kernel.repro(...) under a config that works"
_HANDING_ON = {
    (f"{_PACKAGE}.frontend.calls", "call"),
    (f"{_PACKAGE}.frontend.control", "iadd"),
    (f"{_PACKAGE}.frontend.described", "__getitem__"),  # of sizes, which are a tuple
}
_WORDS = {"TileValue": "tile", "TensorRef": "captured tensor", "TileProxy": "loop's tile", "SymInt": "size"}
_RECORDED = "device code must be what tileflow can record"


def user_location(error: BaseException, files: Collection[str]) -> Location | None:
    """The innermost of the user's places that an exception went through."""
    found = None
    for step in _steps(error):
        if step.tb_frame.f_code.co_filename in files:
            found = code_location(step.tb_frame.f_code, step.tb_lasti, step.tb_lineno)
    return found


def translate_error(error: Exception, files: Collection[str], missing: Collection[str] = ()) -> TileflowError:
    """The error to raise for ``error``. ``missing``: names of device code that are bound nowhere."""
    where = user_location(error, files)
    if isinstance(error, TileflowError):
        return type(error)(error.constraint, got=error.got, where=where, hint=error.hint)
    match error:
        case UnboundLocalError():
            return _unbound(str(error), where, missing)
        case NameError() if "free variable" in str(error):  # of a branch, which is a function
            return _unbound(str(error), where, missing)
        case AttributeError():
            return MissingAttribute(
                "a name of a module or an object in device code must exist",
                got=str(error),
                where=where,
                hint=_near(error),
            )
        case RecursionError():
            return TraceError(
                "a function of device code ends while it is recorded",
                got="endless recursion",
                where=where,
                hint="stop it by a Python number, or write a loop",
            )
        case TypeError():
            got = _in_words(str(error).splitlines()[0])
            return TraceError(_RECORDED, got=got, where=where, hint=_of_type(str(error)))
        case ZeroDivisionError() if not _is_ours(error):
            return TraceError(
                "a divisor of device code that Python computes is not 0",
                got=str(error),
                where=where,
                hint="of sizes that may be 0: max(n, 1), or `if n > 0:` around it, which Python decides",
            )
    got = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]
    if _is_ours(error):
        return InternalError("tileflow records what device code does", got=got, where=where, hint=REPORT)
    hint = "it runs once, while the kernel is compiled: both ways of an if that the kernel decides are recorded"
    return TraceError("device code runs to its end while it is recorded", got=got, where=where, hint=hint)


def _unbound(message: str, where: Location | None, missing: Collection[str]) -> TraceError:
    found = re.search(r"'(\w+)'", message)
    name = found[1] if found else message
    if name in missing:
        return TraceError(
            "a name in device code must be defined",
            got=name,
            where=where,
            hint="define or import it in the kernel's module, or pass it as an argument",
        )
    return TraceError(
        "a variable is assigned on every way to its use",
        got=f"{name} without a value",
        where=where,
        hint="assign it before the loop, or in both branches",
    )


def _near(error: AttributeError) -> str:
    near = difflib.get_close_matches(error.name or "", dir(error.obj) if error.obj is not None else (), n=3)
    return f"near it: {', '.join(near)}" if near else "see docs/reference/language.md for what there is"


def _in_words(message: str) -> str:
    """Python's words with what the author knows in place of what stands for it here."""
    return re.sub("|".join(_WORDS), lambda found: _WORDS[found[0]], message)


def _of_type(message: str) -> str:
    if "'TileProxy' object cannot be interpreted as an integer" in message:
        return "a tile is no number: its scalars are tile.begin, tile.end, tile.id and tile.block_size"
    if "__round__" in message or "divmod()" in message:
        return "torch.round(x) rounds a tile; a quotient and a remainder are x // n, x % n"
    if re.search("indices must be integers.* not (TileValue|TensorRef)", message):
        return (
            "torch.tensor(list)[index] is indexed by a tile or a scalar of the kernel, Python's lists by ints: "
            f"{WRITTEN_OUT}"
        )
    if "indices must be integers" in message:
        return WRITTEN_OUT
    if "argument" in message and ("positional" in message or "keyword" in message):
        return "call the function as it is defined"
    if "NoneType" in message:
        return "choose by `if x is not None:`, which Python decides while the kernel is recorded"
    if "unpack" in message:
        return "a loop over one range has one variable, tfl.tile([m, n]) has two"
    if re.search(r"argument '\w+' \(position \d+\) must be Tensor, not (float|int)", message):
        return (
            "of a tile and a number: torch.clamp(x, min=0); of a scalar of the kernel: max(x, 0); "
            "a number that a loop carries: tfl.full([], 0)"
        )
    if re.search(r"where\(\) received an invalid combination of arguments - got \((bool|condition=bool)", message):
        return (
            "torch.where chooses by a tile of bools; by a bool of Python's, `a if condition else b` does; "
            "a number that a loop carries, and is compared with in each turn, starts as a tile: tfl.full([], 0.0)"
        )
    if "Tensor" in message or "invalid combination of arguments" in message:
        return "where torch wants a tensor, write one: torch.clamp(x, min=0), torch.full_like(x, 1)"
    return "it runs as Python once, while the kernel is compiled: mend it there, kernel.run_eagerly(...) shows the same"


def _is_ours(error: BaseException) -> bool:
    """Whether the exception comes out of this package, other than out of what is the author's: a call of a function of
    his or a builtin, an operator, a division of sizes."""
    last = _steps(error)[-1].tb_frame
    module, function = str(last.f_globals.get("__name__", "")), last.f_code.co_name
    hands_on = function == "__torch_function__" or (module, function) in _HANDING_ON
    hands_on |= isinstance(error, ZeroDivisionError) and module == f"{_PACKAGE}.expr"
    return module.partition(".")[0] == _PACKAGE and not hands_on and not is_kernel_text(module)


def _steps(error: BaseException) -> list[TracebackType]:
    found, step = [], error.__traceback__
    while step is not None:
        found.append(step)
        step = step.tb_next
    return found
