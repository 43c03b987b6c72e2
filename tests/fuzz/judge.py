"""Right or wrong: by the check of the program's journey, and by what `run` returns and changes, compared likewise."""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass

import torch

from tests.fuzz.fuzz_program import Program
from tests.fuzz.own_pattern import patterned
from tests.fuzz.random_mappings import mapped
from workbench.checking.tensor_comparison import OutputCheck, Pair, compare
from workbench.checking.wide_reference import Answers, Arithmetic
from workbench.operators.tensors.torch_literals import to_type


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
        inputs = program.make_inputs()
        try:
            machine, fusion = eval(program.machine, {"wb": wb}), eval(program.fusion)
            with patterned():
                journey = wb.trace(program.function(), *program.make_inputs(), machine=machine, fusion=fusion)
            journey = mapped(journey, program.mapped)
            got = journey.run(*inputs)
            journey.simulated.trace.invariants()
        except wb.errors.WorkbenchError as error:
            return Verdict("refused", f"{type(error).__name__}: {error}")
        except Exception:
            return Verdict("failed", traceback.format_exc(limit=-4))
        found = [*compared(program, [*got, *inputs]), *journey.check().results]
        problems = [f"{each.name}: {each.problem or each.first_bad}" for each in found if not each.ok]
        if problems:
            return Verdict("wrong", "; ".join(problems))
        hosted = "host" in set(journey.lowered.table.route)
        ops = sorted({node.node.op for node in journey.lowered.record.nodes if node.route == "host"})
        return Verdict("host", " ".join(ops)) if hosted else Verdict("ok")


def compared(program: Program, got: list[torch.Tensor]) -> tuple[OutputCheck, ...]:
    """Compares a run's results and changed inputs with PyTorch's."""

    def evaluate(arithmetic: Arithmetic) -> list[torch.Tensor]:
        inputs = program.make_inputs()
        with arithmetic(inputs):
            return [each.clone() for each in (*program.function()(*inputs), *inputs)]

    answers = Answers(evaluate)
    names = [*program.outputs, *(f"{each.name} afterwards" for each in program.inputs)]
    pairs = [Pair(name, mine, to_type(theirs)) for name, mine, theirs in zip(names, got, answers.native, strict=True)]
    return compare(pairs, answers)
