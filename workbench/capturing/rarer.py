"""Captures that most programs do not need, loaded late: of training steps, and of programs that are broken up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.capturing import by_training as by_training
    from workbench.capturing import graph_pieces as graph_pieces
    from workbench.capturing import run_pieces as run_pieces

__getattr__ = submodules("workbench.capturing", "by_training", "graph_pieces", "run_pieces")
