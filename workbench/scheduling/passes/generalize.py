"""Named ops as generic ones, where their loops have to be taken apart."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects.transform import interpreter

from workbench.mlir.bindings import shape_of
from workbench.mlir.linalg_loops import is_opened, role_of
from workbench.mlir.linalg_ops import linalg_ops
from workbench.scheduling.passes.attach_script import SCRIPTED
from workbench.scheduling.passes.kernel_pass import KernelPass
from workbench.scheduling.passes.tighten_inputs import tighten_windows

_GENERALIZE = f"""\
module attributes {{{SCRIPTED}}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op) {{
    %named = transform.structured.match attributes {{npu.open}} in %root : (!transform.any_op) -> !transform.any_op
    %generic = transform.structured.generalize %named : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}"""


@dataclass(frozen=True)
class Generalize(KernelPass):
    """Rewrites named ops as generic ones where their loops have to be taken apart.

    Those are convolutions and pools, and matrix products with an extent of one: as named ops these would keep a
    reshape between themselves and their neighbours, which fusion cannot cross.
    """

    name = "npu-generalize"

    def run(self, module: ir.Module) -> None:
        named = [op for op in linalg_ops(module) if op.name != "linalg.generic" and (not is_opened(op) or _is_thin(op))]
        for op in named:
            op.attributes["npu.open"] = ir.UnitAttr.get()
        if named:
            script = ir.Module.parse(_GENERALIZE)
            interpreter.apply_named_sequence(module, script.body.operations[0], script)
        for op in linalg_ops(module):
            if "npu.open" in op.attributes:
                del op.attributes["npu.open"]
        tighten_windows(module)


def _is_thin(op: ir.Operation) -> bool:
    return role_of(op) == "contraction" and any(1 in shape_of(value) for value in op.operands)
