# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
"""Writes a kernel's machine code as an object file, and links object files into this process without a compiler.

MLIR's engine writes its code as an object; llvmlite, which comes with Numba, links an object into the process in about
a millisecond. Only 64-bit x86 Linux does so: there the objects address everything by 64-bit absolute relocations, so
their distance from libc does not matter. Elsewhere kernels are compiled in each process.

Linking an object with a symbol that this process lacks would end the process, so the object's symbols are looked up
before.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine

from workbench.ground.environment.blas_library import SGEMM, blas
from workbench.ground.environment.processor import Processor, processor
from workbench.mlir.context import operations

_SECTION_HEADER, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
_ELF_64 = b"\x7fELF\x02"


@dataclass(frozen=True)
class Linked:
    """A function in this process, which exists as long as this object."""

    address: int
    engine: object


def target() -> str:
    """Returns the current target of machine code: an object of another target must not be run.

    The target names the BLAS that the code calls, if any: with another BLAS the same kernel may be other code.
    """
    library = blas(processor())
    return f"{processor().target}, {library or 'no BLAS'}"


def restrict(module: ir.Module, allowed: Processor) -> None:
    """Makes the engine compile for a lesser processor, in place; the module is in the LLVM dialect.

    The engine compiles for the processor it finds, and takes no other. A function's own attributes override that,
    unless the function is inlined: in the function that the engine adds to call it, the code would be native again.
    """
    if not allowed.restricted:
        return
    with module.context:
        features = ", ".join(f'"+{feature}"' for feature in sorted(allowed.features))
        processor = {
            "target_cpu": ir.StringAttr.get(allowed.name),
            "target_features": ir.Attribute.parse(f"#llvm.target_features<[{features}]>"),
        }
        _say_of_functions(module, processor)


def widen(module: ir.Module, target: Processor) -> None:
    """Uses 512-bit vectors on processors that keep their clock with them, in place.

    LLVM by itself uses vectors of half that length, which suits older processors of Intel. Like `restrict`, this sets
    attributes of functions.
    """
    if not target.has_fast_long_registers:
        return
    with module.context:
        _say_of_functions(module, {"prefer_vector_width": ir.StringAttr.get("512")})


def _say_of_functions(module: ir.Module, attributes: Mapping[str, ir.Attribute]) -> None:
    """Gives these attributes to all functions with a body, and keeps the functions from being inlined."""
    for op in operations(module.operation):
        if op.name == "llvm.func" and op.regions[0].blocks:
            op.attributes["no_inline"] = ir.UnitAttr.get()
            for name, attribute in attributes.items():
                op.attributes[name] = attribute


def object_of(engine: ExecutionEngine) -> bytes:
    """Returns the object file that an engine made."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.o"
        engine.dump_to_object_file(str(path))
        return path.read_bytes()


def link(code: bytes, function: str) -> Linked | None:
    """Links an object file and returns its function `function`; None if the process lacks a symbol that the object
    needs."""
    if missing_symbols(code):
        return None
    engine = _empty_engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(function)
    return Linked(address, engine) if address else None


def _empty_engine() -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def missing_symbols(code: bytes) -> list[str]:
    """The names that an object uses and neither it nor this process defines; empty for objects that are not 64-bit
    ELF."""
    if not code.startswith(_ELF_64):
        return []
    _know_this_process()
    if library := blas(processor()):
        llvm.add_symbol(SGEMM, library.sgemm)
    return [name for name in needed_symbols(code) if llvm.address_of_symbol(name) is None]


@cache
def _know_this_process() -> None:
    """Lets LLVM look up symbols in this process, which it does from its first engine on."""
    _empty_engine()


def needed_symbols(code: bytes) -> list[str]:
    """Names that a 64-bit ELF object uses and does not define."""
    (start,), (width, count) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<HH", code, 58)
    sections = [_SECTION_HEADER.unpack_from(code, start + width * index) for index in range(count)]
    names: list[str] = []
    for _, kind, _, _, offset, size, link_to, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        strings = sections[link_to][4]
        for place in range(offset, offset + size, _SYMBOL.size):
            name, _, _, section, _, _ = _SYMBOL.unpack_from(code, place)
            if name and section == 0:
                names.append(code[strings + name : code.index(b"\0", strings + name)].decode())
    return names
