"""All single mistakes that can be made in a Python source, each as the whole text with the mistake in it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
WORDS = {"__repr__", "__str__", "_repr_html_", "_repr_mimebundle_"}
TYPES = {"Any", "Callable", "ClassVar", "Literal", "dict", "frozenset", "list", "set", "tuple", "type"}
TEXTS = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: where it is, which function it is in, the lines before and after, and the text of the whole file."""

    path: str
    line: int
    rule: str
    function: str
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.rule})\n  - {self.before}\n  + {self.after}"


def mutants(path: str, source: str) -> list[Mutant]:
    """Every mistake, in the order of the lines. Words, annotations, decorators and what is raised stay as they are."""
    found = [_applied(path, source, *each) for each in _Finder().find(ast.parse(source))]
    return sorted(found, key=lambda each: (each.line, each.rule, each.after))


def _applied(path: str, source: str, node: ast.expr | ast.stmt, text: str, rule: str, function: str) -> Mutant:
    """The text with a node replaced; positions of the tree count bytes within a line."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    begin, end = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    new = begin + text.encode() + end
    before = b"".join(lines[first : last + 1]).decode()
    whole = b"".join([*lines[:first], new, *lines[last + 1 :]]).decode()
    return Mutant(path, node.lineno, rule, function, _one_line(before), _one_line(new.decode()), whole)


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Finder:
    """Walks a tree, and notes what can be put in whose place."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.expr | ast.stmt, str, str, str]] = []
        self.inside: list[str] = []

    def find(self, tree: ast.Module) -> list[tuple[ast.expr | ast.stmt, str, str, str]]:
        self._children(tree)
        return self.found

    def _note(self, node: ast.expr | ast.stmt, new: ast.AST | str, rule: str) -> None:
        text = new if isinstance(new, str) else f"({ast.unparse(new)})"
        self.found.append((node, text, rule, ".".join(self.inside).removesuffix(".<locals>")))

    def _children(self, node: ast.AST) -> None:
        for child in _looked_at(node):
            self._visit(child)

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.name in WORDS:
                return
            if isinstance(node, ast.FunctionDef):
                for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                    self._visit(default)
            names = [node.name, "<locals>"] if isinstance(node, ast.FunctionDef) else [node.name]
            self.inside += names
            for statement in node.body:
                self._visit(statement)
            del self.inside[-len(names) :]
            return
        for new, rule in _changes(node):
            assert isinstance(node, ast.expr | ast.stmt)
            self._note(node, new, rule)
        for inner, new, rule in _changes_within(node):
            self._note(inner, new, rule)
        self._children(node)


def _looked_at(node: ast.AST) -> list[ast.AST]:
    """The parts of a node that are not words, types or what is raised."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return []
    if isinstance(node, ast.Assert):
        return [node.test]
    if isinstance(node, ast.AnnAssign):
        return [node.value] if node.value and ast.unparse(node.annotation) != "TypeAlias" else []
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return []
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in TYPES:
        return []
    if isinstance(node, ast.Lambda):
        return [node.body]
    return list(ast.iter_child_nodes(node))


def _with(node: Node, **changed: object) -> Node:
    new = copy.copy(node)
    for name, value in changed.items():
        setattr(new, name, value)
    return new


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST | str, str]]:
    """Replacements of a node, each with the mistake's name."""
    match node:
        case ast.Compare():
            for place, op in enumerate(node.ops):
                ops = [*node.ops[:place], COMPARISONS[type(op)](), *node.ops[place + 1 :]]
                yield _with(node, ops=ops), "comparison"
        case ast.BinOp() if type(node.op) in OPERATORS and not (_is_text(node.left) or _is_text(node.right)):
            yield _with(node, op=OPERATORS[type(node.op)]()), "operator"
        case ast.AugAssign() if type(node.op) in OPERATORS and not _is_text(node.value):
            yield ast.unparse(_with(node, op=OPERATORS[type(node.op)]())), "operator"
        case ast.Constant(value=bool()):
            yield repr(not node.value), "constant"
        case ast.Constant(value=int() | float()):
            yield repr(node.value + 1), "constant"
        case ast.BoolOp():
            yield _with(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or()), "and, or"
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand, "not left out"
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED:
            yield _with(node, func=ast.Name(SWAPPED[name])), "min, max, any, all"
        case ast.Expr(value=ast.Call()):
            yield "pass", "call left out"
        case _:
            pass


def _changes_within(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST | str, str]]:
    """Replacements of parts of a node: the part, its replacement, the mistake's name."""
    match node:
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield value, "None", "returns None"
        case ast.If(test=test) | ast.IfExp(test=test):
            if not _negated_anyway(test):
                yield test, ast.UnaryOp(ast.Not(), test), "condition negated"
        case _:
            pass


def _is_text(node: ast.AST) -> bool:
    """True for text, which only `+` takes: any other operator fails at once."""
    return isinstance(node, TEXTS) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _negated_anyway(test: ast.expr) -> bool:
    """True if another mistake turns the condition round: `!=` for `==`, or `not` left out."""
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
