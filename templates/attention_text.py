"""The text of attention's kernel: its loops, and the loads and stores in each."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from simulator.machine.machine import Machine
from templates.attention_call import Call, Walk
from templates.attention_passes import Box, Keys, Part, Passes
from templates.attention_tiles import NAMES, buffers, strides, tiles_for
from templates.writing import Index, View, Writer
from workbench.ir import Mapping


class AttentionText:
    """Writes the kernel's text for the tiles of a mapping."""

    def __init__(self, call: Call, mapping: Mapping, machine: Machine) -> None:
        self.of, self.out, self.cores = call, Writer(), machine.core.count
        sizes = {letter: mapping.tile.get(name, 1) for letter, name in NAMES.items()}
        self.tiles = tiles_for(call, sizes, mapping.buffers, machine)
        steps = [(walk.extent, self._step(walk)) for walk in call.walks]
        steps.append((call.queries, self.tiles.sizes["q"]))
        self.deals = self.cores > 1 and any(step < extent for extent, step in steps)
        """True if the next loop is divided among the cores; buffers are then allocated inside that loop."""
        self.held = buffers(call, self.tiles)
        self.views = dict[str, View]()
        self.numbers = list[Index]()
        """For each loop over matrices around, the place of this block's first matrix."""
        self.block: dict[str, Index] = {"h": 1, "g": 1}
        """The extents of this block in matrices, by the letters h and g."""
        self.counted = list[tuple[str, int, int]]()
        """The loops around, outermost first: (variable, step, trips)."""
        self.slots = dict[str, str]()
        """Tensor -> the slot of its buffer with its current block."""
        self.passes = Passes(call, self.out, self.tiles, self.held, self.views)

    def written(self, function: str) -> str:
        out = self.out
        with out.block(f"func.func {function}"):
            if self.deals:
                self._matrices(0)
            else:
                self._allocated()
                self._matrices(0)
                out.dealloc(list(self.views.values()))
            out.line("return")
        return "\n".join(out.lines) + "\n"

    # Loops

    @contextlib.contextmanager
    def _loop(self, extent: int, step: int, end: Index | None = None) -> Generator[Index]:
        """Writes a loop around the block, unless it has one trip; yields its variable, else 0.

        The first loop with several trips is divided among the cores.
        """
        if step >= extent:
            yield 0
            return
        if self.deals:
            self.deals = False
            variable, every = self.out.fresh("i"), step * self.cores
            with self.out.block(f"scf.forall ({variable}) = (0) to ({extent}) step ({step})"):
                self._allocated()
                self.counted.append((variable, every, -(-extent // every)))
                yield variable
                self.counted.pop()
                self.out.dealloc(list(self.views.values()))
            return
        with self.out.loop(0, extent if end is None else end, step) as variable:
            self.counted.append((variable, step, -(-extent // step)))
            yield variable
            self.counted.pop()

    def _allocated(self) -> None:
        for name, each in self.held.items():
            self.views[name] = self.out.alloc(each.shape, each.dtype, name, each.slots)

    def _matrices(self, place: int) -> None:
        """Writes the loops over matrices from number `place` on; keys are loaded outside of loops that share them."""
        walks, of = self.of.walks, self.of
        if place < len(walks):
            walk = walks[place]
            step = self._step(walk)
            with self._loop(walk.extent, step) as number:
                self.numbers.append(number)
                if walk.letter:
                    self.block[walk.letter] = self.out.length(step, walk.extent, number)
                if all(later.same_keys for later in walks[place + 1 :]):
                    self._loaded_keys()
                self._matrices(place + 1)
                self.numbers.pop()
            return
        with self._loop(of.queries, self.tiles.sizes["q"]) as first:
            self._loaded_keys()
            self._queries(first)

    def _step(self, walk: Walk) -> int:
        return self.tiles.sizes[walk.letter] if walk.letter else 1

    # What is moved

    def _slot(self, name: str) -> str:
        """The slot of a buffer for this iteration of the loops around; "" if the buffer has one slot."""
        slots = self.held[name].slots
        if slots == 1:
            return ""
        number = "0"
        for place, (_, step, trips) in enumerate(self.counted):
            number = f"({number}) * {trips} + d{place} floordiv {step}"
        return self.out.compute(f"({number}) mod {slots}", *(variable for variable, _, _ in self.counted))

    def _loaded_keys(self) -> None:
        """Loads all keys and values of these matrices, if they stay in the scratchpad: once, when there are buffers."""
        if self.tiles.held and self.views and "key" not in self.slots:
            self.slots = {name: self._load(name, {"k": (0, self.of.keys)}) for name in ("key", "value")}

    def _load(self, name: str, box: Box) -> str:
        """Loads the block `box` of a tensor into a slot of its buffer; returns the slot."""
        slot = self._slot(name)
        self.out.copy(self._outside(name, box), self._inside(name, box, slot))
        return slot

    def _inside(self, name: str, box: Box, slot: str) -> View:
        return self.passes.part(name, {each: (0, size) for each, (_, size) in ({**self._lead(), **box}).items()}, slot)

    def _lead(self) -> dict[str, tuple[Index, Index]]:
        return {each: (0, size) for each, size in self.block.items()}

    def _outside(self, name: str, box: Box) -> View:
        """The block `box` of a tensor in DRAM, with its axes in the order of its buffer."""
        held, steps = self.held[name], strides(self.of, name)
        walked = zip(self.numbers, self.of.walks, strict=False)
        begins = [(number, walk.steps[name]) for number, walk in walked]
        begins += [(box[each][0], steps[each]) for each in held.axes if each in box]
        sizes = {each: size for each, (_, size) in ({**self._lead(), **box}).items()}
        extents = [sizes.get(each, extent) for each, extent in zip(held.axes, held.shape, strict=False)]
        return self.out.moved_outside(
            self.of.tensors[name], begins, extents or [1], [steps[each] for each in held.axes] or [1]
        )

    # A block of queries

    def _queries(self, first: Index) -> None:
        """Writes the work on a block of queries; scores are computed again for each part of a cut width of values."""
        of, size = self.of, self.tiles.sizes
        count = self.out.length(size["q"], of.queries, first)
        queries: Box = {"q": (first, count)}
        if self.tiles.sizes["w"] >= of.width:
            self.slots["query"] = self._load("query", queries)
        parts = self._parts(first, count)
        with self._loop(of.value_width, size["v"]) as start:
            values: Box = {"v": (start, self.out.length(size["v"], of.value_width, start))}
            inside: Box = {"v": (0, values["v"][1])}
            own = [Part({**part.box, **inside}, part.first) for part in parts]
            for part in own:
                self.passes.begun(part)
            end: Index = of.keys
            if of.causal and size["k"] < of.keys:
                end = self.out.least(of.keys, "d0 + d1", *(self.out.index(each) for each in (first, count)))
            with self._loop(of.keys, size["k"], end) as key:
                self._keys(key, own, queries, values)
            result = self._slot("result")
            box: Box = {**self._lead(), "q": (0, count), **inside}
            self.passes.divided(box, result)
            self.out.copy(self.passes.part("result", box, result), self._outside("result", {**queries, **values}))

    def _parts(self, first: Index, count: Index) -> list[Part]:
        """The parts of a block of queries, each with its own box of maxima and sums."""
        whole = self._lead() | {"q": (0, count)}
        if not self.tiles.split:
            return [Part(whole, first)]
        letter, part = self.tiles.split, self.tiles.part
        found = list[Part]()
        for begin in (0, part):
            size = self._rest(whole[letter][1], begin, part)
            start = first
            if letter == "q" and begin:
                start = first + begin if isinstance(first, int) else self.out.compute(f"d0 + {begin}", first)
            found.append(Part({**whole, letter: (begin, size)}, start))
        return found

    def _rest(self, count: Index, begin: int, part: int) -> Index:
        """The length of the part that begins at `begin`: a whole part, or what `count` leaves of it."""
        if isinstance(count, int):
            return max(0, min(part, count - begin))
        size = self.out.least(part, f"d0 - {begin}", count)
        return self.out.most(0, "d0", size) if begin else size

    def _keys(self, first: Index, parts: list[Part], queries: Box, values: Box) -> None:
        """Writes the work on a block of keys; both products come first, so that arrays and vector unit overlap."""
        count = self.out.length(self.tiles.sizes["k"], self.of.keys, first)
        box: Box = {"k": (first, count)}
        if not self.tiles.held:
            self.slots["value"] = self._load("value", {**box, **values})
            if self.tiles.sizes["w"] >= self.of.width:
                self.slots["key"] = self._load("key", box)
        if self.of.masked:
            self.slots["attn_mask"] = self._load("attn_mask", {**queries, **box})
        begin = first if self.tiles.held else 0
        blocks = [(part, Keys(first, self._seen(first, count, part), begin)) for part in parts]
        cut = self.tiles.sizes["w"] < self.of.width
        for part, keys in blocks if cut else ():
            self.passes.cleared(part, keys)
        with self._loop(self.of.width, self.tiles.sizes["w"]) as start:
            width = self.out.length(self.tiles.sizes["w"], self.of.width, start)
            for name, given in (("query", queries), ("key", box)) if cut else ():
                self.slots[name] = self._load(name, {**given, "w": (start, width)})
            for part, keys in blocks:
                if not cut:
                    self.passes.cleared(part, keys)  # directly before the product, which then needs no fill
                self.passes.scored(part, keys, self.slots, width)
        for part, keys in blocks:
            self.passes.weighed(part, keys, self.slots)
        for part, keys in blocks:
            self.passes.summed(part, keys, self.slots)

    def _seen(self, first: Index, count: Index, part: Part) -> Index:
        """The number of keys of a block that a part may see: a causal mask hides keys after its last query."""
        if not self.of.causal:
            return count
        names = [self.out.index(each) for each in (count, part.first, part.box["q"][1], first)]
        operands = ", ".join(names)
        least = f"affine.min affine_map<(d0, d1, d2, d3) -> (d0, d1 + d2 - d3)>({operands})"
        return self.out.most(0, "d0", self.out.value(least, "size"))
