"""Findings as cards: place, reason, cycles at stake, remedy and its saving."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from workbench.ground.basics.html_builder import NO_HTML, html, joined
from workbench.ground.basics.markup import breakable, details

OVERLAP: Final = (
    "Rows may have the same cycles at stake, so they do not add up: j.findings.followed() measures several remedies "
    "together."
)


@dataclass(frozen=True, slots=True)
class Card:
    """A finding in the words and figures that a person reads."""

    rule: str
    title: str
    """The kernel's title; empty if the finding is about the whole program."""
    kernel: str
    """The kernel's name in calls."""
    reason: str
    place: str
    """The line of Python."""
    cycles: int
    """Cycles at stake; 0 if there is nothing to gain."""
    whole: int
    """Cycles of the run."""
    call: str = ""
    """The call to try."""
    predicted: int | None = None
    """Cycles that the call is predicted to save."""
    measured: int | None = None
    """Cycles that the call saved when it was tried."""
    ask: str = ""
    """The call that measures the saving, if it is not known yet."""
    untried: str = ""
    """The reason why the call was not tried, though the calls of other findings were."""
    hardware: bool = False
    """True if the call changes the machine."""

    @property
    def stake(self) -> str:
        """`1,024 cycles at stake, 4.0% of all`."""
        return f"{self.cycles:,} cycles at stake, {_part(self.cycles, self.whole)} of all" if self.cycles else ""

    @property
    def gain(self) -> str:
        """The call's saving, and its source: measured, predicted, or the call that finds it."""
        return "; ".join(filter(None, (self._saves, self.untried)))

    @property
    def _saves(self) -> str:
        if not self.call:
            return ""
        if self.measured is not None:
            return f"measured: {_saved(self.measured, self.whole)}"
        if self.predicted is not None:
            return f"predicted: {_saved(self.predicted, self.whole)}"
        return self.ask

    @property
    def _try(self) -> str:
        return "try other hardware:" if self.hardware else "try"

    def text(self, width: int = 0) -> str:
        """A few lines for a terminal, wrapped to `width` unless it is 0."""
        lines = [f"{self.rule}: {self.title or 'the whole program'}" + (f" ({self.stake})" if self.stake else "")]
        lines += [f"  {self.reason}"]
        lines += [f"  at {self.place}, {self.kernel}".rstrip(", ")] if self.place else []
        lines += [f"  {self._try} {self.call}", f"      {self.gain}"] if self.call else []
        return "\n".join(_wrapped(line, width) if width else line for line in lines)

    def html(self) -> Markup:
        """The finding as a box."""
        where = ", ".join(filter(None, (self.kernel, self.place.replace("\\", "/").rpartition("/")[2])))
        told = html(' <span class="soft mono">{where}</span>', where=where) if where else ""
        stake = html('<span class="stake">{}</span>', self.stake) if self.stake else ""
        known = self.predicted is not None or self.measured is not None
        gain = html("<b>{}</b>", self.gain) if known else html('<span class="soft">{}</span>', self.gain)
        tried = (
            html("<p>{} <code>{}</code></p><p>{gain}</p>", self._try, breakable(self.call), gain=gain)
            if self.call
            else ""
        )
        return html(
            '<div class="finding"><div><b>{}</b>{stake}</div><p><b>{}</b>{told}</p><p>{}</p>{tried}</div>',
            self.rule,
            self.title or "the whole program",
            self.reason,
            stake=stake,
            told=told,
            tried=tried,
        )


@dataclass(frozen=True, slots=True)
class Why:
    """The reasons for a run's time."""

    binding: str
    """The line that says what limits the time."""
    cards: tuple[Card, ...]


def cards_text(cards: Iterable[Card], width: int, most: int) -> str:
    """The first `most` cards as text for a terminal, and the number of the others."""
    every = list(cards)
    if not every:
        return "No rule has found anything."
    shown = [card.text(width) for card in every[:most]]
    more = [f"{len(every) - most} more"] if len(every) > most else []
    note = [textwrap.fill(OVERLAP, width)] if _overlap(every) else []
    return "\n\n".join([*shown, *more, *note])


def binding_html(line: str) -> Markup:
    """The line that says what limits the run's time, for the place above its findings."""
    first, _, rest = line.partition(": ")
    return html("<p><b>{}</b>{}</p>", first, f": {rest}" if rest else "") if line else NO_HTML


def cards_html(cards: Iterable[Card], most: int) -> Markup:
    """The first cards with something to gain; below them all other cards, in a part that opens on a click."""
    every = sorted(cards, key=lambda card: not card.cycles)
    shown = [card for card in every if card.cycles][:most] or every[:most]
    rest = [card for card in every if card not in shown]
    none = sum(not card.cycles for card in rest)
    note = f"{none} of them with nothing to gain" if none else ""
    more = details(f"{len(rest)} more", _boxes(rest), note=note) if rest else ""
    overlap = html('<p class="soft">{}</p>', OVERLAP) if _overlap(every) else NO_HTML
    return _boxes(shown) + more + overlap if every else html('<p class="soft">No rule has found anything.</p>')


def _overlap(cards: Iterable[Card]) -> bool:
    """True if several findings have cycles at stake. These may be the same cycles, once as a kernel's wait and once as
    its bytes."""
    return sum(card.cycles > 0 for card in cards) > 1


def _boxes(cards: Iterable[Card]) -> Markup:
    return html('<div class="findings">{}</div>', joined(card.html() for card in cards))


def _wrapped(line: str, width: int) -> str:
    """Wraps a line; further lines are indented more. A word is never broken, so that a path or a call can be copied."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _part(part: int, whole: int) -> str:
    return f"{part / max(whole, 1):.1%}"


def _saved(cycles: int, whole: int) -> str:
    if cycles < 0:
        return f"costs {-cycles:,} cycles more, {_part(-cycles, whole)}"
    return f"saves {cycles:,} cycles, {_part(cycles, whole)}"
