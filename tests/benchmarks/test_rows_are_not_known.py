"""No row of the tables is known where it is simulated or compiled: neither its workload's name nor its sizes.

Looked for are, in every file of the library,

* a workload's name, as a word of its own: `gemm_256x256x256`, and of a family with sizes that no table has;
* the sizes of a row as they stand in its name, `512x768`, in a text;
* the sizes in a row of numbers, `(512, 768)`, `f(512, 768)`, `[512, 768]`;
* all its sizes compared with something in one statement: `rows == 512 and columns == 768`.

A row of one size, `add_1664`, is looked for by its name, and where something is compared with a size that is no power
of two. Sizes that are alike must be compared as often as the row has them.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("simulator", "templates", "workbench")
TEXTS = (".py", ".toml", ".j2", ".json", ".js", ".css")
ACCIDENTS = {("workbench/checking/rounding_allowance.py", (8, 16, 32)): "numbers of answers that are drawn"}
"""Sizes that some row has too, and what they are there."""

EXAMPLES = ROOT / "workbench" / "models"
"""Models by their names, for people to trace: nothing that simulates or compiles may know of these."""

Sizes = tuple[int, ...]
_SIZES = re.compile(r"_(\d+(?:x\d+)*)$")


def names() -> list[str]:
    """The workloads of both tables."""
    from measured_tables import KINDS, read_table

    return [row.workload for kind in KINDS for row in read_table(kind.table).rows]


def sizes_of(name: str) -> Sizes:
    found = _SIZES.search(name)
    return tuple(map(int, found[1].split("x"))) if found else ()


def alarms(text: str, workloads: Sequence[str], *, python: bool = True) -> Iterator[str]:
    """Finds names and sizes of the workloads in a file's text."""
    from workloads import FAMILIES, NETWORKS

    of_one_size = [re.escape(name) for name in workloads if len(sizes_of(name)) == 1]  # others are names of nodes
    named = "|".join([*(rf"{family}_\d+(?:x\d+)+" for family in FAMILIES), *NETWORKS, *of_one_size])
    yield from (found[0] for found in re.finditer(rf"(?<![A-Za-z0-9_])(?:{named})(?![A-Za-z0-9_])", text))
    sizes = {found for name in workloads if (found := sizes_of(name))}
    joined = {"x".join(map(str, each)) for each in sizes if len(each) > 1}
    yield from (found for found in re.findall(r"(?<![\w.])\d+(?:x\d+)+(?![\w.])", text) if found in joined)
    if python:
        for node in ast.walk(ast.parse(text)):
            yield from _in_rows_of_numbers(node, sizes)
            yield from _compared(node, sizes)


def _in_rows_of_numbers(node: ast.AST, sizes: set[Sizes]) -> Iterator[str]:
    if isinstance(node, ast.Tuple | ast.List):
        items = node.elts
    elif isinstance(node, ast.Call):
        items = node.args
    else:
        return
    numbers = [_number(item) for item in items]
    for start in range(len(numbers)):
        ends = range(start + 2, len(numbers) + 1)
        known = (tuple(numbers[start:end]) for end in ends if tuple(numbers[start:end]) in sizes)
        yield from (f"line {node.lineno}: {each}" for each in known)


def _compared(node: ast.AST, sizes: set[Sizes]) -> Iterator[str]:
    """Of a statement that is no function and no class, the rows of which it compares every size."""
    if not isinstance(node, ast.stmt) or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    found = Counter[int]()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq | ast.In) for op in inner.ops):
            parts = [part for each in (inner.left, *inner.comparators) for part in ast.walk(each)]
            for number in filter(None, map(_number, parts)):
                found[number] += len(inner.ops)  # `rows == columns == 512` compares both
        elif isinstance(inner, ast.MatchValue) and (number := _number(inner.value)):
            found[number] += 1
    for each in sizes if found else ():
        telling = len(each) > 1 or each[0].bit_count() > 1
        if telling and Counter(each) <= found:
            yield f"line {node.lineno}: {each} compared"


def _number(node: ast.AST) -> int | None:
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


@pytest.mark.test_all
@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_knows_a_row(folder: str) -> None:
    workloads = names()
    looked_at = [path for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS and EXAMPLES not in path.parents]
    assert len(looked_at) > 5
    found = dict[str, list[str]]()
    for path in looked_at:
        name = path.relative_to(ROOT).as_posix()
        told = alarms(path.read_text(encoding="utf-8"), workloads, python=path.suffix == ".py")
        by_accident = [f": {sizes}" for where, sizes in ACCIDENTS if where == name]
        if known := [each for each in told if not each.endswith((*by_accident,))]:
            found[name] = known
    assert not found, found


def test_nothing_that_simulates_or_compiles_knows_the_example_models() -> None:
    reaching = {"workbench/__init__.py", "workbench/commands/cli.py"}
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if EXAMPLES not in path.parents):
        if path.relative_to(ROOT).as_posix() not in reaching:
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"workbench\.models|from workbench import .*\bmodels\b", text), path


@pytest.mark.parametrize(
    "text",
    [
        "if rows == 512 and columns == 768:\n    cycles = 24895",
        "softmax_of_that = rows == columns == 512",
        "if rows == 512:\n    if columns == 768:\n        cycles = 1",
        "factor = 1.3 if shape == (512, 768) else 1",
        "known = {(512, 768): 24895}",
        "known = [64, 7, 7, 512, 512, 3, 1, 1]",
        "match rows, columns:\n    case 512, 768:\n        pass",
        "fast = size in (1664,) or size == 2688",
        "slow = elements == 1664",
        "special('layernorm_512x768')",
        "KNOWN = ['softmax_32x32']",
        "name = 'resnet18'",
        "told = 'as measured for 512x768'",
    ],
)
def test_planted_rows_are_found(text: str) -> None:
    assert [*alarms(text, names())]


@pytest.mark.parametrize("text", ["x = (512, 640)", "if rows == 512 or columns == 500: pass", "many = 1664", "'8x129'"])
def test_other_numbers_are_not(text: str) -> None:
    assert not [*alarms(text, names())]
