"""From a program that fails to a smaller one that fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from tests.fuzz.fuzz_program import FLOATS, Input, Program
from tests.fuzz.generate import trimmed


def shrink(program: Program, fails: Callable[[Program], bool], attempts: int = 200) -> Program:
    """The smallest program found that still fails, by leaving things out one at a time."""
    while attempts:
        for smaller in candidates(program):
            attempts -= 1
            if fails(smaller):
                program = smaller
                break
            if not attempts:
                return program
        else:
            return program
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Programs with one thing less: an output, a step (its result becomes an input), a layout, another machine."""
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield trimmed(replace(program, outputs=(output,)))
    for step in reversed(program.steps):
        for read in step.reads:
            if step.result in program.outputs and read.startswith("v"):
                yield trimmed(replace(program, outputs=(read,)))
    values = _values(program)
    for index, step in enumerate(program.steps):
        tensor = values.get(step.result)
        if tensor is not None and len(program.steps) > 1:
            given = _as_input(step.result, tensor)
            rest = program.steps[:index] + program.steps[index + 1 :]
            if step.result in {name for other in rest for name in other.reads}:
                yield trimmed(replace(program, inputs=(*program.inputs, given), steps=rest))
    for index, each in enumerate(program.inputs):
        simple = replace(each, layout="contiguous", values="normal" if each.values == "special" else each.values)
        if simple != each:
            yield replace(program, inputs=(*program.inputs[:index], simple, *program.inputs[index + 1 :]))
    if program.mapped:
        yield replace(program, mapped=0)
    if program.breaks:
        yield replace(program, breaks=())
    if program.fusion != "None":
        yield replace(program, fusion="None")
    if program.machine != '"tpu-v3"':
        yield replace(program, machine='"tpu-v3"')


def _values(program: Program) -> dict[str, torch.Tensor]:
    """Computes the value of every step with PyTorch."""
    if not program.steps:  # it returns what it is given
        return {}
    every = replace(program, outputs=tuple(step.result for step in program.steps))
    with torch.no_grad():
        try:
            return dict(zip(every.outputs, every.function()(*every.make_inputs()), strict=True))
        except RuntimeError:
            return {}


def _as_input(name: str, tensor: torch.Tensor) -> Input:
    dtype = str(tensor.dtype).removeprefix("torch.")
    values = "normal" if dtype in FLOATS else "0:5"
    return Input(name, tuple(tensor.shape), dtype, "contiguous", values, 1)
