"""The rules for nodes that may share a kernel, as data, and a legality check for whole groups.

A kernel makes one value and may also store others of the same shape that are computed on the way to it; a kernel that
reduces may store values of other shapes too. There are six kinds of kernels, by their anchor:

elementwise   pointwise ops over one iteration space; gathers feed them
reduction     reductions over the same dims of one space, with the pointwise ops before, between and after them
contraction   one matrix product or convolution, followed by pointwise ops on its result; with a matrix product also
              pointwise ops on what it reads, and reductions of the result's rows
window        one pool, followed by pointwise ops on its result
tile          one template, with pointwise ops on the tiles it loads and stores
opaque        one op alone that the rules do not know: on the host, or registered as opaque

Creation ops, which read nothing, may be in any of the first three beside their one reader, in the reader's shape.

The class of an op follows from its overload; for a node on a registered route, from the registration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from workbench.ir import FORWARD, Node
from workbench.lowering.around_products import PROLOGUE, around_product, next_to_product
from workbench.lowering.fusion_candidate import NO_CLASSES, Candidate, Classes, node_class, shapes_of
from workbench.lowering.product_room import READ_ONCE, ROWS, SHARED
from workbench.lowering.reduction_space import reduction_space
from workbench.lowering.shared_operands import ONE_PRODUCT


@dataclass(frozen=True)
class Rule:
    """A rule for edges whose producer and consumer are of these classes."""

    name: str
    producers: frozenset[str]
    consumers: frozenset[str]
    condition: Callable[[Candidate], str] | None
    """Returns the reason why the group cannot be one kernel, empty if it can. None for a limit, which never fuses."""
    text: str
    """The rule in words; for a limit, the reason."""

    def refuses(self, group: Candidate) -> str:
        """The reason why the group cannot be one kernel, empty if it can."""
        return self.text if self.condition is None else self.condition(group)


def _one_space(group: Candidate) -> str:
    """The reason why pointwise ops cannot be one kernel, empty if they can: all must have one shape, so that no value
    is computed twice."""
    shapes = {group.shape(node) for node in group.nodes}
    if len(shapes) > 1:
        return (
            f"the shapes {shapes_of(shapes)} differ: the smaller result would be computed again for each broadcast row"
        )
    return ""


def _window_epilogue(group: Candidate) -> str:
    """The reason why a group with a pool cannot be one kernel, empty if it can: it may have one op that reads windows,
    and pointwise ops with exactly the shape of that op's result."""
    anchors = [node for node in group.nodes if node_class(node, group.classes) != "pointwise"]
    if len(anchors) != 1:
        return "one kernel holds one op that reads windows"
    shapes = {group.shape(node) for node in group.nodes} - {group.shape(anchors[0])}
    return f"{shapes_of(shapes)} is not its result's shape {shapes_of([group.shape(anchors[0])])}" if shapes else ""


def _hooks(group: Candidate) -> str:
    """The reason why a group with a template cannot be one kernel, empty if it can: it may have one template, and
    before and after it pointwise ops of one tensor each, which keep shape and element type."""
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


def _allowed(group: Candidate) -> str:
    return ""


POINTWISE, REDUCTION, CONTRACTION = frozenset({"pointwise"}), frozenset({"reduction"}), frozenset({"contraction"})
OPAQUE, TILE, GATHER = frozenset({"opaque"}), frozenset({"tile"}), frozenset({"gather"})
CREATION, WINDOW = frozenset({"creation"}), frozenset({"window"})
NOTHING = frozenset[str]()
"""The classes of a rule that decides before nodes are grouped: see `one_kernel.py` and `assembly.py`."""
ANY = POINTWISE | REDUCTION | CONTRACTION | WINDOW | OPAQUE | TILE | GATHER | CREATION

COPY_AT_ITS_MAKER = "copy at its maker"

IN_MEMORY = "a gather reads at places that data decides, so its operand must be in memory as a whole"

READ_AGAIN = "windows overlap: an element made inside would be computed again for every window that reads it"

SEVERAL = "several results"
"""A rule for whole groups, which decides no edge."""

PASSES = "the forward pass ends before the backward pass begins: no kernel is part of both"
ALONE = "the fusion rules do not know what an opaque op does: it has a kernel of its own"

ONLY_HOOKS = "a template's hooks take pointwise ops only"

RULES: tuple[Rule, ...] = (
    Rule("into a gather", ANY - OPAQUE, GATHER, None, IN_MEMORY),
    Rule(
        "gather into a chain", GATHER, POINTWISE, lambda group: illegal(group),
        "a gather fills the tile of the pointwise op that reads it",
    ),
    Rule(
        "gather into a reduction", GATHER, REDUCTION, reduction_space,
        "a gather fills the tile of the reduction that reads it",
    ),
    Rule("elementwise chain", POINTWISE, POINTWISE, _one_space, "pointwise ops over one shape run in one pass"),
    Rule(
        "reduction prologue", POINTWISE, REDUCTION, reduction_space,
        "a pointwise op runs in the loop of the reduction that reads it",
    ),
    Rule(
        "reduction epilogue", REDUCTION, POINTWISE, reduction_space,
        "a pointwise op over the reduced space, or over the dims left of it, runs while the row is in the "
            "scratchpad",
    ),
    Rule(
        "sibling reductions", REDUCTION, REDUCTION, reduction_space,
        "reductions over the same dims of the same space share its tiles",
    ),
    Rule(
        "product epilogue", CONTRACTION, POINTWISE, around_product,
        "a pointwise op on a product's result runs on the result's tile before it is stored",
    ),
    Rule(
        ROWS, CONTRACTION, REDUCTION, around_product,
        "a reduction of a product's rows runs on the result's tile, which holds whole rows",
    ),
    Rule(
        PROLOGUE, POINTWISE, CONTRACTION, next_to_product,
        "a pointwise op runs on the operand's tile before the product reads it",
    ),
    Rule(
        "producer into product", REDUCTION | GATHER, CONTRACTION, None,
        "a product reads each element of its operands once for every tile of the other operand: a reduction or a "
            "gather inside would be repeated each time",
    ),
    Rule("product into product", CONTRACTION, CONTRACTION, None, ONE_PRODUCT),
    Rule(
        "window epilogue", WINDOW, POINTWISE, _window_epilogue,
        "a pointwise op on the result of a pool runs on its tile before it is stored",
    ),
    Rule("into a window", ANY - OPAQUE - TILE, WINDOW, None, READ_AGAIN),
    Rule(
        "window into another loop nest", WINDOW, REDUCTION | CONTRACTION, None,
        "an op that moves a window has a loop nest of its own, with only pointwise ops after it",
    ),
    Rule(
        "template prologue", POINTWISE, TILE, _hooks,
        "a pointwise op runs on the tile that the template has loaded",
    ),
    Rule(
        "template epilogue", TILE, POINTWISE, _hooks,
        "a pointwise op runs on the template's tile before it is stored",
    ),
    Rule("beside a template", TILE, REDUCTION | CONTRACTION | WINDOW | TILE, None, ONLY_HOOKS),
    Rule("before a template", REDUCTION | CONTRACTION | GATHER | WINDOW, TILE, None, ONLY_HOOKS),
    Rule(
        "creation at its reader", CREATION, POINTWISE | REDUCTION, _allowed,
        "values that depend only on an element's place are computed where they are read",
    ),
    Rule(
        "creation read from memory", CREATION, CONTRACTION | GATHER | TILE, None,
        "a product, a gather and a template read their operands from memory",
    ),
    Rule(
        "attention", NOTHING, NOTHING, _allowed,
        "scores, their softmax and the sum of values are one kernel, whose scores are never in memory",
    ),
    Rule(
        COPY_AT_ITS_MAKER, NOTHING, NOTHING, _allowed,
        "what is copied for its order in memory alone is made in that order",
    ),
    Rule(
        SEVERAL, NOTHING, NOTHING, _allowed,
        "a value that is needed elsewhere as well is stored by the first kernel that uses it",
    ),
    Rule(
        READ_ONCE, NOTHING, NOTHING, _allowed,
        "reductions of one operand over the same dims, and pointwise ops beside them, are one kernel, which loads each "
            "tile of it once for all of them",
    ),
    Rule(
        SHARED, NOTHING, NOTHING, _allowed,
        "products that read one operand are one kernel, which loads each tile of it once for all of them",
    ),
    Rule("opaque op", OPAQUE, ANY, None, ALONE),
    Rule("into an opaque op", ANY, OPAQUE, None, ALONE),
)  # fmt: skip


ACROSS_VIEWS = "never across a view"
"""A limit that is no rule for two nodes: it decides edges between kernels."""

SWITCHES = tuple(rule.name for rule in RULES if rule.condition is not None)
"""The rules that fuse something, which a user may turn off. All others are limits."""


def rule_for(producer: Node, consumer: Node, classes: Classes = NO_CLASSES) -> Rule:
    kinds = node_class(producer, classes), node_class(consumer, classes)
    return next(rule for rule in RULES if kinds[0] in rule.producers and kinds[1] in rule.consumers)


def rule_text(name: str) -> str:
    return next(rule.text for rule in RULES if rule.name == name)


def illegal(whole: Candidate) -> str:
    """The reason why these nodes cannot be one kernel, empty if they can. The grouping checks their outputs."""
    if whole.of("opaque") and len(whole.nodes) > 1:
        return ALONE
    if len({node.origin.part == FORWARD for node in whole.nodes}) > 1:
        return PASSES
    made = {value for node in whole.nodes for value in node.results}
    if any(made.intersection(node.operands) for node in whole.of("gather")):
        return IN_MEMORY
    if any(made.intersection(node.operands) for node in whole.of("window")):
        return READ_AGAIN
    if whole.of("tile") and whole.of("creation"):
        return "a template's hooks can read the template's own tiles, but make no new ones"
    group = replace(whole, nodes=tuple(node for node in whole.nodes if node not in whole.of("creation")))
    if group.of("tile"):
        only = len(group.of("pointwise")) == len(group.nodes) - 1
        return _hooks(group) if only else "a template takes pointwise ops only"
    if group.of("window"):
        return _window_epilogue(group)
    if group.of("contraction"):
        return around_product(group)
    return reduction_space(group) if group.of("reduction") else _one_space(group)


def kind_of(nodes: Iterable[Node], classes: Classes = NO_CLASSES) -> str:
    """The kind of a kernel of these nodes, by its anchor."""
    found = {node_class(node, classes) for node in nodes}
    return next(
        (kind for kind in ("opaque", "tile", "contraction", "window", "reduction") if kind in found), "elementwise"
    )
