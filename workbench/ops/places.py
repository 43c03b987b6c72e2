"""Where in the user's code something was called: stack traces down to one file and line."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, cast

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')


def place_of(stack_trace: str | None) -> tuple[str | None, int | None]:
    """File and line of the innermost frame that is neither torch's nor ours; notebook cells as `In[n]`."""
    for file, line in reversed(_FRAME.findall(stack_trace or "")):
        if not file.startswith((_TORCH, _HERE)):
            return cell_name(file), int(line)
    return None, None


def cell_name(file: str) -> str:
    """`In[3]` for the temporary file that a notebook kernel keeps cell 3 in, any other file as it is."""
    if "ipykernel_" not in file or (ipython := sys.modules.get("IPython")) is None:
        return file
    shell = cast(Any, ipython).get_ipython()
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return f"In[{cells[file]}]" if file in cells else file
