"""The browser's side of a widget, without a browser: messages as the front end sends them, and what comes back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from workbench.jupyter.widgets.widget_base import LabWidget

PATIENCE_SECONDS = 120


class Front:
    """Stands where the front end stands: asks a widget and keeps all that it sends."""

    def __init__(self, widget: LabWidget) -> None:
        self.widget = widget
        self.sent: list[tuple[dict[str, Any], Sequence[Any]]] = []
        widget.send = self._heard  # type: ignore[method-assign]
        self._last = 0

    def _heard(self, content: dict[str, Any], buffers: Sequence[Any] | None = None) -> None:
        self.sent.append((content, buffers or []))

    def post(self, content: dict[str, Any], buffers: Sequence[Any] = ()) -> None:
        """A message as the comm hands it over."""
        self.widget._handle_custom_msg(content, list(buffers))

    def ask(self, what: str, /, *, buffers: Sequence[Any] = (), **given: object) -> dict[str, Any]:
        """The message that answers."""
        self._last += 1
        self.post({"id": self._last, "ask": what, "given": given}, buffers)
        until = time.monotonic() + PATIENCE_SECONDS
        while not (answers := [content for content, _ in self.sent if content.get("id") == self._last]):
            assert time.monotonic() < until, f"{what} was not answered"
            time.sleep(0.01)
        assert len(answers) == 1, answers
        return answers[0]

    def answer(self, what: str, /, **given: object) -> Any:
        """Returns the answer to a question; fails if it is an error."""
        found = self.ask(what, **given)
        assert "error" not in found, found["error"]
        return found["answer"]

    def told(self, what: str) -> list[dict[str, Any]]:
        """Messages of this name that the widget sent by itself."""
        return [content["given"] for content, _ in self.sent if content.get("tell") == what]
