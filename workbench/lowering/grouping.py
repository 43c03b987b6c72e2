"""Groups nodes into kernels by the rules of `fusion_rules.py`, except those that a user turned off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from workbench.ir import BREAK, Fusion, Node, TensorType
from workbench.lowering.around_products import makes_operand
from workbench.lowering.fusion_candidate import NO_CLASSES, Candidate, Classes, node_class
from workbench.lowering.fusion_rules import SEVERAL, illegal, kind_of, rule_for, rule_text
from workbench.lowering.kernel_order import KernelOrder
from workbench.lowering.product_room import FULL, READ_ONCE, ROWS, SHARED, TPU_V3, Room
from workbench.lowering.reduction_space import folded_away, reads_again, same_everywhere
from workbench.lowering.shared_operands import siblings
from workbench.operators.aten.automatic_route import class_of

BETWEEN: Final = "what is made of one's result is read by the other"

ONE_SHAPE: Final = (
    "without a reduction a kernel makes several values of one shape only, by a product and pointwise ops, with no "
    "other op between them"
)

MADE_BEFORE: Final = "another kernel that reads it makes it"


@dataclass(frozen=True)
class Choice:
    """A user's restrictions: rules that are turned off, and nodes that must not share a kernel."""

    off: frozenset[str] = frozenset()
    """Names of rules."""
    apart: frozenset[frozenset[str]] = frozenset()
    """Pairs of nodes, after decomposition."""

    def refuses(self, nodes: Iterable[Node], classes: Classes = NO_CLASSES) -> str:
        """The reason why the user's choice keeps these nodes from being one kernel, empty if it does not."""
        group = tuple(nodes)
        names = {node.name for node in group}
        for pair in sorted(self.apart, key=sorted):
            if pair <= names:
                return f"kept apart on request: {' and '.join(sorted(pair))}"
        if ROWS in self.off and {"contraction", "reduction"} <= {node_class(node, classes) for node in group}:
            return f"the rule {ROWS!r} is turned off"
        if SHARED in self.off and sum(node_class(node, classes) == "contraction" for node in group) > 1:
            return f"the rule {SHARED!r} is turned off"
        maker = {value: node for node in group for value in node.results} if self.off else {}
        for consumer in group:
            for producer in (maker[value] for value in consumer.operands if value in maker):
                rule = rule_for(producer, consumer, classes).name
                if rule in self.off:
                    return f"the rule {rule!r} is turned off"
        return ""


@dataclass
class Grouping:
    """The groups of nodes that become kernels, and the reason for every edge between two groups."""

    nodes: tuple[Node, ...]
    """The nodes that compute, in topological order: no views."""
    types: Mapping[str, TensorType]
    kept: frozenset[str]
    """Values that must exist in memory: results, and values that views read."""
    classes: Classes = field(default_factory=dict[str, str])
    choice: Choice = Choice()
    room: Room = TPU_V3
    bases: Mapping[str, str] = field(default_factory=dict[str, str])
    """View -> the value that it is a view of."""
    group_of: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self._place = {node.name: index for index, node in enumerate(self.nodes)}
        self._by_name = {node.name: node for node in self.nodes}
        self._maker = {value: node for node in self.nodes for value in node.results}
        self._users: dict[str, list[Node]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for value in node.operands:
                if value in self._maker:
                    self._users[self._maker[value].name].append(node)
        self.group_of = dict(self._place)
        self._members: dict[int, tuple[Node, ...]] = {index: (node,) for index, node in enumerate(self.nodes)}
        for anchor in ("tile", "contraction", "window", "reduction"):
            for node in self.nodes:
                if node_class(node, self.classes) == anchor:
                    self._grow(node)
        products = (node for node in self.nodes if node_class(node, self.classes) == "contraction")
        self._siblings: dict[tuple[str, str], tuple[str, str]] = {}
        for pair in siblings(products, self.types):
            self._siblings[pair] = SHARED, self._join_sibling(*pair)
        self._read_once("reduction")
        for node in reversed(self.nodes):
            self._join_users(node)
        for node in reversed(self.nodes):  # again: the last op of a chain may read more bytes than the whole chain
            if any(node_class(user, self.classes) == "contraction" for user in self._users[node.name]):
                self._join_users(node)
        while any([self._join_reader(node) for node in reversed(self.nodes)]):
            pass  # again, since a grown kernel may take in more of the nodes that make its inputs
        self._read_once("reduction", "elementwise")

    def _read_once(self, *kinds: str) -> None:
        """Joins each group of these kinds with an earlier reducing group that reads the same whole tensor."""
        first: dict[str, Node] = {}
        for node in self.nodes:
            for value in self._read_whole(node):
                first.setdefault(value, node)
        tried = set[tuple[int, int]]()
        for node in self.nodes:
            own = self.group_of[node.name]
            group = self.members(own)
            if kind_of(group, self.classes) not in kinds or any(class_of(each.op) == "copy" for each in group):
                continue  # a copy is a transfer, which cannot be tiled with other ops
            for value in self._at_own_place(node):
                reader = first.get(value, node)
                groups = self.group_of[reader.name], own
                if groups[0] == own or groups in tried:
                    continue
                tried.add(groups)
                reason = self._join_beside(reader.name, node.name)
                if reason is not None:
                    self._siblings[reader.name, node.name] = READ_ONCE, reason
                if not reason:
                    break

    def _read_whole(self, node: Node) -> list[str]:
        """The values that a node of a reducing group reads from memory in the shape that it walks; else empty."""
        group = self.members(self.group_of[node.name])
        if kind_of(group, self.classes) != "reduction":
            return []
        made = {value for each in group for value in each.results}
        return [value for value in self._at_own_place(node) if value not in made]

    def _at_own_place(self, node: Node) -> list[str]:
        """The operands that a node's loops walk element by element: not a gather's table, which its indices address."""
        table = node.operands[:1] if node_class(node, self.classes) == "gather" else ()
        walked = self._walked(node)
        return [value for value in node.operands if value not in table and self.types[value].shape == walked]

    def _walked(self, node: Node) -> tuple[int, ...]:
        """The shape that a node's loops walk."""
        whole = node.operands if node_class(node, self.classes) == "reduction" else node.results
        return self.types[whole[0]].shape if whole else ()

    def members(self, group: int) -> tuple[Node, ...]:
        """The nodes of a group in topological order; the last one makes a value that leaves the group."""
        return self._members[group]

    def groups(self) -> tuple[tuple[Node, ...], ...]:
        """The groups in order, each after the groups it reads; apart from that, in the order of their last nodes."""
        return tuple(self.members(group) for group in self._order().sorted())

    def _order(self) -> KernelOrder:
        in_turn = {node.name for node in self.nodes if node_class(node, self.classes) == "opaque"}
        return KernelOrder(self.nodes, self.group_of, self.bases, in_turn)

    def _move(self, nodes: tuple[Node, ...], group: int) -> None:
        for node in nodes:
            old = self.group_of[node.name]
            self._members[old] = tuple(member for member in self._members[old] if member is not node)
            self.group_of[node.name] = group
        self._members[group] = self._sorted((*self._members[group], *nodes))

    def _sorted(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        return tuple(sorted(nodes, key=lambda node: self._place[node.name]))

    def _leaves_memory(self, node: Node) -> bool:
        return any(value in self.kept for value in node.results)

    def _grow(self, anchor: Node) -> None:
        """Adds the following nodes to the anchor's group, as long as all users of its result lead to one next result
        and the group is legal."""
        group = self.group_of[anchor.name]
        last, rows = self.members(group)[-1], list[Node]()
        while (step := self._until_next_single(last)) is not None:
            free = all(self.group_of[node.name] == self._place[node.name] for node in step)
            refused = self._illegal(self._sorted((*self.members(group), *step)))
            if refused.startswith(FULL):  # the rows added so far alone would only make the product's tiles smaller
                for node in rows:
                    self._move((node,), self._place[node.name])
            if refused or not free:
                return
            self._move(step, group)
            if rows or any(node_class(node, self.classes) == "reduction" for node in step):
                rows += step
            last = step[-1]

    def _until_next_single(self, start: Node) -> tuple[Node, ...] | None:
        """The nodes after `start`, up to the first one through which everything that depends on `start` passes; None if
        a value must be in memory before that."""
        if self._leaves_memory(start) or not self._users[start.name]:
            return None
        flow = {user.name for user in self._users[start.name]}
        done: list[Node] = []
        while flow:
            node = self._by_name[min(flow, key=self._place.__getitem__)]
            flow.discard(node.name)
            done.append(node)
            if not flow:
                return tuple(done)
            if self._leaves_memory(node) or not self._users[node.name]:
                return None
            flow |= {user.name for user in self._users[node.name]}
        return None

    def _join_users(self, node: Node) -> None:
        """Joins a node's group with its users' group if all users are in one: the result then stays inside."""
        users = {self.group_of[user.name] for user in self._users[node.name]}
        own = self.group_of[node.name]
        if len(users) != 1 or self._leaves_memory(node) or own in users:
            return
        (target,) = users
        products = [user for user in self._users[node.name] if node_class(user, self.classes) == "contraction"]
        refused = any(self._refused(node, user) for user in products)
        if not refused and not self._illegal(self._joined(own, target)):
            self._move(self.members(own), target)

    def _join_sibling(self, first: str, other: str) -> str:
        """Joins the group of `other` with that of `first`, which reads the same operand; returns the refusal, '' if
        they were joined."""
        own, target = self.group_of[other], self.group_of[first]
        joined = self._joined(own, target)
        if refused := self._illegal(joined) or self._separated(own, target) or self._reads_again(joined):
            return refused
        self._move(self.members(own), target)
        return ""

    def _separated(self, first: int, other: int) -> str:
        """The reason why something must run between two groups, which then cannot be joined; empty if nothing must."""
        joined = self._joined(first, other)
        begin, end = self._place[joined[0].name], self._place[joined[-1].name]
        between = [node for node in self.nodes[begin:end] if self.group_of[node.name] not in (first, other)]
        if any(node.op == BREAK for node in between):
            return "Python runs between them, and may change what they read"
        if self._reads_views_of_itself(joined) or not self._order().may_join(first, other):
            return BETWEEN
        return ""

    def _join_reader(self, node: Node) -> bool:
        """Joins a node's group with its first reader's group although others need its result too: the kernel stores
        both results. True if joined."""
        own = self.group_of[node.name]
        users = {self.group_of[user.name] for user in self._users[node.name]} - {own}
        if not users or node is not self.members(own)[-1]:
            return False
        target = min(users, key=lambda group: self._place[self.members(group)[-1].name])
        if self._makes_two(node, target):
            return False
        self._move(self.members(own), target)
        return True

    def _makes_two(self, node: Node, target: int) -> str:
        """The reason why group `target` cannot take in the node's group and also store its result, empty if it can."""
        own = self.group_of[node.name]
        joined = self._joined(own, target)
        if SEVERAL in self.choice.off:
            return f"the rule {SEVERAL!r} is turned off"
        if class_of(node.op) == "copy":
            return "a copy has a kernel of its own"
        if refused := self._illegal(joined):
            return refused
        if makes_operand(self._candidate(joined), node):
            return "a product reads it in other tiles than those in which results are stored"
        if any(node_class(each, self.classes) == "reduction" for each in joined):
            return self._separated(own, target) or self._reads_again(joined)
        alike = self._are_alike(node, self.members(target)[-1])
        return ONE_SHAPE if not alike or self._between(own, target) or not self._order().may_join(own, target) else ""

    def _reads_again(self, nodes: tuple[Node, ...]) -> str:
        """The reason why a kernel of these reductions cannot store all its results, or would load no less than several
        kernels; empty otherwise.

        For products `Room.refuses_products` compares the loads.
        """
        group = self._candidate(nodes)
        if refused := folded_away(group) or same_everywhere(group, self.results(nodes)):
            return refused
        return reads_again(group) if kind_of(nodes, self.classes) == "reduction" else ""

    def _are_alike(self, node: Node, last: Node) -> bool:
        """True if two nodes are of kinds that run in one pass and make results of one shape."""
        kinds = node_class(node, self.classes), node_class(last, self.classes)
        in_one_pass = kinds in (("pointwise", "pointwise"), ("contraction", "pointwise"))
        return in_one_pass and self.types[node.results[0]].shape == self.types[last.results[0]].shape

    def _join_beside(self, first: str, other: str) -> str | None:
        """Joins the group of `other` with that of `first`, a reduction of the same tensor. Returns the refusal, '' if
        the groups were joined, None if one depends on the other."""
        if READ_ONCE in self.choice.off:
            return f"the rule {READ_ONCE!r} is turned off"
        reason = self._join_sibling(first, other)
        return None if reason == BETWEEN else reason

    def _between(self, first: int, second: int) -> bool:
        """True if another group's node lies between two groups, or one of them reads a view of the other's result."""
        begin, end = (self._place[self.members(group)[-1].name] for group in (first, second))
        others = any(self.group_of[node.name] not in (first, second) for node in self.nodes[begin:end])
        return others or self._reads_views_of_itself(self._joined(first, second))

    def _reads_views_of_itself(self, nodes: tuple[Node, ...]) -> bool:
        """True if some of these nodes read views of others' results: no kernel holds a view."""
        made = {value for node in nodes for value in node.results}
        return any(self.bases.get(value) in made for node in nodes for value in node.operands)

    def results(self, members: tuple[Node, ...]) -> tuple[str, ...]:
        """The values that leave a group of these nodes; the results of its last node come last."""
        *inner, last = members
        names = {node.name for node in members}
        outside = [
            value
            for node in inner
            for value in node.results
            if value in self.kept or any(user.name not in names for user in self._users[node.name])
        ]
        return (*outside, *last.results)

    def _illegal(self, nodes: tuple[Node, ...]) -> str:
        """The reason why these nodes cannot be one kernel, by a rule or a user's choice; empty if they can."""
        return illegal(self._candidate(nodes)) or self.choice.refuses(nodes, self.classes)

    def refused(self, producer: Node, consumer: Node, reader: Node) -> str:
        """The reason why the groups of two nodes could not be one kernel even if `reader` replaced the consumer."""
        own, other = self.group_of[producer.name], self.group_of[consumer.name]
        joined = (reader if node is consumer else node for node in self._joined(own, other))
        return self._refused(producer, reader) or self._illegal(tuple(joined))

    def _refused(self, producer: Node, consumer: Node) -> str:
        rule = rule_for(producer, consumer, self.classes)
        return rule.refuses(self._candidate((producer, consumer)))

    def _candidate(self, nodes: tuple[Node, ...]) -> Candidate:
        return Candidate(nodes, self.types, self.classes, self.room)

    def _joined(self, first: int, second: int) -> tuple[Node, ...]:
        return self._sorted((*self.members(first), *self.members(second)))

    def decisions(self) -> tuple[Fusion, ...]:
        """A decision for every edge between two computing nodes, and for each pair of products or reductions of one
        operand."""
        found: list[Fusion] = []
        for consumer in self.nodes:
            makers = dict.fromkeys(self._maker[v].name for v in consumer.operands if v in self._maker)
            for producer in (self._by_name[name] for name in makers):
                rule = rule_for(producer, consumer, self.classes)
                reason = self._reason(producer, consumer)
                found.append(Fusion(producer.name, consumer.name, not reason, rule.name, reason or rule.text))
        for (first, other), (rule, reason) in self._siblings.items():
            found.append(Fusion(first, other, not reason, rule, reason or rule_text(rule)))
        return tuple(found)

    def _reason(self, producer: Node, consumer: Node) -> str:
        own, other = self.group_of[producer.name], self.group_of[consumer.name]
        if own == other:
            return ""
        if reason := self._refused(producer, consumer):
            return reason
        if reason := self.choice.refuses((producer, consumer), self.classes):
            return reason
        if self._leaves_memory(producer):
            return f"the result is also an output, and {self._makes_two(producer, other) or MADE_BEFORE}"
        if len({self.group_of[user.name] for user in self._users[producer.name]}) > 1:
            return f"the result is read by several kernels, and {self._makes_two(producer, other) or MADE_BEFORE}"
        if reason := self._illegal(self._joined(own, other)):
            return reason
        return "the kernel that makes it has more than one reader"
