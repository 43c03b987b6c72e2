"""Which nodes may share a kernel: rules as data, and a legality check for whole groups.

A kernel makes exactly one value, unless it is opaque. Six kinds exist, by what anchors them:

elementwise   pointwise ops over one iteration space; gathers feed them
reduction     reductions over the same dims of one space, with the pointwise ops before, between and after them
contraction   one matrix product or convolution, followed by pointwise ops on its result
window        one pool, followed by pointwise ops on its result
tile          one template, with pointwise ops on the tiles it loads and stores
opaque        one op of which no rule knows what it does, alone: on the host, or registered as opaque

Creation ops, which read nothing, stand in any of the first three beside their one reader, in whatever shape it reads.

What an op is follows from its overload; for a node that somebody registered for, from the kind it was registered with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workbench.aten.automatic_route import class_of
from workbench.ir import Literal, Node, Sequence, TensorType

Shape = tuple[int, ...]
Classes = Mapping[str, str]
"""Node name -> class, for the nodes whose overload does not say it."""

NO_CLASSES: Classes = MappingProxyType({})


@dataclass(frozen=True)
class Rule:
    """Whether an edge whose producer and consumer are of these classes may fuse."""

    name: str
    producers: frozenset[str]
    consumers: frozenset[str]
    condition: Callable[[Candidate], str]
    """Why the group may not be, empty when it may."""
    text: str


@dataclass(frozen=True)
class Candidate:
    """A set of nodes that might become one kernel."""

    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    classes: Classes

    def of(self, kind: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node_class(node, self.classes) == kind)

    def shape(self, node: Node) -> Shape:
        return self.types[node.results[0]].shape

    def operand_shape(self, node: Node) -> Shape:
        return self.types[node.operands[0]].shape


def node_class(node: Node, classes: Classes = NO_CLASSES) -> str:
    """pointwise, gather, reduction, contraction, window, tile or opaque. A copy fuses as any pointwise op does."""
    found = classes.get(node.name) or class_of(node.op) or "opaque"
    return "pointwise" if found == "copy" else found


def reduced_dims(node: Node, rank: int) -> tuple[int, ...]:
    """The dims a reduction node reduces, sorted and counted from the front: its second argument, all without one."""
    given = node.args[1] if len(node.args) > 1 else Literal("none", None)
    items = given.items if isinstance(given, Sequence) else (given,) if given != Literal("none", None) else ()
    dims = [item.value for item in items if isinstance(item, Literal)]
    return tuple(sorted(int(dim or 0) % max(rank, 1) for dim in dims)) if dims else tuple(range(rank))


def _one_space(group: Candidate) -> str:
    """Pointwise: every op runs over the same shape, so that none is computed twice."""
    shapes = {group.shape(node) for node in group.nodes}
    if len(shapes) > 1:
        return f"the shapes {_shapes(shapes)} differ: the smaller result would be computed again for each broadcast row"
    return ""


def _reduction_space(group: Candidate) -> str:
    """All reductions reduce the same dims of one space; other ops have its shape, or that of a reduced result."""
    reductions = group.of("reduction")
    spaces = {(group.operand_shape(node), reduced_dims(node, len(group.operand_shape(node)))) for node in reductions}
    if len(spaces) > 1:
        return f"reductions over {_spaces(spaces)} do not share one loop nest"
    space, dims = next(iter(spaces))
    full = {node.results[0] for node in group.nodes if group.shape(node) == space and node not in reductions}
    small = {node.results[0]: group.shape(node) for node in reductions}
    for node in group.nodes:
        inside = {small[value] for value in node.operands if value in small}
        shape = group.shape(node)
        if node in reductions:
            if inside:
                return "a reduction of a reduced result needs a loop nest of its own"
        elif node.results[0] in full:
            misplaced = {reduced for reduced in inside if not _aligned(reduced, space, dims)}
            if misplaced:
                return f"broadcasting {_shapes(misplaced)} over {_shapes([space])} does not follow the reduced dims"
        elif inside == {shape} or (not inside and not full & {*node.operands} and _aligned(shape, space, dims)):
            small[node.results[0]] = shape
        else:
            return f"{_shapes([shape])} is neither the space {_shapes([space])} nor a result reduced from it"
    return ""


def _aligned(shape: Shape, space: Shape, dims: tuple[int, ...]) -> bool:
    """Whether broadcasting a reduced result over the space puts each row's result against that row."""
    if len(shape) == len(space):
        return all(n == (1 if dim in dims else space[dim]) for dim, n in enumerate(shape))
    kept = tuple(dim for dim in range(len(space)) if dim not in dims)
    return kept == tuple(range(len(space) - len(shape), len(space)))


def _epilogue(group: Candidate) -> str:
    """One product, and pointwise ops over exactly its result's shape."""
    products = group.of("contraction")
    if len(products) != 1:
        return "one kernel holds one matrix product"
    product = products[0]
    shapes = {group.shape(node) for node in group.nodes} - {group.shape(product)}
    if shapes:
        return f"{_shapes(shapes)} is not the product's shape {_shapes([group.shape(product)])}"
    return ""


def _window_epilogue(group: Candidate) -> str:
    """One op that reads its input by windows, and pointwise ops over exactly its result's shape."""
    anchors = [node for node in group.nodes if node_class(node, group.classes) != "pointwise"]
    if len(anchors) != 1:
        return "one kernel holds one op that reads windows"
    shapes = {group.shape(node) for node in group.nodes} - {group.shape(anchors[0])}
    return f"{_shapes(shapes)} is not its result's shape {_shapes([group.shape(anchors[0])])}" if shapes else ""


def _hooks(group: Candidate) -> str:
    """One template; before and after it, pointwise ops of one tensor each, of its shape and element type."""
    templates = group.of("tile")
    if len(templates) != 1:
        return "one kernel holds one template"
    (template,) = templates
    made = {value for node in group.nodes for value in node.results}
    for node in group.nodes:
        tensors = {group.types[value] for value in (*node.operands, *node.results)}
        if node is not template and len({(kind.shape, kind.dtype) for kind in tensors}) != 1:
            return "a template's hooks work on tiles in place: shape and element type must stay"
        after = template.results[0] in node.operands or any(value in made for value in node.operands)
        outside = [value for value in node.operands if value not in made]
        if node is not template and outside and (after or len(outside) > 1):
            return "a template's hooks can read the template's own tiles, but no tile of another tensor"
    return ""


def _shapes(shapes: Iterable[Shape]) -> str:
    return " and ".join("x".join(map(str, shape)) or "a single number" for shape in sorted(shapes))


def _spaces(spaces: Iterable[tuple[Shape, tuple[int, ...]]]) -> str:
    return " and ".join(f"dims {list(dims)} of {_shapes([shape])}" for shape, dims in sorted(spaces))


def _never(reason: str) -> Callable[[Candidate], str]:
    return lambda _: reason


POINTWISE, REDUCTION, CONTRACTION = frozenset({"pointwise"}), frozenset({"reduction"}), frozenset({"contraction"})
OPAQUE, TILE, GATHER = frozenset({"opaque"}), frozenset({"tile"}), frozenset({"gather"})
CREATION, WINDOW = frozenset({"creation"}), frozenset({"window"})
NOTHING = frozenset[str]()
"""Of a rule that decides before nodes are grouped: see `one_kernel.py` and `assembly.py`."""
ANY = POINTWISE | REDUCTION | CONTRACTION | WINDOW | OPAQUE | TILE | GATHER | CREATION

COPY_AT_ITS_MAKER = "copy at its maker"

IN_MEMORY = "a gather reads at places that data decides, so its operand must be in memory as a whole"

READ_AGAIN = "windows overlap: an element made inside would be computed again for every window that reads it"

ALONE = "the fusion rules do not know what an opaque op does: it has a kernel of its own"

RULES: tuple[Rule, ...] = (
    Rule("into a gather", ANY - OPAQUE, GATHER, _never(IN_MEMORY), "a gather's operand is computed before it"),
    Rule(
        "gather into a chain", GATHER, POINTWISE, lambda group: illegal(group.nodes, group.types, group.classes),
        "a gather fills the tile of the pointwise op that reads it",
    ),
    Rule(
        "gather into a reduction", GATHER, REDUCTION, _reduction_space,
        "a gather fills the tile of the reduction that reads it",
    ),
    Rule("elementwise chain", POINTWISE, POINTWISE, _one_space, "pointwise ops over one shape run in one pass"),
    Rule(
        "reduction prologue", POINTWISE, REDUCTION, _reduction_space,
        "a pointwise op runs in the loop of the reduction that reads it",
    ),
    Rule(
        "reduction epilogue", REDUCTION, POINTWISE, _reduction_space,
        "a pointwise op over the reduced space, or over the dims left of it, runs while the row is in the "
            "scratchpad",
    ),
    Rule(
        "sibling reductions", REDUCTION, REDUCTION, _reduction_space,
        "reductions over the same dims of the same space share its tiles",
    ),
    Rule(
        "product epilogue", CONTRACTION, POINTWISE, _epilogue,
        "a pointwise op on a product's result runs on the result's tile before it is stored",
    ),
    Rule(
        "product into reduction", CONTRACTION, REDUCTION,
        _never("a product's result tile holds part of a row, the reduction needs the row"),
        "a reduction does not follow a product in one kernel",
    ),
    Rule(
        "producer into product", POINTWISE | REDUCTION | GATHER, CONTRACTION,
        _never(
            "a product reads each element of its operands once for every tile of the other operand: computing "
                "the operand inside would repeat it each time, or keep a whole panel of it in the scratchpad, which "
                "the schedule does not do yet"
        ),
        "an operand of a product is computed before it",
    ),
    Rule(
        "product into product", CONTRACTION, CONTRACTION,
        _never(
            "a second product needs whole rows of the first one's result: they would be computed again for "
                "every column tile, or a whole panel of them stay in the scratchpad, which the schedule does not do "
                "yet"
        ),
        "one kernel holds one product",
    ),
    Rule(
        "window epilogue", WINDOW, POINTWISE, _window_epilogue,
        "a pointwise op on the result of a pool runs on its tile before it is stored",
    ),
    Rule("into a window", ANY - OPAQUE - TILE, WINDOW, _never(READ_AGAIN), "an op that moves a window reads memory"),
    Rule(
        "window into another loop nest", WINDOW, REDUCTION | CONTRACTION,
        _never("an op that moves a window has a loop nest of its own, with only pointwise ops after it"),
        "an op that moves a window writes memory",
    ),
    Rule(
        "template prologue", POINTWISE, TILE, _hooks,
        "a pointwise op runs on the tile that the template has loaded",
    ),
    Rule(
        "template epilogue", TILE, POINTWISE, _hooks,
        "a pointwise op runs on the template's tile before it is stored",
    ),
    Rule(
        "beside a template", TILE, REDUCTION | CONTRACTION | WINDOW | TILE,
        _never("a template's hooks take pointwise ops only"),
        "a template has a kernel of its own",
    ),
    Rule(
        "before a template", REDUCTION | CONTRACTION | GATHER | WINDOW, TILE,
        _never("a template's hooks take pointwise ops only"),
        "a template has a kernel of its own",
    ),
    Rule(
        "creation at its reader", CREATION, POINTWISE | REDUCTION, lambda _: "",
        "values that depend only on an element's place are computed where they are read",
    ),
    Rule(
        "creation read from memory", CREATION, CONTRACTION | GATHER | TILE,
        _never("a product, a gather and a template read their operands from memory"),
        "an operand of a product, a gather or a template is computed before it",
    ),
    Rule(
        "attention", NOTHING, NOTHING, lambda _: "",
        "scores, their softmax and the sum of values are one kernel, whose scores are never in memory",
    ),
    Rule(
        COPY_AT_ITS_MAKER, NOTHING, NOTHING, lambda _: "",
        "what is copied for its order in memory alone is made in that order",
    ),
    Rule("opaque op", OPAQUE, ANY, _never(ALONE), "an opaque op has a kernel of its own"),
    Rule("into an opaque op", ANY, OPAQUE, _never(ALONE), "an opaque op has a kernel of its own"),
)  # fmt: skip


def rule_for(producer: Node, consumer: Node, classes: Classes = NO_CLASSES) -> Rule:
    kinds = node_class(producer, classes), node_class(consumer, classes)
    return next(rule for rule in RULES if kinds[0] in rule.producers and kinds[1] in rule.consumers)


def illegal(nodes: Iterable[Node], types: Mapping[str, TensorType], classes: Classes = NO_CLASSES) -> str:
    """Why these nodes cannot be one kernel, empty when they can. The single output is the grouping's business."""
    whole = Candidate(tuple(nodes), types, classes)
    if whole.of("opaque") and len(whole.nodes) > 1:
        return ALONE
    made = {value for node in whole.nodes for value in node.results}
    if any(made.intersection(node.operands) for node in whole.of("gather")):
        return IN_MEMORY
    if any(made.intersection(node.operands) for node in whole.of("window")):
        return READ_AGAIN
    if whole.of("tile") and whole.of("creation"):
        return "a template's hooks can read the template's own tiles, but make no new ones"
    group = Candidate(tuple(node for node in whole.nodes if node not in whole.of("creation")), types, classes)
    if group.of("tile"):
        return (
            _hooks(group)
            if len(group.of("pointwise")) == len(group.nodes) - 1
            else "a template takes pointwise ops only"
        )
    if group.of("window"):
        return _window_epilogue(group)
    if products := group.of("contraction"):
        reductions = group.of("reduction")
        return rule_for(products[0], reductions[0], classes).condition(group) if reductions else _epilogue(group)
    return _reduction_space(group) if group.of("reduction") else _one_space(group)


def kind_of(nodes: Iterable[Node], classes: Classes = NO_CLASSES) -> str:
    """The kind of a kernel of these nodes, by its anchor."""
    found = {node_class(node, classes) for node in nodes}
    return next(
        (kind for kind in ("opaque", "tile", "contraction", "window", "reduction") if kind in found), "elementwise"
    )
