"""Schedules one kernel: from linalg on tensors to loops over scratchpad tiles, and to the tile program.

The steps are in `PreparedKernel`, `_tile` and `_read_off`: rewrite the ops for tiling, name their dims, choose a
mapping, write it as a transform script, let MLIR tile, fuse and bufferize, move every tile through the scratchpad, and
extract the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from simulator.errors import SMALLER, DoesNotFit
from simulator.machine.machine import Machine
from simulator.tileprogram.buffer_addresses import check_fit, in_use_at_once
from simulator.tileprogram.program import TileProgram
from workbench.ground.environment.progress import so_far
from workbench.ground.errors import PassError, ScheduledFormError, ScheduleScriptError
from workbench.ir import Folded, KernelModule, Mapping, ScheduledKernel
from workbench.ir.kernels import USER_SCRIPT
from workbench.mlir.context import print_module
from workbench.mlir.location_ids import ops_named
from workbench.mlir.named_dims import Payload, analyse
from workbench.mlir.scheduled_form import verify_scheduled
from workbench.scheduling import heuristic
from workbench.scheduling.core_split import checked_cores, share, spread, spread_of
from workbench.scheduling.extraction.extract import extract
from workbench.scheduling.extraction.program_size import buffers_at_once
from workbench.scheduling.loop_order import inside_reduced
from workbench.scheduling.mapping_script import transform_script
from workbench.scheduling.pass_pipeline import PassTrace
from workbench.scheduling.passes.attach_script import AttachSchedule, AttachScript, detach_schedule
from workbench.scheduling.passes.join_products import joins_products, take_products_apart
from workbench.scheduling.passes.promote import Promote
from workbench.scheduling.passes.results_in_place import (
    check_written,
    forget_unread,
    put_places_in_shares,
    reads_unread,
    writes_from_shares,
    written_in_place,
)
from workbench.scheduling.passes.window_points import has_windows, walk_windows
from workbench.scheduling.prepared_kernel import Near, PreparedKernel, context_for
from workbench.scheduling.scratchpad_demand import Demand, within_rank
from workbench.scheduling.user_mapping import UserMapping, useful_slots, with_users
from workbench.scheduling.user_scripts import (
    check_matches,
    check_numbers,
    check_script,
    in_bodies,
    in_script,
    op_names,
    without_lines,
)

if TYPE_CHECKING:
    from torch_mlir import ir


def schedule_kernel(
    rendered: KernelModule,
    machine: Machine,
    wanted: UserMapping | None,
    context: ir.Context | None = None,
    passes: Dict[str, tuple[str, ...]] | None = None,
    near: Near = frozenset(),
) -> ScheduledKernel:
    """One kernel in the scheduled form. If the heuristic's mapping turns out too large, smaller ones are tried."""
    ready = PreparedKernel(rendered, context or context_for(passes), passes or {}, near)
    capacity, crowd = machine.scratchpad_bytes, list[tuple[str, int]]()
    for tries, (payload, mapping) in enumerate(_mappings(ready, machine, wanted)):
        if tries:  # no report for the first try, which is usually the only one
            so_far(f"try {tries + 1}, with smaller tiles")
        tiled = _tile(ready.take_for(payload, mapping), mapping)
        if not wanted:
            crowd = buffers_at_once(tiled.trace.module, machine)
            if sum(size for _, size in crowd) > capacity:
                continue
        scheduled = _read_off(rendered, tiled, machine, _advice(payload, mapping) if wanted else "")
        if wanted or scheduled.program.scratchpad_bytes <= capacity:
            return scheduled
        crowd = [(buffer.name, buffer.bytes) for buffer in scheduled.program.buffers]
    largest_first = sorted(crowd, key=lambda each: -each[1])
    advice = SMALLEST + (FEWER if len(rendered.origins) > 1 else ".")
    raise DoesNotFit(rendered.kernel, sum(size for _, size in crowd), capacity, largest_first, advice)


def _advice(payload: Payload, mapping: Mapping) -> str:
    """Advice on how a user's mapping could take less of the scratchpad."""
    inside = inside_reduced(share(payload, mapping.cores), mapping.tile, mapping.order)
    if not inside:
        return SMALLER
    dims = ", ".join(inside)
    return (
        f"The order has {dims} inside a reduced dim, so the sums of all tiles along {dims} are there at once. They "
        f"take less with {' or '.join(inside)} before the reduced dims."
    )


SMALLEST = "Its tiles are single elements already, each with one slot: use a machine with a larger scratchpad"
FEWER = ", or fewer operations in one kernel (fusion='none')."


def scripted_kernel(
    rendered: KernelModule,
    machine: Machine,
    mapping: Mapping,
    script: str,
    context: ir.Context,
    passes: Dict[str, tuple[str, ...]],
) -> ScheduledKernel:
    """The kernel tiled by a user's script, with the mapping's number of buffer slots.

    The script is applied to the ops as prepared for `mapping`: their numbers (`npu.id`) are the same as in the script
    that is written from that mapping, so a user can edit that script.
    """
    parsed = check_script(rendered.kernel, script)
    ready = PreparedKernel(rendered, context, passes)
    trace = ready.take_for(ready.payload(split=False), mapping)
    said_by_script = replace(mapping, tile={}, order=(), cores={}, reason=USER_SCRIPT)
    check_numbers(rendered.kernel, script, parsed, trace.module)
    before, there = trace.snapshots[-1].mlir, op_names(trace.module.operation)
    bodies = in_bodies(trace.module.operation)
    try:
        tiled = _tile(trace, said_by_script, script)
        after = next(each.mlir for each in trace.snapshots if each.name == DETACHED)
        if after == before:
            check_matches(rendered.kernel, script, parsed, before, there, bodies)
        scheduled = _read_off(rendered, tiled, machine, SMALLER)
    except PassError as error:
        raise ScheduleScriptError(rendered.kernel, script, "fails", in_script(error.problems)) from None
    except ScheduledFormError as error:
        what = "leaves ops that are not in the scheduled form"
        raise ScheduleScriptError(rendered.kernel, script, what, without_lines(error.problems)) from None
    spread = spread_of(scheduled.program, machine, "the script")
    return replace(scheduled, mapping=replace(scheduled.mapping, spread=spread))


def _mappings(ready: PreparedKernel, machine: Machine, wanted: UserMapping | None) -> Iterator[tuple[Payload, Mapping]]:
    """The payloads and mappings to try: the user's mapping, completed by the heuristic, or the heuristic's mapping and
    then smaller ones.

    The number of slots is only reduced if no tile fits: overlap is worth more than a larger tile.
    """
    kernel = ready.rendered.kernel
    for slots in _slots(wanted):
        payload = ready.payload_with(machine, slots[0])
        asked = wanted.get("cores") if wanted else None
        split = None if asked is None else checked_cores(kernel, payload, asked, len(machine.shares))
        complete = wanted is not None and _leaves_nothing(wanted, payload, machine)
        choose = partial(_as_said if complete else heuristic.choose, payload, machine)
        if slots[0] > heuristic.SLOTS:
            usual = choose((heuristic.SLOTS,), split)
            tile = usual.tile | dict((wanted or {}).get("tile", {}))
            slots = (useful_slots(slots[0], tile, share(payload, usual.cores).dims),)
        mapping = choose(slots, split)
        if not complete and ready.refuses_cut(payload, mapping):
            payload = replace(payload, keeps_rows=True)
            mapping = heuristic.choose(payload, machine, slots, split)
        mine = share(payload, mapping.cores)
        if wanted is not None:
            within = partial(within_rank, payload)
            yield payload, with_users(kernel, payload.dims, mapping, wanted, within, mine.dims, payload.rows)
            return
        if slots[0] > 1 and not Demand(machine, mine, mapping.buffers).fits(mapping.tile):
            continue
        while mapping is not None:
            yield payload, mapping
            mapping = heuristic.shrink(mapping, payload)
            if mapping is not None and ready.refuses_cut(payload, mapping):
                break


def _slots(wanted: UserMapping | None) -> list[tuple[int, ...]]:
    """The numbers of slots to choose from, and then those to use if no tile fits. With a tile but no number by the user
    it is two: the tile may not fit with more."""
    if wanted is not None and {"buffers", "tile"} & wanted.keys():
        return [(wanted.get("buffers", heuristic.SLOTS),)]
    return [heuristic.WEIGHED, (1,)]


def _leaves_nothing(wanted: UserMapping, payload: Payload, machine: Machine) -> bool:
    """True if the user's mapping leaves nothing for the heuristic to choose."""
    known = "cores" in wanted or len(machine.shares) == 1
    return known and {"order", "buffers"} <= wanted.keys() and set(wanted.get("tile", {})) == set(payload.dims)


def _as_said(payload: Payload, machine: Machine, slots: tuple[int, ...], cores: dict[str, int] | None) -> Mapping:
    """A mapping with empty tile and order, which the user's replace."""
    return Mapping({}, (), slots[0], cores or {}, "", spread(payload, machine, cores or {}, asked=True))


@dataclass(frozen=True, slots=True)
class _Tiled:
    """A kernel in the scheduled form, whose program is not extracted yet."""

    trace: PassTrace
    script: str
    mapping: Mapping
    dims: dict[str, int]


DETACHED = "detach the schedule"
"""The step after which the kernel's text is what its script made."""


def _tile(trace: PassTrace, mapping: Mapping, script: str | None = None) -> _Tiled:
    with trace.module.context:
        payload = analyse(trace.module)
    if script is None:
        script = transform_script(payload, mapping)
        trace.run("attach the schedule", AttachSchedule(mapping.order, mapping.tile, mapping.cores))
    else:
        trace.run("attach the schedule", AttachScript(script))
    in_place = written_in_place(trace.module)
    trace.run("tile and fuse", "transform-interpreter")
    trace.run(DETACHED, detach_schedule)
    trace.run_if(writes_from_shares, "places in shares", put_places_in_shares)
    trace.run_if(joins_products, "take the products apart", take_products_apart)
    trace.run("reuse outputs", "eliminate-empty-tensors")
    trace.run(
        "bufferize",
        "one-shot-bufferize{bufferize-function-boundaries=true "
        "function-boundary-type-conversion=identity-layout-map},canonicalize,cse,canonicalize",
    )
    check_written(trace.module, in_place, mapping)
    trace.run_if(reads_unread, "forget what is unread", forget_unread)
    trace.run("hoist invariants", "func.func(loop-invariant-code-motion)")
    trace.run("promote to scratchpad", Promote(mapping.buffers))
    trace.run_if(has_windows, "walk windows", walk_windows)
    trace.run("clean up", "canonicalize,cse")
    return _Tiled(trace, script, mapping, payload.dims)


def _read_off(rendered: KernelModule, tiled: _Tiled, machine: Machine, advice: str) -> ScheduledKernel:
    """Extracts the program; returns the scheduled kernel. With `advice`, which is for a user's tiling, raises if it
    does not fit."""
    trace, text = tiled.trace, print_module(tiled.trace.module)
    verify_scheduled(text, rendered.kernel, trace.module.context)
    read = partial(extract, trace.module, text, rendered.kernel, rendered.origins, machine)
    if advice and sum(size for _, size in buffers_at_once(trace.module, machine)) > machine.scratchpad_bytes:
        _check_begin(read(rounds=slice(2)), machine, advice)
    program = read()
    if advice:
        check_fit(program, machine.scratchpad_bytes, advice)
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


def _check_begin(program: TileProgram, machine: Machine, advice: str) -> None:
    """Raises if the first two iterations of all loops need more of the scratchpad at once than there is: then so does
    the whole program.

    Extracting the whole program would take minutes if there are many tiles. One iteration is not enough: only from the
    second on are the buffers that a loop's body uses first and last in use at the same time.
    """
    capacity, cores = machine.scratchpad_bytes, {buffer.core for buffer in program.buffers}
    if any(sum(each.bytes for each in in_use_at_once(program, core)) > capacity for core in cores):
        check_fit(program, capacity, advice)


def _folded(rendered: KernelModule, trace: PassTrace, program: TileProgram) -> tuple[Folded, ...]:
    """The nodes of the rendered kernel without an instruction, each with the step that removed the node's last op."""
    working, absorbed = set(program.origin.tolist()), {gone.node for gone in rendered.absorbed}
    found: list[Folded] = []
    for origin, name in enumerate(rendered.origins):
        if origin not in working and name not in absorbed:
            step = trace.last_seen(origin)
            reason = f"the step '{step}' folded it into the ops around it"
            if not step:
                left = ", ".join(sorted(ops_named(trace.module, origin)))
                reason = f"scheduling folded its arithmetic away; the rest is no work ({left})"
            found.append(Folded(origin, reason))
    return tuple(found)
