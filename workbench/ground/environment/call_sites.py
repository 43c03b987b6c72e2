"""The place of a call in the user's code: from a stack trace to one file and line.

A notebook cell has a number instead of a file, and Python keeps its text for tracebacks.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
import os
import re
import sys
import traceback
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, cast

from workbench.ground.packages import folder

_HERE = str(Path(__file__).resolve().parents[2]) + os.sep
_SIMULATOR, _TEMPLATES = folder("simulator") + os.sep, folder("templates") + os.sep
_PYTHON = os.path.dirname(os.__file__) + os.sep
_KERNEL_FOLDER = "ipykernel_"
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')


def is_torchs(file: str) -> bool:
    """True if a file of code is PyTorch's; PyTorch need not be installed."""
    torch = sys.modules.get("torch")
    return torch is not None and file.startswith(os.path.dirname(str(torch.__file__)) + os.sep)


def is_pythons(file: str) -> bool:
    """True if a file of code is of Python's own library."""
    return file.startswith("<frozen ") or (file.startswith(_PYTHON) and f"{os.sep}site-packages{os.sep}" not in file)


def is_users(file: str) -> bool:
    """True if a file of code is neither PyTorch's, nor ours, nor Python's. A template is code that a user may write."""
    ours = file.startswith((_HERE, _SIMULATOR)) and not file.startswith(_TEMPLATES)
    return not (is_pythons(file) or ours or is_torchs(file))


Place = tuple[str | None, int | None]
"""File and line in the user's code; None for what is not known."""


def place_of(stack_trace: str | None) -> Place:
    """File and line of the innermost frame that is neither torch's nor ours; notebook cells as `In[n]`."""
    for file, line in reversed(_FRAME.findall(stack_trace or "")):
        if is_users(file):
            return cell_name(file), int(line)
    return None, None


def place_text(stack_trace: str | None) -> str:
    """The place of `place_of` as `file:line`; empty if there is none."""
    file, line = place_of(stack_trace)
    return f"{file}:{line}" if file else ""


def lines_inside(outermost: CodeType) -> list[str]:
    """The call stack inside a function, outermost first, as a traceback writes it, without reading sources."""
    frames = traceback.walk_stack(inspect.currentframe())
    inside = itertools.takewhile(lambda place: place[0].f_code is not outermost, frames)
    return traceback.format_list(list(reversed(traceback.StackSummary.extract(inside, lookup_lines=False))))


def called_from() -> Place:
    """The place where the user's code calls the workbench, directly or through PyTorch; none for a call from a
    shell."""
    for frame, line in traceback.walk_stack(inspect.currentframe()):
        file = frame.f_code.co_filename
        if file.startswith(os.path.join(_HERE, "commands", "cli")):
            break
        if is_users(file):
            return cell_name(file), line
    return None, None


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of PyTorch and the workbench, a hundred of which may lie between two of the
    user's.

    Frames of Python's library are dropped if PyTorch or the workbench calls them, and kept if the user's code does. A
    traceback without any of the user's code stays whole: the fault is PyTorch's or ours, and every frame may matter.
    """
    links: list[TracebackType] = []
    kept: list[TracebackType] = []
    called_by_user = False
    while trace is not None:
        links.append(trace)
        file = trace.tb_frame.f_code.co_filename
        users = is_users(file) and file != "<string>"  # PyTorch also runs generated code under this name
        called_by_user = users or (called_by_user and is_pythons(file))
        if called_by_user:
            kept.append(trace)
        trace = trace.tb_next
    made = None
    for link in reversed(kept or links):
        made = TracebackType(made, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return made


def cell_name(file: str) -> str:
    """`In[3]` for the temporary file of cell 3 in a notebook kernel; other files unchanged."""
    if _KERNEL_FOLDER not in file or (ipython := sys.modules.get("IPython")) is None:
        return file
    shell = cast(Any, ipython).get_ipython()
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return f"In[{cells[file]}]" if file in cells else file


def cell_with(text: str) -> tuple[str, int] | None:
    """The most recently run cell that has this text, and the number of its lines before the text."""
    if not text:
        return None
    for file, entry in reversed(list(cast("dict[str, Any]", linecache.cache).items())):
        if _KERNEL_FOLDER in file and len(entry) > 2:
            source = "".join(entry[2])
            found = source.find(text)
            if found >= 0:
                return file, source.count("\n", 0, found)
    return None
