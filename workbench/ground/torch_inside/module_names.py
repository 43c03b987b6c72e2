"""PyTorch's private modules as names: of loggers, of classes and of what is loaded ahead. PyTorch is not loaded."""

from __future__ import annotations

from workbench.ground.torch_inside.needs import takes

FIRST_LOADED = takes(
    "torch._dynamo.repro.after_dynamo",
    use="The module with which Dynamo is loaded whole, ahead of a first trace.",
    instead="none: torch.compile loads it at its first call",
).path

OPERATORS = takes(
    "torch._ops",
    use="The module of the classes of operators, by which one is known where PyTorch may not be loaded.",
    instead="none: the classes have no public name",
).path

BUILT_IN = takes(
    "torch._C",
    use="The module to which functions such as torch.add belong, which name none themselves.",
    instead="none: their __module__ is None",
).path

LOGS_OF_STACKS = takes(
    "torch._subclasses.fake_tensor",
    "torch._dynamo.variables.tensor",
    use="The loggers that print a stack for what becomes an error, or a warning, of the workbench's own.",
    instead="torch._logging.set_logs sets the level of all threads",
).paths
