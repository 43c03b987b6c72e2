"""Skeletons of a new operator: the stub in an error, and the files that `workbench new-op` writes, from one source.

The texts are in `skeletons/`, as Jinja with `<< >>` and `<% %>`, since their output is partly Jinja itself. Lines that
the user must complete say `fill in:`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import jinja2

from workbench.operators.new_op.operator_facts import OpFacts

WAYS = ("template", "builder")


@dataclass(frozen=True)
class Skeleton(OpFacts):
    """The facts of an op, and the parts of its skeleton."""

    clashing: dict[str, str] = field(default_factory=dict[str, str])
    """Overloads that are registered on the same route, and their owners."""

    @staticmethod
    def of(facts: OpFacts, clashing: dict[str, str] | None = None) -> Skeleton:
        own = {name: getattr(facts, name) for name in OpFacts.__dataclass_fields__}
        return Skeleton(**own, clashing=clashing or {})

    def kind(self, way: str) -> str:
        """Its kind for the fusion rules."""
        if not self.elementwise or self.results != 1:
            return "opaque"
        return "elementwise" if way == "builder" else "tile"

    @property
    def compute(self) -> str:
        """The type of a builder's computation: floats, unless the op is for integers or returns booleans."""
        kinds = (self.sample.dtype, self.sample.result_dtype) if self.sample else ("float32", "float32")
        return "float" if all("float" in kind for kind in kinds) else "own"

    @property
    def overloads_tuple(self) -> str:
        return _tuple(self.overloads)

    @property
    def names_tuple(self) -> str:
        return _tuple((*self.tensors, *self.outputs))

    @property
    def function(self) -> str:
        """The name of a function that calls the op."""
        return self.name if self.name not in self.tensors else f"{self.name}_"

    @property
    def signature(self) -> str:
        """The schema without the name."""
        return self.schema[self.schema.index("(") :]

    @property
    def fake(self) -> str:
        made = f"torch.empty_like({self.parameters[0].split('=')[0]})"
        if self.results > 1:
            made = ", ".join([made] * self.results)
        return f"{made}  # fill in, if the result has another shape or type: a tensor like the result"

    @property
    def call(self) -> str:
        """A call of the op with the tensors and values for its required attributes."""
        names = iter(self.tensors)
        positional: list[str] = []
        keywords: list[str] = []
        examples = self.sample.attributes if self.sample else {}
        for each in self.arguments:
            if each.tensors:
                items = [next(names) for _ in range(each.tensors)]
                value = f"[{', '.join(items)}]" if each.is_list else items[0]
            elif each.default is None:
                value = "None" if each.optional else repr(examples[each.name]) if each.name in examples else "..."
            else:
                continue
            (keywords if each.keyword else positional).append(f"{each.name}={value}" if each.keyword else value)
        namespace = self.overloads[0].split(".")
        return f"torch.ops.{'.'.join(namespace)}({', '.join([*positional, *keywords])})"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes for a test: for an elementwise op a single number, ragged and round ones; else those that the probe
        found."""
        if self.elementwise:
            return [(1, 1), (47, 10), (128, 128)]
        return [self.sample.shape] if self.sample else [(16, 16)]

    @property
    def make_input(self) -> str:
        """Code that makes an input tensor of the op."""
        dtype = self.sample.dtype if self.sample else "float32"
        return {
            "int64": "torch.randint(1, 9, shape)",
            "bool": "torch.randn(shape) > 0",
        }.get(dtype, "torch.randn(shape)")


def _tuple(items: tuple[str, ...]) -> str:
    return "(" + ", ".join(f'"{item}"' for item in items) + ("," if len(items) == 1 else "") + ")"


def stub(facts: OpFacts) -> str:
    """A skeleton of an op, short enough for an error message."""
    return _rendered("stub.j2", Skeleton.of(facts), "")


def files(facts: OpFacts, way: str, clashing: dict[str, str]) -> dict[str, str]:
    """Name and text of every file of a skeleton."""
    op = Skeleton.of(facts, clashing)
    texts = {f"{op.stem}.py": _rendered(f"{way}.py.j2", op, way)}
    if way == "template":
        form = "elementwise" if op.elementwise else "loops"
        texts[f"{op.stem}.mlir.j2"] = _rendered(f"{form}.mlir.j2", op, way)
    texts[f"test_{op.stem}.py"] = _rendered("test.py.j2", op, way)
    texts[f"{op.stem}.ipynb"] = _notebook(_rendered("notebook.j2", op, way))
    return texts


def _rendered(name: str, op: Skeleton, way: str) -> str:
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
