"""Checks that HTML is made in one place: text from a file or a program must not become tags, attributes or scripts.

In Python a tag stands only in a template of `html(...)`, which escapes all that is put into it, and only `trusted(...)`
says of a ready text that it is HTML. In JavaScript only `markup.js` sets HTML; everything else sets text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

Violation: TypeAlias = tuple[Path, int, str]

BUILDER = "workbench/ground/basics/html_builder.py"
TRUSTS = {
    "workbench/explaining/findings/trial_tables.py": "pandas escapes the cells of its tables",
    "workbench/jupyter/plot_themes.py": "matplotlib escapes the texts of its pictures",
    "workbench/jupyter/widgets/widget_base.py": "a style sheet of ours",
    "workbench/ground/basics/markup.py": "a style sheet of ours",
}
"""Files that call `trusted`, and why they may."""
READS = {"workbench/jupyter/plot_themes.py": "takes matplotlib's picture apart"}
"""Files in which a tag is looked for in ready HTML."""
SETS_HTML = "workbench/jupyter/widgets/js/markup.js"

_TAG = re.compile(
    r"</?(?:a|b|body|br|button|circle|code|d[dlt]|defs|details|div|em|form|g|h[1-6]|head|html|i|iframe|img|input|li|line"
    r"|link|main|meta|object|ol|p|path|pattern|polygon|polyline|pre|rect|script|span|style|sub|summary|sup|svg|t[dhr]"
    r"|table|tbody|text|thead|title|tspan|ul|wbr)\b(?=\s*/?>|\s+[\w-]+=|\s*$)|<!--|<!doctype",
    re.IGNORECASE,
)
_SETS = re.compile(
    r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|srcdoc|createContextualFragment|parseFromString|setHTMLUnsafe)\b"
    r"|\bdocument\s*\.\s*write|\beval\s*\(|\bnew\s+Function\b|javascript:"
)


def violations(root: Path) -> Iterator[Violation]:
    """Every tag outside of a template, and every other way to set HTML, with its file and line."""
    for folder in ("workbench", "templates", "simulator"):
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if name != BUILDER:
                yield from ((path, line, told) for line, told in in_python(path.read_text(encoding="utf-8"), name))
    for path in sorted((root / "workbench").rglob("*.js")):
        if path.relative_to(root).as_posix() != SETS_HTML:
            yield from ((path, line, told) for line, told in in_javascript(path.read_text(encoding="utf-8")))


def in_python(text: str, name: str) -> Iterator[tuple[int, str]]:
    """Lines of a Python file that make HTML without the builder."""
    tree = ast.parse(text)
    allowed = {id(part) for template in _templates(tree) for part in ast.walk(template)} | _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in allowed:
            if (found := _TAG.search(node.value)) and name not in READS:
                yield node.lineno, f"{found.group()!r} outside of html(...), which escapes what is put into a tag"
        elif isinstance(node, ast.Call) and _name(node.func) == "Markup" and node.args:
            yield node.lineno, "Markup(...) says that a text is HTML; html(...) makes it so"
        elif isinstance(node, ast.Call) and _name(node.func) == "trusted" and name not in TRUSTS:
            yield node.lineno, "trusted(...) in a file that scripts/check_markup.py does not list"
        elif isinstance(node, ast.Call) and _name(node.func) == "html" and node.args and _holds(node.args[0]):
            yield node.lineno, "html(f'...') puts a value in without escaping it; html('...', value) escapes it"


def in_javascript(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a JavaScript file that make HTML or code of a text."""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _SETS.search(line):
            yield number, f"{found.group()} outside of markup.js; textContent and element() show a text as it is"


def _templates(tree: ast.AST) -> Iterator[ast.expr]:
    """The templates of `html`: first arguments, and names that stand for one are constants of their own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) == "html" and node.args:
            yield node.args[0]


def _holds(template: ast.expr) -> bool:
    """True if a template is an f-string with values in it."""
    return any(isinstance(part, ast.FormattedValue) for part in ast.walk(template))


def _docstrings(tree: ast.AST) -> set[int]:
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
