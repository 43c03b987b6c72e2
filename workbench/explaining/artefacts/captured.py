"""The artefact of the first stage: the graph of ATen calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.artefacts.handle import Handle, count_of, not_simulated
from workbench.explaining.views.graphs import graph_tables, module_tree
from workbench.explaining.views.pages import stage_html
from workbench.ground.basics import data_frames
from workbench.ground.basics.table import Table
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ir import BREAK, AtenGraph

if TYPE_CHECKING:
    import pandas as pd

    from workbench.capturing.live_call import CapturedProgram
    from workbench.explaining.artefacts.simulated import Simulated


@dataclass(frozen=True, repr=False)
class Captured(Handle[AtenGraph]):
    """The function's calls of ATen, without its weights."""

    program: CapturedProgram | None = field(default=None, compare=False)
    """The ties to the live function; None for a loaded record."""
    _run: Callable[[], Simulated | None] = field(default=not_simulated, compare=False)
    """Returns the journey's run; None if the journey is not simulated."""

    def _table(self) -> Table:
        return graph_tables.nodes_table(self.record)

    @knows_its_options
    def text(self) -> str:
        return graph_tables.graph_text(self.record)

    def body_html(self) -> Markup:
        run = self._run()
        lowered, spent = (run.lowered, run.spent) if run else (None, None)
        return stage_html.captured(self.record, lowered=lowered, spent=spent)

    @property
    def modules(self) -> pd.DataFrame:
        """One row a module or call, as in the tree of modules; with cycles and bytes once the journey is simulated."""
        run = self._run()
        lowered, spent = (run.lowered, run.spent) if run else (None, None)
        tree = module_tree.captured_tree(self.record, lowered, spent)
        return data_frames.frame(module_tree.modules_table(tree, spent))

    @property
    def graphs(self) -> tuple[AtenGraph, ...]:
        """The captured graphs: several when Python runs between them, in the order in which they first ran."""
        parts = self.program.parts if self.program else None
        return tuple(parts.graphs.values()) if parts else (self.record,)

    @property
    def inputs(self) -> pd.DataFrame:
        """The caller's tensors: one row each, in call order."""
        return data_frames.frame(graph_tables.inputs_table(self.record, "user"))

    @property
    def params(self) -> pd.DataFrame:
        """The function's own tensors: parameters, buffers, closed-over tensors and constants; for a training step also
        gradients and the states of optimizers."""
        kinds = ("parameter", "buffer", "gradient", "state", "closure", "constant")
        return data_frames.frame(graph_tables.inputs_table(self.record, *kinds))

    @property
    def saved(self) -> pd.DataFrame:
        """One row a tensor that a training step keeps from its forward to its backward pass."""
        return data_frames.frame(graph_tables.saved_table(self.record))

    @property
    def breaks(self) -> tuple[str, ...]:
        """The places of the graph's breaks, and their reasons."""
        if self.program:
            return self.program.breaks
        return tuple(node.origin.place for node in self.record.nodes if node.op == BREAK)

    def __repr__(self) -> str:
        graph = self.record
        return f"Captured({graph.name!r}, {count_of(len(graph.nodes), 'node')}, {count_of(len(graph.inputs), 'input')})"
