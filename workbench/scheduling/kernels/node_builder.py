# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
"""`NodeBuilder`: the argument of a builder, with which the builder makes one node's MLIR.

A builder is a function of one `NodeBuilder`. From `op.operands`, which are ranked tensors, it makes ops of any dialect
(linalg, tosa, arith, math, tensor) at MLIR's current insertion point, and returns the value of the node's result.
Tiling, fusion, data movement and timing then come from the schedule, as for any node.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from simulator.did_you_mean import did_you_mean, sentences
from workbench.ground import errors
from workbench.ground.environment.call_sites import cell_name
from workbench.ground.faults.forked_trial import fault_in_fork
from workbench.ir import Arg, AtenGraph, Literal, Node, Ref, TensorType
from workbench.ir import Sequence as Items
from workbench.mlir.bindings import Value
from workbench.mlir.linalg_ops import end_body, generic_with_body
from workbench.operators.aten.overload_schema import arguments, tensor_arguments
from workbench.scheduling.importing.importer import element_type, tensor_type

if TYPE_CHECKING:
    from workbench.operators.aten.registry import Registration

Argument: TypeAlias = "Value | bool | int | float | str | tuple[Argument, ...] | None"
"""An argument as a builder gets it: a tensor, a plain value, or a tuple of arguments. Element types are names, as in
records."""

T = TypeVar("T")

UNSIGNED: Final = ("u8", "bool")


@dataclass(frozen=True)
class NodeBuilder:
    """One node, as a builder sees it: arguments, operands, result types, and helpers that make ops."""

    overload: str
    place: str
    """The user's line with the call, `file:line`."""
    arguments: Mapping[str, Argument]
    """Every argument by its name in the overload's schema, with defaults filled in."""
    operands: tuple[Value, ...]
    """The node's tensors, in the order of the schema."""
    result_types: tuple[TensorType, ...]
    """Shape and element type of each result that the builder must return, as recorded."""
    dtypes: tuple[str, ...]
    """Element type of each operand, by the records' names: in MLIR's types, which have no signs, `u8` and `i8` are
    equal."""
    numbers: Mapping[str, bool | int | float] = field(default_factory=dict[str, bool | int | float])
    """Unrounded values of arguments that are tensors in the schema but numbers in the call. As arguments these are
    tensors of the result's type."""

    def __getitem__(self, name: str) -> Argument:
        """An argument by its name in the schema: `op["alpha"]`."""
        if name not in self.arguments:
            what = f"{self.overload} has no argument {name!r}{did_you_mean(name, self.arguments)}"
            raise errors.BuilderArgument(sentences(what, f"Its arguments are {', '.join(self.arguments)}"))
        return self.arguments[name]

    def tensor(self, name: str) -> Value:
        """An argument that is a tensor."""
        return self._of_kind(name, ir.Value, "a tensor")

    def integer(self, name: str) -> int:
        """An argument that is a whole number."""
        return self._of_kind(name, int, "a whole number")

    def _of_kind(self, name: str, kind: type[T], wanted: str) -> T:
        given = self[name]
        if not isinstance(given, kind):
            raise errors.BuilderArgument(
                f"{self.overload}: its argument {name!r} is {given!r}, but {wanted} was expected"
            )
        return given

    @property
    def type(self) -> ir.RankedTensorType:
        """The MLIR type of the (first) result."""
        return tensor_type(self.result_types[0])

    @property
    def element(self) -> ir.Type:
        """The MLIR element type of the (first) result."""
        return self.type.element_type

    def empty(self, kind: ir.RankedTensorType | None = None) -> Value:
        """An empty tensor of the result's type or of `kind`, to be written: the `outs` of linalg ops."""
        wanted = kind or self.type
        return tensor.EmptyOp(list(wanted.shape), wanted.element_type).result

    def number(self, value: bool | int | float, like: Value | ir.Type | None = None) -> Value:
        """A number as a scalar constant, of the type of `like` or, by default, of the result's elements."""
        kind = like if isinstance(like, ir.Type) else self.element if like is None else like.type
        return arith.ConstantOp(kind, _attribute(kind, value)).result

    def elementwise(
        self, fn: Callable[..., Value], *operands: Value, compute: str = "own", type: ir.RankedTensorType | None = None
    ) -> Value:
        """Makes a `linalg.generic` over the result's shape: `fn` takes one number of each operand and returns one.

        Operands broadcast as in PyTorch. With `compute="own"`, `fn` gets the numbers in their own types. With
        `compute="float"` the numbers are first converted to the result's float type, or to f32 if that has 16 bits,
        and the result of `fn` is rounded back, as PyTorch computes. `compute="result"` does the same for a result of
        any type, integers included.
        """
        if compute not in ("own", "float", "result"):
            raise errors.BuilderArgument(f"compute={compute!r} is unknown; expected 'own', 'float' or 'result'")
        wanted = type or self.type
        shape = list(wanted.shape)
        maps = [_broadcast(list(ir.RankedTensorType(each.type).shape), shape) for each in operands]
        maps.append(ir.AffineMap.get_identity(len(shape)))
        generic, body = generic_with_body(operands, [self.empty(wanted)], maps, ["parallel"] * len(shape))
        with ir.InsertionPoint(body):
            numbers = list[Value](body.arguments)[:-1]
            if compute != "own":
                wide = wide_type(wanted.element_type)
                unsigned = [self.is_unsigned(each) for each in operands]
                pairs = zip(numbers, unsigned, strict=True)
                own = [converted(each, wanted.element_type, sign) for each, sign in pairs]
                numbers = [converted(each, wide) for each in own]
            made = one_number(fn(*numbers))
            made = made if compute == "own" else converted(made, wanted.element_type)
        end_body(body, [made])
        return generic.result

    def is_unsigned(self, operand: Value) -> bool:
        """True if an operand holds `u8` or `bool`, which MLIR's types do not show."""
        pairs = zip(self.operands, self.dtypes, strict=True)
        return any(dtype in UNSIGNED for known, dtype in pairs if known == operand)


def _attribute(kind: ir.Type, value: bool | int | float) -> ir.Attribute:
    """A number as an attribute of this type."""
    if isinstance(kind, ir.FloatType):
        return ir.FloatAttr.get(kind, float(value))
    return ir.IntegerAttr.get(kind, wrapped(value, _width(kind)) if isinstance(kind, ir.IntegerType) else int(value))


def wrapped(value: bool | int | float, width: int) -> int:
    """An integer wrapped to `width` bits: PyTorch casts one that is too large without an error."""
    whole = int(value)
    if -(1 << width - 1) <= whole < 1 << width:
        return whole
    return bool(value) if width == 1 else (whole + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def one_number(made: object) -> Value:
    """The value that a helper's function returned; raises if that is no computed number."""
    if isinstance(made, ir.OpView | ir.Operation) and len(made.results) == 1:
        return made.results[0]
    if not isinstance(made, ir.Value):
        raise errors.BuilderArgument(
            f"the function given to op.elementwise returned {type(made).__name__}; expected a computed number: "
            "the value of an arith or math op, or op.number(...)"
        )
    return made


def wide_type(element: ir.Type) -> ir.Type:
    """The type of the computation: f32 for 16-bit floats, which are rounded once at the end."""
    return ir.F32Type.get() if isinstance(element, ir.F16Type | ir.BF16Type) else element


def converted(number: Value, kind: ir.Type, unsigned: bool = False) -> Value:
    """Converts a scalar to another type; to a bool, every number but zero is true."""
    if number.type == kind:
        return number
    if isinstance(kind, ir.FloatType):
        return to_float(number, kind, unsigned)
    is_float = isinstance(number.type, ir.FloatType)
    if _width(kind) == 1:
        zero = arith.ConstantOp(number.type, _attribute(number.type, 0)).result
        if is_float:
            return arith.CmpFOp(arith.CmpFPredicate.UNE, number, zero).result
        return arith.CmpIOp(arith.CmpIPredicate.ne, number, zero).result
    if is_float:
        return arith.FPToSIOp(kind, number).result
    if _width(number.type) > _width(kind):
        return arith.TruncIOp(kind, number).result
    widened = arith.ExtUIOp if unsigned or _width(number.type) == 1 else arith.ExtSIOp
    return widened(kind, number).result


def to_float(number: Value, kind: ir.Type, unsigned: bool = False) -> Value:
    """Converts a scalar to a float of this type."""
    if number.type == kind:
        return number
    if isinstance(number.type, ir.IntegerType):
        if number.type.width == 1 or unsigned:
            return arith.UIToFPOp(kind, number).result
        return arith.SIToFPOp(kind, number).result
    if _width(number.type) < _width(kind):
        return arith.ExtFOp(kind, number).result
    return arith.TruncFOp(kind, number).result


def _width(kind: ir.Type) -> int:
    return int(getattr(kind, "width"))  # noqa: B009 - on subclasses only


def _broadcast(shape: Sequence[int], to: Sequence[int]) -> ir.AffineMap:
    """The map from a point of the shape `to` to the operand's element: an axis of extent one is read at 0."""
    skipped = len(to) - len(shape)
    places = [
        ir.AffineExpr.get_constant(0)
        if extent == 1 and to[skipped + axis] != 1
        else ir.AffineExpr.get_dim(skipped + axis)
        for axis, extent in enumerate(shape)
    ]
    return ir.AffineMap.get(len(to), 0, places)


@dataclass(frozen=True)
class Build:
    """A part of a kernel: one node that a builder makes."""

    node: Node
    builder: Registration
    types: Mapping[str, TensorType]
    """The types of the values that the node reads and makes."""
    results: tuple[str, ...]
    """All results that the builder makes. This kernel keeps only the result of `node`: ops that only the others need
    are dropped."""
    origin: int

    def add(self, values: Mapping[str, Value], block: ir.Block) -> dict[str, Value]:
        """Builds the node at the end of `block`; returns the wanted result by its name."""
        with ir.Location.file(f"aten:{self.origin}", 1, 0), ir.InsertionPoint(block):
            before = len(block.operations)
            op = self._opened(values)

            def build_and_read() -> None:
                for value in self._checked(self.builder.value(op)).values():
                    str(value)
                for each in list(block.operations)[before:]:
                    self._verify(each.operation)

            if not self.builder.owner.is_shipped and (fault := fault_in_fork(build_and_read)):
                raise errors.BuilderFailed(f"{self._who()} {fault}")
            try:
                made = self.builder.value(op)
            except errors.BuilderArgument as error:
                raise errors.BuilderFailed(f"{self._who()}: {error}") from error
            except NotImplementedError as error:
                raise errors.BuilderFailed(f"{self._who()} is not complete yet: {_open_line(error)}") from error
            except ir.MLIRError as error:
                raise errors.BuilderInvalidMlir(f"{self._who()} made an op that MLIR refuses: {_told(error)}") from None
            except (Exception, SystemExit) as error:  # of the builder's own code; the error names the node
                raise errors.BuilderFailed(f"{self._who()} raised {type(error).__name__}: {error}") from error
            found = self._checked(made)
            for each in list(block.operations)[before:]:
                self._verify(each.operation)
        wanted = self.node.results[0]
        return {wanted: found[wanted]}

    def _who(self) -> str:
        node, owner = self.node, self.builder.owner
        return f"the builder at {owner.place} for {node.name} ({node.op}, for the call at {node.origin.place})"

    def _opened(self, values: Mapping[str, Value]) -> NodeBuilder:
        operands: list[Value] = []
        dtypes: list[str] = []
        given, tensors = arguments(self.node), tensor_arguments(self.node.op)

        def opened(name: str, arg: Arg) -> Argument:
            assert not isinstance(arg, AtenGraph), "an op with graphs as arguments has no builder"
            if isinstance(arg, Items):
                return tuple(opened(name, item) for item in arg.items)
            if isinstance(arg, Ref):
                value, dtype = values[arg.value], self.types[arg.value].dtype
            elif name in tensors and isinstance(arg.value, int | float):
                dtype = self.types[self.results[0]].dtype
                value = _single(arg.value, element_type(dtype))
            else:
                return arg.value
            operands.append(value)
            dtypes.append(dtype)
            return value

        named = {name: opened(name, arg) for name, arg in given.items()}
        kinds = tuple(self.types[each] for each in self.results)
        numbers = {
            name: arg.value
            for name, arg in given.items()
            if name in tensors and isinstance(arg, Literal) and isinstance(arg.value, int | float)
        }
        place = self.node.origin.place
        return NodeBuilder(self.node.op, place, named, tuple(operands), kinds, tuple(dtypes), numbers)

    def _checked(self, made: object) -> dict[str, Value]:
        """The builder's values by result; raises unless each result has one value of the right type."""
        if isinstance(made, ir.OpView | ir.Operation):
            made = list(made.results)
        several = list(made) if isinstance(made, list | tuple) else [made]
        if len(several) != len(self.results):
            raise errors.BuilderResultCount(
                f"{self._who()} returned {len(several)} results; expected {len(self.results)}: a value for each"
            )
        return {name: self._value(item, name) for name, item in zip(self.results, several, strict=True)}

    def _value(self, made: object, name: str) -> Value:
        if isinstance(made, ir.OpView | ir.Operation) and len(made.results) == 1:
            made = made.results[0]
        if not isinstance(made, ir.Value):
            raise errors.BuilderResult(
                f"{self._who()} returned {type(made).__name__} ({made!r:.60}); expected an MLIR value, such as what "
                f"op.elementwise(...) returns"
            )
        expected = tensor_type(self.types[name])
        if made.type != expected:
            raise errors.BuilderResultType(f"{self._who()} returned a value of type {made.type}; expected {expected}")
        return made

    def _verify(self, op: ir.Operation) -> None:
        try:
            op.verify()
        except ir.MLIRError as error:
            what = f"{_told(error)}\n{op}"
            raise errors.BuilderInvalidMlir(f"{self._who()} made an op that MLIR refuses: {what}") from None


def _open_line(error: NotImplementedError) -> str:
    """The line at which a skeleton's builder stops, and advice on what to write there."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = f": {error}" if str(error) else ""
    return (
        f"{cell_name(last.filename)}:{last.lineno} raises NotImplementedError{said}. Write the computation of "
        "the result there: in a skeleton, follow the line above it, `fill in:`. docs/adding-an-op.md completes "
        "one"
    )


def _told(error: ir.MLIRError) -> str:
    return "; ".join(item.message for item in error.error_diagnostics)


def _single(value: bool | int | float, element: str) -> Value:
    """A number as a tensor without dims."""
    kind = ir.Type.parse(element)
    shaped = ir.RankedTensorType.get([], kind)
    return arith.ConstantOp(shaped, ir.DenseElementsAttr.get_splat(shaped, _attribute(kind, value))).result
