"""Passes that attach a transform script to a kernel's module, where MLIR's interpreter finds it, and that remove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from torch_mlir import ir

from workbench.ir import Mapping as Tiling
from workbench.mlir import named_dims as payloads
from workbench.scheduling.mapping_script import transform_script
from workbench.scheduling.passes.kernel_pass import KernelPass, module_pass

SCRIPTED: Final = "transform.with_named_sequence"


def script_module(script: str) -> str:
    """The script's own module; each line is one lower there than in the script."""
    return f"module attributes {{{SCRIPTED}}} {{\n{script}\n}}"


@dataclass(frozen=True)
class AttachScript(KernelPass):
    """Attaches a given transform script."""

    name = "npu-attach-script"
    script: str

    def run(self, module: ir.Module) -> None:
        scripted = ir.Module.parse(script_module(self.script))
        for op in scripted.body.operations:
            module.body.append(op.operation.clone())
        module.operation.attributes[SCRIPTED] = ir.UnitAttr.get()

    def options(self) -> str:
        return self.script

    @classmethod
    def parse(cls, options: str) -> Self:
        return cls(options)


@dataclass(frozen=True)
class AttachSchedule(KernelPass):
    """Attaches the transform script that a mapping is written as."""

    name = "npu-attach-schedule"
    order: tuple[str, ...] = ()
    tile: Mapping[str, int] = field(default_factory=dict[str, int])
    cores: Mapping[str, int] = field(default_factory=dict[str, int])

    def run(self, module: ir.Module) -> None:
        tiling = Tiling(dict(self.tile), self.order, 1, dict(self.cores), "")
        AttachScript(transform_script(payloads.analyse(module), tiling)).run(module)


@module_pass("npu-detach-schedule")
def detach_schedule(module: ir.Module) -> None:
    """Removes the attached transform script."""
    for op in list(module.body.operations):
        if op.operation.name == "transform.named_sequence":
            op.operation.erase()
    del module.operation.attributes[SCRIPTED]
