# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""From what a template renders to a checked kernel: MLIR that parses, in the scheduled form, within its memory.

Every error names the line of the template's own text, not of what was rendered from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from simulator.errors import ProgramError
from simulator.machine.machine import Machine
from simulator.tileprogram.program import Access, Space, TileProgram
from simulator.tileprogram.verifier import verify
from workbench.errors import (
    MlirSyntaxError,
    Problem,
    ScheduledFormError,
    TemplateBoundsError,
    TemplateMlirError,
    TemplateOutputMissing,
    TemplateSignatureError,
)
from workbench.extraction.extract import extract
from workbench.faults.channel import Message
from workbench.faults.trial import TRIALS, Trial
from workbench.ir import Mapping, codec
from workbench.ir.kernel_identity import nameless
from workbench.kernels.rendered_text import Rendering
from workbench.kernels.template import Template
from workbench.mlir.bindings import function_of
from workbench.mlir.context import parse
from workbench.mlir.scheduled_form import verify_scheduled
from workbench.mlir.user_text import check_text, writable


def written_kernel(
    template: Template, origins: Sequence[str], mapping: Mapping, machine: Machine, unproven: Sequence[str] = ()
) -> tuple[Rendering, TileProgram]:
    """The rendered kernel and its tile program; anything wrong with it is one error at the template's own lines.

    A text with `unproven` nodes, which are told as people call them, is read by a worker first.
    """
    rendering = template.rendered(mapping, machine)
    _check_text(template, rendering)
    if unproven:
        TRIALS.pass_or_raise(read_trial(template, rendering, origins, machine, unproven))
    module = _parsed(template, rendering)
    with module.context:
        _check_signature(template, rendering, module)
    try:
        program = extract(module, rendering.text, template.kernel, origins, machine, origins.index(template.node.name))
        verify(program)
    except ProgramError as error:
        reasons = tuple(_in_its_words(reason, template, rendering) for reason in error.violations)
        raise TemplateBoundsError(rendering.place.name, reasons) from None
    _check_outputs(template, rendering, program)
    return rendering, program


def _check_text(template: Template, rendering: Rendering) -> None:
    try:
        check_text(rendering.text, template.kernel)
    except MlirSyntaxError as error:
        problems = _located(error.problems, rendering)
        raise TemplateMlirError(rendering.place.name, "does not render valid MLIR", problems) from None


def read_trial(
    template: Template, rendering: Rendering, origins: Sequence[str], machine: Machine, nodes: Sequence[str]
) -> Trial:
    """Whether a rendered text can be parsed, verified and walked to its end."""
    body = {
        "text": rendering.text,
        "located": rendering.located,
        "kernel": template.kernel,
        "origins": list(origins),
        "machine": codec.encode(machine),
        "node": template.node.name,
    }
    neutral = {**body, "text": nameless(rendering.text, template.kernel), "located": "", "kernel": "", "origins": []}
    return Trial("read", json.dumps({**neutral, "node": ""}), lambda: Message(body), template.kernel, nodes)


def try_read(job: Message) -> None:
    """In the worker: what `written_kernel` does with the text of a `read_trial`."""
    body = job.body
    verify_scheduled(body["text"], body["kernel"])
    module = parse(body["located"])
    machine = codec.decode(Machine, body["machine"])
    origins = body["origins"]
    verify(extract(module, body["text"], body["kernel"], origins, machine, origins.index(body["node"])))


def _in_its_words(reason: str, template: Template, rendering: Rendering) -> str:
    """What the verifier says of the tile program, with the template's own lines and names."""
    for number, tensor in enumerate((*template.inputs, *template.outputs)):
        reason = reason.replace(f"'arg{number}'", f"%{tensor.name}")
    return re.sub(r"at line (\d+)", lambda found: f"at {rendering.at(int(found.group(1)))}", reason)


def _parsed(template: Template, rendering: Rendering) -> ir.Module:
    try:
        verify_scheduled(rendering.text, template.kernel)
        return parse(rendering.located)
    except MlirSyntaxError as error:
        raise TemplateMlirError(
            rendering.place.name, "does not render valid MLIR", _located(error.problems, rendering)
        ) from None
    except ScheduledFormError as error:
        raise TemplateMlirError(
            rendering.place.name, "leaves the scheduled form", _located(error.problems, rendering)
        ) from None


def _located(problems: tuple[Problem, ...], rendering: Rendering) -> tuple[tuple[str, str, str], ...]:
    """(place in the template, what is wrong, the rendered line)."""
    lines = rendering.text.splitlines()
    return tuple(
        (
            rendering.at(problem.line),
            problem.message,
            writable(lines[problem.line - 1].strip())
            if problem.line is not None and problem.line <= len(lines)
            else "",
        )
        for problem in problems
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
    """Every element of every output must be written by some instruction."""
    for number, tensor in enumerate(template.outputs, start=len(template.inputs)):
        covered = _written_elements(program, number)
        if covered < tensor.type.numel:
            raise TemplateOutputMissing(
                rendering.place.name, rendering.place.at(None), tensor.name, covered, tensor.type.numel
            )


def _written_elements(program: TileProgram, argument: int) -> int:
    """How many different elements of an argument the program writes."""
    info = program.arguments[argument]
    last = sum((extent - 1) * stride for extent, stride in zip(info.shape, info.strides, strict=True))
    seen = np.zeros(info.offset + last + 1, np.bool_)
    here = (program.space == Space.DRAM) & (program.target == argument) & ((program.access & Access.WRITE) != 0)
    for row in np.flatnonzero(here):
        elements = np.array([program.offset[row]])
        for extent, stride in zip(program.shape[row], program.strides[row], strict=True):
            elements = (elements[:, None] + stride * np.arange(extent)).ravel() if extent > 1 else elements
        seen[elements] = True
    return int(seen.sum())
