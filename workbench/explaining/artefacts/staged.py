"""The protocol of a journey, for packages that must not import it: its stages, and a copy with something changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from simulator import Machine
from workbench.explaining.artefacts.captured import Captured
from workbench.explaining.artefacts.lowered import Lowered
from workbench.explaining.artefacts.rendered import Rendered
from workbench.explaining.artefacts.scheduled import Scheduled
from workbench.explaining.artefacts.simulated import Simulated


class Staged(Protocol):
    """The parts of a journey that knobs and findings use."""

    @property
    def captured(self) -> Captured: ...

    @property
    def lowered(self) -> Lowered: ...

    @property
    def rendered(self) -> Rendered: ...

    @property
    def scheduled(self) -> Scheduled: ...

    @property
    def simulated(self) -> Simulated: ...

    @property
    def machine(self) -> Machine: ...

    @property
    def options(self) -> Mapping[str, object]: ...

    @property
    def findings(self) -> Any:
        """A `Findings`."""
        ...

    def experiment(self) -> Any:
        """An `Experiment`."""
        ...

    def with_(self, *args: Any, **kwargs: Any) -> Any:
        """A journey of the same class."""
        ...


J = TypeVar("J", bound=Staged)
"""The class of the journey."""
