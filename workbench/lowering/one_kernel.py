"""Templates that make one kernel of an op that otherwise becomes several: checks if they may, and records refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.ir import Fusion, LoweredNode, Node, TensorType
from workbench.operators.aten.registry import Registration


@dataclass(frozen=True)
class Refusal:
    """The reason why some captured nodes are not one kernel."""

    rule: str
    nodes: frozenset[str]
    reason: str


@dataclass
class OneKernels:
    """Decides which nodes a template makes one kernel of, under a user's fusion options."""

    off: frozenset[str]
    """The rules that are turned off."""
    refused: list[Refusal] = field(default_factory=list[Refusal])

    def refusal(
        self, found: Registration, node: Node, types: Mapping[str, TensorType], of: Iterable[str] = (), reason: str = ""
    ) -> str:
        """The reason why the template that is registered for a node does not make its kernel, empty if it does.

        `of` are the captured nodes that the node replaces, `reason` is a reason that is already known.
        """
        whole = found.one_kernel
        if whole is None:
            return ""
        turned_off = f"the rule {whole.rule!r} is turned off" if whole.rule in self.off else ""
        reason = turned_off or reason or whole.refuses(node, types)
        if reason:
            self.refused.append(Refusal(whole.rule, frozenset(of) or frozenset({node.name}), reason))
        return reason

    def explained(self, fusions: Iterable[Fusion], items: Sequence[LoweredNode]) -> tuple[Fusion, ...]:
        """The decisions, with the refusal as the reason why kernels of refused nodes are apart."""
        parent = {item.node.name: item.parent for item in items}
        return tuple(self._explained(each, parent) for each in fusions)

    def _explained(self, fusion: Fusion, parent: Mapping[str, str]) -> Fusion:
        if fusion.fused or fusion.rule in self.off:
            return fusion
        ends = {parent.get(name, "") for name in (fusion.producer, fusion.consumer)}
        refusal = next((each for each in self.refused if ends <= each.nodes), None)
        return fusion if refusal is None else replace(fusion, rule=refusal.rule, reason=refusal.reason)
