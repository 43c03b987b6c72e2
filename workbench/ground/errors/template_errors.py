"""Errors of templates, at the template's own lines."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.ground.errors.workbench_error import WorkbenchError


class TemplateSyntaxError(WorkbenchError):
    """A template's text cannot be rendered: it is not valid Jinja, or uses an unknown name."""

    def __init__(self, template: str, place: str, reason: str) -> None:
        super().__init__(f"template {template} at {place} cannot be rendered: {reason}")
        self.template, self.place = template, place


class TemplateOutputError(WorkbenchError):
    """A template's rendered text is not a kernel for its node, or its methods give no tiles or slots."""

    def __init__(self, template: str, place: str, reason: str) -> None:
        super().__init__(f"template {template} at {place}: {reason}")
        self.template, self.place = template, place


class TemplateMlirError(WorkbenchError):
    """A template's rendered text is not valid MLIR, or leaves the scheduled form; lines are the template's own."""

    def __init__(self, template: str, what: str, problems: tuple[tuple[str, str, str], ...]) -> None:
        rows = [f"  {place}: {message}\n      {source}" for place, message, source in problems]
        super().__init__(f"template {template} {what}:\n" + "\n".join(rows))
        self.template, self.problems = template, problems


class TemplateBoundsError(WorkbenchError):
    """A template's kernel reaches outside a tensor or a scratchpad buffer."""

    def __init__(self, template: str, reasons: tuple[str, ...]) -> None:
        super().__init__(
            f"template {template} reaches outside its memory:\n"
            + "\n".join(f"  {reason}" for reason in reasons)
            + "\nOffsets and sizes of every subview, load and store must stay within the extents, also in the "
            "last, ragged tile"
        )
        self.template, self.reasons = template, reasons


class TemplateOutputMissing(WorkbenchError):
    """A template's kernel leaves part of an output unwritten."""

    def __init__(self, template: str, place: str, output: str, written: int, elements: int) -> None:
        done = "never writes" if written == 0 else f"writes only {written:,} of the {elements:,} elements of"
        super().__init__(
            f"template {template} at {place} {done} its output %{output}. Store every element of it: a linalg.copy from"
            f" the scratchpad, or memref.store"
        )
        self.template, self.output, self.written, self.elements = template, output, written, elements


class TemplateSignatureError(WorkbenchError):
    """A template's function does not take the arguments of the kernel ABI."""

    def __init__(self, template: str, place: str, found: str, expected: str) -> None:
        super().__init__(
            f"template {template} at {place}: its function takes ({found}), but the kernel ABI passes "
            f"({expected}): inputs, then outputs, with the types of the tensors. Write {{{{ signature }}}} to "
            "get these arguments"
        )
        self.template, self.found, self.expected = template, found, expected


class TemplateHookUnused(WorkbenchError):
    """A template for pointwise neighbours (`kind="tile"`) does not call their hooks on its tiles."""

    def __init__(self, template: str, place: str, tensor: str, output: str) -> None:
        call = "{{ epilogue(tile, type) }}" if tensor == output else f"{{{{ prologue('{tensor}', tile, type) }}}}"
        super().__init__(
            f"template {template} at {place} is registered with kind='tile', so pointwise neighbours share its kernel,"
            f" but its text never calls {call}. Call it after the tile of %{tensor} is"
            f" {'computed' if tensor == output else 'loaded'}, or register it with kind='opaque'"
        )
        self.template, self.tensor = template, tensor


class TemplateNotRegistered(WorkbenchError):
    """A template's text has another mapping than the given one, and the template is not registered to write it anew."""

    def __init__(self, kernel: str, op: str, template: str, mappings: tuple[str, str]) -> None:
        """`mappings` are two texts in JSON: the mapping for which the text was written, and the requested one; empty
        for none."""
        has, asked = (f"the mapping {each}" if each else "the template's own mapping" for each in mappings)
        super().__init__(
            f"kernel {kernel} is a template's, {template}, and its text was written for {has}. For {asked} it "
            f"has to be written anew, but no template of {op} is registered here. Register it and try again: "
            f"wb.ops.template({op!r})(...), or keep the text: mapping={{{kernel!r}: {mappings[0] or '{}'}, ...}}"
        )
        self.kernel, self.template = kernel, template


class TemplateOfAnotherMachine(UserWarning):
    """A template's text was written for another machine and stays, as the template is not registered to write it
    anew."""

    def __init__(
        self, kernel: str, op: str, template: str, machines: tuple[str, str], figures: Mapping[str, str]
    ) -> None:
        written_for, here = machines
        text = "; ".join(f"{name} is {value}" for name, value in [*figures.items()][:3])
        text += f"; and {len(figures) - 3} more" if len(figures) > 3 else ""
        super().__init__(
            f"kernel {kernel} is written by the template {template}, and no template of {op} is registered here: on "
            f"{here} it keeps the text written for {written_for}, which may not suit it: {text}. Register "
            f"the template, wb.ops.template({op!r})(...), to write it for {here}"
        )
        self.kernel, self.template = kernel, template
