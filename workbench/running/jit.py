"""Native code from a kernel's MLIR: the numbers of the workbench come from running the module itself.

Both forms of a kernel can be compiled: the scheduled one (loops over scratchpad tiles) and the rendered one (linalg on
tensors between memref arguments, untiled). The host has only one memory, so the two memory spaces become one; loops,
tiles, slots and copies stay unchanged.

A kernel is called with torch tensors, inputs first, and writes its outputs in place. Shapes, strides and offsets of
arguments are part of the kernel's type, so a call passes only addresses and copies nothing.
"""

from __future__ import annotations

import ctypes
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import torch
from torch_mlir import _mlir_libs, ir
from torch_mlir.execution_engine import ExecutionEngine

from workbench.ground.environment.blas_library import SGEMM, Blas, blas
from workbench.ground.environment.processor import Processor, processor
from workbench.ground.errors import MissingFunctions, NativeArgumentError, PassError, Problem
from workbench.ir import codec
from workbench.ir.graph import same_steps, span
from workbench.mlir.accurate_math import call_library
from workbench.mlir.context import new_context, operations, parse, run_passes
from workbench.mlir.linalg_ops import constants_apart
from workbench.mlir.scheduled_form import memory_space, verify_scheduled
from workbench.mlir.tosa import TO_LINALG, holds_tosa
from workbench.running.buffer_order import order_buffers
from workbench.running.contraction_loops import speed_up_reductions
from workbench.running.machine_code import Linked, link, missing_symbols, object_of, restrict, widen
from workbench.running.narrow_floats import legalise
from workbench.running.row_strips import cut_into_strips
from workbench.running.tile_products import call_blas
from workbench.running.written_math import write_math

_SYMBOL: Final = "workbench_kernel"
"""The name of every kernel in its own engine, so that a kernel's name cannot shadow a C library function that it
calls."""

_ENTRY: Final = f"_mlir_{_SYMBOL}"
"""The function that MLIR adds beside the kernel, which takes the addresses of all arguments in one array."""

_OWN_BUFFERS = "scf-forall-to-for,func.func(buffer-loop-hoisting),buffer-deallocation-pipeline,canonicalize,cse"
"""The passes that let one thread do the work of all cores. They allocate buffers once at the top and free them at every
exit, so a call leaks nothing."""

_BUFFERIZE = "eliminate-empty-tensors,one-shot-bufferize,func.func(refback-munge-memref-copy),canonicalize,cse"

_LOWER = (
    "func.func(convert-linalg-to-loops),expand-strided-metadata,lower-affine,"
    "func.func(math-expand-ops{ops=fpowi,rsqrt}),convert-math-to-funcs,convert-scf-to-cf,"
    "convert-math-to-llvm,convert-math-to-libm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},"
    "convert-to-llvm,reconcile-unrealized-casts"
)

_FEW_ELEMENTS: Final = 16_384
"""The most elements of a kernel's arguments together for which the kernel is not optimized: computing with so few takes
less than a millisecond, and optimizing takes tens of milliseconds."""

_DTYPES: dict[str, tuple[torch.dtype, ...]] = {
    "f64": (torch.float64,),
    "f32": (torch.float32,),
    "f16": (torch.float16,),
    "bf16": (torch.bfloat16,),
    "i64": (torch.int64,),
    "i32": (torch.int32,),
    "i16": (torch.int16,),
    "i8": (torch.int8, torch.uint8),
    "i1": (torch.bool,),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one argument in a kernel's type. Strides and offset count elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    element: str

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """The torch types of tensors that have this element type in MLIR."""
        return _DTYPES[self.element]

    @property
    def offset_bytes(self) -> int:
        return self.offset * self.dtypes[0].itemsize

    @property
    def span_bytes(self) -> int:
        """The number of bytes from the first element to the end of the last one."""
        return span(self.shape, self.strides) * self.dtypes[0].itemsize

    def matches(self, tensor: torch.Tensor) -> bool:
        """True if the tensor has the layout that the kernel expects. Strides of dims that are never stepped do not
        count."""
        if tensor.shape != self.shape or tensor.dtype not in self.dtypes:
            return False
        return tensor.stride() == self.strides or same_steps(self.shape, tensor.stride(), self.strides)

    def __str__(self) -> str:
        return f"{list(self.shape)} {self.dtypes[0]} with strides {list(self.strides)}"


class NativeKernel:
    """A compiled kernel. Calling the kernel runs it; the object keeps its machine code alive.

    Calls may overlap: every call has its own buffers, and the interpreter lock is not held while the kernel runs.
    """

    def __init__(self, name: str, code: Linked, layouts: tuple[Layout, ...]) -> None:
        self.name = name
        self.layouts = layouts
        self._code = code
        self._entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address)
        self._addresses = ctypes.c_void_p * len(layouts)

    def __call__(self, tensors: Sequence[torch.Tensor]) -> None:
        """Runs the kernel on `(inputs..., outputs...)`; the outputs hold the results afterwards."""
        if len(tensors) != len(self.layouts):
            raise NativeArgumentError(f"{self.name} takes {len(self.layouts)} tensors, {len(tensors)} were given")
        for index, (tensor, layout) in enumerate(zip(tensors, self.layouts, strict=True)):
            if not layout.matches(tensor):
                given = f"{list(tensor.shape)} {tensor.dtype} with strides {list(tensor.stride())}"
                raise NativeArgumentError(f"argument {index} of {self.name} is {given}; expected {layout}")
        self.call_at([tensor.data_ptr() for tensor in tensors])

    def call_at(self, addresses: Sequence[int]) -> None:
        """Runs the kernel on arguments whose first elements lie at these addresses. Nothing is checked."""
        # The kernel adds the offset of its own type, so it gets addresses without that offset.
        pairs = zip(addresses, self.layouts, strict=True)
        values = self._addresses(*(address - layout.offset_bytes for address, layout in pairs))
        first, width = ctypes.addressof(values), ctypes.sizeof(ctypes.c_void_p)
        self._entry(self._addresses(*range(first, first + width * len(values), width)))

    def pack(self) -> bytes | None:
        """Returns the kernel as bytes for `unpack` in another process; None for a kernel that was itself unpacked."""
        if not isinstance(self._code.engine, ExecutionEngine):
            return None
        text = json.dumps(codec.encode(self.layouts)).encode()
        return struct.pack("<Q", len(text)) + text + object_of(self._code.engine)

    def __repr__(self) -> str:
        return f"NativeKernel({self.name!r}, {len(self.layouts)} arguments)"


def unpack(data: bytes, name: str) -> NativeKernel | None:
    """Returns the kernel that `NativeKernel.pack` made on a machine of the same `target()`; None for anything else."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        layouts = codec.decode(tuple[Layout, ...], json.loads(data[8 : 8 + length]))
        linked = link(data[8 + length :], _ENTRY)
    except (struct.error, ValueError, TypeError, IndexError, RuntimeError):
        return None
    return NativeKernel(name, linked, layouts) if linked else None


def compile_scheduled(text: str, name: str, target: Processor | None = None) -> NativeKernel:
    """Compiles a kernel in the scheduled form; raises `ScheduledFormError` if the text has another form.

    `target` is the processor to compile for, by default `processor()`.
    """
    module = verify_scheduled(text, name, new_context(torch_dialect=True))
    _one_memory_space(module)
    return _compile(module, name, target or processor())


def compile_rendered(text: str, name: str, target: Processor | None = None) -> NativeKernel:
    """Compiles a kernel as rendered: linalg on tensors, bufferized and run without tiles."""
    module = parse(text, new_context(torch_dialect=True), name)
    _refuse_aborts(module, name)
    if holds_tosa(module):
        run_passes(module, TO_LINALG)
    run_passes(module, "canonicalize,cse")
    with module.context:
        constants_apart(module)  # or several results would begin in the memory of one
    run_passes(module, _BUFFERIZE)
    return _compile(module, name, target or processor())


COMPILERS: Final = {"scheduled": compile_scheduled, "rendered": compile_rendered}
"""The compiler of each form of a kernel's text."""


def _compile(module: ir.Module, name: str, target: Processor) -> NativeKernel:
    function = _function(module, name)
    layouts = _layouts(function)
    with module.context:
        function.attributes["sym_name"] = ir.StringAttr.get(_SYMBOL)
    run_passes(module, _OWN_BUFFERS)
    library = blas(target)
    order_buffers(module, calls=library is not None)
    if library:
        call_blas(module)
    run_passes(module, "func.func(linalg-generalize-named-ops)")
    cut_into_strips(module)
    reduces = speed_up_reductions(module)
    call_library(module)
    write_math(module, target)
    run_passes(module, _LOWER)
    legalise(module, name, target)
    restrict(module, target)
    widen(module, target)
    return NativeKernel(name, _linked(module, name, target, library, _effort(layouts, reduces)), layouts)


def _effort(layouts: Sequence[Layout], reduces: bool) -> int:
    """Returns LLVM's level of optimization: if there is little to compute, compiling takes most of the time.

    A kernel that reduces is always optimized: it reads its elements many times, and a sum of floats in the lanes of a
    register rounds less than one number that grows. Nothing else depends on the level.
    """
    elements = sum(math.prod(layout.shape) for layout in layouts)
    return 2 if reduces or elements > _FEW_ELEMENTS else 0


_LIBRARY: Final = "*TorchMLIRAggregateCAPI.*"

_SWITCHES: Final = ("-vectorize-slp=false",)
"""Turns off LLVM's pass that makes vectors of single operations side by side. With gathers that pass stores numbers
before the old ones are read: in attention with five matrices of one row each, eight of 25 results were divided by old
sums. Loops are vectorised by another pass."""


@cache
def switch_passes() -> bool:
    """Sets `_SWITCHES` for this process; returns False if the library has no function for that, as may be on other
    systems."""
    for path in Path(_mlir_libs.__file__).parent.glob(_LIBRARY):
        parse = getattr(ctypes.CDLL(str(path)), "LLVMParseCommandLineOptions", None)
        if parse is not None:
            words = (b"kernels", *(each.encode() for each in _SWITCHES))
            parse(len(words), (ctypes.c_char_p * len(words))(*words), None)
            return True
    return False


def _linked(module: ir.Module, name: str, target: Processor, library: Blas | None, effort: int) -> Linked:
    """Returns the machine code of a module in the LLVM dialect; raises if this process lacks a function that the code
    calls."""
    switch_passes()
    try:
        engine = ExecutionEngine(module, opt_level=effort, enable_object_dump=True)  # pyright: ignore[reportCallIssue]
    except RuntimeError as error:
        raise PassError(f"machine code of {name}", (Problem(str(error)),)) from None
    if library:
        engine.raw_register_runtime(SGEMM, ctypes.c_void_p(library.sgemm))
    address = engine.raw_lookup(_SYMBOL)
    if not address:  # the engine reports a failed look-up on stderr, and raises nothing
        raise MissingFunctions(name, missing_symbols(object_of(engine)), str(target))
    return Linked(address, engine)


def _function(module: ir.Module, name: str) -> ir.Operation:
    found = [item for item in operations(module.operation) if item.name == "func.func" and item.regions[0].blocks]
    if len(found) != 1:
        raise PassError(f"machine code of {name}", (Problem(f"expected one function, found {len(found)}"),))
    return found[0]


def _layouts(function: ir.Operation) -> tuple[Layout, ...]:
    layouts: list[Layout] = []
    for argument in function.regions[0].blocks[0].arguments:
        kind = ir.MemRefType(argument.type)
        strides, offset = kind.get_strides_and_offset()
        layouts.append(Layout(tuple(kind.shape), tuple(strides), offset, str(kind.element_type)))
    return tuple(layouts)


def _one_memory_space(module: ir.Module) -> None:
    """Moves every buffer into the host's one memory and leaves freeing to the deallocation pass."""
    for operation in list(operations(module.operation)):
        if operation.name == "memref.dealloc":
            operation.erase()
            continue
        blocks = [block for region in operation.regions for block in region.blocks]
        for value in [*operation.results, *(value for block in blocks for value in block.arguments)]:
            if isinstance(value.type, ir.MemRefType) and memory_space(value.type):
                kind = value.type
                with kind.context, ir.Location.unknown():
                    value.set_type(ir.MemRefType.get(kind.shape, kind.element_type, kind.layout))


def _refuse_aborts(module: ir.Module, name: str) -> None:
    """Refuses a module with `cf.assert`, which ends the whole process when it fails."""
    for operation in operations(module.operation):
        if operation.name == "cf.assert":
            message = str(operation.attributes["msg"])
            problem = Problem(f"it holds cf.assert {message}, which would end the process when it fails")
            raise PassError(f"machine code of {name}", (problem,))
