# pyright: reportUnknownVariableType=false
"""Pass pipelines with a snapshot after each step.

A step is a pipeline string: MLIR's passes, or one pass in Python, ours (`npu-...{options}`) or a user's. Running a
step's pipeline on the text after the previous step gives the step's text again, as the pass explorer and the tests do.
passes/kernel_pass.py prints a pass in Python as such a string and parses it.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch_mlir import ir

from simulator.did_you_mean import did_you_mean
from workbench.ground.environment.owners import Owner
from workbench.ground.environment.registered import PASSES
from workbench.ground.errors import PassError, Problem
from workbench.ground.faults.forked_trial import fault_in_fork
from workbench.ir import Snapshot
from workbench.mlir.context import parse, print_module, problems_of, run_passes
from workbench.mlir.location_ids import origins_in
from workbench.scheduling.passes.kernel_pass import KernelPass, ModulePass, OptionMistake, plain_options
from workbench.scheduling.passes.our_passes import OUR_PASSES
from workbench.scheduling.passes.pass_places import OURS

_OP = "see current operation:"
"""The beginning of MLIR's note about the op that it refuses."""
_OP_LETTERS = 200
_OF_ERASING = (
    "A pass must replace all uses of an op's results before it erases the op, and must not touch it afterwards"
)
_ONE_PASS = re.compile(r"([a-z0-9-]+)(?:\{(.*)\})?", re.DOTALL)


@dataclass
class PassTrace:
    """A module that passes change, and a snapshot after each step."""

    module: ir.Module
    snapshots: list[Snapshot] = field(default_factory=list[Snapshot])
    origins: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    """The origin ids that some op still names, after each step."""
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The user's pipelines, by the name of the step after which they run."""

    def run(self, name: str, pipeline: str | KernelPass | ModulePass) -> None:
        """Runs one step in place, then the user's pipelines for it; takes a snapshot after each."""
        self._run(name, str(pipeline))
        for wanted in self.after.get(name, ()):
            self._run(f"yours: {wanted}", wanted)

    def run_if(self, needed: Callable[[ir.Module], bool], name: str, pipeline: str | ModulePass) -> None:
        """Runs a step if the module needs it."""
        if needed(self.module):
            self.run(name, pipeline)

    def _run(self, name: str, pipeline: str) -> None:
        before = self.snapshots[-1].ops_after if self.snapshots else count_ops(self.module)
        start = time.perf_counter()
        run_pipeline(self.module, pipeline)
        seconds = time.perf_counter() - start
        text = print_module(self.module)
        self.snapshots.append(Snapshot(name, pipeline, seconds, before, count_ops(self.module), text))
        self.origins.append(origins_in(self.module))

    def last_seen(self, origin: int) -> str:
        """The first step after which no op names this origin; empty if an op still names it."""
        for step, alive in zip(self.snapshots, self.origins, strict=True):
            if origin not in alive:
                return step.name
        return ""


def reproduce(text: str, pipeline: str) -> str:
    """The module's text after a pipeline, run on the text before it."""
    module = parse(text)
    run_pipeline(module, pipeline)
    return print_module(module)


def run_pipeline(module: ir.Module, pipeline: str) -> None:
    """Runs a pipeline in place: MLIR's passes, or one pass in Python."""
    match = _ONE_PASS.fullmatch(pipeline)
    function = _python_pass(match[1], match[2] or "", pipeline) if match else None
    if match is None or function is None:
        run_passes(module, pipeline, _those_there_are(match[1]) if match else "")
        return
    with module.context, ir.Location.unknown():
        who = "" if match[1] in OUR_PASSES else f"the pass at {Owner.of(PASSES[match[1]]).place}"
        if who:
            _run_users(function, module, pipeline, who)
        else:
            function(module)
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            problems = (Problem(f"{who} {_refusal(error)}"),) if who else problems_of(error)
            raise PassError(pipeline, problems) from None


def _refusal(error: ir.MLIRError) -> str:
    """MLIR's reasons to refuse the module that a user's pass left, each with the beginning of its op. Lines of the
    module are left out, since it is in no file of the user."""
    told = "; ".join(f"{item.message}{_op_of(item)}" for item in error.error_diagnostics)
    return f"left a module that MLIR refuses: {told}" + (f"\n  {_OF_ERASING}" if "unlinked" in told else "")


def _op_of(item: ir.DiagnosticInfo) -> str:
    for note in item.notes:
        if note.message.startswith(_OP):
            first = note.message.removeprefix(_OP).strip().partition("\n")[0]
            return f"\n      {first[:_OP_LETTERS]}{'...' if len(first) > _OP_LETTERS else ''}"
    return ""


def _those_there_are(name: str) -> str:
    """A hint for the case that MLIR has no pass of this name: the passes that exist."""
    meant = did_you_mean(name, (*PASSES, *OUR_PASSES, "canonicalize", "cse", "sccp", "symbol-dce"))
    yours = ", ".join(PASSES) or "none; @wb.mlir_pass makes them"
    return f"{meant}; passes are MLIR's, those of the workbench ({', '.join(OUR_PASSES)}) and yours ({yours})"


def _run_users(function: Callable[[ir.Module], object], module: ir.Module, pipeline: str, who: str) -> None:
    """Runs a user's pass; its exceptions, and a module without exactly one kernel, become errors that name the pass.

    A fork of this process runs the pass first: one that reads an op after erasing it crashes its process.
    """
    _try_users(function, module, pipeline, who)
    try:
        returned = function(module)
    except (Exception, SystemExit) as error:  # sys.exit() in a pass must not end this process
        frame = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{who} raised {type(error).__name__}: {error}, at {frame.filename}:{frame.lineno}"
        raise PassError(pipeline, (Problem(told),)) from error
    if returned is not None and returned is not module:
        wanted = "a pass changes the module that it is given, and what it returns is not used: let it return nothing"
        raise PassError(pipeline, (Problem(f"{who} returned {type(returned).__name__}; {wanted}"),))
    kernels = sum(op.operation.name == "func.func" for op in module.body.operations)
    if kernels != 1:
        raise PassError(pipeline, (Problem(f"{who} left {kernels} functions; a kernel is exactly one func.func"),))


def _try_users(function: Callable[[ir.Module], object], module: ir.Module, pipeline: str, who: str) -> None:
    def run_and_print() -> str:
        function(module)
        try:
            module.operation.verify()
        except ir.MLIRError as error:  # with an erased op in use, the module is not even safe to free here
            return _refusal(error)
        print_module(module)
        return ""

    if fault := fault_in_fork(run_and_print, _OF_ERASING):
        raise PassError(pipeline, (Problem(f"{who} {fault}"),))


def _python_pass(name: str, options: str, pipeline: str) -> Callable[[ir.Module], object] | None:
    """The pass in Python with its options, as a function of a module; None for MLIR's passes."""
    if name.startswith(OURS) and name not in OUR_PASSES:
        raise PassError(pipeline, (Problem(f"no pass {name!r}; ours are {', '.join(OUR_PASSES)}"),))
    made = OUR_PASSES.get(name) or PASSES.get(name)
    if made is None:
        return None
    try:
        if isinstance(made, ModulePass) or (isinstance(made, type) and issubclass(made, KernelPass)):
            return made.parse(options).run
        function, given = made, plain_options(options)
        return lambda module: function(module, given)
    except OptionMistake as mistake:
        raise PassError(pipeline, (Problem(str(mistake)),)) from None


def count_ops(module: ir.Module) -> int:
    """The number of operations in a module, without an attached script."""
    count = 0

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal count
        if op.name == "transform.named_sequence":
            return ir.WalkResult.SKIP
        count += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return count
