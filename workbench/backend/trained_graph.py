"""A graph with gradients: PyTorch's AOTAutograd makes a forward and a backward graph of it, each with its journey.

AOTAutograd calls both graphs from an autograd function. PyTorch itself handles saved tensors, views and changes in
place, with its own errors. The tensors that the backward pass reads are kept as in eager PyTorch; nothing is computed
twice unless `torch.utils.checkpoint` asks for it.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, cast

import torch
from torch import fx
from typing_extensions import TypeIs

from workbench.backend.given_gradients import Needs, needs_of, watch_backward
from workbench.backend.native_graph import CapturedGraph, Run, captured_graph, on_host, or_on_host, refuse_forward_mode
from workbench.backend.recent_journeys import RECENT
from workbench.capturing.by_training import taken_apart, tidied
from workbench.capturing.specialise import Specialised, specialise
from workbench.ground.environment.turns import compiling
from workbench.ground.errors import CaptureFailed, NoGradients
from workbench.ground.torch_inside.aot_autograd import (
    Boxed,
    boxed,
    descriptors,
    draws_again,
    nothing_donated,
    parted,
    with_gradients,
)
from workbench.ground.torch_inside.autograd_inside import saved_by_hooks, unseen_by_saving_hooks
from workbench.ground.torch_inside.fake_tensors import FakeTensorMode
from workbench.ground.torch_inside.functorch_layers import is_batch_of_gradients
from workbench.ground.torch_inside.tensor_inside import memory_of, version_kept
from workbench.ground.torch_inside.torch_export import exporting_here_alone
from workbench.ir import BACKWARD, FORWARD
from workbench.journey import Journey


class Trained:
    """A graph whose results require gradients, for one kind of call."""

    def __init__(
        self, special: Specialised, given: Sequence[object], options: Mapping[str, Any], broken_off: str = ""
    ) -> None:
        """Captures the forward pass; the backward pass is captured when it is first run."""
        self._special, self._options, self._broken_off = special, options, broken_off
        self._graphs: dict[str, fx.GraphModule] = {}
        self._made: dict[str, Run] = {}
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        self._called = self._by_autograd(tensors)
        part = FORWARD if FORWARD in self._graphs else _UNTRAINED
        placeholders = self._graphs[part].graph.find_nodes(op="placeholder")
        inputs = [self._source(node.meta.get("desc"), tensors) for node in placeholders]
        self._part, self._first = part, self._captured(part, inputs)

    @property
    def journey(self) -> Journey:
        """The journey of the forward pass."""
        assert self._first is not None, "it is kept until it is made"
        return self._first.journey

    def made(self) -> Trained:
        """Compiles the forward pass and returns the graph; from now on only the user keeps the journey."""
        assert self._first is not None, "it is made once"
        self._forward = weakref.ref(self.journey)
        with _cast_already():
            self._made[self._part] = self._first.made()
        self._first = None
        return self

    def __call__(self, given: Sequence[object]) -> list[object]:
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        refuse_forward_mode(tensors)
        before = [each.grad_fn for each in tensors]
        results = self._called(*tensors)
        if FORWARD in self._graphs:
            watch_backward(results, tensors, before, lambda: self._needs)
        return self._special.whole(results)

    @cached_property
    def _needs(self) -> Needs:
        return needs_of(self._graphs[FORWARD], self._graphs[BACKWARD])

    def _by_autograd(self, tensors: Sequence[torch.Tensor]) -> Callable[..., Sequence[torch.Tensor]]:
        """Returns the function with gradients, which calls the graphs of its parts."""

        def compiler(part: str) -> Callable[[fx.GraphModule, object], Boxed]:
            def compiled(graph: fx.GraphModule, _: object) -> Boxed:
                self._graphs[part] = _in_part(graph, part, names)
                return _boxed(lambda given: self._run(part, given))

            return compiled

        names = [str(node.target) for node in self._special.module.graph.find_nodes(op="placeholder")]  # Dynamo's
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        fakes = [mode.from_tensor(each) for each in tensors]
        with exporting_here_alone(), taken_apart(), nothing_donated():
            return with_gradients(
                self._special.module,
                fakes,
                forward=compiler(FORWARD),
                backward=compiler(BACKWARD),
                untrained=compiler(_UNTRAINED),
                partition=_parted,
            )

    def _source(self, described: object, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """The tensor that AOTAutograd gives the forward graph for an input with this description."""
        if isinstance(described, descriptors.PlainAOTInput):
            return tensors[described.idx]
        if isinstance(described, descriptors.ParamAOTInput | descriptors.BufferAOTInput):
            return cast("torch.Tensor", operator.attrgetter(described.target)(self._special.module))
        raise CaptureFailed("it changes a tensor in place that shares its memory with another, and has gradients")

    def _run(self, part: str, given: tuple[object, ...]) -> object:
        if part == BACKWARD and any(map(is_batch_of_gradients, given)):
            return self._batched(given)
        if part not in self._made:
            with compiling(), unseen_by_saving_hooks():
                if part not in self._made:
                    capture = partial(self._captured, part, given)
                    self._made[part] = or_on_host(self._graphs[part], self._options, capture, self._finished)
        results = cast("Sequence[object]", self._made[part](given))
        if part == BACKWARD:  # gradients are changed in place, by accumulation and by whoever clips them
            return apart(results, range(len(results)), given)
        if part != FORWARD:
            return results
        if saved_by_hooks():
            self._write_back(given, results)
        return apart(results, _kept(self._graphs[part]))

    def _write_back(self, given: Sequence[object], results: Sequence[object]) -> None:
        """Writes changes in place into the inputs, before AOTAutograd writes the same numbers. A checkpoint ends its
        second call as soon as it has its tensors, so AOTAutograd may not come to write them."""
        graph = self._graphs[FORWARD]
        order = {node: place for place, node in enumerate(graph.graph.find_nodes(op="placeholder"))}
        for place, node in _changed(graph).items():
            old, new = given[order[node]], results[place]
            if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor) and not old.requires_grad:
                with torch.no_grad(), version_kept(old):
                    old.copy_(new)

    def _batched(self, given: tuple[object, ...]) -> object:
        """Runs the backward pass of a batch of gradients on the host: only PyTorch knows the memory of such a batch."""
        if self._options.get("on_missing") == "error":
            raise NoGradients(
                "a batch of gradients (is_grads_batched=True, or jacobian with vectorize=True), except on the host",
                'Give them one by one, or leave out options={"on_missing": "error"}',
            )
        why = CaptureFailed("its gradients are a batch (is_grads_batched=True, or jacobian with vectorize=True)")
        return on_host(self._graphs[BACKWARD], why)(given)

    def _finished(self, backward: CapturedGraph) -> Run:
        with _cast_already():
            made = backward.made()
        RECENT.add_backward(backward.journey, self._forward())
        return made

    def _captured(self, part: str, given: Sequence[object]) -> CapturedGraph:
        """Captures a part of the graph."""
        graph = self._graphs[part]
        with torch.no_grad(), _cast_already():
            special = specialise(graph, given)
            broken_off = "" if part == BACKWARD else self._broken_off
            return captured_graph(graph, special, given, self._options, part, _saved(graph, special, part), broken_off)


def _cast_already() -> torch.autocast:
    """Switches autocast off: its casts are already among the nodes of both parts."""
    return torch.autocast("cpu", enabled=False)


_UNTRAINED = ""
"""The part of all nodes if it turns out that no result has gradients, except a result that is an input."""


def _boxed(run: Callable[[tuple[object, ...]], object]) -> Boxed:
    """Returns a function that takes its arguments as a list and empties the list, so that the caller does not keep
    them."""

    def called(arguments: list[object]) -> object:
        given = tuple(arguments)
        arguments.clear()
        return run(given)

    return cast("Boxed", cast(Any, torch.compiler).disable(boxed(called)))


def _parted(joint: fx.GraphModule, *inputs: Any, **options: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Splits a joint graph into the forward and the backward graph; a detached tensor is kept once, together with the
    tensor that it is detached from."""
    if draws_again(joint):
        raise NoGradients(
            "gradients of random numbers, such as dropout's, inside of torch.utils.checkpoint, which draws them again",
            "Keep them out of what is checkpointed, or leave the checkpoint to PyTorch: torch.compiler.disable",
        )
    forward, backward = parted(tidied(joint), *inputs, **options)
    return _keeping_copies(forward), backward


def _keeping_copies(forward: fx.GraphModule) -> fx.GraphModule:
    """Lets the forward graph keep a copy of each input that it changes in place, with the old numbers: what a
    checkpoint computes again begins with those."""
    changed = set(_changed(forward).values())
    (results,) = cast("tuple[Sequence[object]]", forward.graph.output_node().args)
    made, first = list(results), len(results) - len(_kept(forward))
    with forward.graph.inserting_before(forward.graph.output_node()):
        for place in range(first, len(made)):
            node = made[place]
            if isinstance(node, fx.Node) and node in changed:
                copy = forward.graph.call_function(torch.ops.aten.clone.default, (node,))
                copy.meta = dict(node.meta)
                made[place] = copy
    forward.graph.output_node().args = cast(Any, (tuple(made),))
    forward.recompile()
    return forward


def _changed(forward: fx.GraphModule) -> dict[int, fx.Node]:
    """For each result that is the new value of an input: the result's place, and the input."""
    inputs = {node.meta.get("desc"): node for node in forward.graph.find_nodes(op="placeholder")}
    described = cast("Sequence[object]", forward.graph.output_node().meta.get("desc") or ())
    return {
        place: inputs[each.mutated_input]
        for place, each in enumerate(described)
        if isinstance(each, descriptors.InputMutationAOTOutput) and each.mutated_input in inputs
    }


def _in_part(graph: fx.GraphModule, part: str, names: Sequence[str]) -> fx.GraphModule:
    """Returns the graph with the part and the module of each node, and with input names that point into the user's
    program.

    The backward graph begins with all nodes of the forward graph; those that no checkpoint computes again are removed.
    """
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            node.target = _name(node, names)
        elif part:
            node.meta["custom"] = {**(node.meta.get("custom") or {}), "part": part}
            node.meta["nn_module_stack"] = node.meta.get("fwd_nn_module_stack") or node.meta.get("nn_module_stack")
    for node in reversed(graph.graph.nodes):
        repeated = part == BACKWARD and node.meta.get("partitioner_tag") == "is_forward"
        if repeated and node.op == "call_function" and not node.users:
            graph.graph.erase_node(node)
    graph.recompile()
    return graph


def _saved(graph: fx.GraphModule, special: Specialised, part: str) -> list[int]:
    """The places of the forward graph's results, or of the backward graph's inputs, that are saved between the two."""
    if part == BACKWARD:
        placeholders = graph.graph.find_nodes(op="placeholder")
        tangent = descriptors.TangentAOTInput
        return [place for place, node in enumerate(placeholders) if not isinstance(node.meta.get("desc"), tangent)]
    return [place for each in _kept(graph) if isinstance(place := special.results[each], int)]


def _kept(forward: fx.GraphModule) -> list[int]:
    """The places of the forward graph's results that are kept for the backward graph."""
    described = cast("Sequence[object]", forward.graph.output_node().meta.get("desc") or ())
    kept = descriptors.SavedForBackwardsAOTOutput
    return [number for number, each in enumerate(described) if isinstance(each, kept)]


def _name(given: fx.Node, names: Sequence[str]) -> str:
    described = given.meta.get("desc")
    if isinstance(described, descriptors.PlainAOTInput):
        return names[described.idx]
    if isinstance(described, descriptors.TangentAOTInput):
        return given.name.replace("tangents", "gradient")
    return given.name


def apart(results: Sequence[object], places: Collection[int], given: Sequence[object] = ()) -> list[object]:
    """Returns the results, those at `places` in memory of their own: not shared with `given` or with other results.

    Tensors of one memory that are no views of each other do not notice when the other is changed.
    """
    taken = {memory_of(each) for each in given if _in_memory(each)}
    owners = {id(each): memory_of(each) for each in results if _in_memory(each)}
    made = list(results)
    for place, each in enumerate(results):
        if place not in places or not _in_memory(each):
            continue
        others = (memory for other, memory in owners.items() if other != id(each))
        if memory_of(each) in taken or memory_of(each) in others:
            made[place] = each.clone()
            owners.pop(id(each), None)
    return made


def _in_memory(value: object) -> TypeIs[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided
