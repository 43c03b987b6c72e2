"""Counts what a person meets who enters `workbench`: entries, floors of imports between them, imports that point up,
there or from a package to one that stands above it, and packages that load their files through a `__getattr__`.

    python scripts/rooms.py [--imports]

A floor is a step of the longest chain of imports between entries; late imports and those for types count as well. An
import points up if the contract "way" in pyproject.toml has its file above or beside the one that imports it. With
`--imports` it also prints who imports whom. The exit status is 1 where a count exceeds its bound.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.check_house import imports, modules  # noqa: E402 - found from the root, wherever this runs

BOUNDS = {
    "entries": 20,
    "floors": 10,
    "upward imports": 0,
    "upward imports between packages": 0,
    "packages with __getattr__": 2,
}
PACKAGES = ("templates", "workbench", "simulator")
"""From the top: a package imports only from those below it."""
NOT_COUNTED = frozenset({"__init__", "__main__"})

Graph = dict[str, dict[str, set[tuple[str, str]]]]
"""Entry -> the entries that it imports -> the files of each import."""


def entry_of(module: str) -> str:
    """The entry of `workbench` in which a file lies."""
    return [*module.split("."), "__init__"][1]


def _files(root: Path) -> dict[str, Path]:
    """Returns every file of `workbench` by its import name."""
    return {name: path for name, path in modules(root).items() if name.split(".")[0] == "workbench"}


def between_entries(root: Path = ROOT) -> Graph:
    """Who imports whom, entry by entry."""
    known = _files(root)
    graph: Graph = {entry_of(name): defaultdict(set) for name in known if entry_of(name) not in NOT_COUNTED}
    for name, targets in imports(known).items():
        for target in targets:
            of, to = entry_of(name), entry_of(target)
            if of != to and not {of, to} & NOT_COUNTED:
                graph[of][to].add((name, target))
    return graph


def layers(root: Path = ROOT) -> dict[str, int]:
    """The layer of each entry in the contract, the top one 0."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    way = next(each for each in contracts if each["id"] == "way")
    names = [[name.strip(" ()") for name in row.split("|")] for row in way["layers"]]
    return {name: number for number, row in enumerate(names) for name in row}


def upward(graph: Graph, layer: dict[str, int]) -> list[tuple[str, str]]:
    """Imports of files that the contract does not have below."""
    bottom = len(layer)
    return sorted(
        each
        for of, targets in graph.items()
        for to, files in targets.items()
        if layer.get(to, bottom) <= layer.get(of, bottom)
        for each in files
    )


def between_packages(root: Path = ROOT) -> list[tuple[str, str]]:
    """Imports of files in a package above."""
    floor = {name: number for number, name in enumerate(PACKAGES)}
    found = imports(modules(root)).items()
    return sorted((of, to) for of, targets in found for to in targets if floor[_package(to)] < floor[_package(of)])


def _package(module: str) -> str:
    return module.partition(".")[0]


def floors(graph: Graph) -> list[str]:
    """The longest chain of imports, from the top; there is none in a graph with a circle."""
    below = dict[str, list[str]]()
    for entry in TopologicalSorter(graph).static_order():
        below[entry] = [entry, *max((below[to] for to in graph[entry]), key=len, default=[])]
    return max(below.values(), key=len, default=[])


def with_getattr(root: Path = ROOT) -> list[str]:
    """Files of `workbench` whose module has a `__getattr__`."""
    return sorted(name for name, path in _files(root).items() if "__getattr__" in _defined(path))


def _defined(path: Path) -> set[str]:
    """The names that a module defines at its top."""
    found = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def counts(graph: Graph) -> dict[str, int]:
    """Counts what BOUNDS bounds."""
    up = len(upward(graph, layers())), len(between_packages())
    found = len(graph), len(floors(graph)), *up, len(with_getattr())
    return dict(zip(BOUNDS, found, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--imports", action="store_true")
    given = parser.parse_args()
    graph = between_entries()
    found = counts(graph)
    if given.imports:
        for of, targets in sorted(graph.items()):
            print(f"{of}: " + ", ".join(f"{to} {len(files)}" for to, files in sorted(targets.items())))
    for of, to in [*upward(graph, layers()), *between_packages()]:
        print(f"{of} imports {to}, which is not below it")
    print("floors: " + " -> ".join(floors(graph)))
    print(", ".join(f"{count} {what}, at most {BOUNDS[what]}" for what, count in found.items()))
    return int(any(count > BOUNDS[what] for what, count in found.items()))


if __name__ == "__main__":
    raise SystemExit(main())
