"""The tracer of training steps, and its error at a branch that depends on numbers."""

from __future__ import annotations

from workbench.ground.torch_inside.needs import takes

with takes(
    "torch.fx.experimental.proxy_tensor.make_fx",
    use="Traces a training step, which changes parameters and state, on fake tensors.",
    instead="torch.export takes no function that goes backward",
):
    from torch.fx.experimental.proxy_tensor import make_fx as make_fx

with takes(
    "torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode",
    use="The error of a branch that depends on numbers which a graph does not have.",
    instead="none: torch.export raises the same class",
):
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode as GuardOnDataDependentSymNode
