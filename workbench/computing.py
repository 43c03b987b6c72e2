"""A journey's numbers: what `run` and `check` compute, natively or with PyTorch, whole or in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from workbench import mlir, ops
from workbench.check import Check
from workbench.errors import BadOption, NoData, NoFunction
from workbench.ir import AtenGraph, KernelGraph, TensorType
from workbench.options import checked_tolerance
from workbench.pipeline import GraphCall, Request, Stages
from workbench.progress import waiting

if TYPE_CHECKING:
    import torch

    from workbench.mlir.runtime import NativeProgram
    from workbench.ops.captured import CapturedProgram
    from workbench.ops.compare import Pair
    from workbench.ops.registry import Registrations

_RANDOM: Final = (
    "two runs in PyTorch disagree as well: the function draws random numbers, and no two runs draw the same. To "
    "compare, switch that off, e.g. model.eval() or a dropout of 0"
)

_TIES: Final = (
    "PyTorch leaves open which of equal elements {ops} names: where values are equal, another place is no error. To "
    "compare places, give values that all differ, or use a stable sort"
)
_NAMES_ANY_OF_EQUALS: Final = frozenset({"aten.topk.default", "aten.kthvalue.default", "aten.median.dim"})

CHECKED_STAGES: Final = ("captured", "rendered", "scheduled")


@dataclass(frozen=True)
class Computing:
    """What computes a journey's function, stage by stage."""

    request: Request
    stages: Stages

    def run(self, inputs: Sequence[object], kwargs: Mapping[str, object] | None) -> object:
        """What the function returns, of the scheduled MLIR."""
        program = self._program("run")
        values = self._with_data("run", program.values(inputs, kwargs))
        if program.parts:
            return self._run_parts("scheduled", inputs, kwargs or {})
        return program.returned(values, self._native("scheduled").run(values))

    def check(
        self,
        inputs: Sequence[object],
        kwargs: Mapping[str, object] | None,
        stage: str,
        rtol: float | None,
        atol: float | None,
    ) -> Check:
        """A stage's numbers beside PyTorch's."""
        if stage not in CHECKED_STAGES:
            raise BadOption(f"stage={stage!r} cannot be checked; the stages with numbers are {_listed(CHECKED_STAGES)}")
        rtol, atol = checked_tolerance("rtol", rtol), checked_tolerance("atol", atol)
        program = self._program("check")
        if not inputs and kwargs is None:
            inputs, kwargs = self.request.inputs, self.request.kwargs
        values = self._with_data("check", program.values(inputs, kwargs))
        count = sum(slot.kind == "user" for slot in program.graph.inputs)
        user, held = values[:count], values[count:]
        with waiting("check"):
            pairs = self._pairs_of_parts(stage, user) if program.parts else self._pairs(stage, user, held)
            check = Check(stage, ops.compare.compare(pairs, rtol=rtol, atol=atol))
            return check if check.ok or program.parts else replace(check, hint=self._hint(check, user, held))

    def _hint(self, check: Check, user: list[torch.Tensor], held: list[torch.Tensor]) -> str:
        """What is known about a failure: places of equals are open, and random functions disagree with themselves."""
        open_ops = sorted({node.op for node in self.stages.captured().record.nodes} & _NAMES_ANY_OF_EQUALS)
        if open_ops and all(result.ok or "i64" in result.type for result in check.results):
            return _TIES.format(ops=" or ".join(op.split(".")[1] for op in open_ops))
        graph, pair = self.stages.captured().record, ops.compare.Pair
        first, second = (ops.reference.reference(self._eager, graph, user, held).outputs for _ in range(2))
        twice = [pair(name, a, b, graph.types[name]) for name, a, b in zip(graph.outputs, first, second, strict=True)]
        return "" if all(each.ok for each in ops.compare.compare(twice)) else _RANDOM

    def compiled(self) -> NativeProgram:
        """The native program of `run`."""
        return self._native("scheduled")

    def _with_data(self, asked: str, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The values, if all of them hold numbers."""
        graph = self.stages.captured().record
        empty = [slot.path for slot, value in zip(graph.inputs, values, strict=True) if value.is_meta]
        if empty:
            shown = ", ".join(empty[:4]) + (f" and {len(empty) - 4} more" if len(empty) > 4 else "")
            raise NoData(
                f"{graph.name} cannot {asked}: {shown} lie on the meta device, which has shapes and no numbers. "
                f"Everything but run and check works without them; for these, trace again with the model and its "
                f"inputs on the CPU, e.g. model.to_empty(device='cpu') and load its weights"
            )
        return values

    def _pairs(self, stage: str, user: list[torch.Tensor], held: list[torch.Tensor]) -> list[Pair]:
        """Outputs and mutated inputs, each as this stage makes it beside what PyTorch makes."""
        graph, pair = self.stages.captured().record, ops.compare.Pair
        changed = {change.target for change in graph.mutations}
        values = [
            value.detach().clone() if slot.value in changed else value
            for slot, value in zip(graph.inputs, [*user, *held], strict=True)
        ]
        expected = ops.reference.reference(self._eager, graph, user, held)
        if stage == "captured":
            got = ops.execute.execute(graph, values, self._registered())
        else:
            outputs = self._native(stage).run(values)
            after = {slot.value: value for slot, value in zip(graph.inputs, values, strict=True)}
            got = ops.execute.Executed(outputs, {name: after[name] for name in changed})
        paths = {slot.value: slot.path for slot in graph.inputs}
        pairs = [
            pair(name, mine, theirs, graph.types[name])
            for name, mine, theirs in zip(graph.outputs, got.outputs, expected.outputs, strict=True)
        ]
        return pairs + [
            pair(paths[name], got.mutated[name], expected.mutated[name], graph.types[name]) for name in sorted(changed)
        ]

    def _run_parts(self, stage: str, inputs: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Runs a callable that is broken up, its graphs as `stage` has them."""
        parts = self._program("run").parts
        assert parts is not None

        def part(graph: AtenGraph) -> ops.parts.Run:
            if stage == "captured":
                return partial(ops.execute.execute_in_place, graph, registrations=self._registered())
            return self._native(stage, ops.parts.part_of(self.stages.lowered().record, graph)).run

        def other(gm: torch.fx.GraphModule, given: tuple[object, ...]) -> ops.parts.Run:
            none = MappingProxyType(dict[str, object]())
            asked = Request(GraphCall(gm), given, none, self.request.machine, on_missing=self.request.on_missing)
            computing = Computing(asked, Stages.of(asked))
            program, native = computing._program("run"), computing.compiled()
            return lambda tensors: program.outputs([*tensors, *program.live()], native.run)

        return parts.run(part, other, tuple(inputs), kwargs)

    def _pairs_of_parts(self, stage: str, user: list[torch.Tensor]) -> list[Pair]:
        """All that a call of a broken-up callable gives and changes, beside what PyTorch's does."""
        program, graph = self._program("check"), self.stages.captured().record
        paths = [slot.path for slot in graph.inputs]

        def called(
            call: Callable[[list[torch.Tensor], list[torch.Tensor]], object],
        ) -> list[tuple[str, torch.Tensor, TensorType]]:
            given, held = ops.memory.copies(user), program.live()
            with ops.memory.put_back(held):
                result = call(given, held)
                return ops.parts.leaves(result, list(zip(paths, [*given, *held], strict=True)))

        mine = called(lambda given, _: self._run_parts(stage, *program.arguments(given)))
        theirs = called(lambda given, held: ops.reference.computed(self._eager, graph, given, held))
        return [
            ops.compare.Pair(name, got, expected, kind)
            for (name, got, kind), (_, expected, _) in zip(mine, theirs, strict=True)
        ]

    def _eager(self, leaves: Sequence[torch.Tensor]) -> object:
        """Calls the user's own function."""
        assert self.request.target is not None
        arguments, keywords = self._program("check").arguments(leaves)
        return self.request.target(*arguments, **keywords)

    def _native(self, stage: str, part: KernelGraph | None = None) -> NativeProgram:
        """All kernels, or those of a part of the graph, as a program."""
        program, cache = mlir.runtime.NativeProgram, self.stages.kernels()
        lowered, known = part or self.stages.lowered().record, self._registered()
        hosts, unproven = ops.host.functions(lowered, known), ops.proven.unproven(lowered, known)
        if stage == "rendered":
            return program.from_rendered(lowered, self.stages.rendered().record, cache, hosts, unproven)
        changed = [kernel.kernel for kernel in self.stages.scheduled().record.kernels] if self.request.passes else []
        changed += [*(self.request.schedule or {})]
        unproven |= ops.proven.changed(self.stages.lowered().record, self.stages.scheduled().record, changed)
        return program.from_scheduled(lowered, self.stages.scheduled().record, cache, hosts, unproven)

    def _registered(self) -> Registrations:
        return self.request.registrations or ops.registry.DEFAULT.now()

    def _program(self, what: str) -> CapturedProgram:
        program = self.stages.captured().program
        if program is None:
            raise NoFunction(self.request.path, what)
        return program


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
