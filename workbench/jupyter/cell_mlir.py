"""A cell of MLIR: parsed, verified, and perhaps changed by a pipeline."""

from __future__ import annotations

import json
from dataclasses import dataclass

from markupsafe import Markup

from workbench.ground.basics import highlight, markup
from workbench.ground.basics.mlir_diff import compared
from workbench.ground.basics.shown import Shown
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.faults.messages import Message
from workbench.ground.faults.trial import TRIALS, Trial
from workbench.mlir.context import parse, print_module
from workbench.mlir.user_text import check_text
from workbench.scheduling.pass_pipeline import reproduce

_WHOLE = "builtin.module("
_LONG = 20_000
"""The length from which a worker parses a cell first: a long chain of operators may crash the parser."""


@dataclass(frozen=True, repr=False)
class MlirCell(Shown):
    """A module, as text and in colour."""

    text: str
    given: str
    """The given module, verified and printed again."""
    pipeline: str = ""

    @knows_its_options
    def html(self) -> Markup:
        """The module, and the changes of the passes in a closed part."""
        shown = highlight.code(self.text)
        if self.pipeline:
            changed = highlight.unified(compared(self.given, self.text), context=3)
            shown += markup.details("what the passes changed", changed, note=self.pipeline)
        return markup.fragment(shown)

    def __repr__(self) -> str:
        return self.text.rstrip("\n")


def of_cell(cell: str, pipeline: str) -> MlirCell:
    """The module of a cell, unchanged or after the passes; a worker runs the passes first."""
    check_text(cell, "the cell")
    passes = within(pipeline)
    if len(cell) > _LONG:
        _tried(cell, "")
    given = print_module(parse(cell, name="the cell"))
    if not passes:
        return MlirCell(given, given)
    _tried(cell, passes)
    return MlirCell(reproduce(cell, passes), given, passes)


def _tried(cell: str, passes: str) -> None:
    asked = json.dumps([cell, passes])
    TRIALS.pass_or_raise(Trial("passes", asked, lambda: Message({"text": cell, "pipeline": passes}), "of the cell", ()))


def within(pipeline: str) -> str:
    """The passes inside `builtin.module(...)`, which may be left out."""
    text = pipeline.strip()
    return text[len(_WHOLE) : -1].strip() if text.startswith(_WHOLE) and text.endswith(")") else text
