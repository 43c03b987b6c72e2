"""Scaled dot-product attention as one kernel: scores live in the scratchpad, a block of them at a time.

For each block of queries the kernel goes over blocks of keys. For each query it keeps the largest score so far, the sum
of the weights (exponentials of the scores minus the largest), and the sum of the weighted values. When a larger score
comes, both sums are scaled down. At the end the sum of values is divided by the sum of weights. A block has one matrix
or several, such as heads.

Many queries lie along the lanes; with few queries (a step of decoding), keys do: a maximum or a sum along the lanes,
and spreading a number over the lanes, needs steps across lanes. Keys and values of a matrix are loaded once if they
fit, else once for each block of queries. Blocks that a causal mask hides are left out.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict

from simulator.machine.machine import Machine
from templates.attention_call import Call, plain
from templates.attention_price import chosen_tile
from templates.attention_text import AttentionText
from templates.writing import FLOATS, signature
from workbench.ir import Mapping, Node, Ref, TensorType
from workbench.operators.aten.extra_ops import ATTENTION
from workbench.operators.aten.overload_schema import arguments
from workbench.operators.aten.registry import OneKernel, Registry
from workbench.scheduling.kernels.template import Template

MOST_WIDTH = 512
"""The most numbers of a key, or of a value, for one kernel. Of wider keys and values so few fit in a small scratchpad
that three kernels are faster."""


class Attention(Template):
    """The kernel of one call."""

    def __init__(self, node: Node, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> None:
        super().__init__(node, inputs, outputs)
        self.call = Call(node, self.inputs, self.outputs[0])

    def dims(self) -> dict[str, int]:
        return self.call.dims()

    def buffers(self) -> int:
        return 2

    def tile(self, machine: Machine) -> dict[str, int]:
        return chosen_tile(self.call, self.buffers(), machine)

    def render(self, mapping: Mapping, machine: Machine) -> str:
        return AttentionText(self.call, mapping, machine).written(f"@{self.kernel}({signature(self)})")


def refuses(node: Node, types: Dict[str, TensorType]) -> str:
    """The reason why a call has no kernel of its own; empty if it has one."""
    given = arguments(node)
    if "dropout_p" in given and plain(given["dropout_p"]):
        return "dropout draws a number for each weight, and weights are not in memory"
    if (dtype := types[node.results[0]].dtype) not in FLOATS:
        return f"its numbers are {dtype}, and a softmax is of floats"
    shapes = [types[each.value].shape for name in ("query", "value") if isinstance(each := given[name], Ref)]
    if (widest := max(shape[-1] for shape in shapes)) > MOST_WIDTH:
        return f"of heads that are {widest:,} wide too few fit in a scratchpad: one kernel is for {MOST_WIDTH} at most"
    key, value = (types[each.value].shape for name in ("key", "value") if isinstance(each := given[name], Ref))
    if plain(given["enable_gqa"]) and key[-3] != value[-3]:
        return f"keys have {key[-3]} heads and values {value[-3]}, so query heads share them in different groups"
    return ""


def register(registry: Registry) -> None:
    """Registers the template of this file."""
    one = OneKernel("attention", refuses)
    registry.template("aten.scaled_dot_product_attention.default", ATTENTION, one_kernel=one)(Attention)
