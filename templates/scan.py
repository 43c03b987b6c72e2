"""Scans: cumsum, cumprod, cummax, cummin, logcumsumexp.

A tile of rows is scanned in place in the scratchpad, in two sweeps over ever longer, then ever shorter strides: every
second element is combined with its neighbour, every fourth with that result, and so on; on the way back the elements
between are combined with the elements before them. That is two operations per element, and each pass has many elements
at once. A row that does not fit is scanned part by part; each part is combined with the last element of the part
before.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial

from simulator.machine.machine import Machine
from simulator.tileprogram.program import MAX_RANK
from templates.writing import FLOATS, Body, Index, View, Writer, element_bytes, literal, signature, worst
from workbench.ir import Literal, Mapping, Node, TensorType
from workbench.ir.graph import row_major
from workbench.operators.aten.registry import Registry
from workbench.scheduling.importing.importer import element_type
from workbench.scheduling.kernels.node_builder import UNSIGNED
from workbench.scheduling.kernels.template import Template

Numbers = list[str]

STEPS = 8
"""The number of tiles to aim at, so that moving and scanning can overlap."""


def wide(dtype: str) -> str:
    """The type in which numbers of this type are accumulated: f32 for 16-bit floats, else the type itself."""
    return "f32" if dtype in ("f16", "bf16") else dtype


class Scan(Template):
    """One scan. A subclass defines the accumulated values and the combination of two of these."""

    def __init__(self, node: Node, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> None:
        super().__init__(node, inputs, outputs)
        given = node.args[1] if len(node.args) > 1 else node.kwargs["dim"]
        assert isinstance(given, Literal)
        self.dim = int(given.value or 0) % max(len(self.shape), 1)

    def begun(self, body: Body, number: str, start: Index) -> Numbers:
        """The accumulated values of a single element; `start` is the tile's first place along the scanned axis."""
        return [body.converted(number, self.inputs[0].type.dtype, self.parts[0])]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result, with at least one dim."""
        return self.outputs[0].shape or (1,)

    @property
    def parts(self) -> tuple[str, ...]:
        """Element types of the accumulated values; the first is the result's."""
        return (wide(self.outputs[0].type.dtype),)

    @property
    def neutral(self) -> tuple[str, ...]:
        """The neutral element of each part."""
        raise NotImplementedError

    def combine(self, body: Body, before: Numbers, here: Numbers) -> Numbers:
        raise NotImplementedError

    def dims(self) -> dict[str, int]:
        return {f"d{axis}": extent for axis, extent in enumerate(self.shape)}

    def tile(self, machine: Machine) -> dict[str, int]:
        """A tile of whole rows, or of as much of a row as fits; rows are taken in innermost dims first."""
        kinds = [*(each.type.dtype for each in (*self.inputs, *self.outputs)), *self.parts]
        room = max(1, machine.scratchpad_bytes // (2 * sum(map(element_bytes, kinds))))
        scanned = f"d{self.dim}"
        tile = dict.fromkeys(self.dims(), 1) | {scanned: min(self.shape[self.dim], room)}
        room = min(room, max(math.prod(self.shape) // STEPS, machine.vector_elements(4)))
        for dim in list(self.dims())[-MAX_RANK:][::-1]:
            if dim != scanned:
                tile[dim] = min(self.dims()[dim], max(1, room // math.prod(tile.values())))
        return tile

    def render(self, mapping: Mapping, machine: Machine) -> str:
        return _Text(self, tuple(mapping.tile[dim] for dim in self.dims())).written()


class _Text:
    """Writes a scan's text for tiles of these extents."""

    def __init__(self, scan: Scan, tile: tuple[int, ...]) -> None:
        self.scan, self.tile, self.out = scan, tile, Writer()
        self.axis, self.length = scan.dim, tile[scan.dim]
        self.strides = row_major(tile)
        self.end = [1 if axis == self.axis else extent for axis, extent in enumerate(tile)]
        """Extents of the values that a tile carries to the next tile."""

    def written(self) -> str:
        scan, out = self.scan, self.out
        with out.block(f"func.func @{scan.kernel}({signature(scan)})"):
            self.given = out.alloc(self.tile, scan.inputs[0].type.dtype, "given")
            self.parts = parts = [out.alloc(self.tile, dtype, "part") for dtype in scan.parts]
            self.made = [self._made(each.type.dtype, part) for each, part in zip(scan.outputs, parts, strict=True)]
            several = self.length < scan.shape[self.axis]
            self.carried = [out.alloc(self.end, dtype, "carried") for dtype in scan.parts if several]
            self._rows()
            out.dealloc([self.given, *parts, *(each for each in self.made if each not in parts), *self.carried])
            out.line("return")
        return "\n".join(out.lines) + "\n"

    def _made(self, dtype: str, part: View) -> View:
        """The buffer of a result: the accumulated values, unless these have another type."""
        return part if element_type(dtype) == part.element else self.out.alloc(self.tile, dtype, "made")

    def _rows(self) -> None:
        """Writes the loops over tiles, the loop along the scanned axis innermost."""
        starts: list[Index] = [0] * len(self.tile)
        sizes: list[Index] = list(self.tile)
        with contextlib.ExitStack() as loops:
            for axis in sorted(range(len(self.tile)), key=lambda axis: axis == self.axis):
                if axis == self.axis:
                    for each, number in zip(self.carried, self.scan.neutral, strict=False):
                        self.out.fill(each, number)
                starts[axis], sizes[axis] = self.out.piece(loops, self.scan.shape[axis], self.tile[axis])
            self._scanned(starts, sizes)

    def _scanned(self, starts: list[Index], sizes: list[Index]) -> None:
        """Writes the work on one tile: loads it, scans it, combines it with the tile before, stores it."""
        out, scan, parts = self.out, self.scan, self.parts
        here = self._part(self.given, sizes)
        out.copy(out.outside(scan.inputs[0], starts, sizes), here)
        targets = [self._part(part, sizes) for part in parts]
        self._each([here], targets, lambda body, names: scan.begun(body, names[0], starts[self.axis]))
        self._swept(sizes)
        if self.carried:
            dims = [f"d{axis}" for axis in range(len(self.tile))]
            same = ", ".join(dims)
            held = ", ".join("0" if axis == self.axis else dim for axis, dim in enumerate(dims))
            count = len(parts)
            before = [self._part(each, self._only(sizes, 1), of=each) for each in self.carried]
            out.each(
                len(dims), before, targets, lambda body, names: scan.combine(body, names[:count], names[count:]),
                [held] * count + [same] * count,
            )  # fmt: skip
            last = [self._part(part, self._only(sizes, 1), self.length - 1) for part in parts]
            self._each(last, before, lambda body, names: names[:count])
        for tensor, part, target, dtype in zip(scan.outputs, targets, self.made, scan.parts, strict=True):
            result = self._part(target, sizes)
            if result.element != part.element:
                self._each([part], [result], partial(_converted, dtype, tensor.type.dtype))
            out.copy(result, out.outside(tensor, starts, sizes))

    def _swept(self, sizes: list[Index]) -> None:
        """Writes both sweeps. Up: the last of every 2k elements takes in the element k before it. Down: the element k
        after each of these takes in that element."""
        k = 1
        while 2 * k <= self.length:
            self._taken_in(sizes, k - 1, 2 * k - 1, k, self.length // (2 * k))
            k *= 2
        while k >= 1:
            if 3 * k <= self.length:
                self._taken_in(sizes, 2 * k - 1, 3 * k - 1, k, (self.length - k) // (2 * k))
            k //= 2

    def _taken_in(self, sizes: list[Index], before: int, here: int, k: int, count: int) -> None:
        only, number = self._only(sizes, count), len(self.parts)
        left, right = ([self._part(part, only, start, 2 * k) for part in self.parts] for start in (before, here))
        self._each(left, right, lambda body, names: self.scan.combine(body, names[:number], names[number:]))

    def _each(self, ins: list[View], outs: list[View], body: Callable[[Body, Numbers], Sequence[str]]) -> None:
        self.out.each(len(self.tile), ins, outs, body)

    def _only(self, sizes: list[Index], count: int) -> list[Index]:
        """The sizes, with `count` elements along the scanned axis."""
        return [count if axis == self.axis else size for axis, size in enumerate(sizes)]

    def _part(self, buffer: View, sizes: list[Index], start: int = 0, step: int = 1, of: View | None = None) -> View:
        """A part of a buffer: every `step`th element along the scanned axis, from `start` on."""
        strides = self.strides if of is None else row_major(self.end)
        steps = [stride * (step if axis == self.axis else 1) for axis, stride in enumerate(strides)]
        return self.out.strided(buffer, start * strides[self.axis], sizes, steps)


def _converted(source: str, target: str, body: Body, names: Numbers) -> Numbers:
    return [body.converted(names[0], source, target)]


class Sum(Scan):
    op, start = "add", 0

    @property
    def neutral(self) -> tuple[str, ...]:
        return (literal(self.start, self.parts[0]),)

    def combine(self, body: Body, before: Numbers, here: Numbers) -> Numbers:
        element = element_type(self.parts[0])
        return [body.op(f"arith.{self.op}{'f' if element in FLOATS else 'i'}", *before, *here, type=element)]


class Product(Sum):
    op, start = "mul", 1


class LogSumExp(Scan):
    """Combines two logarithms: the larger, plus log1p(exp(smaller - larger)); two equal infinities stay as they are."""

    @property
    def neutral(self) -> tuple[str, ...]:
        return (literal(-math.inf, self.parts[0]),)

    def combine(self, body: Body, before: Numbers, here: Numbers) -> Numbers:
        element = element_type(self.parts[0])
        large, small = (body.op(f"arith.{op}f", *before, *here, type=element) for op in ("maximum", "minimum"))
        apart = body.op("arith.subf", small, large, type=element)
        rest = body.op("math.log1p", body.op("math.exp", apart, type=element), type=element)
        both = body.op("arith.addf", large, rest, type=element)
        size = body.op("math.absf", small, type=element)
        infinite = body.compare("oeq", size, body.number(literal(math.inf, self.parts[0]), element), element)
        same = body.compare("oeq", small, large, element)
        return [body.select(body.op("arith.andi", same, infinite, type="i1"), large, both, element)]


class Extreme(Scan):
    """The largest or smallest number so far and its place: the last of equals, or the last NaN if there is one."""

    largest = True

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.inputs[0].type.dtype, "i64")

    @property
    def neutral(self) -> tuple[str, ...]:
        return worst(self.parts[0], self.largest), "0"

    def begun(self, body: Body, number: str, start: Index) -> Numbers:
        place = body.place(self.dim, "i64")
        if isinstance(start, str):
            place = body.op("arith.addi", place, body.cast(start, "i64"), type="i64")
        return [number, place]

    def combine(self, body: Body, before: Numbers, here: Numbers) -> Numbers:
        dtype, element = self.parts[0], element_type(self.parts[0])
        if element in FLOATS:
            better = body.compare("oge" if self.largest else "ole", here[0], before[0], element)
            taken = body.op("arith.ori", better, body.compare("uno", here[0], here[0], element), type="i1")
        else:
            sign = "u" if dtype in UNSIGNED else "s"
            taken = body.compare(f"{sign}{'ge' if self.largest else 'le'}", here[0], before[0], element)
        pairs = zip(here, before, (element, "i64"), strict=True)
        return [body.select(taken, new, old, kind) for new, old, kind in pairs]


class Smallest(Extreme):
    largest = False


def register(registry: Registry) -> None:
    """Registers the templates of this file."""
    for overload, template in (
        ("aten.cumsum.default", Sum),
        ("aten.cumprod.default", Product),
        ("aten.logcumsumexp.default", LogSumExp),
        ("aten.cummax.default", Extreme),
        ("aten.cummin.default", Smallest),
    ):
        registry.template(overload)(template)
