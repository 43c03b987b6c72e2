"""Every operator of the table in every type that PyTorch takes it in: shapes that no tile divides, on two machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import workbench as wb
from simulator.tileprogram.verifier import verify
from tests.agreement import MACHINES
from tests.flow import Flow
from tests.operators import OPERATORS
from tests.operators.entry import OTHERS, SINGLE, Case, Operator
from tests.replaying import replayed
from workbench.ground.errors import HostRoute
from workbench.operators.tensors.element_types import dtype_name

Call = tuple[torch.dtype, Case]
AT_ONCE = 6
"""Operators in one program of the first run: most of a trace's time is not its operators'."""

SLACK = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 3e-2}
"""Largest difference between the same sums in another order, relative and absolute."""


def problems(ops: Sequence[tuple[Operator, Call]], machines: Sequence[str]) -> list[str]:
    """Lists the errors of these calls, traced as one program; by machine."""
    given = [op.inputs(case, dtype) for op, (dtype, case) in ops]

    def every(*inputs: torch.Tensor) -> list[Any]:
        tensors = iter(inputs)
        return [op.call(*(next(tensors) for _ in each)) for (op, _), each in zip(ops, given, strict=True)]

    inputs = [tensor for tensors in given for tensor in tensors]
    journey = wb.trace(every, *inputs, machine=machines[0])
    hosted = sorted({item.node.op for item in journey.lowered.record.nodes if item.route == "host"})
    if hosted:
        return [f"on the host: {hosted}"]
    found: list[str] = []
    for machine in machines:
        there = journey.with_(machine=machine)
        check = there.check()
        found += [] if check.ok else [f"{machine}: {check.text()}"]
        found += [f"{machine}: in the order of the trace {said}" for said in in_trace_order(there, every, inputs)]
    return found


def in_trace_order(journey: wb.Journey, function: Any, inputs: Sequence[torch.Tensor]) -> list[str]:
    """The trace keeps the simulator's rules; and which results its events, one after the other, compute otherwise."""
    scheduled, trace = journey.scheduled.record, journey.simulated.trace
    for kernel in scheduled.kernels:
        verify(kernel.program)
    trace.invariants()
    program = journey.captured.program
    made = Flow(function, program, journey.lowered.record, journey.rendered.record, journey.machine, scheduled)
    found = replayed(made, trace, program.values(inputs))
    native = pytree.tree_leaves(journey.run(*inputs))
    return [
        f"result {place}, {dtype_name(mine.dtype)} of {tuple(mine.shape)}, is another one"
        for place, (mine, theirs) in enumerate(zip(found, native, strict=True))
        if not alike(mine, theirs)
    ]


def alike(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    tolerance = SLACK.get(theirs.dtype, 0.0)
    return mine.shape == theirs.shape and torch.allclose(mine, theirs, tolerance, tolerance, equal_nan=True)


def assert_right(calls: Sequence[tuple[str, Call]], machines: Sequence[str]) -> None:
    """All calls in one trace, which is quick; if it fails, each by itself, which says what fails."""
    torch.manual_seed(0)
    try:
        found = problems([(OPERATORS[name], call) for name, call in calls], machines)
    except Exception:
        found = [""]
    if not found:
        return
    said: list[str] = []
    for name, (dtype, case) in calls:
        try:
            alone = problems([(OPERATORS[name], (dtype, case))], machines)
        except Exception as error:
            alone = [f"{type(error).__name__}: {error}"]
        shapes = [tuple(tensor.shape) for tensor in OPERATORS[name].inputs(case, dtype)]
        said += [f"{name}, {dtype_name(dtype)}, {shapes}: {problem}" for problem in alone]
    raise AssertionError("\n".join(said or [f"{calls}: wrong only in one program: {found}"]))


@pytest.mark.parametrize("first", range(0, len(OPERATORS), AT_ONCE))
def test_every_operator_once(first: int):
    """A case of each, on one machine of two, in turns."""
    names = [*OPERATORS][first : first + AT_ONCE]
    calls = [(name, ((OPERATORS[name].only or (SINGLE,))[0], OPERATORS[name].cases[1])) for name in names]
    assert_right(calls, (MACHINES[first // AT_ONCE % len(MACHINES)],))


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("name", OPERATORS)
def test_plain_numbers_on_both_machines(name: str, whole_sweep: bool):
    """Every second call, an operator on one machine of two, in turns; whole, every call on both."""
    op, first = OPERATORS[name], list(OPERATORS).index(name)
    assert len(op.cases) >= 5
    calls = [(name, (dtype, case)) for dtype in op.only or (SINGLE,) for case in op.cases]
    if whole_sweep:
        assert_right(calls, MACHINES)
    else:
        assert_right(calls[first // 2 % 2 :: 2], (MACHINES[first % len(MACHINES)],))


@pytest.mark.test_all(but=1)
@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if not op.only])
def test_all_other_types_it_takes(name: str, whole_sweep: bool):
    """Every third type in one case of two, an operator on one machine of two, in turns; whole, all in both cases."""
    op = OPERATORS[name]
    taken = [dtype for dtype in OTHERS if dtype not in op.hosted and op.takes(dtype)]
    assert torch.bfloat16 in taken
    first, cases = list(OPERATORS).index(name), op.cases[1:3]
    if not whole_sweep:
        some = taken[first % 3 :: 3] or taken[:1]
        calls = [(name, (dtype, cases[(first + place) % len(cases)])) for place, dtype in enumerate(some)]
        assert_right(calls, (MACHINES[first // 3 % len(MACHINES)],))
        return
    for turn, machine in enumerate(MACHINES):
        calls = [(name, (dtype, case)) for dtype in taken[(first + turn) % 2 :: 2] for case in cases]
        if calls:
            assert_right(calls, (machine,))


@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if op.hosted])
def test_types_left_to_the_host_are_computed_there(name: str):
    op = OPERATORS[name]
    for dtype in op.hosted:
        inputs = op.inputs(op.cases[1], dtype)
        with pytest.warns(HostRoute):
            journey = wb.trace(op.call, *inputs)
        assert journey.check().ok
