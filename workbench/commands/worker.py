"""The worker: a process that tries work which may crash its process, and reports the outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Final

import torch

from simulator.machine.machine_file import load_machine
from workbench.ground.environment.processor import processor_named
from workbench.ground.faults.messages import Message
from workbench.ground.faults.serving import Say, Work, serve
from workbench.ir import AtenGraph, ScheduledKernel, codec
from workbench.lowering.lower import lower
from workbench.operators.aten import import_trial
from workbench.rendering.render import render
from workbench.rendering.write_templates import written
from workbench.running import guarded_call, jit
from workbench.scheduling import schedule
from workbench.scheduling.importing import fx_graph, importer
from workbench.scheduling.kernels import handwritten
from workbench.scheduling.pass_pipeline import reproduce


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    """`faults.worker_process` calls this in a new process, with the ends of two pipes."""
    serve(JOBS, requests, answers)


def _import(job: Message) -> None:
    piece = codec.decode(import_trial.Piece, job.body["piece"])
    module = fx_graph.graph_module(piece.nodes, piece.types, piece.inputs, piece.outputs, "kernel")
    importer.import_kernel(module, "kernel", [piece.types[value] for value in (*piece.inputs, *piece.outputs)])


def _passes(job: Message) -> None:
    """Runs a user's pipeline on a user's text."""
    reproduce(job.body["text"], job.body["pipeline"])


def _without_fault(work: Callable[[Message], None]) -> Work:
    """Wraps work that reports no fault itself: it succeeds, raises, or ends the process."""

    def tried(job: Message, _: Say) -> str:
        work(job)
        return ""

    return tried


def _node(job: Message, say: Say) -> str:
    """Takes one node through all stages, on made-up numbers, for the sweep (`scripts/sweep_proven.py`)."""
    say("lower")
    lowered = lower(codec.decode(AtenGraph, job.body["graph"]))
    say("import")
    imported = render(lowered)
    for machine in map(load_machine, job.body["machines"]):
        say("schedule")
        for kernel in schedule.schedule(lowered, written(lowered, imported, machine), machine).kernels:
            inputs = len(lowered.kernel(kernel.kernel).inputs)
            for name in job.body["processors"]:
                if found := _run_for(name, kernel, inputs, say):
                    return found
    return ""


def _run_for(name: str, kernel: ScheduledKernel, inputs: int, say: Say) -> str:
    """Compiles a kernel for a processor and runs it on watched memory; returns the fault that it found, empty for
    none."""
    say(f"compile for {name}")
    native = jit.compile_scheduled(kernel.mlir, kernel.kernel, processor_named(name))
    names = [f"{place}" for place, _ in enumerate(native.layouts)]
    contents = [_made_up(layout) if place < inputs else None for place, layout in enumerate(native.layouts)]
    return guarded_call.run_watched(native, names, contents, lambda stage: say(f"{stage} for {name}"))


def _made_up(layout: jit.Layout) -> bytes:
    """Makes up numbers of an argument's type. Integers may be indices or divisors, so they are ones, which are valid as
    both unless an index can choose only one element."""
    dtype, count = layout.dtypes[0], layout.span_bytes // layout.dtypes[0].itemsize
    made = torch.randn(count).to(dtype) if dtype.is_floating_point else torch.ones(count, dtype=dtype)
    return made.view(torch.uint8).numpy().tobytes()


JOBS: Final[dict[str, Work]] = {
    "import": _without_fault(_import),
    "schedule": _without_fault(schedule.try_schedule),
    "passes": _without_fault(_passes),
    "read": _without_fault(handwritten.try_read),
    "run": guarded_call.try_run,
    "node": _node,
}
"""The function of each kind of trial; it returns the fault that it found as a text, empty for none."""
