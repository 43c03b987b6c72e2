"""The text of attention's kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.machine.machine import Machine
from templates.attention_tiles import Held, buffers, tiles_of
from templates.writing import Body, Index, View, Writer, literal, signature
from workbench.importing.importer import element_type
from workbench.ir import Mapping

if TYPE_CHECKING:
    from templates.attention import Attention

LOWEST = {"f32": "-3.4028234663852886e+38", "f64": "-1.7976931348623157e+308"}
"""The least finite number: where no score is larger, one of minus infinity has no weight."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A part of a block's queries, with maxima and sums of its own."""

    begin: int
    """Its first query, counted from that of the block."""
    first: Index
    """Its first query, counted from that of the matrix."""
    count: Index


@dataclass(frozen=True, slots=True)
class Keys:
    """A block of keys: its first one, how many, and where it begins in its buffer."""

    first: Index
    count: Index
    begin: Index


class AttentionText:
    """Letters of loops: q and k, queries and keys; w and v, the widths of keys and of values."""

    def __init__(self, attention: Attention, mapping: Mapping, machine: Machine) -> None:
        self.of, self.out, self.cores = attention, Writer(), machine.core.count
        self.tiles = tiles_of(attention, mapping, machine)
        self.held = buffers(attention, self.tiles)
        self.kind = attention.accumulated
        self.element = element_type(self.kind)
        self.several = self.tiles.keys < attention.keys
        self.views = dict[str, View]()
        self.numbers = list[Index]()
        """The variables of the loops over matrices around."""
        self.counted = list[tuple[str, int, int]]()
        """The loops around: variable, step and trips."""

    # Loops

    def written(self) -> str:
        out, of = self.out, self.of
        with out.block(f"func.func @{of.kernel}({signature(of)})"):
            if self.cores == 1:
                self._allocated()
                self._matrices(0)
                out.dealloc(list(self.views.values()))
            elif of.walks:
                with self._spread(of.walks[0].extent, 1) as number:
                    self.numbers.append(number)
                    if of.walks[0].same_keys:
                        self._loaded_keys()
                    self._matrices(1)
            else:
                with self._spread(of.queries, self.tiles.queries) as first:
                    self._loaded_keys()
                    self._queries(first)
            out.line("return")
        return "\n".join(out.lines) + "\n"

    @contextlib.contextmanager
    def _spread(self, extent: int, step: int):
        """A loop whose iterations are dealt to the cores, each with buffers of its own."""
        variable = self.out.fresh("i")
        with self.out.block(f"scf.forall ({variable}) = (0) to ({extent}) step ({step})"):
            self._allocated()
            self.counted.append((variable, step * self.cores, -(-extent // (step * self.cores))))
            yield variable
            self.out.dealloc(list(self.views.values()))

    def _allocated(self) -> None:
        for name, each in self.held.items():
            self.views[name] = self.out.alloc(each.shape, each.dtype, name, each.slots)

    def _matrices(self, place: int) -> None:
        """The loops over matrices from this one on. Keys and values are loaded outside of those that share them."""
        walks = self.of.walks
        if place == sum(not walk.same_keys for walk in walks):
            self._loaded_keys()
        if place < len(walks):
            with self._loop(0, walks[place].extent, 1, walks[place].extent) as number:
                self.numbers.append(number)
                self._matrices(place + 1)
                self.numbers.pop()
        elif self.tiles.queries < self.of.queries:
            with self._loop(0, self.of.queries, self.tiles.queries, self.of.queries) as first:
                self._queries(first)
        else:
            self._queries(0)

    @contextlib.contextmanager
    def _loop(self, start: int, end: Index, step: int, most: int):
        with self.out.loop(start, end, step) as variable:
            self.counted.append((variable, step, -(-most // step)))
            yield variable
            self.counted.pop()

    def _slot(self, name: str) -> str:
        """The slot of a buffer that this iteration of the loops around uses; nothing where there is only one."""
        slots = self.held[name].slots
        if slots == 1:
            return ""
        number = "0"
        for place, (_, step, trips) in enumerate(self.counted):
            number = f"({number}) * {trips} + d{place} floordiv {step}"
        return self.out.compute(f"({number}) mod {slots}", *(variable for variable, _, _ in self.counted))

    # Tiles

    def _loaded_keys(self) -> None:
        """All keys and values of a matrix, if they stay."""
        if self.tiles.held:
            everything = {"k": (0, self.of.keys)}
            self.slots = {name: self._load(name, everything) for name in ("key", "value")}

    def _load(self, name: str, box: dict[str, tuple[Index, Index]]) -> str:
        """Fills a slot of a buffer; the slot."""
        slot = self._slot(name)
        self.out.copy(self._outside(name, box), self._part(name, {each: (0, size) for each, (_, size) in box.items()}, slot))
        return slot

    def _outside(self, name: str, box: dict[str, tuple[Index, Index]]) -> View:
        """The part of a tensor in DRAM, its axes in the order of its buffer."""
        tensor, held = self.of.tensors[name], self.held[name]
        letters = {"query": "qw", "key": "kw", "value": "kv", "attn_mask": "qk", "result": "qv"}[name]
        strides = dict(zip(letters, tensor.type.strides[-2:], strict=True))
        steps = [(number, walk.steps[name]) for number, walk in zip(self.numbers, self.of.walks, strict=False)]
        steps += [(box[each][0], strides[each]) for each in held.axes if each in box]
        sizes = [box[each][1] if each in box else extent for each, extent in zip(held.axes, held.shape)]
        return self.out.moved_outside(tensor, steps, sizes or [1], [strides[each] for each in held.axes] or [1])

    def _part(self, name: str, box: dict[str, tuple[Index, Index]], slot: str = "") -> View:
        held = self.held[name]
        if not held.axes:
            return self.out.tile(self.views[name], held.shape, [(0, 1)], slot)
        whole = [box.get(each, (0, extent)) for each, extent in zip(held.axes, held.shape, strict=True)]
        return self.out.tile(self.views[name], held.shape, whole, slot)

    # A block of queries

    def _queries(self, first: Index) -> None:
        out, of = self.out, self.of
        count = self._ragged(self.tiles.queries, of.queries, first)
        slot = self._load("query", {"q": (first, count)})
        parts = [self._rows(first, count, place) for place in range(self.tiles.parts)]
        for rows in parts:
            box = {"q": (rows.begin, rows.count)}
            out.fill(self._part("highest", box), LOWEST[self.kind])
            out.fill(self._part("total", box), literal(0, self.kind))
            out.fill(self._part("sum", box), literal(0, self.kind))
        if self.several:
            end: Index = of.keys
            if of.causal:
                end = out.least(of.keys, "d0 + d1", *(out.index(each) for each in (first, count)))
            with self._loop(0, end, self.tiles.keys, of.keys) as key:
                self._keys(key, parts, slot, first, count)
        else:
            self._keys(0, parts, slot, first, count)
        self._stored(first, count)

    def _ragged(self, step: int, extent: int, first: Index) -> Index:
        if isinstance(first, int):
            return min(step, extent - first)
        return self.out.least(step, f"{extent} - d0", first) if extent % step else step

    def _rows(self, first: Index, count: Index, place: int) -> Rows:
        part, out = self.tiles.part, self.out
        begin = place * part
        start = first + begin if isinstance(first, int) else out.compute(f"d0 + {begin}", first)
        if isinstance(count, int):
            return Rows(begin, start, max(0, min(part, count - begin)))
        size = out.least(part, f"d0 - {begin}", count)
        return Rows(begin, start, out.most(0, "d0", size) if place else size)

    def _keys(self, first: Index, parts: Sequence[Rows], query: str, start: Index, queries: Index) -> None:
        """A block of keys: the products of all parts first, so that arrays and vector unit work side by side."""
        out, of = self.out, self.of
        count = self._ragged(self.tiles.keys, of.keys, first)
        if self.tiles.held:
            slots, begin = self.slots, first
        else:
            slots = {name: self._load(name, {"k": (first, count)}) for name in ("key", "value")}
            begin = 0
        mask = self._load("attn_mask", {"q": (start, queries), "k": (first, count)}) if "attn_mask" in of.tensors else ""
        seen = [Keys(first, self._seen(first, count, rows), begin) for rows in parts]
        for rows, keys in zip(parts, seen, strict=True):
            score = self._part("score", self._box(rows, keys, 0))
            out.fill(score, literal(0, self.kind))
            moved = {"k": (begin, keys.count)}
            ways = [("key", "kw", self._part("key", moved, slots["key"]))]
            ways.append(("query", "qw", self._part("query", {"q": (rows.begin, rows.count)}, query)))
            self._product(ways, score, "score", "w")
        for rows, keys in zip(parts, seen, strict=True):
            self._weights(rows, keys, mask)
        for rows, keys in zip(parts, seen, strict=True):
            ways = [("value", "kv", self._part("value", {"k": (begin, keys.count)}, slots["value"]))]
            name = "weight" if "weight" in self.held else "score"
            ways.append((name, "kq", self._part(name, self._box(rows, keys, 0))))
            self._product(ways, self._part("sum", {"q": (rows.begin, rows.count)}), "sum", "k")

    @staticmethod
    def _box(rows: Rows, keys: Keys, begin: Index) -> dict[str, tuple[Index, Index]]:
        return {"q": (rows.begin, rows.count), "k": (begin, keys.count)}

    def _seen(self, first: Index, count: Index, rows: Rows) -> Index:
        """How many of a block's keys a part may see at all: a causal mask hides those after its last query."""
        if not self.of.causal:
            return count
        names = [self.out.index(each) for each in (count, rows.first, rows.count, first)]
        return self.out.most(0, "d0", self.out.value(
            f"affine.min affine_map<(d0, d1, d2, d3) -> (d0, d1 + d2 - d3)>({', '.join(names)})", "size"
        ))

    def _product(self, ways: list[tuple[str, str, View]], target: View, name: str, reduced: str) -> None:
        """Adds a product to a buffer. The factor with the axis that is along the result's lanes comes second."""
        if not self.tiles.across:
            ways = ways[::-1]
        letters = [next(each for each in axes if each != reduced) for _, axes, _ in ways] + [reduced]
        maps = [self._map(self.held[each].axes, letters) for each, _, _ in ways] + [self._map(self.held[name].axes, letters)]
        types = [self.held[each].dtype for each, _, _ in ways]

        def body(body: Body, names: list[str]) -> list[str]:
            left, right = (body.converted(names[place], types[place], self.kind) for place in (0, 1))
            product = body.op("arith.mulf", left, right, type=self.element)
            return [body.op("arith.addf", names[2], product, type=self.element)]

        self.out.each(3, [view for _, _, view in ways], [target], body, maps, [2])

    @staticmethod
    def _map(axes: str, letters: Sequence[str]) -> str:
        return ", ".join(f"d{letters.index(each)}" for each in axes) or "0"

    # Weights

    def _pass(self, ins: list[str], outs: list[str], body, box, reduced: str = "", slot: str = "") -> None:
        """A pass over a box of scores, or over what lies along its queries alone."""
        letters = [each for each in self.held[outs[0]].axes]
        letters += [each for name in (*ins, *outs) for each in self.held[name].axes if each not in letters]
        letters = list(dict.fromkeys(letters))
        maps = [self._map(self.held[name].axes, letters) for name in (*ins, *outs)]
        views = [self._part(name, {each: box[each] for each in self.held[name].axes if each in box}, slot if name in ("attn_mask", "result") else "") for name in (*ins, *outs)]
        self.out.each(len(letters), views[: len(ins)], views[len(ins):], body, maps, [letters.index(each) for each in reduced])

    def _weights(self, rows: Rows, keys: Keys, mask: str) -> None:
        out, of, kind, element = self.out, self.of, self.kind, self.element
        box = self._box(rows, keys, 0)
        scale = of.scale
        masked = "attn_mask" in of.tensors
        if masked or (of.causal and scale <= 0) or scale < 0:
            self._masked(box, mask)
            scale = 1.0
        if of.causal:
            self._hidden(rows, keys, box)
        if self.several:
            self._pass(["highest"], ["before"], lambda body, names: [names[0]], box)
        self._pass(["score"], ["highest"], lambda body, names: [body.op("arith.maximumf", names[0], names[1], type=element)], box, "k")

        def power(body: Body, number: str, highest: str) -> str:
            apart = body.op("arith.subf", number, highest, type=element)
            if scale != 1:
                apart = body.op("arith.mulf", apart, body.number(literal_of(scale), element), type=element)
            return body.op("math.exp", apart, type=element)

        if self.several:
            def shrunk(body: Body, names: list[str]) -> list[str]:
                factor = power(body, names[0], names[1])
                return [factor, body.op("arith.mulf", names[3], factor, type=element)]

            self._pass(["before", "highest"], ["shrink", "total"], shrunk, box)
        name = "weight" if "weight" in self.held else "score"

        def weighed(body: Body, names: list[str]) -> list[str]:
            number = names[0] if name == "weight" else names[1]
            highest = names[1] if name == "weight" else names[0]
            weight = power(body, number, highest)
            total = body.op("arith.addf", names[3] if name == "weight" else names[2], weight, type=element)
            return [body.converted(weight, kind, self.held[name].dtype), total]

        self._pass(["score", "highest"] if name == "weight" else ["highest"], [name, "total"], weighed, box, "k")
        if self.several:
            first = out.index(keys.first)
            later = out.value(f"arith.cmpi sgt, {first}, {out.index(0)} : index")
            with out.block(f"scf.if {later}"):
                self._pass(["shrink"], ["sum"], lambda body, names: [body.op("arith.mulf", names[1], names[0], type=element)], box)

    def _masked(self, box, slot: str) -> None:
        of, element = self.of, self.element

        def body(body: Body, names: list[str]) -> list[str]:
            score = names[-1]
            if of.scale != 1:
                score = body.op("arith.mulf", score, body.number(literal_of(of.scale), element), type=element)
            if "attn_mask" not in of.tensors:
                return [score]
            given = self.held["attn_mask"].dtype
            if given == "bool":
                least = body.number(literal(float("-inf"), self.kind), element)
                return [body.select(names[0], score, least, element)]
            return [body.op("arith.addf", score, body.converted(names[0], given, self.kind), type=element)]

        self._pass(["attn_mask"] if "attn_mask" in of.tensors else [], ["score"], body, box, slot=slot)

    def _hidden(self, rows: Rows, keys: Keys, box) -> None:
        """Scores of later keys, in a block that has some, become minus infinity."""
        out, element = self.out, self.element
        names = [out.index(each) for each in (keys.first, keys.count, rows.first)]
        last = out.compute("d0 + d1 - 1 - d2", *names)
        crosses = out.value(f"arith.cmpi sgt, {last}, {out.index(0)} : index")
        apart = out.compute("d0 - d2", *names)
        axes = self.held["score"].axes

        def body(body: Body, given: list[str]) -> list[str]:
            query, key = (out.value(f"linalg.index {axes.index(each)} : index") for each in "qk")
            moved = out.value(f"arith.addi {key}, {apart} : index")
            later = out.value(f"arith.cmpi sgt, {moved}, {query} : index")
            least = body.number(literal(float("-inf"), self.kind), element)
            return [body.select(later, least, given[-1], element)]

        with out.block(f"scf.if {crosses}"):
            self._pass([], ["score"], body, box)

    def _stored(self, first: Index, count: Index) -> None:
        out, of, element = self.out, self.of, self.element
        slot = self._slot("result")
        box = {"q": (0, count)}

        def body(body: Body, names: list[str]) -> list[str]:
            total = names[1]
            if of.may_be_empty:
                total = body.op("arith.maximumf", total, body.number(literal(1, self.kind), element), type=element)
            return [body.converted(body.op("arith.divf", names[0], total, type=element), self.kind, self.held["result"].dtype)]

        self._pass(["sum", "total"], ["result"], body, box, slot=slot)
        out.copy(self._part("result", box, slot), self._outside("result", {"q": (first, count)}))


def literal_of(value: float) -> str:
    """Every digit of a number."""
    return f"{value:.17e}"
