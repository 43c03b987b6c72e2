"""Compares the predicted saving of each remedy of the findings with its saving when it is tried.

    python benchmarks/findings.py [--machine NAME ...] [--only PROGRAM ...] [--models]

Every program of `tests/programs.py` on every shipped machine. Told are the pairs of program and machine that have a
remedy worth more than 2% of all cycles, those at a roof (the memory or the arrays at their peak) without one, and each
such remedy whose prediction is off by more than a factor of two, that loses, or that cannot be tried. `--models`
follows the advice on ResNet-18 as well, with its channels outermost and innermost: the person's own lines alone, and
then with what changes the machine. The exit status is 1 if some remedy does not keep its word.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

import workbench as wb
from benchmarks.monotonic import journey
from benchmarks.workloads import workload
from simulator.machine.machine_file import machine_names
from tests.programs import PROGRAMS

WORTH = 0.02
"""Of all cycles: what is less is not held to its prediction."""
OFF = 2.0


def told(made: Any) -> list[tuple[str, int, int]]:
    """Rule, predicted and measured cycles of every remedy worth something; what cannot be tried saves nothing."""
    tried, cycles = made.findings.tried(), made.simulated.cycles
    tried["gain"] = tried.gain.fillna(0)
    pairs = [(row.rule, int(row.predicted), int(row.gain)) for row in tried[tried.predicted.notna()].itertuples()]
    return [pair for pair in pairs if max(pair[1:]) > WORTH * cycles]


def keeps(predicted: int, gain: int) -> bool:
    return gain > 0 and 1 / OFF <= predicted / gain <= OFF


def models() -> None:
    """ResNet-18: what its first finding says, and what following the advice saves."""
    for layout in (torch.contiguous_format, torch.channels_last):
        given = workload("resnet18")
        module: Any = given.function
        made = wb.trace(module.to(memory_format=layout), given.inputs[0].contiguous(memory_format=layout))
        first = made.findings.iloc[0]
        print(f"ResNet-18, {layout}: {made.simulated.cycles:,} cycles\n{first.kernel}, {first.rule}: {first.reason}")
        for same_machine in (True, False):
            steps = made.findings.followed(5, same_machine=same_machine)
            faster = made.simulated.cycles / steps.cycles[steps.kept].min()
            print(steps[["step", "rule", "predicted", "cycles", "gain", "kept"]].to_string(index=False))
            print(f"{faster:.2f} times as fast, {'on this machine' if same_machine else 'the machine changed as well'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0], allow_abbrev=False)
    parser.add_argument("--machine", nargs="+", default=list(machine_names()), choices=machine_names(), metavar="NAME")
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS), metavar="PROGRAM")
    parser.add_argument("--models", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    pairs, with_remedy, at_a_roof, broken = 0, 0, 0, 0
    for name in given.only:
        for machine in given.machine:
            made = journey(PROGRAMS[name], wb.machine(machine))
            found, pairs = told(made), pairs + 1
            with_remedy += bool(found)
            at_a_roof += not found and any("peak" in rule for rule in made.findings.rule)
            for rule, predicted, gain in found:
                if not keeps(predicted, gain):
                    broken += 1
                    print(f"{name} on {machine}, {rule}: predicted {predicted:,}, measured {gain:,}")
    print(f"{pairs} pairs: {with_remedy} with a remedy, {at_a_roof} at a roof without one; {broken} predictions broken")
    if given.models:
        models()
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
