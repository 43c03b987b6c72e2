"""The answer of `wb.compare(...)`: journeys side by side, as tables, texts and pictures."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from simulator.files.versioned_files import replace_file
from workbench.explaining.artefacts import drawing
from workbench.explaining.artefacts.pictures import widgets
from workbench.explaining.findings import Facts, found
from workbench.explaining.findings.finding_record import LEAST_SHARE
from workbench.explaining.views.comparisons import compare, compare_html
from workbench.explaining.views.comparisons.finding_groups import Found
from workbench.explaining.views.timelines import aligned
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.html_builder import html
from workbench.ground.basics.shown import Shown
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from workbench.explaining.views.comparisons.compare import Compared
    from workbench.explaining.views.graphs.kernel_groups import Run


def compared(runs: tuple[Run, ...]) -> Comparison:
    """The comparison of simulated journeys, with the findings of each.

    The least cycles of a finding are the same for all: a finding does not disappear because the rest became slower.
    """
    least = LEAST_SHARE * min((run.trace.makespan for run in runs), default=0)

    def findings_of(at: int) -> Iterator[Found]:
        run = runs[at]
        facts = Facts(run.lowered, run.scheduled, run.trace)
        kernels = {kernel.name: kernel.nodes for kernel in facts.kernels}
        parents = {item.node.name: item.parent for item in run.lowered.nodes}  # a rule may name a node's lowered form
        for each in found(facts, least=least):
            names = (parents.get(name, name) for name in each.nodes or kernels.get(each.kernel, ()))
            yield Found(each.rule, tuple(name for name in names if name in run.by_name), each.cycles, each.reason)

    return Comparison(compare.Compared(runs, findings_of))


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Simulated journeys side by side; ratios are to the first one."""

    record: Compared

    @property
    def table(self) -> pd.DataFrame:
        """One row for each figure, kernel or cause of idle time, one column for each journey."""
        return data_frames.frame(self.record.figures())

    @property
    def nodes(self) -> pd.DataFrame:
        """One row for each smallest set of captured nodes that whole kernels compute in every journey, so that
        different fusions can be compared, and one for launching kernels. A row has cycles and bytes of each journey,
        and `delta`, the difference to the first journey; all rows add up to the whole. The largest changes come first,
        and `change` marks identical rows."""
        return data_frames.frame(self.record.nodes_table())

    @property
    def modules(self) -> pd.DataFrame:
        """One row for each `nn.Module`, including all modules inside it, with the same figures; the row without a name
        is the whole program without the launches."""
        return data_frames.frame(self.record.modules_table())

    @property
    def findings(self) -> pd.DataFrame:
        """One row for each finding of any journey: if it `came`, `went` or `stays`, compared with the first journey,
        and the cycles at stake in each journey."""
        return data_frames.frame(self.record.findings_table())

    @property
    def ratios(self) -> pd.DataFrame:
        """One row for each journey: cycles and time, and both as multiples of the first journey's."""
        return data_frames.frame(self.record.ratios())

    @property
    def stages(self) -> pd.DataFrame:
        """One row for each figure of a stage, one column for each journey."""
        return data_frames.frame(self.record.stages())

    @property
    def changes(self) -> pd.DataFrame:
        """One row for each setting that differs (figures of the machine, options, the kernels that compute the same
        nodes, and their tiles), one column for each journey."""
        return data_frames.frame(self.record.changes())

    @knows_its_options
    def spans(self, row: int) -> list[list[int]]:
        """The spans of a row of `.nodes`: for each journey, the rows of its `.simulated.events`."""
        lines = self.record.lines
        if not 0 <= row < len(lines):
            raise BadOption(f"spans({row}): expected a row of .nodes, 0 to {len(lines) - 1}")
        return [each.tolist() for each in self.record.spans(lines[row])]

    @knows_its_options
    def widget(self) -> object:
        """The comparison of two to four journeys in a notebook: the changes, with size and place, and all timelines
        on one time axis. A press on a row marks its spans in all timelines."""
        return widgets("comparison_widget").comparing(self)

    @knows_its_options
    def text(self, *, width: int = 72) -> str:
        """The changes in words, by nodes and by findings, and the aligned timelines, `width` letters wide."""
        return compare_html.text(self.record, width=width)

    @knows_its_options
    def html(self) -> Markup:
        """The comparison as HTML for a notebook, without script or network."""
        return markup.fragment(compare_html.body(self.record))

    @knows_its_options
    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the comparison as one page that opens from disk, without network, script or Python."""
        *others, last = self.record.names
        title = f"{', '.join(others)} and {last}"
        body = html("<h1>{title}</h1>{}", compare_html.body(self.record), title=title)
        replace_file(path, markup.page(title, body).encode("utf-8"))

    @knows_its_options
    def plot(self, *, style: str = "theme", width: float = 11.0) -> Figure:
        """The timelines in one picture, with equal nodes below each other: it shows where a journey takes longer."""
        made = functools.partial(aligned.aligned_picture, aligned.aligned(self.record.matching))
        return drawing("As text they are in .text() of the comparison.").figure([made], style=style, width=width)

    def __repr__(self) -> str:
        told = (
            f"{name} {trace.makespan:,} cycles"
            for name, trace in zip(self.record.names, self.record.traces, strict=True)
        )
        return f"Comparison({', '.join(told)})"
