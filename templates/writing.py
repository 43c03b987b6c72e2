"""Writes a kernel's text from Python, for templates whose loops and views depend on the rank of their tensors."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from workbench.ir.graph import row_major
from workbench.scheduling.importing.importer import element_type
from workbench.scheduling.kernels.node_builder import UNSIGNED
from workbench.scheduling.kernels.template import Template, Tensor, Tile

Index = int | str
"""A number, or the SSA name of an index value."""


@dataclass(frozen=True, slots=True)
class View:
    """A memref value of the text: its SSA name, its MLIR type and the type of its elements."""

    name: str
    type: str
    element: str


@dataclass
class Writer:
    """Collects the lines of one kernel; most methods write a line and return the SSA name that it defines."""

    lines: list[str] = field(default_factory=list[str])
    _depth: int = 0
    _names: int = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def fresh(self, what: str = "v") -> str:
        """A new SSA name."""
        self._names += 1
        return f"%{what}_{self._names}"

    def value(self, op: str, what: str = "v") -> str:
        """Writes a line that defines a value; returns the value's name."""
        name = self.fresh(what)
        self.line(f"{name} = {op}")
        return name

    @contextlib.contextmanager
    def block(self, head: str) -> Generator[None]:
        self.line(head + " {")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    @contextlib.contextmanager
    def loop(self, start: Index, end: Index, step: Index = 1) -> Generator[str]:
        """Writes an `scf.for` around the block; yields the name of its variable."""
        low, high, by = (self.index(each) for each in (start, end, step))
        variable = self.fresh("i")
        with self.block(f"scf.for {variable} = {low} to {high} step {by}"):
            yield variable

    def index(self, value: Index) -> str:
        """The SSA name of an index."""
        return value if isinstance(value, str) else self.value(f"arith.constant {value} : index", "c")

    def number(self, text: str, element: str) -> str:
        """Writes a constant; returns its name. A constant of one bit is written without its type."""
        return self.value(f"arith.constant {text}" + (f" : {element}" if element != "i1" else ""), "c")

    def compute(self, expression: str, *operands: str) -> str:
        """Writes an affine expression of index values, which the expression calls d0, d1, ...; returns its name."""
        return self._affine("apply", expression, operands, "v")

    def least(self, first: Index, expression: str, *operands: str) -> str:
        """Writes the smaller of an index and an affine expression; returns its name."""
        return self._affine("min", f"{first}, {expression}", operands, "size")

    def most(self, first: Index, expression: str, *operands: str) -> str:
        """Writes the larger of an index and an affine expression; returns its name."""
        return self._affine("max", f"{first}, {expression}", operands, "size")

    def length(self, step: int, extent: int, start: Index) -> Index:
        """The length of the piece of an extent that begins at `start`: `step`, or less in the last piece."""
        if isinstance(start, int):
            return min(step, extent - start)
        return self.least(step, f"{extent} - d0", start) if extent % step else step

    def piece(self, loops: contextlib.ExitStack, extent: int, step: int) -> tuple[Index, Index]:
        """Enters a loop over the pieces of an extent, if there are several; returns a piece's begin and length."""
        start: Index = loops.enter_context(self.loop(0, extent, step)) if step < extent else 0
        return start, self.length(step, extent, start)

    def _affine(self, op: str, results: str, operands: Sequence[str], what: str) -> str:
        dims = ", ".join(f"d{place}" for place, _ in enumerate(operands))
        return self.value(f"affine.{op} affine_map<({dims}) -> ({results})>({', '.join(operands)})", what)

    def alloc(self, shape: Sequence[int], dtype: str, what: str, slots: int = 1) -> View:
        """Allocates a scratchpad buffer; if it has several slots, they are its leading axis."""
        element = element_type(dtype)
        whole = Tile(tuple(shape), dtype, slots)
        return View(self.value(f"memref.alloc(){whole.attributes} : {whole.memref}", what), whole.memref, element)

    def tile(self, buffer: View, shape: Sequence[int], box: Sequence[tuple[Index, Index]], slot: str = "") -> View:
        """A part of a buffer of this shape, or of its slot `slot`; `box` has (begin, size) along each axis."""
        steps = row_major(tuple(shape))
        known = [begin * step for (begin, _), step in zip(box, steps, strict=True) if isinstance(begin, int)]
        moves = bool(slot) or len(known) < len(box)
        where = ", offset: ?" if moves else f", offset: {sum(known)}" if any(known) else ""
        extents = "x".join([*("?" if isinstance(size, str) else str(size) for _, size in box), buffer.element])
        kind = f"memref<{extents}, strided<[{_listed(steps)}]{where}>, 1>"
        begins, sizes = [begin for begin, _ in box], [size for _, size in box]
        first: tuple[Sequence[Index], Sequence[Index]] = ([slot], [1]) if slot else ([], [])
        ones = [1] * (len(box) + len(first[0]))
        groups = f"[{_listed([*first[0], *begins])}] [{_listed([*first[1], *sizes])}] [{_listed(ones)}]"
        name = self.value(f"memref.subview {buffer.name}{groups} : {buffer.type} to {kind}")
        return View(name, kind, buffer.element)

    def dealloc(self, buffers: Sequence[View]) -> None:
        for buffer in buffers:
            self.line(f"memref.dealloc {buffer.name} : {buffer.type}")

    def strided(
        self, source: View, offset: Index, sizes: Sequence[Index], strides: Sequence[Index], space: int = 1
    ) -> View:
        """A strided part of a memref, by offset, sizes and strides in elements of its storage."""
        extents = ["?" if isinstance(size, str) else str(size) for size in sizes]
        steps = ["?" if isinstance(stride, str) else str(stride) for stride in strides]
        start = "?" if isinstance(offset, str) else str(offset)
        where = f", {space}" if space else ""
        kind = f"memref<{'x'.join([*extents, source.element])}, strided<[{', '.join(steps)}], offset: {start}>{where}>"
        groups = f"offset: [{offset}], sizes: [{_listed(sizes)}], strides: [{_listed(strides)}]"
        name = self.value(f"memref.reinterpret_cast {source.name} to {groups} : {source.type} to {kind}")
        return View(name, kind, source.element)

    def outside(self, tensor: Tensor, starts: Sequence[Index], sizes: Sequence[Index]) -> View:
        """The part of an argument, in DRAM, that begins at `starts`; a tensor without dims has one axis here."""
        strides = tensor.type.strides or (1,)
        return self.moved_outside(tensor, list(zip(starts, strides, strict=True)), sizes, strides)

    def moved_outside(
        self, tensor: Tensor, steps: Sequence[tuple[Index, int]], sizes: Sequence[Index], strides: Sequence[int]
    ) -> View:
        """A strided part of an argument, in DRAM; it begins at the sum of place times stride over all `steps`."""
        whole = View(f"%{tensor.name}", tensor.memref, tensor.element)
        fixed = tensor.type.offset + sum(start * stride for start, stride in steps if isinstance(start, int))
        moving = [(start, stride) for start, stride in steps if isinstance(start, str) and stride]
        if not moving:
            return self.strided(whole, fixed, sizes, strides, space=0)
        terms = " + ".join(f"d{place} * {stride}" for place, (_, stride) in enumerate(moving))
        offset = self.compute(f"{terms} + {fixed}", *(start for start, _ in moving))
        return self.strided(whole, offset, sizes, strides, space=0)

    def copy(self, source: View, target: View) -> None:
        self.line(f"linalg.copy ins({source.name} : {source.type}) outs({target.name} : {target.type})")

    def fill(self, target: View, number: str) -> None:
        value = self.number(number, target.element)
        self.line(f"linalg.fill ins({value} : {target.element}) outs({target.name} : {target.type})")

    def each(
        self,
        rank: int,
        ins: Sequence[View],
        outs: Sequence[View],
        body: Callable[[Body, list[str]], Sequence[str]],
        maps: Sequence[str] | None = None,
        reduced: Sequence[int] = (),
    ) -> None:
        """Writes a `linalg.generic`; `body` makes the new elements of `outs` from the elements of all operands.

        `maps` has the place of each operand's element in terms of d0, d1, ...; by default that is the point itself. The
        dims in `reduced` are reductions, all others parallel.
        """
        dims = ", ".join(f"d{axis}" for axis in range(rank))
        results = maps or [dims] * (len(ins) + len(outs))
        indexing = ", ".join(f"affine_map<({dims}) -> ({result})>" for result in results)
        iterators = ", ".join('"reduction"' if axis in reduced else '"parallel"' for axis in range(rank))
        groups = [
            f"{word}({', '.join(view.name for view in views)} : {', '.join(view.type for view in views)})"
            for word, views in (("ins", ins), ("outs", outs))
            if views
        ]
        head = f"linalg.generic {{indexing_maps = [{indexing}], iterator_types = [{iterators}]}} {' '.join(groups)}"
        with self.block(head):
            names = [self.fresh("e") for _ in (*ins, *outs)]
            given = zip(names, (*ins, *outs), strict=True)
            self.line(f"^bb0({', '.join(f'{name}: {view.element}' for name, view in given)}):")
            made = body(Body(self), names)
            self.line(f"linalg.yield {', '.join(made)} : {', '.join(view.element for view in outs)}")


def _listed(values: Sequence[Index]) -> str:
    return ", ".join(map(str, values))


@dataclass(frozen=True, slots=True)
class Body:
    """Writes the body of a `linalg.generic`, arithmetic on single numbers; methods return the name of the result."""

    writer: Writer

    def op(self, name: str, *operands: str, type: str) -> str:
        return self.writer.value(f"{name} {', '.join(operands)} : {type}")

    def compare(self, predicate: str, left: str, right: str, element: str) -> str:
        op = "arith.cmpf" if element in FLOATS else "arith.cmpi"
        return self.writer.value(f"{op} {predicate}, {left}, {right} : {element}")

    def select(self, condition: str, then: str, otherwise: str, element: str) -> str:
        return self.writer.value(f"arith.select {condition}, {then}, {otherwise} : {element}")

    def number(self, text: str, element: str) -> str:
        return self.writer.number(text, element)

    def place(self, axis: int, element: str) -> str:
        """The position along an axis, as a whole number of type `element`."""
        return self.cast(self.writer.value(f"linalg.index {axis} : index"), element)

    def cast(self, index: str, element: str) -> str:
        """An index as a whole number of type `element`."""
        return self.writer.value(f"arith.index_cast {index} : index to {element}")

    def converted(self, number: str, source: str, target: str) -> str:
        """A number of the record type `source`, converted to the record type `target`."""
        old, new = element_type(source), element_type(target)
        if old == new:
            return number
        return self.writer.value(f"{_conversion(source, old, target, new)} {number} : {old} to {new}")


FLOATS = ("f64", "f32", "f16", "bf16")
_BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i1": 1}


def _conversion(source: str, old: str, target: str, new: str) -> str:
    if old in FLOATS and new in FLOATS:
        return "arith.extf" if _BITS[old] < _BITS[new] else "arith.truncf"
    if new in FLOATS:
        return "arith.uitofp" if source in UNSIGNED else "arith.sitofp"
    if old in FLOATS:
        return "arith.fptosi"
    if _BITS[old] > _BITS[new]:
        return "arith.trunci"
    return "arith.extui" if source in UNSIGNED else "arith.extsi"


def element_bytes(dtype: str) -> int:
    return -(-_BITS[element_type(dtype)] // 8)


def signature(template: Template) -> str:
    """The arguments of a template's function, as MLIR text."""
    return ", ".join(f"%{each.name}: {each.memref}" for each in (*template.inputs, *template.outputs))


def literal(value: float, dtype: str) -> str:
    """A number as MLIR writes it for elements of this type."""
    element = element_type(dtype)
    if element == "i1":
        return "true" if value else "false"
    if element not in FLOATS:
        return str(int(value))
    if math.isfinite(value):
        return f"{value:e}"
    return _SPECIAL[element][0 if value > 0 else 1 if value < 0 else 2]


_SPECIAL = {
    "f64": ("0x7FF0000000000000", "0xFFF0000000000000", "0x7FF8000000000000"),
    "f32": ("0x7F800000", "0xFF800000", "0x7FC00000"),
    "f16": ("0x7C00", "0xFC00", "0x7E00"),
    "bf16": ("0x7F80", "0xFF80", "0x7FC0"),
}
"""For each float type: infinity, minus infinity and a NaN."""


def worst(dtype: str, largest: bool) -> str:
    """The MLIR text of a number of this type that is no better than any other, if the largest (or smallest) is best."""
    element = element_type(dtype)
    return literal(worst_number(element in FLOATS, _BITS[element], dtype in UNSIGNED, largest), dtype)


def worst_number(floats: bool, bits: int, unsigned: bool, largest: bool) -> float:
    """A number that is no better than any other of a type of `bits` bits, if the largest (or smallest) is best."""
    if floats:
        return -math.inf if largest else math.inf
    if unsigned:
        return 0 if largest else 2**bits - 1
    return -(2 ** (bits - 1)) if largest else 2 ** (bits - 1) - 1
