"""The request of a journey: the call, its machine and its options."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from workbench.ground.environment.call_sites import called_from
from workbench.ground.environment.registered import REWRITES
from workbench.ground.errors import JourneyFileUnfit, WorkbenchError
from workbench.ir import BACKWARD
from workbench.ir.kernel_names import by_full_names
from workbench.lowering.fusion_options import rewrites_off, rules_off
from workbench.lowering.layout_options import Layout, layout_on
from workbench.lowering.product_room import Room, room_of
from workbench.operators.aten.registry import DEFAULT
from workbench.scheduling.mappings.requested_mappings import requested_mappings
from workbench.scheduling.user_mapping import check_kernels
from workbench.stages.options import Options

if TYPE_CHECKING:
    import torch

    from workbench.capturing.rewriting.rewrite import Step
    from workbench.ir import AtenGraph, KernelGraph
    from workbench.operators.aten.registry import Registrations
    from workbench.scheduling.mappings.requested_mappings import RequestedMappings
    from workbench.scheduling.user_mapping import UserMapping


@dataclass(frozen=True)
class GraphCall:
    """A graph of Dynamo's, or one of the two that autograd makes of it, as the callable of a journey."""

    module: torch.fx.GraphModule
    part: str = ""
    """Forward or backward, if its results have gradients."""
    saved: tuple[int, ...] = ()
    """The numbers of what one keeps for the other: results of a forward graph, inputs of a backward one."""
    broken_off: str = ""
    """Why and where Dynamo ended the graph before the function's end: what runs then is in no journey."""

    def __call__(self, *inputs: object) -> object:
        return cast("object", self.module(*inputs))

    @property
    def name(self) -> str:
        return f"compiled {self.part}" if self.part else "compiled"

    def saved_in(self, graph: AtenGraph) -> tuple[str, ...]:
        """The values that are kept, each memory under the name of its owner."""
        if self.part == BACKWARD:
            return tuple(graph.inputs[place].value for place in self.saved)
        owners = {alias.output: alias.base for alias in graph.aliases}
        return tuple(dict.fromkeys(owners.get(place, graph.outputs[place]) for place in self.saved))


@dataclass(frozen=True)
class Request(Options):
    """The request of a journey: the call, its machine and its options."""

    target: Callable[..., object] | None = None
    """None in a journey that was loaded from `path`, and where one stage is called alone."""
    inputs: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict[str, object])
    train: bool = False
    own_passes: Mapping[str, Callable[..., object]] | None = None
    """The passes that were registered when `passes` were given; None means those registered when a kernel is
    scheduled."""
    registrations: Registrations | None = field(default_factory=lambda: DEFAULT.now())
    """The registrations when the journey was requested; later changes do not affect it. None, in a loaded journey,
    means those registered when a stage runs: registrations are code, which a file does not hold."""
    rewrites: Mapping[str, Step] = field(default_factory=REWRITES.now)
    """Graph passes and patterns, as they were registered then; in a loaded journey what those of the file made."""
    path: str = ""
    trusted: bool = True
    """Whether somebody vouches for what MLIR would be given: False in a journey of a file, and in all made of it."""
    given_at: Mapping[str, str] = field(default_factory=dict[str, str])
    """The user's line that gave an option, for errors that only a later stage can find."""

    @property
    def layout_here(self) -> Layout:
        """The layout option, as the machine has it."""
        return layout_on(self.machine, self.layout)

    @property
    def held(self) -> str:
        """The file whose scripts, passes and texts are held against the lists of scheduling/foreign_code.py; empty in
        a live journey, and in one that is trusted."""
        return "" if self.trusted else self.path

    @contextlib.contextmanager
    def blaming_the_file(self) -> Generator[None]:
        """Makes exceptions that are no errors of ours, raised in the block, errors of the file that the journey is
        from: its records are in form, but may still call ops with what they do not take."""
        try:
            yield
        except (WorkbenchError, Warning):  # a warning that a filter makes an error
            raise
        except Exception as error:
            if not self.path:
                raise
            text = str(error).strip().partition("\n")[0][:200]
            raise JourneyFileUnfit(self.path, f"{type(error).__name__}: {text}") from error

    def mappings(self, lowered: KernelGraph) -> RequestedMappings:
        """The mapping that the user asks for, by kernel of the graph."""
        return requested_mappings(lowered, self.machine, self.mapping, self.tuned, self.schedule or {})

    def check_kernels_named(self, lowered: KernelGraph) -> None:
        """Raises for a mapping of unknown kernels, as soon as the kernels' names are known."""
        if isinstance(self.mapping, dict):
            names = [kernel.name for kernel in lowered.kernels]
            check_kernels(by_full_names(self.mapping, names), names)

    def check_rules_named(self) -> None:
        """Raises for fusion options that name an unknown rule; nodes are known when the graph is lowered."""
        rules_off(self.fusion, self.rewrites)

    def said(self, lowered: KernelGraph) -> dict[str, UserMapping]:
        """The mappings that the user gives kernels, those of a file by the kernels' names."""
        return dict(replace(self, tuned=None).mappings(lowered).mapping or {})

    @property
    def rewrites_off(self) -> frozenset[str]:
        """The graph passes and patterns that are turned off."""
        if not self.rewrites:
            return frozenset()
        from workbench.capturing.rewriting.rewrite import is_pattern

        patterns = [name for name, step in self.rewrites.items() if is_pattern(step)]
        return rewrites_off(self.fusion, patterns, self.rewrites.keys() - {*patterns})

    @property
    def room_here(self) -> Room:
        """The limits of the machine that grouping reads."""
        return room_of(self.machine)

    def given(self, **options: object) -> Request:
        """The same, with the user's current line as the place of these options, as far as they are not None."""
        file, line = called_from()
        kept = {option: place for option, place in self.given_at.items() if option not in options}
        now = {option: f"{file}:{line}" for option, value in options.items() if file and value is not None}
        return replace(self, given_at=kept | now)

    @contextlib.contextmanager
    def blaming(self, option: str, *mistakes: type[WorkbenchError]) -> Generator[None]:
        """Adds to such errors, raised in the block, the option and the user's line, or the file, that gave it."""
        try:
            yield
        except mistakes as error:
            if place := self.given_at.get(option):
                error.args = (f"{error}\n{option}= was given at {place}",)
            elif self.path and getattr(self, option) is not None:
                error.args = (f"{error}\n{option}= is that of {self.path}; {option}=None leaves it out",)
            raise
