"""Records as JSON: what is written is read, and what is not understood is refused."""

from __future__ import annotations

import json
import math

import pytest

import workbench as wb
from simulator import Machine
from workbench.ir import (
    AtenGraph,
    Input,
    Literal,
    Node,
    Origin,
    RecordFormatError,
    Ref,
    Sequence,
    TensorType,
    Tree,
    codec,
)

CONSTANT = Tree("constant", constant=Literal("float", 1.0))
MACHINES = [str(name) for name in wb.machines()]
GRAPH = AtenGraph(
    name="f",
    inputs=(Input("x", "user", "x"),),
    nodes=(
        Node(
            "y",
            "aten.clamp.default",
            (Ref("x"), Literal("float", -math.inf), Sequence((Literal("int", 1), Sequence(())))),
            {"max": Literal("none", None), "flag": Literal("bool", True), "text": Literal("str", "inf")},
            ("y",),
            Origin("y", "aten.clamp.default", "a.py", 3, "block"),
        ),
    ),
    outputs=("y", "y"),
    tree=Tree("dict", ("a", "b"), (Tree("leaf"), Tree("list", (), (Tree("leaf"), CONSTANT)))),
    types={"x": TensorType((2, 3), "f32", (3, 1)), "y": TensorType((2, 3), "f32", (3, 1), 4)},
    input_tree=Tree("tuple", (), (Tree("tuple", (), (Tree("leaf"),)), Tree("dict"))),
)  # fmt: skip


def test_a_record_comes_back_equal_with_the_same_types() -> None:
    found = AtenGraph.from_json(GRAPH.to_json())
    assert found == GRAPH
    assert [type(arg) for arg in found.nodes[0].args] == [Ref, Literal, Sequence]
    assert found.nodes[0].args[1] == Literal("float", -math.inf)
    assert type(found.tree.items[1].items[1].constant.value) is float  # type: ignore[union-attr]
    assert found.nodes[0].kwargs["flag"].value is True  # type: ignore[union-attr]


def test_the_same_record_is_the_same_text() -> None:
    assert AtenGraph.from_json(GRAPH.to_json()).to_json() == GRAPH.to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body.update(version=99), "version 1, found .* version 99. Make the file again"),
        (lambda body: body.update(format="other"), "found 'other'"),
        (lambda body: body.update(extra=1), "expected the keys"),
        (lambda body: body["record"].update(extra=1), r"unknown: \['extra'\]"),
        (lambda body: body["record"].pop("tree"), r"missing: \['tree'\]"),
        (lambda body: body["record"].update(name=3), "expected str, found 3"),
        (lambda body: body["record"]["nodes"][0]["args"][0].update({"is": "Pickle"}), "unknown record 'Pickle'"),
        (lambda body: body["record"].update(nodes={}), "expected a list"),
    ],
)
def test_what_is_not_understood_is_refused(change: object, message: str) -> None:
    body = json.loads(GRAPH.to_json())
    change(body)  # type: ignore[operator]
    with pytest.raises(RecordFormatError, match=message):
        AtenGraph.from_json(json.dumps(body))


def test_a_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(RecordFormatError, match="not JSON"):
        AtenGraph.from_json("{")


def test_the_end_of_a_slice_comes_back() -> None:
    """PyTorch writes it as the last number of 64 bits."""
    for value in (2**63 - 1, -(2**63)):
        literal = Literal("int", value)
        assert codec.decode(Literal, codec.encode(literal)) == literal
    with pytest.raises(RecordFormatError):
        codec.decode(Literal, {"kind": "int", "value": 2**63})


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_read_as_it_was_written(name: str) -> None:
    machine = wb.machine(name)
    assert codec.decode(Machine, json.loads(json.dumps(codec.encode(machine)))) == machine
