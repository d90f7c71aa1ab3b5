"""Paths and launch symbols (see :mod:`.abi`): parsing them, and Python source text that reads them again.

A table is data, so a path out of one is parsed strictly: into numbers, and names that mean in source text what they
say.
"""

from __future__ import annotations

import functools
import itertools
import keyword
import re
import unicodedata
import zlib
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, Literal

from ..canonical import written_code
from ..definitions import definition
from ..errors import KernelError, TableError
from ..lazy_dataclass import dataclass
from .bounded import BoundedCache
from .overlap import RELATIONS
from .views import is_view, view_of

Step = tuple[Literal["cell", "default", "global", "item", "key", "entry", "attr", "view"], str]

MAX_PATH = 512  # characters
_MAX_AXIS = 63  # torch's tensors have at most 64 dimensions
_MAX_ITEM = 1 << 31
_OF_TORCH = frozenset({"dtype", "device", "layout", "memory_format", "finfo", "iinfo"})

_PATH = re.compile(r"(?P<root>[^\W\d]\w*)(?P<steps>(?:\.(?:cell|default|global|item|key|entry|attr|view):\w+)*)")
_STEP = re.compile(r"\.(cell|default|global|item|key|entry|attr|view):(\w+)")
_BOUND = re.compile(r"(begin|end)\.(\d+)")
_PAIR = re.compile(r"(?P<path>.+?)\.(?P<relation>apart|in_step)\.(?P<other>.+)")
_FIELD = re.compile(r"(?P<path>.+?)\.(?:(?P<field>shape|stride)\.(?P<axis>\d+)|(?P<word>align|digest))")


@dataclass(frozen=True, slots=True)
class Path:
    """A variable of the host frame, and the steps from it to a captured value."""

    root: str
    steps: tuple[Step, ...] = ()

    @staticmethod
    def parse(text: str) -> Path:
        """Raises TableError where ``text`` is not a path, or an attribute or item is not one that a path may name."""
        match = _PATH.fullmatch(text) if len(text) <= MAX_PATH else None
        steps = tuple(_STEP.findall(match["steps"])) if match else ()
        if match is None or not is_name(match["root"]) or not all(_may_be_read(step) for step in steps):
            raise TableError(
                "a path must be a variable and steps "
                ".cell:, .default:, .global:, .item:, .key:, .entry:, .attr: or .view:",
                got=repr(text[:80]),
                hint="the table is damaged or was written by a newer tileflow",
            )
        return Path(match["root"], steps)


def may_be_read(text: str) -> bool:
    """Whether a launch reads what is at a path: no private attribute is on the way."""
    try:
        return bool(Path.parse(text))
    except TableError:
        return False


def is_name(text: str) -> bool:
    """Whether source text may spell it as a name. Python reads names in Unicode's normal form, in which one that looks
    public may start with an underscore."""
    return text.isidentifier() and unicodedata.normalize("NFKC", text) == text


def _may_be_read(step: Step) -> bool:
    kind, name = step
    if kind == "attr":
        is_public = is_name(name) and not name.startswith("_") and not keyword.iskeyword(name)
        # torch's containers of modules name what they hold by numbers
        return is_public or name in ("__self__", "__func__") or (name.isdecimal() and name.isascii())
    if kind in ("item", "entry"):
        return name.isdecimal() and len(name) <= 10 and int(name) <= _MAX_ITEM
    return kind != "view" or is_view(name)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A launch symbol: ``field`` of what is at ``path`` (``value``: the int itself, ``digest``: see
    :func:`digest_of`), a bound (no ``path``), or how the memory of the tensor at ``path`` lies to that of the one at
    ``other``: see :mod:`.overlap`."""

    field: Literal["value", "shape", "stride", "align", "digest", "begin", "end", "apart", "in_step"]
    path: Path | None = None
    axis: int = 0
    other: Path | None = None

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(name: str) -> Symbol:
        """Raises TableError where ``name`` is neither a bound nor leads from a path."""
        if len(name) > MAX_PATH:
            return Symbol("value", Path.parse(name))  # which refuses it
        if bound := _BOUND.fullmatch(name):
            return Symbol("begin" if bound[1] == "begin" else "end", None, _axis(bound[2], name))
        if pair := _PAIR.fullmatch(name):
            relation: Literal["apart", "in_step"] = "apart" if pair["relation"] == "apart" else "in_step"
            return Symbol(relation, Path.parse(pair["path"]), 0, Path.parse(pair["other"]))
        match = _FIELD.fullmatch(name)
        if match is None:
            return Symbol("value", Path.parse(name))
        path = Path.parse(match["path"])
        if match["word"]:
            return Symbol("align" if match["word"] == "align" else "digest", path)
        return Symbol("shape" if match["field"] == "shape" else "stride", path, _axis(match["axis"], name))


def _axis(digits: str, name: str) -> int:
    if len(digits) > 2 or int(digits) > _MAX_AXIS:
        raise TableError(
            f"a launch symbol's axis must be at most {_MAX_AXIS}",
            got=repr(name[:80]),
            hint="the table is damaged; export it again",
        )
    return int(digits)


def cell_of(function: FunctionType, name: str) -> CellType:
    """The closure cell ``name`` of ``function``. Raises ValueError where it has none."""
    return (function.__closure__ or ())[function.__code__.co_freevars.index(name)]


def default_of(function: FunctionType, name: str) -> Any:
    """The default of the parameter ``name``. Raises KeyError where it has none."""
    if function.__kwdefaults__ and name in function.__kwdefaults__:
        return function.__kwdefaults__[name]
    defaults = function.__defaults__ or ()
    positional = function.__code__.co_varnames[: function.__code__.co_argcount]
    return dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))[name]


def entry_of(dictionary: Mapping[Any, Any], place: int) -> Any:
    """The value that a dictionary has at a place in its order. Raises LookupError where it has none."""
    for value in itertools.islice(dictionary.values(), place, None):
        return value
    raise LookupError(place)


def key_step(key: Any, place: int) -> Step:
    """The step to a dictionary's value: by a key that is a word or an int from 0 up, else by its place in order."""
    if isinstance(key, int) and 0 <= key <= _MAX_ITEM:
        return "item", str(int(key))
    if isinstance(key, str) and re.fullmatch(r"\w+", key):
        return "key", key
    return "entry", str(place)


READERS = {
    "cell_of": cell_of,
    "default_of": default_of,
    "entry_of": entry_of,
    "view_of": view_of,
}  # that the text of a step uses


def read_step(source: str, step: Step) -> str:
    """Source text of one step from the value that ``source`` spells; uses :data:`READERS`."""
    kind, name = step
    match kind:
        case "cell":
            return f"cell_of({source}, {name!r}).cell_contents"
        case "default":
            return f"default_of({source}, {name!r})"
        case "global":
            return f"{source}.__globals__[{name!r}]"
        case "item":
            return f"{source}[{int(name)}]"
        case "key":
            return f"{source}[{name!r}]"
        case "entry":
            return f"entry_of({source}, {int(name)})"
        case "attr":
            if not _may_be_read(step):
                raise TableError("a path's attribute must be a public one", got=repr(name[:80]))
            return f"getattr({source}, {name!r})" if name.isdecimal() else f"{source}.{name}"
        case "view":
            return f"view_of({source}, {name!r})"


def root_reader(name: str, scope: FunctionType | None) -> tuple[str, object]:
    """Source text that reads the variable ``name`` at a launch, and the object that the text calls ``home``.

    What the host function binds itself is in its frame; its closure cells and globals are found through ``scope``.
    """
    if scope is not None:
        code = scope.__code__
        if name in code.co_freevars:
            return "{home}.cell_contents", cell_of(scope, name)
        if name not in code.co_varnames and name not in code.co_cellvars and name in scope.__globals__:
            return f"{{home}}[{name!r}]", scope.__globals__
    return f"frame[{name!r}]", None


def read_path(path: Path, frame: Mapping[str, Any], scope: FunctionType | None) -> Any:
    """What is at ``path`` of a launch now: the frame, then the closure of ``scope``, then its globals.

    Raises LookupError, AttributeError or ValueError where nothing is.
    """
    return functools.reduce(_step, path.steps, read_name(path.root, frame, scope))


def read_name(name: str, frame: Mapping[str, Any], scope: FunctionType | None) -> Any:
    """The value of a captured name. Raises KeyError where it is not bound."""
    if name in frame or scope is None:
        return frame[name]
    if name in scope.__code__.co_freevars:
        return cell_of(scope, name).cell_contents
    return scope.__globals__[name]


def _step(value: Any, step: Step) -> Any:
    kind, name = step
    match kind:
        case "cell":
            return cell_of(value, name).cell_contents
        case "default":
            return default_of(value, name)
        case "global":
            return value.__globals__[name]
        case "item":
            return value[int(name)]
        case "key":
            return value[name]
        case "entry":
            return entry_of(value, int(name))
        case "attr":
            return getattr(value, name)
        case "view":
            return view_of(value, name)


def read_symbol(
    symbol: Symbol, frame: Mapping[str, Any], scope: FunctionType | None, begins: tuple[int, ...], ends: tuple[int, ...]
) -> int:
    """The value of a launch symbol now."""
    if symbol.path is None:
        return (begins if symbol.field == "begin" else ends)[symbol.axis]
    value = read_path(symbol.path, frame, scope)
    match symbol.field:
        case "shape":
            return int(value.shape[symbol.axis])
        case "stride":
            return int(value.stride()[symbol.axis])
        case "align":
            return int(value.data_ptr() % 16 == 0)
        case "digest":
            return digest_of(value)
        case "apart" | "in_step":
            assert symbol.other is not None
            return int(RELATIONS[symbol.field](value, read_path(symbol.other, frame, scope)))
    return int(value)


def digest_of(value: Any) -> int:
    """A number of 32 bits, the same in every process and on every Python, for a constant that selects code: a string,
    None, a dtype, an enum, a set, a function (its code; what it closes over has paths of its own), a class, a module;
    of lists and tuples their lengths, of dictionaries their keys, since what they hold has paths too; of others their
    class."""
    if isinstance(value, FunctionType):
        return _digest_of_function(value)
    return zlib.crc32(_spelled(value).encode())


def is_spelled(value: Any) -> bool:
    """Whether :func:`digest_of` tells a constant without parts apart from all others, as of numbers and words, and sets
    and tuples of such."""
    if isinstance(value, (tuple, set, frozenset)):
        return all(map(is_spelled, value))
    is_word = value is None or value is ... or value is NotImplemented or _is_of_torch(value)
    return is_word or isinstance(value, (bool, int, float, complex, str, bytes, Enum, type, ModuleType))


def _spelled(value: Any) -> str:
    if value is None or isinstance(value, str):
        return repr(value)
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, (list, tuple)):
        return f"{len(value)} in a {'list' if isinstance(value, list) else 'tuple'}"
    if isinstance(value, dict):
        return f"dict of [{', '.join(map(_of_key, value))}]"
    if isinstance(value, (set, frozenset)):
        return f"set of {sorted(map(_of_key, value))}"
    if isinstance(value, (complex, bytes)):
        return repr(value)
    if _is_of_torch(value):
        return str(value)
    named = value if isinstance(value, (type, ModuleType, BuiltinFunctionType)) else type(value)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', named.__name__)}"


def _of_key(key: Any) -> str:
    """A key of a dictionary, or what a set holds. Host code's own ints, while it is traced, are spelled as Python's."""
    if isinstance(key, tuple):
        return f"({', '.join(map(_of_key, key))})"
    if isinstance(key, Enum) or not isinstance(key, (int, float)):
        return _spelled(key)
    return repr(key) if isinstance(key, bool) else repr(int(key) if isinstance(key, int) else float(key))


def _is_of_torch(value: Any) -> bool:
    """Whether it is a constant of torch's that says what it is: a dtype, a device, a layout, the limits of a dtype."""
    return type(value).__module__ == "torch" and type(value).__name__ in _OF_TORCH


_digests: BoundedCache[int] = BoundedCache(4096)  # by code: a function that host code makes is another one in each call


def _digest_of_function(fn: FunctionType) -> int:
    found = _digests.get(fn.__code__)
    return found if found is not None else _digests.put(fn.__code__, zlib.crc32(_code_text(fn)))


def _code_text(fn: FunctionType) -> bytes:
    """What tells a function's code from others, the same on every Python: its text, and which of its names are closed
    over. Bytecode stands for a text that nobody finds, as of generated functions: that is the same in one version of
    Python, and a launch in another declines."""
    try:
        text = f"{written_code(definition(fn)[0])} {sorted(fn.__code__.co_freevars)}"
    except KernelError:
        return _bytecode(fn.__code__)
    return text.encode("utf-8", "surrogatepass")


def _bytecode(code: CodeType) -> bytes:
    constants = [_constant(c) for c in code.co_consts]
    names = (code.co_name, *code.co_names, *code.co_varnames, *code.co_freevars, *constants)
    return " ".join(names).encode("utf-8", "surrogatepass") + code.co_code


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return str(zlib.crc32(_bytecode(value)))
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


def ascii_identifier(text: str) -> str:
    """``text`` as an identifier of ASCII: Triton and torch's schemas take no other letters."""
    return re.sub(r"\W", lambda found: "_" if found[0].isascii() else f"u{ord(found[0]):x}", text, flags=re.ASCII)
