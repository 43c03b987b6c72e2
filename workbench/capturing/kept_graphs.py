"""Records of captured graphs, kept on disk from one process to the next.

Dynamo has to read the function each time: what it may depend on is all that Python holds. But PyTorch's two other
passes through a program, the export and the one that makes it functional, see Dynamo's graph and nothing of the
function, and take most of a capture. So what they make is kept by a key of all that they see (`graph_key.py`).

An entry is the record as JSON, without the integers of inputs; where the record's inputs are found among the tensors
of a call; and which nodes have no place but the line that asked for the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch

from workbench.capturing.capture_state import Capturing
from workbench.capturing.graph_key import graph_key, only_pytorchs
from workbench.capturing.record_nodes import Recorded, Slot, numbers_of
from workbench.ground.environment.call_sites import Place
from workbench.ground.environment.disk_store import Store, made_by, packed, unpacked, user_store
from workbench.ir import AtenGraph, RecordFormatError, Tree, codec


@dataclass(frozen=True)
class KeptGraph:
    """Where the record of one graph is kept, or would be."""

    store: Store
    key: str
    slots: tuple[Slot, ...]
    """All tensors that the record's inputs may be: the user's, those given to the graph, and results."""
    called: Place

    def get(self) -> Recorded | None:
        data = self.store.get(self.key)
        if data is None:
            return None
        try:
            graph, inputs, unplaced = _unpacked(data)
            slots = tuple(self.slots[place] for place in inputs)
            nodes = list(graph.nodes)
            for number in unplaced:
                origin = replace(nodes[number].origin, file=self.called[0], line=self.called[1])
                nodes[number] = replace(nodes[number], origin=origin)
        except (ValueError, KeyError, TypeError, IndexError, RecordFormatError):
            return None
        if len(slots) != len(graph.inputs) or not only_pytorchs(graph):
            return None
        numbers = numbers_of([each.value for each in graph.inputs], slots)
        return Recorded(replace(graph, nodes=tuple(nodes), numbers=numbers), slots)

    def put(self, recorded: Recorded) -> None:
        """Keeps a record; not one with an input that the call does not show, such as a constant."""
        first = {id(slot.tensor): place for place, slot in reversed(list(enumerate(self.slots)))}
        places = [first.get(id(slot.tensor)) for slot in recorded.slots]
        if None not in places and only_pytorchs(recorded.graph):
            record = codec.encode(replace(recorded.graph, numbers=()))
            origins = enumerate(node.origin for node in recorded.graph.nodes)
            unplaced = [number for number, origin in origins if (origin.file, origin.line) == self.called]
            self.store.put(self.key, packed({"graph": record, "inputs": places, "unplaced": unplaced}))


def kept_graph(
    trace: Capturing,
    gm: torch.fx.GraphModule,
    given: Sequence[torch.Tensor],
    leaves: Sequence[int | Slot],
    tree: Tree,
) -> KeptGraph | None:
    """The place for the record of a graph; None where nothing is kept, or no key covers the graph."""
    store = user_store("graphs")
    if store is None:
        return None
    inside = [trace.slot_of(tensor, f"constant{number}") for number, tensor in enumerate(given)]
    key = graph_key(trace, gm, given, inside, leaves, tree)
    if key is None:
        return None
    slots = (*trace.user, *inside, *(leaf for leaf in leaves if isinstance(leaf, Slot)))
    return KeptGraph(store, f"{key} {made_by()}", slots, trace.called)


def _unpacked(data: bytes) -> tuple[AtenGraph, Sequence[int], Sequence[int]]:
    entry = cast("dict[str, object]", unpacked(data))
    inputs, unplaced = (codec.decode(tuple[int, ...], entry[name]) for name in ("inputs", "unplaced"))
    return codec.decode(AtenGraph, entry["graph"]), inputs, unplaced
