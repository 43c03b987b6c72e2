"""Repeated computations. Nodes with the same op on the same operands compute the same numbers; if the function keeps
the first result, the kernels of the others are not needed. Ops that draw random numbers never count as equal. PyTorch
knows these ops; where it is not installed, the rule finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from workbench.explaining.findings import Facts, Finding, finding, times
from workbench.ir import Node, Ref


@finding("computed twice")
def computed_twice(facts: Facts) -> Iterator[Finding]:
    first = _first_of(facts.lowered.captured.nodes)
    again = {name for name, other in first.items() if name != other}
    spent, spans = dict[str, int](), dict[str, set[int]]()
    for step, names in facts.path_origins:
        if names and set(names) <= again:
            spent[names[-1]] = spent.get(names[-1], 0) + step.cycles
            spans.setdefault(names[-1], set()).add(step.span)
    if spent:
        kernels = {name: launch.kernel for launch in facts.scheduled.launches.launches for name in launch.origins}
        costly = max(spent, key=lambda name: spent[name])
        yield Finding(
            kernels[costly],
            sum(spent.values()),
            f"{times(len(again), 'node')} that repeat the computation of others: {costly} computes the same "
            f"numbers as {first[costly]}, in an equal kernel; keep the first result and use it again",
            tuple(sorted(span for of in spans.values() for span in of)),
            nodes=(costly, first[costly]),
        )


def _first_of(nodes: tuple[Node, ...]) -> dict[str, str]:
    """Each node's name -> that of the first node with the same result."""
    made, found, known = dict[str, str](), dict[str, str](), dict[str, Node]()
    for node in nodes:
        key = _key(node, made)
        before = known.setdefault(key, node) if key else node
        if before is not node and _may_draw_lots(node.op):
            before = node
        found[node.name] = before.name
        made |= dict(zip(node.results, before.results, strict=True))
    return found


def _may_draw_lots(op: str) -> bool:
    try:
        from workbench.operators.aten.overload_names import draws_lots

        return draws_lots([op])
    except ModuleNotFoundError:  # a journey from a file also opens without PyTorch
        return True


def _key(node: Node, made: dict[str, str]) -> str:
    """The inputs that determine a node's numbers; empty where it has no operands, or runs subgraphs."""
    if node.bodies or not node.operands or node.op.startswith("aten.empty"):
        return ""
    args = [replace(arg, value=made.get(arg.value, arg.value)) if isinstance(arg, Ref) else arg for arg in node.args]
    return repr((node.op, args, sorted(node.kwargs.items(), key=lambda item: item[0])))
