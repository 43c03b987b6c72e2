"""Capture of a training step: forward, backward and the optimizer's changes as one graph.

Dynamo cannot read a function that computes gradients and steps an optimizer. So the step is called once on tensors
without data, with autograd active: PyTorch's own engine runs the backward pass, and a trace below autograd notes every
ATen call, also those of the engine and of the optimizer. Parameters stay the same objects, with their hooks; a stand-in
replaces a parameter only where an op reads or changes it. The graph then goes through `torch.export`, in which changes
in place become values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from workbench.capturing.blame import exports_errors
from workbench.capturing.capture_state import Capturing, given_tensors, no_tensor_work, record_of, refuse_replaced
from workbench.capturing.functional_graph import functional, in_atens_words
from workbench.capturing.graph_breaks import quiet
from workbench.capturing.left_tensors import StepTensors
from workbench.capturing.named_values import Named
from workbench.capturing.python_effects import python_effects
from workbench.capturing.record_nodes import Recorded
from workbench.capturing.stand_ins import StandIns
from workbench.capturing.step_errors import step_errors
from workbench.capturing.step_parts import Known, Parts
from workbench.capturing.tensor_copies import generators_and_settings, tensors_as_before
from workbench.capturing.training_state import Initial, Place, TrainingState, empty_before
from workbench.ground import errors
from workbench.ground.torch_inside.capture_settings import without_onednn
from workbench.ground.torch_inside.fake_tensors import FakeTensorMode
from workbench.ground.torch_inside.operator_objects import schema_if_op
from workbench.ground.torch_inside.pytrees import tree_leaves
from workbench.ground.torch_inside.symbolic_tracing import make_fx
from workbench.ground.torch_inside.tensor_inside import set_versions, version_of
from workbench.ground.torch_inside.torch_export import export, exporting_here_alone
from workbench.ir import Tree
from workbench.operators.tensors.attention_layout import also_going_back, as_fused
from workbench.operators.tensors.reachable_tensors import Held, Reachable

_MOST_WALKS = 4
"""The most calls of a step that may fill new places, such as an optimizer's state. Each call knows the places of
earlier ones."""

_MOST_DRAWS = 3
"""The number of calls, each with a changed generator or setting, after which the change counts as the step's own."""


def by_training(trace: Capturing, named: Named, made: StepTensors) -> tuple[Recorded, TrainingState]:
    """Returns the record of a step, and what the step changes besides parameters and buffers. `made` notes the tensors
    that the call makes."""
    for key, optimizer in named.optimizers.items():
        trace.held.optimizers.setdefault(key, optimizer)
    _with_optimizers(trace.held)
    for key, held in named.tensors.items():
        trace.held.tensors.setdefault(key, held)
    _refuse_fused(trace)
    state = TrainingState.of(trace.name, trace.held, trace.target, named)
    _refuse_inputs_with_gradients(trace)
    _refuse_shared_gradients(trace.name, state)
    walk = _walked(trace, state, named, made)
    for _ in range(_MOST_WALKS):
        if not walk.filled:
            return walk.recorded(), state.walked(walk.places, walk.reached, walk.idle)
        state = replace(state, places=(*state.places, *walk.filled))
        walk = _walked(trace, state, named, made)
    raise errors.NoTrainingStep(
        trace.name,
        f"each call of it leaves new tensors behind, such as {walk.filled[0].path}",
        "Call it a few times in PyTorch before the trace",
    )


def _walked(trace: Capturing, state: TrainingState, named: Named, made: StepTensors) -> _Walk:
    """Calls the step once. If a generator or a setting changes meanwhile, another thread may have changed it: the step
    is called again, and refused if that happens each time."""
    tensors = [each.tensor for each in trace.held.tensors.values()]
    changed: list[str] = []
    for _ in range(_MOST_DRAWS):
        walk = _Walk(trace, state, named, made)
        with tensors_as_before(tensors), state.as_before(), generators_and_settings() as found:
            walk.run()
        if not found:
            return walk
        changed = found
    raise errors.NoTrainingStep(
        trace.name,
        f"it changes {' and '.join(changed)}, which happens once at the trace and not in each run",
        "Draw numbers, seed generators and change settings outside of the step, and give it tensors",
    )


def _with_optimizers(held: Reachable) -> None:
    """Adds the tensors that only optimizers hold: parameters, and numbers such as the learning rate."""
    for path, read in list(held.optimizers.values()):
        optimizer = cast("torch.optim.Optimizer", read())
        for number, group in enumerate(optimizer.param_groups):
            at = f"{path}.param_groups[{number}]"
            for key, value in cast("Mapping[str, object]", group).items():
                if isinstance(value, torch.Tensor):
                    number_held = Held("state", f"{at}['{key}']", value, _in_group(read, number, key))
                    held.tensors.setdefault(id(value), number_held)
            for place, tensor in enumerate(cast("Sequence[torch.Tensor]", group["params"])):
                kind = "parameter" if isinstance(tensor, nn.Parameter) else "closure"
                parameter = Held(kind, f"{at}['params'][{place}]", tensor, _in_group(read, number, "params", place))
                held.tensors.setdefault(id(tensor), parameter)


def _in_group(optimizer: Callable[[], object], number: int, *keys: Any) -> Callable[[], torch.Tensor]:
    def read() -> torch.Tensor:
        found: Any = cast("torch.optim.Optimizer", optimizer()).param_groups[number]
        for key in keys:
            found = found[key]
        return cast("torch.Tensor", found)

    return read


def _refuse_fused(trace: Capturing) -> None:
    for path, read in trace.held.optimizers.values():
        for group in cast("torch.optim.Optimizer", read()).param_groups:
            if group.get("fused"):
                raise errors.NoTrainingStep(
                    trace.name,
                    f"{path} computes a step in one call of PyTorch's own (fused=True), which has no parts to trace",
                    "Make it with fused=False: the kernels of the graph are fused by the workbench",
                )


def _refuse_inputs_with_gradients(trace: Capturing) -> None:
    for slot in trace.user:
        if slot.gradient:
            raise errors.NoTrainingStep(
                trace.name,
                f"its input {slot.path} requires a gradient, and only what the function holds can have one in a graph",
                f"Let the function close over {slot.path}, or give {slot.path}.detach()",
            )


def _refuse_shared_gradients(name: str, state: TrainingState) -> None:
    owners: dict[int, Place] = {}
    for place in state.found().values():
        first = owners.setdefault(id(place.now()), place)
        if first is not place and first.kind == place.kind == "gradient":
            raise errors.NoTrainingStep(
                name,
                f"{first.path} and {place.path} are one tensor, to which a backward pass adds twice",
                "Give each parameter a gradient of its own, as with .clone(), before the trace",
            )


@dataclass
class _Walk:
    """One call of the step on stand-ins."""

    trace: Capturing
    state: TrainingState
    named: Named
    made: StepTensors
    given: list[torch.Tensor] = field(default_factory=list[torch.Tensor])
    """The tensors from outside, in the order of the graph's inputs."""
    tree: Tree = field(default_factory=lambda: Tree("tuple"))
    filled: list[Place] = field(default_factory=list[Place])
    """Places that the call filled and that were empty before."""
    places: tuple[Place, ...] = ()
    reached: frozenset[int] = frozenset()
    """The `id`s of the tensors that get gradients from the step's backward passes."""
    idle: tuple[str, ...] = ()
    """The optimizers' steps that find no gradient, in words."""
    graph: torch.fx.GraphModule | None = None

    def run(self) -> None:
        """Calls the step, and notes its graph and the places in which it left tensors."""
        trace, held = self.trace, self.trace.held
        for place in self.state.places:
            place.put(place.now())
        before = self.state.found()
        self.places = tuple(replace(each, initial=self._initial(each)) for each in before.values())
        for place in self.places:
            tensor = place.now()
            held.tensors[id(tensor)] = Held(place.kind, place.path, tensor, place.now)
        tensors = [each.tensor for each in (*trace.user, *held.tensors.values())]
        self.given = list({id(each): each for each in tensors}.values())
        fakes = FakeTensorMode(allow_non_fake_inputs=True)
        stand_ins = [fakes.from_tensor(each.detach()) for each in self.given]
        paths = {id(module): path for path, module in held.modules.values()}
        known = Known(
            {id(each) for each in self.given}, set(held.optimizers), {id(each.tensor): each.path for each in trace.user}
        )
        parts = Parts(trace.name, paths, self._called.__code__, known, self.made)
        versions = [version_of(each) for each in self.given]
        try:
            watched = python_effects(held.containers, self.named)
            alone = exporting_here_alone()
            with fakes, step_errors(trace.name), quiet(), alone, taken_apart(), watched as effects:

                def called(*fake: torch.Tensor) -> list[torch.Tensor]:
                    return self._called(parts, fake)

                make = cast(Any, make_fx)(called, _allow_non_fake_inputs=True)
                self.graph = tidied(make(*stand_ins))
                self.filled = list(empty_before(self.state, before, parts.initial))
            self.reached, self.idle = frozenset(parts.reached), tuple(parts.idle)
            self.places = tuple(replace(each, emptied=each.read() is None) for each in self.places)
            self._refuse_effects(parts, effects)
        finally:
            set_versions(self.given, versions)

    def _initial(self, place: Place) -> Initial | None:
        known = [each for each in self.state.places if (each.kind, each.path) == (place.kind, place.path)]
        return known[0].initial if known else place.initial

    def _called(self, parts: Parts, fakes: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Calls the step with stand-ins for the tensors that it reads and changes, and returns its results."""
        trace, kept = self.trace, {place.path: place.now() for place in self.places}
        gradients = [place.now() for place in self.places if place.kind == "gradient"]
        with StandIns(self.given, fakes, gradients, parts) as stand_ins, torch.enable_grad(), parts:
            args, kwargs = trace.arguments([slot.tensor for slot in trace.user])
            given = trace.given(args, kwargs)
            returned = trace.target(*args, **kwargs)
            self.tree, found = trace.flatten(returned, given)
            with torch.no_grad():
                for place in self.places:
                    now = place.read()
                    if now is not None and now is not kept[place.path]:
                        kept[place.path].copy_(now)
            return [stand_ins.of(tensor).detach() for _, tensor in found]

    def _refuse_effects(self, parts: Parts, effects: Sequence[str]) -> None:
        """Refuses a step that changes what a graph cannot: variables, lists, attributes, an optimizer's numbers."""
        refused = partial(errors.NoTrainingStep, self.trace.name)
        refuse_replaced(self.trace)
        if changed := self.state.changed_options():
            raise refused(
                f"it changes the optimizer's {changed}, as schedulers of learning rates do",
                "Do so outside of the step; give a number that changes as a tensor: lr=torch.tensor(0.1). Momentum and "
                "betas stay what they are with cycle_momentum=False",
            )
        if any(each.endswith("._last_lr") for each in effects):
            raise refused(
                "it calls a scheduler of learning rates, whose counts are Python's",
                "Call scheduler.step() after j.run, outside of the step, with the rate as a tensor: "
                "lr=torch.tensor(0.1)",
            )
        if sparse := [each for each in effects if each.startswith("SparseAdam")]:
            raise refused(
                f"SparseAdam counts its steps in Python ({sparse[0]}), and no kernel makes a sparse gradient",
                "Make the embedding with sparse=False, and train with Adam",
            )
        if effects:
            raise refused(
                f"it changes {', '.join(dict.fromkeys(effects))} in Python, which happens once at the trace and not "
                "in each run",
                "Do so outside of the step: fill a cache by one call in PyTorch before the trace, and keep a number "
                "in a tensor that changes in place: count.add_(1)",
            )
        if not parts.went_back:
            raise refused(
                "it takes no gradients",
                "Give a function that computes a loss and calls loss.backward(), or trace it without training",
            )

    def recorded(self) -> Recorded:
        trace, graph = self.trace, self.graph
        assert graph is not None
        self._refuse_parts_of_one_memory()
        with exports_errors(trace.name):
            stand_ins = tuple(node.meta["val"] for node in graph.graph.find_nodes(op="placeholder"))
            exported = export(in_atens_words(graph), stand_ins)
            program = functional(trace.name, exported)
        made = record_of(trace, exported, program, "train", given_tensors(program, graph, self.given), self.tree)
        if not made.graph.nodes:
            raise no_tensor_work(trace.name, trace.user)
        return made

    def _refuse_parts_of_one_memory(self) -> None:
        """Refuses a step that changes a tensor whose memory another tensor shares, such as a parameter that is a view
        of a flat buffer."""
        assert self.graph is not None
        leaves = {id(each.tensor): each for each in self.trace.held.tensors.values()}
        memories: dict[int, torch.Tensor] = {}
        changed = _changed_inputs(self.graph, self.given)
        for tensor in sorted(self.given, key=lambda each: id(each) not in changed):
            if tensor.is_meta or tensor.layout is not torch.strided or not tensor.untyped_storage().nbytes():
                continue
            other = memories.setdefault(tensor.untyped_storage().data_ptr(), tensor)
            if other is not tensor and id(other) in changed:
                one, two = (leaves[id(each)].path if id(each) in leaves else "an input" for each in (other, tensor))
                raise errors.NoTrainingStep(
                    self.trace.name,
                    f"it changes {one}, which lies in one memory with {two}, as views of a flat buffer do",
                    "Give each a memory of its own, as with .clone(), before the trace",
                )


def _changed_inputs(graph: torch.fx.GraphModule, given: Sequence[torch.Tensor]) -> set[int]:
    """The tensors, by `id`, that ops of the graph change in place, directly or through a view."""
    of = dict(zip(graph.graph.find_nodes(op="placeholder"), map(id, given), strict=True))
    changed = set[int]()
    for node in graph.graph.nodes:
        schema = schema_if_op(node.target)
        if schema is None or not node.args:
            continue
        first = node.args[0]
        if schema.is_mutable:
            changed |= {of[each] for each in tree_leaves(node.args) if each in of and each is first}
        is_view = any(each.alias_info is not None for each in schema.returns)
        if isinstance(first, torch.fx.Node) and first in of and (schema.is_mutable or is_view):
            of[node] = of[first]
    return changed


def tidied(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Removes the profiler's marks, error checks and detaches from the graph, in which nothing has a history. A result
    that is detached from another tensor stays a tensor of its own."""
    for node in reversed(list(graph.graph.nodes)):
        if getattr(node.target, "namespace", "") == "profiler":
            graph.graph.erase_node(node)
        elif node.target is torch.ops.aten._linalg_check_errors.default:
            graph.graph.erase_node(node)  # it has no result, and raises where the numbers allow no solution
        elif node.target is torch.ops.aten.unsafe_split.Tensor:
            node.target = torch.ops.aten.split.Tensor  # unsafe is only that autograd does not watch the parts
        elif node.target is torch.ops.aten.detach.default:
            source = cast("torch.fx.Node", node.args[0])
            node.replace_all_uses_with(source, _is_no_result)
            if not node.users:
                graph.graph.erase_node(node)
    graph.recompile()
    return graph


def _is_no_result(user: torch.fx.Node) -> bool:
    return user.op != "output"


def taken_apart() -> AbstractContextManager[None]:
    """Computes attention as products and a softmax, whose backward passes have kernels, and recurrent layers as their
    cells: oneDNN would run a layer as one op, with a buffer of its own between the passes."""
    return also_going_back(_TakenApart())


@contextlib.contextmanager
def _as_products() -> Generator[None]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        yield


_WHOLE: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "lstm": without_onednn,
    "scaled_dot_product_attention": _as_products,
    "multi_head_attention_forward": _as_products,
}
"""Functions of PyTorch that may run as one op, each with the context that prevents this. The contexts set switches that
all threads share, so they are entered for single calls."""


class _TakenApart(TorchFunctionMode):
    """Runs the functions in `_WHOLE` as separate ops, and gives the results of attention the strides of the fused
    op."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with _WHOLE.get(str(getattr(func, "__name__", "")).partition(".")[0], contextlib.nullcontext)():
            result = func(*args, **(kwargs or {}))
        return as_fused(result, args, kwargs or {}) if func is nn.functional.scaled_dot_product_attention else result
