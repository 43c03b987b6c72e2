"""What a journey was asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final, cast

from simulator import Machine
from workbench import aten, environment
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    import torch

    from workbench.aten.registry import Registrations
    from workbench.lowering.fusion_options import UserFusion
    from workbench.scheduling.passes.wanted_passes import UserPasses
    from workbench.scheduling.user_mapping import UserMapping

OPTIONS: Final = (
    *("capture", "on_missing", "prefer", "mapping", "fusion", "schedule", "passes"),
    *("resident", "placement", "simulate_seconds"),
)
"""The options besides the machine."""


@dataclass(frozen=True)
class GraphCall:
    """A graph that Dynamo has made, as the callable of a journey."""

    module: torch.fx.GraphModule

    def __call__(self, *inputs: object) -> object:
        return cast("object", self.module(*inputs))


@dataclass(frozen=True)
class Request:
    """What a journey was asked for."""

    target: Callable[..., object] | None
    """None in a journey that was loaded from `path`."""
    inputs: tuple[object, ...]
    kwargs: Mapping[str, object]
    machine: Machine
    capture: str = "dynamo"
    on_missing: str = "host"
    mapping: Mapping[str, UserMapping] | None = None
    fusion: UserFusion = None
    schedule: Mapping[str, str] | None = None
    """Transform scripts by kernel."""
    passes: UserPasses | None = None
    """Pipelines of the user's own, by the step that each runs after."""
    own_passes: Mapping[str, Callable[..., object]] | None = None
    """What `wb.mlir_pass` had registered when `passes` were given; None is what it has when a kernel is scheduled."""
    prefer: str | None = None
    simulate_seconds: float | None = None
    resident: str | tuple[str, ...] | None = None
    """What stays in the common memory: names, `auto`, or nothing."""
    placement: Mapping[str, int | str] | None = None
    """On which chiplet tensors lie, or by which policy, by name."""
    registrations: Registrations | None = field(default_factory=lambda: aten.registry.DEFAULT.now())
    """What was registered when the journey was asked for; later changes do not reach it. None, in a loaded journey, is
    what is registered when a stage runs: what was registered once is code, which a file does not hold."""
    path: str = ""
    given_at: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where in the user's code an option was given, for mistakes that only a later stage can notice."""

    @property
    def options(self) -> dict[str, object]:
        """The options besides the machine that are not as they are when nobody gives them."""
        usual = {each.name: each.default for each in fields(self) if each.name in OPTIONS}
        return {name: getattr(self, name) for name in OPTIONS if getattr(self, name) != usual[name]}

    def given(self, **options: object) -> Request:
        """The same, with what is not None of these options given where the user's code calls us now."""
        file, line = environment.call_sites.called_from()
        kept = {option: place for option, place in self.given_at.items() if option not in options}
        now = {option: f"{file}:{line}" for option, value in options.items() if file and value is not None}
        return replace(self, given_at=kept | now)

    @contextlib.contextmanager
    def blaming(self, option: str, *mistakes: type[WorkbenchError]) -> Generator[None]:
        """Says of such mistakes found inside which option they are about, and where that was given."""
        try:
            yield
        except mistakes as error:
            if place := self.given_at.get(option):
                error.args = (f"{error}\n{option}= was given at {place}",)
            raise
