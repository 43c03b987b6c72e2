"""The artefact of the second stage: nodes with their routes, in kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.artefacts.handle import Handle, count_of, not_simulated
from workbench.explaining.views.graphs import graph_tables, module_tree, titles
from workbench.explaining.views.kernel_lists import memory_tables
from workbench.explaining.views.pages import stage_html
from workbench.ground.basics import data_frames
from workbench.ground.basics.table import Table
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ir import Kernel, KernelGraph, TensorType

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.artefacts.simulated import Simulated


@dataclass(frozen=True, repr=False)
class LoweredKernel:
    """A set of nodes that become one MLIR function."""

    record: Kernel
    graph: KernelGraph

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def title(self) -> str:
        """A readable title: `layers.3.conv1 + bn1 + relu`. Calls use the kernel's name."""
        return titles.kernel_titles(self.graph)[self.name]

    @property
    def kind(self) -> str:
        """The kind of the kernel's anchor node: elementwise, reduction or contraction, for instance."""
        return self.record.kind

    @property
    def nodes(self) -> tuple[str, ...]:
        """The kernel's nodes after decomposition, in order."""
        return self.record.nodes

    @property
    def ops(self) -> tuple[str, ...]:
        """The overload of each node."""
        return tuple(self.graph.node(name).node.op for name in self.nodes)

    @property
    def inputs(self) -> dict[str, TensorType]:
        """The kernel's inputs: value -> type, in ABI order."""
        return {value: self.graph.types[value] for value in self.record.inputs}

    @property
    def outputs(self) -> dict[str, TensorType]:
        """The kernel's outputs: value -> type, in ABI order."""
        return {value: self.graph.types[value] for value in self.record.outputs}

    def __repr__(self) -> str:
        return f"LoweredKernel({self.name!r}, {self.kind}, {count_of(len(self.nodes), 'node')})"


@dataclass(frozen=True, repr=False)
class Lowered(Handle[KernelGraph]):
    """Every node with its route, grouped into kernels."""

    _run: Callable[[], Simulated | None] = field(default=not_simulated, compare=False)
    """Returns the journey's run; None if the journey is not simulated."""

    def _table(self) -> Table:
        return graph_tables.lowered_table(self.record)

    @knows_its_options
    def text(self) -> str:
        return graph_tables.lowered_text(self.record)

    def body_html(self) -> Markup:
        run = self._run()
        return stage_html.lowered(self.record, run.spent if run else None)

    @property
    def modules(self) -> pd.DataFrame:
        """One row a module or kernel, as in the tree of modules; with cycles and bytes once the journey is simulated. A
        kernel of several modules is at the module that contains them all."""
        run = self._run()
        spent = run.spent if run else None
        return data_frames.frame(module_tree.modules_table(module_tree.lowered_tree(self.record, spent), spent))

    @property
    def fusions(self) -> pd.DataFrame:
        """Pairs of nodes, fused and refused, with the rule and the reason. Where `switch` is true, `fusion={"off":
        [rule]}` turns the rule off; no option changes the other refusals."""
        return data_frames.frame(graph_tables.fusions_table(self.record))

    @property
    def rewrites(self) -> pd.DataFrame:
        """One row a graph pass or pattern, in the order in which they ran: whether it was on, and how many nodes it
        changed. `.changes` has the nodes."""
        return data_frames.frame(graph_tables.rewrites_table(self.record))

    @property
    def changes(self) -> pd.DataFrame:
        """One row a node that a graph pass or pattern removed, added or changed, with the captured nodes behind it."""
        return data_frames.frame(graph_tables.changes_table(self.record))

    @property
    def patterns(self) -> pd.DataFrame:
        """One row a match of a pattern. A pattern without a match says how near it came: how many of its nodes have
        `partners`, the op that it `wanted` next, and what was `found` there."""
        return data_frames.frame(graph_tables.patterns_table(self.record))

    @property
    def layouts(self) -> pd.DataFrame:
        """One row a tensor in DRAM: the order of its axes, outermost first, PyTorch's own order, and the reason."""
        return data_frames.frame(memory_tables.layouts_table(self.record))

    @cached_property
    def kernels(self) -> tuple[LoweredKernel, ...]:
        """The kernels in launch order."""
        return tuple(LoweredKernel(kernel, self.record) for kernel in self.record.kernels)

    @property
    def kernel_table(self) -> pd.DataFrame:
        """One row a kernel, in launch order."""
        return data_frames.frame(graph_tables.kernels_table(self.record))

    def __repr__(self) -> str:
        return f"Lowered({count_of(len(self.record.nodes), 'node')} in {count_of(len(self.record.kernels), 'kernel')})"
