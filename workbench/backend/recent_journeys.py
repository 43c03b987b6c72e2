"""The journeys of the last compilation. This must be state: PyTorch calls us, and the user reads it later."""

from __future__ import annotations

from collections import deque
from typing import Final

from workbench.journey import Journey

_KEPT: Final = 8
"""The number of journeys that are kept: the backward pass of one may be run after others were made."""


class _Recent:
    def __init__(self) -> None:
        self._journeys: list[Journey] = []
        self._kept = deque[Journey](maxlen=_KEPT)
        self._broken_off = False

    def add(self, journey: Journey, *, broken_off: bool) -> None:
        """Adds the graph after a graph break to those before it; any other graph begins anew."""
        if not self._broken_off:
            self._journeys = []
        self._journeys.append(journey)
        self._kept.append(journey)
        self._broken_off = broken_off

    def add_backward(self, journey: Journey, forward: Journey | None) -> None:
        """Adds the backward pass of a forward one, which may be known no longer. One that belongs to an earlier
        compilation begins anew."""
        if not any(each is forward for each in self._journeys):
            self._journeys = [] if forward is None else [forward]
        self._journeys.append(journey)

    def all(self) -> tuple[Journey, ...]:
        return tuple(self._journeys)


RECENT: Final = _Recent()


def last_journeys() -> tuple[Journey, ...]:
    """The journeys of the last compilation by `torch.compile(backend="npu")`, one for each graph, in order.

    The journey of a backward pass comes with the first `backward()`, behind those of the forward pass. Graphs are all
    that they have: what Python and PyTorch compute between two of them is in none, and costs nothing there.
    `captured.breaks` says where that is; `wb.trace` charges it.
    """
    return RECENT.all()
