"""Frozen dataclasses to JSON and back, strictly: an unknown, missing or ill-typed field is an error with its place.

Types with ``to_json`` and ``from_json`` speak for themselves; a Config is an object of its knobs.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ..config import Config
from ..errors import TableError, TileflowError

T = TypeVar("T")

_HINT = "the file is damaged or was written by a newer tileflow"


def encode(value: Any) -> Any:
    """Plain JSON data. Raises TableError for infinities and nan, which JSON does not have."""
    if isinstance(value, Config):
        return value.to_dict()
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        return {f.name: _encode_field(hints[f.name], getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [encode(v) for v in value]
    if isinstance(value, Mapping):
        return {k: encode(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise TableError("a table's numbers must be finite", got=value)
    return value


def _encode_field(hint: Any, value: Any) -> Any:
    """An int where a float is meant is written as one: 3 and 3.0 would be two texts of one table."""
    is_float = hint is float or float in get_args(hint)
    return encode(float(value) if is_float and isinstance(value, int) else value)


def decode(cls: type[T], data: Any, where: str = "") -> T:
    """A ``cls`` out of JSON data. Raises TableError naming the place, as ``entries[3].best_us``."""
    return cast(T, _decode(cls, data, where))


def _decode(kind: Any, data: Any, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union(kind, data, where)
    if origin is Literal:
        if data not in get_args(kind):
            _fail(f"one of {', '.join(map(str, get_args(kind)))}", data, where)
        return data
    if origin is tuple:
        return _tuple(get_args(kind), data, where)
    if origin is not None and issubclass(origin, Mapping):
        _expect(isinstance(data, dict), "an object", data, where)
        return {k: _decode(get_args(kind)[1], v, f"{where}.{k}") for k, v in data.items()}
    if kind is Config:
        _expect(isinstance(data, dict), "an object of knobs", data, where)
        _expect(all(isinstance(v, (int, str)) for v in data.values()), "ints, strings and bools", data, where)
        return Config.of(data)
    if hasattr(kind, "from_json"):
        return _foreign(kind, data, where)
    if is_dataclass(kind):
        return _object(cast(type, kind), data, where)
    return _scalar(kind, data, where)


def _scalar(kind: Any, data: Any, where: str) -> Any:
    if kind is float:
        ok = isinstance(data, (int, float)) and not isinstance(data, bool) and math.isfinite(data)
        _expect(ok, "a finite number", data, where)
        return float(data)
    _expect(type(data) is kind, f"of type {kind.__name__}", data, where)
    return data


def _union(kind: Any, data: Any, where: str) -> Any:
    """``X | None``: the only unions that a schema has."""
    (inner,) = (k for k in get_args(kind) if k is not types.NoneType)
    return None if data is None else _decode(inner, data, where)


def _tuple(kinds: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    _expect(isinstance(data, list), "a list", data, where)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_decode(kinds[0], v, f"{where}[{i}]") for i, v in enumerate(data))
    _expect(len(data) == len(kinds), f"a list of {len(kinds)}", data, where)
    return tuple(_decode(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, data, strict=True)))


def _foreign(kind: Any, data: Any, where: str) -> Any:
    try:
        return kind.from_json(data)
    except TileflowError as error:
        raise TableError(error.constraint, got=error.got, where=where, hint=error.hint or _HINT) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(
            f"{where} must be a {kind.__name__}", got=f"{str(data)[:120]} ({type(error).__name__}: {error})", hint=_HINT
        ) from error


def _object(cls: type, data: Any, where: str) -> Any:
    _expect(isinstance(data, dict), "an object", data, where)
    hints = _hints(cls)
    known = fields(cls)
    unknown = sorted(data.keys() - {f.name for f in known})
    if unknown:
        raise TableError(
            f"{where or 'a table'} must have only known fields", got=", ".join(unknown), where=where or None, hint=_HINT
        )
    values = {}
    for f in known:
        place = f"{where}.{f.name}" if where else f.name
        if f.name in data:
            values[f.name] = _decode(hints[f.name], data[f.name], place)
        elif f.default is MISSING and f.default_factory is MISSING:
            raise TableError(f"{place} must be there", got=f"only {', '.join(sorted(data))}", where=place, hint=_HINT)
    return cls(**values)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _expect(condition: bool, what: str, data: Any, where: str) -> None:
    if not condition:
        _fail(what, data, where)


def _fail(what: str, data: Any, where: str) -> None:
    raise TableError(f"{where or 'a table'} must be {what}", got=repr(data)[:120], where=where or None, hint=_HINT)
