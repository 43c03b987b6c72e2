"""Right or wrong: what a program's journey computes, against PyTorch.

Wrong is: another shape or element type; integers or booleans that differ; NaN or an infinity in another place; or an
error against a run in 64 bits above ten times PyTorch's own plus the tolerance of the element type.
"""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass

import torch

from tests.fuzz.program import Program
from workbench.ops.compare import TOLERANCES
from workbench.torch_types import dtype_name

OWN_ERRORS = 10.0
"""How many times PyTorch's own error ours may be."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kind` is ok, host (right, with steps on the host), refused (a clear error), failed (any other one) or wrong."""

    kind: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.kind in ("refused", "failed", "wrong")


def judge(program: Program) -> Verdict:
    """Compiles, simulates and runs the program, and compares what it returns and what it changes in place."""
    import workbench as wb

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        expected, changed = run(program)
        inputs = program.make_inputs()
        try:
            machine = eval(program.machine, {"wb": wb})
            journey = wb.trace(program.function(), *program.make_inputs(), machine=machine)
            got = journey.run(*inputs)
            journey.simulated.trace.invariants()
        except wb.errors.WorkbenchError as error:
            return Verdict("refused", f"{type(error).__name__}: {error}")
        except Exception:
            return Verdict("failed", traceback.format_exc(limit=-4))
        wide, wide_changed = run(program, wide=True)
        names = [*program.outputs, *(f"{each.name} afterwards" for each in program.inputs)]
        quadruples = zip(names, [*got, *inputs], [*expected, *changed], [*wide, *wide_changed], strict=True)
        problems = [found for each in quadruples if (found := difference(*each))]
        if problems:
            return Verdict("wrong", "; ".join(problems))
        hosted = "host" in set(journey.lowered.table.route)
        ops = sorted({node.node.op for node in journey.lowered.record.nodes if node.route == "host"})
        return Verdict("host", " ".join(ops)) if hosted else Verdict("ok")


def run(program: Program, *, wide: bool = False) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What PyTorch returns, and the inputs after the call."""
    inputs = program.make_inputs(wide=wide)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if wide else default)
    try:
        returned = program.function(wide=wide)(*inputs)
    finally:
        torch.set_default_dtype(default)
    return list(returned), inputs


def difference(name: str, got: torch.Tensor, expected: torch.Tensor, wide: torch.Tensor) -> str:
    """What is wrong with a result, in words; nothing when it is right."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{name} is {_type(got)}, expected {_type(expected)}"
    if not got.is_floating_point():
        return _first(name, got != expected, got, expected)
    for what, test in (("NaN", torch.isnan), ("inf", torch.isposinf), ("-inf", torch.isneginf)):
        if bool((test(got) != test(expected)).any()):
            return f"{what} in other places: " + _first(name, test(got) != test(expected), got, expected)
    exact = wide.to(torch.float64)
    finite = got.isfinite() & exact.isfinite()
    mine, own = ((each.to(torch.float64) - exact).abs().where(finite, 0.0) for each in (got, expected))
    tolerance = TOLERANCES[dtype_name(got.dtype)]
    allowed = OWN_ERRORS * (own.max() if own.numel() else 0.0) + tolerance * (1.0 + exact.abs().where(finite, 0.0))
    return _first(name, mine > allowed, got, expected)


def _type(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)} {dtype_name(tensor.dtype)}"


def _first(name: str, bad: torch.Tensor, got: torch.Tensor, expected: torch.Tensor) -> str:
    if not bool(bad.any()):
        return ""
    where = tuple(bad.nonzero()[0].tolist())
    count = int(bad.sum())
    return f"{name}{list(where)} is {got[where].item()}, expected {expected[where].item()} ({count} of {bad.numel()})"
