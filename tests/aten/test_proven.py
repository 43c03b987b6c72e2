"""The list of what is known to be safe is still true: some of it, swept again."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.ground.faults.trial import OK, Trials
from workbench.ground.faults.worker_process import WorkerProcess
from workbench.ir import AtenGraph
from workbench.operators.aten import proven

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "sweep_proven.py"
SAMPLES, SAMPLES_OF_A_SWEEP = 18, 36


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("sweep_proven", SCRIPT)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # where dataclasses look their module up
    spec.loader.exec_module(found)
    return found


def drawn(script: Any, count: int) -> list[AtenGraph]:
    """A call each of so many overloads on the list, between element types for which they are on it."""
    order = random.Random(0)
    names = sorted(name for name in proven.known() if name.startswith("aten."))
    order.shuffle(names)
    found: list[AtenGraph] = []
    for name in names:
        calls = [graph for graph in script.plain_calls_of(name) if proven.proven(graph.nodes[0], graph.types)]
        found += [order.choice(calls)] if calls else []
        if len(found) == count:
            break
    return found


@pytest.mark.test_all
@pytest.mark.sweep
def test_a_worker_survives_what_is_listed(script: Any, whole_sweep: bool):
    count = SAMPLES_OF_A_SWEEP if whole_sweep else SAMPLES
    calls = drawn(script, count)
    assert len(calls) == count
    worker = WorkerProcess()
    try:
        verdicts = {proven_as(graph): script.tried(graph, Trials(worker)) for graph in calls}
    finally:
        worker.end()
    assert {what: said.reason for what, said in verdicts.items() if said.outcome != OK} == {}


def proven_as(graph: AtenGraph) -> str:
    (node,) = graph.nodes
    return f"{node.op} {proven.signature(node, graph.types)}"


def test_what_is_listed_still_exists_and_has_a_route(script: Any):
    own = {name for name in proven.known() if not name.startswith("aten.")}
    assert own <= {"workbench.matmul.default"}
    assert [name for name in proven.known() if not script.has_route(name)] == []
