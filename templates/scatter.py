"""Ops that write at the places in index tensors: scatter, scatter_reduce, index_put, and ops that decompose into them.

The result is a copy of the first tensor, into which updates are then stored, or added, one after the other. Both halves
are in one kernel. The updates come after the copy, and in order, since they share its memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Mapping as Types
from dataclasses import dataclass

from simulator.machine.machine import Machine
from simulator.tileprogram.program import MAX_RANK
from templates.writing import literal
from workbench.ir import Literal, Mapping, Node, Ref, Sequence, TensorType
from workbench.operators.aten.overload_schema import arguments
from workbench.operators.aten.registry import Registry
from workbench.operators.formulas.indices import chosen_shape
from workbench.scheduling.importing.importer import layout_strides
from workbench.scheduling.kernels.template import Template, Tensor, Tile

_COMBINERS = {
    "sum": ("arith.addf", "arith.addi"),
    "prod": ("arith.mulf", "arith.muli"),
    "amax": ("arith.maximumf", "arith.maxsi"),
    "amin": ("arith.minimumf", "arith.minsi"),
}

_SHARE = 8
"""A tile takes at most one in so many bytes of the scratchpad: copies and updates have two slots, indices some too."""


@dataclass(frozen=True)
class Index:
    """A tensor of indices: the dims of the updates that walk it, and its tile."""

    name: str
    tensor: Tensor
    axes: tuple[int, ...]
    """The axes of the tensor that are walked; axes along which it was only expanded are read once."""
    dims: tuple[str, ...]
    tile: Tile

    @property
    def type(self) -> str:
        steps = [layout_strides(self.tensor.type)[axis] for axis in self.axes]
        extents = "x".join([*["?"] * len(self.axes), self.tensor.element])
        offset = "?" if any(steps) else str(self.tensor.type.offset)
        return f"memref<{extents}, strided<[{', '.join(map(str, steps))}], offset: {offset}>>"

    @property
    def part(self) -> str:
        """The line of text that takes a tile's part of the indices."""
        dims = dict(zip(self.axes, self.dims, strict=True))
        return _part(f"%{self.name}_part", self.tensor, [dims.get(axis) for axis in range(self.tensor.rank)], self.type)


class Scatter(Template):
    """Updates along one dim: the index has, for each update, its place along `dim`."""

    source = "scatter.mlir.j2"

    def __init__(self, node: Node, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> None:
        super().__init__(node, inputs, outputs)
        self.given = arguments(node)
        self.target = self.outputs[0]

    # Properties of the op, which subclasses override

    @property
    def chosen(self) -> dict[int, Tensor]:
        """Axis of the result -> the index tensor that chooses places along it."""
        dim = self.given["dim"]
        assert isinstance(dim, Literal)
        return {int(dim.value or 0) % self.target.rank: self.tensor(self.given["index"])}

    @property
    def extents(self) -> tuple[int, ...]:
        """The number of updates along each dim."""
        return next(iter(self.chosen.values())).shape

    @property
    def moved(self) -> Tensor | None:
        """The tensor of updates; None if the update is a single number."""
        return self.tensor(self.given["src"]) if "src" in self.given else None

    @property
    def combiner(self) -> str:
        """The combination of an update with the old value: a key of `_COMBINERS`, empty for the update alone."""
        reduce = self.given.get("reduce")
        return str(reduce.value) if isinstance(reduce, Literal) else ""

    wraps = False

    def walks(self, axis: int) -> int:
        """The dim of the updates that walks an axis which no index chooses."""
        return axis

    def index_dims(self, index: Tensor) -> range:
        """The dims of the updates that the axes of an index tensor walk."""
        return range(index.rank)

    # The kernel

    def tensor(self, argument: object) -> Tensor:
        assert isinstance(argument, Ref), "a tensor"
        return self.inputs[self.node.operands.index(argument.value)]

    @property
    def copied(self) -> dict[str, int]:
        return {f"d{axis}": extent for axis, extent in enumerate(self.target.shape)}

    @property
    def walked(self) -> dict[str, int]:
        return {f"e{dim}": extent for dim, extent in enumerate(self.extents)}

    def dims(self) -> dict[str, int]:
        return self.copied | self.walked

    def buffers(self) -> int:
        return 2

    def tile(self, machine: Machine) -> dict[str, int]:
        room = machine.scratchpad_bytes // _SHARE
        size = self.target.type.element_bytes
        point = size + sum(index.type.element_bytes for index in self.chosen.values())
        return _filled(self.copied, room // size) | _filled(self.walked, room // point)

    def tiles(self, mapping: Mapping) -> dict[str, Tile]:
        kept, update = (tuple(mapping.tile[dim] for dim in dims) for dims in (self.copied, self.walked))
        dtype = self.target.type.dtype
        slots = mapping.buffers if self.moved is not None else 1
        return {"kept": Tile(kept, dtype, mapping.buffers), "update": Tile(update, dtype, slots)}

    def options(self, mapping: Mapping, machine: Machine) -> dict[str, object]:
        indices = [self._index(number, tensor, mapping) for number, tensor in enumerate(self.chosen.values())]
        places, names = self._places()
        return super().options(mapping, machine) | {
            "copied": list(self.copied),
            "walked": list(self.walked),
            "source": self.tensor(self.given["self"]),
            "target": self.target,
            "moved": self.moved,
            "constant": "" if self.moved is not None else _constant(self.given["value"], self.target.type.dtype),
            "indices": indices,
            "maps": [_map(self.walked, dims) for dims in (*(index.dims for index in indices), self.walked)],
            "places": places,
            "place": ", ".join(names),
            "combiner": _COMBINERS[self.combiner]["f" not in self.target.type.dtype] if self.combiner else "",
            "sizes": _sizes,
            "part": _part,
        }

    def _index(self, number: int, tensor: Tensor, mapping: Mapping) -> Index:
        strides = zip(tensor.shape, layout_strides(tensor.type), strict=True)
        axes = tuple(axis for axis, (extent, stride) in enumerate(strides) if stride or extent == 1)
        dims = tuple(f"e{self.index_dims(tensor)[axis]}" for axis in axes)
        shape = tuple(mapping.tile[dim] for dim in dims)
        return Index(f"index{number}", tensor, axes, dims, Tile(shape, tensor.type.dtype, mapping.buffers))

    def _places(self) -> tuple[list[str], list[str]]:
        """The lines of the body that compute the place of an update, and the name of the place along each axis."""
        lines: list[str] = []
        names: list[str] = []
        for axis, extent in enumerate(self.target.shape):
            names.append(f"%place{axis}")
            if axis not in self.chosen:
                dim = self.walks(axis)
                lines += [f"%at{axis} = linalg.index {dim} : index"]
                lines += [f"%place{axis} = arith.addi %at{axis}, %e{dim} : index"]
                continue
            number, tensor = list(self.chosen).index(axis), self.chosen[axis]
            name = f"%given{axis}" if self.wraps else names[-1]
            lines += [f"{name} = arith.index_cast %index{number}_number : {tensor.element} to index"]
            if self.wraps:
                lines += [
                    f"%length{axis} = arith.constant {extent} : index",
                    f"%below{axis} = arith.cmpi slt, %given{axis}, %zero : index",
                    f"%wrapped{axis} = arith.addi %given{axis}, %length{axis} : index",
                    f"%place{axis} = arith.select %below{axis}, %wrapped{axis}, %given{axis} : index",
                ]
        return lines, names


class IndexAlong(Scatter):
    """Slices along one dim: `index_add`, `index_copy`, `index_fill`."""

    wraps = True
    """`index_fill` takes indices below zero; for the other ops these are out of range."""

    @property
    def extents(self) -> tuple[int, ...]:
        ((axis, index),) = self.chosen.items()
        return (*self.target.shape[:axis], index.shape[0], *self.target.shape[axis + 1 :])

    @property
    def moved(self) -> Tensor | None:
        return self.tensor(self.given["source"]) if "source" in self.given else None

    @property
    def combiner(self) -> str:
        return "sum" if self.node.op.startswith("aten.index_add.") else ""

    def index_dims(self, index: Tensor) -> range:
        (axis,) = self.chosen
        return range(axis, axis + 1)


class IndexPut(Scatter):
    """`x[i, :, j] = v`: all index tensors choose one place together; dims without an index are written whole."""

    wraps = True

    @property
    def chosen(self) -> dict[int, Tensor]:
        given = self.given["indices"]
        assert isinstance(given, Sequence)
        return {axis: self.tensor(each) for axis, each in enumerate(given.items) if isinstance(each, Ref)}

    @property
    def moved(self) -> Tensor:
        return self.tensor(self.given["values"])

    @property
    def extents(self) -> tuple[int, ...]:
        return self.moved.shape

    @property
    def combiner(self) -> str:
        accumulate = self.given["accumulate"]
        return "sum" if isinstance(accumulate, Literal) and accumulate.value else ""

    @property
    def _first(self) -> int:
        """The first dim of the indices among the dims of the updates."""
        axes = list(self.chosen)
        return axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0

    def walks(self, axis: int) -> int:
        together = next(iter(self.chosen.values())).rank
        before = sum(other not in self.chosen for other in range(axis))
        return before + (together if before >= self._first else 0)

    def index_dims(self, index: Tensor) -> range:
        return range(self._first, self._first + index.rank)


def _filled(dims: dict[str, int], elements: int) -> dict[str, int]:
    """A tile of at most `elements` elements, as long as possible in the innermost dims, so that tiles follow the order
    of elements; dims beyond the rank of an instruction have 1."""
    tile: dict[str, int] = {}
    for number, (dim, extent) in enumerate(reversed(dims.items())):
        tile[dim] = min(extent, max(1, elements // math.prod(tile.values()))) if number < MAX_RANK else 1
    return {dim: tile[dim] for dim in dims}


def _constant(value: object, dtype: str) -> str:
    """A number as MLIR writes one of this type."""
    assert isinstance(value, Literal) and isinstance(value.value, bool | int | float)
    if "f" not in dtype:
        return str(int(value.value)) if dtype != "bool" else str(int(bool(value.value)))
    number = float(value.value)
    return repr(number) if math.isfinite(number) else literal(number, dtype)


def _sizes(dims: Iterable[str]) -> list[str]:
    return [f"%size_{dim}" for dim in dims]


def _part(result: str, tensor: Tensor, dims: list[str | None], kind: str = "") -> str:
    """The line of text that takes a tile's part of a tensor in DRAM; along axes without a dim, the first element."""
    begins, sizes = [f"%{dim}" if dim else "0" for dim in dims], [f"%size_{dim}" if dim else "1" for dim in dims]
    taken = "".join(f"[{', '.join(group)}]" for group in (begins, sizes, ["1"] * len(dims)))
    return f"{result} = memref.subview %{tensor.name}{taken} : {tensor.memref} to {kind or tensor.part}"


def _map(space: Iterable[str], dims: Iterable[str]) -> str:
    return f"affine_map<({', '.join(space)}) -> ({', '.join(dims)})>"


def _adds_up(node: Node, types: Types[str, TensorType]) -> bool:
    """True if one pass of updates is enough; a mean, and ops that ignore the old values, need several."""
    given = arguments(node)
    if not _has_dims(node, types):
        return False
    reduce, include = given.get("reduce"), given.get("include_self")
    if not isinstance(reduce, Literal):
        return True
    dtype = types[node.results[0]].dtype
    whole = isinstance(include, Literal) and bool(include.value)
    return (
        whole and reduce.value in _COMBINERS and dtype != "bool" and (dtype != "u8" or reduce.value in ("sum", "prod"))
    )


def _plainly(node: Node, types: Types[str, TensorType]) -> bool:
    """True if an op along one dim writes or adds its values unchanged, with a row of indices."""
    alpha = arguments(node).get("alpha")
    return (
        _has_dims(node, types)
        and len(types[node.operands[1]].shape) == 1
        and (not isinstance(alpha, Literal) or alpha.value == 1)
        and not (types[node.results[0]].dtype == "bool" and isinstance(alpha, Literal))
    )


def _laid_out(node: Node, types: Types[str, TensorType]) -> bool:
    """True if indices and values have been broadcast, and indices are whole numbers."""
    given = arguments(node)
    indices, values, accumulate = given["indices"], given["values"], given["accumulate"]
    assert isinstance(indices, Sequence) and isinstance(values, Ref) and isinstance(accumulate, Literal)
    kinds = [types[each.value] if isinstance(each, Ref) else None for each in indices.items]
    given_kinds = [kind for kind in kinds if kind is not None]
    target = types[node.results[0]]
    return (
        _has_dims(node, types)
        and all(kind.dtype in ("i64", "i32") and kind.shape for kind in given_kinds)
        and len({kind.shape for kind in given_kinds}) == 1
        and list(types[values.value].shape) == chosen_shape(target, kinds)
        and not (accumulate.value and target.dtype == "bool")
    )


def _has_dims(node: Node, types: Types[str, TensorType]) -> bool:
    return bool(types[node.results[0]].shape)


def register(registry: Registry) -> None:
    """Registers the templates of this file."""
    registry.template("aten.scatter.src", "aten.scatter.value", "aten.scatter_reduce.two", takes=_adds_up)(Scatter)
    along = ("aten.index_add.default", "aten.index_copy.default", "aten.index_fill.int_Scalar")
    registry.template(*along, takes=_plainly)(IndexAlong)
    registry.template("aten.index_put.default", takes=_laid_out)(IndexPut)
