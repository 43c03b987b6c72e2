"""Schedules every distinct kernel of a graph once, by its mapping or script, and plans the launches."""

from __future__ import annotations

import json
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from simulator.machine.machine import Machine
from simulator.tileprogram.buffer_addresses import check_fit
from workbench.ground.environment.progress import counted
from workbench.ground.faults.messages import Message
from workbench.ground.faults.trial import TRIALS, Trial
from workbench.ir import KernelGraph, KernelModule, ScheduledKernel, ScheduledProgram, codec
from workbench.ir.kernel_identity import machine_key, module_key, schedule_key
from workbench.ir.kernel_names import by_full_names
from workbench.operators.aten.proven import described, unproven
from workbench.operators.aten.registry import DEFAULT, Registrations
from workbench.operators.host import host_steps
from workbench.scheduling.core_split import spread_of
from workbench.scheduling.kernel_store import KernelStore
from workbench.scheduling.kernels.read_figures import others
from workbench.scheduling.passes.wanted_passes import UserPasses, check_steps, checked_passes
from workbench.scheduling.planning.dram_plan import plan_launches
from workbench.scheduling.user_mapping import UserMapping, check_kernels, check_shadowed, mapping_entry

if TYPE_CHECKING:
    from torch_mlir import ir

    from workbench.scheduling.schedule_kernel import Near


def schedule(
    lowered: KernelGraph,
    rendered: tuple[KernelModule, ...],
    machine: Machine,
    mapping: Dict[str, UserMapping] | None = None,
    store: KernelStore | None = None,
    registrations: Registrations | None = None,
    code: UserCode | None = None,
    near: Dict[str, Near] | None = None,
) -> ScheduledProgram:
    """Returns every distinct kernel in the scheduled form for `machine`, and the launches in order.

    Kernels that are the same function share one schedule, under the first kernel's name. A mapping under that name is
    for all of them, one under another's name for that kernel alone, and one under a pattern for all that match. A
    kernel in `store` is not made again; the store is not used with passes of the user, whose code no key covers.
    `near` are the arguments, by kernel, that the common memory serves.
    """
    code = code or UserCode()
    extra = checked_passes(code.passes)
    names = [module.kernel for module in rendered]
    wanted, given = by_full_names(mapping or {}, names), by_full_names(code.scripts or {}, names)
    if given:
        from workbench.scheduling.user_scripts import check_scripted

        check_scripted(given, rendered)
    check_kernels(wanted, [kernel.name for kernel in lowered.kernels])
    keys = {module.kernel: module_key(module) for module in rendered}
    leaders = {key: kernel for kernel, key in reversed(keys.items())}
    check_shadowed(wanted, [(kernel, leaders[key]) for kernel, key in keys.items()])
    known = registrations if registrations is not None else DEFAULT.now()
    scheduled = _Kernels(lowered, machine, None if extra else store, known, extra)
    runs: dict[str, str] = {}
    for module in counted(rendered):
        alike = keys[module.kernel]
        leader = leaders[alike]
        asked = mapping_entry(wanted, (module.kernel, leader))
        script = next((given[name] for name in (module.kernel, leader) if name in given), None)
        served = (near or {}).get(module.kernel, frozenset())
        kernel = scheduled.get(alike, module, _Wanted(asked.mapping if asked else None, served), script)
        if asked is not None:
            asked.check(kernel)
        runs[module.kernel] = kernel.kernel
    made = tuple(scheduled.by_key.values())
    check_steps(extra, [step.name for kernel in made for step in kernel.passes])
    return ScheduledProgram(made, plan_launches(lowered, runs, machine.dram_block), host_steps.steps(lowered))


@dataclass(frozen=True)
class UserCode:
    """The parts of a schedule that a user wrote."""

    scripts: Dict[str, str] | None = None
    """Transform scripts by kernel, matched like mappings: each replaces the script of the kernel's mapping."""
    passes: UserPasses | None = None
    """Pipelines, by the names of the steps after which they run."""


@dataclass(frozen=True)
class _Wanted:
    """The options for a kernel's mapping: the user's mapping and the arguments in the common memory."""

    mapping: UserMapping | None
    near: Near


@dataclass
class _Kernels:
    """Scheduled kernels by the key of their inputs: each is made, or taken from the store, once."""

    lowered: KernelGraph
    machine: Machine
    store: KernelStore | None
    registrations: Registrations
    passes: Dict[str, tuple[str, ...]]
    by_key: dict[tuple[str, str | None], ScheduledKernel] = field(
        default_factory=dict[tuple[str, str | None], ScheduledKernel]
    )
    """The scheduled kernels, by key and script, in the order of their first launches."""
    unscripted: dict[str, ScheduledKernel] = field(default_factory=dict[str, ScheduledKernel])

    def get(self, alike: str, module: KernelModule, wanted: _Wanted, script: str | None = None) -> ScheduledKernel:
        """The scheduled kernel of a module whose key is `alike`. Results of scripts are not kept on disk."""
        key = schedule_key(alike, self._machine_key, wanted.mapping, wanted.near)
        if (key, script) not in self.by_key:
            made = self._unscripted(key, module, wanted)
            if script is not None:
                from workbench.scheduling.schedule_kernel import scripted_kernel

                self._tried(key, module, wanted, script)
                made = scripted_kernel(module, self.machine, made.mapping, script, self._context, self.passes)
            self.by_key[key, script] = made
        return self.by_key[key, script]

    def _unscripted(self, key: str, module: KernelModule, wanted: _Wanted) -> ScheduledKernel:
        if key not in self.unscripted:
            kept = self.store.get(key, module) if self.store else None
            self.unscripted[key] = kept or self._made(key, module, wanted)
        return self.unscripted[key]

    def _made(self, key: str, module: KernelModule, wanted: _Wanted) -> ScheduledKernel:
        if module.handwritten:
            made = _handwritten(module, self.machine, self.unproven.get(module.kernel, ()))
        else:
            from workbench.scheduling.schedule_kernel import schedule_kernel  # MLIR, which a kept kernel needs not

            if self.passes or module.kernel in self.unproven:
                self._tried(key, module, wanted, None)
            made = schedule_kernel(module, self.machine, wanted.mapping, self._context, self.passes, wanted.near)
        if self.store:
            self.store.put(key, made)
        return made

    def _tried(self, key: str, module: KernelModule, wanted: _Wanted, script: str | None) -> None:
        nodes = described(self.lowered, self.lowered.kernel(module.kernel))
        asked = KernelTrial(module, self.machine, wanted.mapping, wanted.near, script, self.passes)
        asked.first(key, nodes)

    @cached_property
    def unproven(self) -> dict[str, tuple[str, ...]]:
        return unproven(self.lowered, self.registrations)

    @cached_property
    def _machine_key(self) -> str:
        return machine_key(self.machine)

    @cached_property
    def _context(self) -> ir.Context:
        """One MLIR context for all kernels: making a context takes longer than most passes."""
        from workbench.scheduling.schedule_kernel import context_for

        return context_for(self.passes)


def _handwritten(module: KernelModule, machine: Machine, unproven: tuple[str, ...]) -> ScheduledKernel:
    """The scheduled kernel of a template: its text, unchanged, and its program. No pass runs."""
    from workbench.scheduling.kernels.handwritten import program_of

    written = module.written
    assert written is not None, f"{module.kernel} is not written yet: see rendering/write_templates.py"
    program = program_of(module, machine, unproven)
    check_fit(program, machine.scratchpad_bytes)
    reason = written.mapping.reason
    if others(written.read, machine):
        reason += f"; its text was written for {written.machine}"
    mapping = replace(written.mapping, reason=reason, spread=spread_of(program, machine, "the template"))
    return ScheduledKernel(
        module.kernel, module.mlir, module.located, "", mapping, written.dims, (), program, module.arguments
    )


@dataclass(frozen=True)
class KernelTrial:
    """A trial: a worker process schedules one kernel first, so that only the worker dies if that crashes."""

    module: KernelModule
    machine: Machine
    mapping: UserMapping | None
    near: Near
    script: str | None = None
    passes: Dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def first(self, key: str, nodes: tuple[str, ...]) -> None:
        """Runs the trial; raises if the worker dies. `nodes` are the kernel's nodes in words."""
        body = {
            "module": codec.encode(self.module),
            "machine": codec.encode(self.machine),
            "wanted": json.loads(json.dumps(self.mapping, default=repr)),
            "near": sorted(self.near),
            "script": self.script,
            "passes": {step: list(passes) for step, passes in self.passes.items()},
        }
        asked = json.dumps([key, self.script, body["passes"]])
        TRIALS.pass_or_raise(Trial("schedule", asked, lambda: Message(body), self.module.kernel, nodes))


def try_schedule(job: Message) -> None:
    """Runs a `KernelTrial` in the worker: schedules the kernel and applies the user's script, if there is one."""
    from workbench.scheduling.schedule_kernel import context_for, schedule_kernel, scripted_kernel

    module, machine = (
        codec.decode(kind, job.body[name]) for name, kind in (("module", KernelModule), ("machine", Machine))
    )
    passes = {step: tuple(names) for step, names in job.body["passes"].items()}
    context = context_for(passes)
    made = schedule_kernel(module, machine, job.body["wanted"], context, passes, frozenset(job.body["near"]))
    if (script := job.body["script"]) is not None:
        scripted_kernel(module, machine, made.mapping, script, context, passes)
