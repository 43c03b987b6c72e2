"""Finds ways to move fewer bytes: floats of 32 bits or more that could be narrower, and smaller or shared weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.tileprogram.program import Access, OpClass, Opcode, OpInfo
from simulator.units import vector
from workbench.explaining.findings.int8_weights import INT8_WEIGHTS, is_plain_linear
from workbench.explaining.findings.run_facts import ComputedFacts, Facts, moved_bytes

_WIDE = ("f32", "f64")
_BFLOAT16_BYTES = 2


def spared_when_narrow(facts: Facts, kernel: ComputedFacts) -> int:
    """Cycles of the critical path that bfloat16 in place of wide floats would save: fewer bytes, and fewer passes
    through arrays. Negative if the vector unit would then take longer than the kernel does."""
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
    passes = facts.passes(kernel) if spared else 1
    products = kernel.part("matmul preload", "matmul stream", "matmul drain")
    moving = kernel.part(*kernel.transfers) * share + products * (1 - 1 / passes)
    return round(min(moving, kernel.cycles - _vector_cycles_narrow(facts, kernel)) if spared else 0)


def _is_wide(facts: Facts, value: str) -> bool:
    """True if bfloat16 would narrow the value: a wide float that PyTorch hands from op to op. Values inside an op of 16
    bits, such as a softmax, keep 32 bits."""
    base = facts.base_of(value)
    return base in facts.lowered.captured.types and facts.lowered.types[base].dtype in _WIDE


def heaviest(kernel: ComputedFacts, moved: int) -> tuple[str, float]:
    """The tensor with most bytes, and its share of `moved`, the bytes that all launches need."""
    program = kernel.scheduled.program
    sizes = np.array([moved_bytes(program, number) for number in range(len(program.arguments))])
    share = float(sizes.max() * len(kernel.launches) / max(moved, 1))
    return kernel.launches[0].arguments[int(sizes.argmax())], min(share, 1.0)


def _vector_cycles_narrow(facts: Facts, kernel: ComputedFacts) -> float:
    """Cycles of the kernel's vector passes if its floats of 32 bits had 16. Sums stay as wide as they are, and their
    addends are converted first."""
    program, machine = kernel.scheduled.program, facts.machine
    owner = program.owners()
    passes = program.opcode == Opcode.VECTOR
    summed = np.unique(owner[(program.access == Access.READ_WRITE) & passes[owner]])
    wide_reads = np.bincount(
        owner[(program.access == Access.READ) & (program.element_bytes == 4)], minlength=len(program)
    )
    converted = dict(zip(program.op[summed].tolist(), wide_reads[summed].tolist(), strict=True))
    ops = tuple(_converting(op, converted.get(number, 0)) for number, op in enumerate(program.ops))
    bytes_of_sums = np.isin(owner, summed) & (program.access == Access.READ_WRITE)
    halved = np.where((program.element_bytes == 4) & ~bytes_of_sums, 2, program.element_bytes)
    narrow = replace(program, element_bytes=halved, ops=ops)
    cycles = int(vector.vector_cycles(narrow, machine)[passes].sum())
    return cycles * len(kernel.launches) / max(len(np.unique(program.core[passes])), 1)


def _converting(op: OpInfo, numbers: int) -> OpInfo:
    """The op with `numbers` more conversions at each point."""
    counts = list(op.class_counts)
    counts[OpClass.CONVERT] += numbers
    return replace(op, class_counts=tuple(counts))


def weights_share(facts: Facts, value: str) -> str:
    """Says what else moves fewer bytes of a weight: more inputs at a time, or, for a linear layer, int8."""
    kinds = {each.value: each.kind for each in facts.lowered.captured.inputs}
    if kinds.get(facts.base_of(value), "user") == "user":
        return ""
    path, _, name = facts.named(value).rpartition(".")
    linear = name == "weight" and facts.module_at is not None and is_plain_linear(facts.module_at(path))
    narrow = f", and j.changed({INT8_WEIGHTS!r}) reads a quarter of them" if linear else ""
    return f"; a larger batch shares the weights among more inputs{narrow}"
