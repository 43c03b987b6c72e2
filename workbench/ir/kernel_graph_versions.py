"""The data of lowered graphs of versions before today's, as today's."""

from __future__ import annotations

from typing import Any, Final, cast


def without_layouts(graph: object) -> object:
    """The data of a lowered graph of version 3, in which all tensors lay as PyTorch has them."""
    return without_rewrites({**cast("dict[str, Any]", graph), "layouts": []}) if isinstance(graph, dict) else graph


def without_rewrites(graph: object) -> object:
    """The data of a lowered graph of version 4, which had neither graph passes nor patterns."""
    return without_parts(
        {**cast("dict[str, Any]", graph), "rewrites": [], "merged": {}} if isinstance(graph, dict) else graph
    )


def without_parts(data: object) -> object:
    """The data of any record from before training steps: no op had a part, and no graph kept what it saves."""
    if isinstance(data, list):
        return [without_parts(item) for item in cast("list[object]", data)]
    if not isinstance(data, dict):
        return data
    found = {key: without_parts(value) for key, value in cast("dict[str, object]", data).items()}
    if found.keys() - {"is"} == _ORIGIN:
        found["part"] = ""
    if found.keys() >= _GRAPH:
        found["saved"] = []
        found["host_work"] = []
    return _with_work(found)


def without_host_work(data: object) -> object:
    """The data of any record from before the work between graphs was noted."""
    if isinstance(data, list):
        return [without_host_work(item) for item in cast("list[object]", data)]
    if not isinstance(data, dict):
        return data
    found = {key: without_host_work(value) for key, value in cast("dict[str, object]", data).items()}
    if found.keys() >= {*_GRAPH, "saved"}:
        found["host_work"] = []
    return _with_work(found)


def _with_work(found: dict[str, object]) -> dict[str, object]:
    """The data of any record, with the field that steps on the host did not have."""
    return {**found, "work": []} if found.keys() == _HOST_STEP else found


_ORIGIN: Final = {"node", "op", "file", "line", "module"}
_HOST_STEP: Final = {"kernel", "op", "bytes_in", "bytes_out", "flops"}
_GRAPH: Final = {
    "inputs",
    "nodes",
    "outputs",
    "tree",
    "types",
    "mutations",
    "aliases",
    "capture",
    "input_tree",
    "numbers",
}

EARLIER: Final = {3: without_layouts, 4: without_rewrites, 5: without_parts, 6: without_host_work}
"""The version of a lowered graph -> what makes its data today's."""
