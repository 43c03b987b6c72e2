"""The overview of a journey: the figures of its finished stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.explaining.artefacts import Captured, Lowered, Rendered, Scheduled, Simulated
from workbench.explaining.artefacts.handle import count_of
from workbench.explaining.views.graphs import graph_tables, module_tree
from workbench.explaining.views.pages.overview import Overview, Stage
from workbench.explaining.views.timelines import timeline
from workbench.ir import BREAK, HOST, between_text
from workbench.stages.journey_request import GraphCall, Request
from workbench.stages.pipeline import Stages
from workbench.stages.stage import Once

if TYPE_CHECKING:
    from workbench.checking.check_report import Check
    from workbench.ground.basics.cards import Why

T = TypeVar("T")

MOST_SPANS = 100_000
"""The most spans for which the overview looks for findings: with more, the search is too slow for a notebook's cell."""


def overview(request: Request, stages: Stages, why: Why | None, checks: Iterable[Check]) -> Overview:
    """The overview of a journey's present state."""
    captured, lowered, simulated = _now(stages.captured), _now(stages.lowered), _now(stages.simulated)
    graph, spent = captured.record if captured else None, simulated.spent if simulated else None
    given = [given for given in graph.inputs if given.kind == "user"] if graph else []
    return Overview(
        name_of(request, stages),
        request.machine.label,
        tuple(f"{each.path}: {graph.types[each.value]}" for each in given) if graph else (),
        (
            _stage(stages.captured, "captured", _of_captured),
            _stage(stages.lowered, "lowered", _of_lowered),
            _stage(stages.rendered, "rendered", _of_rendered, stages.imported),
            _stage(stages.scheduled, "scheduled", _of_scheduled, stages.tiled),
            _stage(stages.simulated, "simulated", _of_simulated),
        ),
        tuple((check.ok, check.text().splitlines()[0]) for check in checks),
        "j.check() compares it with PyTorch" if request.target else "a file has no function to compare with",
        module_tree.captured_tree(graph, lowered.record if lowered else None, spent) if graph else None,
        spent,
        why,
    )


def name_of(request: Request, stages: Stages) -> str:
    """The name of the traced function, even before its capture."""
    if stages.captured.made:
        return stages.captured().record.name
    if isinstance(request.target, GraphCall):
        return "a graph of torch.compile"
    if request.target is None:
        return "a file"
    from workbench.capturing import capture

    return capture.name_of(request.target)


def _now(once: Once[T]) -> T | None:
    return once() if once.made else None


def _stage(once: Once[T], name: str, figures: Callable[[T], tuple[str, ...]], *before: Once[Any]) -> Stage:
    """The overview's stage for an artefact; its seconds include the steps `before` it."""
    took = [each.seconds for each in (*before, once) if each.seconds is not None]
    return Stage(name, f"j.{name}", figures(once()) if once.made else (), sum(took) if once.made and took else None)


def _of_captured(captured: Captured) -> tuple[str, ...]:
    nodes = captured.record.nodes
    modules = len({node.origin.module for node in nodes if node.origin.module})
    calls = count_of(len(nodes), "ATen call")
    inside = [f"in {count_of(modules, 'module')}"] if modules else []
    between = between_text(captured.record.host_work)
    return (calls, *inside, *([between] if between else []), *_after_the_graph(captured))


def _after_the_graph(captured: Captured) -> list[str]:
    """The Python that runs after one of several graphs, in words; empty if breaks are nodes of the traced graph."""
    inside = any(node.op == BREAK for node in captured.record.nodes)
    return [] if inside else [f"then Python runs on the host, in no journey: {told}" for told in captured.breaks]


def _of_lowered(lowered: Lowered) -> tuple[str, ...]:
    kernels = lowered.record.kernels
    hosted = sum(kernel.kind == HOST for kernel in kernels)
    made = graph_tables.counted_parts(lowered.record) or count_of(len(kernels) - hosted, "kernel")
    return (made, f"{count_of(hosted, 'step')} on the host") if hosted else (made,)


def _of_rendered(rendered: Rendered) -> tuple[str, ...]:
    return (f"{sum(len(module.mlir.splitlines()) for module in rendered.record):,} lines of MLIR",)


def _of_scheduled(scheduled: Scheduled) -> tuple[str, ...]:
    programs = [kernel.program for kernel in scheduled.record.kernels]
    buffers, instructions = sum(len(each.buffers) for each in programs), sum(map(len, programs))
    return count_of(len(programs), "program"), f"{instructions:,} instructions on tiles", f"{buffers:,} buffers"


def _of_simulated(simulated: Simulated) -> tuple[str, ...]:
    hosted = sum(timeline.host_cycles(simulated.record))
    told = f"{simulated.cycles:,} cycles", f"{simulated.time_us:,.2f} µs"
    return (*told, f"{hosted:,} cycles on the host") if hosted else told
