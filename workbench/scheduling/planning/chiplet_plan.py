"""The user's placement of tensors on chiplets: the plan, and its form for the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from simulator import Machine, Placed
from simulator.did_you_mean import did_you_mean, sentences
from simulator.optional.chiplets.placed import check_placed
from workbench.ground.errors import BadOption
from workbench.ir import KernelGraph, Placement, ScheduledProgram


def planned(
    lowered: KernelGraph, scheduled: ScheduledProgram, machine: Machine, wanted: Mapping[str, int | str] | None
) -> ScheduledProgram:
    """The program with the plan `wanted`: for each named tensor, a chiplet or a policy; None is no plan."""
    paths = lowered.captured.paths
    found = [Placement(each.value, paths.get(each.value, "")) for each in scheduled.launches.storages if each.bytes]
    by_name = {each.value: each for each in found} | {each.path: each for each in found if each.path}
    chosen = dict[str, Placement]()
    for name, where in (wanted or {}).items():
        if name not in by_name:
            what = f"placement={dict(wanted or {})!r}: there is no tensor {name!r} in DRAM{did_you_mean(name, by_name)}"
            known = ", ".join(each.path or each.value for each in found)
            raise BadOption(sentences(what, f"The tensors are {known}"))
        plan = by_name[name]
        if plan.value in chosen:
            raise BadOption(f"placement={dict(wanted or {})!r}: {name!r} is placed twice, under another name as well")
        chosen[plan.value] = replace(plan, chiplet=where) if isinstance(where, int) else replace(plan, policy=where)
    made = replace(scheduled, placement=tuple(chosen.values()))
    check_placed([*placed(made)], machine)
    return made


def placed(scheduled: ScheduledProgram) -> Iterator[Placed]:
    """Every tensor in DRAM, for the simulator."""
    plans = {each.value: each for each in scheduled.placement}
    for each in scheduled.launches.storages:
        plan = plans.get(each.value)
        where = None if plan is None else plan.policy if plan.chiplet is None else plan.chiplet
        yield Placed(each.value, each.address, each.bytes, each.first, each.last, where)
