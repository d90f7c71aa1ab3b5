"""Frozen dataclasses to JSON and back, strictly: an unknown, missing or ill-typed field is an error with its place.

The types of the fields say what is read, ``Annotated`` with the limits below where a type alone allows too much:

    threads: Annotated[int, Between(1, 1024)]
    symbol: Annotated[str, Text(256)]
    dtype: str = field(metadata={"json": "tensor"})        another name in the file

A class may add a method ``validate``, which raises TableError for values that do not fit together (its ``where`` is
relative to the value), and a static method ``json_fields``, which turns the object of the file into one of fields. A
Config is an object of its knobs, and an Expr reads itself.
"""

from __future__ import annotations

import json
import math
import reprlib
import types
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ..config import Config
from ..errors import TableError
from ..expr import MAX_INT, MIN_INT, Expr
from ..expr_reader import read_expr
from ..lazy_dataclass import dataclass

T = TypeVar("T")
Decoder = Callable[[Any, int], Any]  # (data, how deep it lies) -> the value; raises _Misfit

MAX_TEXT = 1 << 16  # characters of one string
MAX_ITEMS = 100_000  # of one list or object
_MAX_DEPTH = 64  # objects and lists in one another; Exprs count for themselves

_REPR = reprlib.Repr()  # never long, never deep
_REPR.maxstring, _REPR.maxother, _REPR.maxlevel = 100, 100, 3
_HINT = "the file is damaged or was written by a newer tileflow"


# ---- limits -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Between:
    """An int from ``low`` to ``high``, both included."""

    low: int
    high: int

    def refuses(self, value: int) -> str | None:
        """What the int should have been; None where it fits."""
        return None if self.low <= value <= self.high else f"from {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Text:
    """A string of ``shortest`` to ``longest`` characters."""

    longest: int
    shortest: int = 1

    def refuses(self, value: str) -> str | None:
        """What the string should have been; None where it fits."""
        if self.shortest <= len(value) <= self.longest:
            return None
        return f"text of {self.shortest} to {self.longest} characters"


@dataclass(frozen=True, slots=True)
class Items:
    """A list of ``fewest`` to ``most`` items."""

    fewest: int
    most: int

    def refuses(self, value: tuple[Any, ...]) -> str | None:
        """What the list should have been; None where it fits."""
        return None if self.fewest <= len(value) <= self.most else f"a list of {self.fewest} to {self.most}"


@dataclass(frozen=True, slots=True)
class AsObject:
    """Sorted (name, value) pairs that are an object in the file."""


# ---- text ---------------------------------------------------------------------------------------------------------


def parse_json(text: str) -> Any:
    """Plain data out of JSON: integers of 64 bits, finite floats, each name once in an object. Raises ValueError."""
    try:
        return json.loads(
            text, parse_int=_integer, parse_float=_finite, parse_constant=_no_constants, object_pairs_hook=_object_once
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _integer(digits: str) -> int:
    if len(digits) > 20 or not MIN_INT <= int(digits) <= MAX_INT:
        raise ValueError(f"{digits[:40]} is no integer of 64 bits")
    return int(digits)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no finite number")
    return value


def _no_constants(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _object_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        twice = sorted(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"an object names a field twice: {_REPR.repr(twice)}")
    return data


# ---- encoding -----------------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """Plain JSON data. Raises TableError for infinities and nan, which JSON does not have."""
    if isinstance(value, Config):
        return value.to_dict()
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _encode_field(is_float, getattr(value, name)) for name, is_float in _is_float(type(value))}
    if isinstance(value, tuple):
        return [encode(v) for v in value]
    if isinstance(value, Mapping):
        return {k: encode(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise TableError("a table's numbers must be finite", got=value)
    return value


@cache
def _is_float(cls: Any) -> list[tuple[str, bool]]:
    """Each field, and whether it is a float or None."""
    hints = _hints(cls)
    return [(f.name, hints[f.name] is float or float in get_args(hints[f.name])) for f in fields(cls)]


def _encode_field(is_float: bool, value: Any) -> Any:
    """An int where a float is meant is written as one: 3 and 3.0 would be two texts of one table."""
    return encode(float(value) if is_float and isinstance(value, int) else value)


# ---- decoding -----------------------------------------------------------------------------------------------------


class _Misfit(Exception):
    """What is wrong with a piece of data. ``constraint`` starts with what must hold of the place; the containers that
    it passes on its way out add ``steps``, the innermost first."""

    def __init__(self, constraint: str, got: object, hint: str = _HINT, *steps: str) -> None:
        self.constraint = constraint
        self.got = got
        self.hint = hint
        self.steps = list(steps)


def decode(cls: type[T], data: Any, where: str = "") -> T:
    """A ``cls`` out of JSON data. Raises TableError naming the place, as ``entries[3].best_us``."""
    try:
        return cast(T, _decoder(cast(Any, cls))(data, 0))
    except _Misfit as misfit:
        place = (where + "".join(reversed(misfit.steps))).removeprefix(".")
        raise TableError(
            misfit.constraint.replace("{place}", place or "a table", 1),
            got=misfit.got,
            where=place or None,
            hint=misfit.hint,
        ) from None


@cache
def _decoder(kind: Any) -> Decoder:
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *limits = get_args(kind)
        return _pairs(inner) if limits == [AsObject()] else _limited(_decoder(inner), limits)
    if origin in (Union, types.UnionType):
        return _union(get_args(kind))
    if origin is Literal:
        return _literal(get_args(kind))
    if origin is tuple:
        return _tuple(get_args(kind))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(get_args(kind)[1])
    if kind is Config:
        return _config
    if kind is Expr:
        return _expr
    return _object(kind) if is_dataclass(kind) else _SCALARS[kind]


def _limited(decoder: Decoder, limits: list[Any]) -> Decoder:
    def decode(data: Any, depth: int) -> Any:
        value = decoder(data, depth)
        for limit in limits:
            if (wanted := limit.refuses(value)) is not None:
                raise _must_be(wanted, data)
        return value

    return decode


def _int(data: Any, depth: int) -> int:
    if type(data) is not int:
        raise _must_be("of type int", data)
    if not MIN_INT <= data <= MAX_INT:
        raise _must_be("an integer of 64 bits", "a larger one")
    return data


def _float(data: Any, depth: int) -> float:
    if type(data) not in (int, float) or (type(data) is int and not MIN_INT <= data <= MAX_INT):
        raise _must_be("a finite number", data)
    if not math.isfinite(data):
        raise _must_be("a finite number", data)
    return float(data)


def _bool(data: Any, depth: int) -> bool:
    if type(data) is not bool:
        raise _must_be("of type bool", data)
    return data


def _str(data: Any, depth: int) -> str:
    if type(data) is not str:
        raise _must_be("of type str", data)
    if len(data) > MAX_TEXT:
        raise _must_be(f"text of at most {MAX_TEXT} characters", data)
    if not data.isascii() and any("\ud800" <= c <= "\udfff" for c in data):
        raise _must_be("text that can be encoded", ascii(data)[:120])
    return data


_SCALARS: Mapping[Any, Decoder] = {int: _int, float: _float, bool: _bool, str: _str}


def _union(kinds: tuple[Any, ...]) -> Decoder:
    """``X | None``; plain values, told apart by type; or classes, told apart by the field that each has first."""
    rest = [k for k in kinds if k is not types.NoneType]
    if len(rest) == 1:
        return _optional(_decoder(rest[0]))
    if all(k in _SCALARS for k in rest):
        return _any_scalar(set(kinds))
    return _any_object({_json_names(k)[0]: k for k in rest})


def _optional(decoder: Decoder) -> Decoder:
    def decode(data: Any, depth: int) -> Any:
        return None if data is None else decoder(data, depth)

    return decode


def _any_scalar(kinds: set[Any]) -> Decoder:
    def decode(data: Any, depth: int) -> Any:
        if type(data) not in kinds:
            raise _must_be("a plain value", data)
        return data if data is None or type(data) is float else _SCALARS[type(data)](data, depth)

    return decode


def _any_object(by_field: dict[str, Any]) -> Decoder:
    def decode(data: Any, depth: int) -> Any:
        found = [name for name in by_field if isinstance(data, dict) and name in data]
        if len(found) != 1:
            raise _must_be(f"an object with one of the fields {', '.join(by_field)}", data)
        return _decoder(by_field[found[0]])(data, depth)

    return decode


def _literal(choices: tuple[Any, ...]) -> Decoder:
    def decode(data: Any, depth: int) -> Any:
        if not any(type(data) is type(choice) and data == choice for choice in choices):
            raise _must_be(f"one of {', '.join(map(str, choices))}", data)
        return data

    return decode


def _tuple(kinds: tuple[Any, ...]) -> Decoder:
    def decode(data: Any, depth: int) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise _must_be("a list", data)
        _check_size(data, depth)
        if not open_ended and len(data) != len(kinds):
            raise _must_be(f"a list of {len(kinds)}", data)
        values: list[Any] = []
        try:
            for i, item in enumerate(data):
                values.append(decoders[0 if open_ended else i](item, depth + 1))
        except _Misfit as misfit:
            misfit.steps.append(f"[{len(values)}]")
            raise
        return tuple(values)

    open_ended = len(kinds) == 2 and kinds[1] is Ellipsis
    decoders = [_decoder(k) for k in kinds if k is not Ellipsis]
    return decode


def _mapping(kind: Any) -> Decoder:
    def decode(data: Any, depth: int) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise _must_be("an object", data)
        _check_size(data, depth)
        values = {}
        for name, item in data.items():
            try:
                values[_str(name, depth)] = decoder(item, depth + 1)
            except _Misfit as misfit:
                misfit.steps.append(f".{ascii(name)[1:-1][:80]}")
                raise
        return values

    decoder = _decoder(kind)
    return decode


def _pairs(kind: Any) -> Decoder:
    """The decoder of ``tuple[tuple[str, X], ...]``."""
    pair, _ = get_args(kind)
    decoder = _mapping(get_args(pair)[1])
    return lambda data, depth: tuple(sorted(decoder(data, depth).items()))


def _config(data: Any, depth: int) -> Config:
    if not isinstance(data, dict):
        raise _must_be("an object of knobs", data)
    _check_size(data, depth)
    if not all(type(v) in (int, str, bool) for v in data.values()):
        raise _must_be("ints, strings and bools", data)
    return Config.of({_str(name, depth): _SCALARS[type(v)](v, depth) for name, v in data.items()})


def _expr(data: Any, depth: int) -> Expr:
    try:
        # the variants of a kernel repeat each other's guards: most of a bundle's expressions are read before
        return _known_expr(json.dumps(data)) if type(data) is list else read_expr(data)
    except TableError as error:
        raise _Misfit(error.constraint, error.got, error.hint) from error


@lru_cache(maxsize=4096)
def _known_expr(text: str) -> Expr:
    return read_expr(json.loads(text))


def _object(cls: Any) -> Decoder:
    def decode(data: Any, depth: int) -> Any:
        if not isinstance(data, dict):
            raise _must_be("an object", data)
        _check_size(data, depth)
        try:
            return build(data if read is None else read(data), depth + 1)
        except TableError as error:  # of json_fields and of validate
            steps = [f".{error.where}"] if isinstance(error.where, str) else []
            raise _Misfit(error.constraint, error.got, error.hint or _HINT, *steps) from error

    def build(data: dict[str, Any], depth: int) -> Any:
        if unknown := sorted(data.keys() - known):
            raise _Misfit("{place} must have only known fields", ascii(", ".join(unknown)[:120])[1:-1])
        values = {}
        for name, json_name, decoder in _plan(cls):
            if json_name in data:
                try:
                    values[name] = decoder(data[json_name], depth)
                except _Misfit as misfit:
                    misfit.steps.append(f".{json_name}")
                    raise
            elif name in needed:
                raise _Misfit("{place} must be there", f"only {', '.join(sorted(data))[:120]}", _HINT, f".{json_name}")
        value = cls(**values)
        if validate is not None:
            validate(value)
        return value

    known = set(_json_names(cls))
    needed = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    read: Callable[[dict[str, Any]], dict[str, Any]] | None = getattr(cls, "json_fields", None)
    validate: Callable[[Any], None] | None = getattr(cls, "validate", None)
    return decode


@cache
def _plan(cls: Any) -> list[tuple[str, str, Decoder]]:
    """Each field's name, its name in the file and its decoder. Made at the first use, for a type may hold itself."""
    return [(name, json_name, _decoder(_hints(cls)[name])) for name, json_name in _field_names(cls)]


def _field_names(cls: Any) -> list[tuple[str, str]]:
    """Each field's name, and its name in the file."""
    return [(f.name, f.metadata.get("json", f.name)) for f in fields(cls)]


def _json_names(cls: Any) -> list[str]:
    return [json_name for _, json_name in _field_names(cls)]


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _check_size(data: Any, depth: int) -> None:
    if len(data) > MAX_ITEMS:
        raise _must_be(f"of at most {MAX_ITEMS} items", f"{len(data)} items")
    if depth > _MAX_DEPTH:
        raise _must_be(f"at most {_MAX_DEPTH} levels deep", data)


def _must_be(wanted: str, data: Any) -> _Misfit:
    return _Misfit(f"{{place}} must be {wanted}", _REPR.repr(data))
