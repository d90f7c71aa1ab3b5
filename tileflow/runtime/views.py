"""Views of tensors that device code takes, ``x.T[b, a]``, ``x.view(-1)[t]``: each is a step of a path, which says the
method and its numbers, ``x.view:permute_1_0``, and which a launch takes again.

A table is data: a step names one of these methods, and ints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# The methods, and their parameters, which an author may name; a method of sizes takes any number of them.
METHODS: dict[str, tuple[str, ...]] = {
    "t": (),
    "view": ("size",),
    "reshape": ("shape",),
    "flatten": ("start_dim", "end_dim"),
    "ravel": (),
    "unflatten": ("dim", "sizes"),
    "permute": ("dims",),
    "transpose": ("dim0", "dim1"),
    "swapaxes": ("axis0", "axis1"),
    "swapdims": ("dim0", "dim1"),
    "movedim": ("source", "destination"),
    "moveaxis": ("source", "destination"),
    "squeeze": ("dim",),
    "unsqueeze": ("dim",),
    "expand": ("size",),
    "select": ("dim", "index"),
    "narrow": ("dim", "start", "length"),
    "diagonal": ("offset", "dim1", "dim2"),
    "chunk": ("chunks", "dim"),
    "split": ("split_size", "dim"),
    "unbind": ("dim",),
    "unfold": ("dimension", "size", "step"),
}
PROPERTIES = frozenset({"T", "mT"})
DEFAULTS: dict[str, dict[str, int]] = {
    "flatten": {"start_dim": 0, "end_dim": -1},
    "diagonal": {"offset": 0, "dim1": 0, "dim2": 1},
}
NAMES = frozenset({*METHODS, *PROPERTIES})

_NUMBER = r"(?:m?\d{1,19}|l\d{1,2}|d(?:bool|bfloat16|u?int(?:8|16|32|64)|float(?:8Ue[a-z0-9]{1,8}|16|32|64)))"
_SPELLED = re.compile(rf"([A-Za-z]+)((?:_{_NUMBER})*)")


def spelled(name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str:
    """A view as the name of a step: the method, and its ints, of which ``m`` says minus, and ``l2`` that the next two
    are one tuple; of a view of the bits the dtype, ``dint32``. Raises TypeError for what is neither, and for parameters
    that the method does not have."""
    given, named = [*args], dict(kwargs or {})
    if name == "view" and "dtype" in named and not given:
        given.append(named.pop("dtype"))
    if name == "view" and len(given) == 1 and (dtype := _name_of_dtype(given[0])):
        return f"view_d{dtype.replace('_', 'U')}"
    for parameter in METHODS[name][len(given) :] if named else ():
        if parameter in named:
            given.append(named[parameter])
        elif any(later in named for later in METHODS[name][len(given) :]):
            given.append(DEFAULTS.get(name, {}).get(parameter))
    if len(given) - len(args) < len(named):
        raise TypeError(f"{name}() takes {', '.join(METHODS[name]) or 'nothing'}, not {', '.join(named)}")
    words = [name]
    for value in given:
        numbers = value if isinstance(value, (tuple, list)) else [value]
        words += [f"l{len(numbers)}"] if isinstance(value, (tuple, list)) else []
        for number in numbers:
            if type(number) is not int:
                raise TypeError(f"{name}() takes ints, not {number!r}")
            words.append(f"m{-number}" if number < 0 else str(number))
    return "_".join(words)


def _name_of_dtype(value: Any) -> str:
    """torch's own name of a dtype; empty for all else."""
    kind = type(value)
    return str(value).removeprefix("torch.") if (kind.__module__, kind.__name__) == ("torch", "dtype") else ""


def is_view(name: str) -> bool:
    """Whether a step's name says a view."""
    match = _SPELLED.fullmatch(name)
    return match is not None and match[1] in NAMES and (match[1] in METHODS or not match[2])


def view_of(tensor: torch.Tensor, name: str) -> Any:
    """The view of a tensor that a step says, or the several of a ``chunk``. Raises ValueError where torch has none, and
    where it would copy, as a ``reshape`` of elements that do not follow one another."""
    try:
        made = _reader(name)(tensor)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    for one in made[:1] if isinstance(made, tuple) else (made,):
        if one.dtype.itemsize != tensor.dtype.itemsize:
            raise ValueError(f"the bits of {tensor.dtype} are those of a dtype as wide, not of {one.dtype}")
        if not _is_in_memory_of(one, tensor):
            raise ValueError("a copy, since the elements do not follow one another")
    return made


def _is_in_memory_of(view: torch.Tensor, tensor: torch.Tensor) -> bool:
    own, other = view.untyped_storage(), tensor.untyped_storage()
    return own is other or own.data_ptr() == other.data_ptr() != 0 or not tensor.numel()


@lru_cache(maxsize=4096)
def _reader(name: str) -> Callable[[torch.Tensor], Any]:
    match = _SPELLED.fullmatch(name)
    assert match is not None
    method, words = match[1], match[2].split("_")[1:]
    if method in PROPERTIES:
        return lambda tensor: getattr(tensor, method)
    args, left = list[Any](), 0
    for word in words:
        if word[0] == "l":
            args.append([])
            left = int(word[1:])
            continue
        if word[0] == "d":
            import torch

            args.append(getattr(torch, word[1:].replace("U", "_")))
            continue
        number = -int(word[1:]) if word[0] == "m" else int(word)
        if left:
            args[-1].append(number)
            left -= 1
        else:
            args.append(number)
    return lambda tensor: getattr(tensor, method)(*args)
