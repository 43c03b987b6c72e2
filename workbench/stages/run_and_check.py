"""Computes a journey's numbers for `run` and `check`, natively or with PyTorch, as a whole or in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from workbench.checking.check_report import Check
from workbench.ground.environment.progress import waiting
from workbench.ground.environment.turns import turn
from workbench.ground.errors import BadOption, NoData, NoFunction
from workbench.ir import AtenGraph, KernelGraph, Literal, Node, TensorType
from workbench.operators.aten import proven, registry
from workbench.stages.journey_request import GraphCall, Request
from workbench.stages.option_checks import checked_tolerance
from workbench.stages.pipeline import Stages

if TYPE_CHECKING:
    import torch

    from workbench.capturing import graph_pieces
    from workbench.capturing.live_call import CapturedProgram
    from workbench.checking import held_tensors
    from workbench.checking.tensor_comparison import Pair
    from workbench.checking.wide_reference import Answers
    from workbench.operators.aten.registry import Registrations
    from workbench.running.run_program import NativeProgram

_CHANGES: Final = "PyTorch's own answers to two equal calls differ by more than rounding"
_CHANGING: Final = (
    "nothing can be compared: the function reads what changes from call to call, such as random numbers of another "
    "generator than PyTorch's default one"
)

_TIES: Final = (
    "PyTorch leaves open which of several equal elements {ops} names: where values are equal, another index, what is "
    "computed with it and another element's gradient are no error. To compare them, give values that all differ, or "
    "sort with stable=True"
)
_NAMES_ANY_OF_EQUALS: Final = frozenset(
    f"aten.{name}"
    for name in ("topk.default", "sort.default", "argsort.default", "kthvalue.default", "median.dim", "median.default")
)
_SORTS_AS_TOLD: Final = frozenset({"aten.sort.stable", "aten.argsort.stable"})

Arguments = tuple[tuple[object, ...], dict[str, object]]

CHECKED_STAGES: Final = ("captured", "rendered", "scheduled", "simulated")


@dataclass(frozen=True)
class Computing:
    """Computes a journey's function at each stage."""

    request: Request
    stages: Stages

    def run(self, inputs: Sequence[object], kwargs: Mapping[str, object] | None) -> object:
        """The function's results, computed by the scheduled MLIR."""
        program = self._program("run")
        values = self._with_data("run", program.values(inputs, kwargs))
        now = [value.detach() for value in values]
        if not program.conditions_hold(now):
            self._refuse_changed(program, inputs, kwargs, values)
        if program.parts:
            from workbench.capturing.result_aliases import refuse_unwritable

            refuse_unwritable(program.graph, values)
            with turn(), program.as_traced():  # Dynamo runs the function, and may compile another graph
                return self._run_parts("scheduled", inputs, kwargs or {})
        return program.run(inputs, kwargs or {}, values, lambda _: self._native("scheduled").run(now))

    def check(
        self,
        inputs: Sequence[object],
        kwargs: Mapping[str, object] | None,
        stage: str,
        rtol: float | None,
        atol: float | None,
    ) -> Check:
        """Compares a stage's numbers with PyTorch's."""
        if stage not in CHECKED_STAGES:
            raise BadOption(f"stage={stage!r} cannot be checked; the stages with numbers are {_listed(CHECKED_STAGES)}")
        rtol, atol = checked_tolerance("rtol", rtol), checked_tolerance("atol", atol)
        program = self._program("check")
        from workbench.checking.tensor_comparison import compare

        if not inputs and kwargs is None:
            inputs, kwargs = self.request.inputs, self.request.kwargs
        values = self._with_data("check", program.values(inputs, kwargs))
        if not program.conditions_hold(values):
            self._refuse_changed(program, inputs, kwargs, values)
        count = sum(slot.kind == "user" for slot in program.graph.inputs)
        user, held = values[:count], values[count:]
        alone = program.parts or program.training or self._draws(program.graph)
        with turn() if alone else nullcontext(), waiting("check"), program.as_traced():
            pairs, answers = self._of_parts(stage, user) if program.parts else self._of_whole(stage, user, held)
            check = Check(stage, compare(pairs, answers, rtol=rtol, atol=atol))
            if answers.change_from_call_to_call():
                changing = tuple(replace(each, problem=_CHANGES) for each in check.results)
                return replace(check, results=changing, hint=_CHANGING)
            return check if check.ok else replace(check, hint=self._hint())

    @staticmethod
    def _draws(graph: AtenGraph) -> bool:
        """True if a call draws random numbers: PyTorch has one generator for all threads."""
        from workbench.operators.aten.overload_names import draws_lots

        return draws_lots(node.op for node in graph.nodes)

    def _refuse_changed(
        self,
        program: CapturedProgram,
        inputs: Sequence[object],
        kwargs: Mapping[str, object] | None,
        values: Sequence[torch.Tensor],
    ) -> None:
        """Raises the error of a function whose graph would differ now: a condition of the trace has changed."""
        with turn():
            program.refuse_changed_conditions(inputs, kwargs, values)

    def _hint(self) -> str:
        """A possible cause of a failure, in words: PyTorch may name any of several equal elements. Empty if none."""
        nodes = self.stages.captured().record.nodes
        names = sorted({node.op.split(".")[1] for node in nodes if _names_any_of_equals(node)})
        return _TIES.format(ops=" or ".join(names)) if names else ""

    def compiled(self) -> NativeProgram:
        """The native program of `run`."""
        return self._native("scheduled")

    def _with_data(self, asked: str, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The values; raises if some are on the meta device, without numbers."""
        graph = self.stages.captured().record
        empty = [slot.path for slot, value in zip(graph.inputs, values, strict=True) if value.is_meta]
        if empty:
            shown = ", ".join(empty[:4]) + (f" and {len(empty) - 4} more" if len(empty) > 4 else "")
            raise NoData(
                f"{graph.name} cannot {asked}: {shown} are on the meta device, which has shapes and no numbers. "
                "All but run and check works without numbers; for these two, trace again with the model and its "
                "inputs on the CPU, e.g. model.to_empty(device='cpu') and load its weights"
            )
        return values

    def _of_whole(self, stage: str, user: list[torch.Tensor], held: list[torch.Tensor]) -> tuple[list[Pair], Answers]:
        """The outputs and changed inputs computed by this stage, and PyTorch's answers."""
        from workbench.checking import held_tensors, tensor_comparison, wide_reference
        from workbench.operators.host import run_graph

        graph = self.stages.captured().record
        changed = sorted({change.target for change in graph.mutations})
        values = [
            value.detach().clone() if slot.value in changed else value
            for slot, value in zip(graph.inputs, [*user, *held], strict=True)
        ]
        slots, training = graph.inputs[len(user) :], self._program("check").training
        changing = frozenset(id(value) for slot, value in zip(slots, held, strict=True) if slot.value in changed)
        trained = None if training is None else [leaf.tensor for leaf in training.leaves]
        holds = held_tensors.Holds(held, changing, trained)
        answers = wide_reference.Answers(
            partial(wide_reference.outcome, partial(self._eager, held), graph, user, holds)
        )
        drawn = self._draws(graph)
        with wide_reference.lots_put_back(drawn):  # PyTorch draws the same random numbers
            if stage == "captured":
                plain = [value.resolve_conj().resolve_neg() for value in values]  # as kernels get them
                got = run_graph.execute(graph, plain, self._registered())
            else:
                after = {slot.value: value for slot, value in zip(graph.inputs, values, strict=True)}
                got = run_graph.Executed(self._native(stage).run(values), {name: after[name] for name in changed})
        paths = graph.paths
        made = [(name, name, tensor) for name, tensor in zip(graph.outputs, got.outputs, strict=True)]
        made += [(paths[name], name, got.mutated[name]) for name in changed]
        return [tensor_comparison.Pair(shown, tensor, graph.types[name]) for shown, name, tensor in made], answers

    def _run_parts(self, stage: str, inputs: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Runs a broken-up callable, with each of its graphs computed by `stage`."""
        parts = self._program("run").parts
        assert parts is not None

        def part(graph: AtenGraph) -> graph_pieces.Run:
            from workbench.capturing import graph_pieces
            from workbench.operators.host import run_graph

            if stage == "captured":
                return partial(run_graph.execute_in_place, graph, registrations=self._registered())
            return self._native(stage, graph_pieces.part_of(self.stages.lowered().record, graph)).run

        def other(gm: torch.fx.GraphModule, given: tuple[object, ...]) -> graph_pieces.Run:
            asked = Request(GraphCall(gm), given, machine=self.request.machine, on_missing=self.request.on_missing)
            computing = Computing(asked, Stages(asked))
            program, native = computing._program("run"), computing.compiled()
            return lambda tensors: program.outputs([*tensors, *program.live()], native.run)

        return parts.run(part, other, tuple(inputs), kwargs)

    def _of_parts(self, stage: str, user: list[torch.Tensor]) -> tuple[list[Pair], Answers]:
        """All results and changed tensors of a broken-up callable, computed by this stage, and PyTorch's answers."""
        from workbench.checking import tensor_comparison, wide_reference

        program, target = self._program("check"), self.request.target
        assert target is not None

        def called(
            call: Callable[[Arguments], object], held: Callable[..., AbstractContextManager[None]]
        ) -> list[tuple[str, torch.Tensor, TensorType]]:
            from workbench.capturing import graph_pieces, tensor_copies
            from workbench.operators.tensors import reachable_tensors

            given, holds = tensor_copies.copies(user), reachable_tensors.reachable(target)
            arguments, tensors = program.arguments(given), [each.tensor for each in holds.tensors.values()]
            with tensor_copies.holding_as_before(holds.containers), held(given, tensors):
                result = call(arguments)
                now = [(each.path, each.read()) for each in holds.tensors.values()]
                return graph_pieces.leaves((result, arguments), now)

        def ours(_: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> AbstractContextManager[None]:
            from workbench.capturing import tensor_copies

            return tensor_copies.put_back(tensors)  # Dynamo needs the tensors themselves, so they are restored after

        def theirs(arithmetic: held_tensors.Arithmetic) -> list[torch.Tensor]:
            from workbench.checking import wide_reference

            def on_copies(
                given: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]
            ) -> AbstractContextManager[None]:
                from workbench.checking import held_tensors

                every = held_tensors.Holds(tensors, frozenset(map(id, tensors)))
                return every.on_copies(given, arithmetic)

            with wide_reference.as_found():
                return [tensor for _, tensor, _ in called(lambda given: target(*given[0], **given[1]), on_copies)]

        with wide_reference.lots_put_back():  # PyTorch draws the same random numbers
            mine = called(lambda given: self._run_parts(stage, *given), ours)
        return [tensor_comparison.Pair(name, got, kind) for name, got, kind in mine], wide_reference.Answers(theirs)

    def _eager(self, held: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors that the user's function returns, and those in its arguments' lists, dicts and objects after it.
        Changes of containers that the function holds are undone. `held` are the tensors that it holds; in a training
        step also gradients and optimizers' states.
        """
        from workbench.capturing import tensor_copies
        from workbench.operators.tensors import call_containers, reachable_tensors

        target, program = self.request.target, self._program("check")
        assert target is not None
        arguments, keywords = program.arguments(leaves)
        holds = reachable_tensors.reachable(target)
        with tensor_copies.holding_as_before(holds.containers), program.holding(held):
            given = call_containers.CallContainers.of(arguments, keywords, "")
            returned = target(*arguments, **keywords)
            return [tensor for _, tensor in given.after(returned)[1].leaves]

    def _native(self, stage: str, part: KernelGraph | None = None) -> NativeProgram:
        """The native program of all kernels, or of those of a part of the graph, at this stage."""
        from workbench.operators.host import host_steps
        from workbench.running import run_program

        program, cache = run_program.NativeProgram, self.stages.kernels()
        lowered, known = part or self.stages.lowered().record, self._registered()
        hosts, unproven = host_steps.functions(lowered, known), proven.unproven(lowered, known)
        if stage == "simulated":
            from workbench.checking.replay.timeline_order import kernels_in_order

            scheduled, trace = self.stages.scheduled().record, self.stages.simulated().record
            return program.from_functions(lowered, {**kernels_in_order(lowered, scheduled, trace), **hosts})
        if stage == "rendered":
            return program.from_rendered(lowered, self.stages.rendered().record, cache, hosts, unproven)
        changed = [kernel.kernel for kernel in self.stages.scheduled().record.kernels] if self.request.passes else []
        changed += [*(self.request.schedule or {})]
        unproven |= proven.changed(self.stages.lowered().record, self.stages.scheduled().record, changed)
        return program.from_scheduled(lowered, self.stages.scheduled().record, cache, hosts, unproven)

    def _registered(self) -> Registrations:
        return self.request.registrations or registry.DEFAULT.now()

    def _program(self, what: str) -> CapturedProgram:
        program = self.stages.captured().program
        if program is None:
            raise NoFunction(self.request.path, what)
        return program


def _names_any_of_equals(node: Node) -> bool:
    unordered = node.kwargs.get("stable") != Literal("bool", True)
    return node.op in _NAMES_ANY_OF_EQUALS or (node.op in _SORTS_AS_TOLD and unordered)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
