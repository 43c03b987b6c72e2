"""On random graphs, rewriting by patterns changes no result, whatever matches, and leaves a graph that makes sense."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.rewriting import own_ops
from workbench.capturing.rewriting.pattern import Pattern
from workbench.capturing.rewriting.rewrite import rewritten, with_origins
from workbench.ir import AtenGraph, Input, KernelGraph, Literal, Node, Origin, Ref, TensorType, Tree, graph_checks
from workbench.lowering.lower import lower
from workbench.operators.formulas.formula_builder import infer
from workbench.operators.host.run_graph import execute
from workbench.operators.tensors.torch_literals import to_arg

SHAPE = (3, 4)
TWO, HALF = Literal("float", 2.0), Literal("float", 0.5)
BINARY = ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.maximum.default")
UNARY = ("aten.relu.default", "aten.tanh.default", "aten.exp.default")
STEPS = st.tuples(
    st.sampled_from((*BINARY, *UNARY, "scaled", "below", "amax", "flat", "diamond", "both")),
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from((TWO, HALF)),
)
"""An op, or several that may be a match; which values it reads, counted from the last one; a number."""


def pattern_of(op: object) -> Pattern:
    function, given = own_ops.EXAMPLES[op]
    return Pattern(op._qualname, function, op, given, None)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def patterns() -> dict[str, Pattern]:
    return {pattern.name: pattern for pattern in map(pattern_of, own_ops.EXAMPLES)}


class Drawn:
    """A graph under construction."""

    def __init__(self) -> None:
        dense = TensorType.dense(SHAPE, "f32")
        self.types = {name: dense for name in ("x", "y", "z")}
        self.nodes: list[Node] = []

    def call(self, op: str, *args: Ref | Literal | list[int], **kwargs: Literal) -> Ref:
        name = f"v{len(self.nodes)}"
        node = Node(name, op, tuple(map(to_arg, args)), kwargs, (name,), Origin(name, op, "drawn.py", len(self.nodes)))
        (self.types[name],) = infer(node, self.types)
        self.nodes.append(node)
        return Ref(name)

    def value(self, back: int) -> Ref:
        """One of the values of the full shape, counted from the last."""
        full = [name for name, kind in self.types.items() if kind.shape == SHAPE]
        return Ref(full[-1 - back % len(full)])

    def step(self, what: str, first: int, second: int, number: Literal) -> None:
        a, b = self.value(first), self.value(second)
        if what in BINARY:
            self.call(what, a, b)
        elif what in UNARY:
            self.call(what, a)
        elif what == "scaled":
            self.call("aten.relu.default", self.call("aten.mul.Tensor", a, number))
        elif what in ("below", "amax"):
            largest = self.call("aten.amax.default", a, [-1], Literal("bool", True))
            less = self.call("aten.sub.Tensor", a if what == "below" else b, largest)
            self.call("aten.exp.default", less)
        elif what == "flat":
            flat = [self.call("aten.view.default", each, [12]) for each in (a, b)]
            self.call("aten.view.default", self.call("aten.maximum.default", *flat), [*SHAPE])
        elif what == "diamond":
            parts = self.call("aten.add.Tensor", a, b), self.call("aten.sub.Tensor", a, b)
            self.call("aten.mul.Tensor", *(parts if first % 2 else parts[::-1]))
        else:
            self.call("aten.tanh.default", self.call("aten.mul.Tensor", b, self.call("aten.add.Tensor", a, b)))

    def graph(self, results: list[int]) -> AtenGraph:
        made = [node.results[0] for node in self.nodes]
        outputs = tuple(dict.fromkeys([made[-1], *(made[each % len(made)] for each in results)]))
        return AtenGraph(
            "drawn",
            tuple(Input(name, "user", name) for name in ("x", "y", "z")),
            tuple(self.nodes),
            outputs,
            Tree("tuple", items=(Tree("leaf"),) * len(outputs)),
            self.types,
            input_tree=Tree("tuple", items=(Tree("leaf"),) * 3),
        )


def drawn(steps: list[tuple[str, int, int, Literal]], results: list[int]) -> AtenGraph:
    made = Drawn()
    for step in steps:
        made.step(*step)
    return made.graph(results)


SETTINGS = settings(deadline=None, derandomize=True, database=None)
GRAPHS = {"steps": st.lists(STEPS, min_size=1, max_size=8), "results": st.lists(st.integers(0, 40), max_size=3)}
ALL = [("both", 0, 1, TWO), ("diamond", 0, 1, TWO), ("below", 0, 0, TWO), ("flat", 0, 1, TWO), ("scaled", 0, 0, HALF)]


@pytest.mark.test_all
def test_no_result_changes(patterns: dict[str, Pattern]) -> None:
    matched = Counter[str]()

    @settings(SETTINGS, max_examples=150)
    @given(**GRAPHS)
    @example(steps=ALL, results=[0])
    def holds(steps: list[tuple[str, int, int, Literal]], results: list[int]) -> None:
        graph = drawn(steps, results)
        made = rewritten(graph, patterns, ())
        graph_checks.check_graph(made.graph)
        torch.manual_seed(0)
        given = [torch.randn(SHAPE) for _ in graph.inputs]
        before, after = execute(graph, given), execute(made.graph, given)
        for name, ours, theirs in zip(graph.outputs, after.outputs, before.outputs, strict=True):
            assert torch.equal(ours.nan_to_num(), theirs.nan_to_num()), name
        gone = {node.name for node in graph.nodes} - {node.name for node in made.graph.nodes}
        behind = {name for each in made.rewrites if each.graph for part in each.stands_for for name in part.captured}
        assert gone <= behind, "every node that is gone has one that stands for it"
        matched.update({each.name: len(each.matches) for each in made.rewrites})

    holds()
    assert min(matched[name] for name in patterns) > 5, matched


def test_what_is_lowered_makes_sense(patterns: dict[str, Pattern]) -> None:
    @settings(SETTINGS, max_examples=20)
    @given(**GRAPHS)
    @example(steps=ALL, results=[0])
    def holds(steps: list[tuple[str, int, int, Literal]], results: list[int]) -> None:
        made = rewritten(drawn(steps, results), patterns, ())
        lowered = with_origins(lower(made.graph), made)
        graph_checks.check_lowered(lowered)
        assert KernelGraph.from_json(lowered.to_json()) == lowered
        told = {name for item in lowered.nodes for name in lowered.together(item.parent)}
        assert told <= {node.name for node in made.captured.nodes}
        for match in (match for each in made.rewrites for match in each.matches):
            assert told.isdisjoint(match.nodes) or told.issuperset(match.nodes), "all of a match, unless it is unused"

    holds()
