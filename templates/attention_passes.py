"""The arithmetic of attention in the scratchpad: two products, and the passes over the scores between them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import TypeAlias

from templates.attention_call import Call
from templates.attention_tiles import Held, Tiles
from templates.writing import Body, Index, View, Writer, literal
from workbench.scheduling.importing.importer import element_type

Box: TypeAlias = "Dict[str, tuple[Index, Index]]"
"""Letter of an axis -> (begin, extent) of a part of a tensor along it."""

LOWEST = {"f32": "-3.4028234663852886e+38", "f64": "-1.7976931348623157e+308"}
"""The least finite number, with which maxima begin: the weight of a score of minus infinity is then 0, not NaN."""

Numbers = list[str]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a block of queries, with maxima and sums of its own."""

    box: Box
    first: Index
    """The part's first query, counted in the matrix."""


@dataclass(frozen=True, slots=True)
class Keys:
    """A block of keys: its first key in the matrix, their number, and the place of the first in the buffer."""

    first: Index
    count: Index
    begin: Index


@dataclass(frozen=True)
class Passes:
    """Writes the products and passes on the buffers of one kernel."""

    of: Call
    out: Writer
    tiles: Tiles
    held: Dict[str, Held]
    views: Dict[str, View]

    @property
    def kind(self) -> str:
        return self.of.accumulated

    @property
    def element(self) -> str:
        return element_type(self.kind)

    @property
    def weights(self) -> str:
        """The name of the buffer of the weights: the buffer of the scores, unless weights are rounded."""
        return "weight" if "weight" in self.held else "score"

    def part(self, name: str, box: Box, slot: str = "") -> View:
        """A part of a buffer; along axes that the box does not name, it is whole."""
        held = self.held[name]
        if not held.axes:
            return self.out.tile(self.views[name], held.shape, [(0, 1)], slot)
        whole = [box.get(each, (0, extent)) for each, extent in zip(held.axes, held.shape, strict=True)]
        return self.out.tile(self.views[name], held.shape, whole, slot)

    # Steps

    def begun(self, part: Part) -> None:
        """Sets the maxima and the sums of weights of a part to those of no key."""
        self.out.fill(self.part("highest", part.box), LOWEST[self.kind])
        self.out.fill(self.part("total", part.box), literal(0, self.kind))

    def cleared(self, part: Part, keys: Keys) -> None:
        """Sets the scores of a block of keys to zero."""
        self.out.fill(self.part("score", {**part.box, "k": (0, keys.count)}), literal(0, self.kind))

    def scored(self, part: Part, keys: Keys, slots: Dict[str, str], width: Index) -> None:
        """Adds the products of `width` numbers of queries and keys to the scores of a block of keys."""
        score = self.part("score", {**part.box, "k": (0, keys.count)})
        key = self.part("key", {**part.box, "k": (keys.begin, keys.count), "w": (0, width)}, slots["key"])
        query = self.part("query", {**part.box, "w": (0, width)}, slots["query"])
        self._product({"key": key, "query": query}, score, "score", "w")

    def weighed(self, part: Part, keys: Keys, slots: Dict[str, str]) -> None:
        """Turns scores into weights, and scales the sums so far down where a larger score came."""
        box = {**part.box, "k": (0, keys.count)}
        before = self.of.masked or self.of.scale <= 0
        if before:
            self._changed(box, slots)
        if self.of.causal:
            self._hidden(part, keys, box)
        several = "before" in self.held
        if several:
            self._pass(["highest"], ["before"], box, lambda body, names: [names[0]])
        self._pass(["score"], ["highest"], box, lambda body, names: [self._op(body, "maximum", *names)], reduced="k")
        factor = 1.0 if before else self.of.scale
        if several:
            self._pass(
                ["before", "highest"], ["shrink", "total"], box, lambda body, names: self._shrunk(body, names, factor)
            )
        into = self.weights

        def weight(body: Body, names: Numbers) -> Numbers:
            score, highest = (names[0], names[1]) if into == "weight" else (names[1], names[0])
            found = self._power(body, score, highest, factor)
            total = self._op(body, "add", names[-1], found)
            return [body.converted(found, self.kind, self.held[into].dtype), total]

        given = ["score", "highest"] if into == "weight" else ["highest"]
        self._pass(given, [into, "total"], box, weight, reduced="k")
        if several:
            with self._where(keys, "sgt"):
                self._pass(["shrink"], ["sum"], box, lambda body, names: [self._op(body, "mul", *names[::-1])])

    def summed(self, part: Part, keys: Keys, slots: Dict[str, str]) -> None:
        """Adds the weighted values of a block of keys to the sums; at the first block, sums begin at zero."""
        total = self.part("sum", part.box)
        with self._where(keys, "eq") if "before" in self.held else contextlib.nullcontext():
            self.out.fill(total, literal(0, self.kind))
        value = self.part("value", {**part.box, "k": (keys.begin, keys.count)}, slots["value"])
        weight = self.part(self.weights, {**part.box, "k": (0, keys.count)})
        self._product({"value": value, self.weights: weight}, total, "sum", "k")

    def divided(self, box: Box, slot: str) -> None:
        """Divides the sums by the totals: the result of a block of queries.

        If a mask hides all keys from a query, sum and total are 0; any other total is at least 1, the weight of its
        largest score. There PyTorch's op gives 0, and its softmax 0 / 0."""

        def quotient(body: Body, names: Numbers) -> Numbers:
            total = names[1]
            if self.of.masked and not self.of.by_hand:
                one = body.number(literal(1, self.kind), self.element)
                total = self._op(body, "maximum", total, one)
            found = self._op(body, "div", names[0], total)
            return [body.converted(found, self.kind, self.held["result"].dtype)]

        self._pass(["sum", "total"], ["result"], box, quotient, slots={"result": slot})

    # Scores

    def _changed(self, box: Box, slots: Dict[str, str]) -> None:
        """Scales the scores, then adds a mask of numbers, or replaces the scores that a mask of bools hides."""
        mask = self.held["attn_mask"].dtype if self.of.masked else ""

        def changed(body: Body, names: Numbers) -> Numbers:
            score = self._scaled(body, names[-1], self.of.scale)
            if mask == "bool":
                hidden = self.of.hidden
                text = f"{hidden:.17e}" if math.isfinite(hidden) else literal(hidden, self.kind)
                other = body.number(text, self.element)
                then, otherwise = (other, score) if self.of.hides else (score, other)
                return [body.select(names[0], then, otherwise, self.element)]
            if mask:
                added = body.converted(names[0], mask, self.kind)
                score = self._op(body, "add", score, added)
            return [score]

        self._pass(["attn_mask"] if mask else [], ["score"], box, changed, slots=slots)

    def _hidden(self, part: Part, keys: Keys, box: Box) -> None:
        """Sets scores of keys after their query to minus infinity, if the block has such keys."""
        out, axes = self.out, self.held["score"].axes
        names = [out.index(each) for each in (keys.first, keys.count, part.first)]
        ahead = out.compute("d0 + d1 - 1 - d2", *names)
        apart = out.compute("d0 - d1", names[0], names[2])

        def seen(body: Body, given: Numbers) -> Numbers:
            query, key = (out.value(f"linalg.index {axes.index(each)} : index") for each in "qk")
            place = out.value(f"arith.addi {key}, {apart} : index")
            later = out.value(f"arith.cmpi sgt, {place}, {query} : index")
            least = body.number(literal(-math.inf, self.kind), self.element)
            return [body.select(later, least, given[-1], self.element)]

        with out.block(f"scf.if {out.value(f'arith.cmpi sgt, {ahead}, {out.index(0)} : index')}"):
            self._pass([], ["score"], box, seen)

    def _where(self, keys: Keys, predicate: str) -> contextlib.AbstractContextManager[None]:
        """Opens a block that runs if the place of the first key compares with 0 by `predicate`."""
        first, nothing = self.out.index(keys.first), self.out.index(0)
        return self.out.block(f"scf.if {self.out.value(f'arith.cmpi {predicate}, {first}, {nothing} : index')}")

    def _op(self, body: Body, name: str, left: str, right: str) -> str:
        return body.op(f"arith.{name}f", left, right, type=self.element)

    def _shrunk(self, body: Body, names: Numbers, scale: float) -> Numbers:
        """The factor that scales the sums so far down for a larger maximum, and the scaled total."""
        factor = self._power(body, names[0], names[1], scale)
        return [factor, self._op(body, "mul", names[3], factor)]

    def _power(self, body: Body, score: str, highest: str, scale: float) -> str:
        apart = self._op(body, "sub", score, highest)
        return body.op("math.exp", self._scaled(body, apart, scale), type=self.element)

    def _scaled(self, body: Body, number: str, scale: float) -> str:
        if scale == 1:
            return number
        return body.op("arith.mulf", number, body.number(f"{scale:.17e}", self.element), type=self.element)

    # Ops

    def _product(self, factors: Dict[str, View], target: View, name: str, reduced: str) -> None:
        """Adds a product to a buffer. The second factor is the one with the result's columns, which lie along the
        lanes: queries, or else keys and values."""
        names = list(factors) if self.tiles.across else list(factors)[::-1]
        axes = [self.held[each].axes for each in (*names, name)]
        letters = [*dict.fromkeys(axes[2]), reduced]
        types = [self.held[each].dtype for each in names]

        def body(body: Body, given: Numbers) -> Numbers:
            left, right = (body.converted(given[place], types[place], self.kind) for place in (0, 1))
            product = self._op(body, "mul", left, right)
            return [self._op(body, "add", given[2], product)]

        maps = [_map(each, letters) for each in axes]
        self.out.each(len(letters), [factors[each] for each in names], [target], body, maps, [len(letters) - 1])

    def _pass(
        self, ins: Sequence[str], outs: Sequence[str], box: Box, body: Callable[[Body, Numbers], Numbers],
        reduced: str = "", slots: Dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Writes a pass over a box of buffers; its dims are in the order of the buffer with most axes."""
        names = [*ins, *outs]
        widest = max((self.held[each].axes for each in names), key=len)
        letters = list(dict.fromkeys([*widest, *"".join(self.held[each].axes for each in names)]))
        views = [self.part(each, box, (slots or {}).get(each, "")) for each in names]
        maps = [_map(self.held[each].axes, letters) for each in names]
        places = [letters.index(each) for each in reduced]
        self.out.each(len(letters), views[: len(ins)], views[len(ins) :], body, maps, places)


def _map(axes: str, letters: Sequence[str]) -> str:
    return ", ".join(f"d{letters.index(each)}" for each in axes) or "0"
