"""Fewer bytes: which floats of 32 bits or more could be narrower, and what else moves fewer bytes of a weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.tileprogram.program import Opcode
from simulator.units import systolic, vector
from workbench.explaining.findings.int8_weights import INT8_WEIGHTS, is_plain_linear
from workbench.explaining.findings.run_facts import ComputedFacts, Facts, moved_bytes

_WIDE = ("f32", "f64")
_BFLOAT16_BYTES = 2


def is_faster_narrow(facts: Facts, kernel: ComputedFacts) -> bool:
    """Whether a kernel moves wide floats, and its vector unit would take less time for narrow ones than it takes."""
    moved = {value for launch in kernel.launches for value in launch.arguments}
    wide = any(_is_wide(facts, value) for value in moved)
    return wide and _widening(facts, kernel) < kernel.cycles


def spared_when_narrow(facts: Facts, kernel: ComputedFacts) -> int:
    """Cycles of the critical path that wide floats have beyond those of bfloat16: their bytes, and their passes
    through arrays."""
    program = kernel.scheduled.program
    kinds = [
        (number, value) for number, value in enumerate(kernel.launches[0].arguments) if value in facts.lowered.types
    ]
    sizes = {value: moved_bytes(program, number) for number, value in kinds}
    spared = sum(
        size * (1 - _BFLOAT16_BYTES / facts.lowered.types[value].element_bytes)
        for value, size in sizes.items()
        if _is_wide(facts, value)
    )
    share = spared / max(sum(sizes.values()), 1)
    passes = int(systolic.passes(program, facts.machine).max(initial=1)) if spared else 1
    products = kernel.part("matmul preload", "matmul stream", "matmul drain")
    return round(kernel.part(*kernel.transfers) * share + products * (1 - 1 / passes))


def _is_wide(facts: Facts, value: str) -> bool:
    return value in facts.lowered.types and facts.lowered.types[value].dtype in _WIDE


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
