"""The house: nothing imports in a circle, whether late, by name or for types alone; files have names and an end."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 400


def modules() -> dict[str, Path]:
    """Every file of the library by the name that it is imported by."""
    found = dict[str, Path]()
    for package in ("simulator", "templates", "workbench"):
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The files that a file imports anywhere in it: of `from package import name` the one of that name, if there is."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else node.module for name in names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (name.value for name in node.args if isinstance(name, ast.Constant) and name.value in known)


def test_nothing_imports_in_a_circle() -> None:
    known = modules()
    graph = {name: set(imported(path, known)) - {name} for name, path in known.items()}
    assert len(graph) > 400 and sum(map(len, graph.values())) > 2000
    TopologicalSorter(graph).prepare()  # names a circle if there is one


def test_no_file_is_longer_than_a_reader_s_patience() -> None:
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_no_two_files_have_one_name() -> None:
    files = defaultdict[str, list[str]](list)
    for name, path in modules().items():
        if path.name != "__init__.py":
            files[path.name].append(name)
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}


def test_folders_of_the_simulator_and_the_workbench_have_different_names() -> None:
    folders = {
        package: {path.parent.name for path in (ROOT / package).rglob("*.py")} for package in ("simulator", "workbench")
    }
    assert folders["simulator"] & folders["workbench"] == set()
