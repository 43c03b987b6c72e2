"""The user's names of the tensors that kernels work on."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.ir import KernelGraph


def user_names(lowered: KernelGraph) -> Mapping[str, str]:
    """Value -> how the user would write it if it is given from outside, else what the graph calls it.

    A view goes by the tensor it looks into.
    """
    paths = {given.value: given.path for given in lowered.captured.inputs}
    base = lowered.bases
    return {value: paths.get(base.get(value, value), base.get(value, value)) for value in lowered.types}
