"""Where in the user's code something was called: stack traces down to one file and line."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback

from workbench.cells import cell_name

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')


def _outsiders() -> tuple[str, ...]:
    """What paths of code begin with that is not the user's: ours, and PyTorch's if it is there at all."""
    torch = sys.modules.get("torch")
    return (_HERE, os.path.dirname(str(torch.__file__)) + os.sep) if torch else (_HERE,)


Place = tuple[str | None, int | None]
"""File and line of the user's, where they are known."""


def place_of(stack_trace: str | None) -> Place:
    """File and line of the innermost frame that is neither torch's nor ours; notebook cells as `In[n]`."""
    outsiders = _outsiders()
    for file, line in reversed(_FRAME.findall(stack_trace or "")):
        if not file.startswith(outsiders):
            return cell_name(file), int(line)
    return None, None


def place_text(stack_trace: str | None) -> str:
    """The same as `file:line`; empty where there is none."""
    file, line = place_of(stack_trace)
    return f"{file}:{line}" if file else ""


def called_from() -> Place:
    """Where the user's code calls the workbench, or calls PyTorch and that us; nowhere, if a shell did."""
    outsiders = _outsiders()
    for frame, line in traceback.walk_stack(inspect.currentframe()):
        file = frame.f_code.co_filename
        if file.startswith(_HERE + "cli"):
            break
        if not file.startswith(outsiders):
            return cell_name(file), line
    return None, None
