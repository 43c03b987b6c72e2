"""Dynamo's names of inputs and modules, as the user's program has them.

`fn` is its name for a module that has no code of its own, `L` and `G` are for local and global variables.
"""

from __future__ import annotations

import re


def input_as_written(placeholder: str) -> str:
    """`fc1.weight` for `L_self_modules_fc1_parameters_weight_`, `x` for `L_x_`."""
    path = re.sub(r"^[LG]_(self_|fn_(?=(modules|parameters|buffers)_))?", "", placeholder).strip("_")
    return re.sub(r"(^|_)(modules|parameters|buffers)_", lambda found: "." if found.group(1) else "", path)


def module_as_written(source: str) -> str:
    """`layers.3` for `L['self'].layers.3`, `model.layers.3` for `G['model'].layers.3`."""
    found = re.match(r"[LG]\['(\w+)'\]\.?", source)
    if not found:
        return source
    first, rest = found.group(1), source[found.end() :]
    return rest if first in ("self", "fn") else f"{first}.{rest}".rstrip(".")
