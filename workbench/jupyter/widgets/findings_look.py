"""The findings below the lab's timeline: why the run takes as long as it does, what to try, and what that saves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from workbench.exploring.summary import MOST_SPANS
from workbench.ground.environment.progress import in_background
from workbench.jupyter.widgets.answers import Answer, Later
from workbench.jupyter.widgets.look import Look, Question

if TYPE_CHECKING:
    from workbench.explaining.artefacts import Simulated
    from workbench.explaining.findings.findings_answer import Findings
    from workbench.ground.basics.cards import Card


class FindingsLook(Look):
    """Answers the findings' module. The rules run when the view is first opened."""

    name = "findings"

    def __init__(self, run: Callable[[], Simulated], findings: Callable[[], Findings]) -> None:
        super().__init__()
        self._run, self._ask_rules = run, findings
        self._found: Findings | None = None
        self._over = threading.Event()

    def answer_open(self) -> Answer | Later:
        """All cards, with the rows of the events that show each."""
        if len(self._run().record) > MOST_SPANS:
            return {"cards": [], "note": "j.findings has them; for a run of this many spans it takes a while"}
        return Later(self._cards)

    def answer_measure(self, row: int) -> Later:
        """Tries the remedy of a row: all stages run again with it."""

        def measured() -> Answer:
            with in_background("try the remedy", self._over):
                return {"card": self._plain(row, self._findings.measured(row))}

        return Later(measured)

    def _cards(self) -> Answer:
        with in_background("findings", self._over):
            cards = [self._plain(row, card) for row, card in enumerate(self._findings.cards)]
            return {"cards": cards, "binding": self._findings.binding}

    def recorded(self) -> list[Question]:
        return [("open", {})]

    @property
    def _findings(self) -> Findings:
        if self._found is None:
            self._found = self._ask_rules()
        return self._found

    def _plain(self, row: int, card: Card) -> Mapping[str, object]:
        spans = [int(each) for each in self._findings.records[row].spans]
        return {
            "html": card.html(),
            "kernel": card.kernel,
            "title": f"{card.rule}: {card.title or 'the whole program'}",
            "spans": spans,
            "tries": bool(card.call) and card.measured is None,
        }

    def close(self) -> None:
        self._over.set()
        self._found = None
        super().close()
