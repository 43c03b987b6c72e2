"""Models trained step by step with `j.run`, beside PyTorch from the same start on the same batches.

    python benchmarks/fifty_steps.py --table [--only mlp gpt] [--ways sgd adamw] [--steps 50] [--machine tpu-v3]
    python benchmarks/fifty_steps.py --memory [--size full]
    python benchmarks/fifty_steps.py --leak [--steps 1000]

With `--table` the rows are one table of Markdown, otherwise a line of JSON each. Kernels are compiled anew, in an empty
folder, but for those that rows above have as well. `trained_models.py` has the models.

    loss, weights    the greatest difference of a loss from PyTorch's, relative to it, and the difference of all
                     parameters and buffers after the last step, relative to their norm
    greatest         the greatest difference of one element, and the tensor that it is in
    reordered        loss and weights of PyTorch itself, with the rows of each batch in another order
    moved            the greatest of the same in 8 trainings from other weights: each is moved by up to what one
                     rounding to the type of the forward pass moves it
    wider            the same in 64 bits; for bf16 the same in f32 without autocast
    host             steps on the host
    kernels          that are launched in the forward pass, the backward pass and the optimizer's step
    compile          seconds of the processor from the call of `wb.trace` to the end of the first `j.run`

All of PyTorch's own differences are roundings alone. Ours has to be below `ALLOWED` times the greatest of them, and the
trace has to leave the weights as they were.

`--memory` and `--leak` are described in `training_memory.py`.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import training_memory
from printed_rows import printed
from torch import Tensor, nn
from trained_models import TRAINED, WAYS, Batch, Step, optimizer_of, step_of

import workbench as wb

COLUMNS = (
    "model", "optimizer", "last loss", "loss", "weights", "greatest", "reordered", "moved", "wider", "host",
    "cycles", "kernels", "compile",
)  # fmt: skip

ALLOWED = 4.0
"""Two computations that are both off by a rounding are off from each other by up to the sum; the rest is chance."""

MOVED = 8
"""Trainings from weights that were moved: after many steps a rounding makes much of a difference, or little."""


@dataclass(frozen=True)
class Learned:
    """The losses of a training, and the model's parameters and buffers after it."""

    losses: list[float]
    weights: dict[str, Tensor]

    def beside(self, other: Learned) -> tuple[float, float]:
        """The greatest relative difference of a loss, and that of all weights, relative to their norm."""
        loss = max(abs(one - two) / abs(two) for one, two in zip(self.losses, other.losses, strict=True))
        norms = [torch.stack([each.norm() for each in found]).norm() for found in self._apart(other)]
        return loss, float(norms[0] / norms[1])

    def greatest(self, other: Learned) -> tuple[float, str]:
        """The greatest difference of an element, and the name of the tensor that it is in."""
        return max((float(apart.max()), name) for name, apart in zip(self.weights, self._apart(other)[0], strict=True))

    def _apart(self, other: Learned) -> tuple[list[Tensor], list[Tensor]]:
        theirs = [other.weights[name] for name in self.weights]
        return [(one - two).abs() for one, two in zip(self.weights.values(), theirs, strict=True)], theirs


def learned(model: nn.Module, step: Step, batches: list[Batch]) -> Learned:
    """Trains the model, a step a batch."""
    losses = [step(*batch).item() for batch in batches]
    return Learned(losses, {name: value.double().clone() for name, value in model.state_dict().items()})


def reordered(batch: Batch) -> Batch:
    """The rows of a batch the other way round: the same loss and gradients, with sums in another order."""
    return batch[0].flip(0), batch[1].flip(0)


def widened(batch: Batch) -> Batch:
    return (batch[0].double() if batch[0].is_floating_point() else batch[0]), batch[1]


def moved(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A model with each weight moved by up to what one rounding to a type moves it, half of the type's epsilon."""
    made = copy.deepcopy(model)
    with torch.no_grad():
        for weight in made.parameters():
            by = (torch.rand(weight.shape, dtype=torch.float64) - 0.5) * torch.finfo(dtype).eps
            weight.copy_(weight.double() * (1 + by))
    return made


def measured(name: str, way: str, steps: int, machine: str) -> dict[str, Any]:
    """One row."""
    torch.manual_seed(0)
    narrow, begun = way.endswith("bf16"), TRAINED[name].model()
    batches = [TRAINED[name].batch() for _ in range(steps)]

    def eager(
        change: Callable[[Batch], Batch] | None = None, *, wide: bool = False, start: nn.Module = begun
    ) -> Learned:
        model = copy.deepcopy(start).double() if wide and not narrow else copy.deepcopy(start)
        step = step_of(model, optimizer_of(way, model), narrow=narrow and not wide)
        return learned(model, step, [change(batch) for batch in batches] if change else batches)

    model = copy.deepcopy(begun)
    step = step_of(model, optimizer_of(way, model), narrow=narrow)
    began, first = time.process_time(), copy.deepcopy(model.state_dict())
    journey = wb.trace(step, *batches[0], train=True, machine=machine)
    journey.scheduled.kernels  # noqa: B018
    traced = time.process_time() - began
    unchanged = all(torch.equal(value, first[key]) for key, value in model.state_dict().items())
    times: list[float] = []

    def timed(x: Tensor, y: Tensor) -> Tensor:
        began = time.process_time()
        loss = journey.run(x, y)
        times.append(time.process_time() - began)
        assert isinstance(loss, Tensor)
        return loss

    ours, theirs = learned(model, timed, batches), eager()
    loss, weights = ours.beside(theirs)
    starts = (moved(begun, torch.bfloat16 if narrow else torch.float32) for _ in range(MOVED))
    trained = [eager(start=start).beside(theirs) for start in starts]
    spread = {
        "reordered": eager(reordered).beside(theirs),
        "moved": tuple(max(each) for each in zip(*trained, strict=True)),
        "wider": eager(None if narrow else widened, wide=True).beside(theirs),
    }
    allowed = [ALLOWED * max(each) for each in zip(*spread.values(), strict=True)]
    table = journey.lowered.kernel_table
    hosts = Counter(item.node.op for item in journey.lowered.record.nodes if item.route == "host")
    return {
        "model": name,
        "optimizer": way,
        "last loss": theirs.losses[-1],
        "loss": loss,
        "weights": weights,
        "greatest": ours.greatest(theirs),
        **spread,
        "host": dict(hosts),
        "cycles": journey.simulated.cycles,
        "kernels": table.part.value_counts(sort=False).to_dict(),
        "compile": traced + times[0],
        "ok": unchanged and loss <= allowed[0] and weights <= allowed[1],
    }


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    hosts = ", ".join(f"{count} `{op}`" for op, count in row["host"].items()) or "none"
    pairs = [" / ".join(f"{each:.1e}" for each in row[key]) for key in ("reordered", "moved", "wider")]
    cells = [
        row["model"], row["optimizer"], f"{row['last loss']:.3f}", f"{row['loss']:.1e}", f"{row['weights']:.1e}",
        f"{row['greatest'][0]:.1e} `{row['greatest'][1]}`", *pairs, hosts, f"{row['cycles']:,}",
        " + ".join(map(str, row["kernels"].values())), f"{row['compile']:.1f} s",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |" + ("" if row["ok"] else " beyond what rounding explains")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", choices=TRAINED, default=list(TRAINED), help="models, instead of all")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="optimizers, instead of all")
    parser.add_argument("--steps", type=int, help="50 to train, 200 for --leak")
    parser.add_argument("--machine", default="tpu-v3")
    parser.add_argument("--memory", action="store_true", help="peaks of a step of GPT-2 instead")
    parser.add_argument("--size", choices=training_memory.SIZES, default="full", help="of that GPT-2")
    parser.add_argument("--leak", action="store_true", help="what many steps leave behind instead")
    parser.add_argument("--table", action="store_true", help="a table of Markdown in place of lines of JSON")
    options = parser.parse_args()
    if options.memory:
        return training_memory.compare(options.size)
    if options.leak:
        return training_memory.leak(options.steps or 200)
    made = (measured(name, way, options.steps or 50, options.machine) for name in options.only for way in options.ways)
    rows = printed(made, COLUMNS, line, table=options.table)
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
