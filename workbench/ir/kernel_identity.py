"""Keys of equal kernels, made of everything that scheduling a kernel reads.

In a kernel's text only the name of the function depends on the kernel's place in a graph, so keys are made of the text
without this name. Locations are kernel-local origin ids (the place of a node in its kernel), which are the same in
every graph: kernels with the same locations may share a program, in which every instruction names its origins by those
ids. Each launch says which nodes of the graph the ids mean.
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
"""The location with which a template's text names the origin of an op: see `scheduling/kernels/hooks.py`."""


def renamed(text: str, old: str, new: str) -> str:
    """Returns the module's text with its function called `new`. Nothing else in a kernel's module names the
    function."""
    return text.replace(f"func.func @{old}(", f"func.func @{new}(", 1)


def nameless(text: str, name: str) -> str:
    """Returns the module's text with a neutral name of its function, equal for kernels that differ only in this
    name."""
    return renamed(text, name, _NAMELESS)


def asked_text(said: Mapping[str, object]) -> str:
    """Returns the text of a user's mapping of a kernel, equal for equal mappings; empty for none."""
    return json.dumps(said, sort_keys=True, default=repr) if said else ""


def without_origins(located: str) -> str:
    """Returns a template's text without the origins of its hooks' ops: this one text runs, and the tile program is read
    off it."""
    return _ORIGIN.sub("", located)


def module_key(module: KernelModule) -> str:
    """Returns a key that is the same for kernels that are the same function of the same arguments, whatever their
    names."""
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
    """Returns a key that is the same for machines with the same figures, whatever the names of machines and files.

    The memory counts by the figures that its file had when the machine was made: a file of the same name may be edited,
    and another file may have the same figures.
    """
    figures = {name: figure for name, figure in machine.figures().items() if name not in ("name", "dram_timing")}
    banks = asdict(machine.banked_memory()) if machine.dram.kind == "banked" else {}
    told = {name: figure for name, figure in banks.items() if name not in ("name", "assumed", "sources")}
    return _digest([figures, told])


def schedule_key(module: str, machine: str, wanted: Mapping[str, object] | None, near: Collection[int] = ()) -> str:
    """Returns a key that is the same for kernels with the same schedule: made of the keys of module and machine, the
    user's wishes, and the arguments that the common memory serves."""
    return _digest([module, machine, wanted, sorted(near)])


def _digest(data: object) -> str:
    # A value that is no JSON is a user's mistake, which the schedule reports; here it only needs a key of its own.
    text = json.dumps(data, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def taken_over(kernel: ScheduledKernel, module: KernelModule) -> ScheduledKernel:
    """Returns a scheduled kernel of the same key with the name and the nodes of `module`."""
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
