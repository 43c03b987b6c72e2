"""Half as many bytes: the remedy for what moves or multiplies floats of 32 bits or more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.tileprogram.program import Opcode
from simulator.units import vector
from workbench.findings.finding_record import Remedy
from workbench.findings.run_facts import ComputedFacts, Facts
from workbench.findings.source_changes import BFLOAT16, call_of

_WIDE = ("f32", "f64")
_OF_MODULES = "model.bfloat16(), with inputs of torch.bfloat16, if its numbers suffice"
_OF_FUNCTIONS = "inputs of torch.bfloat16, if its numbers suffice"


def narrower(facts: Facts, kernel: ComputedFacts) -> Remedy | None:
    """The same in bfloat16; none for a training step, whose optimizer needs its digits, nor for a loaded journey, nor
    where the vector unit would take longer to widen the numbers than their bytes save."""
    captured = facts.lowered.captured
    moved = [value for launch in kernel.launches for value in launch.arguments if value in facts.lowered.types]
    wide = any(facts.lowered.types[value].dtype in _WIDE for value in moved)
    trains = any(node.origin.part for node in captured.nodes)
    if not wide or trains or facts.module_at is None or _widening(facts, kernel) >= kernel.cycles:
        return None
    written = _OF_MODULES if facts.module_at("") is not None else _OF_FUNCTIONS
    return Remedy(call_of(BFLOAT16, written), change=BFLOAT16)


def _widening(facts: Facts, kernel: ComputedFacts) -> float:
    """Cycles of the kernel's vector passes if its floats of 32 bits had 16."""
    program, machine = kernel.scheduled.program, facts.machine
    halved = replace(program, element_bytes=np.where(program.element_bytes == 4, 2, program.element_bytes))
    passes = program.opcode == Opcode.VECTOR
    cycles = int(vector.vector_cycles(halved, machine)[passes].sum())
    return cycles * len(kernel.launches) / max(len(np.unique(program.core[passes])), 1)


def weights_share(facts: Facts, value: str) -> str:
    """Says for a weight that more inputs at a time would share its bytes."""
    base = next((view.base for view in facts.lowered.views if view.value == value), value)
    kinds = {each.value: each.kind for each in facts.lowered.captured.inputs}
    if kinds.get(base, "user") == "user":
        return ""
    return "; a larger batch shares the weights among more inputs"
