"""The passes of a kernel: each with its changes, and all of them as a list that shows itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.artefacts.pictures import widgets
from workbench.explaining.views.kernel_lists import CONTEXT, pass_lines, pass_tables
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.shown import Shown
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.views.kernel_lists.pass_lines import PassTrace
    from workbench.explaining.views.kernel_lists.pass_tables import Step
    from workbench.ground.basics.mlir_diff import Diff
    from workbench.ir import Snapshot


@dataclass(frozen=True, repr=False)
class Pass(Shown):
    """One step from the rendered to the scheduled kernel."""

    step: Step

    @property
    def record(self) -> Snapshot:
        return self.step.made

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def pipeline(self) -> str:
        """The pipeline, as MLIR writes it: on the text before, it gives the text after again."""
        return self.record.pipeline

    @property
    def source(self) -> str:
        """The place of its passes' code: a file of the workbench's or of yours, or the name of a pass of MLIR's."""
        return self.step.source

    @property
    def seconds(self) -> float:
        return self.record.seconds

    @property
    def ops_before(self) -> int:
        return self.record.ops_before

    @property
    def ops_after(self) -> int:
        return self.record.ops_after

    @property
    def before(self) -> str | None:
        """The kernel before it; None for the first pass if the rendered kernel is not known."""
        return self.step.before

    @property
    def mlir(self) -> str:
        """The kernel after it."""
        return self.record.mlir

    @property
    def diff(self) -> Diff | None:
        """Its changes: lines that are equal except for the numbers of values and maps, and lines that differ."""
        return self.step.diff

    @property
    def changes(self) -> bool:
        """True if it changed more than names."""
        return self.step.changes

    @knows_its_options
    def text(self, *, side_by_side: bool = False, context: int = CONTEXT, width: int = 150) -> str:
        """Its changes, with `context` lines around: below each other, or `side_by_side` in `width` letters."""
        if context < 0:
            raise BadOption(f"context={context}: expected lines, 0 or more")
        return pass_tables.step_text(self.step, context=context, width=width if side_by_side else 0)

    @knows_its_options
    def html(self) -> Markup:
        """Pipeline, source, and its changes in one column and in two."""
        return markup.fragment(pass_tables.step_html(self.step))

    def __repr__(self) -> str:
        return f"Pass({self.name!r} of {self.step.kernel!r}: {self.step.told})"


class Passes(tuple[Pass, ...]):
    """All passes of a kernel in order: a tuple with views of its own."""

    trace: PassTrace

    @staticmethod
    def of(trace: PassTrace) -> Passes:
        made = Passes(map(Pass, trace.steps))
        made.trace = trace
        return made

    @property
    def table(self) -> pd.DataFrame:
        """One row a pass: lines that it changed, operations, time, pipeline, and the place of its code."""
        return data_frames.frame(pass_tables.table([each.step for each in self]))

    @knows_its_options
    def between(self, before: int, after: int) -> Pass:
        """All changes from one text to another, as one pass: 0 is the rendered kernel, i the text after the i-th
        pass, which is the place `i - 1` of this tuple."""
        if not 0 <= before < after <= len(self):
            raise BadOption(
                f"between({before}, {after}): expected the numbers of two texts in order, from 0 (the rendered "
                f"kernel) to {len(self)}, the scheduled one"
            )
        return Pass(pass_lines.together(self.trace.steps, before, after))

    @knows_its_options
    def lines(self, after: int) -> pd.DataFrame:
        """One row a line of the text after so many passes, 0 is the rendered kernel: its nodes, and the same line of
        the rendered and of the scheduled kernel, equal up to names or found by the number of its op. A line that passes
        made and changed again later has neither."""
        if not 0 <= after <= len(self):
            raise BadOption(f"lines({after}): expected a number of passes, 0 to {len(self)}")
        return data_frames.frame(self.trace.lines_table(after))

    @property
    def pipelines(self) -> str:
        """All pipelines, one a line."""
        return "\n".join(each.pipeline for each in self)

    @knows_its_options
    def text(self, *, context: int = CONTEXT) -> str:
        """The changes of each; passes that changed nothing share a line."""
        return pass_tables.steps_text([each.step for each in self], context=context)

    @knows_its_options
    def html(self) -> Markup:
        """The same, each pass closed until it is opened."""
        return markup.fragment(pass_tables.steps_html([each.step for each in self]))

    @knows_its_options
    def widget(self) -> object:
        """The passes in a notebook: the changes of each, and comparisons of any two texts. See
        docs/looking-closer.md."""
        return widgets("explaining_widgets").passes(self)

    def __repr__(self) -> str:
        return f"Passes({len(self)} of {self[0].step.kernel!r})" if self else "Passes(none)"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.html()}
