"""What can go wrong for a user: one class per mistake, each saying what, where, what was expected, what to do."""

from __future__ import annotations

from dataclasses import dataclass


class WorkbenchError(Exception):
    """Base of every error the workbench raises on purpose."""


class NotYet(WorkbenchError, NotImplementedError):
    """The workbench will do this, but does not do it yet."""


def not_yet(what: str, instead: str = "") -> NotYet:
    """The one way of saying that something the design promises is not in this version."""
    return NotYet(f"{what} is planned, but this version of ATen Workbench does not have it. {instead}".rstrip())


class BadOption(WorkbenchError, ValueError):
    """An option was given a value it does not take."""


class MissingExtra(WorkbenchError, ImportError):
    """Something needs a package that a plain install does not bring."""


class ProgramFileError(WorkbenchError):
    """A file given to `workbench trace` does not define what the command needs."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a text, and the 1-based line it is on where that is known."""

    message: str
    line: int | None = None


def _listed(problems: tuple[Problem, ...], text: str = "") -> str:
    """Problems one below the other, each with the line of `text` it is about."""
    source = text.splitlines()
    rows: list[str] = []
    for problem in problems:
        place = f"line {problem.line}: " if problem.line is not None else ""
        rows.append(f"  {place}{problem.message}")
        if problem.line is not None and 0 < problem.line <= len(source):
            rows.append(f"      {source[problem.line - 1].strip()}")
    return "\n".join(rows)


class MlirSyntaxError(WorkbenchError):
    """A text is not valid MLIR: it does not parse, or an op in it breaks that op's own rules."""

    def __init__(self, name: str, text: str, problems: tuple[Problem, ...]) -> None:
        self.name, self.text, self.problems = name, text, problems
        super().__init__(f"{name} is not valid MLIR:\n{_listed(problems, text)}")


class PassError(WorkbenchError):
    """An MLIR pass refused its pipeline or failed on the module."""

    def __init__(self, pipeline: str, problems: tuple[Problem, ...]) -> None:
        self.pipeline, self.problems = pipeline, problems
        super().__init__(f"the MLIR passes `{pipeline}` failed:\n{_listed(problems)}")


class ScheduledFormError(WorkbenchError):
    """A module is not in the scheduled form that the JIT and the tile program are read from."""

    def __init__(self, name: str, text: str, problems: tuple[Problem, ...]) -> None:
        self.name, self.text, self.problems = name, text, problems
        count = f"{len(problems)} violation" + ("s" if len(problems) != 1 else "")
        super().__init__(f"{name} is not in the scheduled form ({count}):\n{_listed(problems, text)}")


class ImportFailed(WorkbenchError):
    """torch-mlir could not bring a kernel into MLIR."""

    def __init__(self, kernel: str, reason: str) -> None:
        super().__init__(f"kernel {kernel} could not be imported into MLIR: {reason}")
        self.kernel, self.reason = kernel, reason


class MappingOrder(WorkbenchError):
    """A mapping walks a parallel dim inside a reduced one."""

    def __init__(self, kernel: str, order: tuple[str, ...], reduced: tuple[str, ...], late: tuple[str, ...]) -> None:
        super().__init__(
            f"mapping of kernel {kernel}: order {', '.join(order)} walks {', '.join(late)} inside a loop over a reduced"
            f" dim ({', '.join(reduced)}). A tile's accumulator stays in the scratchpad until its reduction is"
            f" finished, so reduced dims come last: move {', '.join(late)} to the front, or leave its tile out"
        )
        self.kernel, self.order, self.reduced = kernel, order, reduced


class NativeArgumentError(WorkbenchError):
    """A compiled kernel was called with tensors that are not laid out as its type says."""


class NativeInputError(WorkbenchError):
    """A traced function was run on inputs that are not like the traced ones."""


class UnsupportedContainer(WorkbenchError):
    """Inputs or results hold something that is no tensor, tuple, list, dict or plain constant."""


class InputMismatch(WorkbenchError):
    """The inputs do not fit the function, or do not fit the ones it was captured with."""


class NoTensorWork(WorkbenchError):
    """The function computes nothing with tensors, so there is nothing to compile."""


class GraphBreak(WorkbenchError):
    """The function cannot be captured as one graph."""


class CaptureFailed(WorkbenchError):
    """The function raised while it was being captured."""


class HiddenState(WorkbenchError):
    """The function replaces tensors it holds, in a way a graph cannot record."""


class MissingRoutes(WorkbenchError):
    """The graph has ops that nothing here knows how to make."""


class ReplayError(WorkbenchError):
    """A tile program cannot be replayed: an instruction has no meaning in numpy, or reaches outside its memory."""


class MappingError(WorkbenchError):
    """A user's mapping names something that is not there, or asks for what cannot be."""

    def __init__(self, kernel: str, reason: str) -> None:
        super().__init__(f"mapping of kernel {kernel!r}: {reason}")
        self.kernel = kernel


class JourneyFileError(WorkbenchError):
    """A file cannot be opened as a journey. Its subclasses say why."""


class JourneyFileForeign(JourneyFileError):
    """The file is something else."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} is not a journey: {what}. wb.load opens what j.save(path) wrote")
        self.path = path


class JourneyFileTruncated(JourneyFileError):
    """The file ends too early, as after a broken copy or download."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__(
            f"{path} is a journey that is cut off after {size:,} bytes: its end is missing. Copy it again, or save the "
            "journey again"
        )
        self.path = path


class JourneyFileVersion(JourneyFileError):
    """The file was written by a version of the workbench with other records."""

    def __init__(self, path: str, found: str, expected: str, made_by: object) -> None:
        super().__init__(
            f"{path} is a journey of {found}, written by {made_by}; this version reads {expected}. Trace and save it "
            "again with this version, or open it with the one that wrote it"
        )
        self.path = path


class JourneyFileEdited(JourneyFileError):
    """The file was changed after it was saved, or damaged."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path} is a journey, but was changed or damaged after it was saved: {what}. Journeys are read whole or "
            "not at all; save it again"
        )
        self.path = path


class NoFunction(WorkbenchError):
    """A journey that was loaded from a file is asked to compute, which takes the function and its weights."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{what} computes with the function that was traced and with its weights, and {path} holds neither. Trace "
            "the function again; looking, selecting, simulating and rescheduling work on a loaded journey"
        )
        self.path = path


class UnknownSelection(WorkbenchError, LookupError):
    """`j.select` was given something that is not in the journey."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"nothing in this journey is {what}: {hint}")


class AmbiguousSelection(WorkbenchError, LookupError):
    """`j.select` was given a text that names several things."""

    def __init__(self, what: str, meanings: list[str]) -> None:
        super().__init__(f"{what!r} can mean {len(meanings)} things: {', '.join(meanings)}. Say which")
        self.meanings = tuple(meanings)


class FusionError(WorkbenchError, ValueError):
    """A user's choice of fusions names a rule or a node that is not there, or has another form."""


class ScheduleScriptError(WorkbenchError):
    """A user's transform script does not parse, or does not apply to its kernel."""

    def __init__(self, kernel: str, script: str, what: str, problems: tuple[Problem, ...]) -> None:
        self.kernel, self.script, self.problems = kernel, script, problems
        super().__init__(f"the schedule given for kernel {kernel!r} {what}:\n{_listed(problems, script)}")
