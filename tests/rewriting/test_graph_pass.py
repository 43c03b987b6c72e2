"""Graph passes: what they may do, what they may not, and what a journey tells of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests.rewriting import own_ops
from tests.rewriting.own_ops import ops
from workbench.ground import errors
from workbench.ground.environment.registered import REWRITES
from workbench.ir import AtenGraph, Literal, Mutation, Node, Ref, TensorType

Pass = Callable[[AtenGraph], Any]


pytestmark = [
    pytest.mark.usefixtures("own_scope"),
    pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute"),
]


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2.0) + 1


def traced(function: Callable[..., object] = program, *shapes: tuple[int, ...], **options: Any) -> wb.Journey:
    return own_ops.traced(function, *(shapes or ((6, 8),)), **options)


def changing(name: str, **fields: Any) -> Pass:
    """A pass that changes some fields of the node of this name."""

    def run(graph: AtenGraph) -> AtenGraph:
        nodes = (replace(node, **fields) if node.name == name else node for node in graph.nodes)
        return replace(graph, nodes=tuple(nodes))

    return run


def test_a_pass_changes_nodes_and_is_told():
    wb.graph_pass("doubling by adding")(changing("mul", op="aten.add.Tensor", args=(Ref("x"), Ref("x"))))
    j = traced()
    assert ops(j) == ["add", "relu", "add"] and j.check().ok
    (row,) = j.lowered.changes.itertuples()
    assert (row.name, row.change, row.node, row.op, row.captured) == (
        *("doubling by adding", "changed", "mul", "aten.add.Tensor"),
        ("mul",),
    )
    (told,) = j.lowered.rewrites.itertuples()
    assert (told.kind, told.on, told.removed, told.added, told.changed) == ("pass", True, 0, 0, 1)
    assert "pass 'doubling by adding': changed mul" in j.lowered.text()
    assert "doubling by adding" in j.lowered.html()
    off = j.with_(fusion={"off": ["doubling by adding"]})
    assert ops(off) == ["mul", "relu", "add"] and not off.lowered.rewrites.on[0]
    assert ops(j.with_(fusion="none")) == ["add", "relu", "add"], "no fusion, so 'none' is not about it"


def test_passes_and_patterns_run_in_the_order_of_their_registration():
    function, example = own_ops.EXAMPLES[own_ops.scaled_relu_op]
    to_relu = changing("clamp_min", op="aten.relu.default", args=(Ref("mul"),))
    wb.graph_pass("relu")(to_relu)
    wb.pattern("scaled relu", op=own_ops.scaled_relu_op, example=example)(function)
    j = traced(lambda x: torch.clamp_min(x * 2.0, 0.0) + 1)
    assert ops(j) == ["scaled_relu", "add"] and j.check().ok
    assert j.lowered.changes.name.unique().tolist() == ["relu", "scaled relu"]
    assert set(j.select("mul").nodes) == {"mul", "clamp_min"}
    REWRITES.put_back(dict(reversed(REWRITES.now().items())))
    k = traced(lambda x: torch.clamp_min(x * 2.0, 0.0) + 1)
    assert ops(k) == ["mul", "relu", "add"]


def test_nodes_that_are_gone_belong_to_those_in_their_place():
    def one_for_two(graph: AtenGraph) -> AtenGraph:
        """x * 2 and its relu become one op of a person's own, under another name."""
        nodes = list(graph.nodes)
        new = Node("fused", "rewriting_tests.scaled_relu.default", (Ref("x"), Literal("float", 2.0)), {}, ("fused",),
                   nodes[1].origin)  # fmt: skip
        last = replace(nodes[2], args=(Ref("fused"), *nodes[2].args[1:]))
        return replace(graph, nodes=(new, last))

    wb.graph_pass("one for two")(one_for_two)
    j = traced()
    assert ops(j) == ["scaled_relu", "add"] and j.check().ok
    assert j.select("mul").nodes == ("mul", "relu") and j.select("mul").spans == j.select("relu").spans
    rows = {row.node: row for row in j.lowered.changes.itertuples()}
    assert rows["fused"].captured == ("mul", "relu") and rows["mul"].change == "removed"
    assert j.lowered.kernels[0].title.startswith("mul + relu")


def test_a_node_that_is_taken_out_says_by_what():
    def no_relu(graph: AtenGraph) -> AtenGraph:
        first, _, last = graph.nodes
        return replace(graph, nodes=(first, replace(last, args=(Ref("exp"), *last.args[1:]))))

    wb.graph_pass("no relu")(no_relu)
    j = traced(lambda x: torch.relu(torch.exp(x)) + 1)
    assert ops(j) == ["exp", "add"] and j.check().ok
    (absorbed,) = j.select("relu").absorbed
    assert absorbed.reason == "the pass 'no relu' took it out of the graph"


def test_results_keep_their_names_whatever_a_pass_calls_them():
    def after(graph: AtenGraph) -> AtenGraph:
        """A negation behind each result: `new` for the first, and the negated first again for the second."""
        first = graph.outputs[0]
        origin = graph.node(first).origin
        new = Node("new", "aten.neg.default", (Ref(first),), {}, ("new",), origin)
        return replace(graph, nodes=(*graph.nodes, new), outputs=("new", first))

    wb.graph_pass("after")(after)
    j = traced(lambda x: (torch.exp(x), torch.sin(x)))
    x = torch.randn(6, 8)
    negated, plain = j.run(x)
    torch.testing.assert_close(negated, -torch.exp(x))
    torch.testing.assert_close(plain, torch.exp(x))
    assert not j.check().ok, "and the check says that this is not what the function returns"

    def to_inputs(graph: AtenGraph) -> AtenGraph:
        return replace(graph, outputs=(graph.inputs[0].value,) * 2)

    REWRITES.put_back({})
    wb.graph_pass("to inputs")(to_inputs)
    given, same = traced(lambda x: (torch.exp(x), torch.sin(x))).run(x)
    assert torch.equal(given, x) and torch.equal(same, x)
    assert len({each.data_ptr() for each in (given, same, x)}) == 3, "each has memory of its own, as the function's"


def test_a_saved_journey_needs_no_pass(tmp_path: Path):
    wb.graph_pass("doubling by adding")(changing("mul", op="aten.add.Tensor", args=(Ref("x"), Ref("x"))))
    j = traced()
    j.save(tmp_path / "it.journey")
    REWRITES.put_back({})
    loaded = wb.load(tmp_path / "it.journey")
    assert loaded.lowered.changes.equals(j.lowered.changes) and loaded.captured.table.equals(j.captured.table)
    assert ops(loaded.with_(fusion={"off": ["elementwise chain"]})) == ["add", "relu", "add"]
    assert ops(loaded.with_(fusion={"off": ["doubling by adding"]})) == ["mul", "relu", "add"]


def test_a_pass_that_writes_into_the_graph_leaves_the_captured_one():
    @wb.graph_pass("it")
    def _(graph: AtenGraph) -> AtenGraph:
        graph.types.clear()
        graph.nodes[-1].kwargs["alpha"] = Literal("int", 7)
        return graph

    j = traced()
    assert j.captured.record.nodes[-1].kwargs == {} and len(j.captured.record.types) == 4
    assert j.lowered.changes.change.tolist() == ["changed"]
    assert not j.check().ok, "the sum is another one"


def test_an_op_that_fails_on_the_host_is_named_and_not_the_one_it_took_the_place_of():
    wb.graph_pass("it")(changing("relu", op="aten.bernoulli.default"))
    with pytest.raises(errors.HostFailed, match=r"^aten.bernoulli.default for aten.relu.default at .* has no kernel"):
        traced().run(torch.full((6, 8), 9.0))


@pytest.mark.test_all
def test_a_graph_with_breaks_is_left_alone():
    calls: list[str] = []
    wb.graph_pass("seen")(lambda graph: calls.append(graph.name) or graph)

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    j = wb.trace(broken, torch.ones(6, 8))
    assert calls == [] and not j.lowered.rewrites.on[0] and j.check().ok


@pytest.mark.test_all
def test_a_pass_runs_on_what_torch_compile_gives():
    wb.graph_pass("doubling by adding")(changing("mul", op="aten.add.Tensor", args=(Ref("x"), Ref("x"))))
    compiled = torch.compile(program, backend="npu")
    x = torch.randn(6, 8)
    torch.testing.assert_close(compiled(x), program(x))
    (j,) = wb.last_journeys()
    assert ops(j) == ["add", "relu", "add"]


def new(graph: AtenGraph, **fields: Any) -> AtenGraph:
    """A new node before the last one, which reads it."""
    node = Node("new", "aten.neg.default", (Ref("relu"),), {}, ("new",), graph.nodes[1].origin)
    last = replace(graph.nodes[-1], args=(Ref("new"), Literal("int", 1)))
    return replace(graph, nodes=(*graph.nodes[:-1], replace(node, **fields), last))


def _raises(graph: AtenGraph) -> AtenGraph:
    raise ValueError("not today")


def _endless(graph: AtenGraph) -> AtenGraph:
    return _endless(graph)


BAD: dict[str, tuple[Pass, type[Exception], str]] = {
    "calls itself": (_endless, errors.GraphPassFailed, "graph pass 'it' at .*test_graph_pass.py:.*RecursionError"),
    "raises": (_raises, errors.GraphPassFailed, "graph pass 'it' at .*, for program, raised ValueError: not today"),
    "leaves": (lambda graph: sys.exit(3), errors.GraphPassFailed, "graph pass 'it' at .*, raised SystemExit: 3"),
    "nothing": (lambda graph: None, errors.GraphPassResult, "returned NoneType; did you forget to return the graph"),
    "a list": (lambda graph: list(graph.nodes), errors.GraphPassResult, "returned list; expected a captured graph"),
    "inputs": (lambda graph: replace(graph, inputs=()), errors.InvalidRewrite, "it changed 'inputs' of the graph"),
    "no node": (lambda graph: replace(graph, nodes=("relu",)), errors.InvalidRewrite, "'relu' among them"),
    "two names": (
        lambda graph: replace(graph, nodes=(*graph.nodes, graph.nodes[0])),
        errors.InvalidRewrite,
        "node 'mul': two nodes have this name",
    ),
    "later": (
        lambda graph: replace(graph, nodes=graph.nodes[::-1]),
        errors.InvalidRewrite,
        "node 'add': it reads 'relu', which is made only after it",
    ),
    "never": (
        changing("relu", args=(Ref("mull"),)),
        errors.InvalidRewrite,
        "node 'relu': it reads 'mull', which no node makes, and is no input",
    ),
    "made twice": (
        lambda graph: new(graph, results=("relu",)),
        errors.InvalidRewrite,
        "node 'new': it makes 'relu', which exists already",
    ),
    "unknown op": (
        changing("relu", op="aten.rellu.default"),
        errors.InvalidRewrite,
        "node 'relu': it calls 'aten.rellu.default': torch.ops.aten has no op 'rellu'; did you mean aten.relu",
    ),
    "no overload": (
        changing("mul", op="aten.mul"),
        errors.InvalidRewrite,
        "node 'mul': it calls 'aten.mul'; write one overload of aten.mul.Tensor",
    ),
    "other arguments": (
        changing("mul", op="aten.addmm.default"),
        errors.InvalidRewrite,
        "node 'mul': aten.addmm.default cannot be called like that",
    ),
    "too many results": (
        changing("relu", op="aten.var_mean.dim", results=("relu",)),
        errors.InvalidRewrite,
        "node 'relu': aten.var_mean.dim cannot be called like that|makes 2 tensors, and has 1 results",
    ),
    "type": (
        lambda graph: replace(new(graph), types={**graph.types, "new": TensorType.dense((6, 9), "f32")}),
        errors.InvalidRewrite,
        "node 'new': the graph says that 'new' is 6x9xf32, and aten.neg.default makes 6x8xf32",
    ),
    "origin": (
        lambda graph: new(graph, origin=replace(graph.nodes[0].origin, node="nowhere")),
        errors.InvalidRewrite,
        "node 'new': it is new, and its origin 'nowhere' is no node of the graph. Give it the origin of a node",
    ),
    "fewer results": (
        lambda graph: replace(graph, outputs=()),
        errors.InvalidRewrite,
        "the function returns 1 tensors, and 0 now",
    ),
    "no result": (
        lambda graph: replace(graph, outputs=("adde",)),
        errors.InvalidRewrite,
        "result 0 is 'adde', which no node makes",
    ),
    "shape of a result": (
        changing("add", op="aten.sum.default", args=(Ref("relu"),)),
        errors.InvalidRewrite,
        "result 0 was 'add' of 6x8xf32, and is 'add' of f32 now",
    ),
    "list of nodes": (
        lambda graph: replace(graph, nodes=[*graph.nodes[:-1], replace(graph.nodes[-1], op="aten.sub.Tensor")]),  # pyright: ignore
        errors.InvalidRewrite,
        r"its nodes are \[Node.*; expected a tuple of records of workbench.ir.Node",
    ),
    "nodes that end": (
        lambda graph: replace(graph, nodes=(node for node in graph.nodes)),  # pyright: ignore
        errors.InvalidRewrite,
        "its nodes are <generator .*; expected a tuple",
    ),
    "no outputs": (lambda graph: replace(graph, outputs=None), errors.InvalidRewrite, "its outputs are None"),  # pyright: ignore
    "no types": (lambda graph: replace(graph, types={"x": 5}), errors.InvalidRewrite, "its types are {'x': 5}"),  # pyright: ignore
    "no mutations": (lambda graph: replace(graph, mutations=None), errors.InvalidRewrite, "its mutations are None"),  # pyright: ignore
    "number": (
        changing("mul", args=(Ref("x"), 3.0)),
        errors.InvalidRewrite,
        r"node 'mul': its argument 3.0 is a plain value; expected a number as Literal\('float', 3.0\)",
    ),
    "text": (changing("relu", args=("mul",)), errors.InvalidRewrite, r"node 'relu': .* a tensor as Ref\('mul'\)"),
    "list of arguments": (changing("relu", args=[Ref("mul")]), errors.InvalidRewrite, "'relu': its args are .*a tuple"),
    "no keywords": (changing("relu", kwargs=None), errors.InvalidRewrite, "node 'relu': its kwargs are None"),
    "results as a text": (changing("relu", results="relu"), errors.InvalidRewrite, "'relu': its results are 'relu'"),
    "no origin": (changing("relu", origin=None), errors.InvalidRewrite, "node 'relu': its origin is None"),
    "no name": (lambda graph: new(graph, name=""), errors.InvalidRewrite, "its name is ''; expected a text"),
    "op itself": (
        changing("relu", op=torch.ops.aten.relu),
        errors.InvalidRewrite,
        "node 'relu': its op is <OpOverloadPacket.*; expected a text",
    ),
    "mutation": (
        lambda graph: replace(graph, mutations=(Mutation("x", "relu"),)),
        errors.InvalidRewrite,
        "the function changes nothing in place, and x now",
    ),
}


@pytest.mark.test_all(but=22)
@pytest.mark.parametrize("mistake", BAD)
def test_a_mistake_of_a_pass_is_one_error_that_names_it(mistake: str):
    function, kind, told = BAD[mistake]
    wb.graph_pass("it")(function)
    with pytest.raises(kind, match=told) as raised:
        traced()
    assert "graph pass 'it' at " in str(raised.value)


def test_a_registration_that_is_none_is_one_error():
    with pytest.raises(errors.BadRegistration, match="graph_pass\\(''\\): a pass has a name"):
        wb.graph_pass("")
    with pytest.raises(errors.BadRegistration, match="run is async; a pass must be synchronous"):

        @wb.graph_pass("it")  # type: ignore[arg-type]
        async def run(graph: AtenGraph) -> AtenGraph:
            return graph

    with pytest.raises(errors.BadRegistration, match="3 is no function"):
        wb.graph_pass("it")(3)  # type: ignore[type-var]
    with pytest.raises(errors.BadRegistration, match=r"at .*test_graph_pass.py:\d+ cannot be called with \(graph\)"):
        wb.graph_pass("it")(lambda graph, options: graph)  # type: ignore[arg-type]
    wb.graph_pass("it")(_raises)
    with pytest.raises(errors.RegistrationClash, match="there is a graph pass or pattern 'it' already"):
        wb.graph_pass("it")(own_ops.below_largest)  # type: ignore[arg-type]


def test_a_table_without_changes_says_whether_there_was_a_pass():
    with wb.ops.scope():
        wb.graph_pass("nothing to do")(lambda graph: graph)
        j = wb.trace(torch.tanh, torch.randn(8))
        with pytest.warns(errors.EmptyTable, match="no graph pass and no pattern changed anything"):
            assert j.lowered.changes.empty
        with pytest.warns(errors.EmptyTable, match="no pattern was registered when it was traced"):
            assert j.lowered.patterns.empty
