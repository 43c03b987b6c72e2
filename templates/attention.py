"""Scaled dot-product attention as one kernel: scores live in the scratchpad, a block of them at a time.

For each block of queries the kernel goes over blocks of keys. It keeps, for each query, the largest score so far, the
sum of the exponentials of the scores less that one, and the sum of the values that these weigh. A larger score scales
both sums down. At the end one is divided by the other. A block has one matrix or several, such as heads.

Queries lie along the lanes where there are many, keys where there are few (a step of decoding): what is found along
the lanes, and what is spread over them, takes a way across. Keys and values of a matrix are loaded once where they fit,
else once for each block of queries. Blocks that a causal mask hides are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from simulator.machine.machine import Machine
from templates.attention_price import chosen_tile
from templates.attention_text import AttentionText
from workbench.aten.overload_schema import arguments
from workbench.aten.registry import OneKernel
from workbench.ir import Arg, Literal, Mapping, Node, Ref, TensorType
from workbench.kernels.template import Template, Tensor

if TYPE_CHECKING:
    from workbench.aten.registry import Registry

AXES = {"query": "qw", "key": "kw", "value": "kv", "attn_mask": "qk", "result": "qv"}
"""The last two axes of each tensor, by letters: queries, keys, the widths of a key and of a value."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A loop over matrices: its length, and the steps that it takes in each tensor."""

    extent: int
    steps: Dict[str, int]
    letter: str = ""
    """h or g for a loop of which a block has several: over matrices with keys of their own, over those that share
    them."""

    @property
    def same_keys(self) -> bool:
        """Whether all of its matrices have the same keys and values."""
        return not self.steps["key"] and not self.steps["value"]


class Attention(Template):
    """The kernel of one call."""

    def __init__(self, node: Node, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> None:
        super().__init__(node, inputs, outputs)
        given = arguments(node)
        by_value = dict(zip(node.operands, self.inputs, strict=True))
        self.tensors: dict[str, Tensor] = {"result": self.outputs[0]}
        for name in AXES:
            if isinstance(ref := given.get(name), Ref):
                self.tensors[name] = by_value[ref.value]
        self.causal, self.shares_heads = bool(_plain(given["is_causal"])), bool(_plain(given["enable_gqa"]))
        scale = _plain(given["scale"])
        self.scale = 1 / math.sqrt(self.width) if scale is None else float(scale)

    @staticmethod
    def axes(name: str) -> str:
        """The letters of a tensor's last two axes."""
        return AXES[name]

    @property
    def queries(self) -> int:
        return self.tensors["query"].shape[-2]

    @property
    def keys(self) -> int:
        """Those that some query may see."""
        there = self.tensors["key"].shape[-2]
        return min(there, self.queries) if self.causal else there

    @property
    def width(self) -> int:
        """Of a query and of a key."""
        return self.tensors["query"].shape[-1]

    @property
    def value_width(self) -> int:
        return self.tensors["value"].shape[-1]

    @property
    def narrow(self) -> str:
        """The type of weights in the second product."""
        return self.tensors["value"].type.dtype

    @property
    def accumulated(self) -> str:
        """The type of scores and sums."""
        return "f64" if self.outputs[0].type.dtype == "f64" else "f32"

    @property
    def masked(self) -> bool:
        return "attn_mask" in self.tensors

    @cached_property
    def walks(self) -> tuple[Walk, ...]:
        """The loops over matrices; those that leave keys and values where they are come last."""
        lead, shared = self.outputs[0].shape[:-2], 1
        if self.shares_heads:
            shared = lead[-1] // self.tensors["key"].shape[-3]
            lead = (*lead[:-1], lead[-1] // shared, shared)
        steps = {name: self._steps(name, len(lead), shared) for name in self.tensors}
        every = [Walk(n, {name: each[axis] for name, each in steps.items()}) for axis, n in enumerate(lead) if n > 1]
        found = _merged(sorted(every, key=lambda walk: walk.same_keys))
        letters = {walk.same_keys: place for place, walk in enumerate(found)}
        for same, place in letters.items():
            found[place] = Walk(found[place].extent, found[place].steps, "g" if same else "h")
        return tuple(found)

    def _steps(self, name: str, rank: int, shared: int) -> list[int]:
        """The strides of a tensor's leading axes, 0 where it is the same for all matrices."""
        kind = self.tensors[name].type
        lead = zip(kind.shape[:-2], kind.strides[:-2], strict=True)
        found = [0 if extent == 1 else stride for extent, stride in lead]
        if self.shares_heads and name in ("key", "value"):
            found.append(0)
        elif self.shares_heads and found:
            found[-1:] = [found[-1] * shared, found[-1]]
        return [0] * (rank - len(found)) + found

    def dims(self) -> dict[str, int]:
        named = {walk.letter: walk.extent for walk in self.walks}
        several = {name: named[letter] for name, letter in (("matrices", "h"), ("sharing", "g")) if letter in named}
        return several | {"queries": self.queries, "keys": self.keys}

    def buffers(self) -> int:
        return 2

    def tile(self, machine: Machine) -> dict[str, int]:
        return chosen_tile(self, machine)

    def render(self, mapping: Mapping, machine: Machine) -> str:
        return AttentionText(self, mapping, machine).written()


def _merged(walks: list[Walk]) -> list[Walk]:
    """The loops, those that follow one another in every tensor as one."""
    found = list[Walk]()
    for walk in walks:
        follows = found and all(found[-1].steps[name] == walk.extent * step for name, step in walk.steps.items())
        if follows:
            found[-1] = Walk(found[-1].extent * walk.extent, walk.steps)
        else:
            found.append(walk)
    return found


def _plain(given: Arg) -> bool | int | float | str | None:
    return given.value if isinstance(given, Literal) else None


def refuses(node: Node, types: Dict[str, TensorType]) -> str:
    """Why a call has no kernel of its own, empty where it has one."""
    given = arguments(node)
    if _plain(given["dropout_p"]):
        return "dropout draws a number for each weight, and weights are not in memory"
    key, value = (types[each.value].shape for name in ("key", "value") if isinstance(each := given[name], Ref))
    if _plain(given["enable_gqa"]) and key[-3] != value[-3]:
        return f"keys have {key[-3]} heads and values {value[-3]}, so query heads share them in different groups"
    return ""


def register(registry: Registry) -> None:
    """Registers the template of this file."""
    one = OneKernel("attention", refuses)
    registry.template("aten.scaled_dot_product_attention.default", one_kernel=one)(Attention)
