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
    """A graph from Dynamo, or one of the two that autograd makes of it, as the callable of a journey."""

    module: torch.fx.GraphModule
    part: str = ""
    """"forward" or "backward", if autograd made the graph; else empty."""
    saved: tuple[int, ...] = ()
    """Indices of values that the forward graph keeps for the backward one: of a forward graph's results, or of a
    backward graph's inputs."""
    broken_off: str = ""
    """The reason and place where Dynamo ended the graph early; the Python after it is in no journey. Else empty."""

    def __call__(self, *inputs: object) -> object:
        return cast("object", self.module(*inputs))

    @property
    def name(self) -> str:
        return f"compiled {self.part}" if self.part else "compiled"

    def saved_in(self, graph: AtenGraph) -> tuple[str, ...]:
        """The values that are kept for the backward graph; a result that aliases another value has that one's name."""
        if self.part == BACKWARD:
            return tuple(graph.inputs[place].value for place in self.saved)
        owners = {alias.output: alias.base for alias in graph.aliases}
        return tuple(dict.fromkeys(owners.get(place, graph.outputs[place]) for place in self.saved))


@dataclass(frozen=True)
class Request(Options):
    """The request of a journey: the call, its machine and its options."""

    target: Callable[..., object] | None = None
    """The function or module; None in a journey that was loaded from `path`, and if a stage is called alone."""
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
    """Graph passes and patterns registered at the request; in a loaded journey, the file's records of rewrites."""
    path: str = ""
    trusted: bool = True
    """True if scripts, passes and texts may do anything: False in a journey from a file, and in journeys made from it,
    unless the user trusts the file."""
    given_at: Mapping[str, str] = field(default_factory=dict[str, str])
    """Option -> the user's line that gave it, for errors that only a later stage can find."""

    @property
    def layout_here(self) -> Layout:
        """The layout option for this machine."""
        return layout_on(self.machine, self.layout)

    @property
    def held(self) -> str:
        """The file whose scripts, passes and texts are checked against the lists of scheduling/foreign_code.py; empty
        in a live or trusted journey."""
        return "" if self.trusted else self.path

    @contextlib.contextmanager
    def blaming_the_file(self) -> Generator[None]:
        """Turns exceptions in the block, except our own errors, into errors of the journey's file: its records have the
        right form, but may still call ops with wrong arguments."""
        try:
            yield
        except (WorkbenchError, Warning):  # a filter may turn a warning into an exception
            raise
        except Exception as error:
            if not self.path:
                raise
            text = str(error).strip().partition("\n")[0][:200]
            raise JourneyFileUnfit(self.path, f"{type(error).__name__}: {text}") from error

    def mappings(self, lowered: KernelGraph) -> RequestedMappings:
        """The requested mappings, by kernel of the graph."""
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
        """The user's mappings by kernel, without tuned ones; those of a mapping file are under the kernels' names."""
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
        """The machine's figures that grouping reads."""
        return room_of(self.machine)

    def given(self, **options: object) -> Request:
        """The same request, with the user's current line as the place of these options; None removes a place."""
        file, line = called_from()
        kept = {option: place for option, place in self.given_at.items() if option not in options}
        now = {option: f"{file}:{line}" for option, value in options.items() if file and value is not None}
        return replace(self, given_at=kept | now)

    @contextlib.contextmanager
    def blaming(self, option: str, *mistakes: type[WorkbenchError]) -> Generator[None]:
        """Adds the option, and the user's line or the file that gave it, to errors of these types in the block."""
        try:
            yield
        except mistakes as error:
            if place := self.given_at.get(option):
                error.args = (f"{error}\n{option}= was given at {place}",)
            elif self.path and getattr(self, option) is not None:
                error.args = (f"{error}\n{option}= is that of {self.path}; {option}=None leaves it out",)
            raise
