"""Changes in place become values; no op is taken apart."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.export import ExportedProgram

from workbench import errors
from workbench.ops.aliases import itself
from workbench.ops.places import place_of


def functional(name: str, exported: ExportedProgram) -> ExportedProgram:
    """The same program without changes in place; those that remain are listed as mutations of its inputs."""
    _refuse_reshaped(name, exported)
    return cast(Any, exported).run_decompositions({})


def _refuse_reshaped(name: str, exported: ExportedProgram) -> None:
    for node in exported.graph.nodes:
        if torch.Tag.inplace_view not in getattr(node.target, "tags", ()) or not node.args:
            continue
        changed = node.args[0]
        if isinstance(changed, torch.fx.Node) and itself(changed).op == "placeholder":
            file, line = place_of(node.meta.get("stack_trace"))
            raise errors.ReshapedInput(
                f"{name} gives an input another shape or other memory in place, by {node.target} at {file}:{line}. The "
                f"tensors of a graph keep their shape: use what returns a new one, as x.t() for x.t_()"
            )
