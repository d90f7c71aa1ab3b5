"""Mutations of tables and bundles: seeded, so that a failure is found again by its number.

Each function takes a ``random.Random``, changes one thing, or a few, and says in a word what it did.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

# what a payload would run: tests look whether it did
CANARY = "tileflow_canary"
CODE = f"__import__('sys').modules['{CANARY}'].fired.append(1)"

# JSON text that json.dumps cannot write, under the string that stands for it
_RAW = {
    '"@deep lists"': "[" * 5000 + "]" * 5000,
    '"@deep objects"': '{"a":' * 3000 + "1" + "}" * 3000,
    '"@deep guard"': '["not",' * 900 + '{"sym":"n"}' + "]" * 900,
    '"@huge"': "9" * 5000,
    '"@infinite"': "1e999",
    '"@nan"': "NaN",
    '"@twice"': '{"sym":"n","sym":"x.align"}',
}
_X, _N = {"sym": "x.shape.0"}, {"sym": "n"}
HOSTILE_EXPRS: tuple[Any, ...] = (
    ["floordiv", 1, 0], ["mod", _X, 0], ["cdiv", _X, ["sum", 1, -1]], ["floordiv", 1, ["not", 1]], 10**400,
    ["prod", *[["sum", {"sym": f"a{i}"}, {"sym": f"b{i}"}] for i in range(26)]],
    ["prod", *[{"sym": f"a{i}"} for i in range(600)]], ["sum", *range(5000)], ["next_pow2", (1 << 63) + 1],
    ["prod", 1 << 62, 1 << 62, _X], ["sum", (1 << 63), (1 << 63)], "@deep guard", {"sym": "n" * 5000}, {"sym": CODE},
    {"sym": "x.shape.99999999999"}, {"sym": f"x.attr:__class__.key:{CODE}"}, {"sym": "target.nothing"}, {"sym": ""},
    {"sym": "x.item:" + "9" * 400}, ["and", 1], ["pow", 2, 64], [CODE, 1, 2], {"sym": "class"}, {"sym": "x²"},
)  # fmt: skip
MILD_EXPRS: tuple[Any, ...] = (
    1, 0, -7, ["eq", _X, 64], ["le", ["floordiv", 4096, {"sym": "x.stride.1"}], 1 << 20],
    ["mod", _X, {"sym": "begin.0"}], ["cdiv", {"sym": "end.0"}, ["sum", _X, -64]], {"sym": "x.shape.63"},
    {"sym": "end.5"}, ["next_pow2", ["prod", _X, _X]], ["or", ["lt", 0, _N], ["eq", ["mod", _X, 16], 0]],
    {"sym": "f.cell:scale.attr:name"}, {"sym": "target.sm_count"}, ["prod", 1 << 40, _X, _X, _X],
    ["floordiv", 1, ["sum", {"sym": "target.sm_count"}, -132]],
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 5, 16, 17, 255, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64, -(1 << 63) - 1, 10**400,
    0.0, -0.0, 0.5, 1e308, "@infinite", "@nan", "@huge", "", " ", "x", "float32", "inf", "\0", "\ud800", "é", CODE,
    f"1); {CODE}; (1", "a" * 5000, "a" * 100_000, "../../etc/passwd", [], {}, [[]], [1, 2, 3], [CODE, 1, 1],
    {"sym": "x"}, {"tensor": "float32"}, "@deep lists", "@deep objects", "@twice", list(range(3000)),
)  # fmt: skip


def text_of(data: Any) -> str:
    text = json.dumps(data)
    for token, raw in _RAW.items():
        text = text.replace(token, raw)
    return text


# ---- structure ----------------------------------------------------------------------------------------------------

Place = tuple[Any, Any]  # a container and a key or index of it


def mutate_structure(original: Any, rng: random.Random) -> tuple[str, Any]:
    """The name of what was done, and the changed copy: mostly one change, at times three."""
    data = _copy(original)
    names = [_change(data, rng) for _ in range(rng.choice((1, 1, 1, 3)))]
    return "+".join(names), data


def _change(data: Any, rng: random.Random) -> str:
    places = _places(data)
    if rng.random() < 0.3:  # where code is made of it
        places = [p for p in places if _is_expr(p[0][p[1]]) or p[1] in _LAUNCH_FIELDS] or places
    change = rng.choice(_CHANGES)
    change(*rng.choice(places), places, rng)
    return change.__name__.strip("_")


_LAUNCH_FIELDS = frozenset({"cluster", "threads", "shared", "scratch", "path", "type", "symbol", "grid", "tensor_map"})


def _copy(data: Any) -> Any:
    return pickle.loads(pickle.dumps(data))  # five times as fast as copy.deepcopy


def _places(data: Any) -> list[Place]:
    found, rest = [], [data]
    while rest:
        node = rest.pop()
        for key, child in node.items() if type(node) is dict else enumerate(node):
            found.append((node, key))
            if type(child) in (dict, list):
                rest.append(child)
    return found


def _is_expr(value: Any) -> bool:
    return (isinstance(value, list) and bool(value) and isinstance(value[0], str)) or (
        isinstance(value, dict) and "sym" in value
    )


def _replace(holder: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    holder[key] = _copy(rng.choice(VALUES))


def _hostile_expr(holder: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    holder, key = rng.choice([p for p in places if _is_expr(p[0][p[1]])] or [(holder, key)])
    holder[key] = _copy(rng.choice(HOSTILE_EXPRS))


def _mild_expr(holder: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    holder, key = rng.choice([p for p in places if _is_expr(p[0][p[1]])] or [(holder, key)])
    holder[key] = _copy(rng.choice(MILD_EXPRS))


def _remove(holder: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    del holder[key]


def _repeat(holder: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    if isinstance(holder, list):
        holder[key:key] = [_copy(holder[key]) for _ in range(rng.choice((1, 1, 70)))]
    else:
        holder[f"{key}_"] = _copy(holder[key])


def _rename(holder: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    if isinstance(holder, dict):
        holder[rng.choice((CODE, "", "é", "name", "value", str(key).upper()))] = holder.pop(key)


def _splice(holder: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    other, where = rng.choice(places)
    holder[key] = _copy(other[where])


def _wrap(holder: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    value = holder[key]
    holder[key] = rng.choice(([value], {"sym": value}, ["not", value], [value, value], str(value)[:50]))


def _nudge(holder: Any, key: Any, places: list[Place], rng: random.Random) -> None:
    """A number beside, another letter: most of these are tables too."""
    numbers = [p for p in places if type(p[0][p[1]]) in (int, float, str, bool)]
    holder, key = rng.choice(numbers or [(holder, key)])
    value = holder[key]
    if type(value) is bool:
        holder[key] = not value
    elif isinstance(value, str):
        holder[key] = value + rng.choice("a0_") if value.isidentifier() else value[:-1]
    elif isinstance(value, (int, float)):
        holder[key] = rng.choice((value + 1, value - 1, value * 2, -value))


_CHANGES: tuple[Callable[[Any, Any, list[Place], random.Random], None], ...] = (
    _replace, _replace, _hostile_expr, _mild_expr, _remove, _repeat, _rename, _splice, _wrap, _nudge, _nudge,
)  # fmt: skip


# ---- bytes --------------------------------------------------------------------------------------------------------


def mutate_bytes(original: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Damage as disks and editors do it."""
    at = rng.randrange(len(original))
    to = min(at + rng.choice((1, 2, 8, 200)), len(original))
    match rng.choice(("flip", "cut", "truncate", "repeat", "insert", "blank", "digit")):
        case "flip":
            return "flip", original[:at] + bytes([original[at] ^ (1 << rng.randrange(8))]) + original[at + 1 :]
        case "cut":
            return "cut", original[:at] + original[to:]
        case "truncate":
            return "truncate", original[:at]
        case "repeat":
            return "repeat", original[:to] + original[at:to] * rng.choice((1, 50)) + original[to:]
        case "insert":
            return "insert", original[:at] + rng.randbytes(rng.choice((1, 4))) + original[at:]
        case "digit":
            return "digit", original[:at] + b"7" + original[at + 1 :]
    spaces = [i for i, byte in enumerate(original) if byte in b"\n,:"] or [0]
    at = rng.choice(spaces) + 1
    return "blank", original[:at] + b" \n\t"[: rng.randint(1, 3)] + original[at:]


# ---- files --------------------------------------------------------------------------------------------------------


def mutate_files(bundle: Path, outside: Path, rng: random.Random) -> str:
    """Change one file or folder of the bundle in ``bundle``; ``outside`` is a folder beside it."""
    path = rng.choice(sorted(bundle.rglob("*")))
    change = rng.choice(_FILE_CHANGES)
    change(path, outside, rng)
    return f"{change.__name__.strip('_')} {path.relative_to(bundle).parts[0]}"


def _move_away(path: Path, outside: Path) -> Path:
    moved = outside / f"{len(list(outside.iterdir()))}-{path.name}"
    path.rename(moved)
    return moved


def _linked_outside(path: Path, outside: Path, rng: random.Random) -> None:
    path.symlink_to(_move_away(path, outside))


def _linked_in_a_loop(path: Path, outside: Path, rng: random.Random) -> None:
    _move_away(path, outside)
    other = path.with_name(f"{path.name}.loop")
    path.symlink_to(other)
    other.symlink_to(path)


def _linked_to_itself(path: Path, outside: Path, rng: random.Random) -> None:
    _move_away(path, outside)
    path.symlink_to(path.name)


def _linked_inside(path: Path, outside: Path, rng: random.Random) -> None:
    moved = path.rename(path.with_name(f"{path.name}.moved"))
    path.symlink_to(moved.name)


def _linked_to_a_device(path: Path, outside: Path, rng: random.Random) -> None:
    _move_away(path, outside)
    path.symlink_to(rng.choice(("/dev/zero", "/dev/null", "/dev/tty", "/proc/self/mem")))


def _fifo(path: Path, outside: Path, rng: random.Random) -> None:
    _move_away(path, outside)
    os.mkfifo(path)


def _socket(path: Path, outside: Path, rng: random.Random) -> None:
    _move_away(path, outside)
    if len(os.fsencode(path)) < 100:  # the kernel's limit of a socket's name
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.fspath(path))


def _folder(path: Path, outside: Path, rng: random.Random) -> None:
    _move_away(path, outside)
    path.mkdir()


def _missing(path: Path, outside: Path, rng: random.Random) -> None:
    _move_away(path, outside)


def _empty(path: Path, outside: Path, rng: random.Random) -> None:
    _move_away(path, outside)
    path.touch()


def _gigantic(path: Path, outside: Path, rng: random.Random) -> None:
    """Sparse: a terabyte that costs nothing but to whoever reads it."""
    if path.is_file():
        os.truncate(path, 1 << 40)


def _damaged(path: Path, outside: Path, rng: random.Random) -> None:
    if path.is_file():
        path.write_bytes(mutate_bytes(path.read_bytes(), rng)[1])


def _renaming(path: Path, outside: Path, rng: random.Random) -> None:
    """The names that a manifest may give."""
    if path.suffix == ".json":
        names = (
            "../../x.json",
            "/etc/passwd",
            "a/b",
            "\\u0000",
            "x" * 300,
            "\\ud800.json",
            "..",
            "",
            "\\u00e9.json",
            CODE,
        )
        text = path.read_text()
        path.write_text(text.replace('.json"', f'{rng.choice(names)}"'))


_FILE_CHANGES: tuple[Callable[[Path, Path, random.Random], None], ...] = (
    _linked_outside, _linked_in_a_loop, _linked_to_itself, _linked_inside, _linked_to_a_device, _fifo, _socket, _folder,
    _missing, _empty, _gigantic, _damaged, _damaged, _renaming,
)  # fmt: skip
