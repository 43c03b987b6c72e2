"""Checks that one folder alone names private parts of PyTorch, and that it says of each what it takes it for.

A part is private if a name in it begins with `_`, or lies in `torch.fx.experimental`. The names of operators, as
`torch.ops.aten._softmax`, are no part of PyTorch's code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Violation: TypeAlias = tuple[Path, int, str]

BORDER = "workbench/ground/torch_inside"
_ROOTS = ("torch", "functorch")
_TEXT = re.compile(r"(?:torch|functorch)(?:\.\w+)+\.?")
_BY_NAME = ("getattr", "hasattr", "setattr", "delattr", "object")
"""Functions that take an object and the name of its attribute; the last is that of `mock.patch`."""


@dataclass(frozen=True)
class Taken:
    """One `takes(...)` of the border: what is taken, for whom, and for what."""

    file: Path
    line: int
    names: tuple[str, ...]
    """The function, constant or imported names that take it."""
    kind: str
    """function, constant or import."""
    paths: tuple[str, ...]
    use: str
    instead: str


def violations(root: Path) -> Iterator[Violation]:
    """Private parts of PyTorch that are named outside of the border, or in it without a word."""
    taken = list(needs(root))
    attributes = {name for each in taken for path in each.paths if _is_private(name := path.rpartition(".")[2])}
    for folder in ("workbench", "templates", "simulator"):
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if (root / BORDER) in path.parents:
                paths = [each for need in taken if need.file == path for each in need.paths]
                yield from ((path, line, told) for line, told in in_border(text, paths))
            else:
                yield from ((path, line, told) for line, told in outside(text, attributes))


def outside(text: str, attributes: set[str]) -> Iterator[tuple[int, str]]:
    """Lines of a file that name a private part; `attributes` are those that the border takes of PyTorch's objects."""
    tree = ast.parse(text)
    found = dict(private_parts(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in attributes:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                found.setdefault(node.lineno, f"an object's {node.attr}")
        elif isinstance(node, ast.Constant) and node.value in attributes:
            found.setdefault(node.lineno, f"the name {node.value!r}")
    for line, part in sorted(found.items()):
        yield line, f"{part} is private to PyTorch; only {BORDER} names such parts, in a function that says what for"


def in_border(text: str, paths: list[str]) -> Iterator[tuple[int, str]]:
    """Lines of a file of the border that name a part which none of its `takes(...)` has."""
    for line, part in private_parts(ast.parse(text)):
        if not any(_within(part, path) or _within(path, part) for path in paths):
            yield line, f"{part} is private to PyTorch, and no takes(...) of this file has it"


def private_parts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each private part that a file names, with its line: imported, by its dotted name, or in a text."""
    in_takes = {id(part) for call in _calls_of_takes(tree) for part in ast.walk(call)}
    known = _known(tree)
    for node in ast.walk(tree):
        if id(node) in in_takes:
            continue
        for name in _imported(node):
            if _is_private(name):
                yield node.lineno, name  # pyright: ignore[reportAttributeAccessIssue] - an import has a line
        if isinstance(node, ast.Attribute | ast.Call) and _is_private(name := _dotted(node, known)):
            yield node.lineno, name
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and _TEXT.fullmatch(text) and _is_private(text):
            yield node.lineno, text


def needs(root: Path) -> Iterator[Taken]:
    """Every `takes(...)` of the border, as it stands in the source."""
    for path in sorted((root / BORDER).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for call in filter(_is_takes, node.decorator_list):
                    said = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
                    yield _taken(path, call, "function", (node.name,), said)
            elif isinstance(node, ast.With) and _is_takes(call := node.items[0].context_expr):
                names = [alias.asname or alias.name for each in ast.walk(node) for alias in getattr(each, "names", [])]
                yield _taken(path, call, "import", tuple(dict.fromkeys(names)), "")
            elif isinstance(node, ast.Assign) and (call := next(_calls_of_takes(node.value), None)) is not None:
                yield _taken(path, call, "constant", (ast.unparse(node.targets[0]),), "")


def _taken(path: Path, call: ast.AST, kind: str, names: tuple[str, ...], said: str) -> Taken:
    assert isinstance(call, ast.Call)
    given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    paths = tuple(ast.literal_eval(each) for each in call.args)
    return Taken(path, call.lineno, names, kind, paths, given.get("use") or said, given["instead"])


def _is_takes(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "takes"


def _calls_of_takes(tree: ast.AST) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if _is_takes(node))


def _known(tree: ast.AST) -> dict[str, str]:
    """The names of a file that stand for parts of PyTorch: those that it imports, and variables set to a part."""
    known = dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in _ROOTS:
                    first = alias.name.partition(".")[0]
                    known[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _ROOTS:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for _ in range(2):  # a variable may be set to another one
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                known |= {target.id: part for target, part in _set(targets[0], node.value, known)}
    return known


def _set(target: ast.expr, value: ast.expr, known: dict[str, str]) -> Iterator[tuple[ast.Name, str]]:
    """The variables of an assignment that stand for a part of PyTorch."""
    if isinstance(target, ast.Tuple):
        value = value.args[1] if isinstance(value, ast.Call) and ast.unparse(value.func) == "cast" else value
        for one, other in zip(target.elts, getattr(value, "elts", []), strict=False):
            yield from _set(one, other, known)
    elif isinstance(target, ast.Name) and (part := _dotted(value, known)):
        yield target, part


def _dotted(node: ast.expr, known: dict[str, str]) -> str:
    """The dotted name of a part of PyTorch; an empty text for anything else."""
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, known)
        return f"{owner}.{node.attr}" if owner else ""
    if isinstance(node, ast.Call):
        name, given = ast.unparse(node.func).rpartition(".")[2], node.args
        if name == "cast" and len(given) == 2:
            return _dotted(given[1], known)
        if name == "import_module" and isinstance(given[0], ast.Constant) and _TEXT.fullmatch(str(given[0].value)):
            return str(given[0].value)
        if name in _BY_NAME and len(given) > 1 and isinstance(given[1], ast.Constant):
            owner = _dotted(given[0], known)
            return f"{owner}.{given[1].value}" if owner else ""
    return ""


def _imported(node: ast.AST) -> list[str]:
    """The dotted names that an import of PyTorch's parts has."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        names = list[str]()
    return [name for name in names if name.partition(".")[0] in _ROOTS]


def _is_private(dotted: str) -> bool:
    """True for a name with a part that begins with one `_`, unless it is an operator's."""
    if dotted.startswith("torch.ops."):
        return False
    hidden = any(part.startswith("_") and not part.startswith("__") for part in dotted.split("."))
    return hidden or f"{dotted}.".startswith("torch.fx.experimental.")


def _within(part: str, whole: str) -> bool:
    return f"{part}.".startswith(f"{whole}.")
