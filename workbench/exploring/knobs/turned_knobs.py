"""Turned knobs as arguments of `with_`: the options, the text of the call, the journey."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, cast

from simulator.machine.machine import Machine, Override
from workbench.explaining.artefacts.staged import J
from workbench.exploring.knobs.knob import (
    BUFFERS,
    CORES,
    FUSION,
    LAYOUT,
    MACHINE,
    ORDER,
    TILE,
    Knob,
    Value,
    kernel_names,
    scheduled_kernel,
)
from workbench.ground.argument_types import plain_value
from workbench.ground.errors import BadOption, WorkbenchError
from workbench.ir.kernel_names import by_full_names
from workbench.lowering.fusion_options import given_apart, rules_off
from workbench.lowering.fusion_rules import SWITCHES
from workbench.scheduling.user_mapping import UserMapping, mapping_of

if TYPE_CHECKING:
    from simulator.trace.trace import Trace
    from workbench.stages.journey_request import Request


@dataclass(frozen=True)
class Turned(Generic[J]):
    """Values of knobs that were turned, and scripts that replace a journey's own.

    A kernel with a turned knob keeps the rest of its mapping: the options contain the whole mapping.
    """

    start: J
    request: Request
    values: Mapping[Knob, Value] = field(default_factory=dict[Knob, Value])
    scripts: Mapping[str, str] = field(default_factory=dict[str, str])

    def with_value(self, knob: Knob, value: Value) -> Turned[J]:
        """These settings with a knob at `value`, in place of its former value. Raises if a script sets the knob."""
        if knob.kernel in self.scripts and knob.kind in (TILE, ORDER, CORES):
            raise BadOption(
                f"{knob.name} of {knob.kernel}: a script sets tile, order and cores of this kernel. Drop the script "
                f"first: experiment.script({knob.kernel!r}, None)"
            )
        return replace(self, values={**self.values, knob: plain_value(value)})

    def with_script(self, kernel: str, script: str | None) -> Turned[J]:
        """These settings with a transform script for a kernel; None removes the kernel's script."""
        others = {name: text for name, text in self.scripts.items() if name != kernel}
        return replace(self, scripts=others if script is None else {**others, kernel: script})

    def value_of(self, knob: Knob) -> Value:
        """The current value of a knob."""
        return self.values.get(knob, knob.value)

    @property
    def machine(self) -> Machine:
        """The machine with the turned figures."""
        return self.request.machine.with_(**cast("dict[str, Override]", self._figures))

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options of `with_`; raises if a fusion rule is neither True nor False."""
        for rule, on in self._no_switches.items():
            raise BadOption(f"{FUSION}.{rule} = {on!r}: expected True or False")
        return ({"machine": self.machine} if self._figures else {}) | self._besides_machine

    @property
    def _figures(self) -> dict[str, Value]:
        return self._of_kind(MACHINE)

    def _of_kind(self, kind: str) -> dict[str, Value]:
        return {knob.item: value for knob, value in self.values.items() if knob.kind == kind}

    @cached_property
    def _besides_machine(self) -> dict[str, Any]:
        options = dict[str, Any]()
        kernels = dict.fromkeys(knob.kernel for knob in self.values if knob.kernel)
        if kernels:
            said = {name: self._mapping(name) for name in kernels}
            given = self.request.said(self.start.lowered.record)
            options["mapping"] = {**by_full_names(given, self._names), **said}
        rules = self._of_kind(FUSION)
        if self._no_switches:
            options["fusion"] = self._no_switches  # refused, and shown in the call as given
        elif rules and (fusion := self._fusion(rules)) != self.request.fusion:
            options["fusion"] = fusion
        options |= {knob.name: value for knob, value in self.values.items() if knob.kind == LAYOUT}
        if self.scripts:
            options["schedule"] = {**by_full_names(self.request.schedule or {}, self._names), **self.scripts}
        return options

    @property
    def _names(self) -> list[str]:
        return kernel_names(self.start.scheduled.record)

    @property
    def call(self) -> str:
        """The text of the call that makes the journey from the start, `j`."""
        figures = ", ".join(f"{name}={value!r}" for name, value in self._figures.items())
        told = {"machine": f"j.machine.with_({figures})"} if figures else {}
        told |= {name: repr(value) for name, value in self._besides_machine.items()}
        return f"j.with_({', '.join(f'{name}={value}' for name, value in told.items())})" if told else "j"

    def journey(self) -> J:
        """The journey with all turned knobs; raises as soon as scheduling refuses one."""
        return cast("J", self.start.with_(**self.options)) if self.options else self.start

    def _mapping(self, kernel: str) -> UserMapping:
        said = mapping_of(scheduled_kernel(self.start.scheduled.record, kernel))
        for knob, value in self.values.items():
            if knob.kernel == kernel:
                said = _said(said, knob, value)
        return said

    @property
    def _no_switches(self) -> dict[str, Value]:
        """Fusion rules that are set to anything but True or False."""
        return {rule: on for rule, on in self._of_kind(FUSION).items() if not isinstance(on, bool)}

    def _fusion(self, rules: Mapping[str, Value]) -> Any:
        off_before, apart = rules_off(self.request.fusion), given_apart(self.request.fusion)
        off = [name for name in SWITCHES if not rules.get(name, name not in off_before)]
        made = {name: list(values) for name, values in (("off", off), ("apart", apart)) if values}
        return made or None


def _said(said: UserMapping, knob: Knob, value: Any) -> UserMapping:
    """A kernel's mapping with one knob turned; `with_` checks the value."""
    if knob.kind == TILE:
        return {**said, "tile": {**said.get("tile", {}), knob.item: value}}
    if knob.kind == CORES:
        return {**said, "cores": {**said.get("cores", {}), knob.item: value}}
    if knob.kind == BUFFERS:
        return {**said, "buffers": value}
    assert knob.kind == ORDER, f"{knob.name} is no knob of a kernel"
    return {**said, "order": list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value}


def costs(run: Trace) -> tuple[int, int]:
    """The cycles of a run, and its bytes moved from and to DRAM."""
    return run.makespan, run.counters["dram_read_bytes"] + run.counters["dram_write_bytes"]


def refusal_of(error: WorkbenchError) -> str:
    """The reason of a refusal: the message's first line. The rest has the place of an option, and lists buffers."""
    first, *others = str(error).splitlines()
    return f"{first} {others[0].strip()}" if first.endswith(":") and others else first
