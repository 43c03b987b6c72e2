"""A workload compiled once, in our compiler's form or in that of the measured chip, to simulate on several machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from measured_tables import Kind, Row
from their_programs import Form, kept_apart, theirs
from workloads import DTYPES, Workload, workload

import workbench as wb
from simulator import HostCall, Launched, Machine, Resident, Trace
from simulator.engine.engine import simulate
from workbench.scheduling.planning.common_memory_plan import residents
from workbench.simulating.launched_programs import launched


@dataclass(frozen=True)
class Compiled:
    """The launches of a workload, with what they keep in the common memory."""

    launches: Sequence[Launched | HostCall]
    residents: Sequence[Resident]
    operand_bytes: int
    result_bytes: int

    def on(self, machine: Machine) -> Trace:
        """Its timeline on a machine that its tiles fit."""
        return simulate(self.launches, machine, residents=self.residents)


@dataclass(frozen=True)
class Both:
    """Our program and theirs; one and the same where nothing else is known."""

    ours: Compiled
    theirs: Compiled
    form: Form | None
    """The documented form of theirs."""


class NoSuchWork(ValueError):
    """A workload that a machine cannot do."""


def both(row: Row, kind: Kind, machine: Machine, dtype: str, off: Sequence[str] = ()) -> Both:
    """The two programs of a row; `dtype` is the type of its tensors where the row says none.

    `off` are rules of fusion that our program does without.
    """
    given = workload(row.workload, row.input_dtype or dtype)
    if not all(tensor.numel() for tensor in given.inputs):
        raise NoSuchWork("its tensors have no elements; expected sizes of 1 or more")
    if given.needs_common_memory and not machine.common_memory.bytes:
        told = f"machine {machine.name!r} has no common memory to copy to (common_memory_bytes = 0)"
        raise NoSuchWork(f"{told}; expected one that has, such as 'tpu-v4-chip'")
    result = DTYPES[row.output_dtype] if row.output_dtype else None
    fusion = {"off": [*off], "apart": given.options.get("fusion", [])}
    switched = Form("ours", "", options={"fusion": fusion}) if off else None
    ours, form = compiled(given, machine, switched, result), theirs(kind, row.workload)
    differs = form is not None and (form.rewritten or form.apart or form.options)
    return Both(ours, compiled(given, machine, form, result) if differs else ours, form)


def compiled(given: Workload, machine: Machine, form: Form | None, result: torch.dtype | None) -> Compiled:
    operands = sum(tensor.nbytes for tensor in given.operands)
    if form and form.rewritten:
        given = form.rewritten(given)
    if result is not None:
        given = given.resulting_in(result)
    options = {**given.options, **(form.options if form else {})}
    journey = wb.trace(given.function, *given.inputs, machine=machine, **options)
    if form and form.apart:
        pairs = kept_apart(journey.lowered.record, form.apart)
        journey = journey.with_(fusion={**options.get("fusion", {}), "apart": pairs})
    scheduled = journey.scheduled.record
    captured = journey.lowered.record.captured
    types = [captured.types[value] for value in captured.outputs]
    return Compiled(
        launched(journey.lowered.record, scheduled)[: given.measured_launches],
        tuple(residents(scheduled, scheduled.residence)),
        operands,
        sum(math.prod(each.shape) * DTYPES[each.dtype].itemsize for each in types),
    )
