"""A small layered layout: boxes of given sizes, edges from above to below.

Layers by the longest way from the top; long edges pass every layer between through a point of their own, so that they
run around boxes and not behind them; a few sweeps of medians untangle the order; each layer is then set as close to
its neighbours above and below as it goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from statistics import median

Edge = tuple[str, str]
Point = tuple[float, float]

_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Box:
    """The place of a node: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes by name, the points each edge passes between its ends, and the size of the whole."""

    boxes: dict[str, Box]
    bends: dict[Edge, tuple[Point, ...]]
    width: float
    height: float


def layered(sizes: Mapping[str, Point], edges: Sequence[Edge], *, gap: float = 18, step: float = 30) -> Layout:
    """Lays out an acyclic graph. `gap` is the room between neighbours, `step` that between layers."""
    edges = [edge for edge in dict.fromkeys(edges) if edge[0] in sizes and edge[1] in sizes and edge[0] != edge[1]]
    depth = _depths(list(sizes), edges)
    chains, links, all_sizes = _with_passages(sizes, edges, depth)
    layers = _ordered(depth, links)
    xs = _placed(layers, links, all_sizes, gap)
    boxes, floor, passing, top = dict[str, Box](), dict[str, float](), dict[str, tuple[Point, Point]](), 0.0
    for layer in layers:
        height = max(all_sizes[name][1] for name in layer)
        for name in layer:
            width, own = all_sizes[name]
            if name in sizes:
                floor[name] = top + height
                boxes[name] = Box(xs[name], top + (height - own) / 2, width, own)
            else:
                x = xs[name] + width / 2
                passing[name] = (x, top), (x, top + height)  # straight through the layer, beside its boxes
        top += height + step
    ways = {
        edge: [(boxes[edge[0]].middle, floor[edge[0]]), *(point for name in chain for point in passing[name])]
        for edge, chain in chains.items()
    }
    left = min([*(box.x for box in boxes.values()), *(x for way in ways.values() for x, _ in way)], default=0.0)
    boxes = {name: Box(box.x - left, box.y, box.width, box.height) for name, box in boxes.items()}
    bends = {edge: tuple((x - left, y) for x, y in way) for edge, way in ways.items()}
    right = max([0.0, *(box.x + box.width for box in boxes.values()), *(x for way in bends.values() for x, _ in way)])
    return Layout(boxes, bends, right, max((box.bottom for box in boxes.values()), default=0.0))


def _depths(names: list[str], edges: Sequence[Edge]) -> dict[str, int]:
    """Box -> its layer, by the longest way from the top. Boxes on none of the longest ways sink to just above their
    first reader.

    A weight, or a kernel that prepares one, then stands where it is used, and not all of them in one row at the top.
    """
    depth = dict.fromkeys(names, 0)
    above, below = _neighbours(depth, edges)
    order = list(TopologicalSorter(above).static_order())
    for name in order:
        depth[name] = max((depth[source] + 1 for source in above[name]), default=0)
    longest = dict[str, int]()  # the longest way from each box down
    for name in reversed(order):
        longest[name] = max((longest[target] + 1 for target in below[name]), default=0)
    most = max(longest.values(), default=0)
    fixed = set[str]()
    for name in order:
        if longest[name] == most or any(source in fixed for source in above[name]):
            fixed.add(name)
    for name in reversed(order):
        if name not in fixed and below[name]:
            depth[name] = min(depth[target] for target in below[name]) - 1
    return depth


def _with_passages(
    sizes: Mapping[str, Point], edges: Sequence[Edge], depth: dict[str, int]
) -> tuple[dict[Edge, tuple[str, ...]], list[Edge], dict[str, Point]]:
    """Every edge as a chain over all layers between its ends; `depth` gains the points in between."""
    chains: dict[Edge, tuple[str, ...]] = {}
    links: list[Edge] = []
    all_sizes = dict(sizes)
    for number, (source, target) in enumerate(edges):
        chain = [f"\0{number}:{layer}" for layer in range(depth[source] + 1, depth[target])]
        for layer, name in enumerate(chain, start=depth[source] + 1):
            depth[name], all_sizes[name] = layer, (10.0, 0.0)
        chains[source, target] = tuple(chain)
        links += pairwise([source, *chain, target])
    return chains, links, all_sizes


def _ordered(depth: Mapping[str, int], links: Sequence[Edge]) -> list[list[str]]:
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, layer in depth.items():
        layers[layer].append(name)
    above, below = _neighbours(depth, links)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else layers[::-1]:
            place = {name: number for other in layers for number, name in enumerate(other)}
            near = above if down else below
            rank = {name: _middle([place[n] for n in near[name]], place[name]) for name in layer}
            layer.sort(key=rank.__getitem__)
    return layers


def _neighbours(names: Mapping[str, int], links: Sequence[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = {name: [] for name in names}
    below: dict[str, list[str]] = {name: [] for name in names}
    for source, target in links:
        below[source].append(target)
        above[target].append(source)
    return above, below


def _middle(places: Sequence[float], fallback: float) -> float:
    return median(places) if places else fallback


def _placed(layers: list[list[str]], links: Sequence[Edge], sizes: Mapping[str, Point], gap: float) -> dict[str, float]:
    """Left edges: every box towards the median of its neighbours, without leaving its order."""
    xs: dict[str, float] = {}
    for layer in layers:
        at = 0.0
        for name in layer:
            xs[name] = at
            at += sizes[name][0] + gap
    above, below = _neighbours(dict.fromkeys(xs, 0), links)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for layer in layers if down else layers[::-1]:
            wanted = {
                name: _middle([xs[n] + sizes[n][0] / 2 for n in near[name]], xs[name] + sizes[name][0] / 2)
                - sizes[name][0] / 2
                for name in layer
            }
            _spread(layer, wanted, xs, sizes, gap)
    return xs


def _spread(
    layer: list[str], wanted: Mapping[str, float], xs: dict[str, float], sizes: Mapping[str, Point], gap: float
) -> None:
    """Places boxes close to the wanted positions, without overlap: the mean of pushing from the left and the right."""
    left: dict[str, float] = {}
    at = float("-inf")
    for name in layer:
        left[name] = max(wanted[name], at)
        at = left[name] + sizes[name][0] + gap
    at = float("inf")
    for name in reversed(layer):
        right = min(wanted[name], at - sizes[name][0] - gap)
        at = right
        xs[name] = (left[name] + right) / 2
