"""The arguments of attention: its tensors, and the loops over their matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.ir import Arg, Literal, Node, Ref
from workbench.operators.aten.extra_ops import ATTENTION
from workbench.operators.aten.overload_schema import arguments
from workbench.scheduling.kernels.template import Tensor

AXES = {"query": "qw", "key": "kw", "value": "kv", "attn_mask": "qk", "result": "qv"}
"""The last two axes of each tensor, by letters: q queries, k keys, w the width of a key, v the width of a value."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A loop over matrices: its length, and its stride in each tensor."""

    extent: int
    steps: Dict[str, int]
    letter: str = ""
    """The letter of a loop of which a block may take several matrices: h if these have keys of their own, g if they
    share their keys; else empty."""

    @property
    def same_scores(self) -> bool:
        """True if all matrices of the loop have the same queries and keys, so that no product makes several at once."""
        return not self.steps["query"] and not self.steps["key"]

    @property
    def same_keys(self) -> bool:
        """True if all matrices of the loop have the same keys and values."""
        return not self.steps["key"] and not self.steps["value"]


class Call:
    """One call of attention: its tensors and options, and the loops over its matrices."""

    def __init__(self, node: Node, inputs: Sequence[Tensor], result: Tensor) -> None:
        given = arguments(node)
        by_value = dict(zip(node.operands, inputs, strict=True))
        self.tensors: dict[str, Tensor] = {"result": result}
        for name in AXES:
            if isinstance(ref := given.get(name), Ref):
                self.tensors[name] = by_value[ref.value]
        self.by_hand = node.op == ATTENTION
        """True if the model writes attention by hand, as ops: the result of a query that sees no key is then NaN."""
        self.causal = not self.by_hand and bool(plain(given["is_causal"]))
        self.shares_heads = bool(plain(given["enable_gqa"]))
        self.hides = self.by_hand and bool(plain(given["hides"]))
        """True if a mask of bools hides the scores where it is true, False if it hides those where it is false."""
        self.hidden = float(plain(given["hidden"]) or 0) if self.by_hand else -math.inf
        """The score of a position that a mask of bools hides."""
        self.masked = "attn_mask" in self.tensors
        self.queries, self.width = self.tensors["query"].shape[-2:]
        """`queries` is the number of queries of a matrix, `width` the numbers of each query and key."""
        keys = self.tensors["key"].shape[-2]
        self.keys = min(keys, self.queries) if self.causal else keys
        """The number of keys that any query may see."""
        self.value_width, self.narrow = self.tensors["value"].shape[-1], self.tensors["value"].type.dtype
        """`value_width` is the numbers of each value, `narrow` the type of weights in the second product."""
        self.accumulated = "f64" if result.type.dtype == "f64" else "f32"
        """The type of scores and sums."""
        scale = plain(given["scale"])
        self.scale = 1 / math.sqrt(self.width) if scale is None else float(scale)

    @cached_property
    def walks(self) -> tuple[Walk, ...]:
        """The loops over matrices; loops with the same keys and values for all matrices come last."""
        lead, shared = self.tensors["result"].shape[:-2], 1
        if self.shares_heads:
            shared = lead[-1] // self.tensors["key"].shape[-3]
            lead = (*lead[:-1], lead[-1] // shared, shared)
        steps = {name: self._steps(name, len(lead), shared) for name in self.tensors}
        every = [Walk(n, {name: each[axis] for name, each in steps.items()}) for axis, n in enumerate(lead) if n > 1]
        found = _merged(sorted(every, key=lambda walk: walk.same_keys))
        letters = {walk.same_keys: place for place, walk in enumerate(found) if not walk.same_scores}
        for same, place in letters.items():
            found[place] = Walk(found[place].extent, found[place].steps, "g" if same else "h")
        return tuple(found)

    def _steps(self, name: str, rank: int, shared: int) -> list[int]:
        """The strides of a tensor's leading axes; 0 for an axis along which the tensor is the same."""
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
        return several | {"queries": self.queries, "keys": self.keys, "width": self.width, "values": self.value_width}


def _merged(walks: list[Walk]) -> list[Walk]:
    """The loops, after joining neighbours that walk every tensor as a single loop would."""
    found = list[Walk]()
    for walk in walks:
        follows = found and all(found[-1].steps[name] == walk.extent * step for name, step in walk.steps.items())
        if follows:
            found[-1] = Walk(found[-1].extent * walk.extent, walk.steps)
        else:
            found.append(walk)
    return found


def plain(given: Arg) -> bool | int | float | str | None:
    """The value of an argument that is a plain number, text or None; None for a tensor."""
    return given.value if isinstance(given, Literal) else None
