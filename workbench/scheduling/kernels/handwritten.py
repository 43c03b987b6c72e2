"""Checks a template's text: that it parses as MLIR, has the scheduled form, and stays within its memory.

The text is taken from the kernel's record, so that one from a file is checked like a new one. For a new text, every
error names the line of the template's own text, not of the rendered text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from simulator.errors import ProgramError
from simulator.machine.machine import Machine
from simulator.tileprogram.boxes import elements_of
from simulator.tileprogram.program import Access, Space, TileProgram
from simulator.tileprogram.verifier import verify
from workbench.ground.errors import (
    MlirSyntaxError,
    Problem,
    ScheduledFormError,
    TemplateBoundsError,
    TemplateMlirError,
    TemplateOutputMissing,
    TemplateSignatureError,
)
from workbench.ground.faults.messages import Message
from workbench.ground.faults.trial import TRIALS, Trial
from workbench.ir import KernelModule, codec
from workbench.ir.graph import span
from workbench.ir.kernel_identity import nameless
from workbench.mlir.bindings import function_of
from workbench.mlir.context import parse
from workbench.mlir.scheduled_form import verify_scheduled
from workbench.mlir.user_text import check_text, writable
from workbench.scheduling.extraction.extract import extract
from workbench.scheduling.kernels.rendered_text import Rendering
from workbench.scheduling.kernels.template import Template


def program_of(record: KernelModule, machine: Machine, unproven: Sequence[str] = ()) -> TileProgram:
    """The tile program of a template's kernel, extracted from the text in its record; this needs no template.

    If the text has `unproven` nodes (named in words), a worker process reads it first.
    """
    return _extracted(record, _parsed(record, machine, unproven), machine)


def check_written(
    template: Template, rendering: Rendering, record: KernelModule, machine: Machine, unproven: Sequence[str] = ()
) -> TileProgram:
    """The tile program of a new text, like `program_of`; errors name the template's own lines."""
    name = rendering.place.name
    try:
        module = _parsed(record, machine, unproven)
    except MlirSyntaxError as error:
        raise TemplateMlirError(name, "does not render valid MLIR", _located(error.problems, rendering)) from None
    except ScheduledFormError as error:
        raise TemplateMlirError(
            name, "uses what a scheduled kernel may not have", _located(error.problems, rendering)
        ) from None
    with module.context:
        _check_signature(template, rendering, module)
    try:
        program = _extracted(record, module, machine)
    except ProgramError as error:
        reasons = tuple(_in_its_words(reason, template, rendering) for reason in error.violations)
        raise TemplateBoundsError(name, reasons) from None
    _check_outputs(template, rendering, program)
    return program


def _parsed(record: KernelModule, machine: Machine, unproven: Sequence[str]) -> ir.Module:
    check_text(record.mlir, record.kernel)
    if unproven:
        TRIALS.pass_or_raise(read_trial(record, machine, unproven))
    verify_scheduled(record.mlir, record.kernel)
    return parse(record.located, name=record.kernel)


def _extracted(record: KernelModule, module: ir.Module, machine: Machine) -> TileProgram:
    assert record.written is not None, f"{record.kernel} has no text yet"
    program = extract(module, record.mlir, record.kernel, record.origins, machine, record.written.origin)
    verify(program)
    return program


def read_trial(record: KernelModule, machine: Machine, nodes: Sequence[str]) -> Trial:
    """The trial that parses, verifies and extracts a template's text in a worker process."""
    body = {"record": codec.encode(record), "machine": codec.encode(machine)}
    text = {"text": nameless(record.mlir, record.kernel), "machine": body["machine"]}
    return Trial("read", json.dumps(text), lambda: Message(body), record.kernel, nodes)


def try_read(job: Message) -> None:
    """Runs `program_of`, in the worker, on the text of a `read_trial`."""
    record, machine = (
        codec.decode(kind, job.body[name]) for name, kind in (("record", KernelModule), ("machine", Machine))
    )
    program_of(record, machine)


def _in_its_words(reason: str, template: Template, rendering: Rendering) -> str:
    """A violation in the tile program, in words with the template's own lines and names."""
    for number, tensor in enumerate((*template.inputs, *template.outputs)):
        reason = reason.replace(f"'arg{number}'", f"%{tensor.name}")
    return re.sub(r"at line (\d+)", lambda found: f"at {rendering.at(int(found.group(1)))}", reason)


def _located(problems: tuple[Problem, ...], rendering: Rendering) -> tuple[tuple[str, str, str], ...]:
    """Each problem as (place in the template, mistake, rendered line)."""
    lines = dict(enumerate(rendering.text.splitlines(), 1))
    return tuple(
        (rendering.at(each.line), each.message, writable(lines.get(each.line or 0, "").strip())) for each in problems
    )


def _check_signature(template: Template, rendering: Rendering, module: ir.Module) -> None:
    arguments = function_of(module).regions[0].blocks[0].arguments
    found = [str(argument.type) for argument in arguments]
    expected = [str(ir.Type.parse(tensor.memref)) for tensor in (*template.inputs, *template.outputs)]
    if found != expected:
        raise TemplateSignatureError(
            rendering.place.name, rendering.place.at(None), ", ".join(found), ", ".join(expected)
        )


def _check_outputs(template: Template, rendering: Rendering, program: TileProgram) -> None:
    """Raises if an element of an output is written by no instruction."""
    for number, tensor in enumerate(template.outputs, start=len(template.inputs)):
        covered = _written_elements(program, number)
        if covered < tensor.type.numel:
            raise TemplateOutputMissing(
                rendering.place.name, rendering.place.at(None), tensor.name, covered, tensor.type.numel
            )


def _written_elements(program: TileProgram, argument: int) -> int:
    """The number of different elements of an argument that the program writes."""
    info = program.arguments[argument]
    seen = np.zeros(info.offset + span(info.shape, info.strides), np.bool_)
    here = (program.space == Space.DRAM) & (program.target == argument) & ((program.access & Access.WRITE) != 0)
    for row in np.flatnonzero(here).tolist():
        seen[elements_of(program.operand(row))] = True
    return int(seen.sum())
