"""MLIR, passes, mappings and scripts: what can be wrong on the way to the scheduled form and its tile program."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.errors import WorkbenchError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a text, and the 1-based line it is on where that is known."""

    message: str
    line: int | None = None


_MOST_LETTERS = 400
"""Of a line that is shown with what is wrong in it."""


def _listed(problems: tuple[Problem, ...], text: str = "") -> str:
    """Problems one below the other, each with the line of `text` it is about."""
    source = text.splitlines()
    rows: list[str] = []
    for problem in problems:
        place = f"line {problem.line}: " if problem.line is not None else ""
        rows.append(f"  {place}{problem.message}")
        if problem.line is not None and 0 < problem.line <= len(source):
            rows.append(f"      {_short(source[problem.line - 1].strip())}")
    return "\n".join(rows)


def _short(line: str) -> str:
    return line if len(line) <= _MOST_LETTERS else f"{line[:_MOST_LETTERS]}..."


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


class MappingError(WorkbenchError):
    """A user's mapping names something that is not there, or asks for what cannot be."""

    def __init__(self, kernel: str, reason: str) -> None:
        super().__init__(f"mapping of kernel {kernel!r}: {reason}")
        self.kernel = kernel


class MappingOrder(WorkbenchError):
    """A mapping walks a parallel dim inside a reduced one."""

    def __init__(self, kernel: str, order: tuple[str, ...], reduced: tuple[str, ...], late: tuple[str, ...]) -> None:
        super().__init__(
            f"mapping of kernel {kernel}: order {', '.join(order)} walks {', '.join(late)} inside a loop over a reduced"
            f" dim ({', '.join(reduced)}). A tile's accumulator stays in the scratchpad until its reduction is"
            f" finished, so reduced dims come last: move {', '.join(late)} to the front, or leave its tile out"
        )
        self.kernel, self.order, self.reduced = kernel, order, reduced


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
