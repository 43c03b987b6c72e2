"""`torch.compile(model, backend="npu")`: found by its entry point, and for now a clear refusal."""

from __future__ import annotations

from workbench.errors import not_yet


def npu(graph_module: object, example_inputs: object, **options: object) -> None:
    """Called by torch.compile for every graph."""
    raise not_yet('torch.compile(backend="npu")', "Use wb.trace(model, *inputs) and its run and check.")
