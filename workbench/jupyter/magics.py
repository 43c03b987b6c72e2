"""`%load_ext workbench`: cells with MLIR, a transform script or a template, with errors at the cell's own lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand
from IPython.display import HTML, display  # pyright: ignore[reportUnknownVariableType] - it has no types

from workbench.ground.basics import highlight, markup
from workbench.ground.errors import WorkbenchError
from workbench.ground.errors.schedule_errors import Problem
from workbench.jupyter import magic_completion
from workbench.jupyter.magic_words import Words, journey_named, words_of
from workbench.mlir.user_text import writable

if TYPE_CHECKING:
    from workbench.journey import Journey
    from workbench.jupyter.cell_mlir import MlirCell

R = TypeVar("R")

_FIRST_LINE: Final = 1
"""The number of a cell's lines for the magic itself: the text begins one line further down."""


def load(shell: Any) -> None:
    """Gives a session the magics and their completion."""
    magics = CellMagics(shell)
    shell.register_magic_function(magics.mlir, "cell", "mlir")
    shell.register_magic_function(magics.schedule, "line_cell", "schedule")
    shell.register_magic_function(magics.kernel, "cell", "kernel")
    magic_completion.install(shell)


def unload(shell: Any) -> None:
    """Removes the magics and their completion."""
    for kinds in shell.magics_manager.magics.values():
        for name in ("mlir", "schedule", "kernel"):
            kinds.pop(name, None)


def _with_plain_errors(magic: Callable[..., R]) -> Callable[..., R]:
    """Wraps a magic so that it prints the user's mistakes in a few lines, without our traceback."""

    @wraps(magic)
    def run(*args: Any, **kwargs: Any) -> R:
        try:
            return magic(*args, **kwargs)
        except WorkbenchError as error:
            raise UsageError(str(error)) from None

    return no_var_expand(run)  # braces and dollars belong to MLIR and Jinja here


class CellMagics:
    """The magics of one session."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    @_with_plain_errors
    def mlir(self, line: str, cell: str) -> MlirCell | None:
        """Parses and verifies a cell of MLIR, and shows it in colour.

            %%mlir [--pipeline PIPELINE] [--as NAME]

        PIPELINE are passes in mlir-opt's notation, "builtin.module(canonicalize,cse)" or only the inner part; the
        module is shown after them. Passes of the workbench and of `wb.mlir_pass` may be named too. They run in a worker
        process first, so that one that faults does not end the session. NAME is the variable that gets the module:
        `.text` is its text.
        """
        words = words_of("mlir", line, (), "pipeline", "as")
        from workbench.jupyter.cell_mlir import of_cell

        return self._kept(words, self._marked(cell, lambda: of_cell(cell, words.option("pipeline"))))

    @_with_plain_errors
    def schedule(self, line: str, cell: str | None = None) -> Journey | None:
        """Schedules a kernel with the transform script in the cell.

            %schedule JOURNEY KERNEL                  puts the current script into the next cell, to edit
            %%schedule JOURNEY KERNEL [--as NAME]     the journey with the cell's script

        KERNEL is a name of `j.scheduled.table`, or its number, `k0`. The script is tried in a worker process first. The
        answer is the journey that `JOURNEY.with_(schedule={KERNEL: ...})` makes; NAME is the variable that gets it.
        """
        words = words_of("schedule", line, ("JOURNEY", "KERNEL"), "as")
        from workbench.exploring.knobs.knob import kernel_of, scheduled_kernel

        j = journey_named(self._shell.user_ns, words[0])
        kernel = kernel_of(j, words[1])
        if cell is None:
            today = scheduled_kernel(j.scheduled.record, kernel).schedule
            if not today:
                raise UsageError(f"{kernel!r} is a template's kernel: it writes its loops itself and takes no script")
            self._shell.set_next_input(f"%%schedule {words[0]} {kernel}\n{today}\n")
            return None
        script = cell.rstrip("\n")
        given = j._request.schedule or {}  # pyright: ignore[reportPrivateUsage]

        def scheduled() -> Journey:
            made = j.with_(schedule={**given, kernel: script})
            _ = made.simulated
            return made

        made = self._marked(cell, scheduled)
        before, after = j.simulated.cycles, made.simulated.cycles
        print(f"{kernel}: {before:,} -> {after:,} cycles of the whole ({after - before:+,})")
        return self._kept(words, made)

    @_with_plain_errors
    def kernel(self, line: str, cell: str) -> Journey | None:
        """Registers the cell as the template of an operator: MLIR in the scheduled form, with Jinja.

            %%kernel OPERATOR [TENSORS ...] [--kind tile] [--like CLASS] [--as NAME]

        OPERATOR is `aten::frac` or an exact overload, `aten.frac.default`. TENSORS are its arguments for a trial, an
        expression each: `torch.randn(64, 64)`. Then the op is traced, scheduled, checked against PyTorch and simulated,
        and registered only if its kernel can be made; the answer is that journey. CLASS is a Template class of the
        session with the tiles, buffers and options of the text. See docs/adding-an-op.md.
        """
        words = words_of("kernel", line, ("OPERATOR",), "kind", "like", "as", more=True)
        from workbench.jupyter.cell_template import Cell

        given = [self._value(expression) for expression in words.rest]
        like = self._value(words.option("like")) if words.option("like") else None
        registered = Cell(words[0], cell, like, words.option("kind") or "opaque", self._cell, _FIRST_LINE)
        if not given:
            registered.register()
            print(f"{', '.join(registered.overloads)}: this cell makes it in all later traces")
            return None
        journey, right = registered.tried(given)
        answer = "as PyTorch" if right.ok else "NOT as PyTorch"
        print(f"{', '.join(registered.overloads)}: computes {answer}, in {journey.simulated.cycles:,} cycles")
        if not right.ok:
            print(right)
        return self._kept(words, journey)

    @property
    def _cell(self) -> str:
        """The running cell, by the number that its output will have."""
        return f"In[{self._shell.displayhook.prompt_count}]"

    def _value(self, expression: str) -> Any:
        """The value of an expression in the session."""
        try:
            return self._shell.ev(expression)
        except Exception as error:
            raise UsageError(f"{expression!r} raised {type(error).__name__}: {error}") from None

    def _kept(self, words: Words, made: R) -> R | None:
        """The answer for the cell to show; None if a variable gets it."""
        name = words.option("as")
        if not name:
            return made
        self._shell.push({name: made})
        return None

    def _marked(self, cell: str, work: Callable[[], R]) -> R:
        """Does the work; problems in lines of the cell are printed with the cell's own line numbers."""
        before = _FIRST_LINE
        try:
            return work()
        except WorkbenchError as error:
            found: tuple[object, ...] = getattr(error, "problems", ())
            problems = [each for each in found if isinstance(each, Problem)]
            lines = {each.line for each in problems if each.line is not None}
            if not lines:
                raise
            cell = writable(cell)
            first = 1 + before + len(cell) - len(cell.lstrip("\n"))
            marked = highlight.code(cell, first=first, selected={line + before for line in lines})
            display(HTML(markup.fragment(marked)))  # pyright: ignore[reportUnknownMemberType]
            source: list[str] = cell.splitlines()
            told = [
                f"  {self._cell}:{each.line + before}: {each.message}\n      {source[each.line - 1].strip()}"
                if each.line is not None and 0 < each.line <= len(source)
                else f"  {each.message}"
                for each in problems
            ]
            raise UsageError("\n".join([str(error).splitlines()[0], *told])) from None
