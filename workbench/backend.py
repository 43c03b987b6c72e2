"""`torch.compile(model, backend="npu", options={"machine": "tpu-v3"})`: found by its entry point.

Each graph of Dynamo's becomes a journey and runs natively through the journey's own scheduled kernels. If Dynamo breaks
a function up, there are several graphs, with plain Python between them. `wb.last_journeys()` returns their journeys.
PyTorch computes a graph that cannot be captured on the host, with a warning.

Dynamo passes parameters with every call, so each call uses their current values. Symbolic shapes and numbers are fixed
to their values in a call; a call with other values has a journey of its own.
"""

from __future__ import annotations

import importlib
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import torch
from torch.autograd import forward_ad

from workbench.capturing.live_call import CapturedProgram
from workbench.capturing.result_aliases import refuse_unwritable
from workbench.capturing.specialise import Specialised, floats, specialise
from workbench.environment.call_sites import is_torchs
from workbench.environment.turns import compiling
from workbench.errors import BadOption, HostRoute, InputMismatch, MappingError, SharedElements, WorkbenchError, not_yet
from workbench.host import host_steps
from workbench.journey import Journey
from workbench.options import CompileOptions, checked_compile_options
from workbench.running.run_program import NativeProgram
from workbench.verbs import of_graph

Tensors = tuple[torch.Tensor, ...]


class _Recent:
    """The journeys of the last compilation. This must be state: PyTorch calls us, and the user reads it later."""

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
    """The journeys of the last compilation by `torch.compile(backend="npu")`, one for each graph, in order."""
    return _RECENT.all()


def npu(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    options: CompileOptions | None = None,
    mode: str | None = None,
) -> Callable[..., object]:
    """torch.compile calls this for every graph; returns the callable that replaces it.

    An error in an option is raised at the first call: PyTorch would wrap an exception that is raised here.
    """
    reason = getattr(module, "compile_subgraph_reason", None)
    return _Compiled(module, options, mode, broken_off=bool(getattr(reason, "graph_break", False)))


class _Made(Protocol):
    """A graph for one kind of call."""

    def __call__(self, given: Sequence[object]) -> object: ...


_KINDS_OF_CALL: Final = 64
"""The number of kinds of call for which a graph keeps journeys; beyond it the least recently called one is dropped."""


class _Backends(dict[str, object]):
    """PyTorch's table of backends, safe for threads that first use `npu` at the same time.

    PyTorch looks for an entry point, loads it (this module) and registers its function, without a lock, and raises an
    error if another thread has registered the name meanwhile. So the table hides this backend, and PyTorch registers it
    again, which changes nothing. Another backend registered under the same name takes precedence.
    """

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) and self.get(cast(str, name)) is not npu


_REGISTRY: Final = cast(Any, importlib.import_module("torch._dynamo.backends.registry"))
_REGISTRY._COMPILER_FNS = _Backends(_REGISTRY._COMPILER_FNS)


class _Compiled:
    """A graph that runs natively. A call makes the journey with its tensors: before it, Dynamo has only shapes."""

    def __init__(self, module: torch.fx.GraphModule, options: object, mode: str | None, *, broken_off: bool) -> None:
        self._module, self._options, self._mode, self._broken_off = module, options, mode, broken_off
        self._made: OrderedDict[object, _Made] = OrderedDict()

    def __call__(self, *given: object) -> object:
        return self._for(given)(given)

    def _for(self, given: tuple[object, ...]) -> _Made:
        """The graph for this kind of call: made once, by the first caller."""
        key = self._kind(given)
        if (made := self._made.get(key)) is None:
            with compiling():
                made = self._made.get(key)
                if made is None:
                    made = self._made[key] = self._make(given)
                    if len(self._made) > _KINDS_OF_CALL:
                        self._made.popitem(last=False)
        with suppress(KeyError):  # another thread has just dropped it
            self._made.move_to_end(key)
        return made

    def _kind(self, given: Sequence[object]) -> object:
        """The key of a journey: the values of numbers, and of tensors all but their contents."""
        read = tuple(map(_word, floats(self._module, given).values()))
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        return (modes, read, *(_like(each) if isinstance(each, torch.Tensor) else _word(each) for each in given))

    def _make(self, given: tuple[object, ...]) -> _Made:
        options = checked_compile_options(self._options or {})
        if self._mode is not None:
            raise BadOption(
                f"torch.compile(backend='npu', mode={self._mode!r}): modes are Inductor's, and the NPU has none. "
                f"Choose with options={{...}}, which takes {', '.join(CompileOptions.__annotations__)}"
            )
        tensors = tuple(each for each in given if isinstance(each, torch.Tensor))
        names = [node.name for node in self._module.graph.find_nodes(op="placeholder")]
        try:
            special = specialise(self._module, given)
            journey = of_graph(special.module, tensors, options)
            program = journey.captured.program
        except _UNCAPTURED as error:
            if options.get("on_missing") == "error" or not _about_the_graph(error):
                raise
            return _on_host(self._module, error)
        assert program is not None, "a compiled journey holds its graph"
        if special.changed:
            of_tensors = [name for name, each in zip(names, given, strict=True) if isinstance(each, torch.Tensor)]
            raise _lost([of_tensors[place] for place in special.changed])
        if told := host_steps.warning_text(journey.lowered.record):
            warnings.warn(told, HostRoute, stacklevel=4)
        _RECENT.add(journey, broken_off=self._broken_off)
        may_host = options.get("on_missing") != "error"
        return _Native(self._module, special, program, journey.compiled(), may_host)


_UNCAPTURED: Final = (WorkbenchError, RuntimeError, TypeError, ValueError, AssertionError, LookupError, AttributeError)
"""The exceptions of a graph that PyTorch can run, but that cannot be walked through or exported."""


def _about_the_graph(error: Exception) -> bool:
    """Whether a graph cannot be captured; not an error in an option, nor a fault of ours."""
    if isinstance(error, WorkbenchError):
        return not isinstance(error, BadOption | MappingError)
    frames = traceback.extract_tb(error.__traceback__)
    return is_torchs(frames[-1].filename)


def _word(number: object) -> str:
    """Its text: 0.0 equals -0.0, 1 equals True, and NaN does not equal itself, but their texts tell them apart."""
    return repr(number)


def _like(tensor: torch.Tensor) -> tuple[object, ...]:
    if tensor.layout is not torch.strided:
        return tensor.shape, tensor.layout, tensor.dtype, tensor.requires_grad
    grows = tensor.requires_grad and tensor.is_leaf
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, grows


@dataclass(frozen=True)
class _Native:
    """A graph that runs through its journey's kernels."""

    module: torch.fx.GraphModule
    special: Specialised
    program: CapturedProgram
    native: NativeProgram
    may_host: bool

    def __call__(self, given: Sequence[object]) -> object:
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        try:
            values = self.program.values(tensors)
            refuse_unwritable(self.program.graph, values)
        except (SharedElements, InputMismatch) as error:  # the graph was captured for tensors that share no memory
            if not self.may_host:
                raise
            return _on_host(self.module, error)(given)
        _refuse_forward_mode(values)
        wanted = self.special.gradients
        if not any(wanted):
            made = self.native.run(values)
        else:
            of_leaves = [value for value in values if value.requires_grad] or [torch.zeros((), requires_grad=True)]
            with torch.enable_grad():
                made = cast(Tensors, cast(Any, _Forward).apply(lambda: self.native.run(values), wanted, *of_leaves))
        with torch.enable_grad():
            tensors = cast("Tensors", self.program.returned(values, made))
        return self.special.whole([_as_wanted(each, wants) for each, wants in zip(tensors, wanted, strict=True)])


def _as_wanted(result: torch.Tensor, wants: bool) -> torch.Tensor:
    """A view of an input has the input's gradients, unless PyTorch's own view would be detached from them."""
    return result.detach() if result.requires_grad and not wants else result


class _Forward(torch.autograd.Function):
    """Results that require gradients where PyTorch's do, so that a backward pass is an error instead of being lost."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[], list[torch.Tensor]], wanted: tuple[bool, ...], *_: torch.Tensor) -> Tensors:
        made = tuple(each.detach() for each in run())
        ctx.mark_non_differentiable(*(each for each, wants in zip(made, wanted, strict=True) if not wants))
        return made

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> None:
        raise not_yet("A backward pass through torch.compile(backend='npu')", "Forward passes work.")


def _lost(names: Sequence[str]) -> WorkbenchError:
    return not_yet(
        "A backward pass through torch.compile(backend='npu'), whose graph changes tensors in place here ("
        f"{', '.join(names)}),",
        "Call it under torch.no_grad(), or return the result instead of writing it into a tensor from outside.",
    )


def _refuse_forward_mode(values: Sequence[torch.Tensor]) -> None:
    """Refuses dual tensors: their tangents would be lost without an error."""
    level = cast("int", cast(Any, forward_ad)._current_level)
    if level >= 0 and any(cast(Any, forward_ad).unpack_dual(value).tangent is not None for value in values):
        raise not_yet("Forward-mode differentiation through torch.compile(backend='npu')", "Forward passes work.")


def _on_host(module: torch.fx.GraphModule, why: Exception) -> _Made:
    """The graph as PyTorch computes it, gradients included; warns once for each graph and reason."""
    reason = str(why).strip().partition("\n")[0]
    told = f"compiled: PyTorch computes this graph on the host as a whole, because it cannot be captured: {reason}"
    warnings.warn(told, HostRoute, stacklevel=5)
    return lambda given: cast("object", module(*given))
