"""A random program: its inputs as descriptions, its steps as lines of Python, and the text that runs by itself."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")


@dataclass(frozen=True, slots=True)
class Input:
    """An input tensor: made anew from this description whenever it is needed."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str
    """contiguous, permuted, sliced, expanded or channels_last: how it lies in memory."""
    values: str
    """normal, special (some NaN and infinities), or `lo:hi` for integers from lo up to hi."""
    seed: int

    def text(self) -> str:
        """The expression that makes it."""
        return f"made({self.shape}, torch.{self.dtype}, {self.layout!r}, {self.values!r}, {self.seed})"

    def make(self) -> torch.Tensor:
        return made(self.shape, getattr(torch, self.dtype), self.layout, self.values, self.seed)


def made(shape: tuple[int, ...], dtype: torch.dtype, layout: str, values: str, seed: int) -> torch.Tensor:
    """A tensor with the given values, laid out in memory as asked."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        dense = torch.rand(shape, generator=generator) > 0.5
    elif ":" in values:
        low, high = map(int, values.split(":"))
        dense = torch.randint(low, high, shape, generator=generator).to(dtype)
    else:
        dense = torch.randn(shape, generator=generator)
        if values == "special":
            place = torch.randint(0, 12, shape, generator=generator)
            for number, value in enumerate((torch.nan, torch.inf, -torch.inf, 0.0, -0.0)):
                dense = torch.where(place == number, value, dense)
        dense = dense.to(dtype)
    return laid_out(dense, layout)


def laid_out(dense: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values with other strides."""
    rank = dense.dim()
    if layout == "permuted" and rank > 1:
        return dense.permute(*reversed(range(rank))).contiguous().permute(*reversed(range(rank)))
    if layout == "sliced" and rank:
        wide = torch.zeros(*dense.shape[:-1], dense.shape[-1] * 2 + 1, dtype=dense.dtype)
        wide[..., 1::2] = dense
        return wide[..., 1::2]
    if layout == "expanded" and rank:
        return dense[:1].expand(dense.shape)
    if layout == "channels_last" and rank == 4:
        return dense.contiguous(memory_format=torch.channels_last)
    return dense


@dataclass(frozen=True, slots=True)
class Step:
    """One or two lines that make `result` of the values it reads."""

    result: str
    lines: tuple[str, ...]
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Inputs, steps, what is returned, and the machine it is compiled for."""

    seed: int
    machine: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    mapped: int = 0
    """The seed of the mappings that its kernels have; 0 for the heuristic's."""
    fusion: str = "None"
    """The option `fusion=`, as it is written."""
    breaks: tuple[str, ...] = ()
    """Results of steps after which the graph breaks."""

    def definition(self) -> str:
        """The function's text."""
        lines = [f"def program({', '.join(each.name for each in self.inputs)}):"]
        for step in self.steps:
            lines += [f"    {line}" for line in step.lines]
            lines += ["    torch._dynamo.graph_break()"] * (step.result in self.breaks)
        return "\n".join([*lines, f"    return {', '.join(self.outputs)},"]) + "\n"

    def text(self) -> str:
        """All of it, as a file that runs."""
        given = ",\n    ".join(each.text() for each in self.inputs)
        return (
            "import torch\nimport torch.nn.functional as F\nimport workbench as wb\n"
            "from tests.fuzz.fuzz_program import made\nfrom tests.fuzz.random_mappings import mapped\n"
            f"from tests.fuzz.own_pattern import patterned\n\n\n{self.definition()}\n\n"
            f"inputs = (\n    {given},\n)\n"
            f"with patterned():\n"
            f"    journey = wb.trace(program, *inputs, machine={self.machine}, fusion={self.fusion})\n"
            f"journey = mapped(journey, {self.mapped})\nprint(journey.check().text())\n"
        )

    def function(self) -> Callable[..., Any]:
        """The function itself."""
        source, place = self.definition(), f"<program {self.seed}>"
        linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
        space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(compile(source, place, "exec"), space)
        return space["program"]

    def make_inputs(self) -> list[torch.Tensor]:
        """Fresh inputs."""
        return [each.make() for each in self.inputs]
