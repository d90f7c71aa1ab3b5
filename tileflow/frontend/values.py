"""What device code sees while it is traced: tiles of values, captured tensors, sizes, loop tiles.

None of them is a torch tensor or a Python number, so that nothing reads a value that is not there yet.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import MissingAttribute, TileflowError, TraceError
from ..expr import Expr
from ..ir.attributes import LoadAttrs
from ..ir.graph import ExprIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import Dim, Value, is_float
from ..language.assignments import ASSIGNED, instead_of_a_view, instead_of_assignment
from ..language.captured_views import BY_ITEM, by_item, spelled_view
from ..language.cuts import Spans
from ..language.in_place import is_in_place
from ..runtime import views
from ..runtime.numpy_numbers import plain_number
from .counted_turns import WRITTEN_OUT
from .described import Described
from .promotion import torch_dtype
from .refusals import as_operand, not_a_number, of_a_tile, of_captured, text_of
from .rewritten_nodes import TRACER
from .sizes import SymInt as SymInt
from .syntax_registry import SYNTAX
from .torch_registry import METHODS
from .traced import Traced, takes_tiles

if TYPE_CHECKING:
    import torch

    from .taken import Loaded, Taken
    from .trace import Tracer


class Undefined:
    """A name that was not assigned on some way to its use."""

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED = Undefined()

_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv", "mod": "remainder",
    "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "shift_left",
    "rshift": "shift_right",
}  # fmt: skip
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


class TileValue(Described):
    """A tile in registers: an IR value with torch's methods and operators. ``is_number``: to the author it is a number
    of Python's, which a loop or a branch of the kernel changes, or which ``int`` or ``float`` made. ``taken``: where
    the text takes the part of a tensor that it holds, of which it is a view in torch; None of all else. ``loaded``:
    of what is loaded by an index of which torch has a view, what that names. ``base``, ``cut``, ``same``, ``entry``,
    ``later``: other tiles that it is to Python (:mod:`.changed_tiles`)."""

    __slots__ = ("base", "cut", "entry", "is_number", "later", "loaded", "same", "scope", "taken", "value")

    def __init__(self, value: Value, tracer: Tracer, scope: int, is_number: bool = False) -> None:
        self.taken: Taken | None = None
        self.base: TileValue | None = None
        self.cut: Spans = {}
        self.entry: TileValue | None = None
        self.same: tuple[TileValue, ...] = ()
        self.later: tuple[TileValue, ...] = ()
        self.loaded: Loaded | None = None
        self.value = value
        self.tracer = tracer
        self.scope = scope
        self.is_number = is_number or value.type.weak

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the elements."""
        return torch_dtype(self.value.type.dtype)

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The sizes of the dimensions."""
        return tuple(d.extent for d in self.value.dims)

    @property
    def T(self) -> TileValue:
        """The transpose of a matrix; a tile with fewer dimensions as it is."""
        return self.t()  # type: ignore[no-any-return]

    @property
    def mT(self) -> TileValue:
        """The tile with its last two dimensions exchanged."""
        return self.transpose(-2, -1)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        handler = METHODS.get(name)
        if handler is None:
            if is_in_place(name):
                self.tracer.store_through(self)
            raise self.tracer.placed(of_a_tile(name))
        return lambda *args, **kwargs: self.tracer.run_torch(handler, name, (self, *args), kwargs)

    def __getitem__(self, index: Any) -> TileValue:
        found: TileValue = SYNTAX["index_tile"](self.tracer, self, index)
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.tracer.part_taken(self) is not None:
            raise self.tracer.is_stored_through(self)
        where = self.tracer.location()
        view = instead_of_a_view(where.text if where else "", self._kept())
        general = instead_of_assignment(index, self.ndim, value.ndim if isinstance(value, TileValue) else 0)
        raise TraceError(ASSIGNED, got=repr(self), where=where, hint=view or general)

    def _kept(self) -> tuple[bool, ...]:
        """Of each dimension of the tensor that the tile is loaded from, whether the index left it; none of others."""
        op = self.tracer.builder.definitions.get(self.value)
        items = LoadAttrs.of(op).index if op is not None and op.kind is OpKind.LOAD else ()
        return tuple(
            bool(item.axes) if isinstance(item, ValueIndex) else not isinstance(item, ExprIndex) for item in items
        )

    if TYPE_CHECKING:  # what the loops below set
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = lambda self, other: self
        __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = lambda self, other: self
        __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: self

    def __neg__(self) -> TileValue:
        return self.tracer.pointwise("neg", self)

    def __pos__(self) -> TileValue:
        return self

    def __invert__(self) -> TileValue:
        return self.tracer.pointwise("logical_not" if self.value.type.dtype == "bool" else "bitwise_not", self)

    def __abs__(self) -> TileValue:
        return self.tracer.pointwise("abs", self)

    def __matmul__(self, other: Any) -> TileValue:
        if not isinstance(other, Traced) and takes_tiles(other, "__rmatmul__"):
            return NotImplemented
        return self.matmul(other)  # type: ignore[no-any-return]

    def _number(self, what: str) -> Any:
        raise self.tracer.placed(not_a_number(what, self.value.type, self._asked_by_operator()))

    def _asked_by_operator(self) -> str:
        """A remedy where Python itself runs the asking code: an operator of an object that device code made."""
        frame = self.tracer.frame()
        name = "" if frame is None else frame.f_code.co_name
        is_own = frame is None or TRACER in (*frame.f_code.co_varnames, *frame.f_code.co_freevars)
        if is_own or not (name.startswith("__") and name.endswith("__")):
            return ""
        return f"Python runs {name} of an object that device code makes: call a method of another name; or "

    def __bool__(self) -> bool:
        return self._number("truth value")  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self._number("int")  # type: ignore[no-any-return]

    def __float__(self) -> float:
        return self._number("float")  # type: ignore[no-any-return]

    def __iter__(self) -> Any:
        return self._number("iteration")

    def __len__(self) -> int:
        return self._number("length")  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        """Raises TraceError: a dictionary or a set would find nothing, where Python's number is found."""
        raise TraceError(
            "Python's dictionaries and sets are of what Python knows while the kernel is compiled",
            got=repr(self),
            where=self.tracer.location(),
            hint="in place of `x in (2, 3)`: (x == 2) | (x == 3); of a dictionary: torch.tensor(list)[x]; "
            f"{WRITTEN_OUT}",
        )

    def __repr__(self) -> str:
        return f"tile {self.value.type}"

    def __format__(self, spec: str) -> str:
        raise TraceError(
            "a tile has no text while the kernel is compiled",
            got=repr(self),
            where=self.tracer.location(),
            hint='print it from the GPU: tfl.device_print("x", x)',
        )


def _operator(fn: str, reflected: bool, theirs: str) -> Any:
    """``theirs``: the operator of an author's object on the right, which is asked as Python asks it."""

    def apply(self: TileValue, other: Any) -> Any:
        other = plain_number(other)
        if theirs and not isinstance(other, (int, float, Traced)) and takes_tiles(other, theirs):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        found = SYNTAX["binary"](self.tracer, fn, a, b)
        return self.tracer.copied(found) if found is a or found is b else found  # x ** 1 is another tile

    return apply


for _python, _fn in _BINARY.items():
    setattr(TileValue, f"__{_python}__", _operator(_fn, reflected=False, theirs=f"__r{_python}__"))
    setattr(TileValue, f"__r{_python}__", _operator(_fn, reflected=True, theirs=""))
for _fn in _COMPARE:
    setattr(TileValue, f"__{_fn}__", _operator(_fn, reflected=False, theirs=""))


_OF_TILES = frozenset({"scope", "value"})
FACTORIES = frozenset({"new_empty", "new_full", "new_ones", "new_zeros"})


class TensorRef(Described):
    """A captured tensor: what is loaded from and stored to by index.

    ``is_whole``: whether it stands for all of its elements where no index says which, as a module's weight does.
    ``is_part``: whether it is one of :class:`tileflow.frontend.part_views.PartRef`.
    ``take_view``: what a view of it is, by the view's name in paths.
    """

    __slots__ = ("dims", "dtype_name", "is_whole", "path", "strides_", "take_view")
    is_part = False

    def __init__(
        self,
        path: str,
        dtype_name: str,
        dims: tuple[Expr, ...],
        strides: tuple[Expr, ...],
        tracer: Tracer,
        take_view: Callable[[str], Any],
    ) -> None:
        self.take_view = take_view
        self.path = path
        self.dtype_name = dtype_name
        self.dims = dims
        self.strides_ = strides
        self.tracer = tracer
        self.is_whole = not dims

    def all(self) -> TileValue:
        """All of its elements."""
        found: TileValue = SYNTAX["load"](self.tracer, self, (slice(None),) * len(self.dims))
        return found

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the elements."""
        return torch_dtype(self.dtype_name)

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The sizes of the dimensions."""
        return self.dims

    def stride(self, dim: int | None = None) -> Any:
        """All strides in elements, or the one of ``dim``."""
        strides = tuple(self.tracer.size(e) for e in self.strides_)
        return strides if dim is None else self.of_axis(strides, dim)

    def is_contiguous(self) -> bool:
        """Whether elements follow one another; sizes and strides that another launch changes are guarded."""
        follows = Expr.of(1)
        for extent, stride in zip(reversed(self.dims), reversed(self.strides_), strict=True):
            if self.tracer.size(extent) != 1 and self.tracer.size(stride) != self.tracer.size(follows):
                return False
            follows = follows * extent
        return True

    def __len__(self) -> int:
        return self.tracer.specialize(self.dims[0])

    def __iter__(self) -> Any:
        raise self.tracer.placed(as_operand(repr(self), self.path))

    def __eq__(self, other: object) -> Any:
        return self._operator("__eq__", other)

    def __ne__(self, other: object) -> Any:
        return self._operator("__ne__", other)

    __hash__ = object.__hash__

    def __getitem__(self, index: Any) -> Any:
        return SYNTAX["take"](self.tracer, self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        SYNTAX["store"](self.tracer, self, index, value)

    def viewed(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """A view of the tensor, by torch's method or property of that name, with ints and sizes: it is read and stored
        by index as the tensor is. Raises TraceError, and ShapeError where torch has none."""
        if name in BY_ITEM and any(isinstance(arg, TileValue) for arg in (*args, *kwargs.values())):
            return self[by_item(name, self.ndim, args, kwargs)]
        given = [self._plain(arg) for arg in args]
        try:
            words = spelled_view(name, given, {key: self._plain(arg) for key, arg in kwargs.items()}, self.path)
            return self.take_view(words)
        except TileflowError as error:
            error.stand_at(self.tracer.location())
            raise

    def _plain(self, arg: Any) -> Any:
        """An argument of a view, a size as the constant that it is in this variant."""
        if isinstance(arg, (tuple, list)):
            return tuple(map(self._plain, arg))
        return self.tracer.specialize(arg.expr) if isinstance(arg, SymInt) else arg

    def _operator(self, name: str, *others: Any) -> Any:
        """Any operator: it applies to the value of a 0-d tensor or of a module's tensor. Raises TraceError for
        others."""
        if self.is_whole:
            return getattr(self.all(), name)(*others)
        raise self.tracer.placed(as_operand(repr(self), self.path))

    def __getattr__(self, name: str) -> Any:
        if name in FACTORIES:  # they ask for the dtype only
            return lambda *args, **kwargs: self.tracer.run(METHODS[name], name, (self, *args), kwargs)
        if name.endswith("_") and not name.endswith("__"):
            raise self.tracer.placed(of_captured(name, self.path))
        if not self.dims:
            return getattr(self[()], name)
        if self.is_whole and not name.startswith("__"):
            return getattr(self.all(), name)
        if name in _OF_TILES:  # asked for by an operation on tiles
            return self._operator(name)
        if name in views.PROPERTIES:
            return self.viewed(name)
        if name in views.METHODS:
            return partial(self.viewed, name)
        raise self.tracer.placed(of_captured(name, self.path))

    def __repr__(self) -> str:
        return text_of(self.path, self.dtype_name, ", ".join(map(str, self.dims)))


def _of_value(name: str) -> Any:
    return lambda self, *others: self._operator(name, *others)


_UNARY = ("neg", "invert", "abs", "bool", "int", "float")
for _name in (*_BINARY, *(f"r{n}" for n in _BINARY), "matmul", "rmatmul", *_COMPARE[2:], *_UNARY):
    setattr(TensorRef, f"__{_name}__", _of_value(f"__{_name}__"))


def is_number(x: Any) -> bool:
    """Whether a value is a number of Python's to the author, known to the trace or not."""
    return x.is_number if isinstance(x, TileValue) else isinstance(x, (SymInt, int, float))


class TileProxy(Traced):
    """The variable of a tile loop: an index, a shape, and its scalars. ``offset`` keeps ``tile + 1`` affine; ``shift``
    is what a scalar of the kernel adds to it."""

    __slots__ = ("name", "offset", "scope", "shift")

    def __init__(self, name: str, tracer: Tracer, scope: int, offset: Expr, shift: TileValue | None = None) -> None:
        self.name = name
        self.tracer = tracer
        self.scope = scope
        self.offset = offset
        self.shift = shift

    def __str__(self) -> str:
        raise TraceError(
            "a tile has no text while the kernel is compiled",
            got=f"the tile {self.name}",
            where=self.tracer.location(),
            hint='print it from the GPU: tfl.device_print("tile", tile.begin)',
        )

    @property
    def index(self) -> TileValue:
        """The tile's indices, 1-D, int32."""
        return self._shifted(OpKind.TILE_INDEX)

    @property
    def begin(self) -> Any:
        """The tile's first index, with the offset of ``tile + 1``."""
        return self._shifted(OpKind.TILE_BEGIN)

    @property
    def end(self) -> Any:
        """The index behind the tile's last one, with the offset of ``tile + 1``."""
        return self._shifted(OpKind.TILE_END)

    def _shifted(self, kind: OpKind) -> TileValue:
        scalar = self.tracer.tile_scalar(kind, self)
        scalar = scalar if self.offset == Expr.of(0) else scalar + self.tracer.size(self.offset)
        return scalar if self.shift is None else scalar + self.shift

    @property
    def id(self) -> TileValue:
        """Which block of its loop this is, counted from 0."""
        return self.tracer.tile_scalar(OpKind.TILE_ID, self)

    @property
    def count(self) -> Any:
        """How many blocks the loop has. Raises TraceError where the kernel computes its bounds."""
        return self.tracer.tile_count(self)

    @property
    def block_size(self) -> Any:
        """The block size: a symbol that the config decides, or a constant."""
        return self.tracer.size(self.dim.extent)

    @property
    def dim(self) -> Dim:
        """The dimension that a tile of this loop has."""
        return self.tracer.tiles[self.name].dim

    def __add__(self, offset: Any) -> TileProxy:
        if isinstance(offset, TileValue):
            if offset.value.dims or is_float(offset.value.type.dtype):
                raise TraceError(
                    "a tile is shifted by an int, a size or an integer scalar",
                    got=repr(offset),
                    where=self.tracer.location(),
                    hint="shift its indices: tile.index + offset",
                )
            shift = offset if self.shift is None else self.shift + offset
            return TileProxy(self.name, self.tracer, self.scope, self.offset, shift)
        moved = self.offset + self.tracer.as_expr(offset, "a tile's offset")
        return TileProxy(self.name, self.tracer, self.scope, moved, self.shift)

    __radd__ = __add__

    def __sub__(self, offset: Any) -> TileProxy:
        return self.__add__(-offset)

    def _no_value(self, what: str) -> Any:
        raise TraceError(
            "a tile of a loop is an index and a shape, its indices are tile.index",
            got=what,
            where=self.tracer.location(),
            hint=f"{self.name}.index is the 1-D tile of them",
        )

    def __getattr__(self, name: str) -> Any:
        raise MissingAttribute(
            "a tile of a loop has index, begin, end, id, count and block_size",
            got=f"{self.name}.{name}",
            where=self.tracer.location(),
            hint="torch's methods are those of what is loaded: x[tile]",
        )

    def __repr__(self) -> str:
        return self.name


def _no_operator(name: str) -> Any:
    return lambda self, *others: self._no_value(f"__{name}__ of {self.name}")


for _name in ("mul", "rmul", "truediv", "floordiv", "mod", "rsub", "neg", "pow", "matmul", *_COMPARE[2:], "iter"):
    setattr(TileProxy, f"__{_name}__", _no_operator(_name))
