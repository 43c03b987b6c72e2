"""Computes bf16 and f16 without the processor's own instructions: in f32, stored as 16 bits.

If a processor cannot convert a narrow float, LLVM calls a function that the libraries of the process may lack. If the
processor can, the bits may differ: the bf16 instruction of AVX-512 takes tiny numbers for zero. So in the LLVM dialect,
when a kernel is about to become machine code, every narrow value becomes an integer, and arithmetic is done in f32
between conversions. The conversions consist of integer arithmetic and, like PyTorch's, round to nearest even. bf16 is
computed so on every processor, f16 only on processors without instructions for it, since those instructions are exact.
"""

from __future__ import annotations

import struct
from typing import Final

from torch_mlir import ir

from workbench.ground.environment.processor import Processor
from workbench.ground.errors import PassError, Problem
from workbench.mlir.bindings import Value, replace_op
from workbench.mlir.context import operations

_MOVES: Final = frozenset({
    "llvm.load", "llvm.store", "llvm.select", "llvm.bitcast", "llvm.br", "llvm.cond_br", "llvm.switch", "llvm.freeze",
    "llvm.mlir.undef", "llvm.mlir.poison", "llvm.mlir.zero",
})  # fmt: skip
"""Ops that pass a value on unchanged."""

_CALLS: Final = ("llvm.call", "llvm.call_intrinsic", "llvm.func", "llvm.return")
_UNSIGNED_LESS, _UNSIGNED_MORE, _EQUAL = 6, 8, 0


def legalise(module: ir.Module, name: str, target: Processor) -> None:
    """Rewrites the narrow float types that `target` cannot compute, in place; the module is in the LLVM dialect."""
    with module.context, ir.Location.unknown():
        kinds: set[ir.Type] = {ir.BF16Type.get(), *(() if target.converts_f16 else (ir.F16Type.get(),))}
        narrow = {ir.BF16Type.get(), ir.F16Type.get()}
        for op in list(operations(module.operation)):
            if op.name == "llvm.fptrunc" and op.results[0].type in narrow:
                _by_way_of_f32(op)
        for op in list(operations(module.operation)):
            _legalise(op, kinds, name)
        for op in operations(module.operation):
            _kept_as_integers(op, kinds)


def _by_way_of_f32(op: ir.Operation) -> None:
    """Rounds a double first to f32, as PyTorch does: no processor has an instruction for it in one step."""
    if isinstance(op.operands[0].type, ir.F64Type):
        with op.location, ir.InsertionPoint(op):
            op.operands[0] = _made("fptrunc", ir.F32Type.get(), op.operands[0])


def _legalise(op: ir.Operation, kinds: set[ir.Type], name: str) -> None:
    """Makes an op that computes in a narrow type compute in f32."""
    takes = [place for place, value in enumerate(op.operands) if value.type in kinds]
    gives = [value for value in op.results if value.type in kinds]
    if op.name in _MOVES or op.name == "llvm.mlir.constant" or not (takes or gives):
        return
    if op.name in _CALLS:
        raise PassError(f"machine code of {name}", (Problem(f"{op.name} passes a narrow float: {op}"),))
    with op.location, ir.InsertionPoint(op):
        wide = {place: _widened(op.operands[place]) for place in takes}
        for place, value in wide.items():
            op.operands[place] = value
    if op.name == "llvm.fpext" and isinstance(op.results[0].type, ir.F32Type):
        replace_op(op, op.operands[0])
    elif gives:
        _narrow_result(op)


def _narrow_result(op: ir.Operation) -> None:
    """Rounds an op's result to the narrow type, now that it is f32."""
    (result,) = op.results
    kind = result.type
    users = [(use.owner, use.operand_number) for use in result.uses]
    result.set_type(ir.F32Type.get())
    with op.location, ir.InsertionPoint.after(op):
        rounded = _narrowed(result, kind)
    for user, place in users:
        user.operation.operands[place] = rounded
    if op.name == "llvm.fptrunc":  # from f32: doubles were rounded to f32 before
        replace_op(op, op.operands[0])


def _kept_as_integers(op: ir.Operation, kinds: set[ir.Type]) -> None:
    """Gives every value of a narrow type, and every constant, the type of its bits."""
    bits = ir.IntegerType.get_signless(16)
    if op.name == "llvm.mlir.constant" and op.results[0].type in kinds:
        op.attributes["value"] = ir.IntegerAttr.get(bits, _bits_of(ir.FloatAttr(op.attributes["value"])))
    blocks = [block for region in op.regions for block in region.blocks]
    for value in [*op.results, *(value for block in blocks for value in block.arguments)]:
        if value.type in kinds:
            value.set_type(bits)


def _bits_of(value: ir.FloatAttr) -> int:
    """The 16 bits of a narrow constant, signed as MLIR takes them."""
    if isinstance(value.type, ir.BF16Type):
        (bits,) = struct.unpack("<h", struct.pack("<f", value.value)[2:])
    else:
        (bits,) = struct.unpack("<h", struct.pack("<e", value.value))
    return bits


def _widened(value: Value) -> Value:
    """Converts a narrow value to f32."""
    bits = _made("zext", _word(), _made("bitcast", ir.IntegerType.get_signless(16), value))
    words = _from_bf16(bits) if isinstance(value.type, ir.BF16Type) else _from_f16(bits)
    return _made("bitcast", ir.F32Type.get(), words)


def _narrowed(value: Value, kind: ir.Type) -> Value:
    """Rounds an f32 to the nearest value of a narrow type."""
    words = _made("bitcast", _word(), value)
    bits = _to_bf16(words) if isinstance(kind, ir.BF16Type) else _to_f16(words)
    return _made("bitcast", kind, _made("trunc", ir.IntegerType.get_signless(16), bits))


def _from_bf16(bits: Value) -> Value:
    """Shifts the bits up: bf16 is the upper half of f32."""
    return _op("shl", bits, 16)


def _to_bf16(bits: Value) -> Value:
    """Rounds to nearest even: adds a number that carries into the upper half if the lower half is more than half a
    unit, or exactly half a unit with an odd upper half. A NaN stays a NaN."""
    odd = _op("and", _op("lshr", bits, 16), 1)
    rounded = _op("lshr", _op("add", bits, _op("add", odd, 0x7FFF)), 16)
    return _choice(_is_nan(bits), _constant(0x7FC0), rounded)


def _from_f16(bits: Value) -> Value:
    """Moves the bits into place and corrects the exponent, twice for infinities and NaN. A subnormal number gets a
    leading one first, which a subtraction then removes exactly."""
    moved = _op("shl", _op("and", bits, 0x7FFF), 13)
    exponent = _op("and", moved, 0x7C00 << 13)
    usual = _op("add", moved, (127 - 15) << 23)
    far = _op("add", usual, (128 - 16) << 23)
    tiny = _sum(_op("add", usual, 1 << 23), 113 << 23, "fsub")
    found = _choice(_compared(exponent, 0x7C00 << 13, _EQUAL), far, usual)
    found = _choice(_compared(exponent, 0, _EQUAL), tiny, found)
    return _op("or", found, _op("shl", _op("and", bits, 0x8000), 16))


def _to_f16(bits: Value) -> Value:
    """Rounds like `_to_bf16` if the result is a normal number of f16. A smaller number is added to a number whose last
    bit is f16's least, so that the addition rounds; a larger number becomes infinity."""
    size = _op("and", bits, 0x7FFFFFFF)
    odd = _op("and", _op("lshr", size, 13), 1)
    usual = _op("lshr", _op("add", _op("add", size, (15 - 127) * (1 << 23) + 0xFFF), odd), 13)
    unit = ((127 - 15) + (23 - 10) + 1) << 23
    tiny = _op("sub", _sum(size, unit, "fadd"), unit)
    found = _choice(_compared(size, 113 << 23, _UNSIGNED_LESS), tiny, usual)
    found = _choice(_compared(size, ((127 + 16) << 23) - 1, _UNSIGNED_MORE), _constant(0x7C00), found)
    found = _choice(_is_nan(bits), _constant(0x7E00), found)
    return _op("or", found, _op("lshr", _op("and", bits, 0x80000000), 16))


def _is_nan(bits: Value) -> Value:
    return _compared(_op("and", bits, 0x7FFFFFFF), 0x7F800000, _UNSIGNED_MORE)


def _sum(words: Value, other: int, op: str) -> Value:
    """`fadd` or `fsub` of two f32, each given as its bits."""
    kind = ir.F32Type.get()
    made = _made(op, kind, _made("bitcast", kind, words), _made("bitcast", kind, _constant(other)))
    return _made("bitcast", _word(), made)


def _compared(words: Value, number: int, predicate: int) -> Value:
    asked = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
    return _made("icmp", ir.IntegerType.get_signless(1), words, _constant(number), predicate=asked)


def _choice(condition: Value, yes: Value, no: Value) -> Value:
    return _made("select", yes.type, condition, yes, no)


def _op(name: str, words: Value, other: Value | int) -> Value:
    return _made(name, words.type, words, _constant(other) if isinstance(other, int) else other)


def _constant(number: int) -> Value:
    """A word; MLIR reads words from 2**31 on as negative numbers."""
    signed = (number + (1 << 31)) % (1 << 32) - (1 << 31)
    return _made("mlir.constant", _word(), value=ir.IntegerAttr.get(_word(), signed))


def _word() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _made(name: str, kind: ir.Type, *operands: Value, **attributes: ir.Attribute) -> Value:
    return ir.Operation.create(f"llvm.{name}", [kind], list(operands), attributes).result
