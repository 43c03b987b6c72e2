"""The order in which the axes of each tensor lie in DRAM.

A storage with a new order is dense, and its views show the same elements with other strides. If a view would have to
become a copy, the next order is tried. A storage keeps its order if PyTorch uses it on the host, if it holds recorded
indices, and if kernels choose its elements by index, which blocks do not help.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from simulator.did_you_mean import did_you_mean, sentences
from workbench.ground.errors import BadOption
from workbench.ir import HOST, AxisOrder, KernelGraph, TensorType
from workbench.ir.dram_blocks import AS_IN_PYTORCH, axes_of, dense_in, less_padded, padded_elements
from workbench.ir.moved_views import moved, overlaps_itself
from workbench.lowering.indexing_ops import looked_into
from workbench.lowering.layout_options import AS_GIVEN, Layout


def laid_out(graph: KernelGraph, layout: Layout) -> KernelGraph:
    """The graph with its tensors in the axis orders of a layout, and with the reason for each order."""
    work = _Work(graph, layout, dict(graph.types))
    asked = dict(work.asked())
    if layout.block is None and not asked:
        return graph
    orders = tuple(work.order(value, asked.get(value)) for value in work.storages)
    return replace(graph, types=work.types, layouts=orders)


def as_in_pytorch(graph: KernelGraph) -> KernelGraph:
    """The graph with all its tensors in PyTorch's order again."""
    if not graph.layouts:
        return graph
    work = _Work(graph, AS_GIVEN, dict(graph.types))
    for order in graph.layouts:
        if work.types[order.value] != order.given and (refused := work.lay_out(order.value, order.given)):
            raise ValueError(f"{order.value} cannot lie as it did: {refused}")  # the way there was possible
    return replace(graph, types=work.types, layouts=())


@dataclass
class _Work:
    """A graph whose storages get their axis orders."""

    graph: KernelGraph
    layout: Layout
    types: dict[str, TensorType]
    views: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Storage -> its views."""

    def __post_init__(self) -> None:
        for view in self.graph.views:
            self.views.setdefault(view.base, []).append(view.value)
        self.base = self.graph.bases
        self.storages = self.graph.storages
        hosted = [kernel for kernel in self.graph.kernels if kernel.kind == HOST]
        self._hosted = self._owners(value for kernel in hosted for value in (*kernel.inputs, *kernel.outputs))
        recorded = {numbers.value for numbers in self.graph.captured.numbers}
        bounds = self._owners(bound.value for kernel in self.graph.kernels for bound in kernel.bounds)
        self._indices = recorded & bounds.keys()
        self._by_index = self._owners(value for item in self.graph.nodes for value in looked_into(item.node))

    def _owners(self, values: Iterable[str]) -> dict[str, None]:
        """The storages of these values."""
        return dict.fromkeys(self.base.get(value, value) for value in values)

    def asked(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The storages whose order the user gives, and these orders."""
        paths = {given.path: given.value for given in self.graph.captured.inputs}
        said = dict[str, str]()
        for name, axes in self.layout.named:
            value = paths.get(name, name)
            if value in said:
                raise BadOption(
                    f"layout: {said[value]!r} and {name!r} are one tensor; expected an order for one of them"
                )
            said[value] = name
            if value not in self.storages:
                raise BadOption(self._not_there(name, value, paths))
            if sorted(axes) != list(range(len(self.types[value].shape))):
                shape = self.types[value].shape
                what = f"layout: {name!r} has the shape {[*shape]}, and {axes} is no order of its axes"
                raise BadOption(sentences(what, f"Expected {axes_of(self.types[value])} in any order, outermost first"))
            yield value, axes

    def _not_there(self, name: str, value: str, paths: dict[str, str]) -> str:
        if value in self.base:
            return f"layout: {name!r} is a view of {self.base[value]!r}, and lies as that does: lay out that one"
        if value in self.types:
            return f"layout: {name!r} is never in DRAM: one kernel makes it and uses it up, or none uses it"
        known = {value: path for path, value in paths.items()}
        names = [known.get(each, each) for each in self.storages]
        what = f"layout: there is no tensor {name!r} in DRAM{did_you_mean(name, names)}"
        return sentences(what, f"The tensors there are {', '.join(names)}")

    def order(self, value: str, asked: tuple[int, ...] | None) -> AxisOrder:
        """Chooses the order of a storage's axes, and changes the types accordingly."""
        given, block = self.types[value], self.layout.block
        before, refused = axes_of(given), ""
        wanted = (asked,) if asked else less_padded(given, block) if block else ()
        for axes in wanted:
            kept = self.lay_out(value, dense_in(given, axes)) if axes != before else ""
            if not kept:
                now, then = (padded_elements(given.shape, each, block) for each in (axes, before))
                why = "asked for" if asked else f"with padding {now:,} elements, not {then:,}"
                return AxisOrder(value, axes, given, why + (f"; less is impossible: {refused}" if refused else ""))
            if asked:
                raise BadOption(f"layout: {value!r} cannot be laid out anew: {kept}")
            refused = refused or kept
        why = refused or ("no other order has less padding" if block else AS_IN_PYTORCH)
        return AxisOrder(value, before, given, why, kept=bool(refused))

    def lay_out(self, value: str, after: TensorType) -> str:
        """Gives a storage's tensor and its views their new types; returns the reason if it cannot, else ''."""
        before, found = self.types[value], {value: after}
        if value in self._hosted:
            return "PyTorch computes with it on the host"
        if value in self._indices:
            return "it has indices, recorded in their order in memory"
        if value in self._by_index:
            return "indices choose elements of it, which lie together as they are"
        if overlaps_itself(before):
            return "several of its elements are the same memory"
        for view in self.views.get(value, ()):
            kind = self.types[view]
            if kind.dtype != before.dtype:
                return f"{view!r} reads it as {kind.dtype}"
            if kind.numel and (now := moved(kind, before, after)) is not None:
                found[view] = now
            elif kind.numel:
                return f"{view!r} ({kind}) would no longer be a view of it"
        self.types |= found
        return ""
