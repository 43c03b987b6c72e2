"""From a seed to a program: two to ten ops over random legal shapes, strides and element types, for a machine.

Many have random mappings, and some are without fusions.

Every step is run with PyTorch as it is drawn; what PyTorch refuses is drawn again. Ops with jumps (comparisons,
rounding, sorting, casts to integers) take only values that were computed without rounding: elsewhere two right answers
may lie on different sides of a jump.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from tests.fuzz import ops
from tests.fuzz.fuzz_program import FLOATS, INTEGERS, Input, Program, Step
from workbench.lowering.fusion_rules import SWITCHES

MACHINES = (
    ('"tpu-v3"', 3),
    ('"edge-8x8"', 4),
    ('wb.machine("edge-8x8", systolic_rows=4, systolic_columns=4, vector_lanes=4, scratchpad_bytes_per_lane=16384)', 2),
    ('wb.machine("tpu-v3", systolic_rows=256, systolic_columns=256)', 1),
)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33)
MOST_ELEMENTS = 6000
LARGEST = {torch.float16: 200.0}
"""Floats of every other program stay below this, so that a sum of them does not overflow."""


@dataclass
class Value:
    """A tensor in the program, as PyTorch computes it; `exact` if no rounding was involved."""

    name: str
    tensor: torch.Tensor
    exact: bool


@dataclass
class Draw:
    """The program so far, and the chance that continues it."""

    random: random.Random
    inputs: list[Input] = field(default_factory=list[Input])
    values: list[Value] = field(default_factory=list[Value])
    steps: list[Step] = field(default_factory=list[Step])
    special: bool = False
    unscaled: bool = False
    """Whether results may be as large as they come out, infinite too."""

    def pick(self, suits: Callable[[torch.Tensor], bool] = lambda tensor: True, *, exact: bool = False) -> Value:
        """A value of the program, a late one rather than an early one; a new input where none suits."""
        found = [value for value in self.values if suits(value.tensor) and (value.exact or not exact)]
        if not found:
            raise ops.Unsuited
        weights = [1 + 2 * index for index in range(len(found))]
        return self.random.choices(found, weights)[0]

    def input(self, shape: tuple[int, ...], dtype: str, values: str = "", layout: str = "") -> Value:
        """A new input."""
        if not values:
            values = "normal" if dtype in FLOATS else "0:9" if dtype == "uint8" else "-9:9"
            values = "special" if values == "normal" and self.special and self.random.random() < 0.5 else values
        layout = (
            layout
            or self.random.choices(("contiguous", "permuted", "sliced", "expanded", "channels_last"), (6, 2, 2, 1, 1))[
                0
            ]
        )
        made = Input(f"x{len(self.inputs)}", shape, dtype, layout, values, self.random.randrange(1 << 30))
        self.inputs.append(made)
        self.values.append(Value(made.name, made.make(), True))
        return self.values[-1]

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.random.choices((0, 1, 2, 3, 4), (1, 3, 6, 4, 3))[0] if rank is None else rank
        sizes = EXTENTS if rank < 3 else EXTENTS[:8]
        return tuple(self.random.choice(sizes) for _ in range(rank))

    def dtype(self) -> str:
        return self.random.choices(("float32", *FLOATS[1:], *INTEGERS, "bool"), (12, 3, 3, 1, 3, 2, 1, 1, 1, 1))[0]

    def idle(self) -> bool:
        """True if there is nothing to compile yet: all steps gave back what they took."""
        given = {id(value.tensor) for value in self.values if value.name.startswith("x")}
        return all(id(value.tensor) in given for value in self.values)


def generate(seed: int) -> Program:
    """The program of a seed."""
    draw = Draw(random.Random(seed), unscaled=bool(seed % 2))
    draw.special = draw.random.random() < 0.15
    machine = draw.random.choices([name for name, _ in MACHINES], [weight for _, weight in MACHINES])[0]
    draw.input(draw.shape(), draw.dtype())
    if draw.random.random() < 0.5:
        draw.input(draw.shape(), draw.dtype())
    wanted = draw.random.randint(2, 10)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for _ in range(wanted * 8):
            if len(draw.steps) < wanted or draw.idle():
                _step(draw)
    made = [step.result for step in draw.steps]
    read = {name for step in draw.steps for name in step.reads}
    loose = [name for name in made if name not in read]
    loose += [name for name in made if name in read and draw.random.random() < 0.15]
    outputs = sorted(loose, key=lambda name: int(name[1:])) or [draw.inputs[0].name]
    mapped = draw.random.randrange(1, 1 << 30) if draw.random.random() < 0.4 else 0
    fusion = draw.random.choices(("None", repr("none"), repr({"off": [draw.random.choice(SWITCHES)]})), (16, 1, 3))[0]
    breaks = tuple(draw.random.sample(made, min(len(made), 2))) if draw.random.random() < 0.1 else ()
    inputs, steps = tuple(draw.inputs), tuple(draw.steps)
    return trimmed(Program(seed, machine, inputs, steps, tuple(outputs), mapped, fusion, breaks))


def trimmed(program: Program) -> Program:
    """Without the steps and inputs that nothing returned needs; steps that change an input stay."""
    wanted, steps = set(program.outputs), list[Step]()
    for step in reversed(program.steps):
        if step.result in wanted or not step.result.startswith("v"):
            steps.insert(0, step)
            wanted.update((step.result, *step.reads))
    inputs = tuple(each for each in program.inputs if each.name in wanted) or program.inputs[:1]
    return replace(program, inputs=inputs, steps=tuple(steps))


def _step(draw: Draw) -> None:
    """Draws one more step, unless what was drawn is not legal."""
    before = len(draw.inputs), len(draw.values)
    result = f"v{len(draw.steps)}"
    try:
        drawn = draw.random.choices(ops.DRAWN, ops.WEIGHTS)[0](draw)
        lines = tuple(line.replace("OUT", result) for line in drawn.lines)
        space = {value.name: value.tensor for value in draw.values}
        scope = {"torch": torch, "F": torch.nn.functional, **space}
        exec("\n".join(lines), scope)
        tensor = scope[result]
        if not _fits(tensor) or not (draw.unscaled or _moderate(tensor)):
            raise ops.Unsuited
    except (ops.Unsuited, RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        del draw.inputs[before[0] :], draw.values[before[1] :]
        return
    draw.values.append(Value(result, tensor, drawn.exact))
    draw.steps.append(Step(result, lines, drawn.reads))


def _fits(tensor: object) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.numel() <= MOST_ELEMENTS
        and tensor.dim() <= 5
        and not tensor.is_complex()
    )


def _moderate(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point():
        return True
    finite = tensor[tensor.isfinite()]
    return not finite.numel() or float(finite.abs().max()) < LARGEST.get(tensor.dtype, 1e4)
