"""A syntax tree as text that is the same on every Python: without positions, docstrings and annotations.

A hash of a kernel and the digest of a function are made of it. Standard library only: production makes both.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Sequence

from .errors import KernelError

# The fields that carry meaning, in a fixed order. Left out on purpose: ctx, kind, type_comment, type_params and
# annotations. Nodes that need more than their fields in a row are written by :meth:`TreeWriter.node`.
FIELDS: dict[str, tuple[str, ...]] = {
    "Assert": ("test", "msg"),
    "Assign": ("targets", "value"),
    "AsyncFor": ("target", "iter", "body", "orelse"),
    "AsyncWith": ("items", "body"),
    "Attribute": ("value", "attr"),
    "AugAssign": ("target", "op", "value"),
    "Await": ("value",),
    "BinOp": ("left", "op", "right"),
    "BoolOp": ("op", "values"),
    "Break": (),
    "Call": ("func", "args", "keywords"),
    "Compare": ("left", "ops", "comparators"),
    "Continue": (),
    "Delete": ("targets",),
    "Dict": ("keys", "values"),
    "DictComp": ("key", "value", "generators"),
    "ExceptHandler": ("type", "name", "body"),
    "Expr": ("value",),
    "For": ("target", "iter", "body", "orelse"),
    "FormattedValue": ("value", "conversion", "format_spec"),
    "GeneratorExp": ("elt", "generators"),
    "Global": ("names",),
    "If": ("test", "body", "orelse"),
    "IfExp": ("test", "body", "orelse"),
    "Import": ("names",),
    "ImportFrom": ("module", "names", "level"),
    "List": ("elts",),
    "ListComp": ("elt", "generators"),
    "Match": ("subject", "cases"),
    "MatchAs": ("pattern", "name"),
    "MatchClass": ("cls", "patterns", "kwd_attrs", "kwd_patterns"),
    "MatchMapping": ("keys", "patterns", "rest"),
    "MatchOr": ("patterns",),
    "MatchSequence": ("patterns",),
    "MatchSingleton": ("value",),
    "MatchStar": ("name",),
    "MatchValue": ("value",),
    "Name": ("id",),
    "NamedExpr": ("target", "value"),
    "Nonlocal": ("names",),
    "Raise": ("exc", "cause"),
    "Return": ("value",),
    "Set": ("elts",),
    "SetComp": ("elt", "generators"),
    "Slice": ("lower", "upper", "step"),
    "Starred": ("value",),
    "Subscript": ("value", "slice"),
    "Try": ("body", "handlers", "orelse", "finalbody"),
    "TryStar": ("body", "handlers", "orelse", "finalbody"),
    "Tuple": ("elts",),
    "UnaryOp": ("op", "operand"),
    "While": ("test", "body", "orelse"),
    "With": ("items", "body"),
    "Yield": ("value",),
    "YieldFrom": ("value",),
    "alias": ("name", "asname"),
    "arg": ("arg",),
    "comprehension": ("target", "iter", "ifs", "is_async"),
    "keyword": ("arg", "value"),
    "match_case": ("pattern", "guard", "body"),
    "withitem": ("context_expr", "optional_vars"),
}


class TreeWriter:
    """Writes syntax trees, with the values of their constants."""

    def node(self, node: object) -> str:
        """One AST node, a list of them, or a plain value of a field."""
        match node:
            case ast.Constant():
                return self.value(node.value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                parts: tuple[object, ...] = (node.name, *self.signature(node.args), node.decorator_list, node.body)
            case ast.Lambda():
                parts = (*self.signature(node.args), node.body)
            case ast.ClassDef():
                parts = (node.name, node.bases, node.keywords, node.decorator_list, node.body)
            case ast.AnnAssign():
                return self.node(ast.Assign([node.target], node.value or ast.Constant(...)))
            case ast.JoinedStr():
                parts = tuple(_joined(node.values))
            case ast.operator() | ast.unaryop() | ast.boolop() | ast.cmpop():
                return type(node).__name__
            case ast.AST() if type(node).__name__ in FIELDS:
                parts = tuple(getattr(node, name) for name in FIELDS[type(node).__name__])
            case ast.AST():
                raise self.unknown(node)
            case list():
                return f"[{' '.join(self.node(n) for n in node if not _is_idle(n))}]"
            case _:
                return self.value(node)
        return f"({' '.join([type(node).__name__, *(self.node(part) for part in parts)])})"

    def signature(self, arguments: ast.arguments) -> tuple[object, ...]:
        """The parts of a signature, defaults last."""
        names = (getattr(arguments, part) for part in ("posonlyargs", "args", "vararg", "kwonlyargs", "kwarg"))
        return (*names, arguments.defaults, arguments.kw_defaults)

    def unknown(self, node: ast.AST) -> KernelError:
        """The error of a node that has no text here."""
        return KernelError("a function is written in syntax that is the same on every Python", got=type(node).__name__)

    def value(self, v: object) -> str:
        """A constant."""
        match v:
            case None | bool() | types.EllipsisType():
                return repr(v)
            case int():
                return hex(v)
            case float():
                return float(v).hex()
            case complex():
                return f"({self.value(v.real)} {self.value(v.imag)}j)"
            case str() | bytes():
                return f"{type(v).__name__[0]}{len(v)}:{v if isinstance(v, str) else v.hex()}"
        raise TypeError(f"a syntax tree holds plain constants, but got {v!r}")


def written_code(tree: ast.FunctionDef | ast.Lambda) -> str:
    """The text of a function's code: its name, its parameters and its body. What its defaults and decorators give is
    no part of it."""
    *names, _, _ = TreeWriter().signature(tree.args)
    if isinstance(tree, ast.Lambda):
        parts = ("<lambda>", *names, [ast.Return(tree.body)])
    else:
        parts = (tree.name, *names, tree.body)
    return " ".join(map(TreeWriter().node, parts))


def _joined(values: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The parts of an f-string: neighbouring texts joined, empty ones dropped, as Pythons differ in that."""
    text = ""
    for v in values:
        if isinstance(v, ast.Constant):
            text += str(v.value)
            continue
        if text:
            yield ast.Constant(text)
        text = ""
        if isinstance(v, ast.FormattedValue) and isinstance(v.format_spec, ast.JoinedStr) and not v.format_spec.values:
            yield ast.FormattedValue(v.value, v.conversion, None)
        else:
            yield v
    if text:
        yield ast.Constant(text)


def _is_idle(node: object) -> bool:
    """Statements without a meaning: ``pass``, docstrings, bare annotations, type aliases."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Pass) or type(node).__name__ == "TypeAlias" or _is_declaration(node)


def _is_declaration(node: object) -> bool:
    """Whether it is an annotation without a value."""
    return isinstance(node, ast.AnnAssign) and node.value is None
