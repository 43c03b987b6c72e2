"""Each rule has a program on which it must fire and one on which it must not; predictions are held to measurements."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable

import pandas as pd
import pytest
import torch
from torch import nn

import workbench as wb
from benchmarks.monotonic import journey
from simulator.machine_file import machine_names
from tests.programs import PROGRAMS
from workbench.mlir.template import Template

Program = Callable[[], wb.Journey]


def _traced(function: Callable[..., object], *shapes: tuple[int, ...], machine: str = "tpu-v3") -> wb.Journey:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps on the host
        return wb.trace(function, *map(torch.randn, shapes), machine=machine)


def _many(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = torch.softmax(x, 1) @ x
    return x


def _on_the_host(x: torch.Tensor) -> torch.Tensor:
    return torch.special.i0(x) + 1


class _ElementByElement(Template):
    source = """
func.func @{{ kernel }}({{ signature }}) {
  affine.for %i = 0 to {{ X.shape[0] }} {
    affine.for %j = 0 to {{ X.shape[1] }} {
      %x = memref.load %X[%i, %j] : {{ X.memref }}
      memref.store %x, %Y[%i, %j] : {{ Y.memref }}
    }
  }
  return
}
"""


def _one_by_one() -> wb.Journey:
    with wb.ops.scope():
        wb.ops.template("aten.tanh")(_ElementByElement)
        made = _traced(torch.tanh, (20, 30), machine="edge-8x8")
        _ = made.simulated
        return made


RULES: dict[str, tuple[Program, Program]] = {
    "launches": (lambda: _traced(_many, (32, 32)), lambda: _traced(torch.matmul, (2048, 2048), (2048, 2048))),
    "memory at its peak": (
        lambda: _traced(nn.Linear(2048, 2048), (1, 2048)),
        lambda: _traced(torch.matmul, (512, 512), (512, 512)),
    ),
    "bound by memory": (
        lambda: _traced(torch.matmul, (256, 256), (256, 256)),
        lambda: _traced(nn.Linear(2048, 2048), (1, 2048)),
    ),
    "arrays at their peak": (
        lambda: _traced(torch.matmul, (1024, 1024), (1024, 1024)),
        lambda: _traced(torch.matmul, (64, 64), (64, 64)),
    ),
    "array filled in part": (
        lambda: _traced(nn.Conv2d(64, 64, 3, padding=1, groups=8), (1, 64, 28, 28)),
        lambda: _traced(torch.matmul, (1024, 1024), (1024, 1024)),
    ),
    "vector bound": (
        lambda: _traced(lambda x: torch.softmax(x, 1), (512, 512)),
        lambda: _traced(torch.matmul, (512, 512), (512, 512)),
    ),
    "short transfers": (
        lambda: _traced(nn.Conv2d(64, 64, 3, padding=1), (1, 64, 14, 14)),
        lambda: _traced(torch.matmul, (512, 512), (512, 512)),
    ),
    "channels outermost": (
        lambda: _traced(nn.Conv2d(64, 64, 3, padding=1), (1, 64, 14, 14)),
        lambda: _traced(torch.matmul, (512, 512), (512, 512)),
    ),
    "latency in the open": (
        lambda: _traced(lambda x, y: x + y, (40, 48), (40, 48), machine="edge-8x8"),
        lambda: _traced(torch.matmul, (1024, 1024), (1024, 1024)),
    ),
    "host trips": (lambda: _traced(_on_the_host, (64, 64)), lambda: _traced(torch.relu, (64, 64))),
    "scalar accesses": (
        _one_by_one,
        lambda: _traced(torch.relu, (64, 64)),
    ),
    "missed fusions": (lambda: _traced(_many, (32, 32)), lambda: _traced(torch.relu, (64, 64))),
}


def _rules(journey: wb.Journey) -> set[str]:
    found = journey.findings
    failed = [reason for reason in found.reason if "failed" in reason]
    assert not failed, failed
    return set(found.rule)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_fires_where_it_must_and_nowhere_else(rule: str):
    fires, does_not = RULES[rule]
    assert rule in _rules(fires())
    assert rule not in _rules(does_not())


SMALL = [name for name in PROGRAMS if name not in ("ffn_residual", "softmax_long_row", "matmul_512")]
SAMPLE = random.Random(1).sample([(program, machine) for program in SMALL for machine in machine_names()], 6)


@pytest.mark.parametrize(("program", "machine"), SAMPLE)
def test_what_is_predicted_is_what_is_measured(program: str, machine: str):
    made = journey(PROGRAMS[program], wb.machine(machine))
    tried = made.findings.tried()
    for row in tried[tried.predicted.notna()].itertuples():
        predicted, gain = int(row.predicted), int(row.gain)
        if max(predicted, gain) > 0.02 * made.simulated.cycles:
            assert gain > 0 and 0.5 <= predicted / gain <= 2, (row.rule, predicted, gain)


def test_every_span_of_a_finding_is_one_of_its_kernel():
    made = _traced(_many, (64, 64))
    events = made.simulated.events
    for row in made.findings.itertuples():
        kernels = set(events.kernel.iloc[list(row.spans)])
        assert not row.kernel or kernels <= {row.kernel}
    assert isinstance(made.findings, pd.DataFrame)
