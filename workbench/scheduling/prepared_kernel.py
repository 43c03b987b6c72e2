"""Prepares a kernel for tiling: rewrites and names its ops, in a form with whole reductions or with split ones.

Reshapes between ops, such as the one that merges the groups and channels of a grouped convolution, are moved to the
kernel's border, where tiling does not see them.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.machine.machine import Machine
from workbench.ground.errors import MappingError
from workbench.ir import KernelModule, Mapping
from workbench.mlir.bindings import maker, named, shape_of
from workbench.mlir.context import new_context, parse
from workbench.mlir.linalg_ops import linalg_ops
from workbench.mlir.named_dims import Payload, analyse
from workbench.mlir.tosa import TO_LINALG, holds_tosa
from workbench.scheduling.core_split import share
from workbench.scheduling.loop_order import inside_reduced, refused_cut, refused_order
from workbench.scheduling.mapping_script import splits_reduction
from workbench.scheduling.pass_pipeline import PassTrace
from workbench.scheduling.passes.borders import has_borders, settle_borders
from workbench.scheduling.passes.copy_left_over import copy_left_over
from workbench.scheduling.passes.generalize import generalize
from workbench.scheduling.passes.join_products import holds_products, join_products
from workbench.scheduling.passes.join_results import join_results, results_apart
from workbench.scheduling.passes.keep_sums import keep_sums
from workbench.scheduling.passes.product_operands import hold_operands, makes_operands, release_operands
from workbench.scheduling.passes.recompute import recompute
from workbench.scheduling.passes.results_in_place import made_apart, put_results_in_place
from workbench.scheduling.passes.split_gathers import holds_gathers, split_gathers
from workbench.scheduling.passes.tag import name_ops
from workbench.scheduling.scratchpad_demand import rows_fit

if TYPE_CHECKING:
    from torch_mlir import ir


Near = frozenset[int]
"""The numbers of the arguments that the common memory serves in every launch of a kernel."""

_FUSE = "func.func(linalg-fuse-elementwise-ops),canonicalize,cse"


def context_for(passes: Dict[str, tuple[str, ...]] | None) -> ir.Context:
    """A context for these user pipelines: with any, it has every dialect, since user passes may make any op."""
    return new_context(every_dialect=bool(passes))


class PreparedKernel:
    """A kernel prepared for tiling, in two forms: with whole and with split reductions. Each is made when needed."""

    def __init__(
        self, rendered: KernelModule, context: ir.Context, passes: Dict[str, tuple[str, ...]], near: Near = frozenset()
    ) -> None:
        self.rendered, self._context, self._passes, self._near = rendered, context, passes, near
        self._traces: dict[bool, PassTrace] = {}
        self._payloads: dict[bool, Payload] = {}

    def payload(self, *, split: bool) -> Payload:
        """The kernel's ops over its named dims, in one of the two forms."""
        if split not in self._payloads:
            trace = self._traces[split] = self.take(split)
            with trace.module.context:
                self._payloads[split] = replace(analyse(trace.module), near=self._near)
        return self._payloads[split]

    def payload_with(self, machine: Machine, slots: int) -> Payload:
        """The payload that a mapping with `slots` slots tiles: split if rows do not fit with so many slots."""
        return self.payload(split=not rows_fit(self.payload(split=False), machine, slots))

    def take_for(self, payload: Payload, mapping: Mapping) -> PassTrace:
        """Returns the form that a mapping tiles, for the caller to change; `MappingError` if the mapping cannot be."""
        split = splits_reduction(payload, mapping)
        if split and (refused := refused_cut(payload, mapping.tile, self.payload(split=True).dims)):
            raise MappingError(self.rendered.kernel, refused, "tile")
        trace, mine = self.take(split), share(payload, mapping.cores)
        if refused := refused_order(mine, mapping.tile, mapping.order):
            raise MappingError(self.rendered.kernel, refused, "order")
        if inside_reduced(mine, mapping.tile, mapping.order):
            trace.run("keep the sums", keep_sums)
            trace.run("name the ops", name_ops)
        return trace

    def refuses_cut(self, payload: Payload, mapping: Mapping) -> bool:
        """True if a mapping cuts a reduced dim of a kernel whose split form has other dims."""
        return splits_reduction(payload, mapping) and self.payload(split=True).dims != payload.dims

    def take(self, split: bool) -> PassTrace:
        """Returns one of the two forms, for the caller to change."""
        return self._traces.pop(split, None) or _prepare(self.rendered, self._context, self._passes, split=split)


def _prepare(
    rendered: KernelModule, context: ir.Context, passes: Dict[str, tuple[str, ...]], *, split: bool
) -> PassTrace:
    """Prepares the ops for tiling: drops unit dims, fuses elementwise neighbours, names every op."""
    trace = PassTrace(parse(rendered.located, context), after=passes)
    trace.run_if(holds_tosa, "tosa to linalg", TO_LINALG)
    trace.run("open named ops", generalize)
    trace.run("drop unit dims", "func.func(linalg-fold-unit-extent-dims),canonicalize,cse")
    trace.run_if(holds_products, "join the products", join_products)
    trace.run_if(results_apart, "join the results", join_results)
    held = makes_operands(trace.module)
    if held:
        trace.run("hold the product's operands", hold_operands)
    _fuse(trace, "fuse elementwise")
    if held:
        trace.run("release the product's operands", release_operands)
    trace.run_if(has_borders, "settle borders", settle_borders)
    gathers = holds_gathers(trace.module)
    if gathers:
        trace.run("take gathers apart", split_gathers)
    if not linalg_ops(trace.module):
        trace.run("copy what is left", copy_left_over)
    trace.run("name the ops", name_ops)
    if split:
        trace.run("recompute per pass", recompute)
        trace.run_if(results_apart, "join the results", join_results)
        _fuse(trace, "fuse recomputed")
        if gathers:
            trace.run("take gathers apart", split_gathers)
        trace.run("name the ops", name_ops)
    if made_apart(trace.module):
        trace.run("results in place", put_results_in_place)
        trace.run("name the ops", name_ops)
    return trace


def _fuse(trace: PassTrace, name: str) -> None:
    """Fuses elementwise neighbours, again and again until no reshape is left between two ops or their number stays.

    MLIR moves an op across its reshape if nothing else reads the op. An op with two readers has two equal reshapes at
    first; one round merges them, and the next round moves the op.
    """
    trace.run(name, _FUSE)
    left, before = _reshapes_between(trace.module), 0
    while left not in (0, before):
        trace.run("fuse across reshapes", _FUSE)
        left, before = _reshapes_between(trace.module), left


def _reshapes_between(module: ir.Module) -> int:
    """Counts the reshapes between two linalg ops that split or merge a dim."""
    found = [op for name in ("tensor.expand_shape", "tensor.collapse_shape") for op in named(module, name)]
    return sum(_changes_dims(op) and _is_between_linalg(op) for op in found)


def _changes_dims(op: ir.Operation) -> bool:
    """True for a reshape that does more than add or drop extents of one."""
    before, after = ([each for each in shape_of(value) if each != 1] for value in (op.operands[0], op.results[0]))
    return before != after


def _is_between_linalg(op: ir.Operation) -> bool:
    source, readers = maker(op.operands[0]), [use.owner.operation for use in op.results[0].uses]
    return (
        source is not None
        and source.name.startswith("linalg.")
        and any(each.name.startswith("linalg.") for each in readers)
    )
