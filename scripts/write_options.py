"""Writes what follows from the fields of `Options`: signatures of verbs, and the page of docs.

`python scripts/write_options.py` writes; with `--check` it only fails where something differs.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.written_files import write_or_check  # noqa: E402
from workbench.stages.options import OPTIONS, Option, Options  # noqa: E402
from workbench.stages.pipeline import Stages  # noqa: E402

PAGE: Final = "docs/options.md"
_HEAD: Final = """# Options

`scripts/write_options.py` writes this page from the fields of `Options` (`workbench/stages/options.py`).
A file of `j.save` holds `machine` within its timeline, and the used entries of `tuned` as `mapping`. A new value of an
option repeats the stage in its row and all later ones; `machine` repeats lower as well if kernels or orders of axes
depend on it. The stages in order: {stages}.

| option | default | taken by | first stage that a new value repeats | in a file | flag of `workbench trace` | |
|---|---|---|---|---|---|---|
"""


class Verb(NamedTuple):
    """A function whose signature has the options of a verb."""

    file: str
    function: str
    takes: str
    parameter: Callable[[str, str, str], str]
    """The text of a parameter, of its name, its type and its default."""


def _with_default(name: str, kind: str, default: str) -> str:
    return f"{name}: {kind} = {default}"


def _kept_unless_given(name: str, kind: str, _: str) -> str:
    before, none = (kind.removesuffix(" | None"), " | None") if kind.endswith(" | None") else (kind, "")
    return f"{name}: {before} | _Keep{none} = KEEP"


VERBS: Final = (
    Verb("workbench/verbs.py", "trace", "trace", _with_default),
    Verb("workbench/verbs.py", "tune", "trace", _with_default),
    Verb("workbench/journey.py", "with_", "with_", _kept_unless_given),
)


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Each file that follows from the options, with the text that it should have."""
    for file in dict.fromkeys(verb.file for verb in VERBS):
        text = (root / file).read_text(encoding="utf-8")
        for verb in VERBS:
            text = with_options(text, verb) if verb.file == file else text
        yield root / file, text
    yield root / PAGE, page()


def with_options(text: str, verb: Verb) -> str:
    """The text of a file, with the options of a verb in the signature of its function, in place of those there."""
    functions = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef))
    (function,) = (each for each in functions if each.name == verb.function)
    lines = [each.lineno - 1 for each in function.args.kwonlyargs if each.arg in OPTIONS]
    if lines != list(range(lines[0], lines[-1] + 1)):
        raise SystemExit(f"{verb.file}: the options of {verb.function} do not stand in lines one below another")
    whole = text.splitlines(keepends=True)
    indent = " " * function.args.kwonlyargs[0].col_offset
    whole[lines[0] : lines[-1] + 1] = [f"{indent}{each},\n" for each in _parameters(verb)]
    return "".join(whole)


def _parameters(verb: Verb) -> Iterator[str]:
    for each in fields(Options):
        option = OPTIONS[each.name]
        if verb.takes in option.verbs:
            yield verb.parameter(each.name, option.given or str(each.type), _default(each.default))


def _default(default: object) -> str:
    """The text of a default; the machine, which a field cannot have as one, is named."""
    return '"tpu-v3"' if default is MISSING else '"' + default + '"' if isinstance(default, str) else repr(default)


def page() -> str:
    """The page of docs: a row an option."""
    rows = (" | ".join(_cells(each.name, OPTIONS[each.name], each.default)) for each in fields(Options))
    stages = dict.fromkeys(stage.name for stage in Stages.table if not stage.beside)
    return _HEAD.format(stages=", ".join(stages)) + "".join(f"| {row} |\n" for row in rows)


_VERBS: Final = {"trace": "`wb.trace`", "with_": "`j.with_`", "compile": "`torch.compile`"}


def _cells(name: str, option: Option, default: Any) -> Iterator[str]:
    stages = {stage.artefact: stage.name for stage in Stages.table}
    yield f"`{name}`"
    yield f"`{_default(default)}`"
    yield ", ".join(_VERBS[verb] for verb in option.verbs)
    yield stages[option.read_by]
    yield "yes" if option.kept else "no"
    yield f"`--{name.replace('_', '-')} {option.flag.replace('|', chr(92) + '|')}`" if option.flag else ""
    yield option.doc.replace("|", "\\|")


def main() -> int:
    return write_or_check(texts, "scripts/write_options.py")


if __name__ == "__main__":
    sys.exit(main())
