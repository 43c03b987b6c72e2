"""Changes in place become values; no op is taken apart."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.export import ExportedProgram

from workbench import errors
from workbench.ops.aliases import itself
from workbench.ops.places import place_text


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
            raise errors.ReshapedInput.by(name, str(node.target), place_text(node.meta.get("stack_trace")))
