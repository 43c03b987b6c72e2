"""The captured and the lowered graph as pictures: own layout, readable up to about sixty boxes.

A larger captured graph is drawn by module: the nodes of an `nn.Module` become one box, at the depth at which all fits.
A larger lowered graph is drawn with closed kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.explaining.views.graphs.graph_tables import place, types_text
from workbench.explaining.views.graphs.layered_layout import Box as Place
from workbench.explaining.views.graphs.layered_layout import Edge, Layout, Point, layered
from workbench.ground.basics.picture import Axis, Box, Line, Picture, Told, Words
from workbench.ir import AtenGraph, Fusion, Kernel, KernelGraph, LoweredNode, Node

MOST = 60
"""The most boxes that are still readable side by side."""
_HEAD_LETTER, _LETTER, _LINE, _PAD, _MARGIN = 7.9, 6.5, 15.0, 9.0, 6.0
"""Widths of a letter in the first line, which is bold, and in the others, for the widest of the usual fonts; then the
height of a line, and margins."""
_GIVEN, _MADE = "h5", "h4"
_ROUTES = {"automatic": "h0", "builder": "h2", "template": "h1", "host": "k-HOST", "view": "soft"}


def route_colour(route: str) -> str:
    """The colour of a route in the picture and in its legend."""
    return _ROUTES.get(route, "soft")


@dataclass(frozen=True)
class Shape:
    """A box: lines of text (the first is the name), the colour of its edge, its tooltip."""

    lines: tuple[str, ...]
    colour: str
    title: str = ""
    inside: Layout | None = None
    """Boxes drawn inside, below the text."""

    @property
    def size(self) -> Point:
        head, *others = (len(line) for line in self.lines)
        width = max(head * _HEAD_LETTER, max(others, default=0) * _LETTER) + 2 * _PAD
        height = len(self.lines) * _LINE + 9
        if self.inside:
            return max(width, self.inside.width + 2 * _PAD), height + self.inside.height + _PAD
        return width, height


@dataclass
class Graph:
    """Boxes and arrows by name, before they have a place."""

    shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])
    edges: dict[Edge, str] = field(default_factory=dict[Edge, str])
    """Arrow -> its tooltip."""
    refused: set[Edge] = field(default_factory=set[Edge])
    """Arrows that fusion looked at and left between kernels: dashed."""
    inner: dict[str, Shape] = field(default_factory=dict[str, Shape])
    """Boxes inside others."""


def captured_picture(graph: AtenGraph) -> Picture:
    """The picture with one box for each ATen call, or one for each module if there are too many calls."""
    groups = _groups(graph)
    picture, owner = Graph(), dict[str, str]()
    for name, members in groups.items():
        picture.shapes[name] = _call(graph, members[0]) if len(members) == 1 else _module(name, members)
        owner |= {value: name for node in members for value in node.results}
    _add_inputs(picture, graph, owner)
    for name, members in groups.items():
        for value in (value for node in members for value in node.operands):
            if owner.get(value, name) != name:
                picture.edges[owner[value], name] = f"{value}: {graph.types[value]}"
    _add_results(picture, graph, owner)
    return _drawn(picture, f"ATen graph of {graph.name}")


def lowered_picture(lowered: KernelGraph) -> Picture:
    """Nodes coloured by route inside their kernels; arrows that fusion refused are dashed and say why."""
    items = {item.node.name: item for item in lowered.nodes}
    closed = len(items) > MOST
    picture = Graph()
    for name, item in items.items():
        title = f"{name} = {item.node.op}, {item.route}" + (f", {item.rule}" if item.rule else "")
        shape = Shape((name, item.node.op), route_colour(item.route), title)
        if item.kernel or not closed:
            (picture.inner if item.kernel else picture.shapes)[name] = shape
    for kernel in lowered.kernels:
        picture.shapes[kernel.name] = _kernel(kernel, items, picture.inner, closed=closed)
    if closed:
        picture.inner = {}
    box = {name: item.kernel or name for name, item in items.items()}
    owner = {value: box[name] for name, item in items.items() for value in item.node.results}
    _add_inputs(picture, lowered.captured, owner)
    maker = {value: item.node for item in items.values() for value in item.node.results}

    def behind(value: str) -> list[str]:
        """The boxes that a value comes from; views and assembled results have no box, so those of their operands
        count."""
        if owner.get(value) in picture.shapes:
            return [owner[value]]
        operands = maker[value].operands if value in maker else ()
        return list(dict.fromkeys(source for operand in operands for source in behind(operand)))

    for name, item in items.items():
        for value in item.node.operands if box[name] in picture.shapes else ():
            for source in behind(value):
                if source != box[name]:
                    picture.edges[source, box[name]] = f"{value}: {lowered.types[value]}"
    _refusals(picture, lowered.fusions, box)
    _add_results(picture, lowered.captured, {value: sources[0] for value in owner if (sources := behind(value))})
    return _drawn(picture, f"kernels of {lowered.captured.name}")


def _kernel(kernel: Kernel, items: Mapping[str, LoweredNode], shapes: Mapping[str, Shape], *, closed: bool) -> Shape:
    head = (kernel.name, kernel.kind)
    if closed:
        routes = Counter(items[name].route for name in kernel.nodes)
        colour = route_colour(routes.most_common(1)[0][0])
        return Shape((*head, f"{len(kernel.nodes)} nodes"), colour, ", ".join(kernel.nodes))
    maker: dict[str, str] = {}
    edges: list[Edge] = []
    for name in kernel.nodes:
        node = items[name].node
        edges += [(maker[value], name) for value in node.operands if value in maker]
        maker |= dict.fromkeys(node.results, name)
    return Shape(head, "line", "", layered({n: shapes[n].size for n in kernel.nodes}, edges, gap=10, step=15))


def _refusals(picture: Graph, fusions: tuple[Fusion, ...], box: Mapping[str, str]) -> None:
    for fusion in fusions:
        edge = box.get(fusion.producer, ""), box.get(fusion.consumer, "")
        if not fusion.fused and edge in picture.edges and edge not in picture.refused:
            picture.refused.add(edge)
            picture.edges[edge] += f"\nnot fused: {fusion.reason} ({fusion.rule})"


def _groups(graph: AtenGraph) -> dict[str, list[Node]]:
    """Box -> its nodes: one box for each node if there is room, else one for each module, as deep as fits."""
    if len(graph.nodes) <= MOST:
        return {node.name: [node] for node in graph.nodes}
    deepest = max((node.origin.module.count(".") + 1 for node in graph.nodes if node.origin.module), default=0)
    for depth in range(deepest, -1, -1):
        groups = _runs(graph, depth)
        if len(groups) <= MOST:
            return groups
    return _runs(graph, 0)


def _runs(graph: AtenGraph, depth: int) -> dict[str, list[Node]]:
    """Nodes of the same module path, cut to `depth` parts, that follow each other; so no arrow can go backwards."""
    groups: dict[str, list[Node]] = {}
    last, label = None, ""
    for node in graph.nodes:
        path = ".".join(node.origin.module.split(".")[:depth]) if node.origin.module else ""
        if path != last:
            count = sum(name.partition(" #")[0] == (path or graph.name) for name in groups)
            last, label = path, (path or graph.name) + (f" #{count + 1}" if count else "")
        groups.setdefault(label, []).append(node)
    return groups


def _call(graph: AtenGraph, node: Node) -> Shape:
    kinds = types_text(node, graph.types)
    where = f"{place(node)} {node.origin.module}".strip()
    return Shape((node.name, node.op, kinds or "?"), "accent", where)


def _module(name: str, members: list[Node]) -> Shape:
    counts = Counter(node.op.removeprefix("aten.").partition(".")[0] for node in members)
    shown = ", ".join(f"{count} {op}" if count > 1 else op for op, count in counts.most_common(3))
    return Shape((name, f"{len(members)} calls", shown), "h2", ", ".join(node.name for node in members))


def _add_inputs(picture: Graph, graph: AtenGraph, owner: dict[str, str]) -> None:
    """Adds a box for each user input; for parameters and the like too, if there are few boxes."""
    used = {value for node in graph.nodes for value in node.operands} | set(graph.outputs)
    for item in graph.inputs:
        own = item.kind == "user"
        if item.value in used and (own or len(graph.nodes) + len(graph.inputs) <= MOST):
            name = f"in {item.value}"
            lines = (item.path, str(graph.types[item.value]))
            picture.shapes[name] = Shape(lines, _GIVEN if own else "line", item.kind)
            owner[item.value] = name


def _add_results(picture: Graph, graph: AtenGraph, owner: Mapping[str, str]) -> None:
    for number, value in enumerate(graph.outputs):
        name = f"out {number}"
        if owner.get(value):
            title = "result" if len(graph.outputs) == 1 else f"result {number}"
            picture.shapes[name] = Shape((title, str(graph.types[value])), _MADE)
            picture.edges[owner[value], name] = f"{value}: {graph.types[value]}"


def _drawn(graph: Graph, label: str) -> Picture:
    layout = layered({name: shape.size for name, shape in graph.shapes.items()}, list(graph.edges))
    marks = [_arrow(layout, edge, title, dashed=edge in graph.refused) for edge, title in graph.edges.items()]
    for name, shape in graph.shapes.items():
        marks.append(_box(shape, layout.boxes[name], 0, 0, name))
        if shape.inside:
            marks += _inside(shape, shape.inside, layout.boxes[name], graph)
    right, bottom = layout.width + _MARGIN, layout.height + _MARGIN
    axes = Axis(-_MARGIN, right), Axis(bottom, -_MARGIN)
    return Picture(label, right + _MARGIN, bottom + _MARGIN, *axes, tuple(marks), grows=False)


def _inside(shape: Shape, inside: Layout, outer: Place, graph: Graph) -> list[Told]:
    x = outer.x + (outer.width - inside.width) / 2
    y = outer.y + len(shape.lines) * _LINE + 9
    marks = [_arrow(inside, edge, "", x=x, y=y) for edge in inside.bends]
    return marks + [_box(graph.inner[name], box, x, y, name, filled=True) for name, box in inside.boxes.items()]


def _box(shape: Shape, box: Place, x: float, y: float, name: str, *, filled: bool = False) -> Told:
    """A rectangle with its lines of text; a kernel's text stands to the left."""
    left, top = box.x + x, box.y + y
    at, anchor = (left + _PAD, "start") if shape.inside else (left + box.width / 2, "middle")
    raised = bool(shape.inside) or filled
    fill, opacity = (shape.colour, 0.13) if filled else ("raised" if raised else "ground", 1.0)
    sides = left, left + box.width, top, top + box.height
    paler = "ink" if raised else "soft"  # "soft" is too pale for anything but the plain ground
    words = [
        Words(at, top + _LINE, shape.lines[0], anchor, size=12, bold=True),
        *(Words(at, top + _LINE * place, line, anchor, colour=paler) for place, line in enumerate(shape.lines[1:], 2)),
    ]
    return Told(shape.title, (Box(*sides, fill, opacity, shape.colour, 1.3, corner=5), *words), name)


def _arrow(layout: Layout, edge: Edge, title: str, *, dashed: bool = False, x: float = 0, y: float = 0) -> Told:
    """A smooth line from the source's lower edge over the points between to the target's upper edge, with a head."""
    source, target = layout.boxes[edge[0]], layout.boxes[edge[1]]
    way = [(source.middle, source.bottom), *layout.bends.get(edge, ()), (target.middle, target.y - 4)]
    way = [(px + x, py + y) for px, py in way]
    ex, ey = way[-1]
    head = Line(((ex - 3.5, ey - 3), (ex + 3.5, ey - 3), (ex, ey + 4)), "", fill="soft")
    return Told(title, (Line(tuple(way), "soft", 1.2, (5, 4) if dashed else (), smooth=True), head))
