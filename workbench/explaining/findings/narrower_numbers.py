"""Half as many bytes: the remedy for what moves or multiplies floats of 32 bits or more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.tileprogram.program import Opcode
from simulator.units import vector
from workbench.explaining.findings.finding_record import Remedy
from workbench.explaining.findings.int8_weights import INT8_WEIGHTS, is_plain_linear
from workbench.explaining.findings.run_facts import ComputedFacts, Facts, moved_bytes
from workbench.explaining.findings.source_changes import BFLOAT16, call_of

_WIDE = ("f32", "f64")
_OF_MODULES = "model.bfloat16(), with inputs of torch.bfloat16, if its numbers suffice"
_OF_FUNCTIONS = "inputs of torch.bfloat16, if its numbers suffice"


def narrower(facts: Facts, kernel: ComputedFacts) -> Remedy | None:
    """The same in bfloat16.

    None for a training step, whose optimizer needs its digits, nor for a loaded journey, nor where the vector unit
    would take longer to widen the numbers than their bytes save.
    """
    captured, module_at = facts.lowered.captured, facts.module_at
    moved = [value for launch in kernel.launches for value in launch.arguments if value in facts.lowered.types]
    wide = any(facts.lowered.types[value].dtype in _WIDE for value in moved)
    trains = any(node.origin.part for node in captured.nodes)
    if not wide or trains or module_at is None or _widening(facts, kernel) >= kernel.cycles:
        return None
    written = _OF_MODULES if module_at("") is not None else _OF_FUNCTIONS
    return Remedy(call_of(BFLOAT16, written), change=BFLOAT16)


def heaviest(kernel: ComputedFacts, moved: int) -> tuple[str, float]:
    """The tensor with most bytes, and its share of `moved`, the bytes that all launches need."""
    program = kernel.scheduled.program
    sizes = np.array([moved_bytes(program, number) for number in range(len(program.arguments))])
    share = float(sizes.max() * len(kernel.launches) / max(moved, 1))
    return kernel.launches[0].arguments[int(sizes.argmax())], min(share, 1.0)


def _widening(facts: Facts, kernel: ComputedFacts) -> float:
    """Cycles of the kernel's vector passes if its floats of 32 bits had 16."""
    program, machine = kernel.scheduled.program, facts.machine
    halved = replace(program, element_bytes=np.where(program.element_bytes == 4, 2, program.element_bytes))
    passes = program.opcode == Opcode.VECTOR
    cycles = int(vector.vector_cycles(halved, machine)[passes].sum())
    return cycles * len(kernel.launches) / max(len(np.unique(program.core[passes])), 1)


def weights_share(facts: Facts, value: str) -> str:
    """Says what else moves fewer bytes of a weight: more inputs at a time, or, for a linear layer, int8."""
    base = next((view.base for view in facts.lowered.views if view.value == value), value)
    kinds = {each.value: each.kind for each in facts.lowered.captured.inputs}
    if kinds.get(base, "user") == "user":
        return ""
    path, _, name = facts.named(value).rpartition(".")
    linear = name == "weight" and facts.module_at is not None and is_plain_linear(facts.module_at(path))
    narrow = f", and j.changed({INT8_WEIGHTS!r}) reads a quarter of them" if linear else ""
    return f"; a larger batch shares the weights among more inputs{narrow}"
