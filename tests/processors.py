"""`python -m tests.processors [--write FILE]`: every operator of the table in every type, for every level of processor.

What a processor lacks is done by functions in its place, so machine code is made for each level of the x86-64 ABI that
this processor has, and run here; the numbers have to be PyTorch's. The suite does the same to a few drawn programs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

import workbench as wb
from tests.operators import OPERATORS
from tests.tensors.test_element_types import KERNEL_DTYPES, assert_alike, taken, values
from workbench.ground.environment.processor import NATIVE, SWITCH, available
from workbench.ground.errors import WorkbenchError
from workbench.operators.tensors.element_types import dtype_name

PROCESSORS = (*available(), NATIVE)


@dataclass(frozen=True)
class Sample:
    """A program in a type, and what to call it with."""

    name: str
    dtype: torch.dtype
    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    compare: Callable[[wb.Journey, Sample], list[str]]


def samples(name: str, dtypes: Sequence[torch.dtype] = KERNEL_DTYPES) -> Iterator[Sample]:
    """An operator of the table, or a program of our own, in each type that PyTorch takes it in."""
    op = OPERATORS.get(name)
    for dtype in (op and op.only) or dtypes:
        torch.manual_seed(0)
        if op is None:
            yield OWN[name](dtype)
        elif dtype not in op.hosted and op.takes(dtype):
            yield Sample(name, dtype, op.call, op.inputs(op.cases[1], dtype), checked)


def corners(dtype: torch.dtype) -> Sample:
    """The corners of a type through every pointwise op and every reduction that takes it."""
    return Sample("corners", dtype, _named(taken(dtype)), (values(dtype, 0), values(dtype, 1)), alike)


def casts(dtype: torch.dtype) -> Sample:
    """To every other type, of numbers that all of them hold: what else becomes of them is open in C++."""
    numbers = torch.arange(100).view(10, 10)
    given = numbers / 8 if dtype.is_floating_point else numbers
    return Sample("casts", dtype, _cast_to_all, (given.to(dtype),), alike)


OWN: dict[str, Callable[[torch.dtype], Sample]] = {"corners": corners, "casts": casts}


def _named(ops: dict[str, Any]) -> Callable[..., Any]:
    return lambda x, y: {name: op(x, y) for name, op in ops.items()}


def _cast_to_all(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {dtype_name(dtype): x.to(dtype) for dtype in KERNEL_DTYPES if dtype != x.dtype}


def checked(journey: wb.Journey, sample: Sample) -> list[str]:
    check = journey.check()
    return [] if check.ok else [check.text()]


def alike(journey: wb.Journey, sample: Sample) -> list[str]:
    """Closer than `check` asks, to the bit for whole numbers, NaN and infinities in place."""
    mine, theirs = journey.run(*sample.inputs), sample.function(*sample.inputs)
    found: list[str] = []
    for name in theirs:
        try:
            assert_alike(name, mine[name], theirs[name])
        except AssertionError as error:
            found.append(str(error).splitlines()[0])
    return found


def problems(sample: Sample, processors: Sequence[str] = PROCESSORS) -> dict[str, list[str]]:
    """Lists the errors of a program's numbers, by processor."""
    journey = wb.trace(sample.function, *sample.inputs)
    found: dict[str, list[str]] = {}
    before = os.environ.get(SWITCH, "")
    try:
        for name in processors:
            os.environ[SWITCH] = name
            try:
                found[name] = sample.compare(journey, sample)
            except WorkbenchError as error:
                found[name] = [f"{type(error).__name__}: {error}"]
    finally:
        os.environ[SWITCH] = before
    return found


def table(right: Counter[tuple[str, str]], wrong: Counter[tuple[str, str]], dtypes: Sequence[str]) -> str:
    """Rows of types, columns of processors: how many programs are right, of how many."""
    rows = [f"| type | {' | '.join(PROCESSORS)} |", f"|---|{'---|' * len(PROCESSORS)}"]
    for dtype in dtypes:
        cells = [f"{right[dtype, name]} of {right[dtype, name] + wrong[dtype, name]}" for name in PROCESSORS]
        rows.append(f"| {dtype} | {' | '.join(cells)} |")
    return "\n".join(rows)


HEAD = """# The same numbers on every processor

A processor that lacks an instruction, such as FMA, runs other machine code, which must give the same numbers.
`tests/processors.py` compiles for each x86-64 level (the levels of its ABI), runs the code on one processor that has
all levels, and compares with PyTorch: every operator of the tests' table in every type that PyTorch takes, the corners
of each type through every pointwise op and reduction, and every cast. `ATEN_WORKBENCH_PROCESSOR` names the level
(default `native`).

Two results differ by processor all the same, within the bounds of every check. Only `native` calls a BLAS for products
of f32 (`scipy-openblas32`), whose routines depend on the processor, and so do the last digits of sums. And a processor
that does not fuse multiplications and additions calls the C library for exp, erf and tanh; others compute polynomials.
bf16 and f16 are the same everywhere.

    {command}

writes this page. Programs whose numbers are right:

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only programs with this in their names")
    parser.add_argument("--write", metavar="FILE", help="write the table, with what is wrong, as Markdown")
    options = parser.parse_args()
    os.environ["ATEN_WORKBENCH_WORKER"] = (
        "off"  # what ends a process shall end this one, and no list vouches for level 1
    )
    right, wrong = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    said: list[str] = []
    start = time.monotonic()
    names = [name for name in (*OPERATORS, *OWN) if options.only in name]
    for count, sample in enumerate(chain.from_iterable(map(samples, names)), 1):
        kind = dtype_name(sample.dtype)
        for name, found in problems(sample).items():
            (wrong if found else right)[kind, name] += 1
            said += [f"{sample.name} ({kind}) on {name}: {each}" for each in found]
        if count % 50 == 0:
            sys.stderr.write(f"{count} programs, {len(said)} problems, {time.monotonic() - start:.0f} s\n")
    text = table(right, wrong, list(dict.fromkeys(map(dtype_name, KERNEL_DTYPES))))
    sys.stdout.write("\n".join([text, *said]) + "\n")
    if options.write:
        told = "".join(f"\n* {each}" for each in said)
        head = HEAD.format(command=f"python -m tests.processors --write {options.write}")
        Path(options.write).write_text(f"{head}{text}\n{told}", encoding="utf-8")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
