"""Right results pass the check: every operator of the table, in every type, with tensors drawn anew many times.

    python -m tests.right_results [--draws 12] [--jobs 2] [NAME ...]

The other half of `tests.wrong_results`. A bound that rounding passes one time in twenty is not seen by one draw.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch

import workbench as wb
from tests.operators import OPERATORS
from tests.operators.entry import OTHERS, SINGLE

MACHINE = "tpu-v3"


def false_alarms(name: str, draws: int) -> list[str]:
    """Lists complaints about right results: a line for each draw, all types and cases of the operator at once."""
    op = OPERATORS[name]
    types = [dtype for dtype in op.only or (SINGLE, *OTHERS) if op.takes(dtype) and dtype not in op.hosted]
    calls = [(dtype, case) for dtype in types for case in op.cases]
    found: list[str] = []
    for seed in range(1, draws + 1):
        torch.manual_seed(seed)
        given = [op.inputs(case, dtype) for dtype, case in calls]
        counts = [len(tensors) for tensors in given]

        def every(*inputs: torch.Tensor, counts: list[int] = counts) -> list[Any]:
            tensors = iter(inputs)
            return [op.call(*(next(tensors) for _ in range(count))) for count in counts]

        try:
            check = wb.trace(every, *(tensor for tensors in given for tensor in tensors), machine=MACHINE).check()
        except Exception as error:
            found.append(f"{name}, seed {seed}: {type(error).__name__}: {error}")
            continue
        found += [f"{name}, seed {seed}: {each.first_bad or each.problem}" for each in check.results if not each.ok]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    names, alarms = given.names or list(OPERATORS), 0
    alone = get_context("spawn")
    with ProcessPoolExecutor(given.jobs, alone, torch.set_num_threads, (1,)) as pool:
        for name, found in zip(names, pool.map(false_alarms, names, [given.draws] * len(names)), strict=True):
            alarms += len(found)
            print(f"{name}: {len(found) or 'none'}", *found, sep="\n    ", flush=True)
    print(f"{len(names)} operators, {given.draws} draws of each in all their types: {alarms} false alarms")
    return int(bool(alarms))


if __name__ == "__main__":
    sys.exit(main())
