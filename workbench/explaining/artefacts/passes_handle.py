"""The passes of a kernel as a list that shows itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.artefacts.pictures import widgets
from workbench.explaining.views.kernel_lists import CONTEXT, pass_lines, pass_tables
from workbench.explaining.views.kernel_lists.pass_tables import Pass
from workbench.ground.basics import data_frames, markup
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.views.kernel_lists.pass_lines import PassTrace


class Passes(tuple[Pass, ...]):
    """All passes of a kernel in order: a tuple with views of its own."""

    trace: PassTrace

    @staticmethod
    def of(trace: PassTrace) -> Passes:
        passes = Passes(trace.steps)
        passes.trace = trace
        return passes

    @property
    def table(self) -> pd.DataFrame:
        """One row a pass: lines that it changed, operations, time, pipeline, and the place of its code."""
        return data_frames.frame(pass_tables.table(self))

    @knows_its_options
    def between(self, before: int, after: int) -> Pass:
        """All changes from one text to another, as one pass: 0 is the rendered kernel, i the text after the i-th
        pass, which is the place `i - 1` of this tuple."""
        if not 0 <= before < after <= len(self):
            raise BadOption(
                f"between({before}, {after}): expected the numbers of two texts in order, from 0 (the rendered "
                f"kernel) to {len(self)}, the scheduled one"
            )
        return pass_lines.together(self.trace.steps, before, after)

    @knows_its_options
    def lines(self, after: int) -> pd.DataFrame:
        """One row a line of the text after `after` passes (0: the rendered kernel): the nodes of the line, and the same
        line of the rendered and of the scheduled kernel, which is equal up to names or has the op of the same number. A
        line that one pass made and a later pass changed has neither."""
        if not 0 <= after <= len(self):
            raise BadOption(f"lines({after}): expected a number of passes, 0 to {len(self)}")
        return data_frames.frame(self.trace.lines_table(after))

    @property
    def pipelines(self) -> str:
        """All pipelines, one a line."""
        return "\n".join(each.pipeline for each in self)

    @knows_its_options
    def text(self, *, context: int = CONTEXT) -> str:
        """The changes of each pass; passes that changed nothing share a line."""
        return pass_tables.steps_text(self, context=context)

    @knows_its_options
    def html(self) -> Markup:
        """The changes of each pass, closed until a reader opens them."""
        return markup.fragment(pass_tables.steps_html(self))

    @knows_its_options
    def widget(self) -> object:
        """The passes in a notebook: the changes of each, and comparisons of any two texts. See
        docs/looking-closer.md."""
        return widgets("explaining_widgets").passes(self)

    def __repr__(self) -> str:
        return f"Passes({len(self)} of {self[0].kernel!r})" if self else "Passes(none)"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.html()}
