"""Writes the list of calls from `wb.trace` to a bar on the timeline into docs/design/the-way-of-an-op.md.

Each call is looked up in the source: the function must be there, call the next one by the name that it was imported by,
and that import must lead to the next one's file. `--check` writes nothing, and fails where a line has moved.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
PAGE: Final = "docs/design/the-way-of-an-op.md"
BEGIN, END = "<!-- calls: scripts/way_of_an_op.py -->\n", "<!-- end of calls -->\n"
MOST_FILES: Final = 12


@dataclass(frozen=True)
class Call:
    """A function, and one that it calls: `written` in its body, `to` in the file where that name leads."""

    file: str
    function: str
    written: str
    to: tuple[str, str]


_PIPELINE, _ENGINE, _LOOP = (
    "workbench/stages/pipeline.py",
    "simulator/engine/engine.py",
    "simulator/engine/event_loop.py",
)
_KERNEL, _VIEW = "workbench/scheduling/schedule_kernel.py", "workbench/explaining/views/timelines/timeline.py"

WAY: Final = (
    Call("workbench/verbs.py", "trace", "made.captured", (_PIPELINE, "captured")),
    Call(_PIPELINE, "captured", "capture", ("workbench/capturing/capture.py", "capture")),
    Call(_PIPELINE, "grouped", "lower", ("workbench/lowering/lower.py", "lower")),
    Call(_PIPELINE, "imported", "render", ("workbench/rendering/render.py", "render")),
    Call(_PIPELINE, "tiled", "schedule", ("workbench/scheduling/schedule.py", "schedule")),
    Call("workbench/scheduling/schedule.py", "_made", "schedule_kernel", (_KERNEL, "schedule_kernel")),
    Call(_KERNEL, "_read_off", "extract", ("workbench/scheduling/extraction/extract.py", "extract")),
    Call(_PIPELINE, "simulated", "simulate", (_ENGINE, "simulate")),
    Call(_ENGINE, "simulate", "run", (_LOOP, "run")),
    Call(_LOOP, "run", "_loop", (_LOOP, "_loop")),
    Call("workbench/explaining/artefacts/simulated.py", "gantt", "timeline.gantt_of", (_VIEW, "gantt_of")),
)


class Moved(Exception):
    """The source does not have a call of the way."""


def _tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def _functions(file: str, name: str) -> list[ast.FunctionDef]:
    """The functions and methods of this name, in order."""
    return [each for each in ast.walk(_tree(file)) if isinstance(each, ast.FunctionDef) and each.name == name]


def _line_of_call(call: Call) -> int:
    """The line where the function names what it calls; a name also counts that is handed on to be called."""
    for function in _functions(call.file, call.function):
        for each in ast.walk(function):
            if isinstance(each, ast.Name | ast.Attribute) and ast.unparse(each) == call.written:
                return each.lineno
    raise Moved(f"{call.file}: {call.function} does not call {call.written}")


def _leads_to(call: Call) -> str:
    """The file to which the name leads that the function calls, by an import of its file."""
    first, _, rest = call.written.partition(".")
    for each in ast.walk(_tree(call.file)):
        if isinstance(each, ast.ImportFrom) and each.module:
            for name in each.names:
                if (name.asname or name.name) == first:
                    module = f"{each.module}.{name.name}" if rest else each.module
                    return f"{module.replace('.', '/')}.py"
    return call.file


def lines() -> Iterator[tuple[Call, int, int]]:
    """The calls, each with its line and the line of the function that it calls."""
    for call in WAY:
        file, name = call.to
        at, targets = _line_of_call(call), _functions(file, name)
        if not targets:
            raise Moved(f"{file} has no function {name}")
        if call.written != "made.captured" and _leads_to(call) != file:  # `made` is a `Stages`, by its annotation
            raise Moved(f"{call.file}: {call.written} leads to {_leads_to(call)}, not to {file}")
        yield call, at, targets[-1].lineno


def files() -> list[str]:
    """The files on the way, each once."""
    return list(dict.fromkeys(file for call in WAY for file in (call.file, call.to[0])))


def table() -> str:
    """The calls as a table, with links to the files."""
    rows = [
        f"| {_link(call.file, at)} | `{call.function}` calls `{call.written}` | {_link(call.to[0], line)} |\n"
        for call, at, line in lines()
    ]
    return f"{len(files())} files:\n\n| from | | to |\n|---|---|---|\n{''.join(rows)}\n"


def _link(file: str, line: int) -> str:
    return f"[{file}:{line}](../../{file})"


def page(text: str) -> str:
    """The page with the table of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise Moved(f"{PAGE} has no place for the calls")
    return f"{before}{BEGIN}\n{table()}{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where a line has moved")
    check, path = parser.parse_args().check, ROOT / PAGE
    text = path.read_text(encoding="utf-8")
    try:
        now = page(text)
    except Moved as moved:
        print(f"{moved}; mend WAY in scripts/way_of_an_op.py")
        return 1
    if len(files()) > MOST_FILES:
        print(f"the way has {len(files())} files, at most {MOST_FILES} are allowed")
        return 1
    if now != text and not check:
        path.write_text(now, encoding="utf-8")
    print(f"{len(files())} files{': lines moved, run scripts/way_of_an_op.py' if check and now != text else ''}")
    return int(check and now != text)


if __name__ == "__main__":
    sys.exit(main())
