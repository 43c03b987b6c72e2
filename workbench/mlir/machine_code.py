# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
"""Machine code of a kernel as an object file, and back into this process without a compiler.

MLIR's engine gives the object it made; llvmlite, which Numba brings, links such an object into the process in about
a millisecond. Only 64-bit x86 Linux is done this way: there the objects address everything by 64-bit absolute
relocations, so it does not matter how far from libc they come to lie. Elsewhere kernels are compiled in each process.

An object with a symbol that this process does not have would end the process when it is linked, so the symbols it
needs are looked up before.
"""

from __future__ import annotations

import platform
import struct
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
from torch_mlir.execution_engine import ExecutionEngine

_SECTION_HEADER, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2


@dataclass(frozen=True)
class Linked:
    """A function in this process, there as long as this object is."""

    address: int
    engine: object


def can_link() -> bool:
    """Whether objects can be taken from one process to another here."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


@cache
def target() -> str:
    """What machine code is made for: an object of another target must not be run."""
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def object_of(engine: ExecutionEngine) -> bytes:
    """The object file an engine made."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.o"
        engine.dump_to_object_file(str(path))
        return path.read_bytes()


def link(code: bytes, function: str) -> Linked | None:
    """Function `function` of an object file; None when the process lacks a symbol it calls."""
    engine = _empty_engine()
    if any(llvm.address_of_symbol(name) is None for name in needed_symbols(code)):
        return None
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(function)
    return Linked(address, engine) if address else None


def _empty_engine() -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


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
