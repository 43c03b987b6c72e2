"""Where in the user's code something was called: stack traces down to one file and line."""

from __future__ import annotations

import os
import re

import torch

from workbench.cells import cell_name

_TORCH = os.path.dirname(torch.__file__) + os.sep
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')


def place_of(stack_trace: str | None) -> tuple[str | None, int | None]:
    """File and line of the innermost frame that is neither torch's nor ours; notebook cells as `In[n]`."""
    for file, line in reversed(_FRAME.findall(stack_trace or "")):
        if not file.startswith((_TORCH, _HERE)):
            return cell_name(file), int(line)
    return None, None
