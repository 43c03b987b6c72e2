"""Equal kernels: a key over everything that scheduling a kernel reads.

The name of a kernel's function is the one thing in its text that depends on where the kernel stands in a graph, so
keys are made of the text without it. Locations are kernel-local origin ids (the place of a node in its kernel), the
same wherever the kernel stands: kernels that agree in them may share a program, in which every instruction names its
origins by those ids. Which nodes of the graph the ids mean is each launch's own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace

from simulator.machine.machine import Machine
from workbench.ir import codec
from workbench.ir.kernels import KernelModule, ScheduledKernel

_NAMELESS = "kernel"

_ORIGIN = re.compile(r' loc\("aten:\d+":1:0\)')
"""The origin in a template's text of an op that stands on it: see `scheduling/kernels/hooks.py`."""


def renamed(text: str, old: str, new: str) -> str:
    """The module with its function called `new`. Nothing else in a kernel's module names the function."""
    return text.replace(f"func.func @{old}(", f"func.func @{new}(", 1)


def nameless(text: str, name: str) -> str:
    """The module's text as it would be for a kernel of any other name."""
    return renamed(text, name, _NAMELESS)


def asked_text(said: Mapping[str, object]) -> str:
    """The text of what a user says of a kernel's mapping, equal for equal mappings; empty for none."""
    return json.dumps(said, sort_keys=True, default=repr) if said else ""


def without_origins(located: str) -> str:
    """A template's text without the origins of what its hooks put in: the one text that runs and is read off."""
    return _ORIGIN.sub("", located)


def module_key(module: KernelModule) -> str:
    """The same for kernels that are the same function of the same arguments, whatever they are called."""
    neutral = replace(
        module,
        kernel="",
        mlir=nameless(module.mlir, module.kernel),
        located=nameless(module.located, module.kernel),
        origins=(),
        absorbed=(),
    )
    return _digest(codec.encode(neutral))


def machine_key(machine: Machine) -> str:
    """The same for machines of the same figures, whatever they and their files are called.

    The memory goes by what its file said when the machine was made: a file of the same name may be edited, and another
    may say the same.
    """
    figures = {name: figure for name, figure in machine.figures().items() if name not in ("name", "dram_timing")}
    banks = asdict(machine.banked_memory()) if machine.dram.kind == "banked" else {}
    told = {name: figure for name, figure in banks.items() if name not in ("name", "assumed", "sources")}
    return _digest([figures, told])


def schedule_key(module: str, machine: str, wanted: Mapping[str, object] | None, near: Collection[int] = ()) -> str:
    """The same for kernels that scheduling would make the same of: keys of module and machine, what the user asked, the
    arguments that the common memory serves."""
    return _digest([module, machine, wanted, sorted(near)])


def _digest(data: object) -> str:
    # A value that is no JSON is a user's mistake, which the schedule reports; here it only needs a key of its own.
    text = json.dumps(data, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def taken_over(kernel: ScheduledKernel, module: KernelModule) -> ScheduledKernel:
    """A scheduled kernel of the same key under the name and with the nodes of `module`."""
    old, new = kernel.kernel, module.kernel
    if old == new and kernel.program.origin_names == module.origins:
        return kernel
    program = replace(kernel.program, kernel=new, origin_names=module.origins)
    if old == new:
        return replace(kernel, program=program)
    return replace(
        kernel,
        kernel=new,
        mlir=renamed(kernel.mlir, old, new),
        located=renamed(kernel.located, old, new),
        passes=tuple(replace(step, mlir=renamed(step.mlir, old, new)) for step in kernel.passes),
        program=program,
    )
