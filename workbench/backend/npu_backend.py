"""The function that torch.compile calls for each graph, and the runs of each graph by kind of call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import torch

from workbench.backend.native_graph import CapturedGraph, Run, captured_graph, or_on_host
from workbench.backend.recent_journeys import RECENT
from workbench.backend.trained_graph import Trained
from workbench.capturing.graph_breaks import ended_by, in_words, told
from workbench.capturing.specialise import floats, specialise
from workbench.ground.environment.turns import compiling
from workbench.ground.errors import BadOption
from workbench.ground.torch_inside.autograd_inside import unseen_by_saving_hooks
from workbench.ground.torch_inside.dynamo_reading import registered_again_and_again
from workbench.ground.torch_inside.tensor_inside import memory_of
from workbench.stages.options import checked_compile_options, of_compile


def npu(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
) -> Callable[..., object]:
    """Returns the callable that replaces a graph; torch.compile calls this function for every graph.

    An error in an option is raised at the first call: PyTorch would wrap an exception that is raised here.
    """
    reason, origin = ended_by(module)
    return _Compiled(module, options, mode, broken_off=told(in_words(reason), *origin) if reason else "")


_KINDS_OF_CALL: Final = 64
"""The number of kinds of call for which a graph keeps journeys; beyond it the least recently called kind is dropped."""


registered_again_and_again(npu)


class _Compiled:
    """A graph that runs natively. The first call of a kind makes the journey with its tensors: before that, Dynamo has
    only shapes."""

    def __init__(self, module: torch.fx.GraphModule, options: object, mode: str | None, *, broken_off: str) -> None:
        self._module, self._options, self._mode, self._broken_off = module, options, mode, broken_off
        self._made: OrderedDict[object, Run] = OrderedDict()

    def __call__(self, *given: object) -> object:
        return self._for(given)(given)

    def _for(self, given: tuple[object, ...]) -> Run:
        """Returns the run for this kind of call, made once by the first caller."""
        key = self._kind(given)
        if (made := self._made.get(key)) is None:
            with compiling(), unseen_by_saving_hooks():
                made = self._made.get(key)
                if made is None:
                    made = self._made[key] = self._make(given)
                    if len(self._made) > _KINDS_OF_CALL:
                        self._made.popitem(last=False)
        with suppress(KeyError):  # another thread has just dropped it
            self._made.move_to_end(key)
        return made

    def _kind(self, given: Sequence[object]) -> object:
        """The key of a journey: the values of numbers, and all that describes tensors but their contents."""
        read = tuple(map(_word, floats(self._module, given).values()))
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        alike = (_like(each) if isinstance(each, torch.Tensor) else _word(each) for each in given)
        return (modes, read, _shared(given) if torch.is_grad_enabled() else (), *alike)

    def _make(self, given: tuple[object, ...]) -> Run:
        options = checked_compile_options(self._options or {})
        if self._mode is not None:
            raise BadOption(
                f"torch.compile(backend='npu', mode={self._mode!r}): modes are Inductor's, and the NPU has none. "
                f"Choose with options={{...}}, which takes {', '.join(of_compile())}"
            )
        return or_on_host(self._module, options, lambda: self._captured(given, options), self._finished)

    def _captured(self, given: Sequence[object], options: Mapping[str, Any]) -> CapturedGraph | Trained:
        special = specialise(self._module, given)
        if special.gradients:
            return Trained(special, given, options, self._broken_off)
        return captured_graph(self._module, special, given, options, broken_off=self._broken_off)

    def _finished(self, captured: CapturedGraph | Trained) -> Run:
        journey = captured.journey
        made = captured.made()
        RECENT.add(journey, broken_off=bool(self._broken_off))
        return made


def _word(number: object) -> str:
    """The text of a number. 0.0 equals -0.0, 1 equals True, and NaN does not equal itself, but their texts distinguish
    them."""
    return repr(number)


def _like(tensor: torch.Tensor) -> tuple[object, ...]:
    if tensor.layout is not torch.strided:
        return tensor.shape, tensor.layout, tensor.dtype, tensor.requires_grad
    grows = tensor.requires_grad and tensor.is_leaf
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, grows


def _shared(given: Sequence[object]) -> tuple[tuple[int, int], ...]:
    """The memory of each tensor and its place there, if some share memory; else nothing. A graph with gradients is made
    for tensors that overlap, or for tensors that do not."""
    tensors = [each for each in given if isinstance(each, torch.Tensor) and each.layout is torch.strided]
    memories = [memory_of(each) for each in tensors]
    places = [
        (memories.index(memory), int(each.storage_offset())) for memory, each in zip(memories, tensors, strict=True)
    ]
    return tuple(places) if len(set(memories)) < len(memories) else ()
