# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""Pass pipelines with a snapshot after each step.

A step is a pipeline string: upstream's passes, or one pass in Python, ours (`npu-...{options}`) or a user's. Running
a step's pipeline on the text of the step before gives its text again: that is what the pass explorer and the tests do.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects.transform import interpreter

from simulator.did_you_mean import did_you_mean
from workbench.environment.registered import PASSES
from workbench.errors import PassError, Problem
from workbench.ir import Mapping as Tiling
from workbench.ir import Snapshot
from workbench.mlir import named_dims as payloads
from workbench.mlir.bindings import copy, integer, named, shape_of
from workbench.mlir.context import parse, print_module, problems_of, run_passes
from workbench.mlir.linalg_loops import is_opened, role_of
from workbench.mlir.location_ids import origins_in
from workbench.mlir.memrefs import memref_behind
from workbench.mlir.named_dims import linalg_ops, tag
from workbench.scheduling.mapping_script import transform_script
from workbench.scheduling.passes.borders import settle_borders
from workbench.scheduling.passes.pass_places import OURS
from workbench.scheduling.passes.promote import promote
from workbench.scheduling.passes.split_gathers import split_gathers
from workbench.scheduling.passes.tighten_inputs import tighten_windows
from workbench.scheduling.passes.user_passes import PassFunction
from workbench.scheduling.passes.window_points import walk_windows

_ONE_PASS = re.compile(r"([a-z0-9-]+)(?:\{(.*)\})?", re.DOTALL)
_SCRIPTED = "transform.with_named_sequence"


@dataclass
class PassTrace:
    """A module under work, and the snapshots taken of it."""

    module: ir.Module
    snapshots: list[Snapshot] = field(default_factory=list[Snapshot])
    origins: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    """Which origin ids some op still names, after each step."""
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """A user's pipelines, by the step that each runs after."""

    def run(self, name: str, pipeline: str) -> None:
        """Runs one step in place, and what a user wants after it, and records each."""
        self._run(name, pipeline)
        for wanted in self.after.get(name, ()):
            self._run(f"yours: {wanted}", wanted)

    def _run(self, name: str, pipeline: str) -> None:
        before = self.snapshots[-1].ops_after if self.snapshots else count_ops(self.module)
        start = time.perf_counter()
        run_pipeline(self.module, pipeline)
        seconds = time.perf_counter() - start
        text = print_module(self.module)
        self.snapshots.append(Snapshot(name, pipeline, seconds, before, count_ops(self.module), text))
        self.origins.append(origins_in(self.module))

    def last_seen(self, origin: int) -> str:
        """The step after which no op names this origin any more; empty when some op still does."""
        for step, alive in zip(self.snapshots, self.origins, strict=True):
            if origin not in alive:
                return step.name
        return ""


def reproduce(text: str, pipeline: str) -> str:
    """The text that a recorded step makes of the text before it."""
    module = parse(text)
    run_pipeline(module, pipeline)
    return print_module(module)


def run_pipeline(module: ir.Module, pipeline: str) -> None:
    """Upstream's passes or one of ours, in place."""
    match = _ONE_PASS.fullmatch(pipeline)
    function = _python_pass(match[1], pipeline) if match else None
    if match is None or function is None:
        run_passes(module, pipeline, _those_there_are(match[1]) if match else "")
        return
    given = match[2] or ""
    options = {"script": given} if match[1] == "npu-attach-script" else _options(given)
    with module.context, ir.Location.unknown():
        if function in PASSES.values():
            _run_users(function, module, options, pipeline)
        else:
            function(module, options)
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            raise PassError(pipeline, problems_of(error)) from None


def _those_there_are(name: str) -> str:
    """What to add where MLIR has no pass of this name."""
    meant = did_you_mean(name, (*PASSES, *_PASSES, "canonicalize", "cse", "sccp", "symbol-dce"))
    yours = ", ".join(PASSES) or "none; @wb.mlir_pass makes them"
    return f"{meant}; passes are MLIR's, those of the workbench ({', '.join(_PASSES)}) and yours ({yours})"


def _run_users(function: PassFunction, module: ir.Module, options: dict[str, str], pipeline: str) -> None:
    """Runs a pass of a user's own; what it raises, and a module without its kernel, are told with the pass."""
    try:
        function(module, options)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        told = f"the pass raised {type(error).__name__}: {error}, at {frame.filename}:{frame.lineno}"
        raise PassError(pipeline, (Problem(told),)) from error
    kernels = sum(op.operation.name == "func.func" for op in module.body.operations)
    if kernels != 1:
        raise PassError(pipeline, (Problem(f"the pass left {kernels} functions; a kernel is exactly one func.func"),))


def _python_pass(name: str, pipeline: str) -> PassFunction | None:
    """The function of a pass in Python; None for upstream's."""
    if name.startswith(OURS) and name not in _PASSES:
        raise PassError(pipeline, (Problem(f"no pass {name!r}; ours are {', '.join(_PASSES)}"),))
    return _PASSES.get(name) or PASSES.get(name)


def count_ops(module: ir.Module) -> int:
    """Operations in a module, without the script that may stand beside the kernel."""
    count = 0

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal count
        if op.name == "transform.named_sequence":
            return ir.WalkResult.SKIP
        count += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return count


def script_module(script: str) -> str:
    """A script as a module of its own; its lines stand one lower there."""
    return f"module attributes {{{_SCRIPTED}}} {{\n{script}\n}}"


def mapping_options(mapping: Tiling) -> str:
    """The options of `npu-attach-schedule` that say this mapping."""
    tiles = " ".join(f"{dim}={size}" for dim, size in mapping.tile.items())
    cores = ",".join(f"{dim}:{count}" for dim, count in mapping.cores.items())
    return f"order={','.join(mapping.order)}{f' cores={cores}' if cores else ''} {tiles}".strip()


def _options(text: str) -> dict[str, str]:
    return dict(item.split("=", 1) for item in text.split())


def _attach_schedule(module: ir.Module, options: dict[str, str]) -> None:
    payload = payloads.analyse(module)
    order = tuple(filter(None, options["order"].split(",")))
    split = (item.split(":") for item in filter(None, options.get("cores", "").split(",")))
    cores = {dim: int(count) for dim, count in split}
    tile = {dim: int(size) for dim, size in options.items() if dim not in ("order", "cores")}
    _attach_script(module, {"script": transform_script(payload, Tiling(tile, order, 1, cores, ""))})


def _attach_script(module: ir.Module, options: dict[str, str]) -> None:
    """Puts a transform script beside the kernel, for the interpreter to find."""
    scripted = ir.Module.parse(script_module(options["script"]))
    for op in scripted.body.operations:
        module.body.append(op.operation.clone())
    module.operation.attributes[_SCRIPTED] = ir.UnitAttr.get()


def _detach_schedule(module: ir.Module, options: dict[str, str]) -> None:
    for op in list(module.body.operations):
        if op.operation.name == "transform.named_sequence":
            op.operation.erase()
    del module.operation.attributes[_SCRIPTED]


_GENERALIZE = f"""\
module attributes {{{_SCRIPTED}}} {{
  transform.named_sequence @__transform_main(%root: !transform.any_op) {{
    %named = transform.structured.match attributes {{npu.open}} in %root : (!transform.any_op) -> !transform.any_op
    %generic = transform.structured.generalize %named : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}"""


def _generalize(module: ir.Module, options: dict[str, str]) -> None:
    """Rewrites named ops as generic ones where their loops have to be taken apart.

    Those are convolutions and pools, and matrix products with an extent of one: as named ops these would keep a
    reshape between themselves and their neighbours, which fusion cannot cross.
    """
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


def _recompute(module: ir.Module, options: dict[str, str]) -> None:
    """Gives every reader of a wide elementwise result its own copy of the op, so that fusion can take it in.

    A row that does not fit is walked once per reduction; what lies between the passes is computed anew in each
    instead of being kept.
    """
    reduced = payloads.analyse(module).reduced
    described = {op.id: op for op in payloads.analyse(module).ops}
    for op in reversed(linalg_ops(module)):
        number = integer(op, payloads.ID)
        if described[number].role != "elementwise" or not set(described[number].loops) & set(reduced):
            continue
        users = [user for user in linalg_ops(module) if op.results[0] in list(user.operands)]
        for user in users[1:]:
            with ir.InsertionPoint(user):
                clone = op.clone()
            for position, value in enumerate(user.operands):
                if value == op.results[0]:
                    user.operands[position] = clone.results[0]


def _copy_left_over(module: ir.Module, options: dict[str, str]) -> None:
    """Copies each result that folding has left equal to an argument: a sum over one element, for one."""
    for op in named(module, "bufferization.materialize_in_destination"):
        source, target = memref_behind(op.operands[0]), op.operands[1]
        if source is not None:
            with ir.InsertionPoint(op), op.location:
                copy(source, target)
            op.erase()


_PASSES: dict[str, Callable[[ir.Module, dict[str, str]], None]] = {
    "npu-copy-left-over": _copy_left_over,
    "npu-generalize": _generalize,
    "npu-split-gathers": lambda module, options: split_gathers(module),
    "npu-tag": lambda module, options: tag(module),
    "npu-recompute": _recompute,
    "npu-attach-schedule": _attach_schedule,
    "npu-attach-script": _attach_script,
    "npu-detach-schedule": _detach_schedule,
    "npu-borders": lambda module, options: settle_borders(module),
    "npu-walk-windows": lambda module, options: walk_windows(module),
    "npu-promote": lambda module, options: promote(module, int(options["buffers"])),
}
