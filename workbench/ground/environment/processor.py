# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
"""The processor for which machine code is compiled: the running one, or an older one that it imitates.

`ATEN_WORKBENCH_PROCESSOR` restricts kernels to the instructions of a level of the x86-64 ABI, so that any processor
shows the behaviour of an older one: the calls in place of missing instructions, and their numbers.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import Final

import llvmlite.binding as llvm

from workbench.ground.errors import BadOption

SWITCH: Final = "ATEN_WORKBENCH_PROCESSOR"
NATIVE: Final = "native"

_X86_64 = ("64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
_V2 = (*_X86_64, "crc32", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
LEVELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"x86-64": _X86_64, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
)
"""The levels of the x86-64 ABI from the oldest, with LLVM's names of the features of each."""

_X86: Final = ("x86_64", "AMD64")


@dataclass(frozen=True)
class Processor:
    """The instructions that machine code may use."""

    name: str
    """`native`, or a level."""
    level: str
    """The highest level whose features the processor has; on another architecture the architecture's name."""
    features: frozenset[str]

    @property
    def restricted(self) -> bool:
        """True if this processor has fewer features than that of the running process."""
        return self.name != NATIVE

    @property
    def converts_f16(self) -> bool:
        """True if the processor has instructions between f16 and f32."""
        return "f16c" in self.features or self.level in ("aarch64", "arm64")

    @property
    def fuses_multiplications(self) -> bool:
        """True if the processor multiplies and adds in one instruction, rounding once."""
        return "fma" in self.features or self.level in ("aarch64", "arm64")

    @property
    def has_fast_long_registers(self) -> bool:
        """True if the processor keeps its clock with registers of 512 bits: Intel's do since they compute in f16
        too."""
        return "avx512fp16" in self.features

    def __str__(self) -> str:
        return self.name if self.restricted else f"this processor ({llvm.get_host_cpu_name()})"

    @cached_property
    def target(self) -> str:
        """A text that differs for processors that need other machine code."""
        about = self.name if self.restricted else f"{llvm.get_host_cpu_name()} {' '.join(sorted(self.features))}"
        return f"{llvm.get_process_triple()} {about}"


def processor() -> Processor:
    """The processor that kernels are compiled for now."""
    return processor_named(os.environ.get(SWITCH, "") or NATIVE)


@cache
def processor_named(name: str) -> Processor:
    """Returns the processor `native`, or a level that this processor has."""
    here = _host_features()
    if name == NATIVE:
        return Processor(NATIVE, _level(here), here)
    if name not in LEVELS:
        raise BadOption(f"{SWITCH}={name!r} is no level of a processor; expected {NATIVE}, {', '.join(LEVELS)}")
    if missing := frozenset(LEVELS[name]) - here:
        raise BadOption(
            f"{SWITCH}={name!r}: {processor_named(NATIVE)} lacks {', '.join(sorted(missing))}. Machine code "
            f"of that level would end the process here; expected {', '.join([NATIVE, *available()])}"
        )
    return Processor(name, name, frozenset(LEVELS[name]))


def available() -> list[str]:
    """The levels that this processor has."""
    return [name for name, features in LEVELS.items() if _host_features().issuperset(features)]


def _level(features: frozenset[str]) -> str:
    levels = [name for name, needed in LEVELS.items() if features.issuperset(needed)]
    return levels[-1] if levels else platform.machine()


@cache
def _host_features() -> frozenset[str]:
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM does not support this on every system
        features = dict[str, bool]()
    found = frozenset(name for name, present in features.items() if present)
    # If LLVM cannot list the features of an x86-64 processor, it still has those of the first level.
    return found | frozenset(_X86_64 if platform.machine() in _X86 else ())


def can_link() -> bool:
    """True if machine code of one process can run in another on this system (`mlir.machine_code`)."""
    return sys.platform == "linux" and platform.machine() == "x86_64"
