"""Templates that make one kernel of an op whose formula makes several: whether they may, and why they did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.aten.registry import Registration
from workbench.ir import Fusion, LoweredNode, Node, TensorType


@dataclass
class OneKernels:
    """The choice for each node, under a user's fusion options."""

    off: frozenset[str]
    """Rules that are turned off."""
    refused: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Captured node -> the rule, and why the node has the kernels of its formula."""

    def refusal(self, found: Registration, node: Node, types: Mapping[str, TensorType]) -> str:
        """Why a template that is registered for a node does not make its kernel, empty where it does."""
        whole = found.one_kernel
        if whole is None:
            return ""
        reason = f"the rule {whole.rule!r} is turned off" if whole.rule in self.off else whole.refuses(node, types)
        if reason:
            self.refused[node.name] = whole.rule, reason
        return reason

    def explained(self, fusions: Iterable[Fusion], items: Sequence[LoweredNode]) -> tuple[Fusion, ...]:
        """The decisions, in which kernels of a refused node are apart for the reason of its refusal."""
        parent = {item.node.name: item.parent for item in items}
        return tuple(self._explained(each, parent) for each in fusions)

    def _explained(self, fusion: Fusion, parent: Mapping[str, str]) -> Fusion:
        node = parent.get(fusion.producer, "")
        if fusion.fused or node not in self.refused or parent.get(fusion.consumer) != node or fusion.rule in self.off:
            return fusion
        rule, reason = self.refused[node]
        return replace(fusion, rule=rule, reason=reason)
