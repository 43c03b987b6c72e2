"""Sorting: sort, topk, and ops that decompose into these (argsort, median, kthvalue).

A tile of rows is in the scratchpad, padded to a power of two, with the original place of each number. Batcher's
merging network sorts it: stages of compare-exchange, each over many pairs at once, with loops over strides around them.
Equal numbers are ordered by their places, so the sort is stable; a NaN is larger than any number.

A row that does not fit is sorted block by block; then the same network sorts the blocks, and merges a pair of blocks
where it would exchange a pair of numbers. topk keeps the best numbers so far and goes through the rest of the row.
"""

from __future__ import annotations

import contextlib
import math

from simulator.machine.machine import Machine
from simulator.tileprogram.program import MAX_RANK
from templates.writing import FLOATS, Body, Index, View, Writer, element_bytes, literal, signature, worst
from workbench.ir import Mapping, Node, TensorType
from workbench.ir.graph import row_major
from workbench.operators.aten.overload_schema import plain_arguments
from workbench.operators.aten.registry import Registry
from workbench.scheduling.importing.importer import element_type
from workbench.scheduling.kernels.node_builder import UNSIGNED
from workbench.scheduling.kernels.template import Template, Tensor

PLACE = "i32"
"""The type of places while sorting: it suffices for every row, and vectors hold twice as many as of i64."""

NOWHERE = str(2**31 - 1)
"""The place of padding: after every other place."""

WIDER = {"f16": "f32", "bf16": "f32", "i16": "i32"}
"""Type -> type in which its numbers are sorted if lanes compute with none so narrow: widened once, not at each step."""

STEPS = 8
"""The number of tiles to aim at, so that moving and sorting can overlap."""


PASSES = 128
"""The most parts of a row that topk goes through, since each is scheduled and simulated by itself."""

OPERATIONS = 18
"""The vector unit's operations to exchange a pair of floats: see `_exchange`."""


def power_of_two(at_least: int) -> int:
    return 1 << max(at_least - 1, 0).bit_length()


class Sort(Template):
    """Sorts all of a row, or keeps its first `kept` numbers in order."""

    def __init__(self, node: Node, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> None:
        super().__init__(node, inputs, outputs)
        given = plain_arguments(node)
        self.shape = inputs[0].shape or (1,)
        self.axis = int(str(given["dim"])) % len(self.shape)
        self.length = self.shape[self.axis]
        self.descending = bool(given.get("descending", given.get("largest")))
        self.kept = (outputs[0].shape or (1,))[self.axis]

    @property
    def dtype(self) -> str:
        return self.inputs[0].type.dtype

    def sorted_as(self, machine: Machine) -> str:
        """The type in which the numbers are sorted."""
        return WIDER.get(self.dtype, self.dtype) if machine.vector.narrowest_float_bytes > 2 else self.dtype

    def dims(self) -> dict[str, int]:
        return {f"d{axis}": extent for axis, extent in enumerate(self.shape)}

    def tile(self, machine: Machine) -> dict[str, int]:
        """A tile of whole rows, or of as much of a row as fits, a power of two; rows fill innermost dims first."""
        kinds = {self.dtype, self.sorted_as(machine)}
        room = machine.scratchpad_bytes * 7 // 8 // (sum(map(element_bytes, kinds)) + 4 + 8)
        width = power_of_two(self.length)
        while width > max(room, 2 * self.kept if self.kept < self.length else 2):
            width //= 2
        if width < self.length and self.kept < self.length:
            width = self._fastest_width(width, machine)
        sorted_dim = f"d{self.axis}"
        tile = dict.fromkeys(self.dims(), 1) | {sorted_dim: min(width, self.length)}
        rows = max(1, min(room // width, max(math.prod(self.shape) // STEPS, machine.vector_elements(4)) // width))
        for dim in list(self.dims())[-MAX_RANK:][::-1]:
            if dim != sorted_dim:
                tile[dim] = min(self.dims()[dim], max(1, rows))
                rows //= tile[dim]
        return tile

    def _fastest_width(self, widest: int, machine: Machine) -> int:
        """The width of a tile with which topk takes the fewest cycles.

        A narrower tile is sorted in fewer steps, but the kept numbers take more of it, so there are more passes.
        """
        vector, rows = machine.vector, math.prod(self.shape) // self.length

        def cycles(width: int) -> float:
            deep = width.bit_length() - 1
            pairs = min(rows, max(1, machine.vector_elements(4) // width)) * width / 2 / machine.vector_elements(4)
            step = OPERATIONS * (vector.alu_latency_cycles + pairs / vector.alus)
            return self._passes(width) * (machine.dram_latency_cycles + deep * (deep + 1) / 2 * step)

        able = [
            width
            for width in (widest >> by for by in range(widest.bit_length()))
            if width >= 2 * self.kept and self._passes(width) <= PASSES
        ]
        return min(able, key=cycles, default=widest)

    def _passes(self, width: int) -> int:
        return -(-self.length // (width - self.kept))

    def render(self, mapping: Mapping, machine: Machine) -> str:
        return _Text(self, [mapping.tile[dim] for dim in self.dims()], self.sorted_as(machine)).written()


class _Text:
    """Writes the text for tiles of these extents. Rows lie one after another in the buffers, whatever the dim."""

    def __init__(self, sort: Sort, tile: list[int], dtype: str) -> None:
        self.sort, self.tile, self.dtype, self.out = sort, tile, dtype, Writer()
        self.axis, self.parts = sort.axis, tile[sort.axis] < sort.length
        self.width = power_of_two(tile[sort.axis])
        rows = [extent for axis, extent in enumerate(tile) if axis != self.axis]
        self.rows, places = math.prod(rows), iter(row_major(rows))
        self.row_of = [0 if axis == self.axis else next(places) for axis in range(len(tile))]
        """For each axis, the number of rows from one place to the next; 0 for the sorted axis."""
        self.starts, self.sizes = list[Index]([0] * len(tile)), list[Index](tile)
        """`starts` has the tile's first place along each axis, `sizes` its extents."""

    def written(self) -> str:
        sort, out = self.sort, self.out
        with out.block(f"func.func @{sort.kernel}({signature(sort)})"):
            self.values = out.alloc([self.rows, self.width], self.dtype, "values")
            widened = self.dtype != sort.dtype
            self.narrow = out.alloc([self.rows, self.width], sort.dtype, "narrow") if widened else self.values
            self.places = out.alloc([self.rows, self.width], PLACE, "places")
            stored = self.width if self.parts and sort.kept == sort.length else sort.kept
            self.long_width, self.long = stored, out.alloc([self.rows, stored], "i64", "long")
            with contextlib.ExitStack() as loops:
                for axis, step in enumerate(self.tile):
                    if axis != self.axis:
                        self.starts[axis], self.sizes[axis] = out.piece(loops, sort.shape[axis], step)
                self._sorted_rows()
            out.dealloc([self.values, *([self.narrow] if widened else []), self.places, self.long])
            out.line("return")
        return "\n".join(out.lines) + "\n"

    def _sorted_rows(self) -> None:
        sort = self.sort
        if not self.parts:
            self._take(0, sort.length, at=0)
            self._network(0)
            self._store(0, sort.kept)
        elif sort.kept < sort.length:
            self._best()
        else:
            self._blocks()

    def _best(self) -> None:
        """Writes topk: the best so far stay first, the next numbers of the row fill the width, all are sorted."""
        sort, out = self.sort, self.out
        step = self.width - sort.kept
        self._pad(0)
        with out.loop(0, sort.length, step) as start:
            count = out.length(step, sort.length, start)
            self._take(start, count, at=sort.kept)
            self._network(0)
        self._store(0, sort.kept)

    def _blocks(self) -> None:
        """Writes the sort of rows that do not fit: first of each tile, as two sorted blocks, then of blocks."""
        out, length = self.out, self.sort.length
        with out.loop(0, length, self.width) as start:
            count = out.length(self.width, length, start)
            self._take(start, count, at=0)
            self._network(0)
            self._store(start, count)
        block = self.width // 2
        blocks = -(-length // block)
        with out.loop(1, power_of_two(blocks).bit_length() - 1) as level:
            half = self._shifted(1, level)
            groups = self._op("shrsi", str(power_of_two(blocks) // 2), level)
            with out.loop(0, self._op("addi", level, "1")) as finer:
                apart = self._op("shrsi", half, finer)
                first = out.value(f"arith.cmpi eq, {finer}, {out.index(0)} : index")
                offset = out.value(f"arith.select {first}, {out.index(0)}, {apart} : index")
                runs = self._op("maxsi", self._op("subi", self._shifted(1, finer), "1"), "1")
                with out.loop(0, groups) as group, out.loop(0, runs) as run, out.loop(0, apart) as place:
                    begun = self._op("addi", self._op("muli", group, self._op("muli", half, "2")), offset)
                    within = self._op("addi", self._op("muli", run, self._op("muli", apart, "2")), place)
                    low = self._op("addi", begun, within)
                    high = self._op("addi", low, apart)
                    there = out.value(f"arith.cmpi slt, {high}, {out.index(blocks)} : index")
                    with out.block(f"scf.if {there}"):
                        self._merged(low, high, block)

    def _merged(self, low: str, high: str, block: int) -> None:
        """Merges two sorted blocks: the first gets the numbers that come first, the second the rest, both sorted."""
        out, length = self.out, self.sort.length
        first, second = (self._op("muli", each, str(block)) for each in (low, high))
        count = out.length(block, length, second)
        if length % block:
            self._pad(block)
        self._load_back(first, block, 0)
        self._load_back(second, count, block)
        self._network(self.width.bit_length() - 2)
        self._store(first, block)
        self._store(second, count, at=block)

    # Parts of the rows

    def _pad(self, start: int) -> None:
        """Fills the columns from `start` on with numbers after which no other number comes."""
        dtype, descending = self.dtype, self.sort.descending
        count: list[Index] = [self.rows, self.width - start]
        ends_with_nan = element_type(dtype) in FLOATS and not descending
        number = literal(math.nan, dtype) if ends_with_nan else worst(dtype, descending)
        self.out.fill(self.out.strided(self.values, start, count, [self.width, 1]), number)
        self.out.fill(self.out.strided(self.places, start, count, [self.width, 1]), NOWHERE)

    def _take(self, start: Index, count: Index, at: int) -> None:
        """Loads `count` numbers of the rows into the columns from `at` on, with their places, and pads the rest."""
        out = self.out
        if not isinstance(count, int) or at + count < self.width:
            self._pad(at if isinstance(count, str) else at + count)
        self._load(self.sort.inputs[0], start, count, at)
        target = out.strided(self.places, at, [self.rows, count], [self.width, 1])

        def place(body: Body, names: list[str]) -> list[str]:
            here = body.place(1, PLACE)
            return [here if start == 0 else body.op("arith.addi", here, body.cast(str(start), PLACE), type=PLACE)]

        out.each(2, [], [target], place)

    def _load(self, tensor: Tensor, start: Index, count: Index, at: int) -> None:
        """Loads `count` numbers of the rows into the columns from `at` on, converted to the type for sorting."""
        outside = self._outside(tensor, start, count)
        self.out.copy(outside, self._columns(self.narrow, self.width, at, count))
        if self.narrow is not self.values:
            self._converted(self.narrow, self.width, self.values, self.width, at, count, self.sort.dtype, self.dtype)

    def _load_back(self, start: str, count: Index, at: int) -> None:
        """Loads a part that is already sorted, with its places, from the results."""
        out, (values, places) = self.out, self.sort.outputs
        self._load(values, start, count, at)
        long = self._columns(self.long, self.long_width, at, count)
        out.copy(self._outside(places, start, count), long)
        self._converted(self.long, self.long_width, self.places, self.width, at, count, "i64", PLACE)

    def _store(self, start: Index, count: Index, at: int = 0) -> None:
        out, (values, places) = self.out, self.sort.outputs
        if self.narrow is not self.values:
            self._converted(self.values, self.width, self.narrow, self.width, at, count, self.dtype, self.sort.dtype)
        source = self._columns(self.narrow, self.width, at, count)
        out.copy(source, self._outside(values, start, count))
        self._converted(self.places, self.width, self.long, self.long_width, at, count, PLACE, "i64")
        long = self._columns(self.long, self.long_width, at, count)
        out.copy(long, self._outside(places, start, count))

    def _converted(
        self, source: View, source_width: int, target: View, target_width: int, at: int, count: Index, old: str,
        new: str,
    ) -> None:  # fmt: skip
        """Converts columns of numbers or places from one type and buffer to another."""
        out = self.out
        given = out.strided(source, at, [self.rows, count], [source_width, 1])
        made = out.strided(target, at, [self.rows, count], [target_width, 1])
        out.each(2, [given], [made], lambda body, names: [body.converted(names[0], old, new)])

    def _columns(self, buffer: View, width: int, at: int, count: Index) -> View:
        """`count` columns of all rows of a tile, from `at` on, as a view with the axes of the tensor."""
        steps = [1 if axis == self.axis else row * width for axis, row in enumerate(self.row_of)]
        return self.out.strided(buffer, at, self._with(self.sizes, count), steps)

    def _outside(self, tensor: Tensor, start: Index, count: Index) -> View:
        return self.out.outside(tensor, self._with(self.starts, start), self._with(self.sizes, count))

    def _with(self, values: list[Index], here: Index) -> list[Index]:
        return [here if axis == self.axis else value for axis, value in enumerate(values)]

    # The network

    def _network(self, first: int) -> None:
        """Merges sorted runs of 2^first numbers to ever longer runs, until a row is one run."""
        out, width = self.out, self.width
        if width == 1:
            return
        with out.loop(first, width.bit_length() - 1) as level:
            half, pair = self._shifted(1, level), self._shifted(2, level)
            groups = self._op("shrsi", str(width // 2), level)
            sizes: list[Index] = [self.rows, groups, half]
            self._exchange(0, half, sizes, [width, pair, 1])
            with out.loop(1, self._op("addi", level, "1")) as finer:
                apart = self._op("shrsi", half, finer)
                twice = self._op("muli", apart, "2")
                runs = self._op("subi", self._shifted(1, finer), "1")
                self._exchange(apart, twice, [self.rows, groups, runs, apart], [width, pair, twice, 1])

    def _exchange(self, low: Index, high: Index, sizes: list[Index], strides: list[Index]) -> None:
        """Exchanges each pair whose numbers are in the wrong order."""
        element = self.values.element
        views = [
            self.out.strided(buffer, start, sizes, strides)
            for buffer in (self.values, self.places)
            for start in (low, high)
        ]

        def ordered(body: Body, names: list[str]) -> list[str]:
            lower, upper, here, there = names
            later = body.compare("sgt", here, there, PLACE)
            wrong = body.op(
                "arith.ori", self._after(body, lower, upper), self._tied(body, lower, upper, later), type="i1"
            )
            return [
                body.select(wrong, upper, lower, element), body.select(wrong, lower, upper, element),
                body.select(wrong, there, here, PLACE), body.select(wrong, here, there, PLACE),
            ]  # fmt: skip

        self.out.each(len(sizes), [], views, ordered)

    def _tied(self, body: Body, lower: str, upper: str, later: str) -> str:
        """True where the upper number does not come after the lower one by value, and stood before it in the tensor."""
        kept = body.op("arith.xori", self._after(body, upper, lower), body.number("true", "i1"), type="i1")
        return body.op("arith.andi", kept, later, type="i1")

    def _after(self, body: Body, left: str, right: str) -> str:
        """True where `left` comes after `right` by their values, whatever their places."""
        if self.sort.descending:
            left, right = right, left
        element = self.values.element
        if element not in FLOATS:
            return body.compare("ugt" if self.sort.dtype in UNSIGNED else "sgt", left, right, element)
        nan = body.op(
            "arith.andi",
            body.compare("uno", left, left, element),
            body.compare("ord", right, right, element),
            type="i1",
        )
        return body.op("arith.ori", body.compare("ogt", left, right, element), nan, type="i1")

    def _op(self, name: str, left: str, right: str) -> str:
        """Writes index arithmetic on SSA names or plain numbers; returns the result's name."""
        operands = (each if each.startswith("%") else self.out.index(int(each)) for each in (left, right))
        return self.out.value(f"arith.{name} {', '.join(operands)} : index")

    def _shifted(self, number: int, by: str) -> str:
        return self._op("shli", str(number), by)


def register(registry: Registry) -> None:
    """Registers the templates of this file."""
    registry.template("aten.sort.default", "aten.sort.stable", "aten.topk.default")(Sort)
