"""Skeletons of a new operator: the stub in an error, and the files that `workbench new-op` writes, from one source.

The texts are in `skeletons/`, as Jinja with `<< >>` and `<% %>`, since their output is partly Jinja itself. Lines that
the user must complete say `fill in:`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jinja2

from workbench.operators.new_op.operator_facts import OpFacts

WAYS = ("template", "builder")


def stub(facts: OpFacts) -> str:
    """A skeleton of an op, short enough for an error message."""
    return _rendered("stub.j2", facts, "")


def files(op: OpFacts, way: str) -> dict[str, str]:
    """Name and text of every file of a skeleton."""
    texts = {f"{op.stem}.py": _rendered(f"{way}.py.j2", op, way)}
    if way == "template":
        form = "elementwise" if op.elementwise else "loops"
        texts[f"{op.stem}.mlir.j2"] = _rendered(f"{form}.mlir.j2", op, way)
    texts[f"test_{op.stem}.py"] = _rendered("test.py.j2", op, way)
    texts[f"{op.stem}.ipynb"] = _notebook(_rendered("notebook.j2", op, way))
    return texts


def _rendered(name: str, op: OpFacts, way: str) -> str:
    return _environment().get_template(name).render(op=op, way=way)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "skeletons"),
        undefined=jinja2.StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = lambda text: f'"{text}"'  # pyright: ignore[reportUnknownLambdaType]
    return environment


def _notebook(text: str) -> str:
    """A notebook from cells that start with a line `%% code` or `%% markdown`."""
    cells: list[dict[str, object]] = []
    for number, part in enumerate(text.split("%% ")[1:]):
        kind, _, body = part.partition("\n")
        cell: dict[str, object] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell | {"source": body.rstrip("\n").splitlines(keepends=True)})
    metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
