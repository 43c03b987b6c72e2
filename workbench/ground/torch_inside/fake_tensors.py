"""Fake tensors: a shape, a type and strides without numbers, and the errors of ops that need numbers."""

from __future__ import annotations

from workbench.ground.torch_inside.needs import takes

with takes(
    "torch._subclasses.fake_tensor.FakeTensor",
    "torch._subclasses.fake_tensor.FakeTensorMode",
    use="Stand-ins without numbers, on which a graph is traced, and their class, by which one is told from a tensor.",
    instead="torch.device('meta') has tensors without numbers, but tells nothing of the device of the program",
):
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
    from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode

with takes(
    "torch._subclasses.fake_tensor.DataDependentOutputException",
    "torch._subclasses.fake_tensor.DynamicOutputShapeException",
    "torch._subclasses.fake_tensor.UnsupportedOperatorException",
    use="The errors of an op that needs numbers, of one whose shape depends on them, and of one without a fake.",
    instead="none: all three are a RuntimeError with a text",
):
    from torch._subclasses.fake_tensor import DataDependentOutputException as DataDependentOutputException
    from torch._subclasses.fake_tensor import DynamicOutputShapeException as DynamicOutputShapeException
    from torch._subclasses.fake_tensor import UnsupportedOperatorException as UnsupportedOperatorException
