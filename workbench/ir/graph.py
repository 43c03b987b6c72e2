"""The captured graph: what PyTorch was asked to compute, without weights and without torch.

Values are named; a node with several results names each. An argument is a reference to a value, a literal,
or a (nested) tuple of arguments, in the order of the overload's schema.
"""

from __future__ import annotations

import base64
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from simulator.files import unpacking
from workbench.ir import codec
from workbench.ir.host_work import HostWork

FORMAT, VERSION = "aten-workbench/aten-graph", 1


ASSERTIONS = ("aten._assert_async.msg", "aten._assert_async.default")
"""Ops without a result, which raise if their argument is false."""

PARTS = FORWARD, BACKWARD, STEP = ("forward", "backward", "step")
"""The parts of a training step."""

_BITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a node: the ATen node and the user's line of Python.

    A call inside PyTorch's own modules has the line at which the user asked for the trace.
    """

    node: str
    op: str
    file: str | None = None
    line: int | None = None
    module: str = ""
    """The path of the `nn.Module` that ran the node, `""` at the root."""
    part: str = ""
    """The part of a training step: forward, backward or step, which is the optimizer's; `""` without training."""

    @property
    def place(self) -> str:
        """`file:line`, or `<unknown>`."""
        return f"{self.file}:{self.line}" if self.file else "<unknown>"


Extents: TypeAlias = "tuple[int, ...] | list[int]"


def row_major(shape: Extents, order: Extents | None = None) -> tuple[int, ...]:
    """The strides of elements that lie one after the other: the last axis is innermost, or the last of an `order`."""
    axes = list(range(len(shape)) if order is None else order)
    return tuple(math.prod(shape[inner] for inner in axes[axes.index(axis) + 1 :]) for axis in range(len(shape)))


def span(shape: Iterable[int], strides: Iterable[int]) -> int:
    """The elements of memory from a tensor's first to its last; 0 if the tensor has none."""
    last = 0
    for extent, stride in zip(shape, strides, strict=True):
        if not extent:
            return 0
        last += (extent - 1) * stride
    return last + 1


def same_steps(shape: Iterable[int], left: Iterable[int], right: Iterable[int]) -> bool:
    """True if strides agree, except for axes that are never stepped along."""
    steps = list(zip(shape, left, right, strict=True))
    return any(not extent for extent, _, _ in steps) or all(extent == 1 or one == two for extent, one, two in steps)


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape, element type (`f32`, `i64`, `bool`, ...) and strides and offset, both in elements."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def dense(shape: tuple[int, ...], dtype: str) -> TensorType:
        """Returns the type of a tensor whose elements lie row after row, from the start of its storage."""
        return TensorType(shape, dtype, row_major([max(extent, 1) for extent in shape]))

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def span(self) -> int:
        """The elements of memory from the first element to the last."""
        return span(self.shape, self.strides)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element, by the bits in the type's name: `f32`, `float8_e5m2`; 4 bits take a whole byte."""
        bits = _BITS.search(self.dtype)
        return max(int(bits.group()) // 8, 1) if bits else 1

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.dtype])


@dataclass(frozen=True, slots=True)
class Ref:
    """An argument that is a value of the graph."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """An argument that is no tensor.

    `kind` is none, bool, int, float, complex (as text), str, dtype, device, layout, memory_format or json, which is a
    dict of plain values. Floats are compared by their bits: 0.0 differs from -0.0, which divides to another infinity,
    and NaN equals NaN.
    """

    kind: str
    value: bool | int | float | str | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return self is other or self._bits() == other._bits()

    def __hash__(self) -> int:
        return hash(self._bits())

    def _bits(self) -> tuple[str, object]:
        """The kind and the value, a float as its text."""
        return self.kind, repr(float(cast("float", self.value))) if self.kind == "float" else self.value


@dataclass(frozen=True, slots=True)
class Sequence:
    """An argument that is a list, of tensors or of anything else."""

    items: tuple[Ref | Literal | Sequence | AtenGraph, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One ATen call. `args` are the positional arguments in schema order, `kwargs` the keyword-only arguments of the
    call.

    An op that changes arguments in place is recorded as an op that returns them: their new values come after the op's
    own results, in the order of the schema, and nothing is changed.
    """

    name: str
    op: str
    args: tuple[Ref | Literal | Sequence | AtenGraph, ...]
    kwargs: dict[str, Ref | Literal | Sequence | AtenGraph]
    results: tuple[str, ...]
    """Names of the tensors that the node makes: `(name,)` for one result; for several `name.0`, `name.1`, ... by their
    places."""
    origin: Origin

    @property
    def operands(self) -> tuple[str, ...]:
        """The values that the node reads, in order, each once."""
        return tuple(dict.fromkeys(self.read))

    @property
    def read(self) -> tuple[str, ...]:
        """The values that the node reads, in order, each as often as it is an argument."""
        return tuple(arg.value for arg in self._given() if isinstance(arg, Ref))

    @property
    def literals(self) -> tuple[Literal, ...]:
        """The node's arguments that are no tensors and no graphs, in order."""
        return tuple(arg for arg in self._given() if isinstance(arg, Literal))

    @property
    def bodies(self) -> tuple[AtenGraph, ...]:
        """The graphs among the arguments: branches, or a loop's body. They only read what they are called with."""
        return tuple(arg for arg in self._given() if isinstance(arg, AtenGraph))

    def _given(self) -> Iterator[Ref | Literal | AtenGraph]:
        """Yields the node's arguments, those in lists one by one."""
        left = [*self.args, *self.kwargs.values()][::-1]
        while left:
            arg = left.pop()
            if isinstance(arg, Sequence):
                left += arg.items[::-1]
            else:
                yield arg


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a graph: `kind` is user, parameter, buffer, closure (closed-over) or constant; in a training step
    also gradient, or state of an optimizer."""

    value: str
    kind: str
    path: str
    """The user's text for the input: `x`, `kwargs['mask']`, `fc1.weight`."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The containers around the results: `kind` is leaf, constant, tuple, list, dict, object, kept, same or call.

    A leaf stands for the next output value; a constant has its literal (`None` and Python numbers that a function
    returns). A tuple of a class of its own, such as `torch.topk` returns, has the name of the class, and the names of
    its fields as keys. An object is any other container with a class: its keys lead to its parts (`.logits`, `['a']`),
    and its constant is a text of all else in it. A kept value is neither tensor, number nor container: the record has
    the name of its class, and the live function the value itself. A `same` is a list, dict or object of the call's
    arguments, whose place is its constant. A `call` has the result first, then the new contents of each container among
    the arguments that the function changed, with their places as keys.
    """

    kind: str
    keys: tuple[str, ...] = ()
    items: tuple[Tree, ...] = ()
    constant: Literal | None = None
    cls: str = ""


@dataclass(frozen=True, slots=True)
class Mutation:
    """After the call, input `target` holds `value`."""

    target: str
    value: str


@dataclass(frozen=True, slots=True)
class Alias:
    """A result that shares memory with `base`: an input, as it is after the call, or the value of another result."""

    output: int
    """The number of the result."""
    base: str
    type: TensorType | None
    """The result's shape and strides in the base's memory, counted from the base's first element; None if the result is
    the base itself."""


MOST_NUMBERS = 1 << 20
"""The most elements of an integer input that is taken for indices and kept: 8 MB before they are packed."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The integers that an input held at the trace. They are kept, since addresses may follow from them."""

    value: str
    packed: str
    """The elements in their order in memory, as little-endian int64, deflated, in base 64."""

    @staticmethod
    def of(value: str, numbers: npt.NDArray[np.int64]) -> Numbers:
        return Numbers(value, base64.b64encode(zlib.compress(numbers.astype("<i8").tobytes())).decode())

    @property
    def array(self) -> npt.NDArray[np.int64]:
        found = unpacking.inflated(base64.b64decode(self.packed, validate=True), 8 * MOST_NUMBERS)
        return np.frombuffer(found, "<i8").astype(np.int64)


@dataclass(frozen=True, slots=True)
class AtenGraph:
    """One functional graph of ATen calls: the only thing later stages know of the user's program."""

    name: str
    inputs: tuple[Input, ...]
    """Flattened user inputs in call order, kwargs last, then parameters, buffers and closed-over tensors by name."""
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    """Leaf values in order; a value may be returned twice, or be an input."""
    tree: Tree
    types: dict[str, TensorType]
    """The type of every value."""
    mutations: tuple[Mutation, ...] = ()
    aliases: tuple[Alias, ...] = ()
    capture: str = "dynamo"
    input_tree: Tree = field(default_factory=lambda: Tree("tuple"))
    """The containers of the user inputs: a tuple of positionals and a dict of kwargs."""
    numbers: tuple[Numbers, ...] = ()
    """The numbers of the inputs of i64 and i32 that had data: no other input's numbers are in a record."""
    saved: tuple[str, ...] = ()
    """In a training step, the values that the forward pass has and the backward pass reads: they are kept in memory in
    between. A view counts as its base."""
    host_work: tuple[HostWork, ...] = ()
    """The operators that PyTorch computed between graphs when the call was traced."""

    @property
    def paths(self) -> dict[str, str]:
        """Input -> its name as the user would write it."""
        return {item.value: item.path for item in self.inputs}

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def to_json(self) -> str:
        return codec.dumps(self, format=FORMAT, version=VERSION)

    @staticmethod
    def from_json(text: str) -> AtenGraph:
        """Returns the graph that `to_json` wrote; `RecordFormatError` for all else, and for a graph that makes no
        sense."""
        return codec.loads(AtenGraph, text, format=FORMAT, version=VERSION)


Arg: TypeAlias = Ref | Literal | Sequence | AtenGraph
