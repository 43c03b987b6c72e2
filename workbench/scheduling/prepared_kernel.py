"""A kernel prepared for tiling: its ops brought into shape and named, whole or with its reductions split."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Dict
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from simulator.machine.machine import Machine
from workbench.ground.errors import MappingError
from workbench.ir import KernelModule, Mapping
from workbench.mlir.context import new_context, parse
from workbench.mlir.linalg_ops import linalg_ops
from workbench.mlir.named_dims import Payload, analyse
from workbench.mlir.tosa import TO_LINALG, holds_tosa
from workbench.scheduling import reshapes_between_ops
from workbench.scheduling.core_split import share
from workbench.scheduling.loop_order import inside_reduced, refused_cut, refused_order
from workbench.scheduling.mapping_script import splits_reduction
from workbench.scheduling.pass_pipeline import PassTrace
from workbench.scheduling.passes.borders import SettleBorders, has_borders
from workbench.scheduling.passes.copy_left_over import CopyLeftOver
from workbench.scheduling.passes.generalize import Generalize
from workbench.scheduling.passes.join_products import JoinProducts, holds_products
from workbench.scheduling.passes.join_results import JoinResults, results_apart
from workbench.scheduling.passes.keep_sums import KeepSums
from workbench.scheduling.passes.product_operands import HoldOperands, ReleaseOperands, makes_operands
from workbench.scheduling.passes.recompute import Recompute
from workbench.scheduling.passes.results_in_place import (
    ResultsInPlace,
    made_apart,
)
from workbench.scheduling.passes.split_gathers import SplitGathers, holds_gathers
from workbench.scheduling.passes.tag import Tag
from workbench.scheduling.scratchpad_demand import rows_fit

if TYPE_CHECKING:
    from torch_mlir import ir


Near = frozenset[int]
"""Arguments of a kernel that the common memory serves whenever it runs."""


def context_for(passes: Dict[str, tuple[str, ...]] | None) -> ir.Context:
    """A context for these pipelines of the user's: passes that users register may make ops of any dialect."""
    return new_context(every_dialect=bool(passes))


def payloads(
    rendered: KernelModule,
    machine: Machine,
    context: ir.Context,
    passes: Dict[str, tuple[str, ...]],
    near: Near = frozenset(),
) -> Callable[[int], Payload]:
    """The named dims that a mapping with so many slots tiles: with them a long reduction may have to be split."""
    ready = PreparedKernel(rendered, context, passes, near)

    @cache
    def payload(split: bool) -> Payload:
        return ready.payload(split=split)

    return lambda slots: payload(split=not rows_fit(payload(split=False), machine, slots))


class PreparedKernel:
    """A kernel prepared for tiling, in its two forms, each made when needed."""

    def __init__(
        self, rendered: KernelModule, context: ir.Context, passes: Dict[str, tuple[str, ...]], near: Near = frozenset()
    ) -> None:
        self.rendered, self._context, self._passes, self._near = rendered, context, passes, near
        self._traces: dict[bool, PassTrace] = {}

    def payload(self, *, split: bool) -> Payload:
        """The kernel's ops over its named dims."""
        trace = self._traces[split] = self.take(split)
        with trace.module.context:
            return replace(analyse(trace.module), near=self._near)

    def take_for(self, payload: Payload, mapping: Mapping) -> PassTrace:
        """The form that a mapping tiles."""
        split = splits_reduction(payload, mapping)
        trace = self.take(split)
        if split and (refused := refused_cut(payload, mapping.tile, self._dims(trace))):
            raise MappingError(self.rendered.kernel, refused, "tile")
        mine = share(payload, mapping.cores)
        if refused := refused_order(mine, mapping.tile, mapping.order):
            raise MappingError(self.rendered.kernel, refused, "order")
        if inside_reduced(mine, mapping.tile, mapping.order):
            trace.run("keep the sums", KeepSums())
            trace.run("name the ops", Tag())
        return trace

    def refuses_cut(self, payload: Payload, mapping: Mapping) -> bool:
        """True if a mapping cuts a reduced dim in a kernel that would have other dims then."""
        if not splits_reduction(payload, mapping):
            return False
        return self.payload(split=True).dims != payload.dims

    @staticmethod
    def _dims(trace: PassTrace) -> Dict[str, int]:
        with trace.module.context:
            return analyse(trace.module).dims

    def take(self, split: bool) -> PassTrace:
        """The form itself, which the caller may change."""
        return self._traces.pop(split, None) or _prepare(self.rendered, self._context, self._passes, split=split)


def _prepare(
    rendered: KernelModule, context: ir.Context, passes: Dict[str, tuple[str, ...]], *, split: bool
) -> PassTrace:
    """Prepares the ops for tiling: no unit dims, elementwise neighbours fused, every op named."""
    trace = PassTrace(parse(rendered.located, context), after=passes)
    if holds_tosa(trace.module):
        trace.run("tosa to linalg", TO_LINALG)
    trace.run("open named ops", Generalize())
    trace.run("drop unit dims", "func.func(linalg-fold-unit-extent-dims),canonicalize,cse")
    if holds_products(trace.module):
        trace.run("join the products", JoinProducts())
    if results_apart(trace.module):
        trace.run("join the results", JoinResults())
    held = makes_operands(trace.module)
    if held:
        trace.run("hold the product's operands", HoldOperands())
    reshapes_between_ops.fuse(trace, "fuse elementwise")
    if held:
        trace.run("release the product's operands", ReleaseOperands())
    if has_borders(trace.module):
        trace.run("settle borders", SettleBorders())
    gathers = holds_gathers(trace.module)
    if gathers:
        trace.run("take gathers apart", SplitGathers())
    if not linalg_ops(trace.module):
        trace.run("copy what is left", CopyLeftOver())
    trace.run("name the ops", Tag())
    if split:
        trace.run("recompute per pass", Recompute())
        if results_apart(trace.module):
            trace.run("join the results", JoinResults())
        reshapes_between_ops.fuse(trace, "fuse recomputed")
        if gathers:
            trace.run("take gathers apart", SplitGathers())
        trace.run("name the ops", Tag())
    if made_apart(trace.module):
        trace.run("results in place", ResultsInPlace())
        trace.run("name the ops", Tag())
    return trace
