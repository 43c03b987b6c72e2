"""The artefact of the third stage: kernels as MLIR on whole tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.artefacts.handle import Handle, count_of
from workbench.explaining.views.graphs import titles
from workbench.explaining.views.kernel_lists import kernel_tables
from workbench.explaining.views.pages import stage_html
from workbench.ground.basics import markup
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.table import Table
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ir import Kernel, KernelModule

if TYPE_CHECKING:
    from workbench.explaining.views.kernel_lists.kernel_tables import Selected
    from workbench.explaining.views.selections.selection import Selection


@dataclass(frozen=True, repr=False)
class RenderedKernel(Shown):
    """One kernel as MLIR before any scheduling."""

    record: KernelModule

    @property
    def name(self) -> str:
        return self.record.kernel

    @property
    def mlir(self) -> str:
        return self.record.mlir

    @knows_its_options
    def text(self, *, select: Selection | None = None) -> str:
        """The MLIR; with a selection, `>` marks its lines."""
        return kernel_tables.marked(self.mlir, self.name, _rendered_lines(select))

    @cached_property
    def lines(self) -> dict[int, tuple[str, ...]]:
        """1-based line of `.mlir` -> its nodes."""
        return kernel_tables.rendered_line_origins(self.record)

    def __repr__(self) -> str:
        return f"RenderedKernel({self.name!r}, {count_of(len(self.mlir.splitlines()), 'line')})"

    @knows_its_options
    def html(self) -> Markup:
        """The MLIR with the nodes behind each line."""
        return markup.fragment(stage_html.rendered_kernel(self.record))


@dataclass(frozen=True, repr=False)
class Rendered(Handle[tuple[KernelModule, ...]]):
    """Every kernel as verified MLIR, linalg on tensors."""

    hosts: tuple[Kernel, ...] = ()
    """The steps on the host, which have no MLIR."""
    titles: dict[str, str] = field(default_factory=dict[str, str], compare=False)
    """The title of each kernel."""
    file: str = field(default="", compare=False)
    """The file of a journey that nobody vouches for, else empty: MLIR then takes its texts only as far as a file may
    ask for."""

    def _table(self) -> Table:
        return titles.with_titles(kernel_tables.rendered_table(self.record, self.hosts), self.titles)

    @knows_its_options
    def text(self, *, select: Selection | None = None) -> str:
        """All kernels' MLIR; with a selection, `>` marks its lines."""
        return kernel_tables.rendered_text(self.record, self.hosts, _rendered_lines(select))

    def body_html(self) -> Markup:
        return stage_html.rendered(self.record, hosts=self.hosts, titles=self.titles)

    @cached_property
    def kernels(self) -> tuple[RenderedKernel, ...]:
        return tuple(RenderedKernel(module) for module in self.record)

    def __repr__(self) -> str:
        return f"Rendered({count_of(len(self.record), 'kernel')})"


def _rendered_lines(select: Selection | None) -> Selected | None:
    return None if select is None else lambda kernel: select.lines_of(kernel, "rendered")
