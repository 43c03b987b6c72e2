"""Mutants that no test has to notice, and why: by file, the line as it is, and the line as it would be."""

from __future__ import annotations

from tests.mutation.mutate import Mutant

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "simulator/memory/banked/address_map.py",
        "bits = np.zeros((_FIELDS + 2, 2), np.int64)",
        "bits = np.zeros((_FIELDS + 3, 2), np.int64)",
    ): "one more row, which nobody reads",
    (
        "simulator/memory/several_buses.py",
        "first = -1",
        "first = -2",
    ): "any number below zero says that no bus was found, and a transfer has a share on one",
    (
        "simulator/units/cost_table.py",
        "nowhere = np.zeros((0, 2, machine.memory_parts), np.int64)",
        "nowhere = np.zeros((0, 3, machine.memory_parts), np.int64)",
    ): "a table without rows",
    (
        "simulator/memory/dram.py",
        "*(BANKED, 0, ratio.denominator, ratio.numerator),",
        "*(BANKED, 1, ratio.denominator, ratio.numerator),",
    ): "the latency of the simple model, which banked memory does not look at",
    (
        "simulator/units/scalar.py",
        "most = int(np.diff(program.operand_start).max(initial=0))",
        "most = int(np.diff(program.operand_start).max(initial=1))",
    ): "a loop from 1 to below 0 or to below 1 has no rounds",
    (
        "simulator/memory/banked/commands.py",
        "if of.clock[REFRESHING] > 0:",
        "if (of.clock[REFRESHING] >= 0):",
    ): "speed alone: the refreshes of an idle channel are then made one by one",
    (
        "simulator/analysis/slack.py",
        "for place in range(known - 1, -1, -1):",
        "for place in range(known - 2, -1, -1):",
    ): "the last event in topological order has no successor",
    (
        "workbench/scheduling/extraction/evaluate.py",
        "for number, value in enumerate(range(low(state), high(state), every or 1)):",
        "for number, value in enumerate(range(low(state), high(state), every or 2)):",
    ): "loops step by more than zero; what stands after `or` is for the checker of types",
    (
        "workbench/scheduling/extraction/extract.py",
        "for number, (argument, box) in enumerate(zip(entry.arguments, boxes, strict=True)):",
        "for number, (argument, box) in enumerate(zip(entry.arguments, boxes, strict=False)):",
    ): "both are as long: a box is made of each argument",
    (
        "workbench/scheduling/passes/padded_views.py",
        "axes = [_Axis.of(*each) for each in zip(starts, mixed_shape(value), low, extents, strict=True)]",
        "axes = [_Axis.of(*each) for each in zip(starts, mixed_shape(value), low, extents, strict=False)]",
    ): "all are as long: each has an entry for every axis of the view",
    (
        "workbench/scheduling/heuristic.py",
        "yield dict(zip(names, sizes, strict=True))",
        "yield dict(zip(names, sizes, strict=False))",
    ): "both are as long: a size is chosen for each dim",
    (
        "workbench/checking/tensor_comparison.py",
        'return ""',
        "return None",
    ): "whether there is a problem is all that is asked, and None says no as an empty text does",
}


def why_not(mutant: Mutant) -> str:
    return EQUIVALENT.get((mutant.path, mutant.before, mutant.after), "")
