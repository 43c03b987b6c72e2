"""Prints what a person can do: public names with their parameters, commands with their flags, and calls in the docs.

    python scripts/public_names.py [FOLDER]

It reads the sources of a checkout, this one by default, so that two can be compared with `diff`. From the names of
`workbench.__all__` and `simulator.__all__` it follows base classes and the types of results to the classes that a
person gets, and prints their public members.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.check_house import modules  # noqa: E402 - found from the root, wherever this runs

Definition = ast.ClassDef | ast.FunctionDef


def definitions(trees: Sequence[ast.Module]) -> dict[str, list[Definition]]:
    """The public classes and functions of the library, by name."""
    found: dict[str, list[Definition]] = {}
    for tree in trees:
        for node in tree.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(node)
    return found


def offered(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """The names of `__all__` of the packages that a person imports."""
    for package in ("workbench", "simulator"):
        for node in trees[package].body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                yield from ast.literal_eval(node.value)


def names_in(*expressions: ast.expr | None) -> set[str]:
    """The names in annotations, also in those that are texts."""
    texts = [ast.unparse(each) for each in expressions if each is not None]
    return set(re.findall(r"[A-Z]\w+", " ".join(texts)))


def members(known: dict[str, list[Definition]], first: Iterator[str]) -> set[str]:
    """A line for each function and each member of a class that the first names lead to."""
    lines, seen, waiting = set[str](), set[str](), list(first)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in known.get(name, ()):
            if isinstance(node, ast.FunctionDef):
                lines.add(f"{name}({ast.unparse(node.args)})")
                waiting += names_in(node.returns)
                continue
            waiting += names_in(*node.bases)
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
                    is_read = any(ast.unparse(mark).endswith("property") for mark in each.decorator_list)
                    lines.add(f"{name}.{each.name}" + ("" if is_read else f"({ast.unparse(each.args)})"))
                    waiting += names_in(each.returns)
                elif isinstance(each, ast.AnnAssign) and not ast.unparse(each.target).startswith("_"):
                    lines.add(f"{name}.{ast.unparse(each.target)}")
                    waiting += names_in(each.annotation)
    return lines


def flags(trees: Sequence[ast.Module]) -> set[str]:
    """The arguments and subcommands of all commands."""
    calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    added = (call for call in calls if getattr(call.func, "attr", "") in ("add_argument", "add_parser"))
    return {
        f"command: {argument.value}" for call in added for argument in call.args if isinstance(argument, ast.Constant)
    }


def documented(root: Path) -> set[str]:
    """The calls and attributes that the docs write in code, without what they are called with."""
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    codes = re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)
    return {f"docs: {each}" for code in codes for each in re.findall(r"\b(?:wb|j|journey)\.[a-z_.]+", code)}


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    root = Path(given[0]) if given else ROOT
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules(root).items()}
    every = [*trees.values()]
    print(*sorted(members(definitions(every), offered(trees)) | flags(every) | documented(root)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
