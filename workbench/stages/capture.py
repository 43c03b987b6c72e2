"""PyTorch to the record: what a function asks of ATen, without its weights.

Two ways give one record. Dynamo reads the function's bytecode, so closures and Python data structures are
understood; each of its graphs then goes through `torch.export`. The export way starts there. Both end in the same
functional graph, in which high-level ops such as `linear`, `layer_norm` and `softmax` stay whole.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import traceback
import types
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
import torch._dynamo as dynamo
import torch.fx.traceback as fx_traceback
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from workbench import errors
from workbench.ir import AtenGraph, Tree
from workbench.ops import trees
from workbench.ops.aliases import refuse_shared_memory, returned
from workbench.ops.blame import replaced, user_errors
from workbench.ops.broken import BrokenUp, merge, observed
from workbench.ops.calls import Target, call_form, flatten_inputs, flatten_outputs, input_paths, user_path
from workbench.ops.functional import functional
from workbench.ops.literals import to_type
from workbench.ops.memory import apart, copies, lies, put_back
from workbench.ops.parts import Parts
from workbench.ops.places import Place, called_from, place_text
from workbench.ops.reachable import Held, Reachable, reachable
from workbench.ops.record import Recorded, Slot, record, result_names
from workbench.ops.registry import DEFAULT, Registrations


@dataclass(frozen=True)
class CapturedProgram:
    """A record, and what ties it to the live function it came from."""

    graph: AtenGraph
    breaks: tuple[str, ...]
    _sources: tuple[Callable[[], torch.Tensor], ...] = field(repr=False)
    _classes: trees.Classes = field(repr=False)
    parts: Parts | None = None
    """The callable under Dynamo and its graphs, when it is broken up into several."""

    def live(self) -> list[torch.Tensor]:
        """Parameters, buffers and closed-over tensors as they are now, in the order of `graph.inputs`."""
        return [read() for read in self._sources]

    def values(self, inputs: Sequence[object], kwargs: Mapping[str, object] | None = None) -> list[torch.Tensor]:
        """The tensors of a call and those that are held, in the order of `graph.inputs`.

        Refuses a call unlike the captured one.
        """
        tree, leaves = flatten_inputs(inputs, kwargs or {}, self.graph.name)
        if tree != self.graph.input_tree:
            raise self._another_call(tree, inputs, kwargs or {})
        for slot, (_, tensor) in zip(self.graph.inputs, leaves, strict=False):
            expected = self.graph.types[slot.value]
            given = to_type(tensor)
            if (given.shape, given.dtype) != (expected.shape, expected.dtype):
                raise errors.InputMismatch(
                    f"{self.graph.name}: input {slot.path} was captured as {expected}, and was given as {given}. "
                    f"Shapes and element types are part of the graph: trace again with the new ones."
                )
        values = [*(tensor for _, tensor in leaves), *self.live()]
        if self.graph.mutations:
            refuse_shared_memory(self.graph, values)
        return values

    def _another_call(self, tree: Tree, inputs: Sequence[object], kwargs: Mapping[str, object]) -> errors.InputMismatch:
        """Says which inputs there are to be, and what was given instead."""
        taken = [f"{slot.path}: {self.graph.types[slot.value]}" for slot in self.graph.inputs if slot.kind == "user"]
        if not inputs and not kwargs:
            count = f"{len(taken)} tensor" + ("s" if len(taken) != 1 else "")
            return errors.InputMismatch(
                f"{self.graph.name} was given no inputs, and was captured with {count} ({', '.join(taken)}), called as "
                f"{call_form(self.graph.input_tree)} (a dot is a tensor): give such inputs. Only check takes the "
                f"traced ones by itself; a run may change its inputs in place."
            )
        return errors.InputMismatch(
            f"{self.graph.name} was captured with the inputs {call_form(self.graph.input_tree)}, and was given "
            f"{call_form(tree)} (a dot is a tensor; they are {', '.join(taken) or 'none'}). How many there are, and "
            f"numbers and flags, are part of the graph: trace again to change them."
        )

    def rebuild(self, leaves: Sequence[torch.Tensor]) -> object:
        """What the function would return, made of the graph's output leaves."""
        return trees.rebuild(self.graph.tree, list(leaves), self._classes)

    def returned(self, values: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> object:
        """What the function would return after a run on `values` that made `outputs`: some are memory of others."""
        return self.rebuild(returned(self.graph, values, outputs))

    def outputs(
        self, values: Sequence[torch.Tensor], run: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
    ) -> list[torch.Tensor]:
        """The leaves of what is returned after `run` on `values`."""
        return returned(self.graph, values, run(values))

    def arguments(self, leaves: Sequence[torch.Tensor]) -> tuple[tuple[object, ...], dict[str, object]]:
        """The positional and keyword arguments of a call with these tensors."""
        made = trees.rebuild(self.graph.input_tree, list(leaves), self._classes)
        return cast("tuple[tuple[object, ...], dict[str, object]]", made)


def capture(
    fn_or_module: Target,
    inputs: Sequence[object],
    kwargs: Mapping[str, object] | None = None,
    *,
    mode: str = "dynamo",
    registrations: Registrations | None = None,
) -> CapturedProgram:
    """Captures one call of a function or module as a graph of ATen ops, specialised to the shapes given.

    Ops that a conversion is registered for are recorded as it says, all others from their schema.
    """
    if mode not in ("dynamo", "export"):
        raise errors.BadOption(f"capture={mode!r} is unknown; the two ways are 'dynamo' and 'export'")
    if not callable(fn_or_module):
        raise errors.InputMismatch(
            f"expected a function or an nn.Module to capture, got {type(fn_or_module).__name__}: {fn_or_module!r:.80}"
        )
    name = _name_of(fn_or_module)
    known = registrations if registrations is not None else DEFAULT.now()
    trace = _Trace.begin(name, fn_or_module, inputs, dict(kwargs or {}), known)
    with torch.no_grad(), warnings.catch_warnings(), _layers_taken_apart():
        warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")
        try:
            recorded = _by_dynamo(trace) if mode == "dynamo" else _by_export(trace)
        except errors.GraphBreak as error:
            if mode == "export" or any(slot.tensor.is_meta for slot in trace.user):
                raise
            trace = _Trace.begin(name, fn_or_module, inputs, dict(kwargs or {}), known, copied=True)
            return _refuse_shared(_in_parts(trace, error), inputs, kwargs or {})
    if not recorded.graph.nodes:
        raise _no_tensor_work(name)
    return _refuse_shared(trace.program(recorded), inputs, kwargs or {})


def _refuse_shared(program: CapturedProgram, inputs: Sequence[object], kwargs: Mapping[str, object]) -> CapturedProgram:
    """The program, unless it changes a tensor in place that lay on another when it was traced."""
    if program.graph.mutations:
        tensors = [tensor for _, tensor in flatten_inputs(inputs, kwargs, program.graph.name)[1]]
        refuse_shared_memory(program.graph, [*tensors, *program.live()])
    return program


@contextlib.contextmanager
def _layers_taken_apart() -> Generator[None]:
    """Keeps PyTorch from running a whole transformer layer as one op, which says nothing of what happens in it.

    And lets Dynamo look into recurrent modules.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with cast(Any, dynamo.config).patch(allow_rnn=True):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def capture_graph(
    gm: torch.fx.GraphModule, inputs: Sequence[object], registrations: Registrations | None = None
) -> CapturedProgram:
    """Captures a graph that Dynamo has made already; all it reads is given to it."""
    known = registrations if registrations is not None else DEFAULT.now()
    trace = _named_by_placeholders(_Trace.begin("compiled", gm, inputs, {}, known), gm)
    with torch.no_grad(), warnings.catch_warnings(), user_errors(trace.name):
        warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")
        exported = torch.export.export(gm, trace.inputs, strict=False)
        program = functional(trace.name, exported)
    users = iter(trace.user)
    given = {
        spec.arg.name: _tensor_for(spec, gm, program, users)
        for spec in program.graph_signature.input_specs
        if isinstance(spec.arg, TensorArgument)
    }
    leaves = range(len(result_names(program)))
    tree = Tree("tuple", items=(Tree("leaf"),) * len(leaves))
    return _refuse_shared(trace.program(_record(trace, exported, program, "dynamo", given, leaves, tree)), inputs, {})


def _named_by_placeholders(trace: _Trace, gm: torch.fx.GraphModule) -> _Trace:
    """The inputs under the names Dynamo gave them, which say what in the user's program they are."""
    names = [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]
    given = (name for name, value in zip(names, trace.inputs, strict=True) if isinstance(value, torch.Tensor))
    user = (replace(slot, path=_as_written(name)) for slot, name in zip(trace.user, given, strict=True))
    return replace(trace, user=tuple(user))


def _as_written(placeholder: str) -> str:
    """`fc1.weight` for `L_self_modules_fc1_parameters_weight_`, `x` for `L_x_`."""
    path = placeholder.removeprefix("L_").removeprefix("self_").strip("_")
    return re.sub(r"(^|_)(modules|parameters|buffers)_", lambda found: "." if found.group(1) else "", path)


Flat = tuple[Tree, list[tuple[str, torch.Tensor]]]


@dataclass(frozen=True)
class _Trace:
    """One capture under way: the call with tensors of its own, and what the callable holds."""

    name: str
    target: Target
    inputs: tuple[object, ...]
    kwargs: dict[str, object]
    input_tree: Tree
    user: tuple[Slot, ...]
    held: Reachable
    registrations: Registrations
    called: Place
    """Where the user asked for it."""
    classes: dict[str, type]
    """The tuple classes of inputs and, as soon as they are known, results."""

    @staticmethod
    def begin(
        name: str,
        target: Target,
        inputs: Sequence[object],
        kwargs: dict[str, object],
        registrations: Registrations,
        *,
        copied: bool = False,
    ) -> _Trace:
        """Every input tensor becomes an alias of its own, so that one tensor given twice stays two inputs.

        Tensors of one memory become copies: PyTorch's export would see one behind the other, and a record does not.
        `copied` gives copies that share memory like the inputs, for a capture that computes.
        """
        tree, leaves = flatten_inputs(inputs, kwargs, name)
        paths = input_paths(target, inputs, kwargs, name)
        tensors = [tensor for _, tensor in leaves]
        held, called = reachable(target), called_from()
        own = copies(tensors) if copied else apart(tensors, (each.tensor for each in held.tensors.values()))
        aliases = [(path, tensor) for (path, _), tensor in zip(leaves, own, strict=True)]
        user = tuple(Slot("user", user_path(path, paths), alias) for path, alias in aliases)
        classes = trees.classes_in((inputs, kwargs))
        args, kwds = cast("tuple[Any, Any]", trees.rebuild(tree, [alias for _, alias in aliases], classes))
        return _Trace(name, target, args, kwds, tree, user, held, registrations, called, classes)

    def program(self, recorded: Recorded) -> CapturedProgram:
        """The record with what ties it to the callable."""
        sources = tuple(self.reader(slot) for slot in recorded.slots[len(self.user) :])
        return CapturedProgram(recorded.graph, (), sources, self.classes)

    def flatten(self, returned: object) -> Flat:
        """The containers and the tensors of what the callable returned."""
        self.classes.update(trees.classes_in(returned))
        return flatten_outputs(returned, self.name)

    def slot_of(self, tensor: torch.Tensor, fallback: str) -> Slot:
        """What a tensor the graph takes is: a user's, one that the callable holds, or a constant made inside."""
        for slot in self.user:
            if slot.tensor is tensor:
                return slot
        found = self._held(tensor)
        return Slot(found.kind, found.path, found.tensor) if found else Slot("constant", fallback, tensor)

    def reader(self, slot: Slot) -> Callable[[], torch.Tensor]:
        found = self._held(slot.tensor)
        return found.read if found else lambda: slot.tensor

    def _held(self, tensor: torch.Tensor) -> Held | None:
        """By identity, or else by memory: export keeps an alias of a parameter that no module owns."""
        if found := self.held.tensors.get(id(tensor)):
            return found
        aliases = (held for held in self.held.tensors.values() if held.tensor.is_set_to(tensor))
        return next(aliases, None) if not tensor.is_meta else None

    def modules(self) -> dict[str, str]:
        """Module path by `id`, the key that Dynamo's module stacks have."""
        return {str(key): path for key, (path, _) in self.held.modules.items()}


def _call(target: Target, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    return target(*args, **kwargs)


def _by_dynamo(trace: _Trace) -> Recorded:
    graphs: list[tuple[torch.fx.GraphModule, tuple[torch.Tensor, ...], list[torch.Tensor]]] = []

    def keep(gm: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
        fakes = cast("list[torch.fx.Node]", gm.graph.output_node().args[0])

        def run(*given: torch.Tensor) -> list[torch.Tensor]:
            """Stands in for the graph: results without data, which show where each ends up in what is returned."""
            _refuse_numbers(trace.name, gm)
            _refuse_gradients(trace.name, gm)
            results = [_stand_in(node.meta["example_value"]) for node in fakes]
            graphs.append((gm, given, results))
            return results

        return run

    # Dynamo keeps what it compiled by code object and stops after a few; a fresh one makes each trace the first.
    fresh = types.FunctionType(_call.__code__.replace(), _call.__globals__, _call.__name__)
    static = cast(Any, dynamo.config).patch(automatic_dynamic_shapes=False, specialize_float=True)
    with static, user_errors(trace.name):
        compiled = cast("Target", cast(Any, torch).compile(fresh, backend=keep, fullgraph=True, dynamic=False))
        returned = compiled(trace.target, trace.inputs, trace.kwargs)
    _refuse_replaced(trace)
    if not graphs:
        raise _no_tensor_work(trace.name)
    gm, given, results = graphs[0]
    with user_errors(trace.name):
        exported = torch.export.export(gm, given, strict=False)
        program = functional(trace.name, exported)
    tree, found = trace.flatten(returned)
    by_id = {id(result): number for number, result in enumerate(results)}
    leaves = [by_id[id(tensor)] if id(tensor) in by_id else trace.slot_of(tensor, path) for path, tensor in found]
    users = iter(given)
    tensors = {
        spec.arg.name: next(users) if spec.kind is InputKind.USER_INPUT else program.constants[str(spec.target)]
        for spec in program.graph_signature.input_specs
    }
    return _record(trace, exported, program, "dynamo", cast("dict[str, torch.Tensor]", tensors), leaves, tree)


def _stand_in(fake: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="meta")


def _refuse_numbers(name: str, gm: torch.fx.GraphModule) -> None:
    """Numbers that only the data decides: there is none in a stand-in."""
    for node in gm.graph.nodes:
        if node.op == "call_method" and node.target == "item":
            place = place_text(node.meta.get("stack_trace"))
            raise errors.GraphBreak(name, f"{node.name} is a number that depends on the data", place)


def _refuse_gradients(name: str, gm: torch.fx.GraphModule) -> None:
    """`torch.func.grad` and its like, which Dynamo takes into the graph."""
    nodes = itertools.dropwhile(lambda node: node.name != "_grad_increment_nesting", gm.graph.nodes)
    places = [place_text(node.meta.get("stack_trace")) for node in nodes]
    if places:
        raise errors.GradientsInside(name, "torch.func.grad", next(filter(None, places), ""))


def _in_parts(trace: _Trace, why: errors.GraphBreak) -> CapturedProgram:
    """Calls it once with data, since what lies between its graphs is Python that decides by them."""
    broken = BrokenUp(trace.target)
    outside = {slot.path: slot.tensor for slot in trace.user}
    outside |= {held.path: held.tensor for held in trace.held.tensors.values()}
    with put_back(held.tensor for held in trace.held.tensors.values()), user_errors(trace.name):
        lay = {path: lies(tensor) for path, tensor in outside.items()}
        returned, calls = observed(broken, trace.inputs, trace.kwargs)
        moved = [path for path, tensor in outside.items() if lies(tensor) != lay[path]]
        if moved:
            raise errors.ReshapedInput.by(trace.name, "", why.place, ", ".join(moved))
        graphs: dict[int, tuple[AtenGraph, list[torch.Tensor]]] = {}
        for call in calls:
            if call.number not in graphs:
                program = capture_graph(call.gm, call.given, trace.registrations)
                graphs[call.number] = program.graph, program.live()
    if not calls:
        raise why
    _refuse_replaced(trace)
    tree, found = trace.flatten(returned)
    merged = merge(
        trace.name,
        calls,
        graphs,
        user=trace.user,
        slot_of=trace.slot_of,
        found=found,
        tree=tree,
        input_tree=trace.input_tree,
        first_break=f"{why.place}: {why.reason}" if why.place else why.reason,
        called=trace.called,
    )
    sources = tuple(trace.reader(slot) for slot in merged.slots[len(trace.user) :])
    parts = Parts(broken, merged.parts, merged.constants)
    return CapturedProgram(merged.graph, merged.breaks, sources, trace.classes, parts)


class _Root(nn.Module):
    """The module that `torch.export` wants: calls the target, and owns the modules the target holds elsewhere."""

    tree: Tree
    """The containers of what the target returned; export itself has only the tensors in them."""
    given: frozenset[int] = frozenset()
    """The inputs by `id`, while it is called."""

    def __init__(self, name: str, target: Target, held: Reachable, flatten: Callable[[object], Flat]) -> None:
        super().__init__()
        self.name = name
        object.__setattr__(self, "_target", target)
        self._flatten = flatten
        inside: set[int] = set()
        for index, (_, module) in enumerate(held.modules.values()):
            if id(module) not in inside:
                self.add_module(f"held{index}", module)
                inside |= {id(part) for part in module.modules()}

    def forward(self, *args: object, **kwargs: object) -> list[torch.Tensor]:
        """Export loses a buffer that is replaced below the root, so this looks for itself."""
        before = dict(self.named_buffers())
        self.given = frozenset(map(id, pytree.tree_leaves((args, kwargs))))
        returned = cast("Target", self._target)(*args, **kwargs)
        changed = [name for name, buffer in self.named_buffers() if before.get(name) is not buffer]
        if changed:
            raise replaced("the module", ", ".join(name.partition(".")[2] for name in changed))
        self.tree, found = self._flatten(returned)
        return [tensor for _, tensor in found]


class _Places(TorchFunctionMode):
    """Notes where each torch function is called from: export by itself keeps only frames named `forward`.

    And refuses one that gives an input another shape, which export cannot follow.
    """

    def __init__(self, root: _Root) -> None:
        super().__init__()
        self._root = root

    def __torch_function__(
        self, func: Target, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        shapes = [(each, each.shape) for each in args[:1] if isinstance(each, torch.Tensor)]
        with fx_traceback.preserve_node_meta():
            before = cast("str", fx_traceback.current_meta.get("stack_trace", ""))
            stack = traceback.format_list(list(_frames()))
            fx_traceback.set_stack_trace(stack)
            try:
                made = func(*args, **(kwargs or {}))
            finally:
                fx_traceback.set_stack_trace([before] if before else [])
        if any(tensor.shape != shape and id(tensor) in self._root.given for tensor, shape in shapes):
            raise errors.ReshapedInput.by(self._root.name, getattr(func, "__name__", ""), place_text("".join(stack)))
        return made


def _frames() -> Iterator[traceback.FrameSummary]:
    """The call stack inside the captured call, outermost first, without reading sources."""
    root = _Root.forward.__code__
    stack = itertools.takewhile(lambda place: place[0].f_code is not root, traceback.walk_stack(inspect.currentframe()))
    return reversed(traceback.StackSummary.extract(stack, lookup_lines=False))


def _by_export(trace: _Trace) -> Recorded:
    root = _Root(trace.name, trace.target, trace.held, trace.flatten)
    with user_errors(trace.name), _without_gradients(trace.held):
        with _Places(root):
            exported = torch.export.export(root, cast("tuple[Any, ...]", trace.inputs), trace.kwargs, strict=False)
        program = functional(trace.name, exported)
    _refuse_replaced(trace)
    users = iter(trace.user)
    given = {
        spec.arg.name: _tensor_for(spec, root, program, users)
        for spec in program.graph_signature.input_specs
        if isinstance(spec.arg, TensorArgument)
    }
    named = cast("Iterator[tuple[str, nn.Module]]", root.named_modules())
    paths = {path: trace.held.modules[id(module)][0] for path, module in named if id(module) in trace.held.modules}
    leaves = range(len(result_names(program)))
    return _record(trace, exported, program, "export", given, leaves, root.tree, paths)


def _tensor_for(spec: InputSpec, root: nn.Module, program: ExportedProgram, users: Iterator[Slot]) -> torch.Tensor:
    """The tensor that was traced as this input of the exported graph."""
    target = str(spec.target)
    if spec.kind is InputKind.PARAMETER:
        return root.get_parameter(target)
    if spec.kind is InputKind.BUFFER:
        return root.get_buffer(target)
    if spec.kind is InputKind.USER_INPUT:
        return next(users).tensor
    return cast("torch.Tensor", program.constants[target])


def _record(
    trace: _Trace,
    exported: ExportedProgram,
    program: ExportedProgram,
    mode: str,
    given: Mapping[str, torch.Tensor],
    leaves: Iterable[int | Slot],
    tree: Tree,
    module_paths: Mapping[str, str] | None = None,
) -> Recorded:
    fallbacks = {name: f"constant{index}" for index, name in enumerate(given)}
    return record(
        program,
        name=trace.name,
        capture=mode,
        user=trace.user,
        slot_of=lambda place: trace.slot_of(given[place], fallbacks[place]),
        exported=exported,
        leaves=leaves,
        tree=tree,
        input_tree=trace.input_tree,
        modules={**trace.modules(), **(module_paths or {})},
        registrations=trace.registrations,
        called=trace.called,
    )


@contextlib.contextmanager
def _without_gradients(held: Reachable) -> Generator[None]:
    """Export takes a parameter that no module owns for a constant, which it wants without a gradient."""
    owned = {id(p) for _, module in held.modules.values() for p in module.parameters()}
    loose = [slot.tensor for slot in held.tensors.values() if id(slot.tensor) not in owned]
    loose = [tensor for tensor in loose if tensor.requires_grad and tensor.is_leaf]
    for tensor in loose:
        tensor.requires_grad_(False)
    try:
        yield
    finally:
        for tensor in loose:
            tensor.requires_grad_(True)


def _refuse_replaced(trace: _Trace) -> None:
    """Puts back tensors of modules that the capture replaced by stand-ins without data, and says so."""
    found = [held for key, held in reachable(trace.target).tensors.items() if _no_data(held, key, trace)]
    if not found:
        return
    for path, module in trace.held.modules.values():
        for held in trace.held.tensors.values():
            owner, _, attribute = held.path.rpartition(".")
            if owner == path and getattr(module, attribute, held.tensor) is not held.tensor:
                setattr(module, attribute, held.tensor)
    raise replaced(trace.name, ", ".join(held.path for held in found))


def _no_data(held: Held, key: int, trace: _Trace) -> bool:
    return key not in trace.held.tensors and (held.tensor.is_meta or isinstance(held.tensor, FakeTensor))


def _name_of(target: Target) -> str:
    if isinstance(target, nn.Module):
        return type(target).__name__
    return str(getattr(target, "__name__", type(target).__name__))


def _no_tensor_work(name: str) -> errors.NoTensorWork:
    return errors.NoTensorWork(
        f"{name} computes nothing with tensors, so there is no graph to capture. Give it tensors and return what is "
        f"computed from them."
    )
