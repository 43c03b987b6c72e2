"""What can go wrong for a user: one class per mistake, each saying what, where, what was expected, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.errors import WorkbenchError as WorkbenchError

if TYPE_CHECKING:
    from workbench.ir import Bound


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


class KernelFault(WorkbenchError):
    """A kernel did in a worker process what would have taken this one down. Its subclasses say what."""

    happened = "went wrong"
    advice = ""

    def __init__(self, kernel: str, nodes: tuple[str, ...], stage: str, reason: str, said: str = "") -> None:
        listed = "".join(f"\n  {node}" for node in nodes)
        heard = "".join(f"\n    {line}" for line in said.splitlines()[:_HEARD_LINES])
        super().__init__(
            f"kernel {kernel} {self.happened} (stage: {stage}): {reason}. It was tried in a worker process; this"
            f" process is unharmed. Its nodes:{listed}{f'{chr(10)}  It said:{heard}' if heard else ''}\n{self.advice}"
        )
        self.kernel, self.nodes, self.stage, self.reason, self.said = kernel, nodes, stage, reason, said


_HEARD_LINES = 8
"""The beginning says why; the stack dump after it is for those who build the library."""


class KernelCrashed(KernelFault):
    """Importing, scheduling, compiling or running a kernel ends the process that does it."""

    happened = "ends the process that works on it"
    advice = (
        "If the kernel is yours (a builder, a template, a schedule), mend it; what is remembered of it is for this"
        " text alone. For an op that is not yours, write a builder (`workbench new-op`), or compute it on the host:"
        " leave it out of the traced function"
    )


class KernelHung(KernelFault):
    """A kernel does not come back."""

    happened = "does not come back"
    advice = (
        "If it only needs longer, set ATEN_WORKBENCH_WORKER_TIMEOUT to more seconds; otherwise look for a loop that"
        " has no end"
    )


class KernelOverran(KernelFault):
    """A kernel writes to memory that is not its own."""

    happened = "writes where it must not"
    advice = (
        "Offsets and sizes of every subview, load and store must stay within the extents, and no memref may be cast"
        " to a larger one"
    )


class WorkerUnavailable(WorkbenchError):
    """There is no process that could try what is not known to be safe."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the worker process, which tries kernels that are not known to be safe, is not available: {reason}. With"
            " ATEN_WORKBENCH_WORKER=off they are compiled and run in this process at once, which a fault in one of"
            " them would end"
        )


class UnsupportedContainer(WorkbenchError):
    """Inputs or results hold something that is no tensor, tuple, list, dict or plain constant."""


class InputMismatch(WorkbenchError):
    """The inputs do not fit the function, or do not fit the ones it was captured with."""


class NoTensorWork(WorkbenchError):
    """The function computes nothing with tensors, so there is nothing to compile."""


class GraphBreak(WorkbenchError):
    """The function cannot be captured as one graph, and not as several either."""

    def __init__(self, name: str, reason: str, place: str = "") -> None:
        where = f", at {place}" if place else ""
        super().__init__(
            f"{name} cannot be captured as one graph: {reason}{where}. With capture='dynamo' it becomes several, with "
            f"Python between them, if it computes something that can be captured, on tensors that hold numbers. "
            f"Otherwise keep prints, calls out of Python, and shapes and branches that depend on the data, out of it"
        )
        self.reason, self.place = reason, place


class CaptureFailed(WorkbenchError):
    """The function raised while it was being captured."""


class GradientsInside(WorkbenchError):
    """The function takes gradients itself."""

    def __init__(self, name: str, call: str, place: str) -> None:
        where = f", at {place}" if place else ""
        super().__init__(
            f"{name} takes gradients inside ({call}{where}), and what is traced is a forward pass, in which nothing "
            f"has any. Return what would be differentiated, and take gradients of PyTorch's own result outside; or "
            f"write the derivative out as operations on tensors"
        )


class ReshapedInput(WorkbenchError):
    """The function gives a tensor from outside another shape or other memory in place."""

    @staticmethod
    def by(name: str, call: str, place: str, what: str = "an input") -> ReshapedInput:
        """By a call like `t_`, where it is known."""
        by = f", by {call}" if call else ""
        where = f" at {place}" if place else ""
        return ReshapedInput(
            f"{name} gives {what} another shape or other memory in place{by}{where}. The tensors of a graph keep their "
            f"shape: use what returns a new one, as x.t() for x.t_()"
        )


class SharedElements(WorkbenchError):
    """The function changes a tensor in place several elements of which are one place in memory."""


class HiddenState(WorkbenchError):
    """The function replaces tensors it holds, in a way a graph cannot record."""


class EmptyReduction(WorkbenchError):
    """A maximum or minimum is asked of a tensor that has no elements."""


class MissingRoutes(WorkbenchError):
    """The graph has ops that nothing here knows how to make."""


class ReplayError(WorkbenchError):
    """A tile program cannot be replayed: an instruction has no meaning in numpy, or reaches outside its memory."""


class MappingError(WorkbenchError):
    """A user's mapping names something that is not there, or asks for what cannot be."""

    def __init__(self, kernel: str, reason: str) -> None:
        super().__init__(f"mapping of kernel {kernel!r}: {reason}")
        self.kernel = kernel


class TooManyInstructions(WorkbenchError):
    """A kernel's program would be so long that nobody could wait for it: told before it is made."""

    def __init__(
        self, kernel: str, count: int, most: int, op: str, runs: int, rounds: tuple[int, ...], scratchpad: int,
        variable: str,
    ) -> None:  # fmt: skip
        self.kernel, self.count, self.most = kernel, count, most
        loops = f", in loops of {' x '.join(f'{each:,}' for each in rounds)} rounds" if rounds else ""
        super().__init__(
            f"{kernel!r} would be a program of {count:,} instructions or more; programs up to {most:,} are read off. "
            f"Most of it is {op}, which would run {runs:,} times{loops}: so small are the tiles, with a scratchpad of "
            f"{scratchpad:,} bytes. Larger tiles in mapping=, a machine with a larger scratchpad, or smaller tensors "
            f"make it shorter. {variable} sets another limit; a million instructions take a minute or two, and GBs"
        )


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


class DataDecides(WorkbenchError):
    """A loop bound, an address or a branch of a kernel depends on data, so its tile program cannot be read off."""

    def __init__(self, kernel: str, line: int, op: str) -> None:
        super().__init__(
            f"kernel {kernel}, line {line}: a bound, an address or a branch depends on what {op} gives, which is only"
            f" known when the kernel runs. Loops and addresses must follow from loop variables and constants"
        )
        self.kernel, self.line = kernel, line


class NotAffine(WorkbenchError):
    """Unstaged accesses of a loop do not follow one another at a constant distance."""

    def __init__(self, kernel: str, line: int) -> None:
        super().__init__(
            f"kernel {kernel}, line {line}: the elements that this loop loads or stores do not lie at a constant"
            f" distance from one iteration to the next. Split the loop, or move the data through the scratchpad"
        )
        self.kernel, self.line = kernel, line


class UnknownOverload(WorkbenchError):
    """A name that is no overload of any operator."""


class BadRegistration(WorkbenchError):
    """Something was registered in a way that means nothing."""


class RegistrationClash(WorkbenchError):
    """Two owners claim the same overload on the same route."""


class TemplateSyntaxError(WorkbenchError):
    """A template's text cannot be rendered: it is no valid Jinja, or uses a name nobody gave."""

    def __init__(self, template: str, place: str, reason: str) -> None:
        super().__init__(f"template {template} at {place} cannot be rendered: {reason}")
        self.template, self.place = template, place


class TemplateOutputError(WorkbenchError):
    """A template renders something that is no kernel for its node."""

    def __init__(self, template: str, place: str, reason: str) -> None:
        super().__init__(f"template {template} at {place}: {reason}")
        self.template, self.place = template, place


class TemplateMlirError(WorkbenchError):
    """What a template renders is not valid MLIR, or leaves the scheduled form; every line is the template's own."""

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
            + "\nOffsets and sizes of every subview, load and store must stay within the extents, those of the last,"
            " ragged tile included"
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
    """A template's function does not take the arguments that the kernel ABI gives it."""

    def __init__(self, template: str, place: str, found: str, expected: str) -> None:
        super().__init__(
            f"template {template} at {place}: its function takes ({found}), but the kernel ABI gives it ({expected}):"
            f" inputs, then outputs, with the types of the tensors. Write {{{{ signature }}}} to get them right"
        )
        self.template, self.found, self.expected = template, found, expected


class BuilderError(WorkbenchError):
    """A registered builder did not make the node it was asked for."""


class BuilderFailed(BuilderError):
    """A builder raised an exception."""


class BuilderArgument(BuilderError, KeyError):
    """A builder asked its node for what it does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class BuilderResult(BuilderError, TypeError):
    """A builder returned something that is no MLIR value."""


class BuilderResultCount(BuilderError):
    """A builder returned more or fewer values than its node has results."""


class BuilderResultType(BuilderError, TypeError):
    """A builder returned a value of the wrong shape or element type."""


class BuilderInvalidMlir(BuilderError):
    """A builder made an op that breaks MLIR's rules."""


class RegistrationGone(WorkbenchError):
    """A lowered graph needs a registration that is not there any more."""


class CacheWarning(UserWarning):
    """What is made cannot be kept on disk; everything works, but is made anew each time."""


class TemplateHookUnused(WorkbenchError):
    """A template registered as taking pointwise neighbours does not say where on its tiles they go."""

    def __init__(self, template: str, place: str, tensor: str, output: str) -> None:
        call = "{{ epilogue(tile, type) }}" if tensor == output else f"{{{{ prologue('{tensor}', tile, type) }}}}"
        super().__init__(
            f"template {template} at {place} is registered with kind='tile', so pointwise neighbours share its kernel,"
            f" but its text never calls {call}. Call it after the tile of %{tensor} is"
            f" {'computed' if tensor == output else 'loaded'}, or register it with kind='opaque'"
        )
        self.template, self.tensor = template, tensor


class OpHasRoute(WorkbenchError):
    """A kernel is to be written for an op that has a registered one."""


class FileInTheWay(WorkbenchError):
    """A file that is to be written exists already."""


class ExecutorFailed(WorkbenchError):
    """A registered executor raised an exception."""


class ExecutorResult(WorkbenchError, TypeError):
    """A registered executor did not return a list of tensors, one for each result."""


class HostRoute(UserWarning):
    """Some ops run on the host, because nothing makes a kernel of them."""


class MissingFake(WorkbenchError):
    """An op cannot say the shape of its result without computing it."""


class NoData(WorkbenchError):
    """Numbers were asked of tensors on the meta device, which have none."""


class ConversionFailed(WorkbenchError):
    """A registered conversion raised an exception."""


class ConversionResult(WorkbenchError, TypeError):
    """A registered conversion did not return what stands for its node."""


class IndexOutOfRange(WorkbenchError, IndexError):
    """An index that a tensor holds lies outside of what it chooses from."""

    def __init__(self, bound: Bound, index: int) -> None:
        self.bound, self.index = bound, index
        below = f", where {bound.low} to -1 count from the end" if bound.low < 0 else ""
        super().__init__(
            f"{bound.node} at {bound.place}: its {bound.argument} ({bound.value}) hold {index}; expected {bound.low} "
            f"to {bound.high - 1}{below}. Give it indices in that range: a kernel is not launched with others"
        )
