"""Captures a PyTorch function as a record of its ATen calls, without its weights.

Two ways make the same kind of record. Dynamo reads the function's bytecode, so closures and Python data structures are
understood; each of its graphs then goes through `torch.export`. The export way calls `torch.export` on the function
itself. Both end in the same functional graph, in which high-level ops such as `linear`, `layer_norm` and `softmax` stay
whole.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, cast
from unittest import mock

import torch
from torch import nn

from workbench.capturing.blame import exports_errors, replaced, user_errors
from workbench.capturing.by_dynamo import by_dynamo, facts_of_reading, read_by_dynamo
from workbench.capturing.by_export import by_export
from workbench.capturing.capture_state import Capturing, given_tensors, no_tensor_work, record_of, refuse_replaced
from workbench.capturing.functional_graph import autocast_is_left, functional, in_atens_words, unwrapped
from workbench.capturing.left_tensors import no_tensors_left
from workbench.capturing.live_call import CapturedProgram
from workbench.capturing.named_values import named_by
from workbench.capturing.read_conditions import Conditions, Facts, Guards, Reading
from workbench.capturing.record_nodes import result_names
from workbench.capturing.result_aliases import refuse_shared_memory
from workbench.capturing.tensor_copies import holding_as_before, lies, put_back
from workbench.capturing.unheard_logs import UnheardLogs
from workbench.capturing.user_call import Target, flatten_inputs, input_as_written, refuse_uncallable
from workbench.ground import errors
from workbench.ground.environment.this_thread import Filter, warnings_here
from workbench.ground.torch_inside.capture_settings import dynamo_settings, methods_of_loggers_left_out
from workbench.ground.torch_inside.dispatch_modes import dispatch_modes
from workbench.ground.torch_inside.functorch_layers import no_transform_left
from workbench.ground.torch_inside.torch_export import export
from workbench.ir import AtenGraph, Tree
from workbench.operators.aten.registry import DEFAULT, Registrations
from workbench.operators.tensors.call_containers import CallContainers
from workbench.operators.tensors.tensor_memory import refuse_unreadable

_OF_PICKLES = Filter("ignore", FutureWarning, module="copyreg")


@no_transform_left()
def capture(
    fn_or_module: Target,
    inputs: Sequence[object],
    kwargs: Mapping[str, object] | None = None,
    *,
    mode: str = "dynamo",
    registrations: Registrations | None = None,
    train: bool = False,
) -> CapturedProgram:
    """Captures one call of a function or module as a graph of ATen ops, specialised to the shapes given.

    With `train` the call is a step of training: the graph has its backward pass and the optimizers' changes, too. An op
    with a registered conversion is recorded as the conversion says, any other op by its schema.
    """
    if not isinstance(train, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise errors.BadOption(f"train={train!r} is no answer; expected True, for a step of training, or False")
    if train and mode != "dynamo":
        raise errors.BadOption(
            f"capture={mode!r} and train=True exclude each other: a step of training is captured in a way of its own. "
            "Leave capture out"
        )
    refuse_uncallable(fn_or_module)
    name = name_of(fn_or_module)
    if seen := [type(each).__name__ for each in dispatch_modes() if not _seen_through(each)]:
        told = "PyTorch compiles nothing while a TorchDispatchMode is active. Trace it outside of the mode's `with`"
        raise errors.CaptureFailed(f"{name} cannot be captured under {seen[-1]}: {told}")
    known = registrations if registrations is not None else DEFAULT.now()
    trace = Capturing.begin(name, fn_or_module, inputs, dict(kwargs or {}), known)
    if train:
        return _refuse_shared(_training_step(trace), inputs, kwargs or {})
    with torch.no_grad(), warnings_here(_OF_PICKLES), _layers_taken_apart():
        try:
            with holding_as_before(trace.held.containers):
                if mode == "export":
                    recorded, conditions = by_export(trace), _conditions_of_export(trace)
                else:
                    reading = read_by_dynamo(trace)
                    conditions = _conditions(trace, reading)
                    recorded = by_dynamo(trace, reading)
        except (errors.GraphBreak, errors.HiddenState) as error:
            if any(slot.tensor.is_meta for slot in trace.user):
                raise error.advising(error.NO_NUMBERS) if isinstance(error, errors.GraphBreak) else error from None
            trace = Capturing.begin(name, fn_or_module, inputs, dict(kwargs or {}), known, copied=True)
            return _refuse_shared(_in_parts(trace, error), inputs, kwargs or {})
    if not recorded.graph.nodes:
        raise no_tensor_work(name, [*trace.user, *trace.held.tensors.values()])
    return _refuse_shared(trace.program(recorded, conditions=conditions), inputs, kwargs or {})


def _conditions(trace: Capturing, reading: Reading) -> Conditions:
    """Returns the conditions of a reading's graph, together with a function that reads the callable again."""

    def again(inputs: Sequence[object], kwargs: Mapping[str, object]) -> tuple[Facts, Guards]:
        anew = Capturing.begin(trace.name, trace.target, inputs, dict(kwargs), trace.registrations)
        quiet, as_before = warnings_here(_OF_PICKLES), holding_as_before(anew.held.containers)
        with torch.no_grad(), quiet, _layers_taken_apart(), no_transform_left(), as_before:
            read = read_by_dynamo(anew)
        return facts_of_reading(anew, read), read.guards

    return Conditions(trace.target, facts_of_reading(trace, reading), again, [reading.guards])


def _conditions_of_export(trace: Capturing) -> Conditions | None:
    """Has Dynamo read the function for its conditions, which export does not note; None if Dynamo cannot read it."""
    try:
        return _conditions(trace, read_by_dynamo(trace))
    except errors.WorkbenchError:
        return None


def _training_step(trace: Capturing) -> CapturedProgram:
    from workbench.capturing.by_training import by_training

    with torch.no_grad(), warnings_here(_OF_PICKLES), _layers_taken_apart():
        named = named_by(trace.target)
        trace.held.containers += named.containers
        with no_tensors_left(trace.name, named.caches.values()) as made, holding_as_before(trace.held.containers):
            recorded, state = by_training(trace, named, made)
    return trace.program(recorded, state)


def name_of(target: Target) -> str:
    if isinstance(target, nn.Module):
        return type(target).__name__
    return str(getattr(target, "__name__", type(target).__name__))


def _refuse_shared(program: CapturedProgram, inputs: Sequence[object], kwargs: Mapping[str, object]) -> CapturedProgram:
    """Returns the program, or refuses it: if it changes a tensor whose memory another tensor shared at the trace, or if
    it changes a container that is given twice."""
    if program.graph.mutations:
        tensors = [tensor for _, tensor in flatten_inputs(inputs, kwargs, program.graph.name)[1].leaves]
        refuse_shared_memory(program.graph, [*tensors, *program.live()])
    if program.graph.tree.kind == "call":
        CallContainers.of(inputs, kwargs, program.graph.name).refuse_twice(program.graph.tree)
    return program


@contextlib.contextmanager
def _layers_taken_apart() -> Generator[None]:
    """Keeps PyTorch from running a whole transformer layer as one op, which would hide its parts.

    Also lets Dynamo read recurrent modules, and skip log messages that are not printed.
    """
    mha, caller = cast(Any, torch.backends.mha), threading.get_ident()
    told = mha.get_fastpath_enabled

    def enabled() -> bool:
        """Returns False under Dynamo and for the capturing thread; other threads get PyTorch's own answer."""
        if torch.compiler.is_dynamo_compiling():
            return False
        return threading.get_ident() != caller and told()

    unheard = UnheardLogs(methods_of_loggers_left_out())
    with (
        mock.patch.object(mha, "get_fastpath_enabled", enabled),
        dynamo_settings(allow_rnn=True, ignore_logging_functions=unheard),
    ):
        yield


@no_transform_left()
def capture_graph(
    gm: torch.fx.GraphModule,
    inputs: Sequence[object],
    registrations: Registrations | None = None,
    name: str = "compiled",
) -> CapturedProgram:
    """Captures a graph that Dynamo has made already; all tensors that it reads are among its inputs."""
    known = registrations if registrations is not None else DEFAULT.now()
    trace = _named_by_placeholders(Capturing.begin(name, gm, inputs, {}, known), gm)
    with (
        torch.no_grad(),
        warnings_here(_OF_PICKLES),
        exports_errors(trace.name),
        user_errors(trace.name),
        autocast_is_left(),
    ):
        exported = export(in_atens_words(unwrapped(gm)), trace.inputs)
        program = functional(trace.name, exported)
    given = given_tensors(program, gm, (slot.tensor for slot in trace.user))
    tree = Tree("tuple", items=(Tree("leaf"),) * len(result_names(program)))
    return _refuse_shared(trace.program(record_of(trace, exported, program, "dynamo", given, tree)), inputs, {})


def _seen_through(mode: object) -> bool:
    """True if Dynamo compiles under the mode."""
    ignores = getattr(type(mode), "ignore_compile_internals", None)
    return ignores is not None and bool(ignores())


def _named_by_placeholders(trace: Capturing, gm: torch.fx.GraphModule) -> Capturing:
    """Returns the capture with the inputs named after Dynamo's placeholders, which point into the user's program."""
    names = [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]
    given = (name for name, value in zip(names, trace.inputs, strict=True) if isinstance(value, torch.Tensor))
    user = (replace(slot, path=input_as_written(name)) for slot, name in zip(trace.user, given, strict=True))
    return replace(trace, user=tuple(user))


def _in_parts(trace: Capturing, why: errors.GraphBreak | errors.HiddenState) -> CapturedProgram:
    """Calls the function once on real data and records its graphs in the order in which they run: the Python between
    them may branch on the data.

    If no part of the function becomes a graph, the whole function is one step on the host.
    """
    from workbench.capturing import graph_pieces

    broken = graph_pieces.BrokenUp(trace.target)
    outside = {slot.path: slot.tensor for slot in trace.user}
    outside |= {held.path: held.tensor for held in trace.held.tensors.values()}
    tensors = [each.tensor for each in trace.held.tensors.values()]
    functions = [each for each in trace.held.containers if isinstance(each, FunctionType)]
    stores = [each for each in trace.held.containers if not isinstance(each, FunctionType)]
    between = graph_pieces.BetweenGraphs([slot.tensor for slot in trace.user], tensors)
    with put_back(tensors), holding_as_before(functions), user_errors(trace.name):
        lay = {path: lies(tensor) for path, tensor in outside.items()}
        with holding_as_before(stores), cast(Any, torch.random).fork_rng(devices=[]):
            returned, calls = graph_pieces.observed(broken, trace.inputs, trace.kwargs, between)
        moved = [path for path, tensor in outside.items() if lies(tensor) != lay[path]]
        if moved:
            raise errors.ReshapedInput.by(trace.name, "", why.place, ", ".join(moved))
        graphs: dict[int, tuple[AtenGraph, list[torch.Tensor]]] = {}
        for call in calls:
            if call.number not in graphs:
                program = capture_graph(call.gm, call.given, trace.registrations)
                graphs[call.number] = program.graph, program.live()
        if other := [each.path for each in trace.held.tensors.values() if each.read() is not each.tensor]:
            raise replaced(trace.name, ", ".join(other))  # variables: the contents of objects are put back by now
    refuse_replaced(trace)
    tree, found = trace.flatten(returned, CallContainers.of((), {}, trace.name))  # Python itself changes its arguments
    if not calls and not found:
        raise why.advising(why.NOTHING_LEFT) if isinstance(why, errors.GraphBreak) else why from None
    for path, tensor in found:
        refuse_unreadable(tensor, path or "a result", trace.name)
    whole = graph_pieces.Whole(
        trace.name,
        trace.called,
        user=trace.user,
        slot_of=trace.slot_of,
        all_held=tensors,
        found=found,
        tree=tree,
        input_tree=trace.input_tree,
        between=between,
    )
    reason = f"{why.place}: {why.reason}" if why.place else why.reason
    last = isinstance(why, errors.HiddenState)
    merged = graph_pieces.merge(whole, calls, graphs, first_break=reason, last=last)
    sources = tuple(trace.reader(slot) for slot in merged.slots[len(trace.user) :])
    constants = {number: held for number, (_, held) in graphs.items()}
    parts = graph_pieces.Parts(broken, merged.parts, constants)
    return CapturedProgram(merged.graph, merged.breaks, sources, trace.classes, parts)
