"""Runs a graph of tensors natively through its journey, or by PyTorch on the host."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import torch
from torch.autograd import forward_ad

from workbench.capturing.live_call import CapturedProgram
from workbench.capturing.result_aliases import refuse_unwritable
from workbench.capturing.specialise import Specialised
from workbench.ground.environment.call_sites import called_from, is_torchs
from workbench.ground.errors import (
    BadOption,
    FusionError,
    HostRoute,
    InputMismatch,
    MappingError,
    MappingFileError,
    NoGradients,
    SharedElements,
    TunedTableError,
    WorkbenchError,
    not_yet,
)
from workbench.ground.torch_inside.functorch_layers import in_forward_mode
from workbench.ground.torch_inside.tensor_inside import is_view
from workbench.journey import Journey
from workbench.operators.host import host_steps
from workbench.running.run_program import NativeProgram
from workbench.stages.journey_request import GraphCall
from workbench.verbs import of_graph

Run = Callable[[Sequence[object]], object]
"""Runs a graph, for one kind of call."""


@dataclass(frozen=True)
class Native:
    """A graph that runs through its journey's kernels. Its results have no gradients."""

    module: torch.fx.GraphModule
    special: Specialised
    program: CapturedProgram
    native: NativeProgram
    may_host: bool

    def __call__(self, given: Sequence[object]) -> list[object]:
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        try:
            values = self.program.values(tensors)
            refuse_unwritable(self.program.graph, values)
        except (SharedElements, InputMismatch) as error:  # the graph was captured for tensors that share no memory
            if not self.may_host:
                raise
            return list(cast("Sequence[object]", on_host(self.module, error)(given)))
        refuse_forward_mode(values)
        with torch.no_grad():
            made = _with_memory_of_their_own(self.native.run(values), values)
            results = cast("Sequence[torch.Tensor]", self.program.returned(values, made))
        return self.special.whole(results)


def _with_memory_of_their_own(made: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the results as tensors that are no views, as PyTorch's are: autograd forbids changes in place of a view
    that a custom function returned."""
    own = {id(each): each for each in given}
    for each in made:
        if id(each) not in own:
            lies = each.storage_offset(), each.shape, each.stride()
            own[id(each)] = (
                each.new_empty(0).set_(each.untyped_storage(), *lies)
                if is_view(each) and not each.is_quantized
                else each
            )
    return [own[id(each)] for each in made]


@dataclass(frozen=True)
class CapturedGraph:
    """A graph, specialised to one kind of call, and its journey up to the capture."""

    module: torch.fx.GraphModule
    special: Specialised
    journey: Journey
    program: CapturedProgram
    may_host: bool

    def made(self) -> Native:
        """Runs all later stages and returns the graph with its kernels. Errors of these stages are raised, since the
        user can mend them."""
        if told := host_steps.warning_text(self.journey.lowered.record):
            _warn(told)
        return Native(self.module, self.special, self.program, self.journey.compiled(), self.may_host)


def captured_graph(
    module: torch.fx.GraphModule,
    special: Specialised,
    given: Sequence[object],
    options: Mapping[str, Any],
    part: str = "",
    saved: Sequence[int] = (),
    broken_off: str = "",
) -> CapturedGraph:
    """Captures the graph for such a call; for `part`, `saved` and `broken_off` see `GraphCall`."""
    call = GraphCall(special.module, part, tuple(saved), broken_off)
    journey = of_graph(call, tuple(each for each in given if isinstance(each, torch.Tensor)), options)
    program = journey.captured.program
    assert program is not None, "a compiled journey holds its graph"
    return CapturedGraph(module, special, journey, program, options.get("on_missing") != "error")


Captured = TypeVar("Captured")


def or_on_host(
    module: torch.fx.GraphModule,
    options: Mapping[str, Any],
    capture: Callable[[], Captured],
    finish: Callable[[Captured], Run],
) -> Run:
    """Captures and finishes a graph. If it cannot be captured and the options allow it, returns a function with which
    PyTorch computes the graph."""
    try:
        captured = capture()
    except _UNCAPTURED as error:
        if options.get("on_missing") == "error" or not _about_the_graph(error):
            raise
        return on_host(module, error)
    return finish(captured)


_UNCAPTURED: Final = (WorkbenchError, RuntimeError, TypeError, ValueError, AssertionError, LookupError, AttributeError)
"""The exceptions for a graph that PyTorch can run, but that cannot be walked through or exported."""


_OF_OPTIONS: Final = BadOption | FusionError | MappingError | MappingFileError | TunedTableError
"""Mistakes in an option, which a run on the host would not mend."""


def _about_the_graph(error: Exception) -> bool:
    """True if the error says that a graph cannot be captured; False for an error in an option, or a fault of ours.

    False for `NoGradients`, too: PyTorch's own run of such a graph has other gradients than eager PyTorch.
    """
    if isinstance(error, WorkbenchError):
        return not isinstance(error, _OF_OPTIONS | NoGradients)
    frames = traceback.extract_tb(error.__traceback__)
    return is_torchs(frames[-1].filename)


def refuse_forward_mode(values: Sequence[torch.Tensor]) -> None:
    """Refuses dual tensors: their tangents would be lost without an error."""
    if in_forward_mode() and any(cast(Any, forward_ad).unpack_dual(value).tangent is not None for value in values):
        raise not_yet("Forward-mode differentiation through torch.compile(backend='npu')", "Forward passes work.")


def on_host(module: torch.fx.GraphModule, why: Exception) -> Run:
    """Returns a function with which PyTorch computes the graph, gradients included; warns once for each graph and
    reason."""
    reason = str(why).strip().partition("\n")[0]
    if "dynamicLayerStack" in reason:  # an assertion of PyTorch's, in C++
        reason = "it is computed inside of a transform of torch.func (grad, jvp, vmap)"
    _warn(f"compiled: PyTorch computes this graph on the host as a whole, because it cannot be captured: {reason}")
    return lambda given: cast("object", module(*given))


def _warn(told: str) -> None:
    """Warns at the user's line: the number of PyTorch's frames between differs from call to call."""
    file, line = called_from()
    warnings.warn_explicit(told, HostRoute, file or "<unknown>", line or 0)
