"""Errors of MLIR, passes, mappings and scripts, up to the scheduled form and its tile program."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ground.errors.workbench_error import WorkbenchError


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a text, and its 1-based line where that is known."""

    message: str
    line: int | None = None


_MOST_LETTERS = 400
"""The most letters of a line that is shown with its error."""


def _listed(problems: tuple[Problem, ...], text: str = "") -> str:
    """Problems one below the other, each with its line of `text`."""
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
    """A module is not in the scheduled form, from which the JIT and the tile program are read."""

    def __init__(self, name: str, text: str, problems: tuple[Problem, ...]) -> None:
        self.name, self.text, self.problems = name, text, problems
        count = f"{len(problems)} violation" + ("s" if len(problems) != 1 else "")
        super().__init__(f"{name} is not in the scheduled form ({count}):\n{_listed(problems, text)}")


class MappingError(WorkbenchError):
    """A user's mapping names something unknown, or has an impossible value."""

    def __init__(self, kernel: str, reason: str, key: str = "") -> None:
        super().__init__(f"mapping of kernel {kernel!r}: {reason}")
        self.kernel = kernel
        self.key = key
        """The wrong part of the mapping: tile, order, buffers or cores; empty if another part is wrong."""


class MappingFileError(WorkbenchError):
    """A file of mappings cannot be read, or has an entry that is no mapping."""


class TunedTableError(WorkbenchError):
    """A table of tuned mappings cannot be read, or is of another version."""


class ScheduleScriptError(WorkbenchError):
    """A user's transform script does not parse, or does not apply to its kernel."""

    def __init__(self, kernel: str, script: str, what: str, problems: tuple[Problem, ...]) -> None:
        self.kernel, self.script, self.problems = kernel, script, problems
        super().__init__(f"the schedule given for kernel {kernel!r} {what}:\n{_listed(problems, script)}")


class DataDecides(WorkbenchError):
    """A loop bound, an address or a branch of a kernel depends on data, so its tile program is not known before a
    run."""

    def __init__(self, kernel: str, line: int, op: str) -> None:
        super().__init__(
            f"kernel {kernel}, line {line}: a bound, an address or a branch depends on the result of {op}, which "
            "is only known when the kernel runs. Loops and addresses must depend only on loop variables and "
            "constants"
        )
        self.kernel, self.line = kernel, line


class NotAffine(WorkbenchError):
    """Unstaged accesses of a loop are not at a constant distance from one iteration to the next."""

    def __init__(self, kernel: str, line: int) -> None:
        super().__init__(
            f"kernel {kernel}, line {line}: the distance between the elements that this loop loads or stores in "
            "one iteration and the next is not constant. Split the loop, or move the data through the scratchpad"
        )
        self.kernel, self.line = kernel, line


class TooManyInstructions(WorkbenchError):
    """A kernel's program would be too long; the error is raised before the program is made."""

    def __init__(
        self, kernel: str, count: int, most: int, op: str, runs: int, rounds: tuple[int, ...], scratchpad: int,
        variable: str,
    ) -> None:  # fmt: skip
        self.kernel, self.count, self.most = kernel, count, most
        loops = f", in loops of {' x '.join(f'{each:,}' for each in rounds)} rounds" if rounds else ""
        super().__init__(
            f"{kernel!r} would be a program of {count:,} instructions or more; the most is {most:,}. Most of it "
            f"is {op}, which would run {runs:,} times{loops}. The tiles are small, to fit a scratchpad of "
            f"{scratchpad:,} bytes. Larger tiles in mapping=, a machine with a larger scratchpad, or smaller "
            f"tensors make it shorter. {variable} sets another limit; a million instructions take a minute or "
            "two, and gigabytes of memory"
        )
