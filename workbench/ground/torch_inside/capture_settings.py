"""PyTorch's settings and switches that change the graph it makes of a program."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import torch

from workbench.ground.torch_inside.needs import takes


@takes(
    "torch._dynamo.config",
    "torch._functorch.config",
    "torch._export.config",
    "torch.fx.experimental._config",
    "torch._dynamo.config._get_dict",
    "torch._dynamo.config._config",
    instead="none: torch.compiler.config has a few of these settings",
)
def changed_settings() -> list[list[tuple[str, object]]]:
    """Returns the settings of each module of the tracers' settings that are not PyTorch's own, by name."""
    import torch._dynamo as dynamo
    from torch._export import config as export_config
    from torch._functorch import config as functorch_config
    from torch.fx.experimental import _config as fx_config

    return [_changed(each) for each in (dynamo.config, functorch_config, export_config, fx_config)]


def _changed(config: Any) -> list[tuple[str, object]]:
    """The settings of one module that differ from PyTorch's own now; a setting that was put back does not."""
    given = cast("dict[str, object]", config._get_dict(skip_default=True))
    return [(name, value) for name, value in sorted(given.items()) if value != config._config[name].default]


@takes(
    "torch._C._get_mkldnn_enabled",
    "torch._C._get_flash_sdp_enabled",
    "torch._C._get_mem_efficient_sdp_enabled",
    "torch._C._get_math_sdp_enabled",
    instead="torch.backends.mkldnn.enabled and torch.backends.cuda.flash_sdp_enabled, which ask for a card first",
)
def kernel_switches() -> list[bool]:
    """Returns the switches of the kernels for attention, and of oneDNN."""
    c = cast(Any, torch)._C
    return [
        *(c._get_mkldnn_enabled(), c._get_flash_sdp_enabled(), c._get_mem_efficient_sdp_enabled()),
        c._get_math_sdp_enabled(),
    ]


@contextmanager
@takes(
    "torch._C._get_mkldnn_enabled",
    "torch._C._set_mkldnn_enabled",
    instead="torch.backends.mkldnn.flags, which warns of cards that are not there",
)
def without_onednn() -> Generator[None]:
    """Within the block PyTorch computes without oneDNN.

    It is used in turn (`workbench.ground.environment.turns`): all threads share the switch, and each use puts back the
    value that it found.
    """
    native = cast(Any, torch)._C
    before = native._get_mkldnn_enabled()
    native._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        native._set_mkldnn_enabled(before)


@takes(
    "torch._dynamo.config", "torch._dynamo.config.patch", instead="torch.compiler.config has a few of these settings"
)
def dynamo_settings(**settings: object) -> AbstractContextManager[object]:
    """Within the block Dynamo has these settings; only threads that have the turn read them."""
    import torch._dynamo as dynamo

    return cast(Any, dynamo.config).patch(**settings)


@takes("torch._dynamo.config.ignore_logging_functions", instead="none")
def methods_of_loggers_left_out() -> set[Any]:
    """Returns the methods of loggers whose calls Dynamo leaves out of a graph."""
    import torch._dynamo as dynamo

    return cast(Any, dynamo.config).ignore_logging_functions


@takes("torch._export.config.enable_auto_functionalized_v2_for_export", "torch._export.config.patch", instead="none")
def views_around_changes() -> AbstractContextManager[object]:
    """Within the block a program that is made functional has the views of tensors that an op changes as nodes around
    the call.

    PyTorch's newer way hides these views in the call's arguments.
    """
    from torch._export import config as export_config

    return cast(Any, export_config).patch(enable_auto_functionalized_v2_for_export=False)


DYNAMO_MARK = "_dynamo_static_input_type"
"""The attribute that Dynamo itself writes on a module's tensors. Its other marks are the user's wishes."""
DYNAMO_MARKS = "_dynamo"
"""The first letters of all attributes that Dynamo, or a user for Dynamo, writes on a tensor."""

(BUILT_IN_CLASS,) = takes(
    "torch._C._VariableFunctionsClass",
    use="The class in the qualified name of a function such as torch.add.",
    instead="none: the function names no module",
).names

(_ADD,) = takes(
    "torch._foreach_add",
    use="The first letters of PyTorch's functions of lists of tensors, which optimizers call.",
    instead="none; PyTorch documents these functions under this name",
).names
LISTS = _ADD.removesuffix("add")
"""The first letters of the names of PyTorch's functions of lists of tensors."""
