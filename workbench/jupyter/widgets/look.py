"""A look: one more view of a journey, shown below the lab's timeline and also as a widget of its own.

Its module asks `link.ask("at", {...})`, and the method `answer_at` of the look answers. A look does not know the widget
that shows it: `tell` reaches its module in any widget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from workbench.ground.errors import BadOption
from workbench.jupyter.widgets.answers import Answer, Buffer, Later

Question = tuple[str, Mapping[str, object]]
"""A module's question: `("grid", {"kernel": "k0"})` is `link.ask("grid", {kernel: "k0"})`."""

Tell = Callable[[str, Mapping[str, object], Sequence[Buffer]], None]


class Look:
    """Answers one view. Subclasses set `name`, under which `looks.js` registers their module."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self._tell: Tell | None = None

    def attach(self, tell: Tell) -> None:
        """Sets the function by which `tell` sends messages."""
        self._tell = tell

    def tell(self, what: str, given: Mapping[str, object], buffers: Sequence[Buffer] = ()) -> None:
        """Sends an unrequested message: `link.on(what, ...)` of its module receives it."""
        if self._tell is not None:
            self._tell(f"{self.name}.{what}", given, buffers)

    def answer(self, ask: str, given: Mapping[str, object]) -> Answer | Later:
        method = getattr(self, f"answer_{ask}", None)
        if method is None:
            raise BadOption(f"the view {self.name} has no answer to {ask!r}")
        return method(**given)

    def recorded(self) -> Sequence[Question] | None:
        """Returns all questions that its module may ask, for a page without Python (`j.to_html(path,
        interactive=True)`).

        The questions are answered when the page is written, so no answer may depend on the selection. A view that
        cannot list its questions returns None, and the page leaves it out.
        """
        return None

    def close(self) -> None:
        """Ends the work that the look started, and releases what it holds."""
        self._tell = None
