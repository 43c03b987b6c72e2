"""A cell of MLIR: parsed and verified, and as a pipeline leaves it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from workbench.environment.verb_options import knows_its_options
from workbench.faults.messages import Message
from workbench.faults.trial import TRIALS, Trial
from workbench.mlir.context import parse, print_module
from workbench.mlir.user_text import check_text
from workbench.scheduling.pass_pipeline import reproduce
from workbench.views.basics import highlight, markup
from workbench.views.basics.mlir_diff import compared
from workbench.views.basics.shown import Shown

_WHOLE = "builtin.module("
_LONG = 20_000
"""Characters from which on a cell is parsed in a worker first: a chain of so many signs may end the process, too."""


@dataclass(frozen=True, repr=False)
class MlirCell(Shown):
    """A module, as text and in colour."""

    text: str
    given: str
    """The module as it was written, verified and printed again."""
    pipeline: str = ""

    @knows_its_options
    def html(self) -> str:
        """The module, and what the passes changed, closed."""
        shown = highlight.code(self.text)
        if self.pipeline:
            changed = highlight.unified(compared(self.given, self.text), context=3)
            shown += markup.details("what the passes changed", changed, note=self.pipeline)
        return markup.fragment(shown)

    def __repr__(self) -> str:
        return self.text.rstrip("\n")


def of_cell(cell: str, pipeline: str) -> MlirCell:
    """The module of a cell, as it is or as the passes leave it; a worker runs them first."""
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
    """What stands inside `builtin.module(...)`, which may be written or left out."""
    text = pipeline.strip()
    return text[len(_WHOLE) : -1].strip() if text.startswith(_WHOLE) and text.endswith(")") else text
