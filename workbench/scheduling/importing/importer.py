# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
"""Imports the fx graph of one kernel as an MLIR function with the kernel ABI.

torch-mlir makes a function from tensors to tensors. The kernel ABI is `(inputs..., outputs...)` as memrefs with the
strides of the tensors' layouts, so a transposed or sliced argument costs nothing. Extents of one are dropped at this
border (by a rank-reducing subview); inside, MLIR's unit-dim folding then removes every reshape that `keepdim` caused.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from torch_mlir import ir
from torch_mlir.dialects import bufferization, func, tensor
from torch_mlir.extras.fx_importer import FxImporter

from workbench.ground.errors import ImportFailed
from workbench.ir import TensorType
from workbench.mlir.accurate_math import raise_to_floats
from workbench.mlir.bindings import Value, copy, function_of, integers, maker, memref_text, shape_of
from workbench.mlir.context import new_context, run_passes
from workbench.mlir.memrefs import memref_behind, sliced, subview
from workbench.scheduling.importing.pytorch_numbers import choose_extremes, narrow_compared, round_constants

if TYPE_CHECKING:
    import torch

_TO_LINALG = (
    "func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline{}",
    "torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=True}",
)
_PLACE = re.compile(r'File "(aten:\d+)"')


class Part(Protocol):
    """A part of a kernel's function: `add` appends its ops to a block and returns its results by name."""

    def add(self, values: Mapping[str, Value], block: ir.Block) -> dict[str, Value]: ...


@dataclass(frozen=True)
class Imported:
    """Nodes that torch-mlir imports: a graph from `inputs` to `outputs`."""

    module: torch.fx.GraphModule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def add(self, values: Mapping[str, Value], block: ir.Block) -> dict[str, Value]:
        """Imports the graph and moves its ops to the end of the block, whose context it shares."""
        imported = _import(self.module, "part", block.owner.context)
        source = function_of(imported).regions[0].blocks[0]
        for argument, name in zip(list(source.arguments), self.inputs, strict=True):
            argument.replace_all_uses_with(values[name])
        *ops, ret = list(source.operations)
        for op in ops:
            block.append(op.operation)
        return dict(zip(self.outputs, list(ret.operation.operands), strict=True))


def assemble_kernel(
    name: str,
    inputs: Mapping[str, TensorType],
    outputs: Mapping[str, TensorType],
    parts: Sequence[Part],
    makers: Mapping[str, int],
) -> ir.Module:
    """The verified MLIR module of a kernel made of several parts. A part may read results of earlier parts.

    `makers` has the origin id of the node that makes each output.
    """
    with new_context(torch_dialect=True, every_dialect=True), ir.Location.unknown():
        module = ir.Module.create()
        takes = [tensor_type(kind) for kind in inputs.values()]
        gives = [tensor_type(kind) for kind in outputs.values()]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(name, ir.FunctionType.get(takes, gives))
        block = function.add_entry_block()
        values: dict[str, Value] = dict(zip(inputs, block.arguments, strict=True))
        for part in parts:
            values |= part.add(values, block)
        with ir.InsertionPoint(block):
            func.ReturnOp([values[each] for each in outputs])
        run_passes(module, "func.func(cse)")
        places = [ir.Location.file(f"aten:{makers[each]}", 1, 0) for each in outputs]
        _take_memrefs(function.operation, (*inputs.values(), *outputs.values()), places)
        module.operation.verify()
    return module


def import_kernel(module: torch.fx.GraphModule, name: str, arguments: Sequence[TensorType]) -> ir.Module:
    """The verified MLIR module of a kernel: linalg on tensors, memref arguments of the given types."""
    imported = _import(module, name)
    with imported.context, ir.Location.unknown():
        function = function_of(imported)
        _take_memrefs(function, arguments, _makers(module))
        imported.operation.verify()
    return imported


def _makers(module: torch.fx.GraphModule) -> list[ir.Location]:
    """The location of the node that makes each output."""
    nodes = cast("tuple[torch.fx.Node, ...]", module.graph.output_node().args[0])
    places = [_PLACE.search(str(node.meta.get("stack_trace", ""))) for node in nodes]
    return [ir.Location.file(place.group(1), 1, 0) if place else ir.Location.unknown() for place in places]


def _import(module: torch.fx.GraphModule, name: str, context: ir.Context | None = None) -> ir.Module:
    importer = FxImporter(context=context or new_context(torch_dialect=True))
    with _native_stderr() as said:
        try:
            imported = _to_linalg(importer, module, name)
        except Exception as error:  # torch-mlir raises exceptions of many classes; the reason is on stderr
            raise ImportFailed(name, said() or str(error)) from None
    with imported.context:
        round_constants(imported)
        narrow_compared(imported)
        raise_to_floats(imported)
        choose_extremes(imported)
        run_passes(imported, "func.func(cse)")  # removes values without readers
    return imported


def _to_linalg(importer: FxImporter, module: torch.fx.GraphModule, name: str) -> ir.Module:
    """Does what `torch_mlir.fx.stateless_fx_import` does, but in our context (without threads and all dialects),
    without replacing `sys.stderr`, and without writing a file if a pass fails."""
    importer.import_stateless_graph(module.graph, func_name=name)
    imported = importer.module
    imported.context.emit_error_diagnostics = True  # else a pass that reports an error and continues ends the process
    for pipeline in _TO_LINALG:
        run_passes(imported, pipeline)
    return imported


@contextlib.contextmanager
def _native_stderr() -> Generator[Callable[[], str]]:
    """Captures native code's output on stderr, where torch-mlir explains a failed import."""
    try:
        kept = os.dup(2)
    except OSError:  # a program without a console, whose output is lost
        yield str
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    with tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), 2)

        def said() -> str:
            sink.seek(0)
            return sink.read().decode(errors="replace").strip()

        try:
            yield said
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def memref_type(kind: TensorType) -> ir.Type:
    """The memref type of an argument, with static strides and offset."""
    return ir.Type.parse(memref_type_text(kind))


def layout_strides(kind: TensorType) -> list[int]:
    """The strides of the memref. An axis of extent one, whose own stride means nothing, gets that of a dense layout."""
    strides = list(kind.strides)
    for axis in reversed(range(len(strides))):
        if kind.shape[axis] == 1:
            strides[axis] = strides[axis + 1] * kind.shape[axis + 1] if axis + 1 < len(strides) else 1
    return strides


def memref_type_text(kind: TensorType) -> str:
    """The memref type of an argument, as text."""
    return memref_text(kind.shape, element_type(kind.dtype), layout_strides(kind), kind.offset)


_ELEMENTS = {"f64": "f64", "f32": "f32", "f16": "f16", "bf16": "bf16"} | {
    "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8", "u8": "i8", "bool": "i1",
}  # fmt: skip


def element_type(dtype: str) -> str:
    """MLIR's name of a record's element type."""
    return _ELEMENTS[dtype]


def tensor_type(kind: TensorType) -> ir.RankedTensorType:
    """The MLIR tensor type: shape and element type, without strides."""
    return ir.RankedTensorType.get(list(kind.shape), ir.Type.parse(element_type(kind.dtype)))


def _take_memrefs(function: ir.Operation, arguments: Sequence[TensorType], makers: Sequence[ir.Location] = ()) -> None:
    """Rewrites `(tensors) -> tensors` to the kernel ABI, in place.

    An output that equals an input is copied. No op with a location makes such an output, so `makers` gives it.
    """
    places = [*makers] or [ir.Location.unknown()] * (len(arguments) - len(function.regions[0].blocks[0].arguments))
    block = function.regions[0].blocks[0]
    taken = len(block.arguments)
    inputs, outputs = arguments[:taken], arguments[taken:]
    first = block.operations[0]
    for argument, kind in zip(list(block.arguments), inputs, strict=True):
        whole = argument.type
        argument.set_type(memref_type(kind))
        with ir.InsertionPoint(first):
            squeezed = _squeeze(argument, kind)
            small = ir.MemRefType(squeezed.type)
            tensor_kind = ir.RankedTensorType.get(small.shape, small.element_type)
            value = bufferization.to_tensor(tensor_kind, squeezed, restrict=True)
            keep = [item.owner.operation for item in (squeezed, value) if item is not argument]
            value = _expand(value, whole)
            keep.append(value.owner.operation)
        argument.replace_all_uses_except(value, keep)
    ret = block.operations[len(block.operations) - 1]
    for value, kind, place in zip(list(ret.operands), outputs, places, strict=True):
        out = block.add_argument(memref_type(kind), ir.Location.unknown())
        with ir.InsertionPoint(ret):
            squeezed = _squeeze(out, kind)
            source = _copied_from(value)
            if source is not None:  # no computation: a copy, perhaps between two layouts
                with place:
                    copy(source, squeezed)
            else:
                result = _collapse(value, kind)
                bufferization.materialize_in_destination(None, result, squeezed, restrict=True, writable=True)
    with ir.InsertionPoint(ret):
        func.ReturnOp([])
    ret.operation.erase()
    types = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))


def _copied_from(value: Value) -> Value | None:
    """The memref that an output is a copy of: an argument or a slice of an argument; None for a computed output."""
    op = maker(value, "tensor.extract_slice")
    if op is None:
        return memref_behind(value)
    whole = memref_behind(op.operands[0])
    if whole is None or shape_of(value) != shape_of(op.operands[0]):
        return None
    kept = [axis for axis, extent in enumerate(shape_of(value)) if extent != 1]  # the axes that `_squeeze` keeps
    starts, steps = (integers(op, name) for name in ("static_offsets", "static_strides"))
    return sliced(whole, [starts[axis] for axis in kept], [steps[axis] for axis in kept])


def _squeeze(value: Value, kind: TensorType) -> Value:
    """The memref without its extents of one."""
    if 1 not in kind.shape:
        return value
    ones = [axis for axis, extent in enumerate(kind.shape) if extent == 1]
    return subview(value, [0] * len(kind.shape), list(kind.shape), ones)


def _reassociation(shape: Sequence[int]) -> list[list[int]]:
    """Groups of axes, each with one extent other than 1; leading axes of extent 1 belong to the first group."""
    groups: list[list[int]] = []
    seen = 0
    for axis, extent in enumerate(shape):
        if not groups or (extent != 1 and seen):
            groups.append([])
            seen = 0
        groups[-1].append(axis)
        seen += extent != 1
    return groups if any(extent != 1 for extent in shape) else []


def _expand(value: Value, whole: ir.Type) -> Value:
    shape = list(ir.RankedTensorType(whole).shape)
    if 1 not in shape:
        return value
    return tensor.ExpandShapeOp(whole, value, _reassociation(shape), [], shape).result


def _collapse(value: Value, kind: TensorType) -> Value:
    if 1 not in kind.shape:
        return value
    element = ir.RankedTensorType(value.type).element_type
    small = ir.RankedTensorType.get([extent for extent in kind.shape if extent != 1], element)
    return tensor.CollapseShapeOp(small, value, _reassociation(kind.shape)).result
