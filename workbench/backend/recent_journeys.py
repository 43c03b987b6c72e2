"""The journeys of the last compilation, kept as global state: PyTorch calls the backend, and the user reads them
later."""

from __future__ import annotations

from collections import deque
from typing import Final

from workbench.journey import Journey

_KEPT: Final = 8
"""The number of journeys that are kept: a backward pass may run after later journeys were made."""


class _Recent:
    def __init__(self) -> None:
        self._journeys: list[Journey] = []
        self._kept = deque[Journey](maxlen=_KEPT)
        self._broken_off = False

    def add(self, journey: Journey, *, broken_off: bool) -> None:
        """Adds the graph after a graph break to those before it; any other graph starts a new list."""
        if not self._broken_off:
            self._journeys = []
        self._journeys.append(journey)
        self._kept.append(journey)
        self._broken_off = broken_off

    def add_backward(self, journey: Journey, forward: Journey | None) -> None:
        """Adds the backward pass of a forward journey, which may be gone by now. If that journey belongs to an earlier
        compilation, a new list starts with it."""
        if not any(each is forward for each in self._journeys):
            self._journeys = [] if forward is None else [forward]
        self._journeys.append(journey)

    def all(self) -> tuple[Journey, ...]:
        return tuple(self._journeys)


RECENT: Final = _Recent()


def last_journeys() -> tuple[Journey, ...]:
    """The journeys of the last compilation by `torch.compile(backend="npu")`, one for each graph, in order.

    The journey of a backward pass is added at the first `backward()`, after those of the forward pass. Journeys only
    hold graphs: the work of Python and PyTorch between two graphs is in no journey and costs nothing there.
    `captured.breaks` says where this work is; `wb.trace` charges it.
    """
    return RECENT.all()
