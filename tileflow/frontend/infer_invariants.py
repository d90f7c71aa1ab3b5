"""Which variables of host code are functions of a call's key, so that a warm launch need not look at them again.

Asked of the text: host code is followed from the top as long as it calls nothing but what is known to leave every
tensor's shape, strides and device as they are. One call of anything else, and nothing is settled: it may reach any
tensor by another name. Standard library only: production splits kernels too.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Mapping
from typing import Literal

from ..python_functions import python_own
from ..runtime.key_invariants import DEFAULT_DTYPE, OF_ANY_HOST_CODE, KeyInvariants
from .liveness import FUNCTIONS, Names, bound_names, parameters, target_names
from .source import FunctionSource, resolve

Kind = Literal["number", "tensor", "unknown"]  # a number may be a shape, a dtype or a device

_LIKE = {"empty_like", "full_like", "ones_like", "zeros_like"}
_NEW = {"empty", "empty_strided", "full", "ones", "zeros"}  # on the default device unless one is named
_NEW_METHODS = {"new_empty", "new_full", "new_ones", "new_zeros"}
_NUMBERS = {"promote_types"}
_TENSOR_METHODS = _NEW_METHODS | {
    "contiguous",
    "expand",
    "flatten",
    "movedim",
    "permute",
    "reshape",
    "squeeze",
    "swapaxes",
    "t",
    "transpose",
    "unflatten",
    "unsqueeze",
    "view",
}
_NUMBER_METHODS = {
    "dim",
    "element_size",
    "get_device",
    "is_contiguous",
    "is_floating_point",
    "nelement",
    "numel",
    "size",
    "stride",
}
_READING_METHODS = {  # what they give depends on what tensors hold
    "all",
    "amax",
    "amin",
    "any",
    "clone",
    "cumsum",
    "data_ptr",
    "fill_",
    "float",
    "item",
    "max",
    "mean",
    "min",
    "sum",
    "to",
    "zero_",
}
_ATTRIBUTES: dict[str, Kind] = {
    "T": "tensor",
    "mT": "tensor",
    "device": "number",
    "dtype": "number",
    "itemsize": "number",
    "ndim": "number",
    "shape": "number",
}
_BUILTINS = (abs, bool, divmod, float, int, len, python_own(max), python_own(min), range, round, sum, tuple)
_PLAIN = (types.NoneType, bool, int, float, str)
_COMPOSED = (
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.Constant,
    ast.IfExp,
    ast.List,
    ast.Slice,
    ast.Starred,
    ast.Subscript,
    ast.Tuple,
    ast.UnaryOp,
)
_ITEM_BY_ITEM = (ast.ListComp, ast.GeneratorExp)
_RESTLESS = (
    *FUNCTIONS, ast.AsyncFor, ast.AsyncWith, ast.AugAssign, ast.Await, ast.ClassDef, ast.Delete,
    ast.Global, ast.Import, ast.ImportFrom, ast.Lambda, ast.Match, ast.NamedExpr, ast.Nonlocal, ast.Try, ast.TryStar,
    ast.With, ast.Yield, ast.YieldFrom,
)  # fmt: skip


def infer_invariants(
    source: FunctionSource, loops: Mapping[ast.For, object], asked: frozenset[ast.Call], local: Names, constants: Names
) -> tuple[dict[ast.For, KeyInvariants], frozenset[str]]:
    """The key invariants at each tile loop, and the settings of torch's that host code can see, which a key must
    hold.

    ``asked``: host code's questions to the config; ``constants``: the parameters whose numbers are in the key.
    """
    follower = _Follower(source, loops, asked, local, constants)
    return follower.follow(), frozenset(follower.ambient)


class _Follower:
    """Follows the statements of host code: what its names are so far."""

    def __init__(
        self,
        source: FunctionSource,
        loops: Mapping[ast.For, object],
        asked: frozenset[ast.Call],
        local: Names,
        constants: Names,
    ) -> None:
        self.source, self.loops, self.asked = source, loops, asked
        self.local = local | _of_comprehensions(source.tree)
        self.arguments = _arguments(source) - constants
        self.kinds: dict[str, Kind] = dict.fromkeys(constants, "number")
        self.fresh: set[str] = set()
        self.names = frozenset(parameters(source.tree.args))
        self.found: dict[ast.For, KeyInvariants] = {}
        self.ambient: set[str] = set()

    def follow(self) -> dict[ast.For, KeyInvariants]:
        body = self.source.tree.body
        if all(map(self._is_quiet, self._host_nodes(body))):
            for statement in body:
                self._statement(statement)
        else:
            self.ambient |= OF_ANY_HOST_CODE
        return dict.fromkeys(self.loops, KeyInvariants()) | self.found

    def _host_nodes(self, nodes: list[ast.stmt]) -> Iterator[ast.AST]:
        """What host code runs: of a tile loop, what its bounds are made of."""
        todo: list[ast.AST] = [*nodes]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.For) and node in self.loops:
                todo += ast.iter_child_nodes(node.iter)
            else:
                yield node
                todo += ast.iter_child_nodes(node)

    # ---- what changes nothing --------------------------------------------------------------------

    def _is_quiet(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return self._result(node) is not None
        if isinstance(node, ast.Attribute | ast.Subscript):
            return isinstance(node.ctx, ast.Load)
        return not isinstance(node, _RESTLESS)

    def _result(self, node: ast.Call) -> Kind | None:
        """The kind of a call's result where its arguments are settled; None where the call may change something."""
        if node in self.asked:
            return "number"
        if isinstance(node.func, ast.Attribute):
            owner, name = self._resolved(node.func.value), node.func.attr
            if owner is None:
                return _result_of_method(name)
            if isinstance(owner, types.ModuleType):
                self._see_settings(owner.__name__, name, node)
                return _result_of_function(owner.__name__, name, node)
            return None
        function = self._resolved(node.func)
        if isinstance(function, type) and issubclass(function, BaseException):
            return "unknown"
        return "number" if any(function is known for known in _BUILTINS) else None

    def _see_settings(self, module: str, name: str, node: ast.Call) -> None:
        """A factory without a dtype makes tensors of torch's default one; what is passed for it may be None."""
        given = [k.value for k in node.keywords if k.arg == "dtype"]
        if module == "torch" and name in _NEW and not any(isinstance(value, ast.Attribute) for value in given):
            self.ambient.add(DEFAULT_DTYPE)

    def _resolved(self, expression: ast.expr) -> object:
        return resolve(expression, self.source.fn, self.local)

    # ---- what is settled --------------------------------------------------------------------------

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, node.value)
        else:
            self._bind(dict.fromkeys(bound_names([node], self.loops), "unknown"))
            for loop in (n for n in ast.walk(node) if isinstance(n, ast.For) and n in self.loops):
                bounds = self._has_settled_bounds(loop)
                self.found[loop] = KeyInvariants(
                    frozenset(self.arguments), frozenset(self.kinds), bounds, self.names, frozenset(self.fresh)
                )

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = [*zip(target.elts, value.elts, strict=True)]
        kinds = {name: self._kind(of) for to, of in pairs for name in target_names(to)}
        if isinstance(target, ast.Tuple) and isinstance(value, _ITEM_BY_ITEM):
            pairs = [(to, value.elt) for to in target.elts]  # which is run once for each, and makes each its own memory
            kinds |= {to.id: self._kind_of_items(value) for to in target.elts if isinstance(to, ast.Name)}
        self._bind(kinds)
        self.names |= frozenset(target_names(target))
        self.fresh |= {to.id for to, of in pairs if isinstance(to, ast.Name) and self._allocates(of)}

    def _kind_of_items(self, value: ast.ListComp | ast.GeneratorExp) -> Kind:
        """What each item is, where all are one expression over the same items."""
        (first, *others), arguments, kinds = value.generators, self.arguments, self.kinds
        if others or first.ifs or not isinstance(first.target, ast.Name):
            return "unknown"
        name, kind = first.target.id, self._kind(first.iter)
        self.arguments, self.kinds = arguments - {name}, {**kinds, name: kind if kind == "number" else "unknown"}
        try:
            return self._kind(value.elt)
        finally:
            self.arguments, self.kinds = arguments, kinds

    def _bind(self, kinds: Mapping[str, Kind]) -> None:
        self.arguments -= kinds.keys()
        self.fresh -= kinds.keys()
        self.kinds = {name: kind for name, kind in {**self.kinds, **kinds}.items() if kind != "unknown"}

    def _allocates(self, value: ast.expr) -> bool:
        """Whether a value is new memory of torch's, whatever it is made of."""
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return False
        owner, name = self._resolved(value.func.value), value.func.attr
        if isinstance(owner, types.ModuleType):
            return owner.__name__ == "torch" and name in _NEW | _LIKE
        return owner is None and name in _NEW_METHODS

    def _has_settled_bounds(self, loop: ast.For) -> bool:
        assert isinstance(loop.iter, ast.Call)
        ends = [k.value for k in loop.iter.keywords if k.arg not in ("block_size", "step")]
        return all(self._kind(bound) == "number" for bound in [*loop.iter.args[:2], *ends])

    def _kind(self, value: ast.AST) -> Kind:
        """What a value is if it is a function of the key. A parameter alone is not: it may be an int."""
        match value:
            case ast.Name(name):
                return self.kinds.get(name, "unknown")
            case ast.Attribute(owner, name):
                if isinstance(module := self._resolved(owner), types.ModuleType):
                    return "number" if module.__name__ in ("math", "torch") else "unknown"
                return _ATTRIBUTES.get(name, "unknown") if self._is_tensor(owner) else "unknown"
            case ast.Compare(left, _, comparators) if self._is_argument(left) and all(map(_is_word, comparators)):
                return "number"
            case ast.Call():
                result = self._result(value)
                return result if result is not None and self._takes_settled(value) else "unknown"
        parts = (n for n in ast.iter_child_nodes(value) if isinstance(n, ast.expr))
        return "number" if isinstance(value, _COMPOSED) and all(self._kind(n) == "number" for n in parts) else "unknown"

    def _takes_settled(self, node: ast.Call) -> bool:
        if node in self.asked:
            return True
        numbers: list[ast.expr] = [*node.args]
        tensors: list[ast.expr] = []
        if isinstance(node.func, ast.Attribute):
            if self._resolved(node.func.value) is None:
                tensors = [node.func.value]
            elif node.func.attr in _LIKE:
                tensors, numbers = numbers[:1], numbers[1:]
        # what is passed as a dtype is one, and a key holds it
        numbers += [k.value for k in node.keywords if not (k.arg == "dtype" and self._is_argument(k.value))]
        return all(map(self._is_tensor, tensors)) and all(self._kind(n) == "number" for n in numbers)

    def _is_tensor(self, value: ast.expr) -> bool:
        return self._is_argument(value) or self._kind(value) == "tensor"

    def _is_argument(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Name) and value.id in self.arguments


def _of_comprehensions(tree: ast.AST) -> Names:
    """The names that comprehensions bind for themselves, which mean nothing that can be looked up."""
    return frozenset(
        name for node in ast.walk(tree) if isinstance(node, ast.comprehension) for name in target_names(node.target)
    )


def _is_word(value: ast.expr) -> bool:
    """None or a string: a key tells whether an argument is that one, an int is neither."""
    return isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, str))


def _arguments(source: FunctionSource) -> Names:
    """The parameters that a key tells all metadata of. A default is in no key, so it must be a plain value."""
    arguments, defaults = source.tree.args, source.fn.__defaults__ or ()
    rest = {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
    named = [name for name in parameters(arguments) if name not in rest]
    late = dict(zip(named[len(named) - len(defaults) :], defaults, strict=True))
    return frozenset(name for name in named if isinstance(late.get(name), _PLAIN))


def _result_of_method(name: str) -> Kind | None:
    if name in _TENSOR_METHODS:
        return "tensor"
    if name in _NUMBER_METHODS:
        return "number"
    return "unknown" if name in _READING_METHODS else None


def _result_of_function(module: str, name: str, node: ast.Call) -> Kind | None:
    keywords = {k.arg for k in node.keywords}
    if keywords & {"out", None}:  # out is resized
        return None
    if module == "math" or (module == "torch" and name in _NUMBERS):
        return "number"
    if module == "torch" and name in _NEW:
        return "tensor" if "device" in keywords else "unknown"
    return "tensor" if module == "torch" and name in _LIKE else None
