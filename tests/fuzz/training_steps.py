"""From a seed to a training step: a random program of floats, whose inputs are parameters, and an optimizer or none.

The loss is the sum of the program's results, each times its own numbers, so that no gradient is just ones. A program
without a gradient, or that leaves a number of PyTorch's that is not finite, cannot be trained.
"""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tests.fuzz.fuzz_program import Program
from tests.fuzz.generate import generate
from tests.fuzz.judge import Verdict

OPTIMIZERS: dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer] | None] = {
    "none": None,
    "sgd": lambda leaves: torch.optim.SGD(leaves, lr=0.01, momentum=0.9),
    "adamw": lambda leaves: torch.optim.AdamW(leaves, lr=0.01, eps=1e-6),  # f16 has no 1e-8
}


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A program that is trained; `optimizer` is one of `OPTIMIZERS`."""

    program: Program
    optimizer: str

    def leaves(self) -> list[torch.Tensor]:
        """The inputs, those of floats as parameters."""
        made = [each.clone(memory_format=torch.contiguous_format) for each in self.program.make_inputs()]
        return [each.requires_grad_(each.is_floating_point()) for each in made]

    def function(self, leaves: list[torch.Tensor]) -> Callable[[], torch.Tensor]:
        program = self.program.function()

        def loss() -> torch.Tensor:
            results = [each for each in program(*leaves) if each.requires_grad]
            return sum((_weighed(each) for each in results), torch.zeros(()))

        return step_of(loss, [each for each in leaves if each.requires_grad], self.optimizer)


def step_of(
    loss_of: Callable[[], torch.Tensor], parameters: list[torch.Tensor], optimizer_name: str
) -> Callable[[], torch.Tensor]:
    """One step of training, which gives its loss; the optimizer is one of `OPTIMIZERS`."""
    make = OPTIMIZERS[optimizer_name]
    optimizer = make(parameters) if make else None

    def step() -> torch.Tensor:
        loss = loss_of()
        loss.backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return step


def _weighed(result: torch.Tensor) -> torch.Tensor:
    weights = torch.arange(result.numel()).remainder(7) * 0.25 + 0.5  # which no type rounds
    return (result * weights.to(result.dtype).reshape(result.shape)).sum().float()


DRAWS = 20
"""Programs that a seed draws until one can be trained, as every other can."""


def training_step(seed: int) -> TrainingStep | None:
    """The training step of a seed: of its own program or, if that cannot be trained, of the next one it draws."""
    optimizer = random.Random(seed).choice(list(OPTIMIZERS))
    drawn = (seed, *(DRAWS * 10**6 + seed * DRAWS + count for count in range(1, DRAWS)))
    steps = (TrainingStep(generate(each), optimizer) for each in drawn)
    return next((step for step in steps if _has_gradients(step) and _leaves_numbers(step)), None)


class _Chosen(TorchFunctionMode):
    """Notes whether `topk` chooses among equal numbers, which PyTorch leaves open: gradients go to the chosen one."""

    def __init__(self) -> None:
        super().__init__()
        self.among_equal = False

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is torch.topk:
            given, _, dim = args
            self.among_equal |= bool((given.sort(dim)[0].diff(dim=dim) == 0).any())
        return func(*args, **(kwargs or {}))


def _has_gradients(step: TrainingStep) -> bool:
    leaves = step.leaves()
    with warnings.catch_warnings(), _Chosen() as chosen:
        warnings.simplefilter("ignore")
        try:
            TrainingStep(step.program, "none").function(leaves)()
        except RuntimeError:  # no result has a gradient, or one is changed in place
            return False
    if chosen.among_equal:
        return False
    found = [each.grad for each in leaves if each.grad is not None]
    return bool(found) and all(
        bool(each.isfinite().all()) and float(each.abs().max()) < 1e4 for each in found if each.numel()
    )


def _leaves_numbers(step: TrainingStep) -> bool:
    """True if all parameters are finite after it: a mean square of gradients can be zero where their mean is not."""
    leaves = step.leaves()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step.function(leaves)()
    return all(bool(each.isfinite().all()) for each in leaves if each.requires_grad)


def judged_step(seed: int) -> Verdict:
    """The verdict on the training step of a seed; none where none of its programs can be trained."""
    step = training_step(seed)
    return Verdict("none") if step is None else judge_step(step)


def judge_step(step: TrainingStep) -> Verdict:
    """Traces and checks the step: its loss, its gradients, its parameters and what the optimizer keeps."""
    return judge_function(lambda: step.function(step.leaves()), step.program.machine, step.program.fusion)


def judge_function(make: Callable[[], Callable[[], torch.Tensor]], machine: str, fusion: str) -> Verdict:
    """Traces and checks the training step that `make` makes, for a machine and a fusion as they are written."""
    import workbench as wb

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            journey = wb.trace(make(), machine=eval(machine, {"wb": wb}), fusion=eval(fusion), train=True)
            check = journey.check()
            journey.run()
            journey.simulated.trace.invariants()
        except wb.errors.WorkbenchError as error:
            return Verdict("refused", f"{type(error).__name__}: {error}")
        except Exception:
            return Verdict("failed", traceback.format_exc(limit=-4))
        problems = [f"{each.name}: {each.problem or each.first_bad}" for each in check.results if not each.ok]
        if problems:
            return Verdict("wrong", "; ".join(problems))
        ops = sorted({node.node.op for node in journey.lowered.record.nodes if node.route == "host"})
        return Verdict("host", " ".join(ops)) if ops else Verdict("ok")
