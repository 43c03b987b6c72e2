"""A trial of torch-mlir's import: a worker process imports the nodes, sent as JSON, before this process does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.ground.faults.messages import Message
from workbench.ground.faults.trial import Trial
from workbench.ir import Node, TensorType, codec
from workbench.ir.value_names import with_names


@dataclass(frozen=True, slots=True)
class Piece:
    """Nodes as a graph of their own, with renamed values."""

    nodes: tuple[Node, ...]
    types: dict[str, TensorType]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @staticmethod
    def of(nodes: Sequence[Node], types: Mapping[str, TensorType], outputs: Sequence[str]) -> Piece:
        """Makes a piece whose names depend only on the order of the nodes, so that equal work gives equal pieces."""
        names: dict[str, str] = {}
        result = {value for node in nodes for value in node.results}
        for node in nodes:
            for value in (*node.operands, *node.results):
                names.setdefault(value, f"v{len(names)}")
        return Piece(
            tuple(_neutral(node, names) for node in nodes),
            {new: types[old] for old, new in names.items()},
            tuple(new for old, new in names.items() if old not in result),
            tuple(names[value] for value in outputs),
        )


def _neutral(node: Node, names: Mapping[str, str]) -> Node:
    name = names[node.results[0]]
    return Node(
        name,
        node.op,
        tuple(with_names(arg, names) for arg in node.args),
        {key: with_names(arg, names) for key, arg in sorted(node.kwargs.items())},
        tuple(names[value] for value in node.results),
        replace(node.origin, node=name, file=None, line=None, module=""),
    )


def import_trial(
    kernel: str,
    nodes: Sequence[Node],
    types: Mapping[str, TensorType],
    outputs: Sequence[str],
) -> Trial:
    """Returns the trial that shows if torch-mlir imports these nodes without a crash."""
    body: dict[str, Any] = {"piece": codec.encode(Piece.of(nodes, types, outputs))}
    places = tuple(dict.fromkeys(f"{node.origin.op} at {node.origin.place}" for node in nodes))
    return Trial("import", json.dumps(body, sort_keys=True), lambda: Message(body), kernel, places)
