"""`torch.compile(model, backend="npu", options={"machine": "tpu-v3"})`: found by its entry point.

Each graph that Dynamo makes becomes a journey and runs natively through the journey's own scheduled kernels. Where
Dynamo breaks a function up there are several, with plain Python between them. `wb.last_journeys()` gives them.

Dynamo hands over parameters with every call, so they are read as they are at that moment. Shapes that it would keep
symbolic are fixed to what they are (`int(size)`), which Dynamo notes as a guard: another shape compiles another graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import torch

from workbench.errors import HostRoute, not_yet
from workbench.journey import Journey
from workbench.mlir.runtime import NativeProgram
from workbench.ops import host
from workbench.options import CompileOptions
from workbench.verbs import of_graph

Tensors = tuple[torch.Tensor, ...]


class _Recent:
    """The journeys of what was compiled last. It is state by its nature: PyTorch calls us, and the user asks later."""

    def __init__(self) -> None:
        self._journeys: list[Journey] = []
        self._broken_off = False

    def add(self, journey: Journey, *, broken_off: bool) -> None:
        """Adds the graph after a graph break to those before it; any other graph begins anew."""
        if not self._broken_off:
            self._journeys = []
        self._journeys.append(journey)
        self._broken_off = broken_off

    def all(self) -> tuple[Journey, ...]:
        return tuple(self._journeys)


_RECENT: Final = _Recent()


def last_journeys() -> tuple[Journey, ...]:
    """The journeys of what `torch.compile(backend="npu")` compiled last, one for each graph, in order."""
    return _RECENT.all()


def npu(
    module: torch.fx.GraphModule, example_inputs: Sequence[object], *, options: CompileOptions | None = None
) -> Callable[..., object]:
    """Called by torch.compile for every graph; gives back what runs in its place."""
    for given in example_inputs:
        _fix_shapes(given)
    reason = getattr(module, "compile_subgraph_reason", None)
    return _Compiled(module, options or {}, broken_off=bool(getattr(reason, "graph_break", False)))


class _Compiled:
    """A graph that runs natively. The journey is made with the first call's tensors: before, Dynamo has only shapes."""

    def __init__(self, module: torch.fx.GraphModule, options: CompileOptions, *, broken_off: bool) -> None:
        self._module, self._options, self._broken_off = module, options, broken_off
        self._made: tuple[Journey, NativeProgram] | None = None

    def __call__(self, *given: object) -> object:
        journey, native = self._made or self._make(given)
        program = journey.captured.program
        assert program is not None, "a compiled journey holds its graph"
        values = program.values(given)
        wants_gradients = torch.is_grad_enabled() and any(value.requires_grad for value in values)
        if wants_gradients and not journey.captured.record.mutations:
            return program.returned(values, cast(Tensors, cast(Any, _Forward).apply(native, *values)))
        return program.returned(values, native.run(values))

    def _make(self, given: tuple[object, ...]) -> tuple[Journey, NativeProgram]:
        journey = of_graph(self._module, given, self._options)
        if told := host.warning_text(journey.lowered.record):
            warnings.warn(told, HostRoute, stacklevel=3)
        self._made = journey, journey.compiled()
        _RECENT.add(journey, broken_off=self._broken_off)
        return self._made


class _Forward(torch.autograd.Function):
    """Results that know they came from inputs with gradients, so that asking for these is an error and not silence."""

    @staticmethod
    def forward(ctx: object, native: NativeProgram, *values: torch.Tensor) -> Tensors:
        return tuple(native.run([value.detach() for value in values]))

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> None:
        raise not_yet("A backward pass through torch.compile(backend='npu')", "Forward passes work.")


def _fix_shapes(given: object) -> None:
    """Takes every symbolic size for what it is now. Dynamo notes it, and compiles again when it changes."""
    if isinstance(given, torch.SymInt):
        int(given)
    elif isinstance(given, torch.Tensor):
        for size in (*given.shape, *given.stride(), given.storage_offset()):
            int(size)
