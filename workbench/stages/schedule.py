"""Scheduling: from linalg on tensors to loops over scratchpad tiles, and the tile program read off them.

The steps are in `_prepare`, `_tile` and `_read_off`: bring the ops into shape, name their dims, choose a mapping,
write it as a transform script, let MLIR tile, fuse and bufferize, move every tile through the scratchpad, read the
program off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from simulator.errors import DoesNotFit
from simulator.machine import Machine
from simulator.placement import check_fit
from simulator.program import TileProgram
from workbench.errors import MappingError, PassError, ScheduledFormError, ScheduleScriptError
from workbench.faults.channel import Message
from workbench.faults.trial import TRIALS, Trial
from workbench.ir import (
    Folded,
    KernelGraph,
    KernelModule,
    Mapping,
    Node,
    ScheduledKernel,
    ScheduledProgram,
    codec,
)
from workbench.ir.kernels import USER_SCRIPT
from workbench.mlir import heuristic
from workbench.mlir.borders import has_borders
from workbench.mlir.context import new_context, parse, print_module
from workbench.mlir.cores import checked_cores, share, spread_of
from workbench.mlir.extract import extract
from workbench.mlir.gathers import holds_gathers
from workbench.mlir.handwritten import written_kernel
from workbench.mlir.identity import machine_key, module_key, schedule_key, taken_over
from workbench.mlir.kernel_store import KernelStore
from workbench.mlir.origins import ops_named
from workbench.mlir.passes import PassTrace, mapping_options
from workbench.mlir.payload import Payload, analyse, linalg_ops
from workbench.mlir.scripts import check_script, check_scripted, in_script, without_lines
from workbench.mlir.sizing import buffers_at_once
from workbench.mlir.template import instantiate
from workbench.mlir.tiling import check_order, splits_reduction, transform_script
from workbench.mlir.tosa import TO_LINALG, holds_tosa
from workbench.mlir.user_mapping import (
    UserMapping,
    asked_of,
    check_kernels,
    check_shadowed,
    useful_slots,
    with_users,
)
from workbench.mlir.user_passes import UserPasses, check_steps, checked_passes
from workbench.mlir.verify import verify_scheduled
from workbench.mlir.walking import has_windows
from workbench.ops import host
from workbench.ops.planner import plan_launches
from workbench.ops.proven import described, unproven
from workbench.ops.registry import DEFAULT, Registrations, registered_template
from workbench.progress import counted

if TYPE_CHECKING:
    from torch_mlir import ir


def schedule(
    lowered: KernelGraph,
    rendered: tuple[KernelModule, ...],
    machine: Machine,
    mapping: Dict[str, UserMapping] | None = None,
    store: KernelStore | None = None,
    registrations: Registrations | None = None,
    scripts: Dict[str, str] | None = None,
    passes: UserPasses | None = None,
) -> ScheduledProgram:
    """Every distinct kernel in the scheduled form for `machine`, and the order of the launches.

    Kernels that are the same function share one schedule, under the name of the first of them. A mapping of that name
    is for all of them; one of another's name is for that one alone, and one of a pattern for those that it matches.
    `scripts` are transform scripts by kernel, told
    apart like mappings: each takes the place of the one that the kernel's mapping would be written as. `passes` are
    pipelines that run after steps, by the steps' names. What `store` holds is not made again; it is not asked with
    `passes`, whose code no key covers.
    """
    extra = checked_passes(passes)
    wanted, given = dict(mapping or {}), dict(scripts or {})
    check_scripted(given, rendered)
    check_kernels(wanted, [kernel.name for kernel in lowered.kernels])
    keys = {
        module.kernel: module_key(module) + (_written_for(lowered, module) if module.handwritten else "")
        for module in rendered
    }
    leaders = {key: kernel for kernel, key in reversed(keys.items())}
    check_shadowed(wanted, [(kernel, leaders[key]) for kernel, key in keys.items()])
    known = registrations if registrations is not None else DEFAULT.now()
    kernels = _Kernels(lowered, machine, None if extra else store, known, extra)
    runs: dict[str, str] = {}
    for module in counted(rendered):
        alike = keys[module.kernel]
        leader = leaders[alike]
        asked = asked_of(wanted, (module.kernel, leader))
        script = next((given[name] for name in (module.kernel, leader) if name in given), None)
        kernel = kernels.get(alike, module, asked.mapping if asked else None, script)
        if asked is not None:
            asked.check(kernel)
        runs[module.kernel] = kernel.kernel
    made = tuple(kernels.by_key.values())
    check_steps(extra, [step.name for kernel in made for step in kernel.passes])
    return ScheduledProgram(made, plan_launches(lowered, runs), host.steps(lowered))


@dataclass
class _Kernels:
    """Scheduled kernels by the key of what they are made from: each is taken from the store or made, once."""

    lowered: KernelGraph
    machine: Machine
    store: KernelStore | None
    registrations: Registrations
    passes: Dict[str, tuple[str, ...]]
    by_key: dict[tuple[str, str | None], ScheduledKernel] = field(
        default_factory=dict[tuple[str, str | None], ScheduledKernel]
    )
    """What is asked for, by key and script, in the order of the first launches."""
    unscripted: dict[str, ScheduledKernel] = field(default_factory=dict[str, ScheduledKernel])

    def get(
        self, alike: str, module: KernelModule, wanted: UserMapping | None, script: str | None = None
    ) -> ScheduledKernel:
        """The scheduled kernel of a module whose key is `alike`. What a script makes is not kept on disk."""
        key = schedule_key(alike, self._machine_key, wanted)
        if (key, script) not in self.by_key:
            made = self._unscripted(key, module, wanted)
            if script is not None:
                self._tried(key, module, wanted, script)
                made = scripted_kernel(module, self.machine, made.mapping, script, self._context, self.passes)
            self.by_key[key, script] = made
        return self.by_key[key, script]

    def _unscripted(self, key: str, module: KernelModule, wanted: UserMapping | None) -> ScheduledKernel:
        if key not in self.unscripted and module.handwritten:
            self.unscripted[key] = _handwritten(
                self.lowered,
                module,
                self.machine,
                wanted,
                self.registrations,
                self.unproven.get(module.kernel, ()),
            )
        elif key not in self.unscripted:
            self.unscripted[key] = self._stored(key, module) or self._made(key, module, wanted)
        return self.unscripted[key]

    def _stored(self, key: str, module: KernelModule) -> ScheduledKernel | None:
        kept = self.store.get(key) if self.store else None
        return taken_over(kept, module) if kept else None

    def _made(self, key: str, module: KernelModule, wanted: UserMapping | None) -> ScheduledKernel:
        if self.passes or module.kernel in self.unproven:
            self._tried(key, module, wanted, None)
        made = schedule_kernel(module, self.machine, wanted, self._context, self.passes)
        if self.store:
            self.store.put(key, made)
        return made

    def _tried(self, key: str, module: KernelModule, wanted: UserMapping | None, script: str | None) -> None:
        """A worker schedules it first. What comes of that is only whether it comes back."""
        body = {
            "module": codec.encode(module),
            "machine": codec.encode(self.machine),
            "wanted": json.loads(json.dumps(wanted, default=repr)),
            "script": script,
            "passes": {step: list(passes) for step, passes in self.passes.items()},
        }
        nodes = described(self.lowered, self.lowered.kernel(module.kernel))
        asked = json.dumps([key, script, body["passes"]])
        TRIALS.pass_or_raise(Trial("schedule", asked, lambda: Message(body), module.kernel, nodes))

    @cached_property
    def unproven(self) -> dict[str, tuple[str, ...]]:
        return unproven(self.lowered, self.registrations)

    @cached_property
    def _machine_key(self) -> str:
        return machine_key(self.machine)

    @cached_property
    def _context(self) -> ir.Context:
        """One for all: making one takes longer than most passes."""
        return new_context()


def _written_for(lowered: KernelGraph, module: KernelModule) -> str:
    """What a template is made for, beside its tensors: texts that agree on one machine need not do so on another."""
    node = _template_node(lowered, module)
    return repr((node.op, node.args[1:], sorted(node.kwargs.items(), key=lambda item: item[0])))


def _template_node(lowered: KernelGraph, module: KernelModule) -> Node:
    (node,) = [item.node for name in module.origins if (item := lowered.node(name)).route == "template"]
    return node


def _handwritten(
    lowered: KernelGraph,
    module: KernelModule,
    machine: Machine,
    wanted: UserMapping | None,
    registrations: Registrations,
    unproven: tuple[str, ...],
) -> ScheduledKernel:
    """A template's kernel, rendered for this machine and mapping. No pass touches it, and none is recorded."""
    node = _template_node(lowered, module)
    count = len(lowered.kernel(module.kernel).inputs)
    registered = registered_template(registrations, node)
    template = instantiate(
        registered, node, module.arguments[:count], module.arguments[count:], module.kernel, module.hooks
    )
    mapping = template.mapping(machine)
    if wanted is not None:
        if any(count != 1 for count in wanted.get("cores", {}).values()):
            raise MappingError(
                module.kernel, "cores: a template says by itself, with scf.forall, what cores do at once"
            )
        mapping = replace(mapping, buffers=wanted.get("buffers", mapping.buffers))
        mapping = with_users(module.kernel, template.dims(), mapping, wanted)
    rendering, program = written_kernel(template, module.origins, mapping, machine, unproven)
    check_fit(program, machine.scratchpad_bytes)
    mapping = replace(mapping, spread=spread_of(program, machine, "the template"))
    return ScheduledKernel(
        module.kernel, rendering.text, rendering.located, "", mapping, template.dims(), (), program, module.arguments
    )


def schedule_kernel(
    rendered: KernelModule,
    machine: Machine,
    wanted: UserMapping | None,
    context: ir.Context | None = None,
    passes: Dict[str, tuple[str, ...]] | None = None,
) -> ScheduledKernel:
    """One kernel in the scheduled form. A mapping of the heuristic's that turns out too large is made smaller."""
    ready = _Ready(rendered, context or new_context(), passes or {})
    capacity, crowd = machine.scratchpad_bytes, list[tuple[str, int]]()
    for payload, mapping in _mappings(ready, machine, wanted):
        tiled = _tile(ready.take(splits_reduction(payload, mapping)), mapping)
        if not wanted:
            crowd = buffers_at_once(tiled.trace.module, machine)
            if sum(size for _, size in crowd) > capacity:
                continue
        scheduled = _read_off(rendered, tiled, machine)
        if wanted or scheduled.program.scratchpad_bytes <= capacity:
            check_fit(scheduled.program, capacity)
            return scheduled
        crowd = [(buffer.name, buffer.bytes) for buffer in scheduled.program.buffers]
    largest_first = sorted(crowd, key=lambda each: -each[1])
    advice = SMALLEST + (FEWER if len(rendered.origins) > 1 else ".")
    raise DoesNotFit(rendered.kernel, sum(size for _, size in crowd), capacity, largest_first, advice)


SMALLEST = "Its tiles are single elements already, each with one place: it takes a machine with a larger scratchpad"
FEWER = ", or fewer operations in one kernel (fusion='none')."


def scripted_kernel(
    rendered: KernelModule,
    machine: Machine,
    mapping: Mapping,
    script: str,
    context: ir.Context,
    passes: Dict[str, tuple[str, ...]],
) -> ScheduledKernel:
    """The kernel tiled by a user's script, with as many buffer slots as the mapping has.

    The script is applied to the ops as they are for the mapping that is chosen without it: their numbers (`npu.id`)
    are those in the script which that mapping is written as, so that this one can be edited.
    """
    check_script(rendered.kernel, script)
    ready = _Ready(rendered, context, passes)
    split = splits_reduction(ready.payload(split=False), mapping)
    said_by_script = replace(mapping, tile={}, order=(), cores={}, reason=USER_SCRIPT)
    try:
        scheduled = _read_off(rendered, _tile(ready.take(split), said_by_script, script), machine)
    except PassError as error:
        raise ScheduleScriptError(rendered.kernel, script, "fails", in_script(error.problems)) from None
    except ScheduledFormError as error:
        what = "leaves ops that are not in the scheduled form"
        raise ScheduleScriptError(rendered.kernel, script, what, without_lines(error.problems)) from None
    check_fit(scheduled.program, machine.scratchpad_bytes)
    spread = spread_of(scheduled.program, machine, "the script")
    return replace(scheduled, mapping=replace(scheduled.mapping, spread=spread))


def try_schedule(job: Message) -> None:
    """In the worker: what this process does with a kernel, or with a user's script for it, when it is not there."""
    module, machine = (
        codec.decode(kind, job.body[name]) for name, kind in (("module", KernelModule), ("machine", Machine))
    )
    passes = {step: tuple(names) for step, names in job.body["passes"].items()}
    made = schedule_kernel(module, machine, job.body["wanted"], None, passes)
    if (script := job.body["script"]) is not None:
        scripted_kernel(module, machine, made.mapping, script, new_context(), passes)


def _mappings(ready: _Ready, machine: Machine, wanted: UserMapping | None) -> Iterator[tuple[Payload, Mapping]]:
    """The kernel's named dims with the mapping: the user's over the heuristic's, or the heuristic's and smaller ones.

    Buffers keep their slots as long as any tile fits with them: overlap is worth more than a larger tile.
    """
    kernel = ready.rendered.kernel
    slots = (wanted or {}).get("buffers", heuristic.SLOTS)
    for buffers in range(slots, 0, -1):
        payload = ready.payload(split=False)
        if not heuristic.rows_fit(payload, machine, buffers):
            payload = ready.payload(split=True)
        asked = wanted.get("cores") if wanted else None
        split = None if asked is None else checked_cores(kernel, payload, asked, len(machine.shares))
        if buffers > heuristic.SLOTS:
            usual = heuristic.choose(payload, machine, heuristic.SLOTS, split)
            tile = usual.tile | dict((wanted or {}).get("tile", {}))
            buffers = useful_slots(buffers, tile, share(payload, usual.cores).dims)
        mapping = heuristic.choose(payload, machine, buffers, split)
        mine = share(payload, mapping.cores)
        if wanted is not None:
            within = partial(heuristic.within_rank, payload)
            mapping = with_users(kernel, payload.dims, mapping, wanted, within, mine.dims)
            check_order(kernel, payload, mapping)
            yield payload, mapping
            return
        check_order(kernel, payload, mapping)
        if buffers > 1 and not heuristic.Demand(machine, mine, buffers).fits(mapping.tile):
            continue
        while mapping is not None:
            yield payload, mapping
            mapping = heuristic.shrink(mapping, payload)


class _Ready:
    """A kernel brought into the shape that tiling wants, in the two forms there are of it, each made when needed."""

    def __init__(self, rendered: KernelModule, context: ir.Context, passes: Dict[str, tuple[str, ...]]) -> None:
        self.rendered, self._context, self._passes = rendered, context, passes
        self._traces: dict[bool, PassTrace] = {}

    def payload(self, *, split: bool) -> Payload:
        """The kernel's ops over its named dims."""
        trace = self._traces[split] = self.take(split)
        with trace.module.context:
            return analyse(trace.module)

    def take(self, split: bool) -> PassTrace:
        """The form for good: what is done to it next is the taker's."""
        return self._traces.pop(split, None) or _prepare(self.rendered, self._context, self._passes, split=split)


def _prepare(
    rendered: KernelModule, context: ir.Context, passes: Dict[str, tuple[str, ...]], *, split: bool
) -> PassTrace:
    """Brings the ops into the shape that tiling wants: no unit dims, elementwise neighbours fused, every op named."""
    trace = PassTrace(parse(rendered.located, context), after=passes)
    if holds_tosa(trace.module):
        trace.run("tosa to linalg", TO_LINALG)
    trace.run("open named ops", "npu-generalize")
    trace.run("drop unit dims", "func.func(linalg-fold-unit-extent-dims),canonicalize,cse")
    trace.run("fuse elementwise", "func.func(linalg-fuse-elementwise-ops),canonicalize,cse")
    if has_borders(trace.module):
        trace.run("settle borders", "npu-borders")
    gathers = holds_gathers(trace.module)
    if gathers:
        trace.run("take gathers apart", "npu-split-gathers")
    if not linalg_ops(trace.module):
        trace.run("copy what is left", "npu-copy-left-over")
    trace.run("name the ops", "npu-tag")
    if split:
        trace.run("recompute per pass", "npu-recompute")
        trace.run("fuse recomputed", "func.func(linalg-fuse-elementwise-ops),canonicalize,cse")
        if gathers:
            trace.run("take gathers apart", "npu-split-gathers")
        trace.run("name the ops", "npu-tag")
    return trace


@dataclass(frozen=True, slots=True)
class _Tiled:
    """A kernel in the scheduled form, of which no program has been read off yet."""

    trace: PassTrace
    script: str
    mapping: Mapping
    dims: dict[str, int]


def _tile(trace: PassTrace, mapping: Mapping, script: str | None = None) -> _Tiled:
    with trace.module.context:
        payload = analyse(trace.module)
    if script is None:
        script = transform_script(payload, mapping)
        trace.run("attach the schedule", f"npu-attach-schedule{{{mapping_options(mapping)}}}")
    else:
        trace.run("attach the schedule", f"npu-attach-script{{{script}}}")
    trace.run("tile and fuse", "transform-interpreter")
    trace.run("detach the schedule", "npu-detach-schedule")
    trace.run("reuse outputs", "eliminate-empty-tensors")
    trace.run(
        "bufferize",
        "one-shot-bufferize{bufferize-function-boundaries=true "
        "function-boundary-type-conversion=identity-layout-map},canonicalize,cse,canonicalize",
    )
    trace.run("hoist invariants", "func.func(loop-invariant-code-motion)")
    trace.run("promote to scratchpad", f"npu-promote{{buffers={mapping.buffers}}}")
    if has_windows(trace.module):
        trace.run("walk windows", "npu-walk-windows")
    trace.run("clean up", "canonicalize,cse")
    return _Tiled(trace, script, mapping, payload.dims)


def _read_off(rendered: KernelModule, tiled: _Tiled, machine: Machine) -> ScheduledKernel:
    trace, text = tiled.trace, print_module(tiled.trace.module)
    verify_scheduled(text, rendered.kernel, trace.module.context)
    program = extract(trace.module, text, rendered.kernel, rendered.origins, machine)
    return ScheduledKernel(
        rendered.kernel,
        text,
        print_module(trace.module, locations=True),
        tiled.script,
        tiled.mapping,
        tiled.dims,
        tuple(trace.snapshots),
        program,
        rendered.arguments,
        _folded(rendered, trace, program),
    )


def _folded(rendered: KernelModule, trace: PassTrace, program: TileProgram) -> tuple[Folded, ...]:
    """Nodes that rendering still had and no instruction works for, each with the step that took it in."""
    working, absorbed = set(program.origin.tolist()), {gone.node for gone in rendered.absorbed}
    found: list[Folded] = []
    for origin, name in enumerate(rendered.origins):
        if origin not in working and name not in absorbed:
            step = trace.last_seen(origin)
            reason = f"the step '{step}' folded it into the ops around it"
            if not step:
                left = ", ".join(sorted(ops_named(trace.module, origin)))
                reason = f"scheduling folded its arithmetic away; what is left of it is no work ({left})"
            found.append(Folded(origin, reason))
    return tuple(found)
